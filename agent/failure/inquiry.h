/* SPDX-License-Identifier: Apache-2.0 */
/* Asks the disk and the kernel what a worker left behind that is over: the facts of its cause. */
#ifndef DT_AGENT_FAILURE_INQUIRY_H
#define DT_AGENT_FAILURE_INQUIRY_H

#include "agent/failure/cause.h"
#include "agent/failure/kernel_log.h"
#include "agent/log_dir.h"
#include "agent/output/output.h"
#include "agent/plan.h"
#include "agent/process/group.h"
#include "agent/watch/pages.h"
#include "agent/world.h"

/* Where it was a worker. */
struct dt_scene {
    const struct dt_plan *plan;
    const struct dt_world *world;
    const struct dt_log_dir *logs;
    const struct dt_output *output;
    const struct dt_pages *pages; /* NULL: there are none */
    struct dt_kernel_log *kernel; /* NULL: it may not be read */
};

/* Appends what it said of its failure: the message of its error file (true), else the end of its
 * standard error. */
bool dt_inquiry_said(const struct dt_scene *scene, int local_rank, struct dt_buf *out);

/* Whether it writes its output into files itself, and their disk is full: such a worker has nowhere
 * to say what it died of. */
bool dt_inquiry_disk_is_full(const struct dt_scene *scene, int local_rank);

/* Where its core dump is; "": it left none. */
const char *dt_inquiry_core(const struct dt_worker *w, char *out, size_t size);

/* Why the worker W failed, which SAID this, OF its error FILE or not. */
void dt_inquiry_cause(const struct dt_scene *scene, int local_rank, const struct dt_worker *w,
                      struct dt_bytes said, bool of_file, struct dt_cause *out);

/* Whether W failed soon after it was started, and no worker here has told a step: of most programs
 * nobody knows their steps. */
bool dt_inquiry_is_early(const struct dt_scene *scene, const struct dt_worker *w);

#endif
