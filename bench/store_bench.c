/* SPDX-License-Identifier: Apache-2.0 */
/* store_bench: puts one kind of load on a running store (PyTorch's protocol in both generations, or
 * redis) and prints operations per second and latencies. One thread, so that on a small machine it
 * leaves the other cores to the server. Exit status: 0, 1 when the run failed or the server froze,
 * 2 for a bad command line. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/dial.h"
#include "bench/fill.h"
#include "bench/load.h"
#include "bench/plan.h"
#include "bench/program.h"
#include "bench/waitwake.h"

enum format { FORMAT_TEXT, FORMAT_JSON, FORMAT_TSV };

struct options {
    char *server;
    int protocol, op, format;
    unsigned long connections, depth, value_size, keys, key_size, waiters, requests;
    double seconds, warmup, stall;
};

static const struct wire *const wires[] = {&wire_c10d, &wire_c10d_legacy, &wire_redis};
static const char *const wire_names[] = {"c10d", "c10d-legacy", "redis", NULL};
static const char *const format_names[] = {"text", "json", "tsv", NULL};

#define MANY (1ul << 40)

PROGRAM_CHOICE(parse_protocol, wire_names)
PROGRAM_CHOICE(parse_op, op_names)
PROGRAM_CHOICE(parse_format, format_names)
PROGRAM_NUMBER(parse_connections, 1, 60000)
PROGRAM_NUMBER(parse_depth, 1, 65536)
PROGRAM_NUMBER(parse_value_size, 0, 8 << 20)
PROGRAM_NUMBER(parse_keys, 1, 1ul << 32)
PROGRAM_NUMBER(parse_key_size, 3, 8192)
PROGRAM_NUMBER(parse_requests, 0, MANY)
PROGRAM_SECONDS(parse_seconds, 0, 3600)
PROGRAM_SECONDS(parse_stall, 1, 600)

#define AT(MEMBER) .at = offsetof(struct options, MEMBER)

/* clang-format off */
static const struct dt_opt opts[] = {
    {.name = "server", .arg = "HOST:PORT", AT(server), .help = "where the server listens"},
    {.name = "protocol", .arg = "NAME", .parse = parse_protocol, AT(protocol), .fallback = "c10d",
     .help = "how to speak: c10d, c10d-legacy (PyTorch 1.13 and 2.0) or redis"},
    {.name = "op", .arg = "NAME", .parse = parse_op, AT(op), .fallback = "add",
     .help = "what to do: add, set, get, setget, compare_set, mix, waitwake or fill"},
    {.name = "connections", .arg = "N", .parse = parse_connections, AT(connections), .fallback = "64", .help = "connections"},
    {.name = "depth", .arg = "N", .parse = parse_depth, AT(depth), .fallback = "1", .help = "operations in flight on each"},
    {.name = "value-size", .arg = "BYTES", .parse = parse_value_size, AT(value_size), .fallback = "64", .help = "of a value"},
    {.name = "keys", .arg = "N", .parse = parse_keys, AT(keys), .fallback = "1000", .help = "different keys"},
    {.name = "key-size", .arg = "BYTES", .parse = parse_key_size, AT(key_size), .fallback = "32", .help = "of a key"},
    {.name = "waiters", .arg = "N", .parse = parse_connections, AT(waiters), .fallback = "1", .help = "waitwake: connections that wait"},
    {.name = "seconds", .arg = "TIME", .parse = parse_seconds, AT(seconds), .fallback = "0",
     .help = "how long to measure; 0: 5 s, and with --requests and fill at most 120 s"},
    {.name = "requests", .arg = "N", .parse = parse_requests, AT(requests), .fallback = "0", .help = "operations to measure, instead"},
    {.name = "warmup", .arg = "TIME", .parse = parse_seconds, AT(warmup), .fallback = "0.5", .help = "before measuring"},
    {.name = "stall", .arg = "TIME", .parse = parse_stall, AT(stall), .fallback = "5", .help = "without an answer that counts as frozen"},
    {.name = "format", .arg = "NAME", .parse = parse_format, AT(format), .fallback = "text", .help = "how to print: text, json or tsv"},
    {0},
};
/* clang-format on */

static const struct dt_opt_program program = {
    .name = "store_bench",
    .usage = "--server HOST:PORT [options]",
    .summary =
        "Puts a load on a store and prints operations per second and latencies in\n"
        "microseconds. setget is SET, WAIT, GET as PyTorch's client sends them; mix is half\n"
        "add, a quarter setget, a quarter get; waitwake measures from a set to the last of\n"
        "--waiters; fill creates --keys keys and checks the server's count.",
    .table = opts,
};

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

static int finish(const struct options *o, const struct report *r, struct dt_err *err)
{
    print_report(o, r);
    fflush(stdout);
    if (!r->frozen)
        return 0;
    return dt_err_set(err, DT_E_RUNTIME, "the server froze: no answer for %.3g s", o->stall);
}

static struct key key_of(const struct options *o)
{
    return (struct key){.digits = key_digits(o->keys), .size = o->key_size};
}

static int run_load(const struct options *o, const struct dial *d, struct dt_err *err)
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
    if (load_run(&l, &r, err) < 0)
        return -1;
    return finish(o, &(struct report){r.done, r.seconds, &r.latency, r.frozen}, err);
}

static int run_waitwake(const struct options *o, const struct dial *d, struct dt_err *err)
{
    static struct waitwake_result r;
    if (waitwake_run(d, key_of(o), (unsigned)o->waiters, o->warmup, o->seconds, o->requests,
                     o->stall, &r, err) < 0)
        return -1;
    return finish(o, &(struct report){r.rounds, r.seconds, &r.latency, r.frozen}, err);
}

static int run_fill(const struct options *o, const struct dial *d, struct dt_err *err)
{
    static struct fill_result r;
    if (fill_run(d, key_of(o), o->keys, o->value_size, o->seconds, &r, err) < 0)
        return -1;
    if (!r.verified)
        return dt_err_set(err, DT_E_RUNTIME,
                          "the server counted %lld keys before and %lld after %lu new ones",
                          (long long)r.before, (long long)r.after, o->keys);
    return finish(o, &(struct report){o->keys, r.seconds, &r.latency, false}, err);
}

static int read_options(struct options *o, int argc, char **argv, struct dt_err *err)
{
    int rc = program_read(&program, argc, argv, o, err);
    if (rc != 0)
        return rc;
    if (!o->server)
        return dt_err_set(err, DT_E_USAGE, "say where the server is: --server HOST:PORT");
    if (o->key_size < 2 + key_digits(o->keys))
        return dt_err_set(err, DT_E_USAGE, "--key-size: %lu keys need at least %u bytes each",
                          o->keys, 2 + key_digits(o->keys));
    if (o->op == OP_WAITWAKE && o->key_size > 256)
        return dt_err_set(err, DT_E_USAGE, "--key-size: at most 256 for waitwake");
    if (o->seconds == 0)
        o->seconds = o->requests || o->op == OP_FILL ? 120 : 5;
    return 0;
}

static int run(const struct options *o, struct dt_err *err)
{
    struct dial d;
    if (dial_init(&d, o->server, wires[o->protocol], o->stall, err) < 0)
        return -1;
    if (o->op == OP_WAITWAKE)
        return run_waitwake(o, &d, err);
    if (o->op == OP_FILL)
        return run_fill(o, &d, err);
    return run_load(o, &d, err);
}

int main(int argc, char **argv)
{
    struct dt_err err;
    struct options o = {0};
    int rc = read_options(&o, argc, argv, &err);
    if (rc == 0) {
        /* Connecting and preparing have limits of their own; this one is for what they forgot. */
        alarm((unsigned)(o.seconds + o.warmup + 4 * o.stall) + 120);
        rc = run(&o, &err);
    }
    dt_opt_finish(&program, &o);
    return program_end(&program, rc, &err);
}
