/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/print_plan.h"

#include "agent/env.h"
#include "base/addr.h"
#include "base/signame.h"
#include "base/str.h"

#include <arpa/inet.h>
#include <string.h>

static const char *yes_no(bool is)
{
    return is ? "yes" : "no";
}

static void put_time(struct dt_buf *out, const char *name, dt_ms t)
{
    char text[32];
    dt_buf_printf(out, "%s: %s\n", name,
                  t == DT_FOREVER ? "for ever" : dt_str_from_duration(t, text, sizeof text));
}

/* TEXT as a shell would take it. */
static void put_quoted(struct dt_buf *out, const char *text)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_@%+=:,./-";
    bool escapes = false;
    for (const char *s = text; *s; s++)
        escapes = escapes || (unsigned char)*s < 0x20 || *s == 0x7f;
    if (*text && text[strspn(text, plain)] == '\0') {
        dt_buf_put_str(out, text);
        return;
    }
    dt_buf_put_str(out, escapes ? "$'" : "'");
    for (const char *s = text; *s; s++) {
        if (escapes && *s == '\n')
            dt_buf_put_str(out, "\\n");
        else if (escapes && ((unsigned char)*s < 0x20 || *s == 0x7f))
            dt_buf_printf(out, "\\%03o", (unsigned char)*s);
        else if (escapes && (*s == '\\' || *s == '\''))
            dt_buf_printf(out, "\\%c", *s);
        else if (*s == '\'')
            dt_buf_put_str(out, "'\\''");
        else
            dt_buf_put_u8(out, (uint8_t)*s);
    }
    dt_buf_put_str(out, "'");
}

static void put_list(struct dt_buf *out, const char *name, char *const *words)
{
    dt_buf_printf(out, "%s:", name);
    for (; words && *words; words++) {
        dt_buf_put_str(out, " ");
        put_quoted(out, *words);
    }
    dt_buf_put_str(out, "\n");
}

static void put_text(struct dt_buf *out, const char *name, const char *text, const char *absent)
{
    dt_buf_printf(out, "%s: ", name);
    if (text)
        put_quoted(out, text);
    else
        dt_buf_put_str(out, absent);
    dt_buf_put_str(out, "\n");
}

static void put_what_runs(const struct dt_plan *p, struct dt_buf *out)
{
    put_list(out, "command", p->argv);
    put_text(out, "interpreter from", p->python_from, "none is needed");
    put_text(out, "title", p->title, "");
    dt_buf_printf(out, "workers: %d\n", p->nproc);
    put_text(out, "role", p->role, "");
    dt_buf_printf(out, "virtual local rank: %s\n", yes_no(p->virtual_local_rank));
    if (p->omp_threads)
        dt_buf_printf(out, "OMP_NUM_THREADS: %d\n", p->omp_threads);
    else
        dt_buf_put_str(out, "OMP_NUM_THREADS: as it is\n");
    put_text(out, "LC_CTYPE", p->ctype, "as it is");
}

static void put_allowed(const struct dt_plan *p, struct dt_buf *out)
{
    dt_buf_put_str(out, "store clients:");
    if (!p->store_allow_count)
        dt_buf_put_str(out, " all that reach it");
    for (size_t i = 0; i < p->store_allow_count; i++) {
        const struct dt_cidr *c = &p->store_allow[i];
        char text[INET6_ADDRSTRLEN];
        inet_ntop(c->family, c->bytes, text, sizeof text);
        dt_buf_printf(out, " %s/%u", text, c->bits);
    }
    dt_buf_put_str(out, "\n");
}

static void put_meeting(const struct dt_plan *p, struct dt_buf *out)
{
    dt_buf_printf(out, "backend: %s\n", p->backend == DT_BACKEND_STATIC ? "static" : "c10d");
    dt_buf_printf(out, "nodes: %d", p->min_nodes);
    if (p->max_nodes != p->min_nodes)
        dt_buf_printf(out, ":%d", p->max_nodes);
    dt_buf_printf(out, "\nnode rank: %d\n", p->node_rank);
    put_text(out, "run id", p->run_id, "");
    if (p->scheduled_id) {
        put_text(out, "run id at a daemon", p->scheduled_id, "");
        put_text(out, "run id at a daemon is from", p->scheduled_by, "");
    }
    const char *brackets = strchr(p->endpoint_host, ':') ? "[]" : "";
    dt_buf_printf(out, "endpoint: %.1s%s%s:%d\n", brackets, p->endpoint_host,
                  *brackets ? brackets + 1 : "", p->endpoint_port);
    put_text(out, "local address", p->local_addr, "found out");
    put_time(out, "join timeout", p->join_timeout);
    put_time(out, "read timeout", p->read_timeout);
    put_time(out, "exit barrier timeout", p->barrier_timeout);
    dt_buf_printf(out, "nodes are identical: %s\n", yes_no(p->identical));
    put_text(out, "store address", p->store_listen,
             p->max_nodes == 1 && !p->run.spares ? "loopback" : "every address");
    put_allowed(p, out);
}

static void put_signals(uint64_t set, struct dt_buf *out)
{
    if (set)
        dt_signame_list(set, out);
    else
        dt_buf_put_str(out, "none");
}

static void put_agreement(const struct dt_run_spec *run, struct dt_buf *out)
{
    char text[64];
    for (size_t row = 0; dt_spec_fields[row].name; row++)
        if (dt_spec_looks[row].label)
            dt_buf_printf(out, "%s: %s\n", dt_spec_looks[row].label,
                          dt_spec_text(run, row, text, sizeof text));
}

static void put_elastic(const struct dt_plan *p, struct dt_buf *out)
{
    static const char *const hosts[] = {
        [DT_HOST_INFERRED] = "found out", [DT_HOST_YES] = "yes", [DT_HOST_NO] = "no"};
    dt_buf_printf(out, "hosts the rendezvous: %s\n", hosts[p->is_host]);
    if (p->order >= 0)
        dt_buf_printf(out, "place wished for: %d\n", p->order);
    else
        dt_buf_put_str(out, "place wished for: none\n");
    if (p->expected_nodes)
        dt_buf_printf(out, "nodes started: %d\n", p->expected_nodes);
    else
        dt_buf_put_str(out, "nodes started: not known\n");
    put_text(out, "scheduler's job", *p->run.job ? p->run.job : NULL, "none");
    put_text(out, "user", p->run.user, "");
    put_text(out, "node name", p->node_name, "that of the host");
    put_text(out, "domain", p->domain, "none");
    put_text(out, "token file", p->token_file, "none");
    put_text(out, "run token file", p->run_token_file, "none");
    put_text(out, "progress file", p->progress_file, "none");
    if (p->http)
        put_list(out, "HTTP of the rendezvous", p->http);
    else
        dt_buf_put_str(out, "HTTP of the rendezvous: none\n");
    if (p->http)
        put_text(out, "HTTP token file", p->http_token_file, "none");
    dt_buf_printf(out, "without the rendezvous: %s\n", p->stop_when_away ? "stop" : "keep");
    put_agreement(&p->run, out);
}

static void put_ending(const struct dt_plan *p, struct dt_buf *out)
{
    dt_buf_printf(out, "restarts: %d\nretry what can only fail again: %s\nkeep workers: %s\n",
                  p->max_restarts, p->retry_deterministic ? "yes" : "no",
                  p->keep_workers ? "auto" : "never");
    dt_buf_put_str(out, "signals that end: ");
    put_signals(p->stop_signals, out);
    dt_buf_put_str(out, "\nsignals passed on: ");
    put_signals(p->forward_signals, out);
    dt_buf_put_str(out, "\n");
    put_time(out, "shutdown timeout", p->shutdown_timeout);
    dt_buf_printf(out, "stop order: %s\nexit code: %s\n",
                  p->stop_leaders_first ? "leader" : "group",
                  p->exit_policy == DT_EXIT_ROOT_CAUSE ? "root-cause" : "torchrun");
}

static bool same_streams(const struct dt_plan_streams *a, const struct dt_plan_streams *b)
{
    return a->redirect == b->redirect && a->tee == b->tee && a->hidden == b->hidden;
}

/* Equal neighbours share a line, so that many workers stay readable. */
static void put_streams(const struct dt_plan *p, struct dt_buf *out)
{
    static const char *const masks[] = {"nothing", "stdout", "stderr", "stdout and stderr"};
    for (int i = 0, end; i < p->nproc; i = end) {
        const struct dt_plan_streams *s = &p->streams[i];
        for (end = i + 1; end < p->nproc && same_streams(s, &p->streams[end]);)
            end++;
        dt_buf_printf(out, "output of local rank %d", i);
        if (end > i + 1)
            dt_buf_printf(out, "-%d", end - 1);
        dt_buf_printf(out, ": redirects %s, tees %s, %s\n", masks[s->redirect & 3],
                      masks[s->tee & 3], s->hidden ? "hidden" : "shown");
    }
}

static void put_log_limits(const struct dt_log_limits *l, struct dt_buf *out)
{
    char size[32];
    if (!dt_log_limits_any(l))
        return;
    dt_buf_put_str(out, "earlier runs kept:");
    if (l->runs)
        dt_buf_printf(out, " at most %d", l->runs);
    if (l->days)
        dt_buf_printf(out, "%s for %d days", l->runs ? "," : "", l->days);
    if (l->size)
        dt_buf_printf(out, "%s up to %s", l->runs || l->days ? "," : "",
                      dt_str_from_size(l->size, size, sizeof size));
    dt_buf_put_str(out, "\n");
}

static void put_output(const struct dt_plan *p, struct dt_buf *out)
{
    put_text(out, "log folder", p->log_dir,
             p->no_logs ? "none" : "a fresh one in a temporary folder");
    dt_buf_printf(out, "keep logs: %s\n", p->keep_logs == DT_KEEP_ALL_LOGS ? "all" : "failed");
    put_log_limits(&p->log_limits, out);
    put_streams(p, out);
    put_text(out, "line prefix", p->line_prefix, "'[${role_name}${local_rank}]:'");
    put_list(out, "stdout filters", p->stdout_filters);
    put_list(out, "stderr filters", p->stderr_filters);
    dt_buf_printf(out, "inherit streams: %s\n", yes_no(p->inherit_streams));
    if (p->whole_lines)
        dt_buf_put_str(out, "whole lines: yes\n");
    if (p->partial_line_after)
        put_time(out, "partial lines after", p->partial_line_after);
    else
        dt_buf_put_str(out, "partial lines after: never\n");
    dt_buf_printf(out, "collapse lines: %s\nstrip codes: %s\n", yes_no(p->collapse_lines),
                  yes_no(p->strip_codes));
}

static void put_hangs(const struct dt_plan *p, struct dt_buf *out)
{
    static const char *const actions[] = {
        [DT_ON_HANG_LOG] = "log", [DT_ON_HANG_RESTART] = "restart", [DT_ON_HANG_STOP] = "stop"};
    static const char *const straggler[] = {[DT_ON_STRAGGLER_LOG] = "log",
                                            [DT_ON_STRAGGLER_DRAIN] = "drain",
                                            [DT_ON_STRAGGLER_OFF] = "off"};
    char name[DT_SIGNAME_TEXT];
    if (p->hang_after == DT_HANG_AUTO)
        dt_buf_put_str(out, "hang after: auto\n");
    else if (p->hang_after == DT_FOREVER)
        dt_buf_put_str(out, "hang after: never\n");
    else
        put_time(out, "hang after", p->hang_after);
    dt_buf_printf(out, "on hang: %s\non straggler: %s\nlook on signal: %s\n", actions[p->on_hang],
                  straggler[p->on_straggler],
                  p->look_signal ? dt_signame_text(p->look_signal, name) : "none");
}

static void put_uploads(const struct dt_plan *p, struct dt_buf *out)
{
    for (size_t i = 0; i < p->upload_count; i++) {
        dt_buf_put_str(out, "upload: ");
        put_quoted(out, p->uploads[i].dir);
        dt_buf_printf(out, " to %s\n", p->uploads[i].url ? p->uploads[i].url : "wherever");
    }
    if (p->upload_count == 0)
        return;
    put_text(out, "upload command", p->upload_cmd, "none");
    put_time(out, "upload after", p->upload_after);
    put_time(out, "upload timeout", p->upload_timeout);
}

static void put_flight(const struct dt_plan *p, struct dt_buf *out)
{
    const char *place = p->flight_dump ? "in the folder of logs" : "as it is";
    dt_buf_printf(out, "%s: %s\n", DT_ENV_FLIGHT_BUFFER,
                  p->flight_buffer ? DT_ENV_FLIGHT_CALLS : "as it is");
    dt_buf_printf(out, "%s: %s\n", p->flight_dump ? p->flight_dump : DT_ENV_FLIGHT_DUMP, place);
    dt_buf_printf(out, "%s: %s\n", DT_ENV_FLIGHT_PIPE, place);
}

static void put_watching(const struct dt_plan *p, struct dt_buf *out)
{
    static const char *const binds[] = {[DT_BIND_NONE] = "none",
                                        [DT_BIND_NODE] = "node",
                                        [DT_BIND_SOCKET] = "socket",
                                        [DT_BIND_EXCLUSIVE] = "exclusive",
                                        [DT_BIND_COMPLEX] = "core-complex"};
    static const char *const preflights[] = {
        [DT_PREFLIGHT_OFF] = "off", [DT_PREFLIGHT_FAST] = "fast", [DT_PREFLIGHT_FULL] = "full"};
    dt_buf_printf(out, "preflight: %s\n", preflights[p->preflight]);
    put_text(out, "events", p->event_log, "");
    if (p->health_port)
        dt_buf_printf(out, "health port: %d\n", p->health_port);
    else
        dt_buf_put_str(out, "health port: none\n");
    if (p->health_port)
        put_text(out, "health address", p->health_address, "every one");
    dt_buf_printf(out, "file timers: %s\n", yes_no(p->watchdog));
    if (p->watchdog)
        put_text(out, "timer file", p->watchdog_path, "a fresh one in a temporary folder");
    put_text(out, "NCCL profiler", p->nccl_profiler, "none of dtrun's");
    if (p->nccl_profiler)
        dt_buf_printf(out, "NCCL events: %s\n",
                      p->nccl_events == DT_NCCL_KERNELS ? "calls and kernels" : "calls");
    put_text(out, "error file", p->error_file, "none");
    put_uploads(p, out);
    put_hangs(p, out);
    put_flight(p, out);
    dt_buf_printf(out, "binding: %s\n", binds[p->bind]);
}

/* A person's words may be in it: they shall not begin a line. */
static void put_sentence(struct dt_buf *out, const char *name, const char *text)
{
    dt_buf_printf(out, "%s: ", name);
    for (; *text; text++)
        dt_buf_put_u8(out, (unsigned char)*text < 0x20 ? ' ' : (uint8_t)*text);
    dt_buf_put_str(out, "\n");
}

void dt_plan_print(const struct dt_plan *plan, char *const *warnings, struct dt_buf *out)
{
    put_what_runs(plan, out);
    put_meeting(plan, out);
    if (dt_plan_is_elastic(plan))
        put_elastic(plan, out);
    put_ending(plan, out);
    put_output(plan, out);
    put_watching(plan, out);
    for (char **s = plan->ignored; s && *s; s++)
        put_sentence(out, "ignored", *s);
    for (char **s = plan->needless; s && *s; s++)
        put_sentence(out, "ignored", *s);
    for (; warnings && *warnings; warnings++)
        put_sentence(out, "warning", *warnings);
}
