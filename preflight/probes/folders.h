/* SPDX-License-Identifier: Apache-2.0 */
/* Folders that the job writes to: whether it may, how much room is left, how fast they are. */
#ifndef DT_PREFLIGHT_PROBES_FOLDERS_H
#define DT_PREFLIGHT_PROBES_FOLDERS_H

#include "base/clock.h"
#include "preflight/probes/inside.h"

struct dt_folder {
    const char *path;
    bool there;
    int refused;         /* errno of writing a file; 0: that went well */
    uint64_t free, size; /* bytes */
    uint64_t files_left; /* inodes; UINT64_MAX: there is no such limit */
    uint64_t written;    /* bytes whose way to the disk took so long; 0: not tried */
    int64_t took_ns;
};

/* Whoever writes there needs ROOM bytes. */
void dt_folders_judge(const struct dt_folder *f, uint64_t room, struct dt_sheet *sheet);
void dt_folders_probe(const struct dt_checkup *c, struct dt_sheet *sheet);

#endif
