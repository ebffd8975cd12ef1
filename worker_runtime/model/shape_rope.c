/* SPDX-License-Identifier: Apache-2.0 */
/* "rope_scaling" of a config.json, which newer files call "rope_parameters" and keep "rope_theta"
 * in. What it holds depends on its "rope_type", which older files call "type". */
#include "worker_runtime/model/inside.h"

#include "base/json.h"
#include "base/json_write.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const kinds[] = {
    [DT_ROPE_PLAIN] = "default", [DT_ROPE_LINEAR] = "linear", [DT_ROPE_DYNAMIC] = "dynamic",
    [DT_ROPE_LLAMA3] = "llama3", [DT_ROPE_YARN] = "yarn",
};

enum {
    LINEAR = 1 << DT_ROPE_LINEAR,
    DYNAMIC = 1 << DT_ROPE_DYNAMIC,
    LLAMA3 = 1 << DT_ROPE_LLAMA3,
    YARN = 1 << DT_ROPE_YARN,
    SCALED = LINEAR | DYNAMIC | LLAMA3 | YARN,
};

#define AT(field) offsetof(struct dt_rope_scaling, field)
#define OWN_KEYS 3 /* read apart from the rows */

/* A number each: which kinds have it, and which cannot be without. */
/* clang-format off */
static const struct row {
    const char *name;
    unsigned of, needed;
    size_t at;
    double least, most;
} rows[] = {
    {"factor", SCALED, SCALED, AT(factor), 1, 1e6},
    {"original_max_position_embeddings", LLAMA3 | YARN, LLAMA3, AT(original), 1, DT_POSITIONS_MOST},
    {"low_freq_factor", LLAMA3, LLAMA3, AT(low_freq), 0, 1e6},
    {"high_freq_factor", LLAMA3, LLAMA3, AT(high_freq), 0, 1e6},
    {"beta_fast", YARN, 0, AT(beta_fast), 1e-3, 1e6},
    {"beta_slow", YARN, 0, AT(beta_slow), 1e-3, 1e6},
    {"attention_factor", YARN, 0, AT(attention), 1e-3, 1e3},
};
/* clang-format on */

static int read_kind(const struct dt_shape_reading *r, enum dt_rope_kind *out)
{
    const char *name = dt_json_has(r->object, "rope_type") ? "rope_type" : "type", *word;
    *out = DT_ROPE_PLAIN;
    if (!dt_json_has(r->object, name))
        return 0;
    if (dt_json_string(r->doc, r->object, name, &word, r->err) < 0)
        return -1;
    for (size_t i = 0; i < DT_ROWS(kinds); i++)
        if (strcmp(word, kinds[i]) == 0) {
            *out = (enum dt_rope_kind)i;
            return 0;
        }
    return dt_shape_refuse(r, name,
                           "only \"default\", \"linear\", \"dynamic\", \"llama3\" and \"yarn\" are "
                           "implemented");
}

/* What a kind does not know would be left out in silence: it is refused. */
static int check_names(const struct dt_shape_reading *r, enum dt_rope_kind kind)
{
    const char *known[OWN_KEYS + DT_ROWS(rows) + 4] = {"rope_type", "type", "rope_theta"};
    size_t count = OWN_KEYS;
    for (size_t i = 0; i < DT_ROWS(rows); i++)
        if (rows[i].of & 1U << kind)
            known[count++] = rows[i].name;
    if (kind == DT_ROPE_YARN) {
        known[count++] = "mscale";
        known[count++] = "mscale_all_dim";
        known[count++] = "truncate";
    }
    return dt_json_only(r->doc, r->object, known, r->err);
}

static int read_row(const struct dt_shape_reading *r, const struct row *row,
                    struct dt_rope_scaling *s)
{
    float x;
    char why[80];
    if (!dt_json_has(r->object, row->name))
        return row->needed & 1U << s->kind ? dt_shape_missing(r, row->name) : 0;
    if (dt_shape_read_real(r, row->name, row->most, &x) < 0)
        return -1;
    if (row->at == AT(original) && floorf(x) < x)
        return dt_shape_refuse(r, row->name, "expected a whole number");
    snprintf(why, sizeof why, "expected a number from %g to %g, found %g", row->least, row->most,
             (double)x);
    if ((double)x < row->least)
        return dt_shape_refuse(r, row->name, why);
    memcpy((char *)s + row->at, &x, sizeof x);
    return 0;
}

/* What yarn has beside numbers of its own, and its defaults. */
static int read_yarn(const struct dt_shape_reading *r, struct dt_rope_scaling *s)
{
    float mscale = 0, mscale_all = 0;
    bool truncate = true;
    if ((dt_json_has(r->object, "mscale") && dt_shape_read_real(r, "mscale", 1e3, &mscale) < 0) ||
        (dt_json_has(r->object, "mscale_all_dim") &&
         dt_shape_read_real(r, "mscale_all_dim", 1e3, &mscale_all) < 0) ||
        (dt_json_has(r->object, "truncate") &&
         dt_json_bool(r->doc, r->object, "truncate", &truncate, r->err) < 0))
        return -1;
    s->exact = !truncate;
    if (s->attention <= 0)
        s->attention =
            dt_rope_yarn_attention((double)s->factor, (double)mscale, (double)mscale_all);
    return 0;
}

#define FULL "full_attention"
#define LOCAL "sliding_attention"

static int read_one(const struct dt_shape_reading *r, const char *name);

/* Newer files of models with two kinds of layers have an object for each kind. */
static int read_both(const struct dt_shape_reading *r)
{
    static const char *const kinds_of_layers[] = {FULL, LOCAL, NULL};
    struct dt_shape *s = r->shape, local = *s;
    struct dt_shape_reading other = *r;
    other.shape = &local;
    local.rope = (struct dt_rope_scaling){.kind = DT_ROPE_PLAIN};
    if (dt_json_only(r->doc, r->object, kinds_of_layers, r->err) < 0 ||
        (dt_json_has(r->object, FULL) && read_one(r, FULL) < 0))
        return -1;
    if (!dt_json_has(r->object, LOCAL))
        return 0;
    local.rope_theta = s->local_theta;
    if (read_one(&other, LOCAL) < 0)
        return -1;
    if (local.rope.kind != DT_ROPE_PLAIN)
        return dt_shape_refuse(r, LOCAL,
                               "scaled positions of layers with a window are not implemented");
    s->local_theta = local.rope_theta;
    return 0;
}

int dt_shape_read_rope(const struct dt_shape_reading *r, const char *name)
{
    struct dt_shape_reading inner = *r;
    if (dt_json_object(r->doc, r->object, name, &inner.object, r->err) < 0)
        return -1;
    bool both = dt_json_has(inner.object, FULL) || dt_json_has(inner.object, LOCAL);
    return both && r->shape->local_theta > 0 ? read_both(&inner) : read_one(r, name);
}

static int read_one(const struct dt_shape_reading *r, const char *name)
{
    struct dt_shape_reading inner = *r;
    struct dt_rope_scaling s = {.beta_fast = 32, .beta_slow = 1};
    if (dt_json_object(r->doc, r->object, name, &inner.object, r->err) < 0 ||
        read_kind(&inner, &s.kind) < 0 || check_names(&inner, s.kind) < 0)
        return -1;
    for (const struct row *row = rows; row < rows + DT_ROWS(rows); row++)
        if (read_row(&inner, row, &s) < 0)
            return -1;
    if (s.kind == DT_ROPE_YARN && read_yarn(&inner, &s) < 0)
        return -1;
    if (s.kind == DT_ROPE_LLAMA3 && s.low_freq >= s.high_freq)
        return dt_shape_refuse(&inner, "high_freq_factor", "it has to be above low_freq_factor");
    if (s.kind != DT_ROPE_PLAIN)
        r->shape->rope = s;
    if (!dt_json_has(inner.object, "rope_theta"))
        return 0;
    return dt_shape_read_real(&inner, "rope_theta", DT_ROPE_THETA_MOST, &r->shape->rope_theta);
}

void dt_shape_put_rope(struct dt_json_writer *w, const char *name, const struct dt_rope_scaling *s)
{
    if (s->kind == DT_ROPE_PLAIN)
        return;
    dt_json_put_object(w, name);
    dt_json_put_text(w, "rope_type", kinds[s->kind]);
    for (const struct row *row = rows; row < rows + DT_ROWS(rows); row++) {
        const float *x = (const float *)(const void *)((const char *)s + row->at);
        if (!(row->of & 1U << s->kind))
            continue;
        if (row->at == AT(original))
            dt_json_put_uint(w, row->name, (uint64_t)*x);
        else
            dt_shape_put_float(w, row->name, *x);
    }
    if (s->kind == DT_ROPE_YARN && s->exact)
        dt_json_put_bool(w, "truncate", false);
    dt_json_put_end(w);
}
