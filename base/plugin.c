/* SPDX-License-Identifier: Apache-2.0 */
#include "base/plugin.h"

#include "base/fs.h"

#include <assert.h>
#include <dlfcn.h>
#include <libgen.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PLACES_MAX 5
#define FOLDER_MAX 64

struct places {
    char at[PLACES_MAX][PATH_MAX]; /* folders, each with its slash */
    size_t count;
};

static void add_place(struct places *p, const char *dir, const char *more, const char *folder)
{
    if ((size_t)snprintf(p->at[p->count], PATH_MAX, "%s/%s%s", dir, more, folder) < PATH_MAX)
        p->count++;
}

/* FOLDER is the module's in a build tree; where they are installed they lie in one. */
static void find_places(struct places *p, const char *folder)
{
    const char *given = secure_getenv("DTRUN_PLUGIN_DIR");
    p->count = 0;
    if (given && *given) {
        add_place(p, given, "", folder);
        add_place(p, given, "", "");
        return;
    }
    char exe[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    if (n > 0) {
        exe[n] = '\0';
        const char *dir = dirname(exe);
        add_place(p, dir, "", "");
        add_place(p, dir, "../", folder);
        add_place(p, dir, "../" DT_PLUGIN_LIBDIR "/dtrun/", "");
        add_place(p, dir, "../lib/dtrun/", "");
    }
    add_place(p, DT_PLUGIN_DIR, "", "");
}

static bool find_file(const struct places *p, const char *file, char path[PATH_MAX])
{
    for (size_t i = 0; i < p->count; i++)
        if (snprintf(path, PATH_MAX, "%s%s", p->at[i], file) < PATH_MAX && dt_fs_exists(path))
            return true;
    return false;
}

/* The folder to name is the one where a person would put it: the given or the configured one. */
static int say_missing(const struct places *p, const char *noun, struct dt_err *err)
{
    return dt_err_set(err, DT_E_RUNTIME,
                      "there is no dt_%s.so in %s: this dtrun was built without it, or only a part "
                      "of it was installed",
                      noun, p->count ? p->at[p->count - 1] : "any folder");
}

static const void *check_table(void *module, const char *path, const struct dt_plugin_kind *k,
                               struct dt_err *err)
{
    const struct dt_plugin_head *head = dlsym(module, "dt_plugin");
    if (!head)
        dt_err_set(err, DT_E_RUNTIME, "%.300s is no %s of dtrun: it has no dt_plugin", path,
                   k->what);
    else if (head->abi != k->abi)
        dt_err_set(err, DT_E_RUNTIME,
                   "%.300s belongs to another version of dtrun (its interface is %u, ours is %u); "
                   "install both from one build",
                   path, head->abi, k->abi);
    else if (head->size < k->size)
        dt_err_set(err, DT_E_RUNTIME,
                   "%.300s belongs to an older dtrun (its table has %u bytes, ours %zu); install "
                   "both from one build",
                   path, head->size, k->size);
    else
        return head;
    return NULL;
}

const void *dt_plugin_load(const char *path, const struct dt_plugin_kind *k, struct dt_err *err)
{
    void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!module) {
        const char *why = dlerror();
        k->not_loaded(path, why ? why : "the loader does not say why", err);
        return NULL;
    }
    const void *table = check_table(module, path, k, err);
    if (!table)
        dlclose(module);
    return table;
}

static void say_not_loaded(const char *path, const char *why, struct dt_err *err)
{
    dt_err_set(err, DT_E_RUNTIME, "cannot load the helper library %s: %s", path, why);
}

/* NAME's last part; FOLDER, of FOLDER_MAX bytes, gets what stands in front of it. */
static const char *split_name(const char *name, char *folder)
{
    assert(strchr(name, '/'));
    const char *last = strrchr(name, '/') + 1;
    snprintf(folder, FOLDER_MAX, "%.*s", (int)(last - name), name);
    return last;
}

bool dt_plugin_find(const char *name, char path[PATH_MAX])
{
    char folder[FOLDER_MAX];
    const char *file = split_name(name, folder);
    struct places *places = malloc(sizeof *places);
    if (!places)
        return false;
    find_places(places, folder);
    bool found = find_file(places, file, path);
    free(places);
    return found;
}

const void *dt_plugin_open(const char *name, uint32_t abi, size_t size, struct dt_err *err)
{
    char folder[FOLDER_MAX], file[FOLDER_MAX], path[PATH_MAX];
    const char *noun = split_name(name, folder);
    snprintf(file, sizeof file, "dt_%s.so", noun);
    struct places *places = malloc(sizeof *places);
    if (!places) {
        dt_err_set(err, DT_E_MEMORY, "no memory to look for dt_%s.so", noun);
        return NULL;
    }
    find_places(places, folder);
    bool found = find_file(places, file, path);
    if (!found)
        say_missing(places, noun, err);
    free(places);
    if (!found)
        return NULL;
    const struct dt_plugin_kind kind = {"helper library", abi, size, say_not_loaded};
    return dt_plugin_load(path, &kind, err);
}
