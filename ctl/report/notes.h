/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON that dtrun and dtrun-train leave about rounds, standstills and what is trained, into a
 * report. What makes no sense is left out. Pure. */
#ifndef DT_CTL_REPORT_NOTES_H
#define DT_CTL_REPORT_NOTES_H

#include "base/buf.h"
#include "base/err.h"
#include "ctl/report/report.h"

#define DT_REPORT_NOTE_MAX ((size_t)1 << 20) /* bytes of one */
#define DT_REPORT_ROUNDS_MAX 4096
#define DT_REPORT_HANGS_MAX 256
#define DT_REPORT_FAILURES_MAX 64 /* of a round */

/* What round NUMBER was like, as one node kept it; another node may have told of it before. -1: no
 * memory, as below. */
int dt_report_note_round(struct dt_report *r, int number, struct dt_bytes text, struct dt_err *err);
int dt_report_note_hang(struct dt_report *r, struct dt_bytes text, struct dt_err *err);

/* Where the other files of a run are, as it says itself; NULL: it does not. */
struct dt_report_places {
    char *metrics, *save_dir;
};

/* P is zeroed memory. */
void dt_report_note_facts(struct dt_report *r, struct dt_bytes text, struct dt_report_places *p);
void dt_report_places_finish(struct dt_report_places *p);

#endif
