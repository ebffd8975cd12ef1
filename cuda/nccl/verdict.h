/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the work of a GPU with other ranks can still end, from what is known at one moment: pure.
 * When a rank dies much is seen at once and in any order: broken connections, collectives that
 * hang, an agent that ends the world. The reason told is the one that says most about the cause. */
#ifndef DT_CUDA_NCCL_VERDICT_H
#define DT_CUDA_NCCL_VERDICT_H

#include "base/clock.h"
#include "base/err.h"
#include "cuda/nccl/calls.h"

#include <stdbool.h>

struct dt_comm_facts { /* of one communicator */
    const char *group;
    bool connecting;
    dt_ms busy;         /* for so long NCCL has not taken a call, or connected; 0: there is none */
    bool under_way;     /* a collective could run, and has not ended */
    const char *call;   /* "all-reduce number 17", while under way */
    dt_ms waited;       /* for so long */
    dt_ms timeout;      /* how long it may take */
    int gone, gone_pid; /* a rank of this host that has ended, and its process; 0: none has */
    ncclResult_t error; /* what NCCL met by itself */
    const struct dt_err *failed; /* what a call of ours met: nobody has aborted it yet; NULL */
    dt_ms error_age;             /* since either was seen */
    const char *error_is;        /* how NCCL calls it, and its hint */
    bool round_over;             /* the agent has ended this world */
};

enum dt_comm_verdict {
    DT_COMM_VERDICT_FINE,
    DT_COMM_VERDICT_SOON, /* something is wrong; what it is, the next look tells */
    DT_COMM_VERDICT_LOST, /* and *why says by what */
};

enum dt_comm_verdict dt_comm_verdict(const struct dt_comm_facts *facts, int n, struct dt_err *why);

#endif
