/* SPDX-License-Identifier: Apache-2.0 */
/* The rendezvous of one run: an event and the time in, actions out. Pure: no socket, no clock, no
 * file, and the only randomness is handed in.
 *
 * A run gathers nodes until a world can be made, runs it, and gathers again whenever the round
 * ends: a worker failed, a node was lost or left, or one came that there is room for. Ending a
 * round raises the number of the next: from then on nothing of the old one counts or commits, and
 * no new world is made until every node of the old one that is connected has said that its workers
 * are gone, or its time for that is over. What is decided is journalled before anybody hears of it.
 *
 *              join, ready nodes >= MIN, last call over
 *   GATHERING ------------------------------------------> RUNNING
 *       |    <------------------------------------------     |
 *       |      failure, loss, leave, drain, growth, a wish   | all done
 *       +- timeout, budget spent, stop -> CLOSED <-----------+
 *
 * An agent whose incarnation is new finds a closed run empty again, and begins the next of that
 * name. */
#ifndef DT_RENDEZVOUS_RDZV_RDZV_H
#define DT_RENDEZVOUS_RDZV_RDZV_H

#include "base/buf.h"
#include "base/clock.h"
#include "rendezvous/events/event.h"
#include "rendezvous/hang/judge.h"
#include "rendezvous/lag/lag.h"
#include "rendezvous/protocol/messages.h"
#include "rendezvous/protocol/warrant.h"
#include "rendezvous/rdzv/budget.h"
#include "rendezvous/rdzv/exclude.h"
#include "rendezvous/rdzv/futility.h"
#include "rendezvous/rdzv/history.h"
#include "rendezvous/rdzv/loss.h"
#include "rendezvous/rdzv/members.h"

enum dt_rdzv_event_type {
    DT_EV_FRAME, /* a member, or who wants to be one, says something */
    DT_EV_LOST,  /* its connection is gone */
    DT_EV_DRAIN, /* a node was drained or undrained, in the exclude table already */
    DT_EV_PAUSE, /* a person holds the run up: WHY */
    DT_EV_RESUME,
    /* A person ends the job, or wants another round: WHY. */
    DT_EV_STOP,
    DT_EV_RESTART,
    DT_EV_SAVE, /* a person wants a checkpoint of the round that runs */
    DT_EV_LOOK, /* somebody asks what all workers do: see dt_rdzv_look() */
    DT_EV_TICK, /* time passed; every step looks at the time first anyway */
    DT_EV_END,  /* whoever hosts us goes: WHY */
};

struct dt_rdzv_event {
    enum dt_rdzv_event_type type;
    /* JOIN, BEAT, RESULT, LEAVE, STILL, LOOKED. The key of a JOIN was proved. */
    const struct dt_message *frame;
    bool local;       /* JOIN: its connection comes from our own host ... */
    bool anew;        /* ... and it is the member's first there: what was sent before may be lost */
    uint64_t from;    /* LOST: whose */
    const char *text; /* DRAIN: the node's name; PAUSE, STOP, RESTART, END: why */
    bool native;      /* LOOK: with the calls of C code */
    int64_t wall_us;  /* the same moment by the wall clock, for people; 0: unknown */
    const char *twin; /* another run for which dt_rdzv_may_be_one(), if anybody looked; or NULL */
};

enum dt_rdzv_action_type {
    DT_DO_SEND,    /* MESSAGE to the connection of TO; if there is none, forget it */
    DT_DO_JOURNAL, /* dt_rdzv_save() must be on disk before any SEND behind this one goes out */
    DT_DO_NODE,    /* the same for the record of the node TEXT in the exclude table */
    DT_DO_SAY,     /* TEXT is a line for the log alone, of WEIGHT */
    DT_DO_TELL,    /* TEXT happened: an event, and (unless SILENT) a line for the log */
};

struct dt_rdzv_action {
    enum dt_rdzv_action_type type;
    uint64_t to;
    enum dt_message_type message;
    int round;   /* SEND, TELL */
    size_t text; /* SAY, TELL, NODE, and WHY of a SEND: dt_rdzv_text() */
    union {
        enum dt_event_weight weight; /* SAY */
        struct {
            enum dt_event_kind kind;
            size_t node; /* dt_rdzv_text() */
            int rank;    /* -1: of none */
            bool silent; /* the log has it in another line of this step */
        } tell;
        struct dt_world_message world; /* its strings are good until the next step */
        struct dt_beat beat;
        struct {
            enum dt_close_kind kind;
            size_t cause; /* dt_rdzv_text() */
        } close;
        bool together; /* STOP */
        struct {
            int64_t id;
            bool native;
        } look;
        struct {
            const struct dt_hang_finding *what; /* good until the next step, as STANCES are */
            const struct dt_stances *stances;
        } finding;
    };
};

/* Cleared by each step. Zeroed memory is an empty one. */
struct dt_rdzv_actions {
    struct dt_rdzv_action *at;
    size_t len, size;
    struct dt_buf texts;
    bool journalled; /* a JOURNAL is among them */
    bool bad;        /* memory is out: the run must not go on */
};
void dt_rdzv_actions_finish(struct dt_rdzv_actions *a);
const char *dt_rdzv_text(const struct dt_rdzv_actions *a, size_t text);
/* The frame that a SEND stands for. Strings stay the run's and the actions'. */
void dt_rdzv_message(const struct dt_rdzv_actions *a, const struct dt_rdzv_action *send,
                     const char *run, struct dt_message *out);

enum dt_run_state { DT_RUN_GATHERING, DT_RUN_RUNNING, DT_RUN_CLOSED };
const char *dt_run_state_name(enum dt_run_state s);

/* What is remembered of a seat. */
struct dt_seat {
    uint64_t holder; /* 0: gone, or (while recovering) not back yet */
    char name[DT_NODE_NAME_MAX], domain[DT_ROLE_MAX];
    bool done;  /* the holder's workers have succeeded */
    dt_ms gone; /* when the holder went; 0: it did not */
};

/* The likeliest cause of a round's failure, of all that its nodes tell until they have come back.
 * People are told of it, and it shows whether another round can only fail again; who pays follows
 * from what ended the round. Not journalled: what nodes have not said yet when the server ends they
 * do not say to the next. */
struct dt_suspect {
    uint64_t from; /* which member */
    bool broken;   /* a device is */
    bool weak;     /* it may have failed because another one did */
    dt_ms at;      /* when it failed */
    enum dt_retry retry;
    bool early;
    char node[DT_NODE_NAME_MAX];
    int rank; /* the first that failed there; -1: unknown */
    char place[DT_PLACE_MAX], signature[DT_NODE_NAME_MAX];
    char cause[DT_WHY_MAX]; /* "node1: rank 3 ran out of GPU memory ..."; "": it does not say */
};

/* Why the round ended, when workers failed. Who is to pay for it is not known before all nodes have
 * come back or are known to be gone: what looks like a failure of the program is often the
 * loss of a node, seen by its neighbours first. */
struct dt_fault {
    bool pending;
    bool node_lost; /* one of the round's nodes went since */
    bool newcomer;  /* NODE had just joined a job that ran without it */
    enum dt_evidence evidence;
    char node[DT_NODE_NAME_MAX];
    char text[DT_WHY_MAX], signature[DT_NODE_NAME_MAX];
    struct dt_suspect suspect;
};

/* Who was to blame for the last failures in a row that cost a restart. */
struct dt_blame {
    char node[DT_NODE_NAME_MAX];
    int times;
    dt_ms since; /* the first of them */
    bool recent; /* no world was made since the last of them */
};

/* Seats of a round that were not filled here: the server learnt of that round from a node, or found
 * it in the journal, and waits for the nodes to come back. */
struct dt_recovery {
    dt_ms until; /* a node that is not back in its seat by then counts as lost; 0: all are known */
    int round;   /* of these seats: runs, or is over */
};

/* Nodes are waited for, and workers of the last round stop. */
struct dt_gathering {
    /* A person ends the job: a sentence; the run is closed when all workers are gone. "": no. */
    char stopped[DT_WHY_MAX];
    char paused[DT_WHY_MAX]; /* no round begins before a person says so, WHY; "": it may */
    dt_ms resumed;           /* missing nodes have their time from then on; 0: from the start */
    dt_ms next_note;         /* when those who wait are told whom the run waits for */
    dt_ms last_call;         /* its end; 0: MIN are not there */
    dt_ms pause_until;       /* no round begins before, as the last ones failed at once */
    dt_ms stop_deadline;     /* workers of the last round are gone by then; 0: all are */
    bool together;           /* they were told to stop together, and all still may */
    bool told_short;         /* that fewer than MIN nodes are left */
    dt_ms lasted;            /* so long the last round ran ... */
    bool no_step;            /* ... and nobody told a step */
    struct dt_fault fault;
    struct dt_recovery recovery;
};

/* Who began the job, as people ask later. The rest of it stands in the spec. */
struct dt_beginning {
    int64_t wall_us;             /* by the wall clock; 0: unknown, as after a lost journal ... */
    char node[DT_NODE_NAME_MAX]; /* ... and then this is "" */
};

/* A look at the workers of all nodes of the round that runs: nodes are asked, and answer. */
enum dt_round_look_state {
    DT_ROUND_LOOK_NONE,
    DT_ROUND_LOOK_ASKED, /* some may still answer */
    DT_ROUND_LOOK_THERE,
};
struct dt_round_look {
    enum dt_round_look_state state;
    int64_t id;                /* of the last: 1, 2, ... */
    bool native;               /* ... with the calls of C code */
    dt_ms asked;               /* when */
    size_t open;               /* so many were asked and have not answered */
    struct dt_stances stances; /* of those who did */
};

/* Whether the job stands still. Not journalled, as it is found anew. */
enum dt_standstill_state {
    DT_STANDSTILL_NONE,
    DT_STANDSTILL_LOOKING, /* all nodes say so, and are asked what their workers do */
    DT_STANDSTILL_FOUND,   /* the nodes were told why */
};
struct dt_standstill {
    enum dt_standstill_state state;
    dt_ms not_before; /* NONE: the next look, as the last one explained nothing */
    uint64_t mover;   /* one that did not say so when we looked last: saves looking at all */
    /* FOUND: */
    dt_ms since;
    struct dt_hang_finding finding;
    struct dt_stances stances; /* that it was found from */
};

/* How many stand by, of those that the run asks for. */
enum dt_spares { DT_SPARES_ALL, DT_SPARES_SOME, DT_SPARES_NONE };

/* A round runs. */
struct dt_running {
    int64_t first_step;    /* that training was at when first heard of; -1: not yet ... */
    bool moves;            /* ... and whether it has come further since */
    dt_ms grow_at;         /* may take in the nodes that wait; 0: none waits */
    enum dt_spares spares; /* as people were told last */
    size_t done_gone;      /* seats that are done and whose holder is gone */
    struct dt_recovery recovery;
    struct dt_round_look look;
    struct dt_standstill standstill;
    struct dt_lag lag;
    struct dt_loss loss; /* as the node of rank 0 tells it */
    dt_ms stepped;       /* when the latest step of any node was new; 0: none was told of */
    bool stuck;          /* which is so long ago that people were told */
};

/* The job is over. */
struct dt_closed {
    enum dt_close_kind kind;
    char why[DT_WHY_MAX];
};

/* Open so that tests and the simulator can look; nobody else changes it. */
struct dt_rdzv {
    char id[DT_RUN_ID_MAX];
    bool shared;             /* see dt_rdzv_set_shared() */
    struct dt_run_spec spec; /* set with the first join */
    struct dt_exclude *exclude;
    struct dt_members members;
    struct dt_budget budget;
    /* The phase, and what is known in that phase alone: the others are zero. See phase.c. */
    enum dt_run_state state;
    dt_ms since; /* that state was entered */
    struct dt_gathering gathering;
    struct dt_running running;
    struct dt_closed closed;
    bool begun; /* somebody joined, so there is a spec */
    struct dt_beginning beginning;
    char key[DT_WARRANT_KEY]; /* of the token that it was begun with; "": of none */
    int round;                /* that runs, or is gathered for */
    int floor;                /* the next is not below: a member was in one nearly as high */
    bool had_world;           /* seats are of a round */
    bool strays;              /* nodes went silent, and may be back with workers */
    struct dt_seat *seats;
    size_t seats_len;
    int size;                    /* world size of that round */
    struct dt_blame blame;       /* not journalled: who is to blame will show it again */
    struct dt_futility futility; /* the same */
    bool swapped;                /* a spare has taken the place of a straggler's node ... */
    int swapped_rank;            /* ... for this rank was one; neither is journalled */
    int expected;                /* nodes that a scheduler started; 0: unknown */
    char master_addr[DT_NODE_ADDR_MAX];
    int master_port;
    struct dt_history history;
    dt_ms now;             /* of this step ... */
    int64_t wall_us;       /* ... by the wall clock ... */
    const char *twin;      /* ... as is this */
    char news[DT_WHY_MAX]; /* since the last world ... */
    char told[DT_WHY_MAX]; /* ... and what that one brought, should it be lost on its way */
    /* That its nodes run different commands, as all are told; "": they do not. */
    char mixed[DT_WHY_MAX];
    bool mixed_untold;       /* to some */
    dt_ms next_refusal_told; /* not before that, members hear again that a node was refused */
};

/* EXCLUDE is shared among runs and outlives them. SEED: of hashes. NULL: no memory. */
struct dt_rdzv *dt_rdzv_create(const char *id, struct dt_exclude *exclude, uint64_t seed);
void dt_rdzv_destroy(struct dt_rdzv *r);
/* Whether jobs of several people meet where this run is, so that two of one name are likely to be
 * two jobs: a node that runs another command than the first, or is another user's, is refused. Else
 * (and at first) all nodes are told of it. */
void dt_rdzv_set_shared(struct dt_rdzv *r, bool shared);

/* Takes EVENT and says what is to be done, in this order. NOW never goes back. */
void dt_rdzv_step(struct dt_rdzv *r, const struct dt_rdzv_event *event, dt_ms now,
                  struct dt_rdzv_actions *out);

/* Whether A and B may be one job whose nodes were given different ids by mistake: both wait for
 * nodes that never came yet, and they agree on all that one job's nodes agree on. */
bool dt_rdzv_may_be_one(const struct dt_rdzv *a, const struct dt_rdzv *b);

/* When a TICK is wanted at the latest; DT_FOREVER: never. */
dt_ms dt_rdzv_next(const struct dt_rdzv *r);

/* Whether a person holds the run up. */
bool dt_rdzv_is_paused(const struct dt_rdzv *r);
/* Whether a person ends the job, and workers of it may be left. */
bool dt_rdzv_is_stopping(const struct dt_rdzv *r);

/* How many nodes a wish for a checkpoint reaches, and how many run workers. */
size_t dt_rdzv_count_savers(const struct dt_rdzv *r, size_t *running);

/* Nobody is there: may be destroyed where room is wanted. */
bool dt_rdzv_is_empty(const struct dt_rdzv *r);
/* By the name it said or the one it was given. */
bool dt_rdzv_has_node(const struct dt_rdzv *r, const char *name);
/* The same, and nothing of it need be known any more: nobody can want to hear how it ended, and no
 * node is to be feared that comes back with workers. The first of such nodes is believed that its
 * round still runs, unless others have begun the job anew. */
bool dt_rdzv_is_idle(const struct dt_rdzv *r, dt_ms now);

/* Which nodes the run waits for to come back to their seats. */
const struct dt_recovery *dt_rdzv_recovery(const struct dt_rdzv *r);

/* Why the job stands still, in a sentence; NULL: it does not, as far as is known. */
const char *dt_rdzv_standstill(const struct dt_rdzv *r);

/* The worker that holds the others up, in a sentence, and since when; NULL: there is none. */
const struct dt_lag *dt_rdzv_straggler(const struct dt_rdzv *r);

/* How the training goes, of what all nodes of the round that runs tell; what none tells is 0 or "".
 * Shares are of DT_SHARE_WHOLE. */
struct dt_training {
    int64_t step, steps; /* -1: unknown; steps 0: unknown */
    int64_t tokens_per_s;
    const char *loss; /* of the node with the lowest rank that tells one: the last step's */
    int mfu;
    int compute, comm, data, idle; /* one whole, or nothing */
};
/* Strings are good until the next step. */
void dt_rdzv_training(const struct dt_rdzv *r, struct dt_training *out);
/* Whether what M told last is still so: its workers run, and it is heard of. */
bool dt_rdzv_is_fresh(const struct dt_member *m);

/* What all workers do, or NULL: no look is there, or it is not over yet. DT_EV_LOOK begins one
 * unless one is under way, or one that tells as much is less than a second old. */
const struct dt_round_look *dt_rdzv_look(const struct dt_rdzv *r);
/* Whether M, which runs workers, has not answered it. */
bool dt_rdzv_look_lacks(const struct dt_rdzv *r, const struct dt_member *m);

/* GATHERING: nodes that a round could begin with now. */
size_t dt_rdzv_count_ready(const struct dt_rdzv *r);
/* Appends "; node1 is drained (WHY)" for each that is there and can have no seat. */
void dt_rdzv_name_drained(const struct dt_rdzv *r, char *out, size_t size);
/* Whether the job had to stop, as the nodes that are left are fewer than it needs. */
bool dt_rdzv_is_short(const struct dt_rdzv *r, size_t *left);

/* For the journal. A restored run waits for its members to come back, as if they had just been
 * heard of. NULL: no such record, or no memory. */
void dt_rdzv_save(const struct dt_rdzv *r, struct dt_buf *out); /* nothing: nobody ever joined */
struct dt_rdzv *dt_rdzv_restore(const char *id, struct dt_exclude *exclude, uint64_t seed,
                                struct dt_bytes record, dt_ms now);
/* What people were told of a run before it was restored, oldest first: that a loss, a step, a disk,
 * an upload or spares want them. When that is over, they are told that too. */
void dt_rdzv_recall(struct dt_rdzv *r, const struct dt_event *e);

#endif
