/* SPDX-License-Identifier: Apache-2.0 */
/* The hosts of a fleet, as a person or a scheduler lists them. Pure.
 *
 * A host that is listed again adds its workers, one where no number stands: so a machine file with
 * a line for each worker means what it means to mpirun. */
#ifndef DT_LAUNCHER_FLEET_HOSTS_H
#define DT_LAUNCHER_FLEET_HOSTS_H

#include "base/buf.h"
#include "base/err.h"

#include <stddef.h>

#define DT_FLEET_NAME_MAX 256
#define DT_FLEET_HOSTS_MAX 65536
#define DT_FLEET_FILE_MAX ((size_t)8 << 20)

struct dt_fleet_host {
    char name[DT_FLEET_NAME_MAX]; /* as the launch agent takes it, such as "ada@node1" */
    int slots;                    /* its workers; 0: as many as --nproc-per-node says */
};

/* Zeroed memory lists none. */
struct dt_fleet_hosts {
    struct dt_fleet_host *at;
    size_t len, size;
};

/* "a,b:8,ada@c,[fd00::1]:4". Adds to HOSTS. */
int dt_fleet_hosts_read(struct dt_fleet_hosts *hosts, const char *text, struct dt_err *err);

/* A hostfile: a line for each host, "a", "a:8" or "a slots=8"; Open MPI's max_slots is not looked
 * at; # begins a comment. FILE is for errors. */
int dt_fleet_hosts_read_file(struct dt_fleet_hosts *hosts, struct dt_bytes text, const char *file,
                             struct dt_err *err);

void dt_fleet_hosts_finish(struct dt_fleet_hosts *hosts);

/* The host alone, without a user. */
const char *dt_fleet_host_label(const struct dt_fleet_host *host);

#endif
