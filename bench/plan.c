/* SPDX-License-Identifier: Apache-2.0 */
/* See plan.h. The sequences are those of PyTorch's client: a get asks for presence first, and a set
 * is not answered, so its latency shows in what follows it. */
#include "bench/plan.h"

const char *const op_names[] = {"add", "set",      "get",  "setget", "compare_set",
                                "mix", "waitwake", "fill", NULL};

struct shape {
    const struct wire *w;
    struct key counter, value;
    size_t value_size;
};

static struct out *next_step(struct plan *p, enum answer_kind answer, size_t value)
{
    struct step *s = &p->step[p->steps++];
    s->answer = answer;
    s->value = value;
    return &s->text;
}

static void plan_add(struct plan *p, const struct shape *s)
{
    s->w->add(s->w, next_step(p, ANSWER_NUMBER, 0), &s->counter);
}

static void plan_get(struct plan *p, const struct shape *s)
{
    s->w->get(s->w, next_step(p, ANSWER_VALUE, s->value_size), &s->value);
}

static void plan_set(struct plan *p, const struct shape *s)
{
    struct out *o = next_step(p, ANSWER_OK, 0);
    s->w->set(s->w, o, &s->value, s->value_size);
    if (!s->w->set_is_answered)
        s->w->probe(s->w, o);
}

static void plan_setget(struct plan *p, const struct shape *s)
{
    struct out *o = next_step(p, ANSWER_OK, 0);
    s->w->set(s->w, o, &s->value, s->value_size);
    if (s->w->present)
        s->w->present(s->w, o, &s->value);
    plan_get(p, s);
}

static void plan_compare_set(struct plan *p, const struct shape *s)
{
    struct out *o = next_step(p, ANSWER_VALUE, s->value_size);
    s->w->compare_set(s->w, o, &s->value, s->value_size);
}

static void put_plans(struct plan_set *set, enum op op, const struct shape *s)
{
    struct plan *p = set->plan;
    set->plans = 1;
    set->reads_values = op == OP_GET || op == OP_COMPARE_SET || op == OP_MIX;
    switch (op) {
    case OP_ADD:
        plan_add(p, s);
        return;
    case OP_SET:
        plan_set(p, s);
        return;
    case OP_GET:
        plan_get(p, s);
        return;
    case OP_SETGET:
        plan_setget(p, s);
        return;
    case OP_COMPARE_SET:
        plan_compare_set(p, s);
        return;
    case OP_MIX:
        set->plans = PLAN_MIX;
        plan_add(&p[0], s);
        plan_add(&p[1], s);
        plan_setget(&p[2], s);
        plan_get(&p[3], s);
        return;
    case OP_WAITWAKE:
    case OP_FILL:
        return; /* have no steps: waitwake.c, fill.c */
    }
}

int plan_set_init(struct plan_set *set, enum op op, const struct wire *w, struct key key,
                  size_t value_size, struct dt_err *err)
{
    struct shape s = {.w = w, .counter = key, .value = key, .value_size = value_size};
    s.counter.family = 'c';
    s.value.family = 'v';
    *set = (struct plan_set){0};
    if (op == OP_COMPARE_SET && !w->compare_set)
        return dt_err_set(err, DT_E_USAGE, "--op compare_set: %s has no such request", w->name);
    put_plans(set, op, &s);
    for (unsigned i = 0; i < set->plans; i++)
        for (unsigned j = 0; j < set->plan[i].steps; j++) {
            const struct out *o = &set->plan[i].step[j].text;
            if (o->text.bad)
                return dt_err_set(err, DT_E_RUNTIME, "out of memory for requests");
            if (o->text.len > set->longest)
                set->longest = o->text.len;
        }
    return 0;
}

void plan_set_finish(struct plan_set *set)
{
    for (unsigned i = 0; i < PLAN_MIX; i++)
        for (unsigned j = 0; j < PLAN_STEPS; j++)
            dt_buf_finish(&set->plan[i].step[j].text.text);
}
