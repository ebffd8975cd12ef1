/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/rdzv/loss.h"

#include "tests/lib/check.h"

#include <math.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* Of a training that is at 2.0, give or take 0.1. */
static struct dt_loss usual(void)
{
    struct dt_loss l = {0};
    for (int i = 0; i < 100; i++)
        CHECK(!dt_loss_note(&l, i % 2 ? 2.1 : 1.9));
    return l;
}

TEST(a_loss_is_judged_by_those_before_it)
{
    static const struct {
        double losses[4];
        enum dt_loss_state then;
    } rows[] = {
        {{2.0, 2.1, 1.9, 2.0}, DT_LOSS_USUAL},
        {{2.0, 2.0, 2.0, NAN}, DT_LOSS_NAN},
        {{2.0, 2.0, 2.0, INFINITY}, DT_LOSS_NAN},
        {{2.0, 2.0, -INFINITY, 2.0}, DT_LOSS_USUAL},
        {{2.0, 2.0, 2.0, 9.0}, DT_LOSS_USUAL}, /* one odd batch */
        {{2.0, 2.0, 9.0, 9.0}, DT_LOSS_SPIKES},
        {{9.0, 2.0, 9.0, 2.0}, DT_LOSS_USUAL},
        {{9.0, 9.0, 9.0, 2.0}, DT_LOSS_USUAL},
        {{9.0, 9.0, 9.0, NAN}, DT_LOSS_NAN},
        {{NAN, NAN, 9.0, 9.0}, DT_LOSS_SPIKES},
        {{2.0, 2.0, 2.9, 2.9}, DT_LOSS_USUAL}, /* less than half above */
        {{2.0, 2.0, 3.2, 3.2}, DT_LOSS_SPIKES},
        {{0.1, 0.1, 0.1, 0.1}, DT_LOSS_USUAL}, /* nobody minds */
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct dt_loss l = usual();
        CHECK_ROW("row %zu", i);
        for (size_t k = 0; k < COUNT(rows[i].losses); k++) {
            enum dt_loss_state before = l.state;
            bool changes = dt_loss_note(&l, rows[i].losses[k]);
            CHECK_EQ(changes, l.state != before);
        }
        CHECK_EQ(l.state, rows[i].then);
    }
}

TEST(a_training_that_varies_much_may_do_so)
{
    struct dt_loss l = {0};
    for (int i = 0; i < 200; i++)
        CHECK(!dt_loss_note(&l, i % 3 == 0 ? 5 : 1));
}

TEST(a_training_that_begins_high_does_not_spike)
{
    struct dt_loss l = {0};
    for (int i = 0; i < 400; i++)
        CHECK(!dt_loss_note(&l, 2 + 9 * exp(-i / 30.0)));
    CHECK(!dt_loss_note(&l, 9));
    CHECK(dt_loss_note(&l, 9));
}

TEST(what_stays_high_for_long_is_usual_from_then_on)
{
    struct dt_loss l = usual();
    int over = 0;
    for (int i = 1; i <= 100; i++)
        if (dt_loss_note(&l, 6) && l.state == DT_LOSS_USUAL)
            over = i;
    CHECK_EQ(over, 64);
    CHECK(!dt_loss_note(&l, 6.1));
}

TEST(the_first_losses_are_never_too_high)
{
    struct dt_loss l = {0};
    for (int i = 0; i < 15; i++)
        CHECK(!dt_loss_note(&l, i % 5 == 4 ? 1e9 : 1));
}
