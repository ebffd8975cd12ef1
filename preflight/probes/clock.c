/* SPDX-License-Identifier: Apache-2.0 */
#include "preflight/probes/clock.h"

#include <inttypes.h>
#include <sys/timex.h>

#define WIDE 1000000 /* microseconds: logs of several nodes cannot be put in order any more */

void dt_clock_judge(const struct dt_clock_state *k, int hosts, struct dt_sheet *sheet)
{
    enum dt_grade bad = hosts > 1 ? DT_GRADE_WARN : DT_GRADE_NOTE;
    if (!k->known)
        dt_sheet_remark(sheet, "clock", DT_GRADE_NOTE, NULL,
                        "the kernel does not tell whether the clock is synchronised");
    else if (!k->synchronised)
        dt_sheet_remark(sheet, "clock", bad, "start chrony, ntpd or systemd-timesyncd",
                        "nothing synchronises the clock: times in logs of several nodes cannot be "
                        "compared, and certificates and signed uploads may be refused");
    else if (k->error_us > WIDE)
        dt_sheet_remark(sheet, "clock", bad, "look at: chronyc tracking",
                        "the clock may be wrong by %.1f s", (double)k->error_us / 1e6);
    else
        dt_sheet_remark(sheet, "clock", DT_GRADE_OK, NULL, "synchronised, wrong by %.1f ms at most",
                        (double)k->error_us / 1e3);
}

void dt_clock_probe(const struct dt_checkup *c, struct dt_sheet *sheet)
{
    struct timex t = {0};
    int state = adjtimex(&t);
    struct dt_clock_state k = {
        .known = state >= 0,
        .synchronised = state >= 0 && !(t.status & STA_UNSYNC),
        .error_us = t.maxerror,
    };
    dt_clock_judge(&k, c->hosts, sheet);
}
