/* SPDX-License-Identifier: Apache-2.0 */
/* In which function of C code a worker is, out of what `dtrun --look PID --native --json` prints.
 * Pure. */
#ifndef DT_AGENT_HANG_NATIVE_PLACE_H
#define DT_AGENT_HANG_NATIVE_PLACE_H

#include "base/buf.h"
#include "rendezvous/protocol/stance.h"

#include <sys/types.h>

#define DT_NATIVE_PLACE_TEXT_MAX (4 << 20) /* bytes of TEXT */

/* TEXT was printed of worker PID, whose stance S is. Where that has no place in the program yet,
 * the function becomes it; else it is a detail, as is the reason why no function is known. */
void dt_native_place_tell(struct dt_bytes text, pid_t pid, struct dt_stance *s);

#endif
