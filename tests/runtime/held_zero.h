/* SPDX-License-Identifier: Apache-2.0 */
/* A dt_zero in the place of the real one, for tests of who uses it. It keeps everything, writes
 * down every call, and what is given back turns to NaN: whoever still uses it shows.
 *
 * This file has the functions themselves, so a program includes it once, and the linker then takes
 * no others of that name. */
#ifndef DT_TESTS_RUNTIME_HELD_ZERO_H
#define DT_TESTS_RUNTIME_HELD_ZERO_H

#include <dtrun/zero.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct held_unit {
    size_t size;
    float *params, *lent; /* what is, and the copy that is out */
    float *grads, *sums;  /* the copy that is out, and all that was reduced */
    int holders;
    bool adding;
};

struct dt_zero {
    struct held_unit *unit;
    size_t units;
    char calls[4096]; /* "+0 -0 +1 ...": gathered, released; "~1" grads asked for, "=1" reduced */
    size_t gathers_left; /* before one fails; 0: none does */
};

static inline void held_say(struct dt_zero *z, char what, size_t unit)
{
    size_t at = strlen(z->calls);
    snprintf(z->calls + at, sizeof z->calls - at, "%s%c%zu", at ? " " : "", what, unit);
}

static inline void held_fill(float *x, size_t n, float value)
{
    for (size_t i = 0; i < n; i++)
        x[i] = value;
}

static inline struct dt_zero *held_create(const struct dt_unit *units, size_t count)
{
    struct dt_zero *z = calloc(1, sizeof *z);
    z->units = count;
    z->unit = calloc(count, sizeof *z->unit);
    for (size_t i = 0; i < count; i++) {
        struct held_unit *u = &z->unit[i];
        for (size_t k = 0; k < units[i].param_count; k++)
            u->size += units[i].params[k].count;
        u->params = calloc(u->size, sizeof *u->params);
        u->lent = calloc(u->size, sizeof *u->lent);
        u->grads = calloc(u->size, sizeof *u->grads);
        u->sums = calloc(u->size, sizeof *u->sums);
        held_fill(u->lent, u->size, NAN);
    }
    return z;
}

static inline void held_destroy(struct dt_zero *z)
{
    for (size_t i = 0; i < z->units; i++) {
        free(z->unit[i].params);
        free(z->unit[i].lent);
        free(z->unit[i].grads);
        free(z->unit[i].sums);
    }
    free(z->unit);
    free(z);
}

static inline void held_clear_grads(struct dt_zero *z)
{
    for (size_t i = 0; i < z->units; i++)
        held_fill(z->unit[i].sums, z->unit[i].size, 0);
    z->calls[0] = '\0';
}

/* Whether all that was asked for was given back. */
static inline bool held_all_back(const struct dt_zero *z)
{
    for (size_t i = 0; i < z->units; i++)
        if (z->unit[i].holders != 0 || z->unit[i].adding)
            return false;
    return true;
}

const void *dt_zero_gather(struct dt_zero *z, size_t unit, struct dt_err *err)
{
    struct held_unit *u = &z->unit[unit];
    held_say(z, '+', unit);
    if (z->gathers_left > 0 && --z->gathers_left == 0) {
        dt_err_set(err, DT_E_RUNTIME, "unit %zu is lost", unit);
        return NULL;
    }
    if (u->holders++ == 0)
        memcpy(u->lent, u->params, u->size * sizeof *u->lent);
    return u->lent;
}

void dt_zero_release(struct dt_zero *z, size_t unit)
{
    struct held_unit *u = &z->unit[unit];
    held_say(z, '-', unit);
    if (--u->holders == 0)
        held_fill(u->lent, u->size, NAN);
}

void *dt_zero_grads(struct dt_zero *z, size_t unit, struct dt_err *err)
{
    struct held_unit *u = &z->unit[unit];
    (void)err;
    held_say(z, '~', unit);
    if (!u->adding)
        held_fill(u->grads, u->size, 0);
    u->adding = true;
    return u->grads;
}

int dt_zero_reduce(struct dt_zero *z, size_t unit, struct dt_err *err)
{
    struct held_unit *u = &z->unit[unit];
    (void)err;
    held_say(z, '=', unit);
    for (size_t i = 0; i < u->size; i++)
        u->sums[i] += u->grads[i];
    held_fill(u->grads, u->size, NAN);
    u->adding = false;
    return 0;
}

#endif
