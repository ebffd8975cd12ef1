/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/daemon/alerting.h"

#include <stdlib.h>

struct row {
    const char *option;
    enum dt_receiver_kind kind;
    const struct dt_opt_strings *targets;
};
#define ROWS 3

static void list_rows(const struct dt_rendezvous_options *o, struct row rows[ROWS])
{
    rows[0] = (struct row){"--alert-url", DT_RECEIVER_URL, &o->alert_url};
    rows[1] = (struct row){"--alert-cmd", DT_RECEIVER_COMMAND, &o->alert_cmd};
    rows[2] = (struct row){"--alert-mail", DT_RECEIVER_MAIL, &o->alert_mail};
}

static size_t count(const struct dt_rendezvous_options *o)
{
    return o->alert_url.len + o->alert_cmd.len + o->alert_mail.len;
}

bool dt_alerting_is_wanted(const struct dt_rendezvous_options *o)
{
    return count(o) > 0;
}

/* OUT has count() places. */
static int list_receivers(const struct dt_rendezvous_options *o, struct dt_receiver *out,
                          struct dt_err *err)
{
    struct row rows[ROWS];
    list_rows(o, rows);
    for (const struct row *r = rows; r < rows + ROWS; r++)
        for (size_t i = 0; i < r->targets->len; i++)
            if (dt_receiver_init(out++, r->kind, r->targets->at[i], err) < 0)
                return dt_err_wrap(err, "%s", r->option);
    return 0;
}

static struct dt_receiver *make_receivers(const struct dt_rendezvous_options *o, struct dt_err *err)
{
    struct dt_receiver *all = calloc(count(o), sizeof *all);
    if (!all) {
        dt_err_set(err, DT_E_MEMORY, "no memory for receivers of alerts");
        return NULL;
    }
    if (list_receivers(o, all, err) == 0)
        return all;
    free(all);
    return NULL;
}

int dt_alerting_check(const struct dt_rendezvous_options *o, struct dt_err *err)
{
    if (!dt_alerting_is_wanted(o))
        return 0;
    struct dt_receiver *all = make_receivers(o, err);
    if (!all)
        return -1;
    free(all);
    return 0;
}

/* -- the server -------------------------------------------------------------------------------- */

struct dt_alerting {
    struct dt_alerts *alerts;
    struct dt_rdzv_server *server; /* NULL: it is being closed */
};

struct test {
    struct dt_alerting *alerting;
    uint64_t number;
};

static void on_tested(void *arg, const char *lines, bool all_delivered)
{
    struct test *t = arg;
    if (t->alerting->server)
        dt_rdzv_server_alert_tested(t->alerting->server, t->number, all_delivered, lines);
    free(t);
}

static void test_alerts(void *arg, uint64_t number)
{
    struct dt_alerting *a = arg;
    struct test *t = malloc(sizeof *t);
    if (!t) {
        dt_rdzv_server_alert_tested(a->server, number, false, "no memory for a test");
        return;
    }
    *t = (struct test){a, number};
    dt_alerts_test(a->alerts, on_tested, t);
}

struct dt_alerting *dt_alerting_open(uv_loop_t *loop, struct dt_rdzv_server *server,
                                     const struct dt_rendezvous_options *o, struct dt_err *err)
{
    struct dt_alerting *a = calloc(1, sizeof *a);
    struct dt_receiver *all = make_receivers(o, err);
    struct dt_alerts_config config = {.receivers = all,
                                      .receivers_len = count(o),
                                      .least = o->alert_level,
                                      .cooldown = o->alert_cooldown,
                                      .state_dir = o->state_dir};
    if (a && all)
        a->alerts = dt_alerts_open(loop, dt_rdzv_server_chronicle(server), &config, err);
    free(all);
    if (!a || !a->alerts) {
        if (!a)
            dt_err_set(err, DT_E_MEMORY, "no memory for alerts");
        free(a);
        return NULL;
    }
    a->server = server;
    dt_rdzv_server_set_alert_test(server, test_alerts, a);
    return a;
}

const struct dt_alerts *dt_alerting_alerts(const struct dt_alerting *a)
{
    return a ? a->alerts : NULL;
}

void dt_alerting_close(struct dt_alerting *a)
{
    dt_rdzv_server_set_alert_test(a->server, NULL, NULL);
    a->server = NULL;
    dt_alerts_close(a->alerts, free, a);
}
