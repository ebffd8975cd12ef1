/* SPDX-License-Identifier: Apache-2.0 */
/* Threads of this program, by this machine's C library. */
#include "agent/look/native_id.h"
#include "tests/lib/check.h"

#include <errno.h>
#include <pthread.h>
#include <sys/syscall.h>

static struct dt_memory own_memory(pid_t *pid)
{
    *pid = getpid();
    return dt_memory_of(pid);
}

static uint64_t own_id(void)
{
    return (uint64_t)syscall(SYS_gettid);
}

static void *compare(void *arg)
{
    pid_t pid;
    struct dt_memory m = own_memory(&pid);
    bool *same = arg;
    *same = dt_native_id_read(&m, (uint64_t)pthread_self()) == own_id();
    return NULL;
}

TEST(threads_have_the_number_that_the_kernel_tells_them)
{
#if defined(__x86_64__) && defined(__GLIBC__)
    bool in_main, in_thread = false;
    pthread_t thread;
    compare(&in_main);
    CHECK_EQ(pthread_create(&thread, NULL, compare, &in_thread), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK(in_main);
    CHECK(in_thread);
#else
    SKIP("threads of another C library or machine have no number");
#endif
}

struct head {
    uint64_t words[91];
};

static int read_head(void *arg, uint64_t address, void *out, size_t len)
{
    struct head *h = arg;
    uint64_t from = address - (uint64_t)(uintptr_t)h;
    if (from > sizeof *h || len > sizeof *h - from)
        return EFAULT;
    memcpy(out, (uint8_t *)h + from, len);
    return 0;
}

TEST(what_is_no_thread_of_glibc_has_no_number)
{
    struct head h = {0};
    struct dt_memory m = {.read = read_head, .arg = &h};
    uint64_t at = (uint64_t)(uintptr_t)&h;
    h.words[90] = 812;
    CHECK_EQ(dt_native_id_read(&m, at), 0);
    h.words[0] = at;
    CHECK_EQ(dt_native_id_read(&m, at), 0);
    h.words[2] = at;
#if defined(__x86_64__)
    CHECK_EQ(dt_native_id_read(&m, at), 812);
#endif
    h.words[90] = UINT32_MAX;
    CHECK_EQ(dt_native_id_read(&m, at), 0);
    CHECK_EQ(dt_native_id_read(&m, at + 8), 0);
}
