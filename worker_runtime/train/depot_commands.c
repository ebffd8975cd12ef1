/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/train/depot_commands.h"

#include "base/str.h"
#include "base/utf8.h"
#include "worker_runtime/ckpt/upload/fetch.h"

#include <inttypes.h>
#include <string.h>

/* A depot, and the step in it that a person means; -1: none. */
struct place {
    struct dt_depot *depot;
    struct dt_depot_list files;
    struct dt_shelf shelf;
    int64_t step;
};

/* Cuts the name of a checkpoint off URL's end. */
static int64_t cut_step(struct dt_url *url)
{
    char key[64];
    int64_t step;
    const char *name;
    char *slash = strrchr(url->path, '/'), *last = slash ? slash + 1 : url->path;
    snprintf(key, sizeof key, "%.40s/-", last);
    if (strlen(last) > 40 || !dt_shelf_key(key, &step, &name))
        return -1;
    *(slash ? slash : last) = '\0';
    return step;
}

static void close_place(struct place *p)
{
    dt_shelf_finish(&p->shelf);
    dt_depot_list_finish(&p->files);
    dt_depot_close(p->depot);
}

static int open_place(struct place *p, const char *text, struct dt_err *err)
{
    struct dt_url url;
    char whole[DT_URL_TEXT];
    *p = (struct place){.step = -1};
    if (dt_url_parse(text, &url, err) < 0)
        return -1;
    p->step = cut_step(&url);
    struct dt_depot_options o = {.url = dt_url_text(&url, NULL, whole, sizeof whole)};
    p->depot = dt_depot_open(&o, err);
    if (p->depot && dt_shelf_look(p->depot, &p->files, &p->shelf, err) == 0)
        return 0;
    close_place(p);
    return -1;
}

static const struct dt_shelved *find(const struct place *p, int64_t step)
{
    for (size_t i = 0; i < p->shelf.count; i++)
        if (p->shelf.at[i].step == step)
            return &p->shelf.at[i];
    return NULL;
}

static int fail_missing(const struct place *p, struct dt_err *err)
{
    return dt_err_set(err, DT_E_RUNTIME, "there is no step-%08" PRId64 " in %s", p->step,
                      dt_depot_name(p->depot));
}

/* -- ls --------------------------------------------------------------------------------------- */

static void print_checkpoints(const struct place *p, FILE *out)
{
    char size[32];
    for (size_t i = p->shelf.count; i-- > 0;) {
        const struct dt_shelved *c = &p->shelf.at[i];
        dt_str_from_size(c->bytes, size, sizeof size);
        fprintf(out, "step-%08" PRId64 "  %10s  %zu file%s%s%s\n", c->step, size, c->files,
                c->files == 1 ? "" : "s", c->step == p->shelf.latest ? ", latest" : "",
                c->whole ? "" : ", not whole");
    }
}

static int print_files(const struct place *p, FILE *out, struct dt_err *err)
{
    char size[32];
    if (!find(p, p->step))
        return fail_missing(p, err);
    for (size_t i = 0; i < p->files.count; i++) {
        int64_t step;
        const char *name;
        if (!dt_shelf_key(p->files.at[i].key, &step, &name) || step != p->step)
            continue;
        dt_str_from_size(p->files.at[i].bytes, size, sizeof size);
        struct dt_buf shown = {0}; /* whoever may write there chooses the names */
        dt_utf8_put_visible(&shown, name, "");
        fprintf(out, "%10s  %s\n", size, dt_buf_cstr(&shown));
        dt_buf_finish(&shown);
    }
    return 0;
}

int dt_depot_ls(const char *url, FILE *out, struct dt_err *err)
{
    struct place p;
    int rc = 0;
    if (open_place(&p, url, err) < 0)
        return -1;
    if (p.step >= 0)
        rc = print_files(&p, out, err);
    else
        print_checkpoints(&p, out);
    close_place(&p);
    return rc;
}

/* -- fetch ------------------------------------------------------------------------------------ */

static int choose(struct place *p, struct dt_err *err)
{
    if (p->step < 0) {
        p->step = dt_shelf_next(&p->shelf, -1);
        return p->step >= 0 ? 0
                            : dt_err_set(err, DT_E_RUNTIME, "%s holds no whole checkpoint",
                                         dt_depot_name(p->depot));
    }
    const struct dt_shelved *c = find(p, p->step);
    if (!c)
        return fail_missing(p, err);
    return c->whole ? 0
                    : dt_err_set(err, DT_E_RUNTIME,
                                 "step-%08" PRId64 " in %s is not whole: its upload was not "
                                 "finished",
                                 p->step, dt_depot_name(p->depot));
}

int dt_depot_fetch(const char *url, const char *dir, FILE *out, struct dt_err *err)
{
    struct place p;
    char path[PATH_MAX];
    if (open_place(&p, url, err) < 0)
        return -1;
    int rc = choose(&p, err);
    if (rc == 0) {
        struct dt_fetch f = {.depot = p.depot, .dir = dir, .step = p.step};
        rc = dt_fetch_alone(&f, path, err);
    }
    if (rc == 0)
        fprintf(out, "%s: every byte is as it was written\n", path);
    close_place(&p);
    return rc;
}

/* -- rm --------------------------------------------------------------------------------------- */

static int remove_one(struct place *p, FILE *out, struct dt_err *err)
{
    if (p->step < 0)
        return dt_err_set(err, DT_E_USAGE,
                          "%s: which checkpoint? Name one, as in %s/step-00000100; dtrun-train ls "
                          "shows them",
                          dt_depot_name(p->depot), dt_depot_name(p->depot));
    const struct dt_shelved *c = find(p, p->step);
    if (!c)
        return fail_missing(p, err);
    if (dt_shelf_remove(p->depot, &p->files, p->step, err) < 0)
        return -1;
    fprintf(out, "%s/step-%08" PRId64 ": removed, %zu file%s\n", dt_depot_name(p->depot), p->step,
            c->files, c->files == 1 ? "" : "s");
    return 0;
}

int dt_depot_rm(const char *url, FILE *out, struct dt_err *err)
{
    struct place p;
    if (open_place(&p, url, err) < 0)
        return -1;
    int rc = remove_one(&p, out, err);
    close_place(&p);
    return rc;
}
