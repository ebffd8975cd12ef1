/* SPDX-License-Identifier: Apache-2.0 */
/* Protection keys make "may touch" a property of the thread that costs nothing to change; where
 * the processor has none, or with DT_EMULATOR_NO_KEYS=1, the pages are opened for all threads as
 * long as one is the device. That takes half of the time of a whole run: with
 * DT_EMULATOR_LEAVES_OPEN=N they are closed behind each Nth piece of work alone, so that what a
 * host touches again and again is still told. */
#include "tests/gpu/emulator/memory.h"

#include <map>
#include <mutex>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

namespace dt_emulator
{

enum : size_t { RANGE = size_t(256) << 30, PAGE = 4096, ALIGNMENT = 256, SPOILT = 4 << 20 };
static const unsigned char SLACK = 0xa5; /* between an allocation's end and its guard page */

struct allocation {
    size_t bytes;
    unsigned char *pages;
    size_t page_bytes;
};

struct device_memory {
    std::mutex lock;
    unsigned char *begin = nullptr, *next = nullptr;
    int key = -1;
    /* Without keys: how many threads are the device, whether pages are open, and how often they
     * were left open. */
    int working = 0;
    bool open = false;
    size_t left_open = 0;
    size_t used = 0;
    std::map<const unsigned char *, allocation> live;
    std::map<const unsigned char *, size_t> pinned;

    device_memory()
    {
        void *at =
            mmap(nullptr, RANGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (at == MAP_FAILED) {
            perror("emulator: no addresses for a device's memory");
            abort();
        }
        begin = next = static_cast<unsigned char *>(at);
        key = number_from("DT_EMULATOR_NO_KEYS", 0) ? -1 : pkey_alloc(0, PKEY_DISABLE_ACCESS);
    }
    void allow(bool touch)
    {
        open = touch;
        for (auto &a : live)
            mprotect(a.second.pages, a.second.page_bytes,
                     touch ? PROT_READ | PROT_WRITE : PROT_NONE);
    }
};

/* Never destroyed: threads may still work while the process leaves. */
static device_memory &memory()
{
    static device_memory *m = new device_memory();
    return *m;
}

static thread_local int depth;

device_work::device_work()
{
    device_memory &m = memory();
    if (depth++ > 0)
        return;
    if (m.key >= 0) {
        pkey_set(m.key, 0);
        return;
    }
    std::lock_guard<std::mutex> hold(m.lock);
    if (m.working++ == 0 && !m.open)
        m.allow(true);
}

device_work::~device_work()
{
    device_memory &m = memory();
    if (--depth > 0)
        return;
    if (m.key >= 0) {
        pkey_set(m.key, PKEY_DISABLE_ACCESS);
        return;
    }
    std::lock_guard<std::mutex> hold(m.lock);
    static const size_t leaves_open = number_from("DT_EMULATOR_LEAVES_OPEN", 1);
    if (--m.working > 0 || ++m.left_open < leaves_open)
        return;
    m.left_open = 0;
    m.allow(false);
}

size_t number_from(const char *variable, size_t otherwise)
{
    const char *text = getenv(variable);
    return text && *text ? strtoull(text, nullptr, 10) : otherwise;
}

size_t device_bytes()
{
    return number_from("DT_EMULATOR_MEMORY", size_t(1) << 30);
}

size_t device_bytes_used()
{
    device_memory &m = memory();
    std::lock_guard<std::mutex> hold(m.lock);
    return m.used;
}

static size_t round_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

/* The allocation ends, but for its alignment, where its pages do, and a page that nobody may touch
 * follows. */
static unsigned char *map_pages(device_memory &m, size_t bytes, allocation *a)
{
    a->bytes = bytes;
    a->page_bytes = round_up(bytes, PAGE);
    a->pages = m.next;
    if (a->page_bytes + PAGE > size_t(m.begin + RANGE - m.next))
        return nullptr;
    int rights = PROT_READ | PROT_WRITE;
    int rc = m.key >= 0 ? pkey_mprotect(a->pages, a->page_bytes, rights, m.key)
             : !m.open  ? 0
                        : mprotect(a->pages, a->page_bytes, rights);
    if (rc != 0)
        return nullptr;
    m.next += a->page_bytes + PAGE;
    return a->pages + (a->page_bytes - round_up(bytes, ALIGNMENT));
}

void *device_alloc(size_t bytes)
{
    device_memory &m = memory();
    allocation a;
    unsigned char *at;
    {
        std::lock_guard<std::mutex> hold(m.lock);
        size_t all = device_bytes();
        if (bytes > all || m.used > all - bytes)
            return nullptr;
        at = map_pages(m, bytes, &a);
        if (!at)
            return nullptr;
        m.used += bytes;
        m.live[at] = a;
    }
    device_work now;
    memset(at, 0xff, bytes < SPOILT ? bytes : size_t(SPOILT));
    memset(at + bytes, SLACK, size_t(a.pages + a.page_bytes - (at + bytes)));
    return at;
}

/* The kernel gives whole pages as zeros when they are next touched. */
void device_clear(void *at, size_t bytes)
{
    device_work now;
    unsigned char *from = static_cast<unsigned char *>(at), *end = from + bytes;
    unsigned char *first = from + (PAGE - reinterpret_cast<uintptr_t>(from) % PAGE) % PAGE;
    unsigned char *last = end - reinterpret_cast<uintptr_t>(end) % PAGE;
    if (first >= last || madvise(first, size_t(last - first), MADV_DONTNEED) != 0) {
        memset(from, 0, bytes);
        return;
    }
    memset(from, 0, size_t(first - from));
    memset(last, 0, size_t(end - last));
}

static void check_slack(const unsigned char *at, const allocation &a)
{
    for (const unsigned char *p = at + a.bytes; p < a.pages + a.page_bytes; p++) {
        if (*p != SLACK) {
            fprintf(stderr,
                    "emulator: byte %zu of an allocation of %zu bytes was written to: %zu behind "
                    "its end\n",
                    size_t(p - at), a.bytes, size_t(p - at) - a.bytes);
            abort();
        }
    }
}

bool device_free(void *at)
{
    device_memory &m = memory();
    device_work now;
    std::lock_guard<std::mutex> hold(m.lock);
    auto found = m.live.find(static_cast<unsigned char *>(at));
    if (found == m.live.end())
        return false;
    const allocation a = found->second;
    check_slack(found->first, a);
    m.used -= a.bytes;
    m.live.erase(found);
    return mmap(a.pages, a.page_bytes, PROT_NONE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED;
}

bool device_holds(const void *at, size_t bytes)
{
    device_memory &m = memory();
    std::lock_guard<std::mutex> hold(m.lock);
    const unsigned char *p = static_cast<const unsigned char *>(at);
    auto after = m.live.upper_bound(p);
    if (after == m.live.begin())
        return false;
    auto a = std::prev(after);
    size_t from = size_t(p - a->first);
    return from <= a->second.bytes && bytes <= a->second.bytes - from;
}

memory_kind kind_of(const void *at)
{
    device_memory &m = memory();
    const unsigned char *p = static_cast<const unsigned char *>(at);
    if (p >= m.begin && p < m.begin + RANGE)
        return memory_kind::DEVICE;
    std::lock_guard<std::mutex> hold(m.lock);
    auto after = m.pinned.upper_bound(p);
    if (after == m.pinned.begin())
        return memory_kind::PAGEABLE;
    auto a = std::prev(after);
    return p < a->first + a->second ? memory_kind::PINNED : memory_kind::PAGEABLE;
}

void *pinned_alloc(size_t bytes)
{
    device_memory &m = memory();
    size_t whole = round_up(bytes ? bytes : 1, PAGE);
    unsigned char *at = static_cast<unsigned char *>(aligned_alloc(PAGE, whole));
    if (!at)
        return nullptr;
    memset(at, 0xff, whole < SPOILT ? whole : size_t(SPOILT));
    std::lock_guard<std::mutex> hold(m.lock);
    m.pinned[at] = whole;
    return at;
}

bool pinned_free(void *at)
{
    device_memory &m = memory();
    std::lock_guard<std::mutex> hold(m.lock);
    if (m.pinned.erase(static_cast<unsigned char *>(at)) == 0)
        return false;
    free(at);
    return true;
}

} // namespace dt_emulator
