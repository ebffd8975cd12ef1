/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/hang/record.h"

#include "base/fs.h"

#include <stdio.h>

#define FILE_MODE 0644

static void put_verdict(struct dt_buf *out, int64_t wall_us, const struct dt_stances *all,
                        const struct dt_hang_finding *f)
{
    struct dt_json_writer w = {.out = out, .style = DT_JSON_SPACED, .lines = 3};
    char when[DT_CLOCK_TEXT];
    dt_clock_format(wall_us, when);
    dt_json_put_object(&w, NULL);
    dt_json_put_text(&w, "time", when);
    dt_json_put_text(&w, "class", dt_hang_class_name(f->class));
    dt_json_put_bool(&w, "guilty", f->guilty);
    dt_json_put_text(&w, "sentence", f->sentence);
    dt_json_put_text(&w, "advice", f->advice);
    dt_stances_put_json(all, "stances", &w);
    dt_json_put_end(&w);
    dt_buf_put_u8(out, '\n');
}

/* "FOLDER/verdict.json", of the second hang "FOLDER/verdict.2.json". */
static int write_file(const struct dt_log_dir *logs, const char *noun, int number, const char *end,
                      const struct dt_buf *text, char path[PATH_MAX], struct dt_err *err)
{
    char which[16] = "";
    if (number > 1)
        snprintf(which, sizeof which, ".%d", number);
    int n = snprintf(path, PATH_MAX, "%s/%s%s.%s", logs->attempt, noun, which, end);
    if (n >= PATH_MAX)
        return dt_err_set(err, DT_E_LIMIT, "%s: the name of the folder is too long", logs->attempt);
    if (text->bad)
        return dt_err_set(err, DT_E_MEMORY, "%s: no memory for it", path);
    return dt_fs_replace(path, text->at, text->len, FILE_MODE, err);
}

int dt_hang_record_write(const struct dt_log_dir *logs, int number, int64_t wall_us,
                         const struct dt_stances *all, const struct dt_hang_finding *f,
                         const struct dt_buf *stacks, char out[PATH_MAX], struct dt_err *err)
{
    struct dt_buf verdict = {0};
    char other[PATH_MAX];
    out[0] = '\0';
    if (!logs->attempt)
        return 0;
    put_verdict(&verdict, wall_us, all, f);
    int rc = write_file(logs, "stacks", number, "txt", stacks, other, err);
    if (rc == 0)
        rc = write_file(logs, "verdict", number, "json", &verdict, out, err);
    dt_buf_finish(&verdict);
    return rc;
}
