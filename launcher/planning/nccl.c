/* SPDX-License-Identifier: Apache-2.0 */
/* Whether workers get NCCL's profiler plugin of ours, by which the agent sees how far each is in
 * its collectives. One that somebody else chose stays. */
#include "launcher/planning/inside.h"

#include "base/buf.h"
#include "base/fs.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#define VARIABLE "NCCL_PROFILER_PLUGIN"
#define CONF_MAX (1 << 20)
#define NCCL_PATH_MAX 255 /* NCCL cuts longer ones */

/* NCCL takes lines NAME=VALUE where the environment has no NAME. */
static bool file_sets(const char *path, const char *name)
{
    struct dt_buf text = {0};
    size_t n = strlen(name);
    bool sets = false;
    if (dt_fs_read(path, CONF_MAX, &text, NULL) == 0) {
        const char *line = dt_buf_cstr(&text);
        while (line && !sets) {
            sets = strncmp(line, name, n) == 0 && line[n] == '=';
            line = strchr(line, '\n');
            line = line ? line + 1 : NULL;
        }
    }
    dt_buf_finish(&text);
    return sets;
}

/* The first of NCCL's files that sets it, into PATH. */
static bool conf_sets(const struct dt_planning *c, const char *name, char path[PATH_MAX])
{
    const char *named = dt_planning_env(c, "NCCL_CONF_FILE"), *home = dt_planning_env(c, "HOME");
    if (named && snprintf(path, PATH_MAX, "%s", named) < PATH_MAX && file_sets(path, name))
        return true;
    if (!named && home && snprintf(path, PATH_MAX, "%s/.nccl.conf", home) < PATH_MAX &&
        file_sets(path, name))
        return true;
    snprintf(path, PATH_MAX, "/etc/nccl.conf");
    return file_sets(path, name);
}

int dt_planning_nccl(struct dt_planning *c)
{
    struct dt_plan *p = c->plan;
    char path[PATH_MAX], conf[PATH_MAX];
    p->nccl_events = p->no_look ? DT_NCCL_OFF : c->o->nccl_profiler;
    if (p->nccl_events == DT_NCCL_OFF)
        return 0;
    if (!c->facts->find_nccl_profiler(path))
        return dt_planning_ignore(c, "nccl-profiler",
                                  "libnccl-profiler-dtrun.so is not installed with this dtrun");
    const char *set = dt_facts_env(c->facts, VARIABLE);
    if (set && strcmp(set, path) != 0) /* ours: a dtrun that runs under dtrun */
        return dt_planning_ignore(c, "nccl-profiler", VARIABLE " is set, and stays as it is");
    if (strlen(path) >= NCCL_PATH_MAX)
        return dt_planning_ignore(c, "nccl-profiler", "NCCL takes no path as long as \"%s\"", path);
    if (conf_sets(c, VARIABLE, conf))
        return dt_planning_ignore(c, "nccl-profiler", "%s sets " VARIABLE, conf);
    return dt_planning_set(c, &p->nccl_profiler, path);
}
