/* SPDX-License-Identifier: Apache-2.0 */
/* How full this host is: memory and use of the GPUs that workers may use, by NVIDIA's library, and
 * the disks that files are written to. A driver that is ill, or a folder of a network that is gone,
 * may never answer: so a thread of its own asks, every few seconds, and nobody ever waits for that
 * thread. */
#ifndef DT_AGENT_WATCH_HOST_H
#define DT_AGENT_WATCH_HOST_H

#include "base/clock.h"
#include "base/err.h"
#include "rendezvous/protocol/telemetry.h"

#include <stddef.h>

struct dt_host_watch;

/* FOLDERS on the disks to be watched; DEVICES as in CUDA_VISIBLE_DEVICES, NULL: it is not set. Both
 * are copied. NULL and *err: no thread, or no memory. */
struct dt_host_watch *dt_host_watch_open(const char *const *folders, size_t count,
                                         const char *devices, struct dt_err *err);
/* One more FOLDER, unless it is watched already, is "", or there are 16; copied. */
void dt_host_watch_add(struct dt_host_watch *w, const char *folder);
/* What it found last; nothing at first, and nothing when that is older than 30 s at NOW, by
 * dt_clock_monotonic(), as something does not answer. Strings are good until the next call. */
void dt_host_watch_tell(struct dt_host_watch *w, dt_ms now, struct dt_telemetry *out);
/* W may be NULL. What is being asked goes on beside us until it is answered. */
void dt_host_watch_close(struct dt_host_watch *w);

/* -- disks ------------------------------------------------------------------------------------ */

struct dt_disk {
    const char *folder;
    int64_t free_mib, total_mib; /* total 0: nothing is known of it, or nobody writes there */
};

/* Which of them is the fullest: has the least free of what is little on it, so that people are
 * warned of the one that is full first. NULL: nothing is known. */
const struct dt_disk *dt_disk_fullest(const struct dt_disk *disks, size_t count);

/* So many blocks of SIZE bytes, in MiB; no more than DT_MIB_MOST, whatever a file system says. */
int64_t dt_disk_mib(uint64_t blocks, uint64_t size);

#endif
