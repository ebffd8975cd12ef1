/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints of this run that leave the building: to train.upload_to, or by train.upload_cmd.
 * Beside the steps, on a thread of each rank; what ranks know of it goes into the step's own sum
 * over all ranks, as with the saver. One that fails costs a warning, never the run. */
#ifndef DT_WORKER_RUNTIME_TRAIN_UPLOADER_H
#define DT_WORKER_RUNTIME_TRAIN_UPLOADER_H

#include "base/clock.h"
#include "worker_runtime/ckpt/upload/errand.h"
#include "worker_runtime/ckpt/upload/send.h"
#include "worker_runtime/ckpt/upload/turns.h"

struct dt_trainer;
struct dt_found;

struct dt_uploader {
    struct dt_depot *depot; /* its calls end when the errand is to stop */
    struct dt_errand errand;
    struct dt_upload_turns turns;
    struct dt_share_ranks ranks;
    struct dt_send send; /* the errand's while it is under way */
    dt_ms begun;
    struct dt_err why;
    bool anew;    /* the run began anew and has sealed nothing: what is there is of another run */
    bool failed;  /* on this rank because of WHY, and not yet told */
    bool missed;  /* the last upload failed, and it was said */
    bool waiting; /* the run is at its end */
    bool late;    /* this rank has waited long enough there; OVER: one of all ranks has */
    bool over;
    int64_t behind_ns; /* since when what is saved is not uploaded; 0: it is ... */
    int64_t uploaded;  /* ... beyond this step, as was seen last */
};

/* Ranks. */
struct dt_uploading_news {
    double busy, failed;
    double late; /* the time for it is over */
};

/* Makes T's uploader, of a run on so many HOSTS; it stays NULL where nothing is to be uploaded, and
 * the functions below then do nothing. */
int dt_uploader_open(struct dt_trainer *t, int hosts, struct dt_err *err);
void dt_uploader_close(struct dt_uploader *u);

/* What this rank knows, and what all know. Collective. */
void dt_uploader_tell(struct dt_trainer *t, struct dt_uploading_news *mine);
int dt_uploader_hear(struct dt_trainer *t, const struct dt_uploading_news *mine,
                     const struct dt_uploading_news *all, struct dt_err *err);

/* Waits until the newest checkpoint is there: DONE, for train.upload_timeout; of a run that was
 * told to end, for as long as whoever told may have patience. Collective. */
int dt_uploader_finish(struct dt_trainer *t, bool done, struct dt_err *err);

/* restore.c: when the place of uploads has a newer checkpoint than F, which rank 0 has found on
 * disk, it is fetched into train.save_dir, and F is that one. Collective; F counts on rank 0. */
int dt_uploader_restore(struct dt_trainer *t, struct dt_found *f, struct dt_err *err);
/* A run that begins anew must not upload between the checkpoints of another one. All ranks; rank 0
 * asks now, and where nothing answers uploads fail until they know. */
int dt_uploader_refuse_others(struct dt_trainer *t, struct dt_err *err);

#endif
