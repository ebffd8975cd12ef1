/* SPDX-License-Identifier: Apache-2.0 */
/* Runs grids: block after block, and in a block each thread until it has to wait. A thread that
 * never waits leaves its stack to the next, so that kernels without barriers cost little more than
 * a loop. */
#include "tests/gpu/emulator/block.h"
#include "tests/gpu/emulator/memory.h"

#include <mutex>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string>
#include <sys/mman.h>

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace dt_emulator
{

enum : size_t { FENCE = 32, PAGE = 4096 };
static const unsigned char FENCE_BYTE = 0xa5;

struct shared_array {
    const void *site;
    unsigned char *at;
    size_t bytes;
};

/* One for all kernels: only one runs at a time. */
struct machine {
    std::mutex busy;
    std::vector<fiber *> idle;
    std::vector<thread> threads;
    unsigned waiting[1024 / WARP] = {}; /* lanes of each warp */
    thread *current = nullptr;
    const char *kernel = nullptr;
    const std::function<void()> *body = nullptr;

    unsigned char *shared = nullptr; /* SHARED bytes that end at a page nobody may touch */
    size_t shared_dynamic = 0, shared_used = 0;
    std::vector<shared_array> arrays;
    unsigned blocks = 0; /* run so far */

    size_t seed = 0;
    uint64_t random = 0;
};

unsigned char *shared_begin;

/* Made as the library is loaded, and never gone: this is asked for at each access to memory. */
static machine *const made = new machine();

static machine &the()
{
    return *made;
}

thread *current()
{
    return the().current;
}

int lane()
{
    return the().current->lane;
}

/* "norm_forward<float, 4>" of the text of a launch's arguments. */
static std::string kernel_name(const char *call)
{
    int angles = 0;
    size_t n = 0;
    for (; call[n] && (call[n] != ',' || angles > 0); n++)
        angles += (call[n] == '<') - (call[n] == '>');
    return std::string(call, n);
}

void give_up(const char *format, ...)
{
    machine &m = the();
    va_list ap;
    va_start(ap, format);
    fputs("emulator: ", stderr);
    if (m.kernel)
        fprintf(stderr, "kernel %s, block (%u, %u, %u)", kernel_name(m.kernel).c_str(), blockIdx.x,
                blockIdx.y, blockIdx.z);
    if (m.current)
        fprintf(stderr, ", thread (%u, %u, %u)", threadIdx.x, threadIdx.y, threadIdx.z);
    if (m.kernel)
        fputs(": ", stderr);
    vfprintf(stderr, format, ap);
    fputc('\n', stderr);
    va_end(ap);
    abort();
}

void check_pointer(const char *call, int argument, const void *p)
{
    if (p && kind_of(p) == memory_kind::PAGEABLE) {
        fprintf(stderr, "emulator: kernel %s: argument %d (%p) is memory of the host\n",
                kernel_name(call).c_str(), argument, p);
        abort();
    }
}

/* -- waiting ---------------------------------------------------------------------------------- */

static void say_waiting(const thread &t)
{
    fprintf(stderr, "emulator:   thread (%u, %u, %u) ", t.index.x, t.index.y, t.index.z);
    if (t.state == thread::DONE)
        fputs("has returned\n", stderr);
    else if (t.state == thread::AT_WARP)
        fprintf(stderr, "is at %s, %s:%d, for lanes %08x\n", t.what, t.at.file, t.at.line, t.mask);
    else
        fprintf(stderr, "is at %s, %s:%d\n", t.what, t.at.file, t.at.line);
}

/* One thread for each thing that threads wait for. */
[[noreturn]] static void give_up_waiting(const char *why)
{
    machine &m = the();
    m.current = nullptr;
    std::vector<const thread *> said;
    for (const thread &t : m.threads) {
        bool again = false;
        for (const thread *s : said)
            again =
                again || (s->state == t.state &&
                          (t.state == thread::DONE ||
                           (s->at.line == t.at.line && s->what == t.what && s->mask == t.mask)));
        if (!again && said.size() < 16) {
            said.push_back(&t);
            say_waiting(t);
        }
    }
    give_up("%s", why);
}

static bool same_place(const thread &a, const thread &b)
{
    return a.at.line == b.at.line &&
           (a.at.file == b.at.file || strcmp(a.at.file, b.at.file) == 0) &&
           (a.what == b.what || strcmp(a.what, b.what) == 0);
}

void meet_block(place at)
{
    thread *t = the().current;
    t->what = "__syncthreads";
    t->at = at;
    t->mask = 0;
    t->state = thread::AT_BLOCK;
    fiber_leave(t->runs_on);
}

/* After all threads have run as far as they can: opens the barrier that all of them reached. */
static bool open_barrier()
{
    machine &m = the();
    for (const thread &t : m.threads)
        if (t.state != thread::AT_BLOCK)
            return false;
    for (thread &t : m.threads) {
        if (!same_place(t, m.threads[0]))
            give_up_waiting("threads of one block wait at different barriers");
        t.state = thread::READY;
        t.meetings++;
    }
    return true;
}

void meet_warp(unsigned mask, const char *what, void *mine, exchange_fn *exchange, place at)
{
    machine &m = the();
    thread *t = m.current;
    t->what = what;
    t->at = at;
    t->mask = mask;
    t->mine = mine;
    if (!(mask >> t->lane & 1))
        give_up("%s at %s:%d: lane %d is not in its own mask %08x", what, at.file, at.line, t->lane,
                mask);
    size_t first = size_t(t->warp) * WARP, left = m.threads.size() - first;
    if (left < WARP && mask >> left)
        give_up("%s at %s:%d: the mask %08x names lanes that the block has no threads for", what,
                at.file, at.line, mask);
    t->state = thread::AT_WARP;
    unsigned *waiting = &m.waiting[t->warp];
    *waiting |= 1u << t->lane;
    if ((*waiting & mask) != mask) {
        fiber_leave(t->runs_on);
        return;
    }
    *waiting &= ~mask;
    lanes l = {mask, {}};
    for (int i = 0; i < WARP; i++) {
        if (!(mask >> i & 1))
            continue;
        thread &o = m.threads[first + i];
        if (o.mask != mask || !same_place(o, *t))
            give_up_waiting("lanes of one warp wait for each other at different places");
        o.state = thread::READY;
        l.at[i] = o.mine;
    }
    exchange(l);
}

static void exchange_nothing(const lanes &)
{
}

/* Full masks are what kernels have; of others it is too trusting. */
void meet_lanes(unsigned mask, place at)
{
    meet_warp(mask, "__syncwarp", nullptr, exchange_nothing, at);
    the().current->warp_meetings++;
}

void exchange_shuffled(const lanes &l)
{
    for (int i = 0; i < WARP; i++) {
        shuffled *s = static_cast<shuffled *>(l.at[i]);
        if (!s)
            continue;
        if (!l.at[s->from])
            give_up("lane %d wants what lane %d has, which is not in the mask %08x", i, s->from,
                    l.mask);
        memcpy(s->got, static_cast<shuffled *>(l.at[s->from])->value, sizeof s->got);
    }
}

struct vote {
    bool is;
    unsigned result;
};

static void exchange_votes(const lanes &l)
{
    unsigned all = 0;
    for (int i = 0; i < WARP; i++)
        if (l.at[i] && static_cast<vote *>(l.at[i])->is)
            all |= 1u << i;
    for (int i = 0; i < WARP; i++)
        if (l.at[i])
            static_cast<vote *>(l.at[i])->result = all;
}

unsigned ballot(unsigned mask, bool is, place at)
{
    vote mine = {is, 0};
    meet_warp(mask, "__ballot_sync", &mine, exchange_votes, at);
    return mine.result;
}

/* -- shared memory: fixed arrays from the start on, the dynamic one at the end ---------------- */

static void open_shared(size_t dynamic)
{
    machine &m = the();
    if (!m.shared) {
        size_t pages = (SHARED + PAGE - 1) / PAGE * PAGE;
        void *at =
            mmap(nullptr, pages + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (at == MAP_FAILED || mprotect(static_cast<char *>(at) + pages, PAGE, PROT_NONE) != 0)
            give_up("no shared memory");
        m.shared = static_cast<unsigned char *>(at) + (pages - SHARED);
    }
    m.shared_dynamic = (dynamic + 15) / 16 * 16;
    m.shared_used = 0;
    m.arrays.clear();
    shared_begin = m.shared;
    memset(m.shared + SHARED - m.shared_dynamic, 0xff, m.shared_dynamic);
}

void *shared_dynamic()
{
    return the().shared + SHARED - the().shared_dynamic;
}

void *shared_fixed(const void *site, size_t bytes, size_t alignment)
{
    machine &m = the();
    for (const shared_array &a : m.arrays)
        if (a.site == site)
            return a.at;
    alignment = alignment < 16 ? 16 : alignment;
    size_t from = (m.shared_used + alignment - 1) / alignment * alignment;
    if (from + bytes + FENCE > SHARED - m.shared_dynamic)
        give_up("more shared memory than a block can have");
    unsigned char *at = m.shared + from;
    memset(at, 0xff, bytes);
    memset(at + bytes, FENCE_BYTE, FENCE);
    m.shared_used = from + bytes + FENCE;
    m.arrays.push_back({site, at, bytes});
    return at;
}

bool is_shared(const void *at, size_t bytes)
{
    machine &m = the();
    const unsigned char *p = static_cast<const unsigned char *>(at);
    if (p >= m.shared + SHARED - m.shared_dynamic)
        return p + bytes <= m.shared + SHARED;
    for (const shared_array &a : m.arrays)
        if (p >= a.at && p + bytes <= a.at + a.bytes)
            return true;
    return false;
}

unsigned block_number()
{
    return the().blocks;
}

static void check_fences()
{
    for (const shared_array &a : the().arrays)
        for (size_t i = 0; i < FENCE; i++)
            if (a.at[a.bytes + i] != FENCE_BYTE)
                give_up("a shared array of %zu bytes was written to %zu bytes behind its end",
                        a.bytes, i);
}

/* -- running ---------------------------------------------------------------------------------- */

static size_t below(size_t n)
{
    machine &m = the();
    m.random = m.random * 6364136223846793005u + 1442695040888963407u;
    return size_t(m.random >> 33) % n;
}

/* 0 to N - 1 in the order that the seed wants. */
static void order(std::vector<unsigned> &to, size_t n)
{
    size_t seed = the().seed;
    to.resize(n);
    for (size_t i = 0; i < n; i++)
        to[i] = unsigned(seed == 1 ? n - 1 - i : i);
    for (size_t i = n; seed > 1 && i > 1; i--)
        std::swap(to[i - 1], to[below(i)]);
}

static void run_thread(void *)
{
    machine &m = the();
    (*m.body)();
    m.current->state = thread::DONE;
}

static void let_run(thread &t)
{
    machine &m = the();
    m.current = &t;
    threadIdx = t.index;
    if (t.state == thread::READY) {
        fiber_resume(t.runs_on);
    } else {
        if (m.idle.empty())
            m.idle.push_back(fiber_create());
        t.runs_on = m.idle.back();
        m.idle.pop_back();
        t.state = thread::READY;
        fiber_start(t.runs_on, run_thread, nullptr);
    }
    m.current = nullptr;
    if (t.state == thread::DONE)
        m.idle.push_back(t.runs_on);
}

static void prepare_threads()
{
    machine &m = the();
    size_t n = size_t(blockDim.x) * blockDim.y * blockDim.z;
    m.threads.resize(n);
    for (size_t i = 0; i < n; i++) {
        thread &t = m.threads[i];
        t.state = thread::FRESH;
        t.index = make_uint3(unsigned(i % blockDim.x), unsigned(i / blockDim.x % blockDim.y),
                             unsigned(i / blockDim.x / blockDim.y));
        t.warp = int(i / WARP);
        t.lane = int(i % WARP);
        t.copies.clear();
        t.commits = 0;
        t.meetings = t.warp_meetings = 0;
    }
}

static void run_block(size_t shared)
{
    machine &m = the();
    m.blocks++;
    open_shared(shared);
    prepare_threads();
    static std::vector<unsigned> turns;
    for (;;) {
        order(turns, m.threads.size());
        size_t ran = 0, done = 0;
        for (unsigned i : turns) {
            thread &t = m.threads[i];
            if (t.state == thread::FRESH || t.state == thread::READY) {
                let_run(t);
                ran++;
            }
            done += t.state == thread::DONE;
        }
        if (done == m.threads.size())
            break;
        if (ran == 0 && !open_barrier())
            give_up_waiting("threads wait for others that will not come");
    }
    shared_begin = nullptr;
    check_fences();
}

void run_grid(const char *call, dim3 grid, dim3 block, size_t shared,
              const std::function<void()> &body)
{
    machine &m = the();
    std::lock_guard<std::mutex> hold(m.busy);
    device_work now;
    m.seed = number_from("DT_EMULATOR_SEED", 0);
    m.random = m.seed;
    m.kernel = call;
    m.body = &body;
    gridDim = grid;
    blockDim = block;
    std::vector<unsigned> turns;
    order(turns, size_t(grid.x) * grid.y * grid.z);
    for (unsigned i : turns) {
        blockIdx = make_uint3(i % grid.x, i / grid.x % grid.y, i / grid.x / grid.y);
        run_block(shared);
    }
    m.kernel = nullptr;
}

} // namespace dt_emulator
