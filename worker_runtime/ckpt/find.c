/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/ckpt/inside.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/crc32c.h"
#include "base/fs.h"

#define CONFIG_MAX ((size_t)1 << 20)

static int read_manifest(const char *path, struct dt_manifest *m, struct dt_err *err)
{
    char file[PATH_MAX];
    struct dt_buf text = {0};
    if (dt_ckpt_join_path(file, path, DT_CKPT_STATE, err) < 0)
        return -1;
    int rc = dt_fs_read(file, DT_MANIFEST_MAX, &text, err);
    if (rc == 0 && dt_manifest_read(m, (struct dt_bytes){text.at, text.len}, err) < 0)
        rc = dt_err_wrap(err, "%s", file);
    if (rc < 0 && err && err->code != DT_E_MEMORY)
        err->code = DT_E_RUNTIME; /* the file's fault, never that of who asked */
    dt_buf_finish(&text);
    return rc;
}

static int check_sizes(const char *path, const struct dt_manifest *m, struct dt_err *err)
{
    for (int f = 0; f < DT_CKPT_FILES; f++) {
        char file[PATH_MAX];
        struct stat st;
        uint64_t bytes = m->files[f].bytes;
        if (!bytes)
            continue;
        if (dt_ckpt_join_path(file, path, dt_manifest_file_name(m, f), err) < 0)
            return -1;
        if (stat(file, &st) < 0)
            return dt_err_errno(err, DT_E_RUNTIME, errno, "%s", file);
        if ((uint64_t)st.st_size != bytes)
            return dt_err_set(err, DT_E_RUNTIME, "%s has %lld bytes and should have %" PRIu64, file,
                              (long long)st.st_size, bytes);
    }
    return 0;
}

static int check_config(const char *path, const struct dt_manifest *m, struct dt_buf *config,
                        struct dt_err *err)
{
    char file[PATH_MAX];
    const struct dt_ckpt_sums *s = &m->files[DT_FILE_CONFIG];
    if (!s->bytes)
        return 0;
    if (dt_ckpt_join_path(file, path, dt_manifest_file_name(m, DT_FILE_CONFIG), err) < 0 ||
        dt_fs_read(file, CONFIG_MAX, config, err) < 0)
        return -1;
    for (size_t i = 0; i < s->blocks; i++) {
        size_t at = i * (size_t)m->block_bytes, n = config->len > at ? config->len - at : 0;
        n = n < m->block_bytes ? n : (size_t)m->block_bytes;
        if (dt_crc32c(0, (struct dt_bytes){config->at + at, n}) != s->crc[i])
            return dt_err_set(err, DT_E_RUNTIME, "%s is damaged: its checksum is not right", file);
    }
    return 0;
}

int dt_ckpt_look(const char *path, struct dt_manifest *m, struct dt_buf *config, struct dt_err *err)
{
    struct dt_buf own = {0};
    if (read_manifest(path, m, err) < 0)
        return -1;
    int rc = check_sizes(path, m, err);
    if (rc == 0)
        rc = check_config(path, m, config ? config : &own, err);
    dt_buf_finish(&own);
    if (rc < 0)
        dt_manifest_finish(m);
    return rc;
}

static int check_step(const char *path, int64_t step, struct dt_err *err)
{
    struct dt_manifest m;
    if (dt_ckpt_look(path, &m, NULL, err) < 0)
        return -1;
    int64_t found = m.state.step;
    dt_manifest_finish(&m);
    if (found != step)
        return dt_err_set(err, DT_E_RUNTIME, "%s holds step %" PRId64, path, found);
    return 0;
}

/* The order to try in: the one `latest` names, those before it, and then those behind it, which a
 * run that went back has left. */
static void in_order(int64_t *steps, size_t count, int64_t latest)
{
    size_t higher = 0;
    while (higher < count && steps[higher] > latest)
        higher++;
    if (latest < 0 || higher == count)
        return;
    int64_t *all = malloc(count * sizeof *all);
    if (!all)
        return; /* the highest first, then */
    memcpy(all, steps, count * sizeof *all);
    memcpy(steps, all + higher, (count - higher) * sizeof *all);
    memcpy(steps + count - higher, all, higher * sizeof *all);
    free(all);
}

/* The first whole one from *I on. */
static int try_each(const char *dir, const int64_t *steps, size_t count, size_t i, char *out,
                    size_t size, struct dt_buf *warning, struct dt_err *err)
{
    struct dt_err why = {0};
    for (; i < count; i++) {
        char path[PATH_MAX];
        dt_ckpt_step_path(dir, steps[i], path);
        if (check_step(path, steps[i], &why) == 0) {
            if ((size_t)snprintf(out, size, "%s", path) >= size)
                return dt_err_set(err, DT_E_RUNTIME, "the path %.60s... is too long", path);
            return 0;
        }
        if (why.code == DT_E_MEMORY)
            return dt_err_set(err, why.code, "%s", why.text);
        if (warning)
            dt_buf_printf(warning, "%s\n", why.text);
    }
    if (!*why.text)
        return dt_err_set(err, DT_E_RUNTIME, "no older checkpoint is in %s", dir);
    return dt_err_set(err, DT_E_RUNTIME,
                      "no checkpoint in %s is whole (%s); give another folder to start anew", dir,
                      why.text);
}

int dt_ckpt_find_before(const char *dir, const char *before, char *out, size_t size,
                        struct dt_buf *warning, struct dt_err *err)
{
    int64_t *steps, latest = dt_ckpt_latest(dir), last;
    size_t count, i = 0;
    *out = '\0';
    if (dt_ckpt_steps(dir, &steps, &count, err) < 0)
        return -1;
    in_order(steps, count, latest);
    if (before) {
        const char *name = strrchr(before, '/');
        if (!dt_ckpt_step_of(name ? name + 1 : before, &last))
            last = -1;
        while (i < count && steps[i] != last)
            i++;
        i += i < count;
    } else if (latest >= 0 && (count == 0 || steps[0] != latest) && warning) {
        char path[PATH_MAX];
        dt_buf_printf(warning, "%s, which `latest` names, is not there\n",
                      dt_ckpt_step_path(dir, latest, path));
    }
    int rc = 0;
    if (count || before)
        rc = try_each(dir, steps, count, i, out, size, warning, err);
    free(steps);
    return rc;
}

int dt_ckpt_find(const char *dir, char *out, size_t size, struct dt_buf *warning,
                 struct dt_err *err)
{
    return dt_ckpt_find_before(dir, NULL, out, size, warning, err);
}

int dt_ckpt_peek(const char *path, struct dt_ckpt_state *s, struct dt_err *err)
{
    struct dt_manifest m;
    if (read_manifest(path, &m, err) < 0)
        return -1;
    *s = m.state;
    dt_manifest_finish(&m);
    return 0;
}
