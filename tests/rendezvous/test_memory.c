/* SPDX-License-Identifier: Apache-2.0 */
/* What a real dtrun-rendezvous holds in memory, whatever its clients do: no more than its options
 * say. It runs under a limit of its address space, so that a fault here takes no machine down. */
#include "tests/lib/check.h"
#include "tests/lib/daemon.h"
#include "tests/lib/folder.h"
#include "tests/lib/peer.h"
#include "tests/lib/sanitized.h"

#include <linux/sockios.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#define PROGRAM getenv("DT_RENDEZVOUS")
#define LISTEN "--listen", "127.0.0.1:0"
#define VALUE (4u << 20)

BEFORE_ALL
{
    folder_make();
}

/* The daemon and this program get no more address space. */
static void limit_memory(rlim_t bytes)
{
    struct rlimit r = {.rlim_cur = bytes, .rlim_max = bytes};
    if (!SANITIZED)
        CHECK(setrlimit(RLIMIT_AS, &r) == 0);
}

/* MIB as options allow, the daemon itself, and a tenth. */
static void check_peak(const struct daemon_process *d, long mib)
{
    long peak = daemon_rss_peak(d);
    printf("# at most %ld KiB were resident, of %ld MiB that the options allow\n", peak, mib);
    CHECK(SANITIZED || peak < (mib + 8) * 1024 * 11 / 10);
}

static void raise_descriptors(void)
{
    struct rlimit r;
    CHECK(getrlimit(RLIMIT_NOFILE, &r) == 0);
    r.rlim_cur = r.rlim_max;
    CHECK(setrlimit(RLIMIT_NOFILE, &r) == 0);
}

static void set_big(int fd)
{
    char *value = calloc(1, VALUE);
    CHECK(value != NULL);
    peer_set_bytes(fd, "big", value, VALUE);
    free(value);
    peer_get(fd, "absent", ""); /* it is set */
}

static void ask_multi_get(int fd, const char *key, uint64_t times)
{
    struct dt_buf items = {0}, request = {0};
    for (uint64_t i = 0; i < times; i++)
        dt_c10d_put_item(&items, dt_bytes_of(key), NULL);
    struct dt_c10d_request get = {
        .op = DT_C10D_MULTI_GET, .count = times, .items = {items.at, items.len}};
    CHECK(dt_c10d_encode(&request, DT_C10D_MODERN, &get));
    peer_send(fd, request.at, request.len);
    dt_buf_finish(&items);
    dt_buf_finish(&request);
}

/* Reads from all at once until each has got WANT bytes; false when one is closed before. A little
 * from each, as the daemon closes who reads nothing for a while. */
static bool read_all(const int *fds, int count, size_t want)
{
    static uint8_t bytes[64 << 10];
    struct pollfd polls[256];
    size_t got[256] = {0};
    int left = count;
    for (int i = 0; i < count; i++)
        polls[i] = (struct pollfd){.fd = fds[i], .events = POLLIN};
    while (left > 0) {
        CHECK(poll(polls, (nfds_t)count, 60000) > 0);
        for (int i = 0; i < count; i++) {
            ssize_t n = polls[i].revents ? recv(fds[i], bytes, sizeof bytes, 0) : 0;
            if (polls[i].revents && n <= 0)
                return false;
            got[i] += (size_t)n;
            if (polls[i].fd >= 0 && got[i] == want) {
                polls[i].fd = -1;
                polls[i].revents = 0;
                left--;
            }
        }
    }
    return true;
}

TEST(a_herd_that_asks_for_a_large_value_at_once_is_answered_within_the_budget)
{
    enum { MANY = 200 };
    struct daemon_process d;
    int fds[MANY];
    limit_memory(1u << 30);
    DAEMON_START(&d, PROGRAM, LISTEN, "--max-buffered", "64M", "--max-value-size", "4M",
                 "--max-peer-buffer", "16M");
    int good = peer_greet(d.port);
    set_big(good);
    for (int i = 0; i < MANY; i++)
        fds[i] = peer_greet(d.port);
    kill(d.pid, SIGSTOP); /* so that it finds all requests in one turn */
    for (int i = 0; i < MANY; i++)
        peer_ask_get(fds[i], "big");
    kill(d.pid, SIGCONT);
    /* 800 MiB in all, and nobody is thrown out. At once, as who reads nothing for long is. */
    CHECK(read_all(fds, MANY, VALUE + 8));
    peer_add(good, "n", 1, 1);
    check_peak(&d, 64 + 4);
    for (int i = 0; i < MANY; i++)
        close(fds[i]);
    close(good);
    CHECK_EQ(daemon_stop(&d), 0);
}

TEST(a_herd_that_never_reads_is_ended_and_not_the_others)
{
    enum { MANY = 200 };
    struct daemon_process d;
    int fds[MANY];
    limit_memory(1u << 30);
    DAEMON_START(&d, PROGRAM, LISTEN, "--max-buffered", "64M", "--max-value-size", "4M",
                 "--max-peer-buffer", "16M");
    int good = peer_greet(d.port);
    set_big(good);
    kill(d.pid, SIGSTOP);
    for (int i = 0; i < MANY; i++) {
        fds[i] = peer_connect(d.port);
        peer_send(fds[i], "\0\xce\xf7\x85\x3c", 5);
        ask_multi_get(fds[i], "big", i % 2 ? 1 : 3);
    }
    kill(d.pid, SIGCONT);
    peer_add(good, "n", 1, 1); /* small requests do not notice */
    CHECK(daemon_log_has(&d, "are buffered for all peers, near the limit"));
    set_big(good); /* and large ones wait their turn */
    ask_multi_get(good, "big", 2);
    CHECK(read_all(&good, 1, 2 * (VALUE + 8)));
    check_peak(&d, 64 + 4);
    for (int i = 0; i < MANY; i++)
        close(fds[i]);
    close(good);
    CHECK_EQ(daemon_stop(&d), 0);
}

TEST(thousands_of_half_sent_requests_stay_within_the_budget)
{
    enum { MANY = 3000 };
    static const uint8_t part[48 << 10];
    static int fds[MANY];
    struct daemon_process d;
    raise_descriptors();
    limit_memory(1u << 30);
    DAEMON_START(&d, PROGRAM, LISTEN, "--max-buffered", "32M", "--max-value-size", "4M",
                 "--max-peer-buffer", "16M");
    int good = peer_greet(d.port);
    struct dt_buf head = {0};
    dt_buf_put_u8(&head, DT_C10D_SET);
    dt_c10d_put_value(&head, dt_bytes_of("k"));
    dt_buf_put_u64(&head, sizeof part + 1);
    for (int i = 0; i < MANY; i++) {
        fds[i] = peer_connect(d.port);
        peer_send(fds[i], "\0\xce\xf7\x85\x3c", 5);
        peer_send(fds[i], head.at, head.len);
        send(fds[i], part, sizeof part, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    peer_add(good, "n", 1, 1); /* it may have to wait until some are ended */
    check_peak(&d, 32 + 12);   /* 4 KiB for each connection */
    dt_buf_finish(&head);
    for (int i = 0; i < MANY; i++)
        close(fds[i]);
    close(good);
    CHECK_EQ(daemon_stop(&d), 0);
}

/* A SET of SIZE bytes that lacks its last; returns when the daemon has read the others. */
static int send_nearly(const char *path, size_t size)
{
    static const uint8_t value[VALUE];
    struct dt_buf head = {0};
    int fd = peer_connect_path(path), unread = 1;
    dt_buf_put_u8(&head, DT_C10D_VALIDATE);
    dt_buf_put_u32(&head, DT_C10D_MAGIC);
    dt_buf_put_u8(&head, DT_C10D_SET);
    dt_c10d_put_value(&head, dt_bytes_of("k"));
    dt_buf_put_u64(&head, size);
    peer_send(fd, head.at, head.len);
    peer_send(fd, value, size - 1);
    dt_buf_finish(&head);
    while (unread > 0) {
        CHECK(ioctl(fd, SIOCOUTQ, &unread) == 0);
        sched_yield();
    }
    return fd;
}

TEST(buffers_of_mixed_sizes_leave_no_holes_that_stay)
{
    /* Of each size as much as there is room for, of which every fourth stays: what is free between
     * them is too small for the next size. */
    static const size_t sizes[] = {160 << 10, 640 << 10, 2560 << 10};
    enum { SIZES = 3, MOST = 512, BUDGET = 64 };
    struct daemon_process d;
    char listen[600];
    int fds[MOST], count = 0;
    size_t held = 0;
    limit_memory(1u << 30);
    snprintf(listen, sizeof listen, "unix:%s", at("store.sock"));
    DAEMON_START(&d, PROGRAM, LISTEN, "--listen", listen, "--max-buffered", "64M",
                 "--max-value-size", "4M", "--max-peer-buffer", "16M");
    int good = peer_greet(d.port);
    set_big(good); /* malloc keeps what it has seen come and go */
    for (int i = 0; i < SIZES; i++) {
        int first = count;
        for (; held + sizes[i] < BUDGET * 7 / 8 << 20; held += sizes[i]) {
            CHECK(count < MOST);
            fds[count++] = send_nearly(at("store.sock"), sizes[i]);
        }
        for (int k = first; k < count; k++) {
            if (k % 4 == 0)
                continue;
            close(fds[k]);
            fds[k] = -1;
            held -= sizes[i];
        }
        for (int k = 0; k < 3; k++)
            peer_add(good, "n", 0, 0); /* it has noticed */
    }
    check_peak(&d, BUDGET + 4);
    for (int i = 0; i < count; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    close(good);
    CHECK_EQ(daemon_stop(&d), 0);
}

TEST(who_could_not_move_its_bytes_as_the_daemon_stood_still_stays)
{
    enum { MANY = 4, SIZE = VALUE - 4096 }; /* the budget has room for three of them */
    static const uint8_t value[SIZE];
    struct daemon_process d;
    int fds[MANY];
    limit_memory(1u << 30);
    DAEMON_START(&d, PROGRAM, LISTEN, "--max-buffered", "16M", "--max-value-size", "4M",
                 "--max-peer-buffer", "16M");
    struct dt_buf head = {0};
    dt_buf_put_u8(&head, DT_C10D_SET);
    dt_c10d_put_value(&head, dt_bytes_of("k"));
    dt_buf_put_u64(&head, SIZE);
    size_t most[MANY] = {SIZE - 1000, SIZE - 1000, SIZE - 1000, 5u << 19};
    for (int i = 0; i < MANY; i++) {
        fds[i] = peer_greet(d.port);
        peer_send(fds[i], head.at, head.len);
        peer_send(fds[i], value, most[i]);
    }
    kill(d.pid, SIGSTOP);
    poll(NULL, 0, 3000); /* of 2 s that a peer has while others wait */
    kill(d.pid, SIGCONT);
    poll(NULL, 0, 500); /* it has looked at them since */
    for (int i = 0; i < MANY; i++)
        peer_send(fds[i], value, SIZE - most[i]);
    for (int i = 0; i < MANY; i++) {
        peer_num_keys(fds[i], 1);
        close(fds[i]);
    }
    dt_buf_finish(&head);
    CHECK_EQ(daemon_stop(&d), 0);
}

/* KEYS requests of OP, a thousand at a time; ANSWER is what each is answered, if anything. */
static void for_each_key(int fd, enum dt_c10d_op op, int keys, size_t answer)
{
    for (int i = 0; i < keys;) {
        struct dt_buf all = {0};
        size_t owed = 0;
        for (int end = i + 1000; i < end; i++) {
            char key[16];
            snprintf(key, sizeof key, "%d", i);
            struct dt_c10d_request r = {.op = op, .key = dt_bytes_of(key)};
            CHECK(dt_c10d_encode(&all, DT_C10D_MODERN, &r));
            owed += answer;
        }
        peer_send(fd, all.at, all.len);
        CHECK(owed == 0 || read_all(&fd, 1, owed));
        dt_buf_finish(&all);
    }
}

TEST(a_store_that_is_emptied_gives_its_memory_back)
{
    enum { KEYS = 300000 };
    struct daemon_process d;
    limit_memory(1u << 30);
    DAEMON_START(&d, PROGRAM, LISTEN);
    int good = peer_greet(d.port);
    long empty = daemon_rss(&d);
    for_each_key(good, DT_C10D_SET, KEYS, 0);
    peer_num_keys(good, KEYS);
    long full = daemon_rss(&d);
    for_each_key(good, DT_C10D_DELETE_KEY, KEYS, 8);
    /* At the next turn of its loop, when a second has passed. */
    for (int i = 0; i < 1000000 && daemon_rss(&d) > empty + 4 * 1024 && !SANITIZED; i++)
        peer_num_keys(good, 0);
    CHECK(SANITIZED || daemon_rss(&d) <= empty + 4 * 1024);
    printf("# %ld KiB resident with %d keys\n", full, KEYS);
    close(good);
    CHECK_EQ(daemon_stop(&d), 0);
}
