/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/rdzv/loss.h"

#include <math.h>

#define KNOWN 16    /* samples before which nothing is too high */
#define MEMORY 16   /* samples that the mean is about */
#define SPREADS 8   /* too high, in usual differences ... */
#define PART 0.5    /* ... and of the mean */
#define TWICE 2     /* one sample may be an odd batch */
#define ACCEPTED 64 /* in a row are the usual ones */

/* Any state may follow any other. True: it does. */
static bool enter(struct dt_loss *l, enum dt_loss_state next)
{
    bool changes = l->state != next;
    l->state = next;
    return changes;
}

static void learn(struct dt_loss *l, double loss)
{
    double weight = 1.0 / (l->samples < MEMORY ? l->samples + 1 : MEMORY);
    if (l->samples > 0)
        l->spread += weight * (fabs(loss - l->mean) - l->spread);
    l->mean += weight * (loss - l->mean);
    l->samples++;
    l->strange = 0;
}

static bool is_too_high(const struct dt_loss *l, double loss)
{
    return l->samples >= KNOWN && loss - l->mean > fmax(SPREADS * l->spread, PART * fabs(l->mean));
}

bool dt_loss_note(struct dt_loss *l, double loss)
{
    l->last = loss;
    if (!isfinite(loss))
        return enter(l, DT_LOSS_NAN);
    if (is_too_high(l, loss) && ++l->strange < ACCEPTED)
        return enter(l, l->strange >= TWICE ? DT_LOSS_SPIKES : DT_LOSS_USUAL);
    if (l->strange == ACCEPTED)
        *l = (struct dt_loss){.state = l->state, .last = loss};
    learn(l, loss);
    return enter(l, DT_LOSS_USUAL);
}

void dt_loss_recall(struct dt_loss *l, enum dt_loss_state state)
{
    enter(l, state);
}
