/* SPDX-License-Identifier: Apache-2.0 */
/* A checkpoint of save_dir on its way to a depot. All ranks send their shares; when all are there
 * rank 0 seals it. Functions block, and fit an errand. */
#ifndef DT_WORKER_RUNTIME_CKPT_UPLOAD_SEND_H
#define DT_WORKER_RUNTIME_CKPT_UPLOAD_SEND_H

#include "base/upload/depot.h"
#include "worker_runtime/ckpt/checkpoint.h"
#include "worker_runtime/ckpt/upload/share.h"

struct dt_send {
    struct dt_depot *depot;
    const char *dir;
    int64_t step;
    int64_t newest; /* that will be there, or is; `latest` names no older one. -1: not known */
    struct dt_share_ranks ranks;
    int keep_last; /* 0: all */
    int64_t best;  /* stays as well; until it is there none goes; 0 or -1: none does */
    bool anew;     /* the run began anew and has sealed nothing yet: the depot must hold nothing */
    uint64_t job_mark; /* with which it would be its own all the same; 0: none */
    /* Whether this world is still the one that saves; asked before it is sealed. NULL: it is. */
    enum dt_ckpt_leave (*may_commit)(void *arg);
    void *may_commit_arg;
    const atomic_bool *stop; /* the depot's, too */
    struct dt_buf warnings; /* of sealing, a line each: what went wrong, and does not matter much */
};

int dt_send_share(void *send, struct dt_err *err);
/* state.json, `latest`, and then the oldest go. While the best is not there one of those may be the
 * best of before, which nobody else has. */
int dt_send_seal(void *send, struct dt_err *err);

#endif
