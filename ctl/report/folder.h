/* SPDX-License-Identifier: Apache-2.0 */
/* What lies in the folder of a run's files, into a report. Nothing in there is trusted: each file
 * is bounded, and one that makes no sense is left out. */
#ifndef DT_CTL_REPORT_FOLDER_H
#define DT_CTL_REPORT_FOLDER_H

#include "base/err.h"
#include "ctl/report/report.h"

/* FOLDER: that of one run, or one of --log-dir with nothing but one run in it. METRICS, SAVE_DIR:
 * where its metrics and checkpoints are, NULL: where train.json says. A further call adds what
 * another node kept of the same run. R is to be finished also after a failure. */
int dt_report_folder_read(struct dt_report *r, const char *folder, const char *metrics,
                          const char *save_dir, struct dt_err *err);

#endif
