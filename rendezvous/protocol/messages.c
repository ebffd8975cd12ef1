/* SPDX-License-Identifier: Apache-2.0 */
/* What a message is made of stands in its table; fields.h does the rest. */
#include "rendezvous/protocol/messages.h"

#include "base/str.h"
#include "base/user.h"
#include "rendezvous/protocol/fields.h"
#include "rendezvous/protocol/stance_frame.h"
#include "rendezvous/protocol/warrant.h"

#include <assert.h>
#include <inttypes.h>
#include <limits.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define FRAME_HEAD 4 /* bytes: the length */
#define COUNT(a) (sizeof(a) / sizeof *(a))

/* -- the tables ------------------------------------------------------------------------------- */

/* clang-format off */
#define AT(member_) offsetof(struct dt_message, member_)
#define COUNTED(name_, member, min_, max_) \
    {.name = name_, .kind = DT_FIELD_INT, .at = AT(member), .min = min_, .max = max_}
#define WHOLE(name_, member, min_) \
    {.name = name_, .kind = DT_FIELD_INT64, .at = AT(member), .min = min_, .max = DT_FIELD_WHOLE_MAX}
#define TRUTH(name_, member) \
    {.name = name_, .kind = DT_FIELD_BOOL, .at = AT(member)}
#define NUMBER_64(name_, member) \
    {.name = name_, .kind = DT_FIELD_HEX64, .at = AT(member)}
#define RAW(name_, member, size) \
    {.name = name_, .kind = DT_FIELD_BYTES, .at = AT(member), .max = size}
#define CHOICE(name_, member, count, names) \
    {.name = name_, .kind = DT_FIELD_ENUM, .at = AT(member), .max = count, .value_name = names}
#define PART(name_, rows) \
    {.name = name_, .kind = DT_FIELD_OBJECT, .fields = rows}
#define WORDS(name_, member, size) \
    {.name = name_, .kind = DT_FIELD_STRING, .at = AT(member), .max = size - 1}
#define NAME(name_, member, size) /* never empty */ \
    {.name = name_, .kind = DT_FIELD_STRING, .at = AT(member), .min = 1, .max = size - 1}
/* Left out where they are 0, false or "". */
#define PERHAPS_COUNTED(name_, member) \
    {.name = name_, .kind = DT_FIELD_INT, .optional = true, .at = AT(member), .max = INT_MAX}
#define SHARE(name_, member) \
    {.name = name_, .kind = DT_FIELD_INT, .optional = true, .at = AT(member), .max = DT_OWN_WHOLE}
#define PERHAPS_WHOLE(name_, member) \
    {.name = name_, .kind = DT_FIELD_INT64, .optional = true, .at = AT(member), .max = DT_FIELD_WHOLE_MAX}
#define PERHAPS_TRUE(name_, member) \
    {.name = name_, .kind = DT_FIELD_BOOL, .optional = true, .at = AT(member)}
#define PERHAPS_CHOICE(name_, member, count, names) \
    {.name = name_, .kind = DT_FIELD_ENUM, .optional = true, .at = AT(member), .max = count, .value_name = names}
#define PERHAPS_WORDS(name_, member, size) \
    {.name = name_, .kind = DT_FIELD_STRING, .optional = true, .at = AT(member), .max = size - 1}

static const struct dt_field nothing[] = {{0}};

/* In front of what agents and the rendezvous say to each other ... */
static const struct dt_field of_round[] = {
    NAME("run", run, DT_RUN_ID_MAX),
    COUNTED("round", round, -1, INT_MAX),
    NUMBER_64("incarnation", incarnation),
    {0},
};
/* ... and of what people ask. */
static const struct dt_field of_person[] = {
    PERHAPS_WORDS("run", run, DT_RUN_ID_MAX),
    {0},
};

/* ... of these some want to be sure who asks. */
static const struct dt_field of_wish[] = {
    PERHAPS_WORDS("run", run, DT_RUN_ID_MAX),
    PERHAPS_WORDS("user", user, DT_USER_MAX),
    PERHAPS_WORDS("key", key, DT_WARRANT_KEY),
    PERHAPS_WORDS("signature", signature, DT_WARRANT_SIGNATURE),
    {0},
};

static const struct dt_field hello[] = {
    COUNTED("version", hello.version, 0, UINT16_MAX),
    WORDS("program", hello.program, DT_ROLE_MAX),
    PERHAPS_WORDS("host", hello.host, DT_ROLE_MAX),
    RAW("nonce", hello.nonce, DT_NONCE_SIZE),
    PERHAPS_TRUE("token", hello.token),
    PERHAPS_TRUE("looks", hello.looks),
    PERHAPS_TRUE("remarks", hello.remarks),
    PERHAPS_TRUE("logs", hello.logs),
    PERHAPS_TRUE("shared", hello.shared),
    PERHAPS_TRUE("run_tokens", hello.run_tokens),
    {0},
};
static const struct dt_field proof[] = {RAW("proof", proof, DT_PROOF_SIZE), {0}};

static const struct dt_field node[] = {
    NAME("name", join.node.name, DT_NODE_NAME_MAX),
    WORDS("boot", join.node.boot, DT_BOOT_MAX),
    WORDS("domain", join.node.domain, DT_ROLE_MAX),
    WORDS("addr", join.node.addr, DT_NODE_ADDR_MAX),
    COUNTED("port", join.node.port, 0, UINT16_MAX),
    WORDS("role", join.node.role, DT_ROLE_MAX),
    COUNTED("workers", join.node.workers, 1, DT_WORKERS_MOST),
    COUNTED("order", join.node.order, -1, INT_MAX),
    COUNTED("expected", join.node.expected, 0, DT_NODES_WISHED_MOST),
    PERHAPS_TRUE("looks", join.node.looks),
    PERHAPS_TRUE("keeps", join.node.keeps),
    PERHAPS_TRUE("tails", join.node.tails),
    {0},
};
static const struct dt_field claim[] = {
    TRUTH("running", join.claim.running),
    TRUTH("done", join.claim.done),
    PERHAPS_TRUE("again", join.claim.again),
    COUNTED("seat", join.claim.seat, -1, DT_NODES_MOST),
    COUNTED("seats", join.claim.seats, 0, DT_NODES_MOST),
    COUNTED("first_rank", join.claim.first_rank, -1, DT_RANKS_MOST - 1),
    COUNTED("size", join.claim.size, 0, DT_RANKS_MOST),
    COUNTED("restarts", join.claim.restarts, 0, DT_RESTARTS_MOST),
    PERHAPS_WORDS("over", join.claim.over, DT_WHY_MAX),
    {0},
};
static const struct dt_field join[] = {
    {.name = "spec", .kind = DT_FIELD_OBJECT, .at = AT(join.spec), .fields = dt_spec_fields},
    PART("node", node),
    PART("claim", claim),
    PERHAPS_WORDS("key", key, DT_WARRANT_KEY),
    PERHAPS_WORDS("signature", signature, DT_WARRANT_SIGNATURE),
    {0},
};

static const char *own_witness_name(int w) { return dt_own_witness_name((enum dt_own_witness)w); }

static const struct dt_field beat[] = {
    WHOLE("seq", beat.seq, 0),
    WHOLE("step", beat.step, -1),
    COUNTED("running", beat.running, 0, INT_MAX),
    COUNTED("failed", beat.failed, 0, INT_MAX),
    COUNTED("succeeded", beat.succeeded, 0, INT_MAX),
    PERHAPS_WHOLE("tokens_per_s", beat.tokens_per_s),
    PERHAPS_WHOLE("step_age_ms", beat.step_age_ms),
    PERHAPS_WHOLE("own_window", beat.own.window),
    PERHAPS_WHOLE("own_steps", beat.own.steps),
    PERHAPS_WHOLE("own_step_us", beat.own.step_us),
    PERHAPS_CHOICE("own_by", beat.own.by, DT_OWN_WITNESSES, own_witness_name),
    PERHAPS_COUNTED("own_ranks", beat.own.ranks),
    PERHAPS_COUNTED("own_rank", beat.own.rank),
    SHARE("own_share", beat.own.own),
    SHARE("own_median", beat.own.median),
    PERHAPS_TRUE("own_may_drain", beat.own.may_drain),
    PERHAPS_WORDS("own_reason", beat.own.reason, DT_OWN_REASON_MAX),
    PERHAPS_WORDS("straggler", beat.straggler, DT_STRAGGLER_MAX),
    PERHAPS_TRUE("holds_up", beat.holds_up),
    {.name = "telemetry", .kind = DT_FIELD_OBJECT, .optional = true, .at = AT(beat.telemetry),
     .fields = dt_telemetry_fields},
    {0},
};
static const struct dt_field world[] = {
    COUNTED("seat", world.seat, 0, DT_NODES_MOST),
    COUNTED("seats", world.seats, 1, DT_NODES_MOST),
    COUNTED("first_rank", world.first_rank, 0, DT_RANKS_MOST - 1),
    COUNTED("size", world.size, 1, DT_RANKS_MOST),
    COUNTED("first_role_rank", world.first_role_rank, 0, DT_RANKS_MOST - 1),
    COUNTED("role_size", world.role_size, 1, DT_RANKS_MOST),
    WORDS("master_addr", world.master_addr, DT_NODE_ADDR_MAX),
    COUNTED("master_port", world.master_port, 0, UINT16_MAX),
    COUNTED("prev_rank", world.prev_rank, -1, DT_RANKS_MOST - 1),
    COUNTED("prev_size", world.prev_size, 0, DT_RANKS_MOST),
    COUNTED("restarts", world.restarts, 0, DT_RESTARTS_MOST),
    WORDS("news", world.news, DT_WHY_MAX),
    PERHAPS_WORDS("cause", world.cause, DT_WHY_MAX),
    {0},
};
static const struct dt_field only_why[] = {PERHAPS_WORDS("why", why, DT_WHY_MAX), {0}};

static const char *evidence_name(int e) { return dt_evidence_name((enum dt_evidence)e); }
static const char *retry_name(int r) { return dt_retry_name((enum dt_retry)r); }
static const char *close_kind_name(int k) { return dt_close_kind_name((enum dt_close_kind)k); }

static const struct dt_field result[] = {
    TRUTH("succeeded", result.succeeded),
    CHOICE("evidence", result.evidence, DT_EVIDENCES, evidence_name),
    COUNTED("rank", result.rank, -1, DT_RANKS_MOST - 1),
    COUNTED("local_rank", result.local_rank, -1, DT_WORKERS_MOST),
    COUNTED("exit_code", result.exit_code, 0, 255),
    COUNTED("signal", result.signal, 0, 128),
    PERHAPS_TRUE("ends_job", result.ends_job),
    WORDS("signature", result.signature, DT_WHY_MAX),
    WORDS("text", result.text, DT_WHY_MAX),
    PERHAPS_CHOICE("retry", result.retry, DT_RETRIES, retry_name),
    PERHAPS_TRUE("early", result.early),
    PERHAPS_WORDS("place", result.place, DT_PLACE_MAX),
    PERHAPS_TRUE("weak", result.weak),
    PERHAPS_WHOLE("age", result.age),
    PERHAPS_TRUE("late", result.late),
    PERHAPS_WORDS("cause", result.cause, DT_WHY_MAX),
    {0},
};
static const struct dt_field closing[] = {
    CHOICE("kind", close.kind, DT_CLOSE_KINDS, close_kind_name),
    PERHAPS_WORDS("cause", close.cause, DT_WHY_MAX),
    PERHAPS_WORDS("why", why, DT_WHY_MAX),
    {0},
};
static const struct dt_field stop[] = {
    PERHAPS_TRUE("together", stop.together),
    PERHAPS_WORDS("why", why, DT_WHY_MAX),
    {0},
};
static const struct dt_field leave[] = {
    PERHAPS_TRUE("stopping", leave.stopping),
    PERHAPS_WORDS("why", why, DT_WHY_MAX),
    {0},
};
static const struct dt_field still[] = {
    WHOLE("still", still.still, 0),
    PERHAPS_TRUE("sure", still.sure),
    {0},
};
static const struct dt_field look[] = {
    WHOLE("id", look.id, 1),
    PERHAPS_TRUE("native", look.native),
    {0},
};
static const struct dt_field looked[] = {WHOLE("id", looked.id, 1), {0}}; /* and "stances" */
static const struct dt_field finding[] = {
    NAME("class", finding.class, DT_STANCE_NAME_MAX),
    PERHAPS_TRUE("guilty", finding.guilty),
    COUNTED("culprit", finding.culprit, -1, INT_MAX),
    COUNTED("waiting", finding.waiting, -1, INT_MAX),
    NAME("sentence", finding.sentence, DT_FINDING_TEXT_MAX),
    WORDS("advice", finding.advice, DT_FINDING_TEXT_MAX),
    {0}, /* and "stances" */
};
static const struct dt_field remark[] = {
    NAME("node", remark.node, DT_NODE_NAME_MAX),
    PERHAPS_TRUE("breaks", remark.failed),
    PERHAPS_WORDS("why", why, DT_WHY_MAX),
    {0},
};
static const struct dt_field drain[] = {
    PERHAPS_WORDS("node", drain.node, DT_NODE_NAME_MAX),
    PERHAPS_TRUE("undo", drain.undo),
    PERHAPS_TRUE("done", drain.done),
    PERHAPS_WORDS("why", why, DT_WHY_MAX),
    {0},
};
static const struct dt_field pause[] = {
    PERHAPS_TRUE("undo", wish.undo),
    PERHAPS_TRUE("done", wish.done),
    PERHAPS_WORDS("why", why, DT_WHY_MAX),
    {0},
};
static const struct dt_field wish[] = {
    PERHAPS_TRUE("done", wish.done),
    PERHAPS_WORDS("why", why, DT_WHY_MAX),
    {0},
};
static const struct dt_field status[] = {
    PERHAPS_TRUE("history", status.history),
    PERHAPS_COUNTED("from", status.from), /* and "page", see put_page() */
    {0},
};

static const struct dt_field stances[] = {
    PERHAPS_TRUE("native", stances.native),
    PERHAPS_WORDS("why", why, DT_WHY_MAX),
    {0}, /* and "page" */
};

static const struct dt_field events[] = {
    PERHAPS_WHOLE("after", events.after),
    PERHAPS_WHOLE("since_us", events.since_us),
    PERHAPS_TRUE("follow", events.follow), /* and "page" */
    {0},
};

static const struct dt_field alert[] = {
    PERHAPS_TRUE("done", alert.done),
    PERHAPS_WORDS("why", why, DT_WHY_MAX),
    {0},
};

#define LINES(member_) \
    {.name = "lines", .kind = DT_FIELD_INT, .optional = true, .at = AT(member_), .min = DT_TAIL_ALL, \
     .max = DT_TAIL_LINES_MOST}

static const struct dt_field logs[] = {
    PERHAPS_WORDS("ranks", logs.ranks, DT_RANK_SET_TEXT),
    PERHAPS_WORDS("node", logs.node, DT_NODE_NAME_MAX),
    LINES(logs.lines),
    PERHAPS_TRUE("follow", logs.follow),
    PERHAPS_COUNTED("from", logs.from),
    PERHAPS_TRUE("asks", logs.asks),
    PERHAPS_TRUE("over", logs.over),
    PERHAPS_TRUE("done", logs.done),
    PERHAPS_WORDS("why", why, DT_WHY_MAX),
    {0}, /* and "page" */
};
static const struct dt_field more[] = {
    WHOLE("id", more.id, 0),
    COUNTED("room", more.room, 0, DT_TAIL_ROOM_MOST),
    {0},
};
static const struct dt_field tail[] = {
    WHOLE("id", tail.id, 1),
    PERHAPS_WORDS("ranks", tail.ranks, DT_RANK_SET_TEXT),
    LINES(tail.lines),
    PERHAPS_TRUE("follow", tail.follow),
    COUNTED("room", tail.room, 1, DT_TAIL_ROOM_MOST),
    {0},
};
static const struct dt_field tailed[] = {
    WHOLE("id", tailed.id, 1),
    PERHAPS_TRUE("over", tailed.over),
    {0}, /* and "page" */
};

static const struct {
    const char *name;
    const struct dt_field *head, *body;
} messages[DT_MSG_TYPES] = {
    [DT_MSG_HELLO] = {"hello", nothing, hello},
    [DT_MSG_PROOF] = {"proof", nothing, proof},
    [DT_MSG_REFUSED] = {"refused", nothing, only_why},
    [DT_MSG_JOIN] = {"join", of_round, join},
    [DT_MSG_BEAT] = {"beat", of_round, beat},
    [DT_MSG_WORLD] = {"world", of_round, world},
    [DT_MSG_PARK] = {"park", of_round, only_why},
    [DT_MSG_STOP] = {"stop", of_round, stop},
    [DT_MSG_RESULT] = {"result", of_round, result},
    [DT_MSG_LEAVE] = {"leave", of_round, leave},
    [DT_MSG_CLOSE] = {"close", of_round, closing},
    [DT_MSG_STALE] = {"stale", of_round, only_why},
    [DT_MSG_NOTE] = {"note", of_round, only_why},
    [DT_MSG_STILL] = {"still", of_round, still},
    [DT_MSG_LOOK] = {"look", of_round, look},
    [DT_MSG_LOOKED] = {"looked", of_round, looked},
    [DT_MSG_KEEP] = {"keep", of_round, nothing},
    [DT_MSG_FINDING] = {"finding", of_round, finding},
    [DT_MSG_REMARK] = {"remark", of_round, remark},
    [DT_MSG_DRAIN] = {"drain", of_wish, drain},
    [DT_MSG_PAUSE] = {"pause", of_wish, pause},
    [DT_MSG_SAVE] = {"save", of_wish, wish},
    [DT_MSG_STOP_RUN] = {"stop_run", of_wish, wish},
    [DT_MSG_RESTART_RUN] = {"restart_run", of_wish, wish},
    [DT_MSG_STATUS] = {"status", of_person, status},
    [DT_MSG_STANCES] = {"stances", of_person, stances},
    [DT_MSG_EVENTS] = {"events", of_person, events},
    [DT_MSG_ALERT] = {"alert", of_wish, alert},
    [DT_MSG_LOGS] = {"logs", of_wish, logs},
    [DT_MSG_MORE] = {"more", of_round, more},
    [DT_MSG_TAIL] = {"tail", of_round, tail},
    [DT_MSG_TAILED] = {"tailed", of_round, tailed},
};
/* clang-format on */

const char *dt_message_name(enum dt_message_type type)
{
    return type < DT_MSG_TYPES ? messages[type].name : "unknown";
}

const char *dt_evidence_name(enum dt_evidence e)
{
    static const char *const names[DT_EVIDENCES] = {
        [DT_EVIDENCE_PROGRAM] = "program",   [DT_EVIDENCE_CRASH] = "crash",
        [DT_EVIDENCE_OFFLINE] = "offline",   [DT_EVIDENCE_PREEMPTED] = "preempted",
        [DT_EVIDENCE_HARDWARE] = "hardware",
    };
    return e < DT_EVIDENCES ? names[e] : "unknown";
}

const char *dt_own_witness_name(enum dt_own_witness w)
{
    static const char *const names[DT_OWN_WITNESSES] = {
        [DT_OWN_BY_PAGES] = "pages",
        [DT_OWN_BY_STACKS] = "stacks",
    };
    return w < DT_OWN_WITNESSES ? names[w] : "unknown";
}

const char *dt_retry_name(enum dt_retry r)
{
    static const char *const names[DT_RETRIES] = {
        [DT_RETRY_MAY_HELP] = "may",
        [DT_RETRY_SELDOM_HELPS] = "seldom",
        [DT_RETRY_CANNOT_HELP] = "cannot",
    };
    return r < DT_RETRIES ? names[r] : "unknown";
}

const char *dt_close_kind_name(enum dt_close_kind k)
{
    static const char *const names[DT_CLOSE_KINDS] = {
        [DT_CLOSE_SUCCEEDED] = "succeeded", [DT_CLOSE_FAILED] = "failed",
        [DT_CLOSE_TIMEOUT] = "timeout",     [DT_CLOSE_NO_PROGRESS] = "no_progress",
        [DT_CLOSE_REFUSED] = "refused",     [DT_CLOSE_ENDED] = "ended",
        [DT_CLOSE_STOPPED] = "stopped",
    };
    return k < DT_CLOSE_KINDS ? names[k] : "unknown";
}

/* -- frames ----------------------------------------------------------------------------------- */

/* The page of an answer to a person, or of a part of one, is an object that comes from elsewhere
 * and goes elsewhere, as text. NULL: M has none. */
static const char **page_of(struct dt_message *m)
{
    return m->type == DT_MSG_STATUS    ? &m->status.json
           : m->type == DT_MSG_STANCES ? &m->stances.json
           : m->type == DT_MSG_EVENTS  ? &m->events.json
           : m->type == DT_MSG_LOGS    ? &m->logs.json
           : m->type == DT_MSG_TAILED  ? &m->tailed.json
                                       : NULL;
}

static void put_page(struct dt_buf *out, const struct dt_message *m)
{
    struct dt_message of = *m;
    const char *const *page = page_of(&of);
    if (!page || !*page)
        return;
    dt_buf_put_str(out, ",\"page\":");
    dt_buf_put_str(out, *page);
}

static int get_page(struct dt_message *m, struct dt_err *err)
{
    const struct cJSON *page;
    if (!page_of(m) || !dt_json_has(m->doc.root, "page"))
        return 0;
    if (dt_json_object(&m->doc, NULL, "page", &page, err) < 0)
        return -1;
    *page_of(m) = m->text = dt_json_text(page);
    return m->text ? 0 : dt_err_set(err, DT_E_MEMORY, "no memory for a page");
}

static struct dt_stances *stances_of(struct dt_message *m)
{
    return m->type == DT_MSG_LOOKED    ? &m->looked.stances
           : m->type == DT_MSG_FINDING ? &m->finding.stances
                                       : NULL;
}

static void put_stances(struct dt_buf *out, const struct dt_message *m)
{
    struct dt_message of = *m;
    const struct dt_stances *s = stances_of(&of);
    int keep = -1, also = -1;
    if (!s)
        return;
    if (m->type == DT_MSG_FINDING) {
        keep = dt_stance_frame_find(s, m->finding.culprit);
        also = dt_stance_frame_find(s, m->finding.waiting);
    }
    dt_buf_put_u8(out, ',');
    dt_stance_frame_put(s, keep, also, out);
}

static int get_stances(struct dt_message *m, struct dt_err *err)
{
    const struct cJSON *array;
    struct dt_stances *s = stances_of(m);
    if (!s)
        return 0;
    *s = (struct dt_stances){0};
    if (dt_json_array(&m->doc, NULL, "stances", &array, err) < 0)
        return -1;
    return dt_stances_get_json(s, &m->doc, array, err);
}

void dt_message_encode(struct dt_buf *out, const struct dt_message *m)
{
    size_t start = out->len;
    assert(m->type < DT_MSG_TYPES);
    dt_buf_put_u32(out, 0);
    dt_buf_put_str(out, "{\"type\":\"");
    dt_buf_put_str(out, messages[m->type].name);
    dt_buf_put_u8(out, '"');
    dt_fields_put(out, m, messages[m->type].head);
    dt_fields_put(out, m, messages[m->type].body);
    put_page(out, m);
    put_stances(out, m);
    dt_buf_put_u8(out, '}');
    dt_buf_set_u32(out, start, (uint32_t)(out->len - start - FRAME_HEAD));
}

static int get_type(struct dt_message *m, struct dt_err *err)
{
    const char *name;
    char text[64];
    if (dt_json_string(&m->doc, NULL, "type", &name, err) < 0)
        return -1;
    for (size_t t = 0; t < COUNT(messages); t++)
        if (strcmp(name, messages[t].name) == 0) {
            m->type = (enum dt_message_type)t;
            return 0;
        }
    return dt_err_set(err, DT_E_PROTOCOL, "type: version %d has no message \"%s\"",
                      DT_CONTROL_VERSION, dt_str_printable(dt_bytes_of(name), text, sizeof text));
}

static int get_message(struct dt_message *m, struct dt_err *err)
{
    if (get_type(m, err) < 0)
        return -1;
    m->run = m->why = m->key = m->signature = m->user = "";
    if (dt_fields_get(&m->doc, NULL, messages[m->type].head, m, err) < 0 ||
        dt_fields_get(&m->doc, NULL, messages[m->type].body, m, err) < 0 || get_page(m, err) < 0 ||
        get_stances(m, err) < 0)
        return dt_err_wrap(err, "message \"%s\"", messages[m->type].name);
    return 0;
}

/* Whoever wrote it, it came over the wire. */
static enum dt_decoded refuse(struct dt_message *m, struct dt_err *err)
{
    dt_message_finish(m);
    if (err && err->code != DT_E_MEMORY)
        err->code = DT_E_PROTOCOL;
    return DT_BAD;
}

enum dt_decoded dt_message_decode(const uint8_t *bytes, size_t len, size_t max,
                                  struct dt_message *m, size_t *used, struct dt_err *err)
{
    struct dt_reader r = dt_reader_over(bytes, len);
    uint32_t size = dt_read_u32(&r);
    *m = (struct dt_message){0};
    if (r.bad)
        return DT_MORE;
    if (size > max) {
        dt_err_set(err, DT_E_PROTOCOL, "a message of %" PRIu32 " bytes; at most %zu are taken",
                   size, max);
        return DT_BAD;
    }
    const uint8_t *text = dt_read_bytes(&r, size);
    if (r.bad)
        return DT_MORE;
    if (dt_json_parse(&m->doc, (const char *)text, size, max, err) < 0 || get_message(m, err) < 0)
        return refuse(m, err);
    *used = FRAME_HEAD + size;
    return DT_DONE;
}

bool dt_message_read(struct dt_bytes value, enum dt_message_type type, struct dt_message *m)
{
    size_t used;
    if (dt_message_decode(value.at, value.len, DT_FRAME_MAX, m, &used, NULL) != DT_DONE)
        return false;
    if (m->type == type)
        return true;
    dt_message_finish(m);
    return false;
}

void dt_message_finish(struct dt_message *m)
{
    if (stances_of(m))
        dt_stances_finish(stances_of(m));
    dt_json_finish(&m->doc);
    free(m->text);
    *m = (struct dt_message){0};
}

/* -- the preamble ----------------------------------------------------------------------------- */

void dt_control_put_preamble(struct dt_buf *out)
{
    static const uint8_t version[2] = {DT_CONTROL_VERSION & 0xff, DT_CONTROL_VERSION >> 8};
    dt_buf_put_str(out, DT_CONTROL_MAGIC);
    dt_buf_put(out, version, sizeof version);
}

enum dt_decoded dt_control_read_preamble(const uint8_t *bytes, size_t len, int *version)
{
    size_t magic = strlen(DT_CONTROL_MAGIC);
    if (len > 0 && memcmp(bytes, DT_CONTROL_MAGIC, len < magic ? len : magic) != 0)
        return DT_BAD;
    if (len < DT_CONTROL_PREAMBLE)
        return DT_MORE;
    *version = bytes[magic] | bytes[magic + 1] << 8;
    return DT_DONE;
}
