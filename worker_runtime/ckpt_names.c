/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/ckpt_names.h"

#include "base/fs.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool dt_ckpt_step_of(const char *name, int64_t *step)
{
    char again[40];
    long long v;
    if (strncmp(name, DT_CKPT_STEP, strlen(DT_CKPT_STEP)) != 0)
        return false;
    errno = 0;
    v = strtoll(name + strlen(DT_CKPT_STEP), NULL, 10);
    snprintf(again, sizeof again, DT_CKPT_STEP "%08lld", v);
    if (errno || v < 0 || strcmp(again, name) != 0)
        return false;
    *step = v;
    return true;
}

const char *dt_ckpt_step_path(const char *dir, int64_t step, char out[PATH_MAX])
{
    snprintf(out, PATH_MAX, "%s/" DT_CKPT_STEP "%08" PRId64, dir, step);
    return out;
}

int64_t dt_ckpt_latest(const char *dir)
{
    char path[PATH_MAX];
    struct dt_buf text = {0};
    int64_t step = -1;
    if (snprintf(path, sizeof path, "%s/latest", dir) < (int)sizeof path &&
        dt_fs_read(path, 64, &text, NULL) == 0) {
        if (text.len && text.at[text.len - 1] == '\n')
            text.len--;
        if (!dt_ckpt_step_of(dt_buf_cstr(&text), &step))
            step = -1;
    }
    dt_buf_finish(&text);
    return step;
}

int64_t dt_ckpt_best(const char *dir)
{
    char path[PATH_MAX], name[64];
    int64_t step;
    ssize_t n = -1;
    if (snprintf(path, sizeof path, "%s/" DT_CKPT_BEST, dir) < (int)sizeof path)
        n = readlink(path, name, sizeof name - 1);
    if (n < 0)
        return -1;
    name[n] = '\0';
    return dt_ckpt_step_of(name, &step) ? step : -1;
}
