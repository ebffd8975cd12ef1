/* SPDX-License-Identifier: Apache-2.0 */
/* dtrun-ctl report: a page about a run, of the files that it left. */
#include "base/fs.h"
#include "ctl/commands.h"
#include "ctl/report/folder.h"
#include "ctl/report/page.h"

static int make_page(const struct dt_ctl_options *o, struct dt_buf *page, struct dt_err *err)
{
    struct dt_report report = {0};
    int rc = dt_report_folder_read(&report, o->name, o->metrics, o->checkpoints, err);
    for (size_t i = 0; rc == 0 && i < o->folders_len; i++)
        rc = dt_report_folder_read(&report, o->folders[i], NULL, NULL, err);
    if (rc == 0) {
        dt_report_settle(&report);
        rc = dt_report_page_put(&report, page, err);
    }
    dt_report_finish(&report);
    return rc;
}

int dt_ctl_report(const struct dt_ctl_options *o, struct dt_buf *out, struct dt_err *err)
{
    struct dt_buf page = {0};
    int rc = make_page(o, &page, err);
    if (rc == 0 && !o->output)
        dt_buf_put(out, page.at, page.len);
    else if (rc == 0)
        rc = dt_fs_replace(o->output, page.at, page.len, 0644, err);
    dt_buf_finish(&page);
    return rc;
}
