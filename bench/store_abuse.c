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

#include "bench/dial.h"
#include "bench/fill.h"
#include "bench/flags.h"
#include "bench/load.h"
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

typedef int (*abuse_fn)(struct abuse *a, struct fail *f);

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

static int open_all(const struct abuse *a, int *fds, unsigned n, struct fail *f)
{
    for (unsigned i = 0; i < n; i++)
        fds[i] = -1;
    for (unsigned i = 0; i < n; i++) {
        fds[i] = dial_open(&a->dial, f);
        if (fds[i] < 0) {
            close_all(fds, n);
            return -1;
        }
    }
    return 0;
}

/* Connections that send the first half of a SET and then nothing. */
static int half_request(struct abuse *a, struct fail *f)
{
    int fds[HALF_REQUESTS];
    struct out o = {0};
    if (open_all(a, fds, HALF_REQUESTS, f) < 0)
        return -1;
    a->dial.wire->set(a->dial.wire, &o, &a->key, 64);
    for (int i = 0; i < HALF_REQUESTS && !o.bad; i++, a->done++)
        dial_send(&a->dial, fds[i], o.bytes, o.len / 2, f);
    say_ready(a);
    while (!over(a))
        pause_ms(20);
    close_all(fds, HALF_REQUESTS);
    out_finish(&o);
    return 0;
}

/* Connections that ask for one large value again and again and never read an answer. */
static int never_read(struct abuse *a, struct fail *f)
{
    int fds[DEAF_READERS];
    struct out o = {0};
    if (fill_values(&a->dial, a->key, 1, DEAF_VALUE, f) < 0)
        return -1;
    if (open_all(a, fds, DEAF_READERS, f) < 0)
        return -1;
    a->key.family = 'v';
    a->dial.wire->get(a->dial.wire, &o, &a->key);
    for (int i = 0; i < DEAF_READERS && !o.bad; i++)
        for (int j = 0; j < DEAF_GETS; j++, a->done++)
            if (dial_send(&a->dial, fds[i], o.bytes, o.len, f) < 0)
                break;
    say_ready(a);
    while (!over(a))
        pause_ms(20);
    close_all(fds, DEAF_READERS);
    out_finish(&o);
    return 0;
}

/* Connections that send valid requests at one byte per 10 ms. */
static int slow_writer(struct abuse *a, struct fail *f)
{
    int fds[SLOW_WRITERS];
    struct out o = {0};
    int rc = open_all(a, fds, SLOW_WRITERS, f);
    if (rc < 0)
        return -1;
    a->dial.wire->set(a->dial.wire, &o, &a->key, 64);
    for (size_t at = 0; rc == 0 && !o.bad && !over(a); at = (at + 1) % o.len) {
        for (int i = 0; rc == 0 && i < SLOW_WRITERS; i++, a->done++)
            rc = dial_send(&a->dial, fds[i], o.bytes + at, 1, f);
        say_ready(a);
        pause_ms(SLOW_PAUSE_MS);
    }
    close_all(fds, SLOW_WRITERS);
    out_finish(&o);
    return rc;
}

/* A stream of connections that send random bytes, every second one after a proper hello. About a
 * thousand each second. */
static int random_bytes(struct abuse *a, struct fail *f)
{
    unsigned char noise[RANDOM_MAX];
    while (!over(a)) {
        int fd = a->done % 2 ? dial_open(&a->dial, f) : dial_connect(&a->dial, f);
        if (fd < 0)
            return -1;
        for (size_t i = 0; i < sizeof(noise); i++)
            noise[i] = (unsigned char)(rand() >> 7);
        dial_nonblocking(fd);
        dial_send(&a->dial, fd, noise, 1 + (size_t)rand() % sizeof(noise), f);
        dial_close(fd);
        a->done++;
        say_ready(a);
        pause_ms(1);
    }
    return 0;
}

/* Thousands of connections that wait for one key, woken together five times a second. */
static int herd(struct abuse *a, struct fail *f)
{
    struct waitwake *ww = waitwake_open(&a->dial, a->key, a->waiters, f);
    bool frozen = false;
    int rc = 0;
    if (!ww)
        return -1;
    while (rc == 0 && !frozen && !over(a)) {
        uint64_t took;
        rc = waitwake_round(ww, a->dial.patience, &took, &frozen, f);
        a->done++;
        say_ready(a);
        pause_ms(HERD_PAUSE_MS);
    }
    waitwake_close(ww);
    return rc;
}

static int run_load(struct abuse *a, enum op op, unsigned depth, size_t value_size, struct fail *f)
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
    int rc = load_run(&l, &r, f);
    a->done += r.done;
    return rc;
}

/* One connection with thousands of requests in flight. */
static int flood(struct abuse *a, struct fail *f)
{
    return run_load(a, OP_ADD, FLOOD_DEPTH, 0, f);
}

/* One connection that sets values of the largest legal size, back to back. */
static int big_set(struct abuse *a, struct fail *f)
{
    return run_load(a, OP_SET, 1, BIG_VALUE, f);
}

static const char *const kind_names[] = {
    "half-request", "never-read", "slow-writer", "random-bytes", "herd", "flood", "big-set", NULL};
static const abuse_fn kinds[] = {half_request, never_read, slow_writer, random_bytes,
                                 herd,         flood,      big_set};

struct options {
    int protocol, kind;
    unsigned long waiters;
    double seconds;
};

static const struct wire *const wires[] = {&wire_c10d, &wire_c10d_legacy, &wire_redis};
static const char *const wire_names[] = {"c10d", "c10d-legacy", "redis", NULL};

static const char usage[] = "Usage: store_abuse HOST:PORT --kind KIND [options]\n"
                            "Misbehaves towards a store for a while; measure beside it.";

#define AT(MEMBER) offsetof(struct options, MEMBER)

/* clang-format off */
static const struct flag flags[] = {
    {"protocol", FLAG_CHOICE, AT(protocol), 0, 0, wire_names, "how to speak; legacy is PyTorch 1.13"},
    {"kind", FLAG_CHOICE, AT(kind), 0, 0, kind_names, "what to do"},
    {"waiters", FLAG_COUNT, AT(waiters), 1, 60000, NULL, "herd: connections that wait (10000)"},
    {"seconds", FLAG_TIME, AT(seconds), 1, 600, NULL, "how long (5)"},
    {0},
};
/* clang-format on */

/* A refused or closed connection is no failure: begin anew until the time is over. The seconds
 * count from "ready"; preparing has a limit of its own. */
static void misbehave(struct abuse *a, abuse_fn fn)
{
    struct fail f = {0};
    a->end = load_now() + (uint64_t)((a->seconds + PREPARE_S) * 1e9);
    while (!over(a)) {
        if (fn(a, &f) < 0)
            fprintf(stderr, "store_abuse: %s (going on)\n", f.text);
        pause_ms(RETRY_MS);
    }
}

int main(int argc, char **argv)
{
    struct fail f;
    struct options o = {.waiters = 10000, .seconds = 5};
    const char *word;
    char host[256];
    int rc = flags_parse(flags, argc, argv, &o, &word, usage, &f);
    if (rc > 0)
        return 0;
    const char *colon = rc == 0 && word ? strrchr(word, ':') : NULL;
    if (rc == 0 && (!colon || (size_t)(colon - word) >= sizeof(host)))
        rc = fail_set(&f, FAIL_USAGE, "say where the server is: HOST:PORT.");
    if (rc < 0)
        return fail_print(&f, "store_abuse");
    snprintf(host, sizeof(host), "%.*s", (int)(colon - word), word);
    struct abuse a = {.key = {.family = 'a', .digits = 4, .size = 32},
                      .waiters = (unsigned)o.waiters,
                      .seconds = o.seconds};
    if (dial_init(&a.dial, host, colon + 1, wires[o.protocol], 3, &f) < 0)
        return fail_print(&f, "store_abuse");
    int fd = dial_open(&a.dial, &f);
    if (fd < 0)
        return fail_print(&f, "store_abuse");
    dial_close(fd);
    fail_after((unsigned)o.seconds + 2 * PREPARE_S);
    misbehave(&a, kinds[o.kind]);
    printf("%s: %llu\n", kind_names[o.kind], (unsigned long long)a.done);
    return 0;
}
