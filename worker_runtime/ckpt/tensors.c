/* SPDX-License-Identifier: Apache-2.0 */
/* The tensors of a model of which nothing is known but a dt_zero's units. */
#include "worker_runtime/ckpt/inside.h"

#include <stdio.h>
#include <stdlib.h>

static int by_name(const void *a, const void *b)
{
    const struct dt_tensor *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

/* A name that two of T have; NULL: none. *FAILED: no memory to look. */
static const char *twice(const struct dt_tensor *t, size_t count, bool *failed)
{
    const char *name = NULL;
    const struct dt_tensor **sorted = calloc(count + 1, sizeof *sorted);
    *failed = !sorted;
    if (!sorted)
        return NULL;
    for (size_t i = 0; i < count; i++)
        sorted[i] = &t[i];
    qsort(sorted, count, sizeof *sorted, by_name);
    for (size_t i = 1; i < count && !name; i++)
        if (strcmp(sorted[i - 1]->name, sorted[i]->name) == 0)
            name = sorted[i]->name;
    free(sorted);
    return name;
}

static size_t count_params(const struct dt_zero *z)
{
    struct dt_param p;
    size_t n = 0;
    for (size_t unit = 0; unit < dt_zero_layout(z)->units; unit++)
        for (size_t i = 0; dt_zero_param(z, unit, i, &p); i++)
            n++;
    return n;
}

static int put(struct dt_tensor *t, const char *unit_name, const struct dt_param *p, bool with_unit,
               struct dt_err *err)
{
    int n = snprintf(t->name, sizeof t->name, "%s%s%s", with_unit ? unit_name : "",
                     with_unit ? "." : "", p->name);
    snprintf(t->unit_name, sizeof t->unit_name, "%s", unit_name);
    t->rank = 1;
    t->dims[0] = t->count = p->count;
    t->dims[1] = 1;
    t->decay = p->decay;
    if (n <= 0 || n >= (int)sizeof t->name)
        return dt_err_set(err, DT_E_USAGE,
                          "unit %s: a parameter in a checkpoint has a name of 1 to %zu bytes, "
                          "which \"%.40s\" has not",
                          unit_name, sizeof t->name - 1, t->name);
    return 0;
}

static int put_all(const struct dt_zero *z, struct dt_tensor *t, bool with_unit, struct dt_err *err)
{
    for (size_t unit = 0; unit < dt_zero_layout(z)->units; unit++) {
        const char *unit_name;
        struct dt_param p;
        size_t offset = 0;
        for (size_t i = 0; (unit_name = dt_zero_param(z, unit, i, &p)); i++, t++) {
            t->unit = unit;
            t->index = i;
            t->offset = offset;
            offset += p.count;
            if (put(t, unit_name, &p, with_unit, err) < 0)
                return -1;
        }
    }
    return 0;
}

int dt_ckpt_model_of(const struct dt_zero *z, struct dt_ckpt_model *out, struct dt_err *err)
{
    size_t count = count_params(z);
    struct dt_tensor *tensors = calloc(count, sizeof *tensors);
    bool failed = !tensors;
    const char *name = NULL;
    int rc = 0;
    if (tensors)
        rc = put_all(z, tensors, false, err);
    if (rc == 0 && tensors && twice(tensors, count, &failed)) {
        rc = put_all(z, tensors, true, err);
        name = rc == 0 ? twice(tensors, count, &failed) : NULL;
    }
    if (failed)
        rc = dt_err_set(err, DT_E_MEMORY, "no memory for the names of %zu tensors", count);
    else if (name)
        rc = dt_err_set(err, DT_E_USAGE,
                        "two parameters are named %s; give them names of their own", name);
    if (rc < 0) {
        free(tensors);
        tensors = NULL;
    }
    *out = (struct dt_ckpt_model){.tensors = tensors, .count = count};
    return rc;
}
