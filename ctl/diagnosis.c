/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/diagnosis.h"

#include "base/str.h"
#include "preflight/compare.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOW_US 250000 /* a beat goes there and back, and people wait for each answer */
#define NEARLY_FULL 80 /* percent */

static void judge_place(const struct dt_ctl_visit *v, struct dt_sheet *out)
{
    bool hosted = strcmp(v->server->host, "agent") == 0;
    bool slow = v->trip_us > SLOW_US;
    char from[64] = "";
    if (v->from)
        snprintf(from, sizeof from, ", of %s,", v->from);
    dt_sheet_remark(out, "rendezvous", slow ? DT_GRADE_WARN : DT_GRADE_OK,
                    slow ? "see how busy its host and the network to it are" : NULL,
                    "%s%s answers in %.2f ms", v->place, from, (double)v->trip_us / 1000);
    if (hosted)
        dt_sheet_remark(out, "rendezvous", DT_GRADE_NOTE,
                        "dtrun-rendezvous on a host of its own outlives jobs",
                        "an agent hosts it: it ends with that agent's job");
}

static void judge_version(const struct dt_ctl_visit *v, struct dt_sheet *out)
{
    bool same = strcmp(v->server->version, DT_VERSION) == 0;
    dt_sheet_remark(out, "version", same ? DT_GRADE_OK : DT_GRADE_WARN,
                    same ? NULL : "install the same dtrun on all hosts", "%s there, %s here",
                    v->server->version, DT_VERSION);
}

static void judge_token(const struct dt_ctl_visit *v, struct dt_sheet *out)
{
    if (v->token)
        dt_sheet_remark(out, "token", DT_GRADE_OK, NULL, "it asks for a token, and took this one");
    else
        dt_sheet_remark(out, "token", DT_GRADE_NOTE,
                        "where others reach it, start it with --token-file",
                        "it asks for no token: whoever reaches its port may join jobs");
}

/* What the trip can explain is nothing to complain of. */
static void judge_clock(const struct dt_ctl_visit *v, struct dt_sheet *out)
{
    int64_t doubt = v->trip_us / 2, off = llabs(v->offset_us);
    bool apart = off - doubt > DT_CLOCKS_APART_US;
    dt_sheet_remark(out, "clock", apart ? DT_GRADE_WARN : DT_GRADE_OK,
                    apart ? "start chrony, ntpd or systemd-timesyncd on both hosts" : NULL,
                    "its clock is %.2f ms %s the one here, give or take %.2f ms",
                    (double)off / 1000, v->offset_us < 0 ? "behind" : "ahead of",
                    (double)doubt / 1000);
}

static void judge_http(const struct dt_ctl_visit *v, struct dt_sheet *out)
{
    if (*v->server->http)
        dt_sheet_remark(out, "http", DT_GRADE_OK, NULL, "the page and the metrics are at %s",
                        v->server->http);
    else
        dt_sheet_remark(out, "http", DT_GRADE_NOTE, "start it with --http 127.0.0.1:29480",
                        "it answers no HTTP: there is no page, and there are no metrics");
}

/* -- limits ----------------------------------------------------------------------------------- */

struct limit {
    const char *what, *option;
    int64_t used, most;
    bool bytes;
};

static int percent(const struct limit *l)
{
    return l->most > 0 ? (int)((double)l->used * 100 / (double)l->most) : 0;
}

static const char *amount(const struct limit *l, int64_t n, char *out, size_t size)
{
    if (l->bytes)
        return dt_str_from_size((uint64_t)n, out, size);
    snprintf(out, size, "%" PRId64, n);
    return out;
}

static void judge_limit(const struct limit *l, struct dt_sheet *out)
{
    char used[32], most[32], advice[96];
    bool full = l->used >= l->most, nearly = percent(l) >= NEARLY_FULL;
    snprintf(advice, sizeof advice, "raise its %s", l->option);
    dt_sheet_remark(out, "limits",
                    full     ? DT_GRADE_FAIL
                    : nearly ? DT_GRADE_WARN
                             : DT_GRADE_OK,
                    nearly ? advice : NULL, "%s: %s of %s%s", l->what,
                    amount(l, l->used, used, sizeof used), amount(l, l->most, most, sizeof most),
                    full ? ", and no more are taken" : "");
}

static void judge_limits(const struct dt_ctl_visit *v, struct dt_sheet *out)
{
    const struct dt_status_server *s = v->server;
    const struct limit limits[] = {
        {"runs", "--max-runs", s->runs, s->most_runs, false},
        {"nodes", "--max-nodes", s->nodes, s->most_nodes, false},
        {"connections", "--max-connections, or its limit of open files", s->connections,
         s->most_connections, false},
        {"memory of the store", "--max-total-size", s->store_bytes, s->most_store_bytes, true},
    };
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        judge_limit(&limits[i], out);
}

/* -- all of it -------------------------------------------------------------------------------- */

void dt_ctl_diagnose(const struct dt_ctl_visit *v, struct dt_sheet *out)
{
    judge_place(v, out);
    judge_version(v, out);
    judge_token(v, out);
    if (v->server->now_us == 0) {
        dt_sheet_remark(out, "version", DT_GRADE_NOTE, "install the same dtrun there",
                        "it is an older one, which tells nothing of its clock and its limits");
        return;
    }
    judge_clock(v, out);
    judge_http(v, out);
    judge_limits(v, out);
}

void dt_ctl_diagnose_absence(const char *why, struct dt_sheet *out)
{
    dt_sheet_remark(out, "rendezvous", DT_GRADE_FAIL, NULL, "%s", why);
}
