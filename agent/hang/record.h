/* SPDX-License-Identifier: Apache-2.0 */
/* The evidence of a hang, for who comes later: verdict.json and stacks.txt in the folder of the
 * attempt. */
#ifndef DT_AGENT_HANG_RECORD_H
#define DT_AGENT_HANG_RECORD_H

#include "agent/log_dir.h"
#include "base/buf.h"
#include "rendezvous/hang/judge.h"

#include <limits.h>

/* Writes what was found, with ALL, and the STACKS of the workers here; WALL_US is when. NUMBER:
 * which hang of this attempt it is, from 1 on; files of a later one have it in their names. OUT:
 * the path of the verdict; "" where no files are kept. */
int dt_hang_record_write(const struct dt_log_dir *logs, int number, int64_t wall_us,
                         const struct dt_stances *all, const struct dt_hang_finding *f,
                         const struct dt_buf *stacks, char out[PATH_MAX], struct dt_err *err);

#endif
