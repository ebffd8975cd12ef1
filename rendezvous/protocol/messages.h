/* SPDX-License-Identifier: Apache-2.0 */
/* The control protocol between agents and the rendezvous: messages as plain data, and their frames.
 * Pure.
 *
 * A connection on the store's port begins with the four bytes "DTRN" and a u16 version, then come
 * frames: a u32 length and so many bytes of JSON. The first frame each way is a hello; where a
 * token is asked for, a proof each way follows (proof.h). Every frame after that carries run, round
 * and incarnation. Nothing an agent sends or gets in a round grows with the number of nodes.
 *
 * Strings of a decoded message belong to it; those of one to be encoded to whoever made it. */
#ifndef DT_RENDEZVOUS_PROTOCOL_MESSAGES_H
#define DT_RENDEZVOUS_PROTOCOL_MESSAGES_H

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "rendezvous/protocol/own_time.h"
#include "rendezvous/protocol/rank_set.h"
#include "rendezvous/protocol/spec.h"
#include "rendezvous/protocol/stance.h"
#include "rendezvous/protocol/telemetry.h"

#include <stdbool.h>
#include <stdint.h>

#define DT_CONTROL_MAGIC "DTRN"
#define DT_CONTROL_PREAMBLE 6 /* bytes: the magic and the version */
#define DT_CONTROL_VERSION 1
#define DT_HELLO_KEY "/dtrun/hello" /* our stores always hold it; see docs/protocol.md */

#define DT_FRAME_MAX (64u << 10)       /* bytes of JSON, of all but ... */
#define DT_STATUS_FRAME_MAX (1u << 20) /* ... a page for dtrun-ctl */
#define DT_WHY_MAX 400                 /* with its NUL; sentences for people are cut there */
#define DT_FINDING_TEXT_MAX 1024       /* with its NUL; the sentences of a FINDING */
#define DT_PLACE_MAX 128               /* of "FILE:LINE", with its NUL */
#define DT_REMARKS_MOST 8              /* of an agent; further ones are in its node's log alone */
#define DT_NONCE_SIZE 16
#define DT_PROOF_SIZE 32

enum dt_message_type {
    DT_MSG_HELLO,   /* both ways: who is there, which version, a nonce */
    DT_MSG_PROOF,   /* both ways: that the token is known */
    DT_MSG_REFUSED, /* down: this connection ends, WHY says the reason; do not come again so */
    DT_MSG_JOIN,    /* up: wants a world; or has one, and is back on a new connection */
    DT_MSG_BEAT,    /* up, and echoed down: alive */
    DT_MSG_WORLD,   /* down: start your workers */
    DT_MSG_PARK,    /* down: you are a spare for now, WHY */
    DT_MSG_STOP,    /* down: the round is over, WHY; stop your workers and join again */
    DT_MSG_RESULT,  /* up: what came of the workers */
    DT_MSG_LEAVE,   /* up: this agent goes, the job goes on without it */
    DT_MSG_CLOSE,   /* down: the job is over */
    DT_MSG_STALE,   /* down: you speak of a round that is over; kill your workers, come as new */
    DT_MSG_NOTE,    /* down: for the person at the terminal: whom we wait for */
    DT_MSG_STILL,   /* up: since when all workers of the node have stood still */
    DT_MSG_LOOK,    /* down: look at your workers */
    DT_MSG_LOOKED,  /* up: what they do */
    DT_MSG_KEEP,    /* down: let your workers save what they have */
    DT_MSG_FINDING, /* down: the workers of all nodes stand still, and why */
    DT_MSG_REMARK,  /* up: what is wrong with the host of an agent, which may not have joined */
    DT_MSG_DRAIN,   /* from dtrun-ctl, and its answer */
    DT_MSG_PAUSE,   /* from dtrun-ctl, and its answer */
    DT_MSG_SAVE,    /* from dtrun-ctl, and its answer */
    /* From dtrun-ctl, and their answers: end a run, begin another round of it. */
    DT_MSG_STOP_RUN,
    DT_MSG_RESTART_RUN,
    DT_MSG_STATUS,  /* from dtrun-ctl, and its answer */
    DT_MSG_STANCES, /* from dtrun-ctl, and its answer: what all workers of a run do */
    DT_MSG_EVENTS,  /* from dtrun-ctl, and its answer: what happened */
    DT_MSG_ALERT,   /* from dtrun-ctl, and its answer: a test of alerts */
    DT_MSG_LOGS,    /* from dtrun-ctl, and its answers: what workers print */
    DT_MSG_MORE,    /* down, and from dtrun-ctl: what was told is taken, more may come */
    DT_MSG_TAIL,    /* down: tell what your workers print */
    DT_MSG_TAILED,  /* up: some of it */
    DT_MSG_TYPES,
};

/* "hello", "proof", ... as on the wire. */
const char *dt_message_name(enum dt_message_type type);

/* A node as it presents itself. */
struct dt_node_info {
    const char *name;   /* host name, or --node-name */
    const char *boot;   /* id of this boot of the host; "" unknown */
    const char *domain; /* --domain-key: rack or the like; "" none */
    const char *addr;   /* where workers meet if it gets seat 0 ... */
    int port;           /* ... */
    const char *role;
    int workers;
    int order;    /* its wish for a seat, from --node-rank or a scheduler; -1: none */
    int expected; /* how many nodes the scheduler started; 0: unknown */
    bool looks;   /* it understands LOOK and FINDING ... */
    bool keeps;   /* ... and KEEP ... */
    bool tails;   /* ... and TAIL and MORE */
};

/* What an agent has, for a server that may know less than it. */
struct dt_claim {
    bool running;    /* workers of the frame's round are alive ... */
    bool done;       /* ... or have all succeeded */
    bool again;      /* the agent has been in this run, perhaps as another incarnation */
    int seat, seats; /* its place in the frame's round; -1: none yet */
    int first_rank, size;
    int restarts;     /* of the job so far, as it was told */
    const char *over; /* why that round is over, as it was told; NULL or "": it was not */
};

struct dt_join {
    struct dt_run_spec spec;
    struct dt_node_info node;
    struct dt_claim claim;
};

struct dt_beat {
    int64_t seq;                    /* echoed */
    int64_t step;                   /* of training; -1: unknown */
    int64_t step_age_ms;            /* since that step was new, at least 1; 0: unknown */
    int64_t tokens_per_s;           /* of its workers together; 0: unknown, or not any more */
    int running, failed, succeeded; /* workers */
    struct dt_own_time own;         /* up */
    struct dt_telemetry telemetry;  /* up; its number is 0 where nothing of it is new */
    /* Down: what is said of the worker that holds the others up, or did; NULL or "": nothing. */
    const char *straggler;
    bool holds_up; /* it still does */
};

/* Who is to blame, as far as the node itself can tell. Rows; evidence grows with later checks. */
enum dt_evidence {
    DT_EVIDENCE_PROGRAM,   /* an exception, an exit status: would fail anywhere */
    DT_EVIDENCE_CRASH,     /* died of a signal that we did not send: may be the node */
    DT_EVIDENCE_OFFLINE,   /* the node went silent */
    DT_EVIDENCE_PREEMPTED, /* was asked to go, or drained */
    DT_EVIDENCE_HARDWARE,  /* hard: a device is broken, or a health check says so */
    DT_EVIDENCES,
};
const char *dt_evidence_name(enum dt_evidence e);

/* Whether the same workers, started again, may come further. */
enum dt_retry {
    DT_RETRY_MAY_HELP,
    DT_RETRY_SELDOM_HELPS, /* what fails twice in the same way will do so again */
    DT_RETRY_CANNOT_HELP,
    DT_RETRIES,
};
const char *dt_retry_name(enum dt_retry r);

struct dt_result {
    bool succeeded;
    enum dt_evidence evidence;
    int rank, local_rank;  /* of the first that failed */
    int exit_code, signal; /* one of them, the other 0 */
    bool ends_job;         /* no other round is to follow, whatever the budget has */
    const char *signature; /* equal for equal failures on different nodes; "" unknown */
    const char *text;      /* one sentence: "rank 3 (local rank 1) died of SIGSEGV" */
    enum dt_retry retry;
    bool early;        /* before any step, and soon after it was started */
    const char *place; /* where in the program: "train.py:88"; NULL or "" unknown */
    bool weak;         /* it may have failed because another one did */
    dt_ms age;         /* it failed so long ago: no clocks of two hosts are compared */
    bool late;         /* its workers were being stopped already: it ended no round */
    const char *cause; /* why, as a sentence: "rank 3 ran out of GPU memory at ..."; NULL or "" */
};

/* Of constant size however many nodes there are. */
struct dt_world_message {
    int seat, seats;
    int first_rank, size;
    int first_role_rank, role_size;
    const char *master_addr;
    int master_port;
    int prev_rank, prev_size; /* of its first worker in its last round; -1 and 0: none */
    int restarts;             /* charged so far: TORCHELASTIC_RESTART_COUNT */
    const char *news;         /* what changed since the last round; "" the first time */
    const char *cause;        /* why the last one failed, the same on all nodes; "" it did not */
};

enum dt_close_kind {
    DT_CLOSE_SUCCEEDED,
    DT_CLOSE_FAILED,      /* the budget is spent, or may not be */
    DT_CLOSE_TIMEOUT,     /* too few nodes came */
    DT_CLOSE_NO_PROGRESS, /* do not start it again */
    DT_CLOSE_REFUSED,     /* this node alone: it does not fit the run */
    DT_CLOSE_ENDED,       /* whoever hosted the rendezvous ends it */
    DT_CLOSE_STOPPED,     /* a person ended the job */
    DT_CLOSE_KINDS,
};
const char *dt_close_kind_name(enum dt_close_kind k);

/* How much the workers of a round that is over may still do, more first. */
enum dt_stop_how {
    DT_STOP_TOGETHER, /* all nodes of the round are there and stop their workers too: a checkpoint
                         that all of them write now counts, as no other round runs before all are
                         gone */
    DT_STOP_ALONE,    /* they have their time to end, but nothing that they save counts */
    DT_STOP_KILL,     /* what they still do may do harm */
};

/* Why workers stand still, as rendezvous/hang says it. */
struct dt_finding_message {
    const char *class; /* a word: see dt_hang_class_name() */
    bool guilty;
    /* The first rank of those who are outside, and of those who wait for them; -1: none. */
    int culprit, waiting;
    const char *sentence, *advice;
    struct dt_stances stances;
};

/* People want so many lines of each worker, and no line of another. A node tells so much at a time
 * at most, in bytes that workers wrote. */
#define DT_TAIL_LINES_MOST 100000
#define DT_TAIL_ALL (-1) /* lines: all that is kept */
#define DT_TAIL_ROOM_MOST (8 << 10)

/* What an agent sends goes to a server that knows it, and the other way round: STILL and LOOKED
 * where the server's HELLO says "looks", REMARK where that says "remarks", LOOK and FINDING where
 * the agent's JOIN says "looks", KEEP where that says "keeps", TAIL and MORE where it says "tails".
 *
 * Stances of a decoded message belong to it, too; those that are too many for a frame are left out
 * as stance_frame.h says. */
struct dt_message {
    enum dt_message_type type;
    /* All but HELLO, PROOF and REFUSED. What people ask: run may be "", the other two are 0. */
    const char *run;
    int round;
    uint64_t incarnation;
    /* JOIN, DRAIN, wishes, ALERT, LOGS, up: see warrant.h; "" or NULL: nothing is shown. */
    const char *key, *signature;
    /* DRAIN, wishes, ALERT, LOGS, up: who asks, as it says; "" or NULL: unknown */
    const char *user;
    union {
        struct {
            int version;
            const char *program; /* "dtrun 0.4", for log lines */
            const char *host;    /* down: "daemon" or "agent"; up: "" */
            uint8_t nonce[DT_NONCE_SIZE];
            bool token;      /* down: a proof is asked for */
            bool looks;      /* down: it understands STILL and LOOKED ... */
            bool remarks;    /* ... and REMARK ... */
            bool logs;       /* ... and LOGS, TAILED and MORE */
            bool shared;     /* down: jobs of several people meet here */
            bool run_tokens; /* down: it asks for the token of a run that was begun with one */
        } hello;
        uint8_t proof[DT_PROOF_SIZE];
        struct dt_join join;
        struct dt_beat beat;
        struct dt_world_message world;
        struct dt_result result;
        struct {
            enum dt_close_kind kind;
            const char *cause; /* as that of a world */
        } close;
        struct {
            bool together; /* DT_STOP_TOGETHER */
        } stop;
        struct {
            bool stopping; /* its workers are being stopped; says it again when they are gone */
        } leave;
        struct {
            dt_ms still; /* for so long; 0: they move again */
            bool sure;   /* their steps tell so, or a person said how long is too long */
        } still;
        struct {
            int64_t id;  /* of this look, 1 and up: the answer has it too */
            bool native; /* with the calls of C code, for which threads are stopped for a moment */
        } look;
        struct {
            int64_t id;
            struct dt_stances stances;
        } looked;
        struct dt_finding_message finding;
        struct {
            const char *node;
            bool failed; /* it breaks any job; else it can make one fail, or slow */
        } remark;
        struct {
            const char *node; /* up */
            bool undo;        /* up */
            bool done;        /* down; WHY says what was done, or why not */
        } drain;
        struct {
            bool undo; /* up, of PAUSE alone */
            bool done; /* down; WHY says what was done, or why not */
        } wish;        /* PAUSE, SAVE, STOP_RUN, RESTART_RUN: what a person wants of a run */
        struct {
            int from;         /* up: first node of the page */
            bool history;     /* up: instead of nodes, the rounds that are over */
            const char *json; /* down: an object, see docs/protocol.md */
        } status;
        struct {
            bool native;      /* up: as in LOOK; down: it was done so */
            const char *json; /* down: as above; NULL where WHY says why there is none */
        } stances;
        struct {
            int64_t after;    /* up: the number of an event; newer ones are asked for ... */
            int64_t since_us; /* up: ... that happened then, or later */
            bool follow;      /* up: where there is none, the answer waits for one */
            const char *json; /* down: as above */
        } events;
        struct {
            bool done; /* down: all receivers took it; WHY says how each did */
        } alert;
        struct {
            const char *ranks; /* up: see rank_set.h */
            const char *node;  /* up: of this one alone; "": of all */
            int lines;         /* up: the last of each worker, or DT_TAIL_ALL */
            bool follow;       /* up: and what comes later, until the run ends */
            int from;          /* down: MORE with this number is to answer; 0: with 0, or none */
            bool asks;         /* down: whether the other side is there: MORE answers */
            bool over;         /* down: the last answer, and WHY ... */
            bool done;         /* ... it was all */
            const char *json;  /* down: as above, of one node; NULL: WHY is for the person */
        } logs;
        struct {
            int64_t id; /* of TAIL, 1 and up; from dtrun-ctl: what a page was FROM, or 0 */
            int room;   /* down: for so many bytes; 0: no more is wanted */
        } more;
        struct {
            int64_t id;        /* MORE and TAILED have it too; a later TAIL begins anew */
            const char *ranks; /* as in LOGS, and so ... */
            int lines;
            bool follow;
            int room; /* in the first answer, as in MORE */
        } tail;
        struct {
            int64_t id;
            bool over;        /* the last; not where what comes later is wanted */
            const char *json; /* as above; NULL: nothing */
        } tailed;
    };
    /* REFUSED, PARK, STOP, LEAVE, CLOSE, STALE, NOTE, REMARK, DRAIN, wishes, STANCES, ALERT, LOGS:
     * a sentence, or "" */
    const char *why;
    struct dt_json doc; /* a decoded one's strings ... */
    char *text;         /* ... and the page of a decoded STATUS, STANCES, EVENTS, LOGS or TAILED */
};

/* Appends the preamble, with our version. */
void dt_control_put_preamble(struct dt_buf *out);
/* MORE, DONE (*version), or BAD: not the magic. Version is not judged. */
enum dt_decoded dt_control_read_preamble(const uint8_t *bytes, size_t len, int *version);

/* Appends M as a frame. A string that is too long for its field is cut. A number beyond its limits
 * is our mistake: it is reported, and goes as it is, for the other side to refuse. OUT is sticky.
 */
void dt_message_encode(struct dt_buf *out, const struct dt_message *m);

/* Takes one frame off the front. DONE: *used, and M is to be finished. BAD and *err: over MAX
 * bytes, no JSON, not a message, a value out of its range. */
enum dt_decoded dt_message_decode(const uint8_t *bytes, size_t len, size_t max,
                                  struct dt_message *m, size_t *used, struct dt_err *err);
/* VALUE, in which anybody may have put anything, is to be a message of that TYPE. True: M is to be
 * finished. */
bool dt_message_read(struct dt_bytes value, enum dt_message_type type, struct dt_message *m);
void dt_message_finish(struct dt_message *m);

#endif
