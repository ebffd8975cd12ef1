/* What stages hand each other: all of it, in order, and nobody waits in a circle. */
#include "tests/runtime/ranks.h"
#include "worker_runtime/pipeline/border.h"
#include "worker_runtime/pipeline/order.h"

#include <sched.h>
#include <stdatomic.h>

#define ROWS(t) (sizeof(t) / sizeof *(t))

struct play {
    struct dt_pipe_plan plan;
    size_t count;
};

static enum dt_way way_of(const struct dt_pipe_op *op)
{
    return op->kind == DT_PIPE_FORWARD ? DT_ONWARD : DT_BACK;
}

/* Of what SECTION makes of a micro-batch; its elements rise from there. */
static float value(const struct dt_pipe_op *op, int section)
{
    float number = (float)(1000 * op->micro + section + 1);
    return op->kind == DT_PIPE_FORWARD ? number : -number;
}

static void give(struct dt_border *b, const struct dt_pipe_op *op, int section, size_t count)
{
    struct dt_err err = {0};
    float *made = calloc(count, sizeof *made);
    for (size_t i = 0; i < count; i++)
        made[i] = value(op, section) + (float)i / (float)count;
    CHECK_OK(dt_border_give(b, way_of(op), made, count, &err), err);
    memset(made, 0, count * sizeof *made); /* it is ours again */
    free(made);
}

static void check(const struct dt_pipe_op *op, int section, const float *got, size_t count)
{
    int from = op->kind == DT_PIPE_FORWARD ? section - 1 : section + 1;
    for (size_t i = 0; i < count; i++)
        CHECK(got[i] == value(op, from) + (float)i / (float)count);
}

/* As train/stages.c goes through a list: what is next is asked for before anything is given. */
static void walks(struct rank_self *me)
{
    const struct play *p = me->arg;
    int stages = p->plan.stages;
    size_t ops = dt_pipe_op_count(&p->plan);
    struct dt_pipe_op *list = calloc(ops, sizeof *list);
    float *room[2] = {calloc(p->count, sizeof(float)), calloc(p->count, sizeof(float))};
    struct dt_err err = {0};
    struct dt_coll *world = rank_open(me);
    struct dt_border *b = dt_border_open(world, p->count, DT_F32, false, &err);
    CHECK_OK(b ? 0 : -1, err);
    dt_pipe_list(&p->plan, me->rank, list);
    for (size_t i = 0; i <= ops; i++) {
        const struct dt_pipe_op *next = list + i, *op = i > 0 ? next - 1 : NULL;
        bool takes = i < ops && dt_pipe_takes(&p->plan, me->rank, next);
        if (takes)
            CHECK_OK(dt_border_expect(b, way_of(next), room[i % 2], p->count, &err), err);
        if (op && dt_pipe_gives(&p->plan, me->rank, op))
            give(b, op, op->chunk * stages + me->rank, p->count);
        if (!takes)
            continue;
        CHECK_OK(dt_border_take(b, way_of(next), &err), err);
        check(next, next->chunk * stages + me->rank, room[i % 2], p->count);
    }
    CHECK_OK(dt_border_finish(b, &err), err);
    CHECK(dt_border_ns(b) > 0);
    dt_border_close(b);
    dt_coll_destroy(world);
    free(room[0]);
    free(room[1]);
    free(list);
}

TEST(stages_get_what_their_neighbours_made)
{
    static const struct {
        struct play play;
        int per_host;
    } rows[] = {
        {{{DT_PIPE_1F1B, 2, 1, 5}, 7}, 2},
        {{{DT_PIPE_1F1B, 4, 1, 6}, 40000}, 4},
        {{{DT_PIPE_1F1B, 4, 1, 2}, 5000}, 4},
        {{{DT_PIPE_GPIPE, 3, 1, 7}, 40000}, 3},
        {{{DT_PIPE_1F1B, 3, 1, 5}, 100000}, 1},
        {{{DT_PIPE_GPIPE, 4, 1, 4}, 20000}, 2},
        {{{DT_PIPE_INTERLEAVED, 2, 2, 6}, 7}, 2},
        {{{DT_PIPE_INTERLEAVED, 2, 3, 4}, 40000}, 2},
        {{{DT_PIPE_INTERLEAVED, 2, 2, 6}, 4 << 20}, 1},
        {{{DT_PIPE_INTERLEAVED, 3, 2, 6}, 1 << 20}, 1},
        {{{DT_PIPE_INTERLEAVED, 4, 2, 4}, 40000}, 2},
    };
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct play p = rows[i].play;
        CHECK_ROW("%s, %d stages x %d, %d micro-batches of %zu numbers, %d stages to a host",
                  dt_pipe_schedule_name(p.plan.schedule), p.plan.stages, p.plan.chunks,
                  p.plan.micros, p.count, rows[i].per_host);
        ranks_end(ranks_start_on(p.plan.stages, rows[i].per_host, walks, &p));
    }
}

/* Two ranks a stage, on hosts of their own, wait for each other in each pass. Of one pair of
 * neighbours all that goes onward is more than connections hold, of the other all that goes back:
 * who takes what is small has what is large half written. */
struct halting {
    struct dt_pipe_plan plan;
    int per_host;
    size_t ahead; /* ops whose messages are expected before them */
};

static void meets_others_between(struct rank_self *me)
{
    enum { OPS = 16, LARGE = 4 << 20 };
    const struct halting *m = me->arg;
    const struct dt_pipe_plan plan = m->plan;
    int stage = me->rank / 2, pair = me->rank % 2;
    struct dt_pipe_op list[OPS + 1];
    size_t ops = dt_pipe_op_count(&plan), asked = 0;
    struct dt_coll *world = rank_open(me), *team, *column;
    struct dt_err err = {0};
    float *room = calloc(2 * LARGE, sizeof *room), *made = calloc(LARGE, sizeof *made);
    CHECK_OK(dt_coll_split(world, stage, pair, &team, &err), err);
    CHECK_OK(dt_coll_split(world, pair, stage, &column, &err), err);
    struct dt_border *b = dt_border_open(column, LARGE, DT_F32, false, &err);
    CHECK_OK(b ? 0 : -1, err);
    size_t count[] = {[DT_ONWARD] = pair ? 1 : LARGE, [DT_BACK] = pair ? LARGE : 1};
    dt_coll_timeout_ms(team, 10000);
    dt_pipe_list(&plan, stage, list);
    for (size_t i = 0; i <= ops; i++) {
        const struct dt_pipe_op *last = i > 0 ? &list[i - 1] : NULL;
        for (; asked < ops && asked < i + m->ahead; asked++)
            if (dt_pipe_takes(&plan, stage, &list[asked]))
                CHECK_OK(dt_border_expect(b, way_of(&list[asked]), room + asked % 2 * LARGE,
                                          count[way_of(&list[asked])], &err),
                         err);
        if (last && dt_pipe_gives(&plan, stage, last))
            CHECK_OK(dt_border_give(b, way_of(last), made, count[way_of(last)], &err), err);
        if (i < ops && dt_pipe_takes(&plan, stage, &list[i]))
            CHECK_OK(dt_border_take(b, way_of(&list[i]), &err), err);
        CHECK_OK(dt_border_halt(b, &err), err);
        CHECK_OK(dt_coll_barrier(team, &err), err);
    }
    dt_border_close(b);
    dt_coll_destroy(column);
    dt_coll_destroy(team);
    dt_coll_destroy(world);
    free(room);
    free(made);
}

TEST(nobody_waits_in_a_ring_where_stages_wait_for_others_too)
{
    static const struct halting rows[] = {{{DT_PIPE_1F1B, 2, 1, 4}, 2, 1},
                                          {{DT_PIPE_GPIPE, 2, 1, 4}, 2, 1},
                                          {{DT_PIPE_INTERLEAVED, 2, 2, 4}, 4, 1},
                                          {{DT_PIPE_INTERLEAVED, 2, 2, 4}, 2, 2},
                                          {{DT_PIPE_INTERLEAVED, 2, 4, 2}, 2, 2}};
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct halting m = rows[i];
        CHECK_ROW("%s, %d ranks to a host", dt_pipe_schedule_name(m.plan.schedule), m.per_host);
        ranks_end(ranks_start_on(4, m.per_host, meets_others_between, &m));
    }
}

/* Two are on their way while nobody takes them, and are taken while the giver does something else:
 * each says to the other how far it is. */
static void runs_ahead(struct rank_self *me)
{
    atomic_int *gave = me->shared, *took = gave + 1;
    struct dt_err err = {0};
    struct dt_coll *world = rank_open(me);
    struct dt_border *b = dt_border_open(world, 30000, DT_F32, false, &err);
    float *room = calloc(30000, sizeof *room);
    CHECK_OK(b ? 0 : -1, err);
    for (int i = 0; i < 2; i++) {
        struct dt_pipe_op op = {.micro = i};
        if (me->rank == 0) {
            give(b, &op, 0, 30000);
            atomic_fetch_add(gave, 1);
            continue;
        }
        while (atomic_load(gave) < 2) /* it does not wait for us */
            sched_yield();
        CHECK_OK(dt_border_expect(b, DT_ONWARD, room, 30000, &err), err);
        CHECK_OK(dt_border_take(b, DT_ONWARD, &err), err);
        check(&op, 1, room, 30000);
        atomic_fetch_add(took, 1);
    }
    while (me->rank == 0 && atomic_load(took) < 2)
        sched_yield();
    CHECK_OK(dt_border_finish(b, &err), err);
    dt_border_close(b);
    dt_coll_destroy(world);
    free(room);
}

TEST(who_gives_goes_on_two_ahead_of_who_takes)
{
    ranks_run(2, runs_ahead, NULL);
}
