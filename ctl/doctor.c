/* SPDX-License-Identifier: Apache-2.0 */
/* dtrun-ctl doctor: visits a rendezvous, and prints what is wrong with it. */
#include "ctl/commands.h"
#include "ctl/connect.h"
#include "ctl/diagnosis.h"
#include "preflight/screen.h"
#include "preflight/table.h"

#define TRIPS 5

/* Of a few trips the quickest says most about the clock. Its page has no run and no node. */
static int visit(struct dt_sync_control *c, struct dt_ctl_visit *v, struct dt_ctl_pages *pages,
                 struct dt_err *err)
{
    for (int i = 0; i < TRIPS; i++) {
        struct dt_ctl_pages page;
        int64_t began = dt_clock_wall_us(), clock = dt_clock_monotonic_ns();
        if (dt_ctl_pages_fetch_history(c, "", &page, err) < 0) {
            dt_ctl_pages_finish(&page);
            return -1;
        }
        int64_t trip = (dt_clock_monotonic_ns() - clock) / 1000;
        if (i == 0 || trip < v->trip_us) {
            v->trip_us = trip;
            v->offset_us = page.server.now_us - (began + trip / 2);
        }
        dt_ctl_pages_finish(pages);
        *pages = page;
    }
    return 0;
}

static void examine(const struct dt_ctl_options *o, const struct dt_token *token,
                    struct dt_sheet *sheet)
{
    struct dt_err err;
    struct dt_ctl_pages pages = {0};
    struct dt_ctl_visit v = {.place = o->endpoint,
                             .from = o->endpoint_from_env ? DT_CTL_RENDEZVOUS_ENV : NULL,
                             .server = &pages.server,
                             .token = token != NULL}; /* or it would not be believed */
    struct dt_sync_control *c = dt_ctl_connect(o, token, o->timeout, &err);
    if (c && visit(c, &v, &pages, &err) == 0)
        dt_ctl_diagnose(&v, sheet);
    else
        dt_ctl_diagnose_absence(err.text, sheet);
    dt_sync_control_close(c);
    dt_ctl_pages_finish(&pages);
}

int dt_ctl_doctor(const struct dt_ctl_options *o, const struct dt_token *token, struct dt_buf *out)
{
    struct dt_sheet sheet = {0};
    struct dt_screen screen = dt_screen_find();
    struct dt_json_writer json = {.out = out};
    examine(o, token, &sheet);
    if (o->json) {
        dt_table_put_json(&sheet, &json);
        dt_buf_put_u8(out, '\n');
    } else {
        dt_table_put(&sheet, screen.colour, screen.columns, out);
    }
    return dt_sheet_status(&sheet);
}
