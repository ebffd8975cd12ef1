/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cgroup.h"

#include "base/buf.h"
#include "base/fs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_MAX ((size_t)1 << 20)    /* /proc/self/mountinfo of a host of many containers */
#define UNLIMITED ((int64_t)1 << 60)  /* version 1 writes a number near 2^63 for no limit */
#define MOUNT_FIELDS_BEFORE_OPTIONS 6 /* id parent device root mount-point options */

/* Lines of a file below ROOT, freed by the caller; NULL: it cannot be read. */
static char *read_file(const char *root, const char *path)
{
    char full[DT_CGROUP_PATH + 256];
    struct dt_buf text = {0};
    snprintf(full, sizeof full, "%s%s", root, path);
    bool well = dt_fs_read(full, FILE_MAX, &text, NULL) == 0;
    char *copy = well ? strdup(dt_buf_cstr(&text)) : NULL;
    dt_buf_finish(&text);
    return copy;
}

/* Whether WORD is one of LIST, which is apart by commas. */
static bool has_word(const char *list, const char *word)
{
    size_t n = strlen(word);
    for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (strncmp(at, word, n) == 0 && (at[n] == ',' || at[n] == '\0'))
            return true;
    return false;
}

/* -- where it is ------------------------------------------------------------------------------ */

/* Our group's name out of /proc/self/cgroup, "N:CONTROLLERS:NAME" a line; version 2 is "0::NAME".
 * NULL: we are in none. Cuts TEXT. */
static const char *own_name(char *text, const char *controller, bool v2)
{
    for (char *line; text && (line = strsep(&text, "\n"));) {
        char *rest = line, *number = strsep(&rest, ":"), *controllers = strsep(&rest, ":");
        if (!rest || !controllers)
            continue;
        if (v2 ? strcmp(number, "0") == 0 && !*controllers : has_word(controllers, controller))
            return rest;
    }
    return NULL;
}

/* One line of /proc/self/mountinfo. */
struct mount {
    const char *root, *point, *type, *options;
};

static bool parse_mount(char *line, struct mount *m)
{
    char *fields[MOUNT_FIELDS_BEFORE_OPTIONS], *behind = strstr(line, " - ");
    if (!behind)
        return false;
    *behind = '\0';
    behind += strlen(" - ");
    for (int i = 0; i < MOUNT_FIELDS_BEFORE_OPTIONS; i++)
        if (!(fields[i] = strsep(&line, " ")))
            return false;
    m->root = fields[3];
    m->point = fields[4];
    m->type = strsep(&behind, " ");
    m->options = strsep(&behind, " ") ? behind : NULL;
    return m->options != NULL;
}

/* The name as it is seen below the mount point: without what of it the mount leaves out, as in a
 * container that is not in a namespace of its own. */
static const char *below_mount(const struct mount *m, const char *name)
{
    size_t n = strcmp(m->root, "/") == 0 ? 0 : strlen(m->root);
    if (strncmp(name, m->root, n) != 0 || (name[n] != '/' && name[n] != '\0') ||
        strncmp(name, "/..", 3) == 0 || strcmp(name + n, "/") == 0)
        return "";
    return name + n;
}

/* GROUPS: the process's file of its groups. */
static bool find(struct dt_cgroup *g, const char *groups, char *mounts, const char *controller,
                 bool v2)
{
    struct mount m;
    char *cgroups = read_file(g->root, groups);
    const char *name = own_name(cgroups, controller, v2);
    for (char *line; name && mounts && (line = strsep(&mounts, "\n"));) {
        if (!parse_mount(line, &m) || strcmp(m.type, v2 ? "cgroup2" : "cgroup") != 0 ||
            (!v2 && !has_word(m.options, controller)))
            continue;
        const char *below = below_mount(&m, name);
        g->v2 = v2;
        g->top = strlen(m.point);
        if (g->top + strlen(below) < sizeof g->folder)
            snprintf(g->folder, sizeof g->folder, "%s%s", m.point, below);
        break;
    }
    free(cgroups);
    return *g->folder;
}

static void find_in(struct dt_cgroup *g, const char *groups, const char *controller,
                    const char *root)
{
    *g = (struct dt_cgroup){.root = root};
    for (int v2 = 0; v2 < 2 && !*g->folder; v2++) {
        char *mounts = read_file(root, "/proc/self/mountinfo");
        find(g, groups, mounts, controller, v2);
        free(mounts);
    }
}

void dt_cgroup_find(struct dt_cgroup *g, const char *controller, const char *root)
{
    find_in(g, "/proc/self/cgroup", controller, root);
}

void dt_cgroup_find_of(struct dt_cgroup *g, pid_t pid, const char *controller, const char *root)
{
    char groups[64];
    snprintf(groups, sizeof groups, "/proc/%d/cgroup", (int)pid);
    find_in(g, groups, controller, root);
}

/* -- what it says ----------------------------------------------------------------------------- */

static char *read_in(const struct dt_cgroup *g, const char *folder, const char *name)
{
    char path[DT_CGROUP_PATH + 64];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return read_file(g->root, path);
}

/* Behind KEY at the start of a line; -1: it is not there. */
static int64_t value_of(const char *text, const char *key)
{
    size_t n = strlen(key);
    for (const char *line = text; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
        if (strncmp(line, key, n) == 0 && line[n] == ' ')
            return strtoll(line + n, NULL, 10);
    return -1;
}

static int64_t oom_kills(const struct dt_cgroup *g, const char *file)
{
    char *text = *g->folder ? read_in(g, g->folder, file) : NULL;
    int64_t count = value_of(text, "oom_kill");
    free(text);
    return count;
}

struct dt_oom_counts dt_cgroup_oom_counts(const struct dt_cgroup *g)
{
    char *vmstat = read_file(g->root, "/proc/vmstat");
    struct dt_oom_counts counts = {
        .own = oom_kills(g, g->v2 ? "memory.events.local" : "memory.oom_control"),
        .below = g->v2 ? oom_kills(g, "memory.events") : -1,
        .host = value_of(vmstat, "oom_kill"),
    };
    free(vmstat);
    return counts;
}

/* A number, or -1: "max", or the file is not there. */
static int64_t number_in(const struct dt_cgroup *g, const char *folder, const char *name)
{
    char *text = read_in(g, folder, name), *end = text;
    int64_t n = text ? strtoll(text, &end, 10) : -1;
    bool is = end != text && n >= 0 && n < UNLIMITED;
    free(text);
    return is ? n : -1;
}

/* From FOLDER to the one that it is in; false at the mount point. */
static bool go_up(const struct dt_cgroup *g, char *folder)
{
    char *slash = strrchr(folder, '/');
    if (!slash || (size_t)(slash - folder) < g->top)
        return false;
    *slash = '\0';
    return true;
}

struct dt_cgroup_memory dt_cgroup_memory(const struct dt_cgroup *g)
{
    const char *limit = g->v2 ? "memory.max" : "memory.limit_in_bytes";
    const char *used = g->v2 ? "memory.current" : "memory.usage_in_bytes";
    struct dt_cgroup_memory m = {.limit = -1, .used = -1};
    char folder[DT_CGROUP_PATH];
    if (!*g->folder)
        return m;
    memcpy(folder, g->folder, sizeof folder);
    m.used = number_in(g, folder, used);
    do {
        int64_t n = number_in(g, folder, limit);
        if (n < 0 || (m.limit >= 0 && n >= m.limit))
            continue;
        m.limit = n;
        m.used = number_in(g, folder, used);
    } while (go_up(g, folder));
    return m;
}

/* Number KEY of a file of many; -1: it is not there. */
static int64_t number_of(const struct dt_cgroup *g, const char *folder, const char *name,
                         const char *key)
{
    char *text = read_in(g, folder, name);
    int64_t n = value_of(text, key);
    free(text);
    return n;
}

static int64_t host_memory_left(const struct dt_cgroup *g)
{
    int64_t kib = number_of(g, "", "proc/meminfo", "MemAvailable:");
    return kib < 0 ? -1 : kib * 1024;
}

int64_t dt_cgroup_memory_left(const struct dt_cgroup *g)
{
    const char *limit = g->v2 ? "memory.max" : "memory.limit_in_bytes";
    const char *used = g->v2 ? "memory.current" : "memory.usage_in_bytes";
    const char *idle = g->v2 ? "inactive_file" : "total_inactive_file";
    int64_t left = host_memory_left(g);
    char folder[DT_CGROUP_PATH];
    if (!*g->folder)
        return left;
    memcpy(folder, g->folder, sizeof folder);
    do {
        int64_t max = number_in(g, folder, limit), now = number_in(g, folder, used);
        int64_t files = number_of(g, folder, "memory.stat", idle);
        if (max < 0 || now < 0)
            continue;
        now -= files > 0 ? files : 0;
        int64_t here = max > now ? max - now : 0;
        left = left < 0 || here < left ? here : left;
    } while (go_up(g, folder));
    return left;
}

int64_t dt_cgroup_memory_limit(const struct dt_cgroup *g)
{
    return dt_cgroup_memory(g).limit;
}

bool dt_cgroup_pids_limit(const struct dt_cgroup *g, struct dt_cgroup_pids *out)
{
    bool found = false;
    char folder[DT_CGROUP_PATH];
    if (!*g->folder)
        return false;
    memcpy(folder, g->folder, sizeof folder);
    do {
        int64_t max = number_in(g, folder, "pids.max"), now = number_in(g, folder, "pids.current");
        if (max < 0 || now < 0 || (found && out->max - out->current <= max - now))
            continue;
        found = true;
        out->max = max;
        out->current = now;
        memcpy(out->folder, folder, sizeof folder);
    } while (go_up(g, folder));
    return found;
}
