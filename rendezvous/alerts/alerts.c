/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/alerts/alerts.h"

#include "base/list.h"
#include "rendezvous/alerts/keep.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct one_post {
    struct dt_post *post;
    char name[sizeof((struct dt_receiver *)0)->name];
};

struct dt_alerts {
    uv_timer_t tick;
    struct dt_alert_book book;
    struct dt_alert_keep *keep; /* NULL: there is no folder for it */
    struct dt_chronicle_follower follower;
    char server[256];
    size_t open; /* posts, the timer and KEEP, until they are closed */
    void (*on_closed)(void *arg);
    void *arg;
    size_t posts_len;
    struct one_post posts[];
};

static void arm(struct dt_alerts *a);

static void on_notice(void *arg, const struct dt_notice *n)
{
    struct dt_alerts *a = arg;
    for (size_t i = 0; i < a->posts_len; i++)
        dt_post_add(a->posts[i].post, n, NULL, NULL);
}

static void on_changed(void *arg, size_t place, const struct dt_alert *alert, dt_ms now)
{
    struct dt_alerts *a = arg;
    dt_alert_keep_note(a->keep, place, alert, now);
}

static void on_tick(uv_timer_t *t)
{
    struct dt_alerts *a = dt_container_of(t, struct dt_alerts, tick);
    dt_alert_book_tick(&a->book, dt_clock_monotonic());
    arm(a);
}

static void arm(struct dt_alerts *a)
{
    dt_ms next = dt_alert_book_next(&a->book), now = dt_clock_monotonic();
    if (next == DT_FOREVER)
        uv_timer_stop(&a->tick);
    else
        uv_timer_start(&a->tick, on_tick, next > now ? (uint64_t)(next - now) : 0, 0);
}

static void on_event(struct dt_chronicle_follower *f, const struct dt_event *e)
{
    struct dt_alerts *a = dt_container_of(f, struct dt_alerts, follower);
    dt_alert_book_take(&a->book, e, dt_clock_monotonic());
    arm(a);
}

/* The server has told of its start before anybody could follow. */
static void catch_up(struct dt_alerts *a, const struct dt_chronicle *c)
{
    const struct dt_event *e;
    for (uint64_t at = dt_chronicle_before_start(c); (e = dt_chronicle_after(c, at));
         at = e->number)
        on_event(&a->follower, e);
}

static int open_keep(struct dt_alerts *a, uv_loop_t *loop, const char *state_dir,
                     struct dt_err *err)
{
    if (!state_dir)
        return 0;
    a->keep = dt_alert_keep_open(loop, state_dir, &a->book, err);
    if (!a->keep)
        return -1;
    a->book.on_changed = on_changed;
    a->open++;
    return 0;
}

static int open_posts(struct dt_alerts *a, uv_loop_t *loop, const struct dt_alerts_config *config,
                      struct dt_err *err)
{
    for (size_t i = 0; i < config->receivers_len; i++) {
        struct dt_post *post = dt_post_open(loop, &config->receivers[i], a->server);
        if (!post)
            return dt_err_set(err, DT_E_MEMORY, "no memory for alerts");
        a->posts[i].post = post;
        snprintf(a->posts[i].name, sizeof a->posts[i].name, "%s", config->receivers[i].name);
        a->posts_len++;
        a->open++;
    }
    return 0;
}

struct dt_alerts *dt_alerts_open(uv_loop_t *loop, struct dt_chronicle *chronicle,
                                 const struct dt_alerts_config *config, struct dt_err *err)
{
    struct dt_alerts *a = calloc(1, sizeof *a + config->receivers_len * sizeof a->posts[0]);
    if (!a) {
        dt_err_set(err, DT_E_MEMORY, "no memory for alerts");
        return NULL;
    }
    a->book = (struct dt_alert_book){
        .cooldown = config->cooldown, .least = config->least, .on_notice = on_notice, .arg = a};
    uv_timer_init(loop, &a->tick);
    uv_unref((uv_handle_t *)&a->tick);
    a->open = 1;
    if (gethostname(a->server, sizeof a->server - 1) < 0)
        a->server[0] = '\0';
    if (dt_alert_book_init(&a->book) < 0) {
        dt_err_set(err, DT_E_MEMORY, "no memory for alerts");
        goto fail;
    }
    if (open_keep(a, loop, config->state_dir, err) < 0 || open_posts(a, loop, config, err) < 0)
        goto fail;
    a->follower.on_event = on_event;
    dt_chronicle_follow(chronicle, &a->follower);
    catch_up(a, chronicle);
    return a;
fail:
    dt_alerts_close(a, NULL, NULL);
    return NULL;
}

size_t dt_alerts_receivers(const struct dt_alerts *a)
{
    return a->posts_len;
}

struct dt_post_counters dt_alerts_receiver(const struct dt_alerts *a, size_t i, const char **name)
{
    *name = a->posts[i].name;
    return dt_post_counters(a->posts[i].post);
}

/* -- a test ----------------------------------------------------------------------------------- */

struct test {
    struct dt_buf lines;
    size_t left;
    int room; /* letters of a receiver */
    bool all_delivered;
    dt_alerts_tested_fn *on_tested;
    void *arg;
};

struct test_of_one {
    struct test *test;
    const char *name;
};

static void end_of_test(struct test *t)
{
    if (t->left > 0)
        return;
    t->on_tested(t->arg, dt_buf_cstr(&t->lines), t->all_delivered && !t->lines.bad);
    dt_buf_finish(&t->lines);
    free(t);
}

static void on_tried(void *arg, const char *outcome, bool delivered)
{
    struct test_of_one *one = arg;
    struct test *t = one->test;
    char line[DT_WHY_MAX]; /* all of them go into one sentence */
    snprintf(line, sizeof line, "%s: %s", one->name, outcome);
    dt_buf_printf(&t->lines, "%s%.*s", t->lines.len ? "; " : "", t->room, line);
    t->all_delivered &= delivered;
    t->left--;
    free(one);
    end_of_test(t);
}

void dt_alerts_test(struct dt_alerts *a, dt_alerts_tested_fn *on_tested, void *arg)
{
    struct dt_notice n = {.state = DT_NOTICE_TEST,
                          .rule = "test",
                          .advice = "nothing: this alert was asked for by dtrun-ctl alert test",
                          .weight = DT_EVENT_INFO,
                          .run = "",
                          .node = "",
                          .round = -1,
                          .rank = -1,
                          .words = "alerts of this rendezvous arrive here",
                          .times = 1,
                          .raised_us = dt_clock_wall_us()};
    struct test *t = calloc(1, sizeof *t);
    if (!t) {
        on_tested(arg, "no memory", false);
        return;
    }
    *t = (struct test){.left = 1,
                       .room = (int)(DT_WHY_MAX / (a->posts_len + 1)) - 2,
                       .all_delivered = true,
                       .on_tested = on_tested,
                       .arg = arg};
    for (size_t i = 0; i < a->posts_len; i++) {
        struct test_of_one *one = malloc(sizeof *one);
        if (!one) {
            t->all_delivered = false;
            continue;
        }
        *one = (struct test_of_one){.test = t, .name = a->posts[i].name};
        t->left++;
        dt_post_add(a->posts[i].post, &n, on_tried, one);
    }
    t->left--;
    end_of_test(t);
}

/* -- the end ---------------------------------------------------------------------------------- */

static void one_closed(void *arg)
{
    struct dt_alerts *a = arg;
    if (--a->open > 0)
        return;
    if (a->on_closed)
        a->on_closed(a->arg);
    dt_alert_book_finish(&a->book);
    free(a);
}

static void on_tick_closed(uv_handle_t *h)
{
    one_closed(dt_container_of((uv_timer_t *)h, struct dt_alerts, tick));
}

void dt_alerts_close(struct dt_alerts *a, void (*on_closed)(void *arg), void *arg)
{
    a->on_closed = on_closed;
    a->arg = arg;
    dt_chronicle_unfollow(&a->follower);
    for (size_t i = 0; i < a->posts_len; i++)
        dt_post_close(a->posts[i].post, one_closed, a);
    if (a->keep)
        dt_alert_keep_close(a->keep, one_closed, a);
    uv_close((uv_handle_t *)&a->tick, on_tick_closed);
}
