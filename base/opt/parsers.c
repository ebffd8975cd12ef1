/* SPDX-License-Identifier: Apache-2.0 */
/* Parsers for targets that need no words, and the end of what they own. */
#include "base/opt/opt.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

int dt_opt_flag(const char *value, void *bool_target, struct dt_err *err)
{
    return dt_str_to_bool(value, bool_target, err);
}

int dt_opt_string(const char *value, void *char_ptr_target, struct dt_err *err)
{
    char **target = char_ptr_target;
    char *copy = strdup(value);
    if (!copy)
        return dt_err_set(err, DT_E_MEMORY, "no memory");
    free(*target); /* of an earlier occurrence */
    *target = copy;
    return 0;
}

int dt_opt_append(const char *value, void *strings_target, struct dt_err *err)
{
    struct dt_opt_strings *target = strings_target;
    size_t len = target->len;
    if ((len & (len - 1)) == 0) { /* 0 or a power of two: full, as room is doubled */
        char **at = realloc(target->at, (len ? 2 * len : 1) * sizeof *at);
        if (!at)
            return dt_err_set(err, DT_E_MEMORY, "no memory");
        target->at = at;
    }
    if (!(target->at[len] = strdup(value)))
        return dt_err_set(err, DT_E_MEMORY, "no memory");
    target->len++;
    return 0;
}

int dt_opt_cidr(const char *value, void *cidrs_target, struct dt_err *err)
{
    struct dt_opt_cidrs *target = cidrs_target;
    size_t len = target->len;
    if ((len & (len - 1)) == 0) { /* as above */
        struct dt_cidr *at = realloc(target->at, (len ? 2 * len : 1) * sizeof *at);
        if (!at)
            return dt_err_set(err, DT_E_MEMORY, "no memory");
        target->at = at;
    }
    if (dt_cidr_parse(value, &target->at[len], err) < 0)
        return -1;
    target->len++;
    return 0;
}

int dt_opt_count(const char *value, void *int_target, struct dt_err *err)
{
    int64_t v;
    if (dt_str_to_int(value, 0, INT_MAX, &v, err) < 0)
        return -1;
    *(int *)int_target = (int)v;
    return 0;
}

int dt_opt_duration(const char *value, void *dt_ms_target, struct dt_err *err)
{
    return dt_str_to_duration(value, 0, DT_FOREVER, dt_ms_target, err);
}

int dt_opt_log_level(const char *value, void *dt_log_level_target, struct dt_err *err)
{
    return dt_log_level_from(value, dt_log_level_target, err);
}

int dt_opt_log_format(const char *value, void *dt_log_format_target, struct dt_err *err)
{
    return dt_log_format_from(value, dt_log_format_target, err);
}

void dt_opt_finish_string(void *char_ptr_target)
{
    char **s = char_ptr_target;
    free(*s);
    *s = NULL;
}

void dt_opt_finish_strings(void *strings_target)
{
    struct dt_opt_strings *s = strings_target;
    for (size_t i = 0; i < s->len; i++)
        free(s->at[i]);
    free(s->at);
    *s = (struct dt_opt_strings){0};
}

static void finish_cidrs(void *target)
{
    struct dt_opt_cidrs *list = target;
    free(list->at);
    *list = (struct dt_opt_cidrs){0};
}

void dt_opt_finish(const struct dt_opt_program *program, void *options)
{
    for (const struct dt_opt *o = program->table; o->name; o++) {
        void *target = (char *)options + o->at;
        if (o->finish)
            o->finish(target);
        else if (o->parse == dt_opt_append)
            dt_opt_finish_strings(target);
        else if (o->parse == dt_opt_cidr)
            finish_cidrs(target);
        else if (o->parse == dt_opt_string || (!o->parse && o->arg))
            dt_opt_finish_string(target);
    }
}
