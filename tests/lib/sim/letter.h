/* SPDX-License-Identifier: Apache-2.0 */
/* A message under way: a copy with strings of its own, made directly or (CODED) by writing the
 * frame and reading it back. */
#ifndef DT_TESTS_SIM_LETTER_H
#define DT_TESTS_SIM_LETTER_H

#include "rendezvous/protocol/messages.h"

struct sim_letter {
    struct dt_message m;
    bool coded;
};

/* NULL: the frame that was written cannot be read; *ERR says why. */
struct sim_letter *sim_letter_make(const struct dt_message *m, bool coded, struct dt_err *err);
struct sim_letter *sim_letter_copy(const struct dt_message *m);
void sim_letter_free(struct sim_letter *l);

#endif
