/* SPDX-License-Identifier: Apache-2.0 */
/* What there is to be looked at before a job runs: a probe is a row of dt_probes, and a file of
 * this folder. Each has a part that reads the system and a pure part that judges what was read;
 * tests call that one. */
#ifndef DT_PREFLIGHT_PROBE_H
#define DT_PREFLIGHT_PROBE_H

#include "base/clock.h"
#include "preflight/sheet.h"

#include <stdbool.h>
#include <stddef.h>

/* What is to multiply matrices and to remember bytes. */
enum dt_compute_what { DT_COMPUTE_NOTHING, DT_COMPUTE_GPUS, DT_COMPUTE_CPU };

/* What the job wants of this host. Strings and lists are the caller's; NULL where absent. */
struct dt_checkup {
    const char *root;   /* before each path of the kernel's: "", but for tests */
    int hosts, workers; /* that the job runs on; of this host */
    bool thorough;      /* the disk may be written to, and all of it may take longer */
    enum dt_compute_what compute;
    const char *python;       /* that runs the workers; NULL: none does */
    const char *script;       /* their program; NULL: it is no file */
    const char *log_dir;      /* NULL: a fresh one in the folder for temporary files */
    const char *meeting_host; /* where the nodes meet */
    bool meets_elsewhere;     /* ... which is another host than this one */
    int own_port;             /* that this host is to listen on; 0: none, or any that is free */
    char *const *folders;     /* of checkpoints and data; ends with NULL */
    char *const *files;       /* that all nodes should see alike; ends with NULL */
};

enum dt_probe_when {
    DT_PROBE_FAST,  /* before each job */
    DT_PROBE_FULL,  /* where somebody asks for a full look */
    DT_PROBE_ALONE, /* never beside a job, whose resource it takes for a moment */
};

struct dt_probe {
    const char *name;
    enum dt_probe_when when;
    dt_ms time; /* that it needs, where that is more than probes have; else 0 */
    /* In a process of its own, which may hang: writes into SHEET. */
    void (*run)(const struct dt_checkup *c, struct dt_sheet *sheet);
};

extern const struct dt_probe dt_probes[];
extern const size_t dt_probe_count;

#endif
