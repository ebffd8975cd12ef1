/* SPDX-License-Identifier: Apache-2.0 */
#include "base/upload/command.h"

#include "base/auto.h"
#include "base/command.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#define VARIABLES 3

static int make_variables(const struct dt_upload_command *c, const char *path,
                          char *variables[VARIABLES])
{
    static const char *const names[VARIABLES] = {"FILE", "KEY", "URL"};
    const char *const values[VARIABLES] = {path, c->key, c->url ? c->url : ""};
    for (size_t i = 0; i < VARIABLES; i++)
        if (asprintf(&variables[i], "DTRUN_UPLOAD_%s=%s", names[i], values[i]) < 0) {
            variables[i] = NULL;
            return -1;
        }
    return 0;
}

int dt_upload_command_run(const struct dt_upload_command *c, struct dt_err *err)
{
    DT_AUTO_FREE char *path = realpath(c->file, NULL);
    if (!path)
        return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot find %s", c->file);
    char *variables[VARIABLES] = {0};
    const struct dt_command command = {.name = "the upload command",
                                       .text = c->text,
                                       .variables = variables,
                                       .variables_count = VARIABLES,
                                       .stop = c->stop};
    int rc = make_variables(c, path, variables) < 0
                 ? dt_err_set(err, DT_E_MEMORY, "no memory for the upload command")
                 : dt_command_run(&command, err);
    for (size_t i = 0; i < VARIABLES; i++)
        free(variables[i]);
    return rc == 0 ? 0 : dt_err_wrap(err, "%s", c->key);
}
