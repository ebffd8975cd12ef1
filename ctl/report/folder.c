/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/report/folder.h"

#include "base/auto.h"
#include "base/fs.h"
#include "ctl/report/grow.h"
#include "ctl/report/metrics.h"
#include "ctl/report/notes.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* "" where there is no room: nothing has that name. */
__attribute__((format(printf, 2, 3))) static void put_path(char out[PATH_MAX], const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (vsnprintf(out, PATH_MAX, fmt, ap) >= PATH_MAX)
        *out = '\0';
    va_end(ap);
}

/* What cannot be read is empty, and makes no sense then. TEXT is to be finished. */
static struct dt_bytes read_note(const char *path, struct dt_buf *text)
{
    dt_buf_clear(text);
    dt_fs_read(path, DT_REPORT_NOTE_MAX, text, NULL);
    return (struct dt_bytes){text->at, text->len};
}

/* -- rounds/N.json ---------------------------------------------------------------------------- */

/* "12.json" */
static int number_of(const char *name)
{
    char *end;
    long n = strtol(name, &end, 10);
    bool fine = *name >= '0' && *name <= '9' && strcmp(end, ".json") == 0 && n < INT_MAX;
    return fine ? (int)n : -1;
}

static int read_rounds(struct dt_report *r, const char *folder, struct dt_err *err)
{
    char path[PATH_MAX];
    struct dt_buf text = {0};
    int rc = 0;
    put_path(path, "%s/rounds", folder);
    DIR *dir = opendir(path);
    for (struct dirent *e; dir && rc == 0 && (e = readdir(dir));) {
        int number = number_of(e->d_name);
        put_path(path, "%s/rounds/%d.json", folder, number);
        if (number >= 0)
            rc = dt_report_note_round(r, number, read_note(path, &text), err);
    }
    if (dir)
        closedir(dir);
    dt_buf_finish(&text);
    return rc;
}

/* -- attempt_N/verdict.json ------------------------------------------------------------------- */

static bool is_attempt(const char *name)
{
    return strncmp(name, "attempt_", 8) == 0;
}

/* They are numbered from the second on. */
static int read_hangs_of(struct dt_report *r, const char *folder, const char *attempt,
                         struct dt_err *err)
{
    char path[PATH_MAX];
    struct dt_buf text = {0};
    int rc = 0;
    for (int n = 1; rc == 0 && n <= DT_REPORT_HANGS_MAX; n++) {
        char which[16] = "";
        if (n > 1)
            snprintf(which, sizeof which, ".%d", n);
        put_path(path, "%s/%s/verdict%s.json", folder, attempt, which);
        if (!dt_fs_exists(path))
            break;
        rc = dt_report_note_hang(r, read_note(path, &text), err);
    }
    dt_buf_finish(&text);
    return rc;
}

static int read_hangs(struct dt_report *r, const char *folder, struct dt_err *err)
{
    int rc = 0;
    DIR *dir = opendir(folder);
    for (struct dirent *e; dir && rc == 0 && (e = readdir(dir));)
        if (is_attempt(e->d_name))
            rc = read_hangs_of(r, folder, e->d_name, err);
    if (dir)
        closedir(dir);
    return rc;
}

/* -- checkpoints ------------------------------------------------------------------------------ */

static uint64_t bytes_in(const char *folder)
{
    char path[PATH_MAX];
    struct stat st;
    uint64_t sum = 0;
    DIR *dir = opendir(folder);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        put_path(path, "%s/%s", folder, e->d_name);
        if (lstat(path, &st) == 0 && S_ISREG(st.st_mode))
            sum += (uint64_t)st.st_size;
    }
    if (dir)
        closedir(dir);
    return sum;
}

/* A folder of that name is whole: it gets the name last. */
static int take_save(struct dt_report *r, const char *save_dir, const char *name,
                     const char *latest, struct dt_err *err)
{
    char path[PATH_MAX], *end;
    struct stat st;
    struct dt_report_save s = {.step = strtoll(name + 5, &end, 10)};
    put_path(path, "%s/%s/state.json", save_dir, name);
    if (*end || end == name + 5 || s.step < 0 || stat(path, &st) < 0)
        return 0;
    s.at_us = (int64_t)st.st_mtim.tv_sec * 1000000 + st.st_mtim.tv_nsec / 1000;
    put_path(path, "%s/%s", save_dir, name);
    s.bytes = bytes_in(path);
    put_path(path, "%s/%s/optimizer", save_dir, name);
    s.bytes += bytes_in(path);
    s.latest = strcmp(name, latest) == 0;
    struct dt_report_save *more = dt_report_grow(r->saves, r->save_count, sizeof *more, err);
    if (!more)
        return -1;
    r->saves = more;
    r->saves[r->save_count++] = s;
    return 0;
}

static int read_saves(struct dt_report *r, const char *save_dir, struct dt_err *err)
{
    char path[PATH_MAX];
    struct dt_buf latest = {0};
    int rc = 0;
    if (r->save_dir)
        return 0; /* as another node said */
    r->save_dir = strdup(save_dir);
    put_path(path, "%s/latest", save_dir);
    dt_fs_read(path, NAME_MAX, &latest, NULL);
    char *name = strdup(dt_buf_cstr(&latest));
    dt_buf_finish(&latest);
    if (!name || !r->save_dir)
        rc = dt_err_set(err, DT_E_MEMORY, "no memory to read %s", save_dir);
    else
        name[strcspn(name, "\r\n")] = '\0';
    DIR *dir = opendir(save_dir);
    for (struct dirent *e; dir && rc == 0 && (e = readdir(dir));)
        if (strncmp(e->d_name, "step-", 5) == 0 && r->save_count < DT_REPORT_ROUNDS_MAX)
            rc = take_save(r, save_dir, e->d_name, name, err);
    if (dir)
        closedir(dir);
    free(name);
    return rc;
}

/* -- train.json, and what it names ------------------------------------------------------------ */

static char *name_of(const char *folder)
{
    DT_AUTO_FREE char *whole = realpath(folder, NULL);
    const char *slash = whole ? strrchr(whole, '/') : NULL;
    return strdup(slash ? slash + 1 : folder);
}

static void read_facts(struct dt_report *r, const char *folder, struct dt_report_places *p)
{
    char path[PATH_MAX];
    struct dt_buf text = {0};
    put_path(path, "%s/train.json", folder);
    dt_report_note_facts(r, read_note(path, &text), p);
    dt_buf_finish(&text);
    if (!r->name)
        r->name = name_of(folder);
}

/* A folder may have been copied here from another machine, metrics and all. */
static const char *choose_metrics(const struct dt_report_places *p, const char *folder, char *own)
{
    put_path(own, "%s/metrics.jsonl", folder);
    if (p->metrics && dt_fs_exists(p->metrics))
        return p->metrics;
    return dt_fs_exists(own) ? own : NULL;
}

static int read_metrics(struct dt_report *r, const char *path, struct dt_err *err)
{
    DT_AUTO_FREE char *redone = NULL;
    if (dt_report_metrics_read(r, path, false, err) < 0)
        return -1;
    if (asprintf(&redone, "%s.redone", path) < 0)
        redone = NULL;
    if (!redone)
        return dt_err_set(err, DT_E_MEMORY, "no memory to read %s", path);
    return dt_fs_exists(redone) ? dt_report_metrics_read(r, redone, true, err) : 0;
}

/* Those that the run names itself may be anything, or somebody else's: then the page says so. */
static int read_own_metrics(struct dt_report *r, const char *run, const struct dt_report_places *p,
                            struct dt_err *err)
{
    char own[PATH_MAX];
    struct dt_err why;
    const char *path = choose_metrics(p, run, own);
    if (!path || read_metrics(r, path, &why) == 0)
        return 0;
    if (why.code == DT_E_MEMORY)
        return dt_err_set(err, why.code, "%s", why.text);
    free(r->trouble);
    r->trouble = strdup(why.text);
    return 0;
}

/* -- which folder ----------------------------------------------------------------------------- */

static bool is_run(const char *folder)
{
    bool is = false;
    DIR *dir = opendir(folder);
    for (struct dirent *e; dir && !is && (e = readdir(dir));)
        is = is_attempt(e->d_name) || strcmp(e->d_name, "rounds") == 0;
    if (dir)
        closedir(dir);
    return is;
}

/* The one run in a folder of --log-dir, into RUN. */
static int find_run(const char *folder, char run[PATH_MAX], struct dt_err *err)
{
    char path[PATH_MAX];
    int found = 0;
    DIR *dir = opendir(folder);
    if (!dir)
        return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot read the folder %s", folder);
    put_path(run, "%s", folder);
    for (struct dirent *e; !is_run(folder) && found < 2 && (e = readdir(dir));) {
        put_path(path, "%s/%s", folder, e->d_name);
        if (*e->d_name == '.' || !is_run(path))
            continue;
        put_path(run, "%s", path);
        found++;
    }
    closedir(dir);
    if (found < 2)
        return 0;
    return dt_err_set(err, DT_E_USAGE, "%s holds several runs; name one, such as %s", folder, run);
}

int dt_report_folder_read(struct dt_report *r, const char *folder, const char *metrics,
                          const char *save_dir, struct dt_err *err)
{
    char run[PATH_MAX];
    struct dt_report_places places = {0};
    int rc = find_run(folder, run, err);
    if (rc == 0) {
        read_facts(r, run, &places);
        rc = read_rounds(r, run, err) < 0 ? -1 : read_hangs(r, run, err);
    }
    if (rc == 0 && metrics)
        rc = read_metrics(r, metrics, err);
    else if (rc == 0)
        rc = read_own_metrics(r, run, &places, err);
    if (!save_dir)
        save_dir = places.save_dir;
    if (rc == 0 && save_dir)
        rc = read_saves(r, save_dir, err);
    dt_report_places_finish(&places);
    return rc;
}
