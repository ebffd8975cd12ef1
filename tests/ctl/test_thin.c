/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/report/thin.h"
#include "tests/lib/check.h"

#include <math.h>

#define MANY 1000000
#define COLUMNS 600

TEST(few_points_stay_as_they_are)
{
    struct dt_point in[] = {{0, 1}, {0.3, 5}, {0.6, NAN}, {0.9, 2}}, out[DT_THIN_ROOM(10)];
    CHECK_EQ(dt_thin(in, 4, 10, out), 4);
    for (int i = 0; i < 4; i++) {
        CHECK_ROW("point %d", i);
        CHECK(isnan(in[i].y) ? isnan(out[i].y) : out[i].x == in[i].x && out[i].y == in[i].y);
    }
    CHECK_EQ(dt_thin(in, 0, 10, out), 0);
}

TEST(a_column_keeps_its_ends_and_its_peaks_in_their_order)
{
    struct dt_point in[] = {{0.1, 3}, {0.11, 9}, {0.12, 4}, {0.13, 1}, {0.14, 2}},
                    out[DT_THIN_ROOM(2)];
    const double kept[] = {3, 9, 1, 2};
    CHECK_EQ(dt_thin(in, 5, 2, out), 4);
    for (int i = 0; i < 4; i++)
        CHECK(out[i].y == kept[i]);
}

TEST(a_million_points_become_few_and_no_peak_is_lost)
{
    struct dt_point *in = calloc(MANY, sizeof *in), out[DT_THIN_ROOM(COLUMNS)];
    bool peak = false, dip = false, rising = true;
    for (int i = 0; i < MANY; i++)
        in[i] = (struct dt_point){(double)i / (MANY - 1), sin(i * 1e-4)};
    in[123456].y = 50;
    in[765432].y = -50;
    size_t n = dt_thin(in, MANY, COLUMNS, out);
    CHECK(n <= DT_THIN_ROOM(COLUMNS));
    for (size_t i = 0; i < n; i++) {
        peak |= out[i].y == 50;
        dip |= out[i].y == -50;
        rising &= i == 0 || out[i].x >= out[i - 1].x;
    }
    CHECK(peak);
    CHECK(dip);
    CHECK(rising);
    free(in);
}

TEST(places_that_make_no_sense_overflow_nothing)
{
    struct dt_point in[64], out[DT_THIN_ROOM(4)];
    for (int i = 0; i < 64; i++)
        in[i] = (struct dt_point){i % 3 == 0 ? NAN : i % 3 == 1 ? -7 : 9, i % 5 ? i : INFINITY};
    CHECK(dt_thin(in, 64, 4, out) <= DT_THIN_ROOM(4));
}
