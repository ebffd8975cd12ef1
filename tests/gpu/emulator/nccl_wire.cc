/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/gpu/emulator/nccl_wire.h"

#include <algorithm>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

namespace dt_emulator
{

enum : size_t { PIPE = 64 * 1024, SPLITS = 64, RANKS = 64 };

/* One writer, one reader; both counts only grow. */
struct wire::pipe {
    std::atomic<uint64_t> written, read;
    unsigned char bytes[PIPE];
};

struct wish {
    std::atomic<int> said;
    int colour, key;
};

/* All zeros at first: whoever comes first makes it. */
struct wire::segment {
    std::atomic<int> here;
    wish splits[SPLITS][RANKS];
    pipe pipes[]; /* [from][to] */
};

wire::wire(const std::string &its_name, int all, int own, segment *s, size_t size)
    : name(its_name), ranks(all), rank(own), seg(s), bytes(size)
{
    seg->here++;
}

wire *wire::open(const std::string &called, int all, int own)
{
    if (all > int(RANKS))
        return nullptr;
    size_t size = sizeof(segment) + size_t(all) * size_t(all) * sizeof(pipe);
    int fd = shm_open(called.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return nullptr;
    void *at = MAP_FAILED;
    if (ftruncate(fd, off_t(size)) == 0)
        at = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return at == MAP_FAILED ? nullptr
                            : new wire(called, all, own, static_cast<segment *>(at), size);
}

wire::~wire()
{
    if (!all_here())
        shm_unlink(name.c_str());
    munmap(seg, bytes);
}

/* The name is of no more use when all have come. */
bool wire::all_here()
{
    if (seg->here < ranks)
        return false;
    shm_unlink(name.c_str());
    return true;
}

wire::pipe *wire::from_to(int from, int to)
{
    return &seg->pipes[size_t(from) * ranks + to];
}

size_t wire::send(int to, const void *from, size_t n)
{
    pipe *p = from_to(rank, to);
    uint64_t at = p->written;
    n = std::min(n, size_t(PIPE - (at - p->read)));
    size_t first = std::min(n, size_t(PIPE - at % PIPE));
    memcpy(p->bytes + at % PIPE, from, first);
    memcpy(p->bytes, static_cast<const unsigned char *>(from) + first, n - first);
    p->written = at + n;
    return n;
}

size_t wire::receive(int from, void *to, size_t n)
{
    pipe *p = from_to(from, rank);
    uint64_t at = p->read;
    n = std::min(n, size_t(p->written - at));
    size_t first = std::min(n, size_t(PIPE - at % PIPE));
    memcpy(to, p->bytes + at % PIPE, first);
    memcpy(static_cast<unsigned char *>(to) + first, p->bytes, n - first);
    p->read = at + n;
    return n;
}

void wire::say_split(unsigned number, int colour, int key)
{
    wish *w = &seg->splits[number % SPLITS][rank];
    w->colour = colour;
    w->key = key;
    w->said = int(number) + 1;
}

bool wire::split_of(unsigned number, int of, int *colour, int *key)
{
    wish *w = &seg->splits[number % SPLITS][of];
    if (w->said != int(number) + 1)
        return false;
    *colour = w->colour;
    *key = w->key;
    return true;
}

} // namespace dt_emulator
