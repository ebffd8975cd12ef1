/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a program that failed can only fail again. Pure.
 *
 * Some failures say so themselves: the script is not there. Of others one is not enough to know: a
 * program that fails twice in a row in the same way, at the same place, before it has made a step,
 * will do so a third time. Of a failure that comes later nothing is said: it came further than its
 * start, and has most likely saved something on the way. */
#ifndef DT_RENDEZVOUS_RDZV_FUTILITY_H
#define DT_RENDEZVOUS_RDZV_FUTILITY_H

#include "rendezvous/protocol/messages.h"

#include <stdbool.h>

/* Zeroed memory: nothing has failed. */
struct dt_futility {
    char signature[DT_NODE_NAME_MAX], place[DT_PLACE_MAX]; /* of the last failure; "": of none */
};

enum dt_futility_answer {
    DT_FUTILITY_NOT_KNOWN,
    DT_FUTILITY_OF_KIND, /* no failure of this kind is helped by a retry */
    DT_FUTILITY_REPEATED,
};

/* Takes note of the failure that ended a round, or an attempt. */
enum dt_futility_answer dt_futility_note(struct dt_futility *f, const struct dt_result *result);

/* "a retry cannot help ..., so there is none; --retry-deterministic ..." */
const char *dt_futility_text(enum dt_futility_answer a);

#endif
