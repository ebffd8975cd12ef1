/* SPDX-License-Identifier: Apache-2.0 */
/* A model that is there to be used: what it is and all of its parameters, in the memory of one
 * device. */
#ifndef DT_WORKER_RUNTIME_GENERATE_WEIGHTS_H
#define DT_WORKER_RUNTIME_GENERATE_WEIGHTS_H

#include "worker_runtime/device/device.h"
#include "worker_runtime/model/shape.h"

struct dt_weights {
    struct dt_shape shape;
    struct dt_device *device;
    const char **units; /* where each unit begins, as dt_inference_create() wants it */
    void *memory;
};

/* FOLDER and BASE are as dt_saved_model_open() takes them.
 * NOTES gets lines on what its config.json says in vain. W needs no finish when it fails. */
int dt_weights_read(struct dt_weights *w, const char *folder, const char *base,
                    struct dt_device *device, struct dt_buf *notes, struct dt_err *err);
void dt_weights_finish(struct dt_weights *w);

#endif
