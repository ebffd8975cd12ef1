/* SPDX-License-Identifier: Apache-2.0 */
/* What must always hold, checked as it happens: at what the server decides, at what it sends, and
 * at what agents make of it. The judge knows the truth about every node and believes nobody. */
#ifndef DT_TESTS_SIM_JUDGE_H
#define DT_TESTS_SIM_JUDGE_H

#include "rendezvous/rdzv/rdzv.h"

struct sim;
struct sim_node;

enum sim_rule {
    SIM_RULE_SEAT,       /* a seat has one holder per round, and a holder one seat */
    SIM_RULE_RANKS,      /* ranks of a world, and of each role, are exactly 0 to n - 1 */
    SIM_RULE_SIZE,       /* worlds have MIN to MAX nodes; all agree on what the world is */
    SIM_RULE_OVERLAP,    /* two rounds never run at once among connected nodes */
    SIM_RULE_COMMIT,     /* a round that is over never commits, unless nobody runs a later one */
    SIM_RULE_LEAVE,      /* whoever leaves in order is waited for until its workers are gone */
    SIM_RULE_SURVIVORS,  /* survivors keep their seats unless the world shrank */
    SIM_RULE_BUDGET,     /* each failure is charged once, and never more than there is */
    SIM_RULE_RESTARTS,   /* all nodes of a world know the same restart count */
    SIM_RULE_QUARANTINE, /* keeps sick nodes out, and never takes a job below MIN */
    SIM_RULE_LIVE,       /* enough healthy nodes for long enough have a world */
    SIM_RULE_STALE,      /* what is said of an old round has no effect */
    SIM_RULE_CALM,       /* a round ends for a reason; spares never are one */
    SIM_RULE_HEALTHY,    /* who is well is never thrown out */
    SIM_RULE_CLOSED,     /* all hear that the job is over, and end */
    SIM_RULE_SUCCESS,    /* it succeeds when all workers have */
    SIM_RULE_HANG,       /* why the job stands still is told while all nodes do, and once */
    SIM_RULE_RECORD,     /* frames and records can be read back */
    SIM_RULES,
};
const char *sim_rule_name(enum sim_rule r);

struct sim_seat {
    uint64_t holder; /* 0: not told yet */
    bool gone;       /* it was no member for a while since */
    int first_rank, first_role_rank, role_size;
};

/* Why a round ended. */
enum sim_cause {
    SIM_CAUSE_NONE,
    SIM_CAUSE_FAILED,   /* of a worker, and the program pays */
    SIM_CAUSE_BROKEN,   /* of a worker, and the node pays */
    SIM_CAUSE_NEWCOMER, /* of a worker of a node that had just joined: nobody pays */
    SIM_CAUSE_GONE,
    SIM_CAUSE_DRAINED,
    SIM_CAUSE_GROWTH,
    SIM_CAUSE_RECOVERY,
    SIM_CAUSE_WISHED, /* by a person, for another round or for the end: nobody pays */
    SIM_CAUSES,
};

/* A round, as it was sent. */
struct sim_world {
    bool there;
    uint32_t memory; /* of which server memory */
    int round, seats_len, size, restarts, told;
    char master[64];
    struct sim_seat *seats;
    dt_ms began;
    uint32_t life; /* of the server that made it and sent it; 0: it fell between */
    bool fenced;
    enum sim_cause cause;
    bool lost; /* a holder has gone since */
};

#define SIM_CAUSES_KEPT 8 /* more than there are rounds within one write to a disk */

struct sim_judge {
    struct sim_world now, last;
    enum sim_cause causes[SIM_CAUSES_KEPT]; /* by round: decided, but perhaps not yet sent */
    int made_round;                         /* the last that the server made, in ... */
    int made_before;                        /* (and the one before it) */
    uint32_t made_life;                     /* ... that life of it */
    dt_ms made_at;                          /* ... then */
    int charged, lost;                      /* rounds that ended so, since the job began */
    int failures, losses;                   /* rounds that may have ended so, and were paid for */
    int worker_failures;                    /* that there were at all, on any node */
    const char *failing;                    /* host that was first to fail in the last rounds ... */
    int failed_in_a_row;                    /* ... so many of them */
    bool unsure;                            /* and before that others that nobody remembers */
    dt_ms too_few;                          /* when there last were fewer than MIN able nodes */
    dt_ms well;                             /* when a round last ran, or the run was closed */
    dt_ms closed;                           /* since when the run is; 0: it is not */
    int rounds_in_calm;
    uint32_t hang;  /* raised whenever the server hears that a node moves, or is another, ... */
    int hang_round; /* ... or the round is another than this */
    /* How it was before the step that is under way. */
    struct {
        enum dt_run_state state;
        int round;
        bool had_world, recovering, worker_failed, node_failed;
        uint64_t failed; /* whose workers did; 0: nobody's */
        size_t members;
        int64_t comings;
    } before;
    bool failed;
    enum sim_rule rule;
    char text[400];
};

void sim_judge_finish(struct sim_judge *j);
void sim_judge_fail(struct sim *s, enum sim_rule rule, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* The server. */
void sim_judge_before(struct sim *s, const struct dt_rdzv_event *event);
void sim_judge_after(struct sim *s, const struct dt_rdzv_event *event);
void sim_judge_sent(struct sim *s, const struct dt_message *m);
void sim_judge_heard(struct sim *s, const struct dt_message *m);
void sim_judge_crash(struct sim *s);
void sim_judge_restarted(struct sim *s);
void sim_judge_forgot(struct sim *s);

/* Agents. */
void sim_judge_told(struct sim *s, struct sim_node *n, int round, const struct dt_world_message *w);
void sim_judge_closed(struct sim *s, struct sim_node *n);

/* Nothing was wrong with N, nor with the server, for so long that all it led to is over. */
bool sim_judge_is_well(const struct sim *s, const struct sim_node *n);

/* From the end of all faults to a world that runs, at most. */
dt_ms sim_judge_live_bound(const struct sim *s);

/* Now and then, and at the end. */
void sim_judge_watch(struct sim *s);
void sim_judge_end(struct sim *s);

#endif
