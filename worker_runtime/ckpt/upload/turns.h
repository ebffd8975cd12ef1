/* SPDX-License-Identifier: Apache-2.0 */
/* What ranks do next about uploads, of what all of them know: so all go from phase to phase
 * together, and none waits. One upload is under way at a time; when it is over the newest
 * checkpoint is next, and those that came in between are left out. Only the best one is not: it and
 * the newest take turns, so that neither has the other wait for long. Pure.
 *
 *     NONE --> SENDING   each rank its share of the files
 *                 --> SEALING   rank 0: state.json, with which the checkpoint exists
 *                        --> NONE
 *     SENDING, SEALING --a rank failed--> ENDING   until the threads of all ranks are over */
#ifndef DT_WORKER_RUNTIME_CKPT_UPLOAD_TURNS_H
#define DT_WORKER_RUNTIME_CKPT_UPLOAD_TURNS_H

#include <stdbool.h>
#include <stdint.h>

enum dt_upload_phase {
    DT_UPLOAD_NONE,
    DT_UPLOAD_SENDING,
    DT_UPLOAD_SEALING,
    DT_UPLOAD_ENDING,
    DT_UPLOAD_PHASES
};

enum dt_upload_act {
    DT_UPLOAD_GO_ON, /* there is nothing to do */
    DT_UPLOAD_SEND,
    DT_UPLOAD_SEAL,
    DT_UPLOAD_TELL,    /* it is done */
    DT_UPLOAD_GIVE_UP, /* it is told why, and what is still under way is called off */
};

struct dt_upload_turns {
    enum dt_upload_phase phase;
    int64_t step;     /* under way */
    int64_t uploaded; /* the newest one that is there; -1 */
    int64_t tried;    /* the newest that was begun, or need not be: is not begun again; -1 */
    int64_t uploaded_best, tried_best; /* the same of those that were the best; 0 */
    bool best_next;                    /* another one was begun behind tried_best */
};

/* The same on all ranks. */
struct dt_upload_facts {
    int64_t saved;       /* the newest checkpoint on disk; -1 */
    int64_t best;        /* the best one there; 0: none, or it is as good as any */
    bool committing;     /* another is getting its name, and old ones may go: none is begun now */
    double busy, failed; /* ranks; failed: has just failed, told once */
};

/* Enters the phase that the act belongs to. */
enum dt_upload_act dt_upload_turn(struct dt_upload_turns *t, const struct dt_upload_facts *f);

/* The newest that is there once the step under way is; -1: not known, as an earlier world may have
 * sent a newer one. */
int64_t dt_upload_newest(const struct dt_upload_turns *t);

/* The step that is under way, or will be, where SAVED and BEST are as struct dt_upload_facts has
 * them; -1: none. A best one that failed is tried again behind the next one alone. */
int64_t dt_upload_owed(const struct dt_upload_turns *t, int64_t saved, int64_t best);

/* At the end of a run, where the newest is the last one and time may be short. */
void dt_upload_newest_first(struct dt_upload_turns *t, int64_t saved);

#endif
