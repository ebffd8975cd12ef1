/* SPDX-License-Identifier: Apache-2.0 */
/* What a seed stands for: who is there, what the job is, what goes wrong and when, and a calm end
 * in which it must come to something. */
#ifndef DT_TESTS_SIM_STORY_H
#define DT_TESTS_SIM_STORY_H

#include "rendezvous/protocol/messages.h"

struct sim;

/* What training tells of its progress. */
enum sim_progress { SIM_PROGRESS_UNKNOWN, SIM_PROGRESS_STUCK, SIM_PROGRESS_MOVES };

struct sim_story {
    const char *run;
    struct dt_run_spec spec;
    bool shares_hosts; /* two agents on each */
    dt_ms start_time;  /* workers need up to that to start */
    dt_ms work;        /* workers take so long ... */
    dt_ms finish;      /* ... and no job ends before that */
    dt_ms trouble;     /* until then faults begin */
    dt_ms end;         /* all must be over by then */
    int acts;          /* jobs of that name, one after the other, that are still to come */
    enum sim_progress progress;
};

/* Makes up nodes, job and faults from the seed of S; NODES of 0: as many as the seed says. */
void sim_story_begin(struct sim *s, uint32_t nodes);
/* The same without anything that happens, and a job that begins with 2 to NODES of them. */
void sim_story_begin_plain(struct sim *s, uint32_t nodes);
/* All agents have ended: the next job of the name begins, on the hosts that are up. False: there is
 * none. */
bool sim_story_next_act(struct sim *s);

#endif
