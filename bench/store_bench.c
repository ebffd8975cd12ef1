/* SPDX-License-Identifier: Apache-2.0 */
/* store_bench: puts one kind of load on a running store (PyTorch's protocol in both generations, or
 * redis) and prints operations per second and latencies. One thread, so that on a small machine it
 * leaves the other cores to the server. Exit status: 0, 1 when the run failed or the server froze,
 * 2 for a bad command line. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/dial.h"
#include "bench/fill.h"
#include "bench/flags.h"
#include "bench/load.h"
#include "bench/plan.h"
#include "bench/waitwake.h"

enum format { FORMAT_TEXT, FORMAT_JSON, FORMAT_TSV };

struct options {
    const char *host, *port;
    int protocol, op, format;
    unsigned long connections, depth, value_size, keys, key_size, waiters, requests;
    double seconds, warmup, stall;
};

static const struct wire *const wires[] = {&wire_c10d, &wire_c10d_legacy, &wire_redis};
static const char *const wire_names[] = {"c10d", "c10d-legacy", "redis", NULL};
static const char *const format_names[] = {"text", "json", "tsv", NULL};

static const char usage[] =
    "Usage: store_bench HOST:PORT [options]\n"
    "Puts a load on a store and prints operations per second and latencies in microseconds.\n"
    "setget is SET, WAIT, GET as PyTorch's client sends them; mix is half add, a quarter setget,\n"
    "a quarter get; waitwake measures from a set to the last of --waiters; fill creates --keys\n"
    "keys and checks the server's count.";

#define AT(MEMBER) offsetof(struct options, MEMBER)

/* clang-format off */
static const struct flag flags[] = {
    {"host", FLAG_WORD, AT(host), 0, 0, NULL, "where the server listens"},
    {"port", FLAG_WORD, AT(port), 0, 0, NULL, "its port"},
    {"protocol", FLAG_CHOICE, AT(protocol), 0, 0, wire_names, "how to speak; legacy is PyTorch 1.13"},
    {"op", FLAG_CHOICE, AT(op), 0, 0, op_names, "what to do"},
    {"connections", FLAG_COUNT, AT(connections), 1, 60000, NULL, "connections (64)"},
    {"depth", FLAG_COUNT, AT(depth), 1, 65536, NULL, "operations in flight on each (1)"},
    {"value-size", FLAG_COUNT, AT(value_size), 0, 8 << 20, NULL, "bytes of a value (64)"},
    {"keys", FLAG_COUNT, AT(keys), 1, 1ul << 32, NULL, "different keys (1000)"},
    {"key-size", FLAG_COUNT, AT(key_size), 3, 8192, NULL, "bytes of a key (32)"},
    {"waiters", FLAG_COUNT, AT(waiters), 1, 60000, NULL, "waitwake: connections that wait (1)"},
    {"seconds", FLAG_TIME, AT(seconds), 0, 3600, NULL, "how long to measure (5; with --requests and fill at most 120)"},
    {"requests", FLAG_COUNT, AT(requests), 1, 1ul << 40, NULL, "operations to measure, instead"},
    {"warmup", FLAG_TIME, AT(warmup), 0, 600, NULL, "seconds before measuring (0.5)"},
    {"stall", FLAG_TIME, AT(stall), 1, 600, NULL, "seconds without an answer that count as frozen (5)"},
    {"format", FLAG_CHOICE, AT(format), 0, 0, format_names, "how to print"},
    {0},
};
/* clang-format on */

/* What all kinds of load come down to. */
struct report {
    uint64_t ops;
    double seconds;
    const struct hist *latency;
    bool frozen;
};

static double usec(const struct hist *h, double quantile)
{
    return (double)hist_quantile(h, quantile) / 1e3;
}

static void print_report(const struct options *o, const struct report *r)
{
    const char *wire = wire_names[o->protocol], *op = op_names[o->op];
    double rate = r->seconds > 0 ? (double)r->ops / r->seconds : 0;
    double p50 = usec(r->latency, 0.5), p99 = usec(r->latency, 0.99);
    double p999 = usec(r->latency, 0.999), max = (double)r->latency->max / 1e3;
    switch ((enum format)o->format) {
    case FORMAT_TEXT:
        printf("%s %s: %.0f ops/s, latency p50 %.1f p99 %.1f p99.9 %.1f max %.1f us (%llu in "
               "%.2f s)%s\n",
               wire, op, rate, p50, p99, p999, max, (unsigned long long)r->ops, r->seconds,
               r->frozen ? " FROZEN" : "");
        return;
    case FORMAT_JSON:
        printf("{\"protocol\": \"%s\", \"op\": \"%s\", \"connections\": %lu, \"depth\": %lu, "
               "\"ops\": %llu, \"seconds\": %.3f, \"ops_per_s\": %.1f, \"p50_us\": %.2f, "
               "\"p99_us\": %.2f, \"p999_us\": %.2f, \"max_us\": %.2f, \"frozen\": %s}\n",
               wire, op, o->connections, o->depth, (unsigned long long)r->ops, r->seconds, rate,
               p50, p99, p999, max, r->frozen ? "true" : "false");
        return;
    case FORMAT_TSV:
        printf("%s\t%s\t%lu\t%lu\t%llu\t%.3f\t%.1f\t%.2f\t%.2f\t%.2f\t%.2f\t%d\n", wire, op,
               o->connections, o->depth, (unsigned long long)r->ops, r->seconds, rate, p50, p99,
               p999, max, r->frozen);
        return;
    }
}

static int finish(const struct options *o, const struct report *r, struct fail *f)
{
    print_report(o, r);
    fflush(stdout);
    if (!r->frozen)
        return 0;
    return fail_set(f, FAIL_RUN, "the server froze: no answer for %.3g s.", o->stall);
}

static struct key key_of(const struct options *o)
{
    return (struct key){.digits = key_digits(o->keys), .size = o->key_size};
}

static int run_load(const struct options *o, const struct dial *d, struct fail *f)
{
    static struct load_result r;
    struct load l = {
        .dial = d,
        .op = (enum op)o->op,
        .key = key_of(o),
        .keys = o->keys,
        .value_size = o->value_size,
        .connections = (unsigned)o->connections,
        .depth = (unsigned)o->depth,
        .warmup = o->warmup,
        .seconds = o->seconds,
        .requests = o->requests,
        .stall = o->stall,
    };
    if (load_run(&l, &r, f) < 0)
        return -1;
    return finish(o, &(struct report){r.done, r.seconds, &r.latency, r.frozen}, f);
}

static int run_waitwake(const struct options *o, const struct dial *d, struct fail *f)
{
    static struct waitwake_result r;
    if (waitwake_run(d, key_of(o), (unsigned)o->waiters, o->warmup, o->seconds, o->requests,
                     o->stall, &r, f) < 0)
        return -1;
    return finish(o, &(struct report){r.rounds, r.seconds, &r.latency, r.frozen}, f);
}

static int run_fill(const struct options *o, const struct dial *d, struct fail *f)
{
    static struct fill_result r;
    if (fill_run(d, key_of(o), o->keys, o->value_size, o->seconds, &r, f) < 0)
        return -1;
    if (!r.verified)
        return fail_set(f, FAIL_RUN,
                        "the server counted %lld keys before and %lld after %lu new ones.",
                        (long long)r.before, (long long)r.after, o->keys);
    return finish(o, &(struct report){o->keys, r.seconds, &r.latency, false}, f);
}

/* HOST:PORT into its halves, in place of --host and --port. */
static int split_endpoint(struct options *o, const char *word, struct fail *f)
{
    static char host[256];
    if (word) {
        const char *colon = strrchr(word, ':');
        if (!colon || colon == word || (size_t)(colon - word) >= sizeof(host))
            return fail_set(f, FAIL_USAGE, "\"%s\" is not HOST:PORT.", word);
        memcpy(host, word, (size_t)(colon - word));
        o->host = host;
        o->port = colon + 1;
    }
    if (!o->port)
        return fail_set(f, FAIL_USAGE, "say where the server is: HOST:PORT.");
    return 0;
}

static int read_options(struct options *o, int argc, char **argv, struct fail *f)
{
    const char *word;
    int rc = flags_parse(flags, argc, argv, o, &word, usage, f);
    if (rc != 0)
        return rc;
    if (split_endpoint(o, word, f) < 0)
        return -1;
    if (o->key_size < 2 + key_digits(o->keys))
        return fail_set(f, FAIL_USAGE, "--key-size: %lu keys need at least %u bytes each.", o->keys,
                        2 + key_digits(o->keys));
    if (o->op == OP_WAITWAKE && o->key_size > 256)
        return fail_set(f, FAIL_USAGE, "--key-size: at most 256 for waitwake.");
    if (o->seconds == 0)
        o->seconds = o->requests || o->op == OP_FILL ? 120 : 5;
    return 0;
}

static int run(const struct options *o, struct fail *f)
{
    struct dial d;
    if (dial_init(&d, o->host, o->port, wires[o->protocol], o->stall, f) < 0)
        return -1;
    if (o->op == OP_WAITWAKE)
        return run_waitwake(o, &d, f);
    if (o->op == OP_FILL)
        return run_fill(o, &d, f);
    return run_load(o, &d, f);
}

int main(int argc, char **argv)
{
    struct fail f;
    struct options o = {.host = "127.0.0.1",
                        .connections = 64,
                        .depth = 1,
                        .value_size = 64,
                        .keys = 1000,
                        .key_size = 32,
                        .waiters = 1,
                        .warmup = 0.5,
                        .stall = 5};
    int rc = read_options(&o, argc, argv, &f);
    if (rc > 0)
        return 0;
    if (rc == 0) {
        /* Connecting and preparing have limits of their own; this one is for what they forgot. */
        fail_after((unsigned)(o.seconds + o.warmup + 4 * o.stall) + 120);
        rc = run(&o, &f);
    }
    return rc < 0 ? fail_print(&f, "store_bench") : 0;
}
