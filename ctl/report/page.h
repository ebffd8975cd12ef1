/* SPDX-License-Identifier: Apache-2.0 */
/* A settled report as one page of HTML that needs nothing beside it. Pure. */
#ifndef DT_CTL_REPORT_PAGE_H
#define DT_CTL_REPORT_PAGE_H

#include "base/buf.h"
#include "base/err.h"
#include "ctl/report/report.h"

/* Appends it. */
int dt_report_page_put(const struct dt_report *r, struct dt_buf *out, struct dt_err *err);

#endif
