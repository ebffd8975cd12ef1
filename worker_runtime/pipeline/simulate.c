/* SPDX-License-Identifier: Apache-2.0 */
/* A message is what one section gives another for a micro-batch: the stream onward, or its gradient
 * back. A stage begins an op when the one before is done and the op's message is there. */
#include "worker_runtime/pipeline/simulate.h"

#include <stdio.h>
#include <stdlib.h>

#define NO_MESSAGE (-1)
#define NOT_YET (-1.0)

struct stage {
    const struct dt_pipe_op *ops;
    size_t done, begun;                 /* of them; when the last round began */
    double clock;                       /* when they were done */
    long out[2][DT_PIPE_ROOM_MOST + 1]; /* what the last ones have made, the newest first, by way */
};

struct run {
    const struct dt_pipe_trial *t;
    size_t op_count, messages;
    struct stage *stages;
    double *given, *wanted; /* by message: since when somebody sends it, and receives it */
    unsigned char *state;   /* by chunk and micro-batch, of one stage */
};

static int section_count(const struct run *r)
{
    return r->t->plan.stages * r->t->plan.chunks;
}

/* The message that an op begins with, or the one that it ends with. */
static long message_of(const struct run *r, int stage, const struct dt_pipe_op *op, bool made)
{
    const struct dt_pipe_plan *p = &r->t->plan;
    bool onward = op->kind == DT_PIPE_FORWARD;
    int section = op->chunk * p->stages + stage, step = onward ? 1 : -1;
    int to = made ? section + step : section, from = to - step, end = section_count(r);
    if (op->kind == DT_PIPE_WEIGHT || to < 0 || to >= end || from < 0 || from >= end)
        return NO_MESSAGE;
    return (long)(onward ? to : end + to) * p->micros + op->micro;
}

static long taken_by(const struct run *r, int stage, const struct dt_pipe_op *op)
{
    return message_of(r, stage, op, false);
}

static long made_by(const struct run *r, int stage, const struct dt_pipe_op *op)
{
    return message_of(r, stage, op, true);
}

static const char *text_of(const struct dt_pipe_op *op, char text[80])
{
    static const char *const kinds[] = {"forward", "backward", "backward to the input",
                                        "backward to the weights"};
    snprintf(text, 80, "the %s of micro-batch %d in chunk %d", kinds[op->kind], op->micro,
             op->chunk);
    return text;
}

/* -- lists ------------------------------------------------------------------------------------- */

/* What an op makes of where a micro-batch stands: 0 untouched, 1 forward is done, 2 its input has
 * its gradient, 3 all is done. -1: not from there. */
static int state_after(const struct dt_pipe_op *op, int state)
{
    static const int from[] = {0, 1, 1, 2}, to[] = {1, 3, 2, 3};
    return from[op->kind] == state ? to[op->kind] : -1;
}

static int check_list(struct run *r, int stage, struct dt_pipe_use *use, struct dt_err *err)
{
    const struct dt_pipe_plan *p = &r->t->plan;
    size_t all = (size_t)p->micros * (size_t)p->chunks, ended = 0;
    int held = 0;
    char text[80];
    for (size_t i = 0; i < all; i++)
        r->state[i] = 0;
    for (size_t i = 0; i < r->op_count; i++) {
        const struct dt_pipe_op *op = &r->stages[stage].ops[i];
        bool exists =
            op->micro >= 0 && op->micro < p->micros && op->chunk >= 0 && op->chunk < p->chunks;
        size_t at = exists ? (size_t)(op->chunk * p->micros + op->micro) : 0;
        int next = exists ? state_after(op, r->state[at]) : -1;
        if (next < 0)
            return dt_err_set(err, DT_E_USAGE, "stage %d has %s where it cannot be", stage,
                              text_of(op, text));
        r->state[at] = (unsigned char)next;
        held += op->kind == DT_PIPE_FORWARD;
        use->held = held > use->held ? held : use->held;
        held -= next == 3;
        ended += next == 3;
    }
    return ended == all ? 0
                        : dt_err_set(err, DT_E_USAGE, "stage %d lacks the end of %zu backwards",
                                     stage, all - ended);
}

/* What goes from one stage to another is in one order at both ends, whichever section it is for. */
static int check_border(const struct run *r, int from, int to, bool onward, struct dt_err *err)
{
    const struct dt_pipe_op *a = r->stages[from].ops, *b = r->stages[to].ops;
    char one[80], other[80];
    for (size_t i = 0, k = 0; i < r->op_count; i++) {
        long made = made_by(r, from, &a[i]);
        if (made == NO_MESSAGE || (a[i].kind == DT_PIPE_FORWARD) != onward)
            continue;
        while ((b[k].kind == DT_PIPE_FORWARD) != onward || taken_by(r, to, &b[k]) == NO_MESSAGE)
            k++; /* ends: both lists have every op */
        if (taken_by(r, to, &b[k++]) != made)
            return dt_err_set(err, DT_E_USAGE,
                              "stage %d sends what %s makes, and stage %d waits for what %s takes",
                              from, text_of(&a[i], one), to, text_of(&b[k - 1], other));
    }
    return 0;
}

static int check_lists(struct run *r, struct dt_pipe_use *use, struct dt_err *err)
{
    int stages = r->t->plan.stages;
    for (int s = 0; s < stages; s++)
        if (check_list(r, s, &use[s], err) < 0)
            return -1;
    for (int s = 0; s < stages; s++) {
        int next = (s + 1) % stages;
        if (check_border(r, s, next, true, err) < 0 || check_border(r, next, s, false, err) < 0)
            return -1;
    }
    return 0;
}

/* -- time -------------------------------------------------------------------------------------- */

static double later(double a, double b)
{
    return a > b ? a : b;
}

static double duration(const struct run *r, int stage, const struct dt_pipe_op *op)
{
    const struct dt_pipe_times *t = &r->t->times[op->chunk * r->t->plan.stages + stage];
    const double by_kind[] = {t->forward, t->input + t->weight, t->input, t->weight};
    return by_kind[op->kind];
}

/* START is put off until the message has passed. False: that cannot be told yet. */
static bool has_passed(const struct run *r, long message, double *start)
{
    if (message == NO_MESSAGE)
        return true;
    double since = r->given[message], wanted = r->t->room < 0 ? since : r->wanted[message];
    *start = later(*start, later(since, wanted) + r->t->transfer);
    return since != NOT_YET && wanted != NOT_YET;
}

/* The end of the ops that the next one hands over with. */
static size_t end_of_round(const struct run *r, int stage)
{
    size_t at = r->stages[stage].done;
    return at + (size_t)(r->t->joint ? dt_pipe_round(&r->t->plan, stage, at) : 1);
}

static void give(const struct run *r, int stage, const struct dt_pipe_op *op)
{
    struct stage *s = &r->stages[stage];
    long *out = s->out[op->kind == DT_PIPE_FORWARD], made = made_by(r, stage, op);
    if (made == NO_MESSAGE)
        return;
    for (int i = DT_PIPE_ROOM_MOST; i > 0; i--)
        out[i] = out[i - 1];
    out[0] = made;
    r->given[made] = s->clock;
}

/* A stage turns to what is between its last ops and its next. */
static void turn(const struct run *r, int stage)
{
    const struct stage *s = &r->stages[stage];
    size_t end = end_of_round(r, stage) + (size_t)r->t->early;
    for (size_t i = s->begun; i < s->done; i++)
        give(r, stage, &s->ops[i]);
    for (size_t i = s->done; i < r->op_count && i < end; i++) {
        long in = taken_by(r, stage, &s->ops[i]);
        if (in != NO_MESSAGE && r->wanted[in] == NOT_YET)
            r->wanted[in] = s->clock;
    }
}

/* As has_passed(), of what the stage may not leave under way. */
static bool has_room(const struct run *r, const struct stage *s, double *start)
{
    int room = r->t->room;
    return room < 0 ||
           (has_passed(r, s->out[0][room], start) && has_passed(r, s->out[1][room], start));
}

/* As has_passed(), of all that the ops up to END take. */
static bool has_come(const struct run *r, int stage, size_t end, double *start)
{
    const struct stage *s = &r->stages[stage];
    for (size_t i = s->done; i < end; i++)
        if (!has_passed(r, taken_by(r, stage, &s->ops[i]), start))
            return false;
    return true;
}

static bool step(const struct run *r, int stage, struct dt_pipe_use *use)
{
    struct stage *s = &r->stages[stage];
    double start = s->clock;
    size_t end = end_of_round(r, stage);
    if (s->done == r->op_count || !has_come(r, stage, end, &start) || !has_room(r, s, &start))
        return false;
    s->clock = start;
    for (s->begun = s->done; s->done < end; s->done++) {
        double takes = duration(r, stage, &s->ops[s->done]);
        s->clock += takes;
        use->busy += takes;
    }
    turn(r, stage);
    return true;
}

static void run_all(const struct run *r, struct dt_pipe_use *use)
{
    for (int s = 0; s < r->t->plan.stages; s++)
        turn(r, s);
    for (bool moved = true; moved;) {
        moved = false;
        for (int s = 0; s < r->t->plan.stages; s++)
            while (step(r, s, &use[s]))
                moved = true;
    }
}

static int judge(const struct run *r, double *makespan, struct dt_err *err)
{
    char text[80];
    double start = 0;
    *makespan = 0;
    for (int i = 0; i < r->t->plan.stages; i++) {
        const struct stage *s = &r->stages[i];
        *makespan = later(*makespan, s->clock);
        if (s->done == r->op_count)
            continue;
        if (!has_room(r, s, &start))
            return dt_err_set(err, DT_E_USAGE,
                              "deadlock: stage %d waits until what it has sent is received, in "
                              "front of %s",
                              i, text_of(&s->ops[s->done], text));
        return dt_err_set(err, DT_E_USAGE, "deadlock: stage %d waits for what %s takes", i,
                          text_of(&s->ops[s->done], text));
    }
    return 0;
}

static int prepare(struct run *r, struct dt_err *err)
{
    size_t stages = (size_t)r->t->plan.stages;
    r->op_count = dt_pipe_op_count(&r->t->plan);
    r->messages = 2 * (size_t)section_count(r) * (size_t)r->t->plan.micros;
    r->stages = calloc(stages, sizeof *r->stages);
    r->given = malloc(r->messages * sizeof *r->given);
    r->wanted = malloc(r->messages * sizeof *r->wanted);
    r->state = malloc(r->messages);
    if (!r->stages || !r->given || !r->wanted || !r->state)
        return dt_err_set(err, DT_E_MEMORY, "no memory to simulate %zu ops", stages * r->op_count);
    for (size_t i = 0; i < r->messages; i++)
        r->given[i] = r->wanted[i] = NOT_YET;
    for (size_t s = 0; s < stages; s++)
        r->stages[s] = (struct stage){
            .ops = r->t->ops + s * r->op_count,
            .out = {{NO_MESSAGE, NO_MESSAGE, NO_MESSAGE}, {NO_MESSAGE, NO_MESSAGE, NO_MESSAGE}}};
    return 0;
}

int dt_pipe_simulate(const struct dt_pipe_trial *t, struct dt_pipe_use *use, double *makespan,
                     struct dt_err *err)
{
    struct run r = {.t = t};
    for (int s = 0; s < t->plan.stages; s++)
        use[s] = (struct dt_pipe_use){0, 0};
    int rc = prepare(&r, err) < 0 || check_lists(&r, use, err) < 0 ? -1 : 0;
    if (rc == 0) {
        run_all(&r, use);
        rc = judge(&r, makespan, err);
    }
    free(r.stages);
    free(r.given);
    free(r.wanted);
    free(r.state);
    return rc;
}
