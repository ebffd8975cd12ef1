/* SPDX-License-Identifier: Apache-2.0 */
/* What an agent tells of the training and of the host beside steps: of constant size, whatever the
 * number of workers. A beat has it when something of it is new; until then the last one counts. */
#ifndef DT_RENDEZVOUS_PROTOCOL_TELEMETRY_H
#define DT_RENDEZVOUS_PROTOCOL_TELEMETRY_H

#include "rendezvous/protocol/fields.h"

#include <stdbool.h>
#include <stdint.h>

#define DT_LOSS_MAX 24          /* of a loss as text, with its NUL */
#define DT_DISK_MAX 128         /* of a folder on a disk, with its NUL */
#define DT_WORKER_TIMES_MAX 256 /* of the times of all workers of a node, with its NUL */
#define DT_SHARE_WHOLE 1000
#define DT_MIB_MOST (INT64_MAX >> 20) /* of memory and of disks: so many bytes can be counted */

struct dt_telemetry {
    int64_t number;   /* 1, 2, ... of its agent: one more with each change; 0: nothing is told */
    int64_t steps;    /* of training there will be; 0: unknown */
    const char *loss; /* of the last step: "2.3456", "nan", "inf", "-inf"; NULL or "": unknown */
    /* Model FLOPs of what the GPUs could do, of DT_SHARE_WHOLE; 0: unknown. */
    int mfu;
    /* What the last steps were spent on; DT_SHARE_WHOLE together, or all 0: unknown. */
    int compute, comm, data, idle;
    int64_t step_ms; /* that the slowest worker's last steps took each; 0: unknown */
    int gpus;        /* that workers may use and NVML tells of */
    int gpu_busy;    /* percent, the mean of them; -1: unknown */
    int64_t gpu_mem_mib, gpu_mem_total_mib; /* of all of them; total 0: unknown */
    /* A folder on the fullest disk that this node writes to, by dt_disk_little_mib(); NULL or "":
     * unknown. */
    const char *disk;
    int64_t disk_free_mib, disk_total_mib;
    int64_t upload_behind_s; /* so long the oldest checkpoint has waited to be uploaded; 0: none */
    /* Milliseconds of each worker's own part of a step, or of a step where it tells no part, by
     * local rank: "812,809,0"; 0: unknown. Workers that do not fit are left out. NULL or "": none
     * is known. */
    const char *worker_ms;
};

extern const struct dt_field dt_telemetry_fields[];

/* Whether they tell different things, whatever their numbers are. */
bool dt_telemetry_differs(const struct dt_telemetry *a, const struct dt_telemetry *b);

/* One with its own strings. Zeroed memory has none. It does not move. */
struct dt_telemetry_kept {
    struct dt_telemetry is;
    char loss[DT_LOSS_MAX], disk[DT_DISK_MAX], worker_ms[DT_WORKER_TIMES_MAX];
};

/* T's strings may be TO's already. A loss or times that are no numbers, and shares that are more
 * than the whole, become unknown: the one that told them may be anybody. */
void dt_telemetry_keep(struct dt_telemetry_kept *to, const struct dt_telemetry *t);

/* Less than so many MiB are little to be free on a disk of so many: a twentieth, of a large one
 * 100 GiB. */
int64_t dt_disk_little_mib(int64_t total_mib);

/* LOSS as telemetry has it; "nan" is one. */
const char *dt_telemetry_put_loss(double loss, char out[DT_LOSS_MAX]);
/* False: LOSS is unknown. */
bool dt_telemetry_get_loss(const char *loss, double *out);

#endif
