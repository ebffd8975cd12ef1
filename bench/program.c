/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/program.h"

#include "base/buf.h"
#include "base/say.h"
#include "base/str.h"

#include <stdio.h>
#include <string.h>

int program_read(const struct dt_opt_program *p, int argc, char **argv, void *options,
                 struct dt_err *err)
{
    struct dt_opt_result result;
    if (dt_opt_parse(p, argc, argv, NULL, options, &result, err) < 0)
        return -1;
    if (result.help)
        dt_opt_help(p, stdout);
    return result.help;
}

int program_end(const struct dt_opt_program *p, int rc, const struct dt_err *err)
{
    if (rc >= 0)
        return 0;
    dt_say(p->name, err->text);
    return dt_err_exit_status(err);
}

int program_number(const char *value, unsigned long min, unsigned long max, unsigned long *out,
                   struct dt_err *err)
{
    int64_t v;
    if (dt_str_to_int(value, (int64_t)min, (int64_t)max, &v, err) < 0)
        return -1;
    *out = (unsigned long)v;
    return 0;
}

int program_seconds(const char *value, dt_ms min, dt_ms max, double *out, struct dt_err *err)
{
    dt_ms v;
    if (dt_str_to_duration(value, min, max, &v, err) < 0)
        return -1;
    *out = (double)v / DT_SECOND;
    return 0;
}

int program_choice(const char *value, const char *const *choices, int *out, struct dt_err *err)
{
    struct dt_buf list = {0};
    for (int i = 0; choices[i]; i++) {
        if (strcmp(choices[i], value) == 0) {
            *out = i;
            dt_buf_finish(&list);
            return 0;
        }
        dt_buf_put_str(&list, i ? ", " : "");
        dt_buf_put_str(&list, choices[i]);
    }
    dt_err_set(err, DT_E_USAGE, "\"%s\" is none of %s", value, dt_buf_cstr(&list));
    dt_buf_finish(&list);
    return -1;
}
