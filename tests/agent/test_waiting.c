/* SPDX-License-Identifier: Apache-2.0 */
/* What a thread would wait for, were it in a call with descriptors of this very process. */
#include "agent/look/waiting.h"
#include "tests/lib/check.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>

static struct dt_waiting look(long number, uint64_t a, uint64_t b)
{
    struct dt_waiting w;
    pid_t pid = getpid();
    struct dt_memory m = dt_memory_of(&pid);
    dt_waiting_read(&w, &(struct dt_waiting_call){number, {a, b, 0, 0}}, pid, &m);
    return w;
}

static uint64_t address(const void *p)
{
    return (uint64_t)(uintptr_t)p;
}

TEST(a_call_says_which_descriptor)
{
    int ends[2], null = open("/dev/null", O_RDONLY), folder = open("/", O_RDONLY);
    int count = eventfd(0, 0);
    char pipe_name[64];
    CHECK(pipe(ends) == 0 && null >= 0 && folder >= 0 && count >= 0);
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", ends[0]);
    ssize_t n = readlink(link, pipe_name, sizeof pipe_name - 1);
    CHECK(n > 0);
    pipe_name[n] = '\0';
    const struct {
        long call;
        int fd;
        enum dt_waiting_kind kind;
        const char *what;
    } rows[] = {
        {SYS_read, ends[0], DT_WAITING_PIPE, pipe_name},
        {SYS_write, ends[1], DT_WAITING_PIPE, pipe_name},
        {SYS_read, null, DT_WAITING_FILE, "/dev/null"},
        {SYS_getdents64, folder, DT_WAITING_FILE, "/"},
        {SYS_read, count, DT_WAITING_UNKNOWN, "anon_inode:[eventfd]"},
        {SYS_read, 1000000, DT_WAITING_UNKNOWN, ""},
        {SYS_getpid, ends[0], DT_WAITING_UNKNOWN, ""},
        {-1, ends[0], DT_WAITING_UNKNOWN, ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("call %ld of descriptor %d", rows[i].call, rows[i].fd);
        struct dt_waiting w = look(rows[i].call, (uint64_t)rows[i].fd, 0);
        CHECK_EQ(w.kind, rows[i].kind);
        CHECK_STR(w.what, rows[i].what);
        CHECK_EQ(w.descriptor, rows[i].what[0] ? rows[i].fd : -1);
        CHECK_EQ(w.others, 0);
    }
    CHECK_EQ(look(SYS_nanosleep, 0, 0).kind, DT_WAITING_TIME);
    close(ends[0]), close(ends[1]), close(null), close(folder), close(count);
}

TEST(a_call_says_which_path)
{
    char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED && munmap(page + 4096, 4096) == 0);
    strcpy(page + 4096 - sizeof "/data/a", "/data/a");
    const struct {
        const char *story;
        uint64_t address;
        const char *what;
    } rows[] = {
        {"a path", address("/data/a.bin"), "/data/a.bin"},
        {"at the end of what is mapped", address(page + 4096 - sizeof "/data/a"), "/data/a"},
        {"none", address(""), ""},
        {"it is not there", 16, ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s", rows[i].story);
        struct dt_waiting w = look(SYS_statfs, rows[i].address, 0);
        CHECK_STR(w.what, rows[i].what);
        CHECK_EQ(w.kind, rows[i].what[0] ? DT_WAITING_FILE : DT_WAITING_UNKNOWN);
        CHECK_EQ(w.descriptor, -1);
        CHECK_STR(look(SYS_openat, 0, rows[i].address).what, rows[i].what);
    }
    memset(page, 'a', 4096); /* it has no end */
    CHECK_EQ(look(SYS_statfs, address(page), 0).kind, DT_WAITING_UNKNOWN);
    CHECK(munmap(page, 4096) == 0);
}

TEST(of_several_descriptors_one_that_others_write_to_counts)
{
    int ends[2], count = eventfd(0, 0), epoll = epoll_create1(0);
    CHECK(pipe(ends) == 0 && count >= 0 && epoll >= 0);
    struct pollfd polled[] = {{.fd = -1}, {.fd = count}, {.fd = ends[0]}};
    struct dt_waiting w = look(SYS_ppoll, address(polled), 3);
    CHECK_EQ(w.kind, DT_WAITING_PIPE);
    CHECK_EQ(w.descriptor, ends[0]);
    CHECK_EQ(w.others, 1);
    CHECK_EQ(look(SYS_ppoll, address(polled), 0).kind, DT_WAITING_TIME);
    CHECK_EQ(look(SYS_ppoll, 16, 3).kind, DT_WAITING_UNKNOWN);

    fd_set set;
    FD_ZERO(&set);
    FD_SET(ends[0], &set);
    w = look(SYS_pselect6, (uint64_t)ends[0] + 1, address(&set));
    CHECK_EQ(w.kind, DT_WAITING_PIPE);
    CHECK_EQ(w.descriptor, ends[0]);
    CHECK_EQ(look(SYS_pselect6, 0, 0).kind, DT_WAITING_TIME);

    struct epoll_event event = {.events = EPOLLIN};
    CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, count, &event) == 0);
    CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, ends[0], &event) == 0);
    w = look(SYS_epoll_pwait, (uint64_t)epoll, 0);
    CHECK_EQ(w.kind, DT_WAITING_PIPE);
    CHECK_EQ(w.descriptor, ends[0]);
    CHECK_EQ(w.others, 1);
    close(ends[0]), close(ends[1]), close(count), close(epoll);
}

/* A socket that listens on a free port of loopback, and one that is connected to it. */
static void connect_pair(int *listener, int *end, char peer[64])
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof in;
    *listener = socket(AF_INET, SOCK_STREAM, 0);
    *end = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(bind(*listener, (struct sockaddr *)&in, len) == 0 && listen(*listener, 1) == 0);
    CHECK(getsockname(*listener, (struct sockaddr *)&in, &len) == 0);
    CHECK(connect(*end, (struct sockaddr *)&in, len) == 0);
    snprintf(peer, 64, "127.0.0.1:%d", ntohs(in.sin_port));
}

TEST(a_socket_has_its_peer)
{
    int listener, end, local[2];
    char peer[64], wanted[128];
    connect_pair(&listener, &end, peer);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, local) == 0);
    struct dt_waiting w[] = {look(SYS_recvfrom, (uint64_t)end, 0),
                             look(SYS_accept4, (uint64_t)listener, 0),
                             look(SYS_read, (uint64_t)local[0], 0)};
    struct dt_waiting *at[] = {&w[0], &w[1], &w[2]};
    CHECK_EQ(w[0].kind, DT_WAITING_SOCKET);
    dt_waiting_name_sockets(at, 3, getpid());
    CHECK_STR(w[0].what, peer);
    snprintf(wanted, sizeof wanted, "a connection to %s", peer);
    CHECK_STR(w[1].what, wanted);
    CHECK_STR(w[2].what, "a unix socket");
    close(listener), close(end), close(local[0]), close(local[1]);
}

TEST(a_futex_says_whose_wake_it_waits_for)
{
    static const struct {
        uint32_t word[3];
        int op;
        enum dt_waiting_kind kind;
    } rows[] = {
        {{0, 1, 0}, FUTEX_WAIT_BITSET_PRIVATE, DT_WAITING_LOCK},
        {{0, 1, 0}, FUTEX_WAIT_BITSET_PRIVATE | FUTEX_CLOCK_REALTIME, DT_WAITING_LOCK},
        {{0, 0, 0}, FUTEX_WAIT_BITSET_PRIVATE, DT_WAITING_CONDITION},
        {{3, 1, 0}, FUTEX_WAIT_BITSET_PRIVATE, DT_WAITING_CONDITION},
        {{2, 1, 0}, FUTEX_WAIT_PRIVATE, DT_WAITING_CONDITION},
        {{0, 1, 128}, FUTEX_WAIT_BITSET, DT_WAITING_MEMORY},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("row %zu", i);
        CHECK_EQ(look(SYS_futex, address(rows[i].word), (uint64_t)rows[i].op).kind, rows[i].kind);
    }
    CHECK_EQ(look(SYS_futex, 16, FUTEX_WAIT_BITSET_PRIVATE).kind, DT_WAITING_CONDITION);
}

TEST(a_futex_says_until_when)
{
    static const struct {
        int seconds;
        bool briefly;
    } rows[] = {{0, true}, {-5, true}, {-100000, true}, {60000, false}, {INT32_MAX, false}};
    uint32_t word[3] = {0, 0, 0};
    pid_t pid = getpid();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("in %d s", rows[i].seconds);
        struct dt_waiting w;
        struct dt_memory m = dt_memory_of(&pid);
        struct timespec end;
        clock_gettime(CLOCK_MONOTONIC, &end);
        end.tv_sec += rows[i].seconds;
        struct dt_waiting_call call = {
            SYS_futex, {address(word), FUTEX_WAIT_BITSET_PRIVATE, 0, address(&end)}};
        dt_waiting_read(&w, &call, pid, &m);
        CHECK_EQ(w.kind, DT_WAITING_CONDITION);
        CHECK_EQ(w.briefly, rows[i].briefly);
    }
    CHECK(!look(SYS_futex, address(word), FUTEX_WAIT_BITSET_PRIVATE).briefly);
}

/* Whatever lies in the memory of a worker. */
TEST(a_futex_may_say_any_time)
{
    static const struct {
        struct timespec end;
        bool briefly;
    } rows[] = {
        {{INT64_MIN, 0}, true},
        {{INT64_MAX, 999999999}, false},
        {{0, INT64_MIN}, false},
        {{0, INT64_MAX}, false},
    };
    uint32_t word[3] = {0, 0, 0};
    pid_t pid = getpid();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("row %zu", i);
        struct dt_waiting w;
        struct dt_memory m = dt_memory_of(&pid);
        struct dt_waiting_call call = {
            SYS_futex, {address(word), FUTEX_WAIT_BITSET_PRIVATE, 0, address(&rows[i].end)}};
        dt_waiting_read(&w, &call, pid, &m);
        CHECK_EQ(w.briefly, rows[i].briefly);
    }
}

TEST(of_a_long_path_the_end_stays)
{
    char path[400] = "/tmp/dt-waiting-XXXXXX";
    CHECK(mkdtemp(path) != NULL);
    size_t n = strlen(path);
    path[n] = '/';
    memset(path + n + 1, 'a', 240);
    strcpy(path + n + 241, "z.bin");
    int fd = open(path, O_CREAT | O_RDWR, 0600);
    CHECK(fd >= 0);
    struct dt_waiting w = look(SYS_read, (uint64_t)fd, 0);
    CHECK_EQ(strlen(w.what), DT_WAITING_FOR_MAX - 1);
    CHECK_STR(w.what, path + strlen(path) - DT_WAITING_FOR_MAX + 1);
    close(fd);
    CHECK(unlink(path) == 0);
    path[n] = '\0';
    CHECK(rmdir(path) == 0);
}
