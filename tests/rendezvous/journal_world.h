/* SPDX-License-Identifier: Apache-2.0 */
/* A journal in a folder of the test's own, on a loop of its own, and what it said. */
#ifndef DT_TESTS_RENDEZVOUS_JOURNAL_WORLD_H
#define DT_TESTS_RENDEZVOUS_JOURNAL_WORLD_H

#include "base/fs.h"
#include "base/log.h"
#include "rendezvous/journal/journal.h"
#include "tests/lib/check.h"
#include "tests/lib/folder.h"

#include <sys/stat.h>

/* Belongs into BEFORE_ALL. */
static inline void journal_world_begin(void)
{
    folder_make();
    dt_log_open("test", DT_LOG_ERROR, DT_LOG_TEXT); /* each cut is a warning, of some hundred */
}

struct world {
    uv_loop_t loop;
    struct dt_journal *j;
    struct dt_buf replayed; /* "key=value " of each */
    struct dt_buf told;     /* a letter for each sync: d(urable), or f(ailed) */
    bool closed;
};

static inline void on_replay(void *arg, struct dt_bytes key, struct dt_bytes value)
{
    struct world *w = arg;
    int shown = value.len > 40 ? 4 : (int)value.len;
    dt_buf_printf(&w->replayed, "%.*s=%.*s", (int)key.len, (const char *)key.at, shown,
                  (const char *)value.at);
    if (value.len > 40)
        dt_buf_printf(&w->replayed, "..%zu", value.len);
    dt_buf_put_str(&w->replayed, " ");
}

static inline void try_open(struct world *w, const char *name, struct dt_err *err)
{
    *w = (struct world){0};
    uv_loop_init(&w->loop);
    w->j = dt_journal_open(&w->loop, at(name), on_replay, w, err);
}

static inline void world_open(struct world *w, const char *name)
{
    struct dt_err err = {0};
    try_open(w, name, &err);
    CHECK_STR(err.text, "");
    CHECK(w->j != NULL);
}

static inline void on_closed(void *arg)
{
    ((struct world *)arg)->closed = true;
}

static inline void world_close(struct world *w)
{
    bool was_open = w->j != NULL;
    dt_journal_close(w->j, on_closed, w);
    CHECK(!w->closed);
    uv_run(&w->loop, UV_RUN_DEFAULT);
    CHECK_EQ(w->closed, was_open);
    CHECK_EQ(uv_loop_close(&w->loop), 0);
    dt_buf_finish(&w->replayed);
    dt_buf_finish(&w->told);
}

/* What a journal gives back when it is opened now. */
static inline void check_replays(const char *name, const char *wanted)
{
    struct world w;
    world_open(&w, name);
    CHECK_STR(dt_buf_cstr(&w.replayed), wanted);
    world_close(&w);
}

static inline void check_refused(const char *name, const char *words)
{
    struct world w;
    struct dt_err err = {0};
    try_open(&w, name, &err);
    CHECK_FAIL(w.j ? 0 : -1, err, words);
    world_close(&w);
}

static inline void put(struct world *w, const char *key, const char *value)
{
    struct dt_err err = {0};
    CHECK_OK(dt_journal_put(w->j, dt_bytes_of(key), dt_bytes_of(value), &err), err);
}

/* A value of LEN times the letter x. */
static inline int put_letters(struct world *w, const char *key, size_t len, struct dt_err *err)
{
    uint8_t *letters = malloc(len);
    CHECK(letters != NULL);
    memset(letters, 'x', len);
    int rc = dt_journal_put(w->j, dt_bytes_of(key), (struct dt_bytes){letters, len}, err);
    free(letters);
    return rc;
}

static inline void put_big(struct world *w, const char *key, size_t len)
{
    struct dt_err err = {0};
    CHECK_OK(put_letters(w, key, len, &err), err);
}

static inline void on_durable(void *arg, const struct dt_err *err)
{
    dt_buf_put_str(&((struct world *)arg)->told, err ? "f" : "d");
}

static inline void sync_now(struct world *w)
{
    struct dt_err err = {0};
    CHECK_OK(dt_journal_sync(w->j, on_durable, w, &err), err);
}

static inline void check_told(struct world *w, const char *letters)
{
    uv_run(&w->loop, UV_RUN_DEFAULT);
    CHECK_STR(dt_buf_cstr(&w->told), letters);
    dt_buf_clear(&w->told);
}

static inline const char *journal_of(const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "%s/journal", name);
    return at(path);
}

static inline off_t size_of(const char *path)
{
    struct stat st;
    return stat(path, &st) < 0 ? -1 : st.st_size;
}

static inline mode_t mode_of(const char *path)
{
    struct stat st;
    return stat(path, &st) < 0 ? 0 : st.st_mode & 07777;
}

/* NAME's journal is these bytes now, and nothing was ever saved beside it. */
static inline void plant(const char *name, const uint8_t *bytes, size_t len)
{
    struct dt_err err = {0};
    CHECK_OK(dt_fs_mkdir_p(at(name), 0700, &err), err);
    CHECK_OK(dt_fs_replace(journal_of(name), bytes, len, 0600, &err), err);
}

static inline struct dt_buf bytes_of(const char *path)
{
    struct dt_buf b = {0};
    struct dt_err err = {0};
    CHECK_OK(dt_fs_read(path, SIZE_MAX, &b, &err), err);
    return b;
}

#endif
