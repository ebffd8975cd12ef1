/* SPDX-License-Identifier: Apache-2.0 */
/* dtrun doctor: what is wrong with this host, or with the nodes of a job, before the job runs. */
#ifndef DT_LAUNCHER_DOCTOR_DOCTOR_H
#define DT_LAUNCHER_DOCTOR_DOCTOR_H

#include "launcher/options.h"

/* The body of main() where argv[1] is DT_LAUNCH_DOCTOR; the exit status. */
int dt_doctor(const struct dt_opt_program *program, int argc, char **argv);

#endif
