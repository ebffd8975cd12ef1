/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json_write.h"
#include "base/str.h"
#include "base/utf8.h"
#include "ctl/commands.h"

static void put_json(const struct dt_ctl_options *o, const char *what, bool done, const char *why,
                     struct dt_buf *out)
{
    struct dt_json_writer w = {.out = out};
    dt_json_put_object(&w, NULL);
    dt_json_put_text(&w, what, o->name);
    dt_json_put_bool(&w, "done", done);
    dt_json_put_text(&w, "why", why);
    dt_json_put_end(&w);
    dt_buf_put_u8(out, '\n');
}

int dt_ctl_put_answer(const struct dt_ctl_options *o, const char *what, bool done, const char *why,
                      struct dt_buf *out, struct dt_err *err)
{
    char shown[DT_WHY_MAX];
    dt_str_printable(dt_bytes_of(why), shown, sizeof shown);
    if (o->json)
        put_json(o, what, done, why, out);
    else if (done)
        dt_buf_printf(out, "%s\n", shown);
    if (done)
        return 0;
    return dt_err_set(err, DT_E_RUNTIME, "%s: not done: %s", o->all ? "all nodes" : o->name, shown);
}

void dt_ctl_put_name(const char *name, struct dt_buf *out)
{
    dt_utf8_put_visible(out, name, "");
    dt_buf_put_u8(out, '\n');
}
