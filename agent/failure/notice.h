/* SPDX-License-Identifier: Apache-2.0 */
/* What an elastic rendezvous is told of the first worker that failed here, at once, while the
 * others are still being stopped and what it printed last may not be read yet. The whole story is
 * the verdict's, later. */
#ifndef DT_AGENT_FAILURE_NOTICE_H
#define DT_AGENT_FAILURE_NOTICE_H

#include "agent/failure/inquiry.h"

#define DT_SIGNATURE_MAX 128

struct dt_notice {
    struct dt_result result; /* its strings are those below */
    char signature[DT_SIGNATURE_MAX], text[DT_WHY_MAX];
    struct dt_cause cause;
    char sentence[DT_CAUSE_SENTENCE];
};

void dt_notice_make(struct dt_notice *n, const struct dt_scene *scene, int local_rank,
                    const struct dt_worker *w);

/* "exit 1: ValueError: no file for rank #" out of MESSAGE, of which the last line counts; numbers
 * are left out, as they differ between nodes where the failure does not. Pure. */
void dt_notice_signature(int exit_code, int signum, const char *message,
                         char out[DT_SIGNATURE_MAX]);

#endif
