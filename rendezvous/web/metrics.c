/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/web/metrics.h"

#include "base/utf8.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum type { GAUGE, COUNTER };

struct writer {
    struct dt_buf *out;
    enum dt_web_format format;
    const char *name; /* of the family whose samples come */
    enum type type;
    bool labelled; /* the sample's labels are open */
};

/* -- text ------------------------------------------------------------------------------------- */

/* The formats take UTF-8 alone, and lines must not be torn. */
static void put_escaped(struct dt_buf *out, const char *text)
{
    const uint8_t *s = (const uint8_t *)text;
    for (size_t left = strlen(text), n; left > 0; s += n, left -= n) {
        size_t len = dt_utf8_len(s, left);
        n = len ? len : 1;
        if (len == 0)
            dt_buf_put_u8(out, '?');
        else if (*s == '\n')
            dt_buf_put_str(out, "\\n");
        else if (*s == '"' || *s == '\\')
            dt_buf_printf(out, "\\%c", *s);
        else
            dt_buf_put(out, s, n);
    }
}

/* A counter's samples end in _total; only the older format calls the family so, too. */
static void family(struct writer *w, enum type type, const char *name, const char *help)
{
    const char *total = type == COUNTER && w->format == DT_WEB_PROMETHEUS ? "_total" : "";
    w->name = name;
    w->type = type;
    dt_buf_printf(w->out, "# HELP dtrun_%s%s %s\n# TYPE dtrun_%s%s %s\n", name, total, help, name,
                  total, type == COUNTER ? "counter" : "gauge");
}

static void begin(struct writer *w)
{
    dt_buf_printf(w->out, "dtrun_%s%s", w->name, w->type == COUNTER ? "_total" : "");
    w->labelled = false;
}

static void label(struct writer *w, const char *name, const char *value)
{
    dt_buf_printf(w->out, "%s%s=\"", w->labelled ? "," : "{", name);
    put_escaped(w->out, value);
    dt_buf_put_str(w->out, "\"");
    w->labelled = true;
}

static void end(struct writer *w, int64_t value)
{
    dt_buf_printf(w->out, "%s %" PRId64 "\n", w->labelled ? "}" : "", value);
}

static void end_thousandths(struct writer *w, int64_t n)
{
    dt_buf_printf(w->out, "%s %" PRId64 ".%03" PRId64 "\n", w->labelled ? "}" : "", n / 1000,
                  n % 1000);
}

/* -- rows ------------------------------------------------------------------------------------- */

/* One number of 64 bits at AT of a struct. */
struct row {
    const char *name, *help;
    size_t at;
    enum type type;
    bool thousandths; /* of what the metric counts: milliseconds, of seconds */
};

static int64_t number_of(const struct row *r, const void *from)
{
    int64_t n;
    memcpy(&n, (const char *)from + r->at, sizeof n);
    return n;
}

#define FACT(field) .at = offsetof(struct dt_web_facts, field)
#define RUN(field) .at = offsetof(struct dt_web_run, field)
#define RECEIVER(field) .at = offsetof(struct dt_web_receiver, field)
#define NODE(field) .at = offsetof(struct dt_web_node, field)

/* clang-format off */
static const struct row server_rows[] = {
    {"process_start_time_seconds", "When the server started, in seconds since 1970.", FACT(started_ms), .thousandths = true},
    {"process_cpu_seconds", "Time of processors that the process has used.", FACT(cpu_ms), COUNTER, .thousandths = true},
    {"process_resident_memory_bytes", "Memory of the process that is resident.", FACT(resident)},
    {"process_open_fds", "Files that the process has open. Kernels before 6.2 do not tell.", FACT(files)},
    {"process_max_fds", "Files that the process may have open.", FACT(files_most)},
    {"workers", "Workers of the rounds that run.", FACT(workers)},
    {"spares", "Nodes that wait beside a round that runs.", FACT(spares)},
    {"drained_nodes", "Nodes that a person keeps out.", FACT(drained)},
    {"quarantined_nodes", "Nodes that are kept out as they failed too often.", FACT(quarantined)},
    {"state_unwritten_records", "Records that the disk of the state directory has not taken yet, and that are tried again.",
     FACT(unwritten)},
    {"state_lost", "1: the disk of the state directory failed, and no record is written until the server is started again.",
     FACT(state_lost)},
    {"runs_left_out", "Runs beyond the 256 whose metrics are told.", FACT(runs_left_out)},
    {"nodes_left_out", "Nodes beyond the 1024 whose metrics are told.", FACT(nodes_left_out)},
    {"connections", "Clients that are connected: workers, agents, people.", FACT(store.connected)},
    {"connections_accepted", "Clients that ever connected.", FACT(store.accepted), COUNTER},
    {"connections_not_allowed", "Clients closed at once, as their address is in no allowed range.",
     FACT(store.not_allowed), COUNTER},
    {"connections_waited", "Times that all places were taken and newcomers had to wait.", FACT(store.waited), COUNTER},
    {"connections_broken", "Clients closed for breaking the protocol.", FACT(store.violations), COUNTER},
    {"connections_over_limit", "Clients closed for passing a limit.", FACT(store.limits), COUNTER},
    {"connections_idle_closed", "Clients closed by the idle timeout.", FACT(store.idle), COUNTER},
    {"connections_cut_short", "Clients that went away inside a request.", FACT(store.cut_short), COUNTER},
    {"received_bytes", "Bytes of all clients.", FACT(store.bytes_in), COUNTER},
    {"sent_bytes", "Bytes to all clients.", FACT(store.bytes_out), COUNTER},
    {"store_keys", "Keys and queues in the store.", FACT(keys.keys)},
    {"store_bytes", "Memory that keys, values, queues and waits are counted with.", FACT(keys.bytes)},
    {"store_waits", "Keys that clients wait for.", FACT(keys.waiting)},
    {"store_waits_answered", "Waits that ended as the last key came.", FACT(keys.woken), COUNTER},
    {"store_refused", "Requests that met a limit of the store.", FACT(keys.refused), COUNTER},
    {"agent_frames_received", "Messages of agents and people, beats among them.", FACT(control.frames_in), COUNTER},
    {"agent_frames_sent", "Messages to agents and people.", FACT(control.frames_out), COUNTER},
    {"agent_refused", "Greetings refused: wrong token, wrong version, no message.", FACT(control.refused), COUNTER},
    {"http_streams", "Clients that read /events.", FACT(counts.streams)},
    {0},
};

static const struct row run_rows[] = {
    {"run_state_seconds", "How long the run has been in its state.", RUN(state_s)},
    {"run_failed", "1: the run is over, and neither succeeded nor was stopped by a person.", RUN(failed)},
    {"run_paused", "1: a person holds the run up.", RUN(paused)},
    {"run_hangs", "1: all workers of the run stand still.", RUN(hangs)},
    {"run_has_straggler", "1: one worker holds the others up.", RUN(straggles)},
    {"run_round", "The round that runs, or that is gathered for.", RUN(round)},
    {"run_restarts", "Failures of its program that the run paid for.", RUN(restarts), COUNTER},
    {"run_restarts_left", "Failures of its program that the run may still have.", RUN(restarts_left)},
    {"run_node_losses", "Nodes that the run lost.", RUN(losses), COUNTER},
    {"run_nodes", "Nodes with a seat; of a run that gathers, those that are ready.", RUN(nodes)},
    {"run_nodes_min", "Nodes without which the run does not go on.", RUN(min_nodes)},
    {"run_nodes_max", "Nodes that the run takes.", RUN(max_nodes)},
    {"run_spares", "Nodes that wait beside the round that runs.", RUN(spares)},
    {"run_suspect_nodes", "Nodes that have missed a beat.", RUN(suspects)},
    {"run_workers", "Workers of the round that runs.", RUN(workers)},
    {"run_step", "The highest step of training that was heard of.", RUN(step)},
    {"run_step_age_seconds", "Seconds since the last step that any node told was new.", RUN(step_age_s)},
    {"run_tokens_per_second", "Tokens that all workers together get through; 0: unknown.", RUN(tokens_per_s)},
    {"run_steps", "Steps of training that there will be.", RUN(steps)},
    {"run_mfu_ratio", "Model FLOPs that the workers do, of what their GPUs could do.", RUN(mfu), .thousandths = true},
    {0},
};

/* Of each receiver of alerts. */
static const struct row receiver_rows[] = {
    {"alerts_delivered", "Alerts that a receiver took.", RECEIVER(delivered), COUNTER},
    {"alerts_failed", "Alerts that were given up, as the receiver did not take them.", RECEIVER(failed), COUNTER},
    {"alerts_dropped", "Alerts that were dropped, as too many waited for the receiver.", RECEIVER(dropped), COUNTER},
    {"alerts_waiting", "Alerts that a receiver has not taken yet.", RECEIVER(waiting)},
    {0},
};

#define FIRST_NODES " The first 1024 nodes only."
static const struct row node_rows[] = {
    {"node_beat_age_seconds", "Seconds since the node was heard of." FIRST_NODES, NODE(beat_age_s)},
    {"node_workers", "Workers that the node has room for." FIRST_NODES, NODE(workers)},
    {"node_step", "The step that its workers are at." FIRST_NODES, NODE(step)},
    {"node_step_age_seconds", "Seconds since that step was new." FIRST_NODES, NODE(step_age_s)},
    {"node_tokens_per_second", "Tokens that its workers get through; 0: unknown." FIRST_NODES, NODE(tokens_per_s)},
    {"node_step_seconds", "How long the last steps of its slowest worker took, each." FIRST_NODES, NODE(step_ms), .thousandths = true},
    {"node_gpus", "GPUs that its workers may use." FIRST_NODES, NODE(gpus)},
    {"node_gpu_busy_ratio", "Part of the last moments in which these did something, their mean." FIRST_NODES, NODE(gpu_busy), .thousandths = true},
    {"node_gpu_memory_bytes", "Memory of these GPUs, together." FIRST_NODES, NODE(gpu_memory)},
    {"node_gpu_memory_used_bytes", "Memory of these GPUs that is in use." FIRST_NODES, NODE(gpu_memory_used)},
    {"node_disk_bytes", "Size of the fullest disk that it writes to." FIRST_NODES, NODE(disk)},
    {"node_disk_free_bytes", "What is free on that disk." FIRST_NODES, NODE(disk_free)},
    {"node_upload_behind_seconds", "For how long its oldest checkpoint has waited to be uploaded; 0: none does." FIRST_NODES,
     NODE(upload_behind_s)},
    {0},
};
/* clang-format on */

static void row_family(struct writer *w, const struct row *r)
{
    family(w, r->type, r->name, r->help);
}

static void row_end(struct writer *w, const struct row *r, int64_t n)
{
    if (r->thousandths)
        end_thousandths(w, n);
    else
        end(w, n);
}

static void put_server_rows(struct writer *w, const struct dt_web_facts *f)
{
    for (const struct row *r = server_rows; r->name; r++) {
        int64_t n = number_of(r, f);
        if (n < 0)
            continue;
        row_family(w, r);
        begin(w);
        row_end(w, r, n);
    }
}

static void put_run_rows(struct writer *w, const struct dt_web_facts *f)
{
    for (const struct row *r = run_rows; r->name; r++) {
        row_family(w, r);
        for (size_t i = 0; i < f->run_count; i++) {
            int64_t n = number_of(r, &f->run[i]);
            if (n < 0)
                continue;
            begin(w);
            label(w, "run", f->run[i].id);
            row_end(w, r, n);
        }
    }
}

static void put_node_rows(struct writer *w, const struct dt_web_facts *f)
{
    for (const struct row *r = node_rows; r->name; r++) {
        row_family(w, r);
        for (size_t i = 0; i < f->node_count; i++) {
            int64_t n = number_of(r, &f->node[i]);
            if (n < 0)
                continue;
            begin(w);
            label(w, "run", f->node[i].run);
            label(w, "node", f->node[i].name);
            row_end(w, r, n);
        }
    }
}

/* -- families with labels of their own -------------------------------------------------------- */

static void put_build(struct writer *w, const struct dt_web_facts *f)
{
    family(w, GAUGE, "build_info", "Always 1; which dtrun this is, and who serves.");
    begin(w);
    label(w, "version", f->version);
    label(w, "host", f->host);
    end(w, 1);
}

static void put_states(struct writer *w, const struct dt_web_facts *f)
{
    family(w, GAUGE, "runs", "Runs by state.");
    for (int s = 0; s <= DT_RUN_CLOSED; s++) {
        begin(w);
        label(w, "state", dt_run_state_name(s));
        end(w, f->runs[s]);
    }
    family(w, GAUGE, "nodes", "Nodes by what they do, and whether they were heard of in time.");
    for (int d = 0; d < DT_MEMBER_DOINGS; d++)
        for (int l = 0; l < DT_LINKS; l++) {
            begin(w);
            label(w, "doing", dt_member_doing_name(d));
            label(w, "state", dt_link_name(l));
            end(w, f->nodes[d][l]);
        }
    family(w, GAUGE, "run_state", "1 for the state that a run is in.");
    for (size_t i = 0; i < f->run_count; i++) {
        begin(w);
        label(w, "run", f->run[i].id);
        label(w, "state", dt_run_state_name(f->run[i].state));
        end(w, 1);
    }
}

static const char *metric_of_loss(const char *loss)
{
    static const char *const odd[][2] = {{"nan", "NaN"}, {"inf", "+Inf"}, {"-inf", "-Inf"}};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
        if (strcmp(loss, odd[i][0]) == 0)
            return odd[i][1];
    return loss;
}

static void put_loss(struct writer *w, const struct dt_web_facts *f)
{
    family(w, GAUGE, "run_loss", "The loss of the last step.");
    for (size_t i = 0; i < f->run_count; i++) {
        const char *loss = f->run[i].loss;
        if (!loss || !*loss)
            continue;
        begin(w);
        label(w, "run", f->run[i].id);
        dt_buf_printf(w->out, "} %s\n", metric_of_loss(loss));
    }
}

static const struct {
    const char *name;
    size_t at; /* of a struct dt_web_run */
} shares[] = {
    {"compute", offsetof(struct dt_web_run, compute)},
    {"communication", offsetof(struct dt_web_run, comm)},
    {"data", offsetof(struct dt_web_run, data)},
    {"idle", offsetof(struct dt_web_run, idle)},
};

static void put_shares(struct writer *w, const struct dt_web_facts *f)
{
    family(w, GAUGE, "run_time_ratio",
           "What the last steps of all workers were spent on; idle is all else.");
    for (size_t i = 0; i < f->run_count; i++)
        for (size_t s = 0; s < sizeof shares / sizeof *shares; s++) {
            struct row row = {.at = shares[s].at};
            int64_t n = number_of(&row, &f->run[i]);
            if (n < 0)
                continue;
            begin(w);
            label(w, "run", f->run[i].id);
            label(w, "section", shares[s].name);
            end_thousandths(w, n);
        }
}

static void put_counts(struct writer *w, const struct dt_web_facts *f)
{
    family(w, COUNTER, "events", "What happened since the server began to answer HTTP, by kind.");
    for (int k = 0; k < DT_EVENT_KINDS; k++) {
        begin(w);
        label(w, "kind", dt_event_kind_name(k));
        end(w, f->counts.events[k]);
    }
    family(w, COUNTER, "store_requests", "Requests to the store, by operation.");
    for (int op = 0; op < DT_C10D_OPS; op++) {
        begin(w);
        label(w, "op", dt_c10d_op_name(op));
        end(w, (int64_t)f->store.requests[op]);
    }
    family(w, COUNTER, "http_requests", "Answers over HTTP, by path and status.");
    for (int p = 0; p < DT_WEB_PATHS; p++)
        for (int hundred = 2; hundred < 6; hundred++) {
            const char code[] = {(char)('0' + hundred), 'x', 'x', '\0'};
            begin(w);
            label(w, "path", dt_web_path_name(p));
            label(w, "code", code);
            end(w, f->counts.answers[p][hundred]);
        }
}

static void put_alerts(struct writer *w, const struct dt_web_facts *f)
{
    family(w, GAUGE, "alerts", "Alerts that are raised now, by rule.");
    for (size_t i = 0; i < dt_alert_rules_len && i < DT_WEB_RULES_MOST; i++) {
        if (dt_alert_rules[i].ended_by == 0)
            continue; /* it tells of a moment */
        begin(w);
        label(w, "alert", dt_alert_rules[i].name);
        label(w, "weight", dt_event_weight_name(dt_alert_rules[i].weight));
        end(w, f->alert[i]);
    }
}

/* Two of them may have one name, as what could be a secret is not in it. */
static void put_receivers(struct writer *w, const struct dt_web_facts *f)
{
    for (const struct row *r = receiver_rows; r->name; r++) {
        row_family(w, r);
        for (size_t i = 0; i < f->receiver_count; i++) {
            char number[24];
            snprintf(number, sizeof number, "%zu", i + 1);
            begin(w);
            label(w, "receiver", number);
            label(w, "name", f->receiver[i].name);
            row_end(w, r, number_of(r, &f->receiver[i]));
        }
    }
}

void dt_web_metrics_put(struct dt_buf *out, const struct dt_web_facts *f, enum dt_web_format format)
{
    struct writer w = {.out = out, .format = format};
    put_build(&w, f);
    put_states(&w, f);
    put_server_rows(&w, f);
    put_run_rows(&w, f);
    put_loss(&w, f);
    put_shares(&w, f);
    put_node_rows(&w, f);
    put_counts(&w, f);
    put_alerts(&w, f);
    put_receivers(&w, f);
    if (format == DT_WEB_OPENMETRICS)
        dt_buf_put_str(out, "# EOF\n");
}

/* -- formats ---------------------------------------------------------------------------------- */

enum dt_web_format dt_web_format_of(const char *text)
{
    return text && strstr(text, "application/openmetrics-text") ? DT_WEB_OPENMETRICS
                                                                : DT_WEB_PROMETHEUS;
}

const char *dt_web_format_type(enum dt_web_format format)
{
    return format == DT_WEB_OPENMETRICS
               ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
               : "text/plain; version=0.0.4; charset=utf-8";
}
