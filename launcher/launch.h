/* SPDX-License-Identifier: Apache-2.0 */
/* What dtrun and dtrun-launch have in common, which is all but the table: read, plan, run, exit. */
#ifndef DT_LAUNCHER_LAUNCH_H
#define DT_LAUNCHER_LAUNCH_H

#include "base/err.h"
#include "base/log.h"
#include "base/opt/opt.h"
#include "launcher/facts.h"
#include "launcher/options.h"

/* The body of main(). Returns the exit status. */
int dt_launch(const struct dt_opt_program *program, int argc, char **argv);

/* The level that LOGLEVEL stands for, by Python's names (in any case) or numbers; warn where it is
 * absent or means nothing. */
enum dt_log_level dt_launch_log_level(const struct dt_facts *facts);

/* Runs O on the hosts that it names; ARGC and ARGV are what O was read from. The exit status. */
int dt_launch_fleet(const struct dt_launch_options *o, int argc, char **argv,
                    const struct dt_facts *facts);

/* Writes out what was printed, and returns the exit status of that: a full disk is no success. */
int dt_launch_printed(const char *name);

/* Says what is wrong; the exit status for it. */
int dt_launch_refuse(const char *name, const struct dt_err *err);

#endif
