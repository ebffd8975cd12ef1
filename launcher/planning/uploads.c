/* SPDX-License-Identifier: Apache-2.0 */
/* Which folders are followed, and where what is complete in them goes. */
#include "launcher/planning/inside.h"

#include "base/transfer/url.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of DIR=URL the "=" in front of the URL, as a folder's name may have others. */
static const char *find_url(const char *text)
{
    for (const char *equals = text; (equals = strchr(equals, '=')); equals++)
        if (dt_url_is_one(equals + 1))
            return equals;
    return NULL;
}

/* Mistakes in options that are ours are mistakes of usage. */
static int refuse(struct dt_planning *c)
{
    c->err->code = DT_E_USAGE;
    return -1;
}

/* The real path that PATH has, or will have once its folders are made. */
static bool find_real(const char *path, char out[PATH_MAX])
{
    char above[PATH_MAX];
    size_t len = strlen(path);
    while (snprintf(above, sizeof above, "%.*s", (int)len, path) >= (int)sizeof above ||
           !realpath(len ? above : ".", out)) {
        if (len == 0)
            return false;
        while (len && path[len - 1] == '/')
            len--;
        while (len && path[len - 1] != '/')
            len--;
    }
    size_t used = strlen(out), room = PATH_MAX - used;
    const char *slash = path[len] && out[used - 1] != '/' ? "/" : "";
    return (size_t)snprintf(out + used, room, "%s%s", slash, path + len) < room;
}

/* Each copy would be a file to copy. */
static bool holds_its_copies(const char *dir, const struct dt_url *url)
{
    char from[PATH_MAX], to[PATH_MAX];
    if (url->scheme != DT_URL_FILE || !find_real(dir, from) || !find_real(url->path, to))
        return false;
    size_t len = strcmp(from, "/") == 0 ? 0 : strlen(from);
    return strncmp(from, to, len) == 0 && (to[len] == '/' || to[len] == '\0');
}

static int read_one(struct dt_planning *c, const char *text, struct dt_plan_upload *out)
{
    const char *equals = find_url(text);
    struct dt_url url;
    if (equals && dt_url_parse(equals + 1, &url, c->err) < 0)
        return dt_planning_wrap(c, "upload");
    if (!equals && !c->o->upload_cmd) {
        dt_planning_fail(c, "upload",
                         "where to? Write %s=s3://BUCKET/PREFIX or %s=file:///FOLDER, or give a "
                         "command with --upload-cmd",
                         text, text);
        return refuse(c);
    }
    size_t len = equals ? (size_t)(equals - text) : strlen(text);
    while (len > 1 && text[len - 1] == '/')
        len--;
    if (len == 0) {
        dt_planning_fail(c, "upload", "\"%s\" names no folder; write DIR=URL", text);
        return refuse(c);
    }
    out->dir = strndup(text, len);
    if (!out->dir)
        return dt_err_set(c->err, DT_E_MEMORY, "no memory for the plan");
    if (equals && holds_its_copies(out->dir, &url)) {
        dt_planning_fail(c, "upload",
                         "%s is in %s, so each copy would be copied again; name a folder outside "
                         "of %s",
                         equals + 1, out->dir, out->dir);
        return refuse(c);
    }
    return equals ? dt_planning_set(c, &out->url, equals + 1) : 0;
}

static int ignore_all(struct dt_planning *c)
{
    static const char *const useless[] = {"upload-cmd", "upload-after", "upload-timeout"};
    for (size_t i = 0; i < sizeof useless / sizeof *useless; i++)
        if (dt_planning_ignore(c, useless[i], "no --upload names a folder") < 0)
            return -1;
    return 0;
}

int dt_planning_uploads(struct dt_planning *c)
{
    struct dt_plan *p = c->plan;
    const struct dt_opt_strings *given = &c->o->upload;
    if (given->len == 0)
        return ignore_all(c);
    p->uploads = calloc(given->len, sizeof *p->uploads);
    if (!p->uploads)
        return dt_err_set(c->err, DT_E_MEMORY, "no memory for the plan");
    for (size_t i = 0; i < given->len; i++) {
        p->upload_count = i + 1;
        if (read_one(c, given->at[i], &p->uploads[i]) < 0)
            return -1;
    }
    p->upload_after = c->o->upload_after;
    p->upload_timeout = c->o->upload_timeout;
    return dt_planning_set(c, &p->upload_cmd, c->o->upload_cmd);
}
