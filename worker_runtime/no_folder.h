/* SPDX-License-Identifier: Apache-2.0 */
/* Programs of Hugging Face's take OWNER/NAME in place of a folder, and download it. Nothing is
 * downloaded here, and whoever writes such a name wants to be told so. */
#ifndef DT_WORKER_RUNTIME_NO_FOLDER_H
#define DT_WORKER_RUNTIME_NO_FOLDER_H

#include "base/err.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

static inline bool dt_is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* Not one that may not be looked at. */
static inline bool dt_is_missing(const char *path)
{
    struct stat st;
    return stat(path, &st) < 0 && errno == ENOENT;
}

static inline bool dt_is_name_of_hub(const char *path)
{
    const char *slash = strchr(path, '/');
    return slash && slash > path && slash[1] && !strchr(slash + 1, '/') && *path != '.';
}

/* -1, and says that there is no folder PATH; of what may be a model of the hub, also how to get
 * it. */
static inline int dt_no_folder(const char *path, struct dt_err *err)
{
    if (!dt_is_name_of_hub(path))
        return dt_err_set(err, DT_E_USAGE, "there is no folder %.100s", path);
    return dt_err_set(err, DT_E_USAGE,
                      "there is no folder %.100s; nothing is downloaded here: fetch a model of "
                      "Hugging Face's by `hf download %.100s --local-dir FOLDER`, and name that",
                      path, path);
}

#endif
