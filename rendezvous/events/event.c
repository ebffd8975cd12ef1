/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/events/event.h"

#include "base/clock.h"
#include "base/json_write.h"

#include <limits.h>

/* clang-format off */
static const struct {
    const char *name;
    enum dt_event_weight weight;
} kinds[DT_EVENT_KINDS] = {
    [DT_EVENT_SERVER_STARTED] = {"server_started", DT_EVENT_INFO},
    [DT_EVENT_SERVER_STOPPED] = {"server_stopped", DT_EVENT_INFO},
    [DT_EVENT_SERVER_STALLED] = {"server_stalled", DT_EVENT_WARNING},
    [DT_EVENT_CLIENT_REFUSED] = {"client_refused", DT_EVENT_WARNING},

    [DT_EVENT_RUN_BEGAN] = {"run_began", DT_EVENT_INFO},
    [DT_EVENT_RUN_LEARNT] = {"run_learnt", DT_EVENT_WARNING},
    [DT_EVENT_RUN_MIXED] = {"run_mixed", DT_EVENT_WARNING},
    [DT_EVENT_RUN_DESERTED] = {"run_deserted", DT_EVENT_INFO},
    [DT_EVENT_RUN_ENDED_WELL] = {"run_ended_well", DT_EVENT_INFO},
    [DT_EVENT_RUN_ENDED_BADLY] = {"run_ended_badly", DT_EVENT_ERROR},
    [DT_EVENT_RUN_STOPPED] = {"run_stopped", DT_EVENT_WARNING},
    [DT_EVENT_ROUND_BEGAN] = {"round_began", DT_EVENT_INFO},
    [DT_EVENT_ROUND_ENDED] = {"round_ended", DT_EVENT_WARNING},
    [DT_EVENT_ROUND_DELAYED] = {"round_delayed", DT_EVENT_INFO},
    [DT_EVENT_WORKER_FAILED] = {"worker_failed", DT_EVENT_WARNING},
    [DT_EVENT_RESTARTS_RENEWED] = {"restarts_renewed", DT_EVENT_INFO},
    [DT_EVENT_BELOW_MIN] = {"below_min", DT_EVENT_WARNING},
    [DT_EVENT_SPARES_SHORT] = {"spares_short", DT_EVENT_WARNING},
    [DT_EVENT_SPARES_THERE] = {"spares_there", DT_EVENT_INFO},
    [DT_EVENT_SPARES_EXHAUSTED] = {"spares_exhausted", DT_EVENT_WARNING},
    [DT_EVENT_NODES_SILENT] = {"nodes_silent", DT_EVENT_WARNING},
    [DT_EVENT_HANG] = {"hang", DT_EVENT_WARNING},
    [DT_EVENT_HANG_OVER] = {"hang_over", DT_EVENT_INFO},
    [DT_EVENT_STRAGGLER] = {"straggler", DT_EVENT_WARNING},
    [DT_EVENT_STRAGGLER_OVER] = {"straggler_over", DT_EVENT_INFO},
    [DT_EVENT_LOSS_NAN] = {"loss_nan", DT_EVENT_ERROR},
    [DT_EVENT_LOSS_SPIKE] = {"loss_spike", DT_EVENT_WARNING},
    [DT_EVENT_LOSS_OVER] = {"loss_over", DT_EVENT_INFO},
    [DT_EVENT_NO_PROGRESS] = {"no_progress", DT_EVENT_WARNING},
    [DT_EVENT_NO_PROGRESS_OVER] = {"no_progress_over", DT_EVENT_INFO},
    [DT_EVENT_DISK_LOW] = {"disk_low", DT_EVENT_WARNING},
    [DT_EVENT_DISK_LOW_OVER] = {"disk_low_over", DT_EVENT_INFO},
    [DT_EVENT_UPLOAD_BEHIND] = {"upload_behind", DT_EVENT_WARNING},
    [DT_EVENT_UPLOAD_BEHIND_OVER] = {"upload_behind_over", DT_EVENT_INFO},
    [DT_EVENT_PAUSED] = {"paused", DT_EVENT_WARNING},
    [DT_EVENT_RESUMED] = {"resumed", DT_EVENT_INFO},
    [DT_EVENT_SAVE_ASKED] = {"save_asked", DT_EVENT_INFO},
    [DT_EVENT_RESTARTED] = {"restarted", DT_EVENT_WARNING},
    [DT_EVENT_STOP_ASKED] = {"stop_asked", DT_EVENT_WARNING},

    [DT_EVENT_NODE_JOINED] = {"node_joined", DT_EVENT_INFO},
    [DT_EVENT_NODE_BACK] = {"node_back", DT_EVENT_INFO},
    [DT_EVENT_NODE_REFUSED] = {"node_refused", DT_EVENT_WARNING},
    [DT_EVENT_NODE_LEFT] = {"node_left", DT_EVENT_INFO},
    [DT_EVENT_NODE_LOST] = {"node_lost", DT_EVENT_WARNING},
    [DT_EVENT_NODE_DRAINED] = {"node_drained", DT_EVENT_WARNING},
    [DT_EVENT_NODE_UNDRAINED] = {"node_undrained", DT_EVENT_INFO},
    [DT_EVENT_NODE_QUARANTINED] = {"node_quarantined", DT_EVENT_WARNING},
    [DT_EVENT_NODE_FORGIVEN] = {"node_forgiven", DT_EVENT_WARNING},
    [DT_EVENT_NODE_REPLACED] = {"node_replaced", DT_EVENT_WARNING},
    [DT_EVENT_NODE_TAKEN_ANYWAY] = {"node_taken_anyway", DT_EVENT_WARNING},
    [DT_EVENT_PREFLIGHT_FAILED] = {"preflight_failed", DT_EVENT_WARNING},
    [DT_EVENT_PREFLIGHT_WARNED] = {"preflight_warned", DT_EVENT_WARNING},
};
/* clang-format on */

const char *dt_event_kind_name(enum dt_event_kind k)
{
    return kinds[k].name;
}

enum dt_event_weight dt_event_weight(enum dt_event_kind k)
{
    return kinds[k].weight;
}

const char *dt_event_weight_name(enum dt_event_weight w)
{
    static const char *const names[] = {
        [DT_EVENT_INFO] = "info", [DT_EVENT_WARNING] = "warning", [DT_EVENT_ERROR] = "error"};
    return names[w];
}

static void put_text(struct dt_json_writer *w, const char *name, const char *text)
{
    if (text && *text)
        dt_json_put_text(w, name, text);
}

static void put_number(struct dt_json_writer *w, const char *name, int number)
{
    if (number >= 0)
        dt_json_put_int(w, name, number);
}

void dt_event_put_json(struct dt_buf *out, const struct dt_event *e)
{
    struct dt_json_writer w = {.out = out};
    char when[DT_CLOCK_TEXT];
    dt_clock_format(e->at_us, when);
    dt_json_put_object(&w, NULL);
    dt_json_put_uint(&w, "number", e->number);
    dt_json_put_text(&w, "time", when);
    dt_json_put_text(&w, "kind", dt_event_kind_name(e->kind));
    dt_json_put_text(&w, "weight", dt_event_weight_name(dt_event_weight(e->kind)));
    put_text(&w, "run", e->run);
    put_number(&w, "round", e->round);
    put_text(&w, "node", e->node);
    put_number(&w, "rank", e->rank);
    dt_json_put_text(&w, "words", e->words);
    dt_json_put_end(&w);
}

/* -- in a journal ----------------------------------------------------------------------------- */

static void save_text(struct dt_buf *out, const char *text)
{
    dt_buf_put(out, text ? text : "", text ? strlen(text) + 1 : 1);
}

/* The kind goes by its name, as its number is another in the next version. */
void dt_event_save(const struct dt_event *e, struct dt_buf *out)
{
    dt_buf_put_u64(out, e->number);
    dt_buf_put_i64(out, e->at_us);
    dt_buf_put_i64(out, e->round);
    dt_buf_put_i64(out, e->rank);
    save_text(out, dt_event_kind_name(e->kind));
    save_text(out, e->run);
    save_text(out, e->node);
    save_text(out, e->words);
}

static const char *restore_text(struct dt_reader *in)
{
    const uint8_t *end = in->bad ? NULL : memchr(in->at, '\0', dt_reader_left(in));
    const uint8_t *text = dt_read_bytes(in, end ? (uint64_t)(end - in->at) + 1 : UINT64_MAX);
    return text ? (const char *)text : "";
}

static int restore_number(struct dt_reader *in)
{
    int64_t number = dt_read_i64(in);
    in->bad = in->bad || number < -1 || number > INT_MAX;
    return (int)number;
}

static bool restore_kind(struct dt_reader *in, enum dt_event_kind *out)
{
    const char *name = restore_text(in);
    for (int k = 0; k < DT_EVENT_KINDS; k++) {
        *out = (enum dt_event_kind)k;
        if (strcmp(name, dt_event_kind_name(*out)) == 0)
            return true;
    }
    return false;
}

bool dt_event_restore(struct dt_event *e, struct dt_bytes in)
{
    struct dt_reader r = dt_reader_over(in.at, in.len);
    *e = (struct dt_event){.number = dt_read_u64(&r), .at_us = dt_read_i64(&r)};
    e->round = restore_number(&r);
    e->rank = restore_number(&r);
    bool known = restore_kind(&r, &e->kind);
    e->run = restore_text(&r);
    e->node = restore_text(&r);
    e->words = restore_text(&r);
    return known && !r.bad && dt_reader_left(&r) == 0;
}
