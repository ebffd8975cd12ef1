/* SPDX-License-Identifier: Apache-2.0 */
#include "preflight/probes/shm.h"

#include "base/str.h"

#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/vfs.h>

#define EACH_WORKER ((uint64_t)256 << 20) /* buffers of NCCL or Gloo, and batches of a loader */

#define ENLARGE                                                                                    \
    "mount -o remount,size=50% /dev/shm; in a container --shm-size=16g, in a pod an emptyDir "     \
    "with medium: Memory"

void dt_shm_judge(const struct dt_shm_state *shm, int workers, struct dt_sheet *sheet)
{
    char size[32], left[32];
    uint64_t wanted = EACH_WORKER * (uint64_t)(workers > 0 ? workers : 1);
    dt_str_from_size(shm->size, size, sizeof size);
    dt_str_from_size(shm->free, left, sizeof left);
    if (!shm->there)
        dt_sheet_remark(sheet, "shm", DT_GRADE_FAIL, "mount a tmpfs there",
                        "there is no /dev/shm: NCCL, Gloo and data loaders fail without it");
    else if (shm->size < wanted)
        dt_sheet_remark(sheet, "shm", DT_GRADE_WARN, ENLARGE,
                        "/dev/shm has %s for %d worker%s: a data loader with workers of its own "
                        "ends with a bus error when it is full",
                        size, workers, workers == 1 ? "" : "s");
    else if (shm->free < wanted)
        dt_sheet_remark(sheet, "shm", DT_GRADE_WARN,
                        "remove what a dead job has left there: ls -l /dev/shm",
                        "/dev/shm has only %s of its %s left", left, size);
    else if (!shm->in_memory)
        dt_sheet_remark(sheet, "shm", DT_GRADE_WARN, "mount a tmpfs there",
                        "/dev/shm is on a disk, which is slow");
    else
        dt_sheet_remark(sheet, "shm", DT_GRADE_OK, NULL, "/dev/shm has %s left of %s", left, size);
}

void dt_shm_probe(const struct dt_checkup *c, struct dt_sheet *sheet)
{
    char path[PATH_MAX];
    struct statfs fs;
    struct dt_shm_state shm = {0};
    snprintf(path, sizeof path, "%s/dev/shm", c->root);
    if (statfs(path, &fs) == 0)
        shm = (struct dt_shm_state){
            .there = true,
            .in_memory = fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC,
            .size = (uint64_t)fs.f_blocks * (uint64_t)fs.f_bsize,
            .free = (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize,
        };
    dt_shm_judge(&shm, c->workers, sheet);
}
