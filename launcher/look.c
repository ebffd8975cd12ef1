/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/look.h"

#include "agent/look/native.h"
#include "agent/look/print.h"
#include "base/say.h"

#include <stdio.h>
#include <stdlib.h>

/* Appends what is seen at process PID. */
static int look_at(pid_t pid, bool native, struct dt_json_writer *json, struct dt_buf *out,
                   struct dt_err *err)
{
    struct dt_look look;
    int rc = dt_look_at(&look, pid, err);
    if (rc == 0 && native)
        rc = dt_native_add(&look, err);
    if (rc == 0 && json)
        dt_look_put_json(&look, json);
    else if (rc == 0)
        dt_look_print(&look, out);
    dt_look_finish(&look);
    return rc;
}

int dt_launch_look(const struct dt_launch_options *o)
{
    struct dt_buf out = {0};
    struct dt_json_writer json = {.out = &out, .style = DT_JSON_SPACED, .lines = 4};
    int status = 0;
    if (o->json)
        dt_json_put_array(&json, NULL);
    for (size_t i = 0; i < o->look.len; i++) {
        struct dt_err err = {0};
        if (look_at(atoi(o->look.at[i]), o->native, o->json ? &json : NULL, &out, &err) == 0)
            continue;
        dt_say(o->program->name, err.text);
        status = dt_err_exit_status(&err);
    }
    if (o->json) {
        dt_json_put_end(&json);
        dt_buf_put_str(&out, "\n");
    }
    if (out.bad) {
        dt_say(o->program->name, "no memory for what was seen");
        status = 1;
    } else {
        fwrite(out.at, 1, out.len, stdout);
    }
    dt_buf_finish(&out);
    return status;
}
