/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/telemetry/run_file.h"

#include "base/auto.h"
#include "base/fs.h"
#include "base/json_write.h"

static void put_path(struct dt_json_writer *w, const char *name, const char *path)
{
    DT_AUTO_FREE char *here = path && *path != '/' ? getcwd(NULL, 0) : NULL;
    struct dt_buf whole = {0};
    if (here)
        dt_buf_printf(&whole, "%s/", here);
    if (path)
        dt_buf_put_str(&whole, path);
    dt_json_put_text(w, name, path ? dt_buf_cstr(&whole) : NULL);
    w->out->bad = w->out->bad || whole.bad;
    dt_buf_finish(&whole);
}

int dt_run_file_write(const char *folder, const struct dt_run_facts *f, struct dt_err *err)
{
    struct dt_buf text = {0}, path = {0};
    struct dt_json_writer w = {.out = &text, .style = DT_JSON_SPACED, .lines = 1};
    dt_json_put_object(&w, NULL);
    dt_json_put_text(&w, "model", f->model);
    dt_json_put_text(&w, "device", f->device);
    put_path(&w, "metrics", f->metrics);
    put_path(&w, "save_dir", f->save_dir);
    dt_json_put_int(&w, "steps", f->steps);
    dt_json_put_end(&w);
    dt_buf_put_u8(&text, '\n');
    dt_buf_printf(&path, "%s/train.json", folder);
    const char *to = dt_buf_cstr(&path);
    int rc = text.bad || path.bad
                 ? dt_err_set(err, DT_E_MEMORY, "no memory to note what is trained in %s", folder)
                 : dt_fs_replace(to, text.at, text.len, 0644, err);
    dt_buf_finish(&text);
    dt_buf_finish(&path);
    return rc;
}
