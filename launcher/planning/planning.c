/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/planning/inside.h"

#include "launcher/number.h"
#include "launcher/words.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int dt_planning_fail(struct dt_planning *c, const char *option, const char *fmt, ...)
{
    char text[sizeof c->err->text], written[128];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    dt_opt_written(c->o->program, &c->o->result, option, written, sizeof written);
    return dt_err_set(c->err, DT_E_RUNTIME, "%s: %s", written, text);
}

int dt_planning_wrap(struct dt_planning *c, const char *option)
{
    char written[128];
    dt_opt_written(c->o->program, &c->o->result, option, written, sizeof written);
    return dt_err_wrap(c->err, "%s", written);
}

int dt_planning_ignore(struct dt_planning *c, const char *option, const char *fmt, ...)
{
    char text[512], written[128];
    if (!dt_launch_options_gave(c->o, option))
        return 0;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    dt_opt_written(c->o->program, &c->o->result, option, written, sizeof written);
    return dt_words_push(&c->plan->ignored, c->err, "%s has no effect: %s", written, text);
}

int dt_planning_needless(struct dt_planning *c, const char *option, const char *why)
{
    char written[128];
    if (!dt_launch_options_gave(c->o, option))
        return 0;
    dt_opt_written(c->o->program, &c->o->result, option, written, sizeof written);
    return dt_words_push(&c->plan->needless, c->err, "%s has no effect: %s", written, why);
}

int dt_planning_set(struct dt_planning *c, char **field, const char *text)
{
    *field = text ? strdup(text) : NULL;
    return text && !*field ? dt_err_set(c->err, DT_E_MEMORY, "no memory for the plan") : 0;
}

const char *dt_planning_env(const struct dt_planning *c, const char *name)
{
    const char *value = dt_facts_env(c->facts, name);
    return value && *value ? value : NULL;
}

int dt_planning_env_number(const struct dt_planning *c, const char *const *names, int least,
                           int none)
{
    for (; *names; names++) {
        const char *text = dt_planning_env(c, *names);
        int64_t n;
        if (text && dt_number_int(text, &n, NULL) == 0 && n >= least && n <= DT_NODES_WISHED_MOST)
            return (int)n;
    }
    return none;
}

/* dtrun-launch is torch.distributed.launch, which has been on its way out for long. */
static int note_legacy(struct dt_planning *c)
{
    if (c->o->program != &dt_legacy_program)
        return 0;
    return dt_words_push(c->warnings, c->err,
                         "%s stands in for the deprecated torch.distributed.launch; use %s%s",
                         dt_legacy_program.name, dt_launch_program.name,
                         c->o->use_env ? ""
                                       : ", and read the local rank from LOCAL_RANK instead of an "
                                         "argument --local-rank");
}

int dt_plan_make(const struct dt_launch_options *options, const struct dt_facts *facts,
                 struct dt_plan *plan, char ***warnings, struct dt_err *err)
{
    struct dt_planning c = {options, facts, plan, warnings, err};
    if (note_legacy(&c) < 0 || dt_planning_workers(&c) < 0 || dt_planning_nodes(&c) < 0 ||
        dt_planning_ending(&c) < 0 || dt_planning_output(&c) < 0 || dt_planning_watching(&c) < 0 ||
        dt_planning_uploads(&c) < 0 || dt_planning_nccl(&c) < 0 || dt_planning_command(&c) < 0 ||
        dt_planning_flight(&c) < 0 || dt_planning_elastic(&c) < 0)
        return -1;
    return 0;
}
