/* SPDX-License-Identifier: Apache-2.0 */
/* dtrun-ctl alert test. */
#include "ctl/commands.h"
#include "ctl/wish.h"

#include "base/json_write.h"
#include "base/str.h"

#include <string.h>

/* Each receiver on a line. */
static void put_lines(const char *outcomes, struct dt_buf *out)
{
    for (const char *next; *outcomes; outcomes = next) {
        const char *end = strstr(outcomes, "; alerts ");
        char shown[DT_WHY_MAX];
        size_t len = end ? (size_t)(end - outcomes) : strlen(outcomes);
        struct dt_bytes line = {(const uint8_t *)outcomes, len};
        next = end ? end + 2 : outcomes + len;
        dt_buf_printf(out, "%s\n", dt_str_printable(line, shown, sizeof shown));
    }
}

static void put_json(bool done, const char *why, struct dt_buf *out)
{
    struct dt_json_writer w = {.out = out};
    dt_json_put_object(&w, NULL);
    dt_json_put_bool(&w, "done", done);
    dt_json_put_text(&w, "why", why);
    dt_json_put_end(&w);
    dt_buf_put_u8(out, '\n');
}

int dt_ctl_alert_test(const struct dt_ctl_options *o, struct dt_sync_control *c, struct dt_buf *out,
                      struct dt_err *err)
{
    struct dt_message answer, request = {.type = DT_MSG_ALERT};
    if (dt_ctl_wish(o, c, &request, &answer, err) < 0)
        return -1;
    bool done = answer.alert.done;
    if (o->json)
        put_json(done, answer.why, out);
    else
        put_lines(answer.why, out);
    dt_message_finish(&answer);
    return done ? 0
                : dt_err_set(err, DT_E_RUNTIME,
                             "alert test: it did not reach every receiver, or there is none; the "
                             "answer on stdout says why");
}
