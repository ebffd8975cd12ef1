/* SPDX-License-Identifier: Apache-2.0 */
#include "preflight/probes/clock.h"
#include "tests/preflight/judged.h"

TEST(what_is_said_of_it)
{
    /* clang-format off */
    static const struct { struct dt_clock_state k; int hosts; const char *words; } rows[] = {
        {{true, true, 1500}, 2, "ok: synchronised, wrong by 1.5 ms at most"},
        {{true, false, 0}, 2, "warn: nothing synchronises the clock"},
        {{true, false, 0}, 1, "note: nothing synchronises the clock"},
        {{true, true, 2500000}, 2, "warn: the clock may be wrong by 2.5 s"},
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_sheet *s = fresh_sheet();
        CHECK_ROW("row %zu", i);
        dt_clock_judge(&rows[i].k, rows[i].hosts, s);
        check_said(s, rows[i].words);
    }
}
