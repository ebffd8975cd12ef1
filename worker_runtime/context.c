/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/inside.h"

#include "worker_runtime/coll/backend.h"
#include "worker_runtime/device/card.h"
#include "worker_runtime/job_env.h"
#include "worker_runtime/next_world.h"
#include "worker_runtime/store_meeting.h"
#include "worker_runtime/telemetry/page_map.h"

#include <dtrun/page.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TEN_MINUTES (600 * DT_SECOND)

struct dt_context {
    struct dt_job_env env;
    dt_ms start_timeout, coll_timeout;
    bool can_stay;
    char *kind; /* of the device that is wished for */
    struct dt_device_wish wish;
    struct dt_store_meeting *meeting; /* NULL when the world is one, */
    struct dt_meeting nobody;         /* which uses this */
    struct dt_device *device;
    struct dt_coll *coll;
    struct dt_page_writer *page;
};

/* In a world of one there is nobody to tell. */
static int set_nothing(struct dt_meeting *m, const char *key, const void *value, size_t len,
                       struct dt_err *err)
{
    (void)m, (void)key, (void)value, (void)len, (void)err;
    return 0;
}

static int get_nothing(struct dt_meeting *m, const char *key, void *value, size_t len,
                       dt_ms timeout, struct dt_err *err)
{
    (void)m, (void)value, (void)len, (void)timeout;
    return dt_err_set(err, DT_E_RUNTIME, "a world of one has nobody to ask for \"%s\"", key);
}

static int open_group(struct dt_context *c, struct dt_meeting *m,
                      const struct dt_coll_member *members, dt_ms timeout, struct dt_err *err)
{
    struct dt_coll_group g = {
        .members = members,
        .size = c->env.world,
        .rank = c->env.rank,
        .epoch = c->env.epoch,
        .name = "world",
        .timeout = timeout,
    };
    c->coll = dt_coll_open(&g, m, err);
    return c->coll ? 0 : -1;
}

/* The time for all to be there is one: for the store to answer, and for the others to come. */
static int meet(struct dt_context *c, struct dt_err *err)
{
    dt_ms deadline = dt_clock_after(dt_clock_monotonic(), c->start_timeout);
    if (c->env.world == 1) {
        struct dt_coll_member me = {.world_rank = 0, .host = 0, .pid = getpid()};
        c->nobody = (struct dt_meeting){set_nothing, get_nothing};
        return open_group(c, &c->nobody, &me, c->coll_timeout, err);
    }
    c->meeting = dt_store_meeting_open(&c->env, c->start_timeout, err);
    if (!c->meeting)
        return -1;
    dt_ms left = deadline - dt_clock_monotonic();
    struct dt_coll_member *members =
        dt_store_meeting_members(c->meeting, &c->env, left > 0 ? left : 1, err);
    if (!members)
        return -1;
    int rc = open_group(c, dt_store_meeting_base(c->meeting), members, c->coll_timeout, err);
    free(members);
    return rc;
}

/* That all computing is done on one kind of device; no rank goes before all know that it is not. */
static int compare_devices(struct dt_context *c, struct dt_err *err)
{
    struct dt_device_card own, *all = calloc((size_t)c->env.world, sizeof *all);
    if (!all)
        return dt_err_set(err, DT_E_MEMORY, "no memory for what %d ranks say of their devices",
                          c->env.world);
    dt_device_card_write(c->device, &own);
    int rc = dt_coll_all_gather(c->coll, &own, all, sizeof own, DT_U8, err);
    if (rc == 0 && dt_device_cards_check(all, c->env.world, err) < 0) {
        dt_coll_barrier(c->coll, NULL);
        rc = -1;
    }
    free(all);
    return rc;
}

/* Only from here on a lost peer is noticed by itself: who still waits for others to come cannot
 * stay, since nobody tells it that they will not. */
static int enter_world(struct dt_context *c, struct dt_err *err)
{
    if (meet(c, err) < 0 || compare_devices(c, err) < 0)
        return -1;
    dt_page_say_can_stay(dt_page_of(c->page), c->can_stay);
    return 0;
}

static bool round_over(void *arg)
{
    return dt_page_round_over(arg);
}

/* Before the others are met: who has none does not keep them waiting for its collectives. */
static int open_device(struct dt_context *c, struct dt_err *err)
{
    c->device = dt_device_open(&c->wish, err);
    return c->device ? 0 : -1;
}

struct dt_context *dt_context_open(const struct dt_context_options *options, struct dt_err *err)
{
    const struct dt_context_options none = {0}, *o = options ? options : &none;
    struct dt_context *c = calloc(1, sizeof *c);
    int threads;
    if (!c) {
        dt_err_set(err, DT_E_MEMORY, "no memory for a context");
        return NULL;
    }
    if (dt_job_env_read(&c->env, err) < 0 ||
        dt_job_env_threads(o->threads, c->env.local_world, &threads, err) < 0)
        goto fail;
    c->start_timeout = o->start_timeout_ms > 0 ? o->start_timeout_ms : TEN_MINUTES;
    c->coll_timeout = o->coll_timeout_ms > 0 ? o->coll_timeout_ms : TEN_MINUTES;
    c->can_stay = o->can_stay;
    c->kind = strdup(o->device ? o->device : "auto");
    c->page = dt_page_open(err);
    if (!c->kind && c->page)
        dt_err_set(err, DT_E_MEMORY, "no memory for a context");
    if (!c->kind || !c->page)
        goto fail;
    c->wish = (struct dt_device_wish){.kind = c->kind,
                                      .threads = threads,
                                      .local_rank = c->env.local_rank,
                                      .local_world = c->env.local_world,
                                      .elem = o->elem,
                                      .wide_sums = o->wide_sums,
                                      .fast = o->fast,
                                      .round_over = round_over,
                                      .round_over_arg = c->page,
                                      .cudnn = o->cudnn,
                                      .say = o->say,
                                      .say_arg = o->say_arg,
                                      .give_up = o->give_up,
                                      .give_up_arg = o->give_up_arg};
    if (open_device(c, err) < 0 || enter_world(c, err) < 0)
        goto fail;
    return c;
fail:
    dt_context_close(c);
    return NULL;
}

/* A GPU whose peers were lost does nothing any more, as its work may wait for them for ever. */
static void leave_world(struct dt_context *c)
{
    if (c->coll)
        dt_coll_destroy(c->coll);
    c->coll = NULL;
    if (strcmp(c->device->name, "cpu") != 0) {
        dt_device_close(c->device);
        c->device = NULL;
    }
    dt_store_meeting_close(c->meeting);
    c->meeting = NULL;
}

bool dt_context_may_reenter(const struct dt_context *c, const struct dt_err *why)
{
    const struct dt_page *page = dt_page_of(c->page);
    bool of_another = why->code == DT_E_DISCONNECTED || why->code == DT_E_ELSEWHERE;
    bool for_end = why->code == DT_E_TIMEOUT || why->code == DT_E_CANCELED;
    of_another = of_another || (for_end && dt_page_round_over(c->page));
    return c->can_stay && of_another && dt_page_may_stay(page);
}

int dt_context_reenter(struct dt_context *c, struct dt_err *err)
{
    struct dt_page_world next;
    leave_world(c);
    if (dt_next_world_wait(c->page, &next, err) < 0 || dt_job_env_enter(&next, err) < 0 ||
        dt_job_env_read(&c->env, err) < 0 || (!c->device && open_device(c, err) < 0))
        return -1;
    return enter_world(c, err);
}

void dt_context_close(struct dt_context *c)
{
    if (!c)
        return;
    if (c->page)
        dt_page_say_can_stay(dt_page_of(c->page), false);
    if (c->coll)
        dt_coll_destroy(c->coll);
    if (c->device)
        dt_device_close(c->device);
    if (c->page)
        dt_page_close(c->page);
    dt_store_meeting_close(c->meeting);
    free(c->kind);
    free(c);
}

int dt_context_rank(const struct dt_context *c)
{
    return c->env.rank;
}

int dt_context_world(const struct dt_context *c)
{
    return c->env.world;
}

int dt_context_local_rank(const struct dt_context *c)
{
    return c->env.local_rank;
}

int dt_context_local_world(const struct dt_context *c)
{
    return c->env.local_world;
}

int dt_context_host(const struct dt_context *c)
{
    return c->env.group;
}

int dt_context_hosts(const struct dt_context *c)
{
    return c->env.groups;
}

int64_t dt_context_epoch(const struct dt_context *c)
{
    return c->env.epoch;
}

int dt_context_restarts(const struct dt_context *c)
{
    return c->env.restarts;
}

const char *dt_context_run_id(const struct dt_context *c)
{
    return c->env.run_id;
}

struct dt_coll *dt_context_coll(struct dt_context *c)
{
    return c->coll;
}

struct dt_page_writer *dt_context_page(struct dt_context *c)
{
    return c->page;
}

int dt_context_threads(const struct dt_context *c)
{
    return c->wish.threads;
}

struct dt_device *dt_context_device(const struct dt_context *c)
{
    return c->device;
}
