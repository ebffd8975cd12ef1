/* SPDX-License-Identifier: Apache-2.0 */
/* A run that is told anything by anybody at any time, of what a frame may hold. Six bytes make the
 * spec, then four make an event: what, who, of which round and with what flags, and how much later.
 * After each the books must be right, nobody may be addressed who never spoke, and what changed
 * must be journalled before it is said. */
#include "tests/fuzz/rdzv_truth.h"

#include <limits.h>

#define PEERS 8
#define SPEC_BYTES 6
#define EVENT_BYTES 4

struct story {
    struct dt_exclude exclude;
    struct dt_rdzv *run;
    struct dt_rdzv_actions out;
    struct dt_run_spec spec;
    dt_ms now;
};

/* What there was before a step. */
struct before {
    enum dt_run_state state;
    int round;
};

static const dt_ms times[] = {0,     1,     700,    1500,   4000,     8000,
                              16000, 40000, 100000, 700000, 90000000, DT_FOREVER};
#define TIMES (sizeof times / sizeof *times)

static dt_ms time_of(uint8_t byte, dt_ms least, dt_ms most)
{
    dt_ms t = times[byte % TIMES];
    return t < least ? least : t > most ? most : t;
}

static struct dt_run_spec spec_of(const uint8_t *b)
{
    return (struct dt_run_spec){
        .min_nodes = b[0] % 5 + 1,
        .max_nodes = b[0] / 5 % 6 + 1,
        .fixed_world = b[1] & 1,
        .torchrun_ranks = b[1] & 2,
        .max_restarts = b[1] & 4 ? INT_MAX : b[1] >> 6,
        .max_node_losses = b[1] & 8 ? -1 : b[1] >> 6,
        .no_progress = b[1] >> 4 & 3,
        .strikes = b[1] & 16 ? INT_MAX : b[1] >> 5,
        .quarantine = time_of(b[2], 0, DT_FOREVER),
        .join_timeout = time_of(b[2] >> 4, 0, DT_FOREVER),
        .last_call = time_of(b[3], 0, DT_FOREVER),
        .beat = time_of(b[3] >> 4, DT_BEAT_LEAST, DT_BEAT_MOST),
        .beats = b[4] & 1 ? DT_BEATS_MOST : b[4] % 4 + 1,
        .reconnect_grace = time_of(b[4] >> 4, 0, DT_RECONNECT_GRACE_MOST),
        .stop_bound = time_of(b[5], 0, DT_FOREVER),
        .grow_interval = time_of(b[5] >> 4, 0, DT_FOREVER),
        .restart_reset = time_of(b[5] >> 2, 0, DT_FOREVER),
        .command = b[5] & 1,
        .job = "",
    };
}

static uint64_t id_of(uint8_t who)
{
    return 100 + who % PEERS;
}

/* Near the run's, or one that is far off. */
static int round_of(const struct story *s, uint8_t how)
{
    static const int off[] = {0, -1, 1, -2, 2, 0, 0};
    int round = how % 8 < 7 ? s->run->round + off[how % 8] : how & 16 ? INT_MAX : -1;
    return round < -1 ? -1 : round;
}

/* Two agents have one name, and one agent may come from another boot of its host. */
static struct dt_join join_of(const struct story *s, uint8_t who, uint8_t how, bool claims)
{
    static const char *const names[] = {"a", "b", "c", "d", "a", "b#2", "e", "f"};
    struct dt_join j = {.spec = s->spec,
                        .node = {.name = names[who % PEERS],
                                 .boot = who & 64 ? "2" : "1",
                                 .domain = who & 32 ? "rack" : "",
                                 .addr = "10.0.0.1",
                                 .port = 1,
                                 .role = who & 16 ? "other" : "default",
                                 .workers = who & 8 ? 1 << 14 : 2,
                                 .order = who & 128 ? who % PEERS : -1,
                                 .looks = who % PEERS != 7}, /* which is an older one */
                        .claim = {.seat = -1, .again = how & 128}};
    const struct dt_member *m = dt_members_find(&s->run->members, id_of(who));
    j.claim.over = how & 8 ? "the server said so" : "";
    if (!claims && !*j.claim.over)
        return j;
    j.claim.done = claims && how & 32;
    j.claim.running = claims && !j.claim.done;
    j.claim.seats = how & 64 ? (int)s->run->seats_len : who / PEERS % 6;
    j.claim.seat = m && how & 64 ? m->seat : who % PEERS % 6;
    j.claim.size = who & 4 ? 0 : DT_RANKS_MOST;
    j.claim.first_rank = how & 32 ? DT_RANKS_MOST - j.node.workers : 0;
    j.claim.restarts = how & 16 ? 1 << 30 : 1;
    return j;
}

/* A node would take it: no number in it is beyond its limits. */
static void check_readable(const struct story *s, const struct dt_rdzv_action *a)
{
    struct dt_message said, read;
    struct dt_buf frame = {0};
    size_t used;
    dt_rdzv_message(&s->out, a, "run", &said);
    dt_message_encode(&frame, &said);
    FUZZ_CHECK(dt_message_decode(frame.at, frame.len, DT_FRAME_MAX, &read, &used, NULL) == DT_DONE);
    dt_message_finish(&read);
    dt_buf_finish(&frame);
}

static void check_send(const struct story *s, const struct before *was,
                       const struct dt_rdzv_action *a)
{
    const struct dt_rdzv *r = s->run;
    const struct dt_member *m = dt_members_find(&r->members, a->to);
    FUZZ_CHECK(a->to >= 100 && a->to < 100 + PEERS);
    check_readable(s, a);
    if (a->message == DT_MSG_STOP)
        FUZZ_CHECK(m == NULL || m->doing == DT_MEMBER_STOPPING || r->state == DT_RUN_CLOSED ||
                   was->round != r->round);
    if (a->message != DT_MSG_WORLD)
        return;
    FUZZ_CHECK(a->round == r->round || a->round == was->round); /* its stop may follow at once */
    FUZZ_CHECK(a->world.seat >= 0 && a->world.seat < a->world.seats);
    FUZZ_CHECK(a->world.first_rank >= 0 && a->world.first_rank < a->world.size);
    FUZZ_CHECK(a->world.seats <= r->spec.max_nodes && a->world.seats >= r->spec.min_nodes);
}

static void check_actions(const struct story *s, const struct before *was)
{
    bool journalled = false;
    FUZZ_CHECK(!s->out.bad);
    for (size_t i = 0; i < s->out.len; i++) {
        const struct dt_rdzv_action *a = &s->out.at[i];
        journalled = journalled || a->type == DT_DO_JOURNAL;
        if (a->type == DT_DO_SEND)
            check_send(s, was, a);
    }
    FUZZ_CHECK(journalled == s->out.journalled);
    FUZZ_CHECK(journalled || was->state == s->run->state);
}

static void step(struct story *s, const struct dt_rdzv_event *event)
{
    struct before was = {s->run->state, s->run->round};
    dt_rdzv_step(s->run, event, s->now, &s->out);
    check_truth(s->run);
    check_actions(s, &was);
    FUZZ_CHECK(s->run->round >= was.round || !s->run->begun); /* nobody begins a round twice */
    check_rest(s->run, &s->out, s->now);
    check_truth(s->run);
    if (!dt_rdzv_is_idle(s->run, s->now))
        return;
    dt_rdzv_destroy(s->run); /* as the server does */
    s->run = dt_rdzv_create("run", &s->exclude, 1);
    FUZZ_CHECK(s->run != NULL);
}

static void say(struct story *s, uint8_t who, uint8_t how, struct dt_message m)
{
    m.run = "run";
    m.why = "";
    m.incarnation = id_of(who);
    m.round = round_of(s, how);
    step(s, &(struct dt_rdzv_event){.type = DT_EV_FRAME, .frame = &m});
}

static void come(struct story *s, uint8_t who, uint8_t how, bool claims)
{
    say(s, who, how,
        (struct dt_message){.type = DT_MSG_JOIN, .join = join_of(s, who, how, claims)});
}

static void tell_result(struct story *s, uint8_t who, uint8_t how)
{
    struct dt_result result = {.succeeded = !(how & 128),
                               .evidence = (enum dt_evidence)((how >> 3) % DT_EVIDENCES),
                               .signature = how & 64 ? "same" : "",
                               .text = "it failed"};
    say(s, who, how, (struct dt_message){.type = DT_MSG_RESULT, .result = result});
}

/* Of its own workers, or somebody else's. */
static void answer_look(struct story *s, uint8_t who, uint8_t how)
{
    static const enum dt_doing does[] = {DT_DOING_COLLECTIVE, DT_DOING_SLEEP, DT_DOING_COMPILE,
                                         DT_DOING_UNKNOWN};
    const struct dt_member *m = dt_members_find(&s->run->members, id_of(who));
    int first = m && !(how & 32) ? m->first_rank : 0, workers = m ? m->workers : 1;
    struct dt_rank_range range = {first, first > INT_MAX - workers ? INT_MAX : first + workers - 1};
    struct dt_stance_group g = {
        .stance = {.doing = does[how >> 6], .where = "a.py:1", .sequence = -1, .step = -1},
        .ranges = &range,
        .len = 1,
        .ranks = workers};
    say(s, who, how,
        (struct dt_message){.type = DT_MSG_LOOKED,
                            .looked = {.id = s->run->running.look.id, .stances = {&g, 1}}});
}

static void tell_still(struct story *s, uint8_t who, uint8_t how)
{
    say(s, who, how,
        (struct dt_message){.type = DT_MSG_STILL,
                            .still = {.still = how & 32 ? 0 : 2000, .sure = how & 8}});
}

static void drain(struct story *s, uint8_t who, bool undo)
{
    const char name[] = {(char)('a' + who % PEERS), '\0'};
    FUZZ_CHECK(dt_exclude_drain(&s->exclude, name, undo, "", s->now) == 0);
    step(s, &(struct dt_rdzv_event){.type = DT_EV_DRAIN, .text = name});
}

/* The server is started again: with its journal, or without. */
static void restart(struct story *s, bool forget)
{
    struct dt_buf record = {0};
    dt_rdzv_save(s->run, &record);
    bool begun = s->run->begun;
    dt_rdzv_destroy(s->run);
    s->run = forget || !begun ? dt_rdzv_create("run", &s->exclude, 1)
                              : dt_rdzv_restore("run", &s->exclude, 1,
                                                (struct dt_bytes){record.at, record.len}, s->now);
    FUZZ_CHECK(s->run != NULL);
    dt_buf_finish(&record);
    check_truth(s->run);
}

static void take_event(struct story *s, const uint8_t *b)
{
    static const enum dt_rdzv_event_type wishes[] = {DT_EV_PAUSE, DT_EV_RESUME, DT_EV_STOP,
                                                     DT_EV_RESTART};
    s->now += time_of(b[3], 0, 90000000);
    switch (b[0] < 240 ? b[0] % 12 : 12 + b[0] % 4) {
    case 0:
    case 1:
        come(s, b[1], b[2], false);
        break;
    case 2:
        come(s, b[1], b[2], true);
        break;
    case 3:
        say(s, b[1], b[2], (struct dt_message){.type = DT_MSG_BEAT, .beat = {.step = b[2] >> 3}});
        break;
    case 4:
    case 5:
        tell_result(s, b[1], b[2]);
        break;
    case 6:
    case 7:
        say(s, b[1], b[2],
            (struct dt_message){.type = DT_MSG_LEAVE, .leave = {.stopping = b[2] & 8}});
        break;
    case 8:
        step(s, &(struct dt_rdzv_event){.type = DT_EV_LOST, .from = id_of(b[1])});
        break;
    case 9:
        drain(s, b[1], b[2] & 1);
        break;
    case 10:
        restart(s, b[1] & 1);
        break;
    case 11:
        step(s, &(struct dt_rdzv_event){.type = b[1] == 255 ? DT_EV_END : DT_EV_TICK, .text = ""});
        break;
    case 12:
        tell_still(s, b[1], b[2]);
        break;
    case 13:
        answer_look(s, b[1], b[2]);
        break;
    case 14:
        step(s, &(struct dt_rdzv_event){.type = DT_EV_LOOK});
        break;
    case 15:
        step(s, &(struct dt_rdzv_event){.type = wishes[b[2] % 4], .text = ""});
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct story s = {.now = 1000 * DT_SECOND};
    if (size < SPEC_BYTES)
        return 0;
    s.spec = spec_of(data);
    dt_exclude_init(&s.exclude, 1);
    s.run = dt_rdzv_create("run", &s.exclude, 1);
    FUZZ_CHECK(s.run != NULL);
    for (size_t at = SPEC_BYTES; at + EVENT_BYTES <= size; at += EVENT_BYTES)
        take_event(&s, data + at);
    dt_rdzv_destroy(s.run);
    dt_rdzv_actions_finish(&s.out);
    dt_exclude_finish(&s.exclude);
    return 0;
}
