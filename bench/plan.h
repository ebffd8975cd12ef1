/* SPDX-License-Identifier: Apache-2.0 */
/* What one measured operation consists of: a step or two, each a piece of preformatted request text
 * with exactly one answer. A load that mixes draws one of four operations each time. */
#ifndef BENCH_PLAN_H
#define BENCH_PLAN_H

#include "base/err.h"
#include "bench/wire.h"

enum op { OP_ADD, OP_SET, OP_GET, OP_SETGET, OP_COMPARE_SET, OP_MIX, OP_WAITWAKE, OP_FILL };

extern const char *const op_names[]; /* by enum op, NULL-terminated */

enum { PLAN_STEPS = 2, PLAN_MIX = 4 };

struct step {
    struct out text;
    enum answer_kind answer;
    size_t value; /* length that an ANSWER_VALUE must have */
};

struct plan {
    struct step step[PLAN_STEPS];
    unsigned steps;
};

struct plan_set {
    struct plan plan[PLAN_MIX];
    unsigned plans;
    bool reads_values; /* the keys of family 'v' have to exist beforehand */
    size_t longest;    /* of all steps */
};

/* Counters have family 'c', values 'v'. The caller ends the set with plan_set_finish(). */
int plan_set_init(struct plan_set *s, enum op op, const struct wire *w, struct key key,
                  size_t value_size, struct dt_err *err);
void plan_set_finish(struct plan_set *s);

#endif
