/* SPDX-License-Identifier: Apache-2.0 */
/* Why a worker failed, as far as what it left behind tells: a class, how much the class says about
 * who began, whether a retry can help, and a sentence for people. A class is a row of one table,
 * and so is each text by which one is known. Pure. */
#ifndef DT_AGENT_FAILURE_CAUSE_H
#define DT_AGENT_FAILURE_CAUSE_H

#include "base/kernel_record.h"
#include "agent/failure/traceback.h"
#include "agent/process/oom.h"
#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>

#define DT_CAUSE_TEXT 384

enum dt_cause_strength {
    DT_CAUSE_STRONG, /* it happened to this worker, whatever others did */
    DT_CAUSE_PLAIN,  /* it ended, or raised something that may be anything */
    DT_CAUSE_WEAK,   /* a time-out or a connection: often all that a worker sees of another's end */
};

struct dt_cause {
    const char *class; /* "gpu_memory": static, never NULL once it was looked for */
    enum dt_cause_strength strength;
    enum dt_retry retry;
    bool told;          /* by what the worker said, or by the kernel: more than how it ended */
    const char *advice; /* what to try: static; NULL: nothing is known */
    char place[DT_PLACE_MAX]; /* "train.py:88"; "": unknown */
    char text[DT_CAUSE_TEXT]; /* "ran out of GPU memory at train.py:88: ..." */
};

/* What a worker that failed left behind. Strings may be "", never NULL. */
struct dt_cause_facts {
    int exit_code, signal; /* one of them, the other 0 */
    bool ours;             /* we sent the signal, as it was over a limit that it had set itself */
    const char *hung;      /* we ended it, as the job stood still for this; "": we did not */
    const struct dt_oom *oom; /* what the kernel has counted; NULL: unknown */
    /* What the kernel's log says; NULL: nothing. KILL is of this process, and so is an Xid that
     * names one; else it is of some GPU of this host, since the attempt began. */
    const struct dt_kernel_record *kill, *xid;
    const char *full_disk;     /* the folder of its output, which is on a full disk */
    const char *core;          /* where its core dump is */
    struct dt_bytes last_said; /* of its error file, else of standard error. Only its last
                                * DT_CAUSE_LOOKED_AT bytes are looked at */
    bool of_file;              /* that is of its error file: a sentence, and no noise */
};
#define DT_CAUSE_LOOKED_AT (64u << 10)

void dt_cause_find(const struct dt_cause_facts *f, struct dt_cause *out);

/* "rank 3 ran out of GPU memory at train.py:88: ...; a retry seldom helps; ADVICE" */
#define DT_CAUSE_SENTENCE (DT_CAUSE_TEXT + 160)
const char *dt_cause_sentence(const struct dt_cause *c, int rank, char out[DT_CAUSE_SENTENCE]);

#endif
