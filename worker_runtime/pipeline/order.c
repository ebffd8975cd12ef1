/* SPDX-License-Identifier: Apache-2.0 */
/* All four schedules are one: some forwards to begin with, then a backward behind each forward,
 * then the backwards that are left. They differ in how many forwards that is, in which micro-batch
 * of which chunk is the next, and in whether the weights' gradients stay behind. */
#include "worker_runtime/pipeline/order.h"

static int least(int a, int b)
{
    return a < b ? a : b;
}

const char *dt_pipe_schedule_name(enum dt_pipe_schedule s)
{
    static const char *const names[] = {"GPipe", "1F1B", "interleaved 1F1B", "ZB-H1"};
    return names[s];
}

static int check_interleaved(const struct dt_pipe_plan *p, struct dt_err *err)
{
    if (p->stages < 2 || p->chunks < 2)
        return dt_err_set(err, DT_E_USAGE,
                          "interleaved 1F1B takes 2 stages and 2 chunks a stage at least, not %d "
                          "and %d; without them, take 1F1B",
                          p->stages, p->chunks);
    if (p->micros % p->stages > 0)
        return dt_err_set(err, DT_E_USAGE,
                          "interleaved 1F1B takes a multiple of its %d stages as the number of "
                          "micro-batches of a step, not %d",
                          p->stages, p->micros);
    return 0;
}

int dt_pipe_check(const struct dt_pipe_plan *p, struct dt_err *err)
{
    if (p->stages < 1 || p->stages > DT_PIPE_SECTIONS_MOST)
        return dt_err_set(err, DT_E_USAGE, "a pipeline has 1 to %d stages, not %d",
                          DT_PIPE_SECTIONS_MOST, p->stages);
    if (p->chunks < 1 || p->chunks > DT_PIPE_SECTIONS_MOST / p->stages)
        return dt_err_set(err, DT_E_USAGE,
                          "each of the %d stages of a pipeline has 1 to %d chunks, not %d",
                          p->stages, DT_PIPE_SECTIONS_MOST / p->stages, p->chunks);
    if (p->micros < 1 || p->micros > DT_PIPE_MICROS_MOST)
        return dt_err_set(err, DT_E_USAGE, "a step of a pipeline has 1 to %d micro-batches, not %d",
                          DT_PIPE_MICROS_MOST, p->micros);
    if (p->schedule == DT_PIPE_INTERLEAVED)
        return check_interleaved(p, err);
    if (p->chunks > 1)
        return dt_err_set(err, DT_E_USAGE, "%s runs one chunk on each stage, not %d",
                          dt_pipe_schedule_name(p->schedule), p->chunks);
    return 0;
}

size_t dt_pipe_op_count(const struct dt_pipe_plan *p)
{
    return (size_t)p->micros * (size_t)p->chunks * (p->schedule == DT_PIPE_ZB_H1 ? 3 : 2);
}

/* Forwards before the first backward: as many as the first micro-batch needs to the last stage and
 * back, where a backward takes the place of a forward and of a backward of others. */
static int warm_up(const struct dt_pipe_plan *p, int stage)
{
    int all = p->micros * p->chunks, behind = p->stages - 1 - stage;
    switch (p->schedule) {
    case DT_PIPE_GPIPE:
        return all;
    case DT_PIPE_INTERLEAVED:
        return least(all, 2 * behind + (p->chunks - 1) * p->stages);
    case DT_PIPE_1F1B:
    case DT_PIPE_ZB_H1:
        break;
    }
    return least(all, behind);
}

/* The I'th forward, or backward, of a stage. With several chunks, as many micro-batches as there
 * are stages go through one chunk after the other, before the next ones do. */
static struct dt_pipe_op nth(const struct dt_pipe_plan *p, enum dt_pipe_kind kind, int i)
{
    int group = p->chunks > 1 ? p->stages : p->micros;
    int chunk = i / group % p->chunks;
    return (struct dt_pipe_op){
        .kind = kind,
        .micro = i / (group * p->chunks) * group + i % group,
        .chunk = kind == DT_PIPE_FORWARD ? chunk : p->chunks - 1 - chunk,
    };
}

void dt_pipe_list(const struct dt_pipe_plan *p, int stage, struct dt_pipe_op *ops)
{
    bool halves = p->schedule == DT_PIPE_ZB_H1;
    int all = p->micros * p->chunks, first = warm_up(p, stage), weights = 0;
    for (int i = 0; i < all + first; i++) {
        int back = i - first;
        if (i < all)
            *ops++ = nth(p, DT_PIPE_FORWARD, i);
        if (back >= 0)
            *ops++ = nth(p, halves ? DT_PIPE_INPUT : DT_PIPE_BACKWARD, back);
        if (halves && back >= stage)
            *ops++ = nth(p, DT_PIPE_WEIGHT, weights++);
    }
    while (halves && weights < all)
        *ops++ = nth(p, DT_PIPE_WEIGHT, weights++);
}

int dt_pipe_round(const struct dt_pipe_plan *p, int stage, size_t i)
{
    size_t first = (size_t)warm_up(p, stage), all = (size_t)(p->micros * p->chunks);
    return p->chunks > 1 && i >= first && i < first + 2 * (all - first) ? 2 : 1;
}

static bool is_end(const struct dt_pipe_plan *p, int stage, const struct dt_pipe_op *op, bool first)
{
    return op->chunk * p->stages + stage == (first ? 0 : p->stages * p->chunks - 1);
}

bool dt_pipe_takes(const struct dt_pipe_plan *p, int stage, const struct dt_pipe_op *op)
{
    return op->kind != DT_PIPE_WEIGHT && !is_end(p, stage, op, op->kind == DT_PIPE_FORWARD);
}

bool dt_pipe_gives(const struct dt_pipe_plan *p, int stage, const struct dt_pipe_op *op)
{
    return op->kind != DT_PIPE_WEIGHT && !is_end(p, stage, op, op->kind != DT_PIPE_FORWARD);
}

int dt_pipe_slots(const struct dt_pipe_plan *p, int stage)
{
    int late = p->schedule == DT_PIPE_ZB_H1 ? stage : 0; /* weights' gradients that stay behind */
    return least(p->micros * p->chunks, warm_up(p, stage) + 1 + late);
}
