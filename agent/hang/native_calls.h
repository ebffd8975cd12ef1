/* SPDX-License-Identifier: Apache-2.0 */
/* In which functions of C code workers are, where a person asks. To read that each thread is
 * stopped for a moment, by libdw, which may fail badly: so a `dtrun --look` of its own does it for
 * each worker. Blocks: for a thread beside the loop. */
#ifndef DT_AGENT_HANG_NATIVE_CALLS_H
#define DT_AGENT_HANG_NATIVE_CALLS_H

#include "agent/hang/survey.h"

#define DT_NATIVE_CALLS_TIME_MAX (12 * DT_SECOND) /* for all workers */

/* Adds it to the STANCES of the workers that run, or why it is not known: see native_place.h. */
void dt_native_calls_tell(const struct dt_survey_worker *workers, int count,
                          struct dt_stance *stances);

#endif
