/* SPDX-License-Identifier: Apache-2.0 */
#include "base/upload/depot.h"

#include "base/upload/command.h"

#include <stdlib.h>
#include <string.h>

struct dt_depot {
    struct dt_transfer *transfer; /* NULL: COMMAND runs instead */
    char *command;
    bool placed; /* URL is one */
    struct dt_url url;
    char name[DT_URL_TEXT];
    const atomic_bool *stop;
};

static int open_one(struct dt_depot *d, const struct dt_depot_options *o, struct dt_err *err)
{
    struct dt_transfer_options t = {.bandwidth = o->bandwidth, .stop = o->stop};
    if (o->url && dt_url_parse(o->url, &d->url, err) < 0)
        return -1;
    d->placed = o->url != NULL;
    if (d->placed)
        dt_url_text(&d->url, NULL, d->name, sizeof d->name);
    if (o->command) {
        d->command = strdup(o->command);
        return d->command ? 0 : dt_err_set(err, DT_E_MEMORY, "no memory for uploads");
    }
    d->transfer = dt_transfer_open(o->url, &t, err);
    return d->transfer ? 0 : -1;
}

struct dt_depot *dt_depot_open(const struct dt_depot_options *o, struct dt_err *err)
{
    struct dt_depot *d = calloc(1, sizeof *d);
    if (!d) {
        dt_err_set(err, DT_E_MEMORY, "no memory for uploads");
        return NULL;
    }
    d->stop = o->stop;
    if (open_one(d, o, err) == 0)
        return d;
    dt_depot_close(d);
    return NULL;
}

void dt_depot_close(struct dt_depot *d)
{
    if (!d)
        return;
    dt_transfer_close(d->transfer);
    free(d->command);
    free(d);
}

const char *dt_depot_name(const struct dt_depot *d)
{
    return d->placed ? d->name : d->command;
}

struct dt_transfer *dt_depot_transfer(struct dt_depot *d)
{
    return d->transfer;
}

static int run_command(struct dt_depot *d, const char *path, const char *key, struct dt_err *err)
{
    char url[DT_URL_TEXT];
    struct dt_upload_command c = {
        .text = d->command,
        .file = path,
        .key = key,
        .url = d->placed ? dt_url_text(&d->url, key, url, sizeof url) : NULL,
        .stop = d->stop,
    };
    return dt_upload_command_run(&c, err);
}

int dt_depot_put(struct dt_depot *d, const char *path, const char *key, struct dt_err *err)
{
    return d->transfer ? dt_transfer_put_file(d->transfer, key, path, err)
                       : run_command(d, path, key, err);
}

/* -- batches ---------------------------------------------------------------------------------- */

int dt_depot_batch_add(struct dt_depot_batch *b, const char *path, const char *key,
                       const uint32_t *crc, struct dt_err *err)
{
    struct dt_transfer_file *more = b->at;
    if ((b->count & (b->count - 1)) == 0) /* at each power of two, twice the room */
        more = reallocarray(b->at, b->count ? 2 * b->count : 1, sizeof *b->at);
    if (more)
        b->at = more;
    char *path_copy = more ? strdup(path) : NULL, *key_copy = more ? strdup(key) : NULL;
    if (path_copy && key_copy) {
        b->at[b->count++] = (struct dt_transfer_file){
            .path = path_copy, .key = key_copy, .knows_crc = crc != NULL, .crc = crc ? *crc : 0};
        return 0;
    }
    free(path_copy);
    free(key_copy);
    return dt_err_set(err, DT_E_MEMORY, "no memory for the names of %zu files", b->count + 1);
}

int dt_depot_put_all(struct dt_depot *d, struct dt_depot_batch *b, struct dt_err *err)
{
    if (d->transfer)
        return dt_transfer_put_files(d->transfer, b->at, b->count, err);
    for (size_t i = 0; i < b->count; i++)
        if (run_command(d, b->at[i].path, b->at[i].key, err) < 0)
            return -1;
    return 0;
}

void dt_depot_batch_finish(struct dt_depot_batch *b)
{
    for (size_t i = 0; i < b->count; i++) {
        free((char *)b->at[i].path);
        free((char *)b->at[i].key);
    }
    free(b->at);
    *b = (struct dt_depot_batch){0};
}

/* -- lists ------------------------------------------------------------------------------------ */

int dt_depot_list_add(struct dt_depot_list *l, const char *key, uint64_t bytes, struct dt_err *err)
{
    struct dt_depot_file *more = l->at;
    if (l->count == DT_DEPOT_FILES_MAX)
        return dt_err_set(err, DT_E_LIMIT, "there are more than %zu files", DT_DEPOT_FILES_MAX);
    if ((l->count & (l->count - 1)) == 0) /* at each power of two, twice the room */
        more = reallocarray(l->at, l->count ? 2 * l->count : 1, sizeof *l->at);
    if (more)
        l->at = more;
    char *copy = more ? strdup(key) : NULL;
    if (!copy)
        return dt_err_set(err, DT_E_MEMORY, "no memory for the names of %zu files", l->count);
    l->at[l->count++] = (struct dt_depot_file){copy, bytes};
    return 0;
}

static int on_object(void *arg, const struct dt_object *object, struct dt_err *err)
{
    return object->folder ? 0 : dt_depot_list_add(arg, object->key, object->size, err);
}

int dt_depot_list(struct dt_depot *d, const char *prefix, struct dt_depot_list *out,
                  struct dt_err *err)
{
    *out = (struct dt_depot_list){0};
    if (dt_transfer_list(d->transfer, prefix, true, on_object, out, err) == 0)
        return 0;
    dt_depot_list_finish(out);
    return -1;
}

void dt_depot_list_finish(struct dt_depot_list *l)
{
    for (size_t i = 0; i < l->count; i++)
        free(l->at[i].key);
    free(l->at);
    *l = (struct dt_depot_list){0};
}
