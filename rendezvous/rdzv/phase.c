/* SPDX-License-Identifier: Apache-2.0 */
/* Which state a run is in. Each state has a struct for what is known in it alone; entering a state
 * empties all of them, so nothing of a phase that is over can be taken for something of this one.
 * What the next state needs of the last is carried over by hand, and seen: rounds.c does so. */
#include "rendezvous/rdzv/inside.h"

#include "base/log.h"

#include <stdlib.h>

#define STATES (DT_RUN_CLOSED + 1)
#define FIRST_NOTE (10 * DT_SECOND) /* a run that gathers for that long says whom it waits for */

static const char *const state_name[] = {
    [DT_RUN_GATHERING] = "gathering", [DT_RUN_RUNNING] = "running", [DT_RUN_CLOSED] = "closed"};

const char *dt_run_state_name(enum dt_run_state s)
{
    return state_name[s];
}

// clang-format off
/* What may follow what. */
static const bool may_follow[STATES][STATES] = {
    [DT_RUN_GATHERING] = {
        [DT_RUN_GATHERING] = true, /* the first node came, or nobody is left: the run begins anew */
        [DT_RUN_RUNNING] = true,   /* a world is made, or a node is in one that was not known here */
        [DT_RUN_CLOSED] = true,    /* nodes did not come in time, no restart is left, a person or the server ends it */
    },
    [DT_RUN_RUNNING] = {
        [DT_RUN_GATHERING] = true, /* the round is over */
        [DT_RUN_RUNNING] = true,   /* a node is in a later round, which was not known here */
        [DT_RUN_CLOSED] = true,    /* all nodes are done, or the server ends */
    },
    [DT_RUN_CLOSED] = {
        [DT_RUN_GATHERING] = true, /* the next job of that name begins, and nothing else */
    },
};
// clang-format on

void rdzv_enter(struct dt_rdzv *r, enum dt_run_state to)
{
    if (!may_follow[r->state][to])
        dt_bug("run \"%s\" is %s and cannot be %s", r->id, state_name[r->state], state_name[to]);
    rdzv_look_forget(r);
    rdzv_standstill_forget(r);
    rdzv_straggler_forget(r);
    r->gathering = (struct dt_gathering){0};
    r->running = (struct dt_running){0};
    r->closed = (struct dt_closed){0};
    r->budget.healthy_since = DT_FOREVER;
    r->state = to; /* the only assignment */
    r->since = r->now;
    switch (to) {
    case DT_RUN_GATHERING:
        r->gathering.next_note = r->now + FIRST_NOTE;
        break;
    case DT_RUN_RUNNING:
        r->running.first_step = -1;
        dt_budget_round_began(&r->budget, r->now);
        break;
    case DT_RUN_CLOSED:
        break;
    }
}

void rdzv_wipe(struct dt_rdzv *r)
{
    dt_list_each(&r->members.all, n)
        dt_members_remove(&r->members, dt_container_of(n, struct dt_member, in_all));
    free(r->seats);
    r->seats = NULL;
    r->seats_len = 0;
    r->begun = r->had_world = r->swapped = false;
    r->beginning = (struct dt_beginning){0};
    r->expected = 0;
    r->news[0] = r->mixed[0] = r->key[0] = '\0';
    r->blame = (struct dt_blame){0};
    r->futility = (struct dt_futility){0};
    if (dt_history_last(&r->history))
        dt_history_last(&r->history)->told = false; /* the next job is not told of this one's end */
    dt_budget_init(&r->budget);
    rdzv_enter(r, DT_RUN_GATHERING);
}
