/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/report/folder.h"

#include "base/auto.h"
#include "base/fs.h"
#include "base/json.h"
#include "ctl/report/grow.h"
#include "ctl/report/metrics.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define FILE_MAX ((size_t)1 << 20)
#define TEXT_MAX 4096 /* of a cause or a sentence */

/* "" where there is no room: nothing has that name. */
__attribute__((format(printf, 2, 3))) static void put_path(char out[PATH_MAX], const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (vsnprintf(out, PATH_MAX, fmt, ap) >= PATH_MAX)
        *out = '\0';
    va_end(ap);
}

/* -- members of JSON that may be missing ------------------------------------------------------ */

static int read_json(const char *path, struct dt_json *doc)
{
    struct dt_buf text = {0};
    int rc = dt_fs_read(path, FILE_MAX, &text, NULL);
    if (rc == 0)
        rc = dt_json_parse(doc, dt_buf_cstr(&text), text.len, FILE_MAX, NULL);
    dt_buf_finish(&text);
    return rc;
}

/* Allocated; NULL: it is not there. */
static char *text_in(const struct dt_json *doc, const struct cJSON *object, const char *name)
{
    const char *text;
    if (!dt_json_has(object ? object : doc->root, name) ||
        dt_json_string(doc, object, name, &text, NULL) < 0)
        return NULL;
    return strndup(text, TEXT_MAX);
}

static int64_t number_in(const struct dt_json *doc, const struct cJSON *object, const char *name,
                         int64_t fallback)
{
    int64_t v;
    if (!dt_json_has(object ? object : doc->root, name) ||
        dt_json_int(doc, object, name, INT32_MIN, INT64_MAX / 2, &v, NULL) < 0)
        return fallback;
    return v;
}

static int64_t time_in(const struct dt_json *doc, const char *name)
{
    const char *text;
    if (!dt_json_has(doc->root, name) || dt_json_string(doc, NULL, name, &text, NULL) < 0)
        return DT_REPORT_UNKNOWN;
    return dt_report_time(text);
}

/* -- rounds/N.json ---------------------------------------------------------------------------- */

static int add_failures(struct dt_report_round *round, const struct dt_json *doc,
                        struct dt_err *err)
{
    const struct cJSON *array;
    if (dt_json_array(doc, NULL, "failed_here", &array, NULL) < 0)
        return 0;
    for (const struct cJSON *f = dt_json_first(array);
         f && round->failure_count < DT_REPORT_FAILURES_MAX; f = dt_json_next(f)) {
        struct dt_report_failure *more =
            dt_report_grow(round->failures, round->failure_count, sizeof *more, err);
        if (!more)
            return -1;
        round->failures = more;
        round->failures[round->failure_count++] =
            (struct dt_report_failure){.rank = number_in(doc, f, "rank", -1),
                                       .pid = number_in(doc, f, "pid", -1),
                                       .exit_code = number_in(doc, f, "exit_code", 0),
                                       .kind = text_in(doc, f, "class"),
                                       .text = text_in(doc, f, "text"),
                                       .place = text_in(doc, f, "place")};
    }
    return 0;
}

/* The one of that number; another node may have told of it. */
static struct dt_report_round *find_round(struct dt_report *r, int number, struct dt_err *err)
{
    for (size_t i = 0; i < r->round_count; i++)
        if (r->rounds[i].round == number)
            return &r->rounds[i];
    struct dt_report_round *more = dt_report_grow(r->rounds, r->round_count, sizeof *more, err);
    if (!more)
        return NULL;
    r->rounds = more;
    r->rounds[r->round_count] = (struct dt_report_round){.round = number,
                                                         .began_us = DT_REPORT_UNKNOWN,
                                                         .ended_us = DT_REPORT_UNKNOWN,
                                                         .told_step = -1};
    return &r->rounds[r->round_count++];
}

static void keep_text(char **kept, char *text)
{
    if (*kept)
        free(text);
    else
        *kept = text;
}

/* It begins with the first of its nodes and ends with the last one. */
static int take_round(struct dt_report *r, const struct dt_json *doc, int number,
                      struct dt_err *err)
{
    struct dt_report_round *round = find_round(r, number, err);
    if (!round)
        return -1;
    int64_t began = time_in(doc, "began"), ended = time_in(doc, "ended");
    int64_t step = number_in(doc, NULL, "step", -1);
    if (began != DT_REPORT_UNKNOWN &&
        (round->began_us == DT_REPORT_UNKNOWN || began < round->began_us))
        round->began_us = began;
    if (ended > round->ended_us)
        round->ended_us = ended;
    if (step > round->told_step)
        round->told_step = step;
    round->nodes = number_in(doc, NULL, "nodes", -1);
    round->ranks = number_in(doc, NULL, "ranks", -1);
    keep_text(&round->cause, text_in(doc, NULL, "cause"));
    keep_text(&round->decided, text_in(doc, NULL, "decided"));
    return add_failures(round, doc, err);
}

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
    int rc = 0;
    put_path(path, "%s/rounds", folder);
    DIR *dir = opendir(path);
    for (struct dirent *e; dir && rc == 0 && (e = readdir(dir));) {
        struct dt_json doc;
        int number = number_of(e->d_name);
        if (number < 0)
            continue;
        if (r->round_count == DT_REPORT_ROUNDS_MAX) {
            r->too_many = true;
            break;
        }
        put_path(path, "%s/rounds/%d.json", folder, number);
        if (read_json(path, &doc) < 0)
            continue;
        rc = take_round(r, &doc, number, err);
        dt_json_finish(&doc);
    }
    if (dir)
        closedir(dir);
    return rc;
}

/* -- attempt_N/verdict.json ------------------------------------------------------------------- */

static int take_hang(struct dt_report *r, const char *path, struct dt_err *err)
{
    struct dt_json doc;
    if (r->hang_count == DT_REPORT_HANGS_MAX || read_json(path, &doc) < 0)
        return 0;
    struct dt_report_hang *more = dt_report_grow(r->hangs, r->hang_count, sizeof *more, err);
    if (more) {
        r->hangs = more;
        r->hangs[r->hang_count++] =
            (struct dt_report_hang){.at_us = time_in(&doc, "time"),
                                    .kind = text_in(&doc, NULL, "class"),
                                    .sentence = text_in(&doc, NULL, "sentence"),
                                    .advice = text_in(&doc, NULL, "advice")};
    }
    dt_json_finish(&doc);
    return more ? 0 : -1;
}

static bool is_attempt(const char *name)
{
    return strncmp(name, "attempt_", 8) == 0;
}

/* They are numbered from the second on. */
static int read_hangs(struct dt_report *r, const char *folder, struct dt_err *err)
{
    char path[PATH_MAX];
    int rc = 0;
    DIR *dir = opendir(folder);
    for (struct dirent *e; dir && rc == 0 && (e = readdir(dir));) {
        if (!is_attempt(e->d_name))
            continue;
        for (int n = 1; rc == 0 && n <= DT_REPORT_HANGS_MAX; n++) {
            char which[16] = "";
            if (n > 1)
                snprintf(which, sizeof which, ".%d", n);
            put_path(path, "%s/%s/verdict%s.json", folder, e->d_name, which);
            if (!dt_fs_exists(path))
                break;
            rc = take_hang(r, path, err);
        }
    }
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

struct places {
    char *metrics, *save_dir; /* NULL: not told */
};

static void read_facts(struct dt_report *r, const char *folder, struct places *p)
{
    char path[PATH_MAX];
    struct dt_json doc;
    put_path(path, "%s/train.json", folder);
    if (read_json(path, &doc) < 0)
        return;
    p->metrics = text_in(&doc, NULL, "metrics");
    p->save_dir = text_in(&doc, NULL, "save_dir");
    keep_text(&r->model, text_in(&doc, NULL, "model"));
    keep_text(&r->device, text_in(&doc, NULL, "device"));
    r->steps_wanted = number_in(&doc, NULL, "steps", 0);
    dt_json_finish(&doc);
}

/* A folder may have been copied here from another machine, metrics and all. */
static const char *choose_metrics(const struct places *p, const char *folder, char *own)
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
static int read_own_metrics(struct dt_report *r, const char *run, const struct places *p,
                            struct dt_err *err)
{
    char own[PATH_MAX];
    struct dt_err why;
    const char *path = choose_metrics(p, run, own);
    if (!path || read_metrics(r, path, &why) == 0)
        return 0;
    if (why.code == DT_E_MEMORY)
        return dt_err_set(err, why.code, "%s", why.text);
    keep_text(&r->trouble, strdup(why.text));
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

static char *name_of(const char *folder)
{
    DT_AUTO_FREE char *whole = realpath(folder, NULL);
    const char *slash = whole ? strrchr(whole, '/') : NULL;
    return strdup(slash ? slash + 1 : folder);
}

int dt_report_folder_read(struct dt_report *r, const char *folder, const char *metrics,
                          const char *save_dir, struct dt_err *err)
{
    char run[PATH_MAX];
    struct places places = {0};
    int rc = find_run(folder, run, err);
    if (rc == 0) {
        keep_text(&r->name, name_of(run));
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
    free(places.metrics);
    free(places.save_dir);
    return rc;
}
