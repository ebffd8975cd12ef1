/* SPDX-License-Identifier: Apache-2.0 */
/* --rdzv-conf: KEY=VALUE,KEY=VALUE. Pure. */
#ifndef DT_LAUNCHER_PLANNING_RDZV_CONF_H
#define DT_LAUNCHER_PLANNING_RDZV_CONF_H

#include "base/clock.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

struct dt_rdzv_pair {
    const char *key, *value;
};

/* Zeroed memory is an empty one. */
struct dt_rdzv_conf {
    char *text; /* what the pairs point into */
    struct dt_rdzv_pair *at;
    size_t len;
};

/* Mistakes are DT_E_RUNTIME: torchrun, too, finds them after parsing. Copies TEXT. */
int dt_rdzv_conf_parse(const char *text, struct dt_rdzv_conf *out, struct dt_err *err);
void dt_rdzv_conf_finish(struct dt_rdzv_conf *c);

/* The last value of KEY, or NULL. */
const char *dt_rdzv_conf_find(const struct dt_rdzv_conf *c, const char *key);

/* Whole seconds, more than 0; *OUT stays where KEY is absent. */
int dt_rdzv_conf_seconds(const struct dt_rdzv_conf *c, const char *key, dt_ms *out,
                         struct dt_err *err);
int dt_rdzv_conf_bool(const struct dt_rdzv_conf *c, const char *key, bool *out, struct dt_err *err);

#endif
