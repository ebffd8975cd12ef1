/* SPDX-License-Identifier: Apache-2.0 */
/* dtrun doctor: what is wrong with this host, or with the nodes of a job, before the job runs. */
#ifndef DT_LAUNCHER_DOCTOR_DOCTOR_H
#define DT_LAUNCHER_DOCTOR_DOCTOR_H

#include "launcher/options.h"

/* Exit statuses: 0 also where there are notes, 1 as for all failures. */
#define DT_DOCTOR_WARNED 3

/* The body of main() where argv[1] is DT_LAUNCH_DOCTOR; the exit status. */
int dt_doctor(const struct dt_opt_program *program, int argc, char **argv);

#endif
