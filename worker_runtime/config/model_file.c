/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/config/model_file.h"

#include "base/fs.h"

#include <stdio.h>
#include <sys/stat.h>

#define MODEL_FILE_MAX ((size_t)1 << 20)

static int read_file(struct dt_json *doc, const char *path, struct dt_err *err)
{
    struct dt_buf text = {0};
    int rc = dt_fs_read(path, MODEL_FILE_MAX, &text, err);
    if (rc < 0 && err)
        err->code = DT_E_USAGE; /* a person wrote the path */
    if (rc == 0) {
        rc = dt_json_parse(doc, (const char *)text.at, text.len, MODEL_FILE_MAX, err);
        if (rc == 0)
            rc = dt_json_no_duplicates(doc, err);
        if (rc < 0)
            dt_err_wrap(err, "%s", path);
    }
    if (rc < 0)
        dt_json_finish(doc);
    dt_buf_finish(&text);
    return rc;
}

int dt_model_file_read(struct dt_json *doc, const char *path, struct dt_err *err)
{
    struct stat st;
    char inside[4096];
    *doc = (struct dt_json){0};
    if (stat(path, &st) < 0 || !S_ISDIR(st.st_mode))
        return read_file(doc, path, err);
    if ((size_t)snprintf(inside, sizeof inside, "%s/config.json", path) >= sizeof inside)
        return dt_err_set(err, DT_E_USAGE, "the path %.60s... is too long", path);
    return read_file(doc, inside, err);
}
