/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/pipeline/split.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

/* A parameter is a weight, a gradient and two moments. */
#define NUMBERS_OF_PARAM 4

/* Attention's backward goes through its scores once more: five products where forward has two. */
#define ATTENTION_BACK 2.5

/* Pairs of a token and one that it reads, in a sample. */
static double pairs_of(const struct dt_shape *s, size_t layer, double positions)
{
    double window = (double)dt_shape_window(s, layer);
    double reach = window > 0 && window < positions ? window : positions;
    return reach * (reach + 1) / 2 + (positions - reach) * reach;
}

static double kept_by_block(const struct dt_shape *s, bool recompute)
{
    size_t mlp = dt_shape_token_inner(s) * (s->family == DT_GPT2 ? 1 : 2);
    size_t streams = s->branch_norms ? 4 : 2;
    if (recompute)
        return (double)s->width;
    return (double)(2 * (s->heads + s->kv_heads) * s->head_dim + mlp + streams * s->width);
}

/* Products alone: what else there is takes a hundredth of their time. */
static void weigh_block(struct dt_pipe_unit *u, const struct dt_shape *s, size_t layer,
                        double positions, bool recompute)
{
    double product = u->weight * 2 * positions;
    double attention = 4 * (double)(s->heads * s->head_dim) * pairs_of(s, layer, positions);
    u->forward = product + attention;
    u->input = product + ATTENTION_BACK * attention + (recompute ? u->forward : 0);
    u->weight = product;
    u->kept = kept_by_block(s, recompute) * positions;
}

static void weigh_head(struct dt_pipe_unit *u, const struct dt_shape *s, double positions)
{
    double matrix = (double)(s->vocabulary * s->width);
    u->params += s->tied ? matrix : 0;
    u->forward = 3 * 2 * matrix * positions;
    u->weight = 0;
    u->kept = (double)s->width * positions; /* the gradient of the stream */
}

struct dt_pipe_unit *dt_pipe_units(const struct dt_shape *s, size_t positions, bool recompute,
                                   struct dt_err *err)
{
    size_t head = dt_shape_unit_count(s) - 1, tensors = dt_shape_tensor_count(s);
    struct dt_tensor *t = dt_shape_tensors(s, err);
    struct dt_pipe_unit *units = t ? calloc(head + 1, sizeof *units) : NULL;
    if (t && !units)
        dt_err_set(err, DT_E_MEMORY, "no memory for a list of %zu units", head + 1);
    for (size_t i = 0; units && i < tensors; i++) {
        units[t[i].unit].params += (double)t[i].count;
        double used =
            dt_shape_is_of_expert(s, &t[i]) ? (double)s->expert_picks / (double)s->experts : 1;
        units[t[i].unit].weight += t[i].rank == 2 ? used * (double)t[i].count : 0; /* of products */
    }
    free(t);
    if (!units)
        return NULL;
    units[0].weight = 0; /* a table is looked up */
    for (size_t u = 1; u < head; u++)
        weigh_block(&units[u], s, u - 1, (double)positions, recompute);
    weigh_head(&units[head], s, (double)positions);
    return units;
}

/* -- to stages ------------------------------------------------------------------------------- */

struct load {
    double time, params, kept;
};

struct problem {
    const struct dt_pipe_plan *plan;
    size_t layers, sections;
    double samples;
    struct load *before; /* by unit: of all in front of it */
    uint16_t *from;      /* [sections, layers + 1]: where a section begins that ends in front of
                            that block */
    double *best, *next; /* by that block: how large the largest of the sections up to one is, and
                            of those up to the next */
};

static struct load load_of(const struct problem *x, size_t section, size_t first, size_t end)
{
    const struct load *a = &x->before[section == 0 ? 0 : first + 1];
    const struct load *b = &x->before[section == x->sections - 1 ? x->layers + 2 : end + 1];
    return (struct load){b->time - a->time, b->params - a->params, b->kept - a->kept};
}

/* Of several chunks a slot holds one. */
static double memory_of(const struct problem *x, size_t section, struct load l)
{
    double slots = dt_pipe_slots(x->plan, (int)section % x->plan->stages);
    return l.params * NUMBERS_OF_PARAM + l.kept * x->samples * slots / x->plan->chunks;
}

/* Where SECTION, whose blocks end in front of END, begins so that the largest of those up to it is
 * least: in time, or in memory where none may take longer than LIMIT. The more blocks a section
 * has, the larger it is, so the search back from END ends early. */
static void place_section(struct problem *x, size_t section, size_t end, bool memory, double limit)
{
    double least = INFINITY;
    for (size_t first = end; first-- > section;) {
        struct load l = load_of(x, section, first, end);
        double size = memory ? memory_of(x, section, l) : l.time;
        if (l.time > limit || size >= least)
            break;
        double most = fmax(size, x->best[first]);
        if (most >= least)
            continue;
        least = most;
        x->from[section * (x->layers + 1) + end] = (uint16_t)first;
    }
    x->next[end] = least;
}

static double divide(struct problem *x, bool memory, double limit)
{
    for (size_t i = 0; i <= x->layers; i++)
        x->best[i] = i == 0 ? 0 : INFINITY;
    for (size_t section = 0; section < x->sections; section++) {
        for (size_t end = 0; end <= x->layers; end++)
            place_section(x, section, end, memory, limit);
        double *was = x->best;
        x->best = x->next;
        x->next = was;
    }
    return x->best[x->layers];
}

/* Between stages of the sections on both sides of a border: how uneven they are. */
static double unevenness(const struct problem *x, const size_t *first, size_t border)
{
    size_t stages = (size_t)x->plan->stages, of[] = {(border - 1) % stages, border % stages};
    double sum = 0;
    for (int i = 0; i < 2; i++) {
        double time = 0;
        for (size_t s = of[i]; s < x->sections; s += stages)
            time += load_of(x, s, first[s], first[s + 1]).time;
        sum += time * time;
    }
    return sum;
}

/* Moves a border by a block where that makes the stages beside it more even, be it that sections
 * become less so: with many micro-batches a step takes as long as its slowest stage. The sum of
 * squares falls with each move, so there is an end. False: none does. */
static bool even_out(const struct problem *x, size_t *first)
{
    for (size_t border = 1; border < x->sections; border++)
        for (int by = -1; by <= 1; by += 2) {
            double was = unevenness(x, first, border);
            size_t at = first[border], to = by < 0 ? at - 1 : at + 1;
            if (to == first[border - 1] || to == first[border + 1])
                continue;
            first[border] = to;
            if (unevenness(x, first, border) < was * (1 - 1e-9))
                return true;
            first[border] = at;
        }
    return false;
}

static bool find_memory(struct problem *x)
{
    x->before = calloc(x->layers + 3, sizeof *x->before);
    x->best = calloc(x->layers + 1, sizeof *x->best);
    x->next = calloc(x->layers + 1, sizeof *x->next);
    x->from = calloc(x->sections * (x->layers + 1), sizeof *x->from);
    return x->before && x->best && x->next && x->from;
}

static void give_back(struct problem *x)
{
    free(x->before);
    free(x->best);
    free(x->next);
    free(x->from);
}

static void add_up(struct problem *x, const struct dt_pipe_unit *units)
{
    for (size_t i = 0; i < x->layers + 2; i++) {
        const struct dt_pipe_unit *u = &units[i];
        const struct load *b = &x->before[i];
        x->before[i + 1] = (struct load){b->time + u->forward + u->input + u->weight,
                                         b->params + u->params, b->kept + u->kept};
    }
}

int dt_pipe_split(const struct dt_pipe_plan *p, const struct dt_pipe_unit *units, size_t layers,
                  size_t samples, size_t *first, struct dt_err *err)
{
    struct problem x = {.plan = p,
                        .layers = layers,
                        .sections = (size_t)(p->stages * p->chunks),
                        .samples = (double)samples};
    if (layers < x.sections && p->chunks > 1)
        return dt_err_set(err, DT_E_USAGE,
                          "a pipeline of %d stages with %d chunks each takes a model of %zu blocks "
                          "at least, and this one has %zu",
                          p->stages, p->chunks, x.sections, layers);
    if (layers < x.sections)
        return dt_err_set(err, DT_E_USAGE,
                          "a pipeline of %d stages takes a model of as many blocks at least, "
                          "and this one has %zu",
                          p->stages, layers);
    if (!find_memory(&x)) {
        give_back(&x);
        return dt_err_set(err, DT_E_MEMORY, "no memory to split %zu blocks", layers);
    }
    add_up(&x, units);
    divide(&x, true, divide(&x, false, INFINITY));
    first[x.sections] = layers;
    for (size_t section = x.sections; section-- > 0;)
        first[section] = x.from[section * (layers + 1) + first[section + 1]];
    while (p->chunks > 1 && even_out(&x, first))
        ;
    give_back(&x);
    return 0;
}
