/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/config/model_file.h"

#include "base/fs.h"
#include "worker_runtime/ckpt_names.h"
#include "worker_runtime/no_folder.h"

#include <stdio.h>
#include <string.h>

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

static int join(char out[PATH_MAX], const char *folder, struct dt_err *err)
{
    if (snprintf(out, PATH_MAX, "%s/config.json", folder) >= PATH_MAX)
        return dt_err_set(err, DT_E_USAGE, "the path %.60s... is too long", folder);
    return 0;
}

/* It may be one of a file, too. */
static bool is_name_of_model(const char *path)
{
    size_t len = strlen(path);
    return dt_is_name_of_hub(path) && (len < 5 || strcmp(path + len - 5, ".json") != 0);
}

/* PATH, or where that has no model and is a folder of checkpoints, the newest of them. */
static const char *folder_of_model(const char *path, char room[PATH_MAX])
{
    int64_t latest = dt_ckpt_latest(path);
    if (latest < 0 ||
        (snprintf(room, PATH_MAX, "%s/config.json", path) < PATH_MAX && dt_fs_exists(room)))
        return path;
    return dt_ckpt_step_path(path, latest, room);
}

int dt_model_file_read(struct dt_json *doc, const char *path, struct dt_err *err)
{
    char inside[PATH_MAX], room[PATH_MAX];
    *doc = (struct dt_json){0};
    if (!*path)
        return dt_err_set(err, DT_E_USAGE,
                          "the name is empty; give a model's folder, or its "
                          "config.json");
    if (dt_is_missing(path) && is_name_of_model(path))
        return dt_no_folder(path, err);
    if (!dt_is_folder(path))
        return read_file(doc, path, err);
    path = folder_of_model(path, room);
    if (join(inside, path, err) < 0)
        return -1;
    if (dt_is_missing(inside))
        return dt_err_set(err, DT_E_USAGE,
                          "there is no config.json in %.100s, and no `latest` that names a "
                          "checkpoint; name the folder of a model",
                          path);
    return read_file(doc, inside, err);
}
