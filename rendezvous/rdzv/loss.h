/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the loss of a training is what it usually is. A spike is a loss that lies twice in a row
 * far above what those before it were about: by half of that and by eight times as much as they
 * usually differ. One that stays there for long is the usual one from then on. Pure. */
#ifndef DT_RENDEZVOUS_RDZV_LOSS_H
#define DT_RENDEZVOUS_RDZV_LOSS_H

#include <stdbool.h>

enum dt_loss_state {
    DT_LOSS_USUAL, /* or nothing is known */
    DT_LOSS_SPIKES,
    DT_LOSS_NAN, /* or infinite */
    DT_LOSS_STATES,
};

/* Zeroed memory has seen nothing. */
struct dt_loss {
    enum dt_loss_state state;
    double last;
    double mean, spread; /* of those that were usual, the latest most */
    int samples;         /* of these */
    int strange;         /* in a row that lie too high */
};

/* The loss of a further step. True: STATE is another than before. */
bool dt_loss_note(struct dt_loss *l, double loss);

/* L, of which nothing is known, was in STATE when somebody else looked last. */
void dt_loss_recall(struct dt_loss *l, enum dt_loss_state state);

#endif
