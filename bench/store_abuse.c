/* SPDX-License-Identifier: Apache-2.0 */
/* store_abuse: a badly behaved client, to be run beside store_bench. Each kind of abuse is a row of
 * a table: one function that misbehaves once for a bounded time and returns; it is called again
 * until the seconds are over. A server may refuse, reset or close such connections; that is no
 * failure here. Prints "ready" when the abuse is under way, and at the end how often it was done.
 *
 * An alarm ends the process a while after its seconds, whatever the server does. */
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/dial.h"
#include "bench/fill.h"
#include "bench/load.h"
#include "bench/program.h"
#include "bench/waitwake.h"

enum {
    HALF_REQUESTS = 16,
    SLOW_WRITERS = 16,
    SLOW_PAUSE_MS = 10,
    DEAF_READERS = 4,
    DEAF_VALUE = 1 << 20,
    DEAF_GETS = 128,
    RANDOM_MAX = 4096,
    FLOOD_DEPTH = 8192,
    BIG_VALUE = 8 << 20,
    HERD_PAUSE_MS = 200,
    RETRY_MS = 100,
    PREPARE_S = 60,
};

struct abuse {
    struct dial dial;
    struct key key;
    unsigned waiters;
    double seconds;
    uint64_t end;
    uint64_t done; /* units: requests, connections or rounds */
    bool ready;
};

typedef int (*abuse_fn)(struct abuse *a, struct dt_err *err);

static bool over(const struct abuse *a)
{
    return load_now() >= a->end;
}

static void pause_ms(int ms)
{
    poll(NULL, 0, ms);
}

static void say_ready(struct abuse *a)
{
    if (a->ready)
        return;
    a->ready = true;
    a->end = load_now() + (uint64_t)(a->seconds * 1e9);
    printf("ready\n");
    fflush(stdout);
}

static void close_all(int *fds, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        dial_close(fds[i]);
}

static int open_all(const struct abuse *a, int *fds, unsigned n, struct dt_err *err)
{
    for (unsigned i = 0; i < n; i++)
        fds[i] = -1;
    for (unsigned i = 0; i < n; i++) {
        fds[i] = dial_open(&a->dial, err);
        if (fds[i] < 0) {
            close_all(fds, n);
            return -1;
        }
    }
    return 0;
}

/* Connections that send the first half of a SET and then nothing. */
static int half_request(struct abuse *a, struct dt_err *err)
{
    int fds[HALF_REQUESTS];
    struct out o = {0};
    if (open_all(a, fds, HALF_REQUESTS, err) < 0)
        return -1;
    a->dial.wire->set(a->dial.wire, &o, &a->key, 64);
    for (int i = 0; i < HALF_REQUESTS && !o.text.bad; i++, a->done++)
        dial_send(&a->dial, fds[i], o.text.at, o.text.len / 2, err);
    say_ready(a);
    while (!over(a))
        pause_ms(20);
    close_all(fds, HALF_REQUESTS);
    dt_buf_finish(&o.text);
    return 0;
}

/* Connections that ask for one large value again and again and never read an answer. */
static int never_read(struct abuse *a, struct dt_err *err)
{
    int fds[DEAF_READERS];
    struct out o = {0};
    if (fill_values(&a->dial, a->key, 1, DEAF_VALUE, err) < 0)
        return -1;
    if (open_all(a, fds, DEAF_READERS, err) < 0)
        return -1;
    a->key.family = 'v';
    a->dial.wire->get(a->dial.wire, &o, &a->key);
    for (int i = 0; i < DEAF_READERS && !o.text.bad; i++)
        for (int j = 0; j < DEAF_GETS; j++, a->done++)
            if (dial_send(&a->dial, fds[i], o.text.at, o.text.len, err) < 0)
                break;
    say_ready(a);
    while (!over(a))
        pause_ms(20);
    close_all(fds, DEAF_READERS);
    dt_buf_finish(&o.text);
    return 0;
}

/* Connections that send valid requests at one byte per 10 ms. */
static int slow_writer(struct abuse *a, struct dt_err *err)
{
    int fds[SLOW_WRITERS];
    struct out o = {0};
    int rc = open_all(a, fds, SLOW_WRITERS, err);
    if (rc < 0)
        return -1;
    a->dial.wire->set(a->dial.wire, &o, &a->key, 64);
    for (size_t at = 0; rc == 0 && !o.text.bad && !over(a); at = (at + 1) % o.text.len) {
        for (int i = 0; rc == 0 && i < SLOW_WRITERS; i++, a->done++)
            rc = dial_send(&a->dial, fds[i], o.text.at + at, 1, err);
        say_ready(a);
        pause_ms(SLOW_PAUSE_MS);
    }
    close_all(fds, SLOW_WRITERS);
    dt_buf_finish(&o.text);
    return rc;
}

/* A stream of connections that send random bytes, every second one after a proper hello. About a
 * thousand each second. */
static int random_bytes(struct abuse *a, struct dt_err *err)
{
    unsigned char noise[RANDOM_MAX];
    while (!over(a)) {
        int fd = a->done % 2 ? dial_open(&a->dial, err) : dial_connect(&a->dial, err);
        if (fd < 0)
            return -1;
        for (size_t i = 0; i < sizeof(noise); i++)
            noise[i] = (unsigned char)(rand() >> 7);
        dial_nonblocking(fd);
        dial_send(&a->dial, fd, noise, 1 + (size_t)rand() % sizeof(noise), err);
        dial_close(fd);
        a->done++;
        say_ready(a);
        pause_ms(1);
    }
    return 0;
}

/* Thousands of connections that wait for one key, woken together five times a second. */
static int herd(struct abuse *a, struct dt_err *err)
{
    struct waitwake *ww = waitwake_open(&a->dial, a->key, a->waiters, err);
    bool frozen = false;
    int rc = 0;
    if (!ww)
        return -1;
    while (rc == 0 && !frozen && !over(a)) {
        uint64_t took;
        rc = waitwake_round(ww, a->dial.patience, &took, &frozen, err);
        a->done++;
        say_ready(a);
        pause_ms(HERD_PAUSE_MS);
    }
    waitwake_close(ww);
    return rc;
}

static int run_load(struct abuse *a, enum op op, unsigned depth, size_t value_size,
                    struct dt_err *err)
{
    static struct load_result r;
    struct load l = {
        .dial = &a->dial,
        .op = op,
        .key = a->key,
        .keys = 1,
        .value_size = value_size,
        .connections = 1,
        .depth = depth,
        .seconds = a->seconds,
        .stall = a->dial.patience,
    };
    memset(&r, 0, sizeof(r));
    say_ready(a);
    int rc = load_run(&l, &r, err);
    a->done += r.done;
    return rc;
}

/* One connection with thousands of requests in flight. */
static int flood(struct abuse *a, struct dt_err *err)
{
    return run_load(a, OP_ADD, FLOOD_DEPTH, 0, err);
}

/* One connection that sets values of the largest legal size, back to back. */
static int big_set(struct abuse *a, struct dt_err *err)
{
    return run_load(a, OP_SET, 1, BIG_VALUE, err);
}

static const char *const kind_names[] = {
    "half-request", "never-read", "slow-writer", "random-bytes", "herd", "flood", "big-set", NULL};
static const abuse_fn kinds[] = {half_request, never_read, slow_writer, random_bytes,
                                 herd,         flood,      big_set};

struct options {
    char *server;
    int protocol, kind;
    unsigned long waiters;
    double seconds;
};

static const struct wire *const wires[] = {&wire_c10d, &wire_c10d_legacy, &wire_redis};
static const char *const wire_names[] = {"c10d", "c10d-legacy", "redis", NULL};

PROGRAM_CHOICE(parse_protocol, wire_names)
PROGRAM_CHOICE(parse_kind, kind_names)
PROGRAM_NUMBER(parse_waiters, 1, 60000)
PROGRAM_SECONDS(parse_seconds, 1, 600)

#define AT(MEMBER) .at = offsetof(struct options, MEMBER)

/* clang-format off */
static const struct dt_opt opts[] = {
    {.name = "server", .arg = "HOST:PORT", AT(server), .help = "where the server listens"},
    {.name = "protocol", .arg = "NAME", .parse = parse_protocol, AT(protocol), .fallback = "c10d",
     .help = "how to speak: c10d, c10d-legacy (PyTorch 1.13 and 2.0) or redis"},
    {.name = "kind", .arg = "KIND", .parse = parse_kind, AT(kind), .fallback = "half-request",
     .help = "what to do: half-request, never-read, slow-writer, random-bytes, herd, flood or big-set"},
    {.name = "waiters", .arg = "N", .parse = parse_waiters, AT(waiters), .fallback = "10000", .help = "herd: connections that wait"},
    {.name = "seconds", .arg = "TIME", .parse = parse_seconds, AT(seconds), .fallback = "5", .help = "how long"},
    {0},
};
/* clang-format on */

static const struct dt_opt_program program = {
    .name = "store_abuse",
    .usage = "--server HOST:PORT --kind KIND [options]",
    .summary = "Misbehaves towards a store for a while; measure beside it.",
    .table = opts,
};

/* A refused or closed connection is no failure: begin anew until the time is over. The seconds
 * count from "ready"; preparing has a limit of its own. */
static void misbehave(struct abuse *a, abuse_fn fn)
{
    struct dt_err err = {0};
    a->end = load_now() + (uint64_t)((a->seconds + PREPARE_S) * 1e9);
    while (!over(a)) {
        if (fn(a, &err) < 0)
            fprintf(stderr, "store_abuse: %s (going on)\n", err.text);
        pause_ms(RETRY_MS);
    }
}

static int run(const struct options *o, struct dt_err *err)
{
    struct abuse a = {.key = {.family = 'a', .digits = 4, .size = 32},
                      .waiters = (unsigned)o->waiters,
                      .seconds = o->seconds};
    if (!o->server)
        return dt_err_set(err, DT_E_USAGE, "say where the server is: --server HOST:PORT");
    if (dial_init(&a.dial, o->server, wires[o->protocol], 3, err) < 0)
        return -1;
    int fd = dial_open(&a.dial, err);
    if (fd < 0)
        return -1;
    dial_close(fd);
    alarm((unsigned)o->seconds + 2 * PREPARE_S);
    misbehave(&a, kinds[o->kind]);
    printf("%s: %llu\n", kind_names[o->kind], (unsigned long long)a.done);
    return 0;
}

int main(int argc, char **argv)
{
    struct dt_err err;
    struct options o = {0};
    int rc = program_read(&program, argc, argv, &o, &err);
    if (rc == 0)
        rc = run(&o, &err);
    dt_opt_finish(&program, &o);
    return program_end(&program, rc, &err);
}
