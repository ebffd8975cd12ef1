/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of a report's page: rounds with their causes and costs, standstills, checkpoints.
 * Pure. */
#ifndef DT_CTL_REPORT_TABLES_H
#define DT_CTL_REPORT_TABLES_H

#include "base/buf.h"
#include "ctl/report/report.h"

#define DT_TABLES_ROUNDS_MAX 500 /* rows; the last ones */

/* Those that have a row. */
void dt_tables_put(struct dt_buf *out, const struct dt_report *r);

#endif
