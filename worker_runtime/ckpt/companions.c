/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/ckpt/companions.h"

#include "base/fs.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#define FILE_MAX ((size_t)256 << 20)

static const char *const names[DT_COMPANIONS] = {
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "tokenizer.model",
    "chat_template.jinja",
};

static int make_path(char out[PATH_MAX], const char *dir, int i, struct dt_err *err)
{
    if (snprintf(out, PATH_MAX, "%s/%s", dir, names[i]) >= PATH_MAX)
        return dt_err_set(err, DT_E_RUNTIME, "the path %.60s... is too long", dir);
    return 0;
}

int dt_companions_read(struct dt_companions *c, const char *dir, struct dt_err *err)
{
    dt_companions_finish(c);
    return dt_companions_add(c, dir, err);
}

int dt_companions_add(struct dt_companions *c, const char *dir, struct dt_err *err)
{
    char path[PATH_MAX];
    for (int i = 0; i < DT_COMPANIONS; i++) {
        if (make_path(path, dir, i, err) < 0)
            return -1;
        if (!dt_fs_exists(path))
            continue;
        dt_buf_finish(&c->file[i]);
        if (dt_fs_read(path, FILE_MAX, &c->file[i], err) < 0)
            return -1;
    }
    return 0;
}

int dt_companions_remove_others(const struct dt_companions *c, const char *dir, struct dt_buf *said,
                                struct dt_err *err)
{
    char path[PATH_MAX];
    for (int i = 0; i < DT_COMPANIONS; i++) {
        if (c->file[i].len > 0)
            continue;
        if (make_path(path, dir, i, err) < 0)
            return -1;
        if (unlink(path) == 0)
            dt_buf_printf(said, "%s%s", said->len ? ", " : "", names[i]);
        else if (errno != ENOENT)
            return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot remove %s", path);
    }
    return 0;
}

int dt_companions_write(const struct dt_companions *c, const char *dir, struct dt_err *err)
{
    char path[PATH_MAX];
    for (int i = 0; i < DT_COMPANIONS; i++) {
        const struct dt_buf *b = &c->file[i];
        if (b->len == 0)
            continue;
        if (make_path(path, dir, i, err) < 0 || dt_fs_replace(path, b->at, b->len, 0644, err) < 0)
            return -1;
    }
    return 0;
}

void dt_companions_finish(struct dt_companions *c)
{
    for (int i = 0; i < DT_COMPANIONS; i++)
        dt_buf_finish(&c->file[i]);
}
