/* SPDX-License-Identifier: Apache-2.0 */
/* Where what the workers print goes, and which files are kept. */
#include "launcher/planning/inside.h"

#include "launcher/planning/streams.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The folder that PATH, which is not there, would be made in; "" is the working directory. */
static void cut_to_parent(char *path)
{
    size_t n = strlen(path);
    while (n && path[n - 1] == '/')
        n--;
    while (n && path[n - 1] != '/')
        n--;
    while (n > 1 && path[n - 1] == '/')
        n--;
    path[n] = '\0';
}

/* Whether files can be made in DIR, which is made when the job starts. */
static int check_log_dir(struct dt_planning *c, const char *dir)
{
    char path[PATH_MAX];
    struct stat st;
    if (strlen(dir) >= sizeof path)
        return dt_planning_fail(c, "log-dir", "\"%.40s...\" is too long for a path", dir);
    strcpy(path, dir);
    while (*path && stat(path, &st) < 0) {
        if (errno != ENOENT)
            return dt_planning_fail(c, "log-dir", "\"%s\" cannot be used: %s", dir,
                                    strerror(errno));
        cut_to_parent(path);
    }
    const char *there = *path ? path : ".";
    if (*path && !S_ISDIR(st.st_mode))
        return dt_planning_fail(c, "log-dir", "%s is a file; name a folder, or /dev/null for none",
                                there);
    if (access(there, W_OK | X_OK) < 0)
        return dt_planning_fail(
            c, "log-dir",
            "nothing can be written in %s: %s; name another folder, or /dev/null "
            "for none",
            there, strerror(errno));
    return 0;
}

/* There are no earlier runs to keep. */
static int note_limits(struct dt_planning *c, const char *why)
{
    static const char *const options[] = {"keep-log-runs", "keep-log-days", "keep-log-size"};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (dt_planning_ignore(c, options[i], "%s", why) < 0)
            return -1;
    return 0;
}

static int choose_log_dir(struct dt_planning *c)
{
    const char *dir = c->o->log_dir;
    struct dt_plan *p = c->plan;
    p->keep_logs = c->o->keep_logs;
    if (!dir || !*dir)
        return note_limits(c, "without --log-dir each run has a temporary folder of its own");
    p->no_logs = strcmp(dir, "/dev/null") == 0;
    if (p->no_logs)
        return note_limits(c, "--log-dir=/dev/null keeps none") < 0
                   ? -1
                   : dt_planning_ignore(c, "keep-logs", "--log-dir=/dev/null keeps none");
    p->log_limits = c->o->log_limits;
    return check_log_dir(c, dir) < 0 ? -1 : dt_planning_set(c, &p->log_dir, dir);
}

/* One of --redirects and --tee, into MASKS. */
static int read_masks(struct dt_planning *c, const char *option, const char *text, unsigned *masks)
{
    int64_t beyond;
    if (dt_streams_masks(text, masks, c->plan->nproc, &beyond, c->err) < 0)
        return dt_planning_wrap(c, option);
    if (beyond >= 0 && dt_planning_ignore(c, option, "for local rank %lld: the last one is %d",
                                          (long long)beyond, c->plan->nproc - 1) < 0)
        return -1;
    if (!c->plan->no_logs)
        return 0;
    memset(masks, 0, (size_t)c->plan->nproc * sizeof *masks);
    return dt_planning_ignore(c, option, "--log-dir=/dev/null keeps no files");
}

/* MASKS and SHOWN have a place for each worker. */
static int fill_streams(struct dt_planning *c, unsigned *masks, bool *shown)
{
    struct dt_plan *p = c->plan;
    const char *filter = c->o->local_ranks_filter;
    if (read_masks(c, "redirects", c->o->redirects, masks) < 0)
        return -1;
    for (int i = 0; i < p->nproc; i++)
        p->streams[i].redirect = masks[i];
    memset(masks, 0, (size_t)p->nproc * sizeof *masks);
    if (read_masks(c, "tee", c->o->tee, masks) < 0)
        return -1;
    for (int i = 0; i < p->nproc; i++)
        p->streams[i].tee = masks[i];
    if (!filter || !*filter)
        return 0;
    if (dt_streams_ranks(filter, shown, p->nproc, c->err) < 0)
        return dt_planning_wrap(c, "local-ranks-filter");
    for (int i = 0; i < p->nproc; i++)
        p->streams[i].hidden = !shown[i];
    return 0;
}

static int choose_streams(struct dt_planning *c)
{
    size_t n = (size_t)c->plan->nproc;
    unsigned *masks = calloc(n, sizeof *masks);
    bool *shown = calloc(n, sizeof *shown);
    c->plan->streams = calloc(n, sizeof *c->plan->streams);
    int rc = masks && shown && c->plan->streams
                 ? fill_streams(c, masks, shown)
                 : dt_err_set(c->err, DT_E_MEMORY, "no memory for the plan");
    free(masks);
    free(shown);
    return rc;
}

/* Options that say something about teed lines alone. */
static int note_without_tee(struct dt_planning *c)
{
    static const char *const options[] = {"duplicate-stdout-filters", "duplicate-stderr-filters",
                                          "partial-line-after", "collapse-lines"};
    for (int i = 0; i < c->plan->nproc; i++)
        if (c->plan->streams[i].tee)
            return 0;
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (dt_planning_ignore(c, options[i], "no output is teed; give --tee") < 0)
            return -1;
    return 0;
}

static int choose_events(struct dt_planning *c)
{
    const char *name = c->o->event_log_handler;
    if (strcmp(name, "null") != 0 && strcmp(name, "console") != 0 &&
        (strncmp(name, "file:", 5) != 0 || !name[5]))
        return dt_planning_fail(c, "event-log-handler",
                                "\"%s\" is no place for events; give null, console or file:PATH",
                                name);
    return dt_planning_set(c, &c->plan->event_log, name);
}

int dt_planning_output(struct dt_planning *c)
{
    struct dt_plan *p = c->plan;
    const struct dt_launch_options *o = c->o;
    /* torchrun calls what --log-dir, --redirects and --tee say by this name. */
    if (o->logs_specs && strcmp(o->logs_specs, "default") != 0)
        return dt_planning_fail(
            c, "logs-specs",
            "\"%s\" is a Python plug-in, which dtrun cannot load; give --log-dir, "
            "--redirects and --tee, or run the job with torchrun",
            o->logs_specs);
    if (choose_log_dir(c) < 0 || choose_streams(c) < 0 || choose_events(c) < 0 ||
        note_without_tee(c) < 0)
        return -1;
    if (dt_streams_filters(o->stdout_filters ? o->stdout_filters : "", &p->stdout_filters, c->err) <
            0 ||
        dt_streams_filters(o->stderr_filters ? o->stderr_filters : "", &p->stderr_filters, c->err) <
            0)
        return -1;
    p->inherit_streams = o->inherit_streams;
    if (o->inherit_streams &&
        dt_planning_ignore(c, "whole-lines", "--inherit-streams lets workers write themselves") < 0)
        return -1;
    p->whole_lines = o->whole_lines;
    p->partial_line_after = o->partial_line_after;
    p->collapse_lines = o->collapse_lines;
    p->strip_codes = o->strip_codes;
    return dt_planning_set(c, &p->line_prefix,
                           dt_planning_env(c, "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE"));
}
