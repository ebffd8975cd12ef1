/* SPDX-License-Identifier: Apache-2.0 */
/* A command line and an environment, each with | between its parts, all the way to a plan; on a
 * machine with 8 processors, 4 of them for us, two GPUs if DT_TOLD_GPUS is in the environment, and
 * NCCL's profiler plugin if DT_TOLD_NCCL_PROFILER is. DT_TOLD_POD_JOB is what facts.pod_job holds.
 */
#ifndef DT_TESTS_LAUNCHER_TOLD_H
#define DT_TESTS_LAUNCHER_TOLD_H

#include "launcher/planning/planning.h"
#include "launcher/print_plan.h"
#include "launcher/words.h"
#include "tests/lib/check.h"

struct told {
    struct dt_launch_options o;
    struct dt_plan plan;
    struct dt_err err;
    int rc;
    char **warnings;
    struct dt_buf text; /* of the plan, printed */
};

static inline int told_two_gpus(void)
{
    return 2;
}

static inline int told_no_gpus(void)
{
    return 0;
}

static inline bool told_no_nccl_profiler(char path[PATH_MAX])
{
    (void)path;
    return false;
}

static inline bool told_nccl_profiler(char path[PATH_MAX])
{
    strcpy(path, "/usr/lib/dtrun/libnccl-profiler-dtrun.so");
    return true;
}

static inline int told_split(char *text, char **out)
{
    int n = 0;
    for (char *s = *text ? strtok(text, "|") : NULL; s; s = strtok(NULL, "|"))
        out[n++] = s;
    out[n] = NULL;
    return n;
}

static inline void told_tell(struct told *t, const struct dt_opt_program *program, const char *args,
                             const char *env)
{
    char arg_text[1024], env_text[1024], *argv[64], *envp[64];
    snprintf(arg_text, sizeof arg_text, "%s|%s", program->name, args);
    snprintf(env_text, sizeof env_text, "PATH=/bin:/usr/bin|PYTHON_EXEC=/bin/sh|%s", env);
    int argc = told_split(arg_text, argv);
    told_split(env_text, envp);
    struct dt_facts facts = {.cpus = 8, .allowed_cpus = 4, .env = envp};
    strcpy(facts.user, "ada");
    strcpy(facts.pod_job, dt_facts_env(&facts, "DT_TOLD_POD_JOB") ?: "");
    for (size_t i = 0; i < sizeof facts.random; i++)
        facts.random[i] = (uint8_t)(i * 17);
    facts.count_gpus = dt_facts_env(&facts, "DT_TOLD_GPUS") ? told_two_gpus : told_no_gpus;
    if (dt_facts_env(&facts, "DT_TOLD_NCCL_PROFILER"))
        facts.find_nccl_profiler = told_nccl_profiler;
    else
        facts.find_nccl_profiler = told_no_nccl_profiler;
    *t = (struct told){0};
    t->rc = dt_launch_options_read(&t->o, program, argc, argv, envp, &t->err);
    if (t->rc == 0 && !t->o.result.help && !t->o.result.version)
        t->rc = dt_plan_make(&t->o, &facts, &t->plan, &t->warnings, &t->err);
    if (t->rc == 0 && t->plan.argv)
        dt_plan_print(&t->plan, t->warnings, &t->text);
    t->o.operands = NULL;
}

static inline void told_finish(struct told *t)
{
    dt_launch_options_finish(&t->o);
    dt_plan_finish(&t->plan);
    dt_words_free(t->warnings);
    dt_buf_finish(&t->text);
}

/* Whether LINE, or all of its parts between |, are lines of the printed plan. */
static inline void told_check_lines(struct told *t, const char *lines)
{
    char copy[1024];
    const char *text = dt_buf_cstr(&t->text);
    snprintf(copy, sizeof copy, "%s", lines);
    for (char *line = strtok(copy, "|"); line; line = strtok(NULL, "|")) {
        CHECK_ROW("%s", line);
        bool found = false;
        size_t n = strlen(line);
        for (const char *s = text; s && *s; s = strchr(s, '\n') ? strchr(s, '\n') + 1 : NULL)
            found = found || (strncmp(s, line, n) == 0 && s[n] == '\n');
        if (!found)
            CHECK_STR(text, line); /* shows both */
        CHECK(found);
    }
}

/* The id of a run that nobody named. */
#define UUID "00112233-4455-4677-8899-aabbccddeeff"

/* How rows of elastic jobs begin. */
#define C10D "--rdzv-backend=c10d|"
#define UP_TO_4 C10D "--nnodes=2:4|--rdzv-endpoint=h:5|"

struct told_row {
    const char *args, *env;
    const char *lines; /* of the printed plan, or */
    const char *error; /* the whole sentence */
    int status;        /* then the exit status */
};

static inline void told_check_rows(const struct dt_opt_program *program,
                                   const struct told_row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        CHECK_ROW("%s, with %s", rows[i].args, rows[i].env);
        struct told t;
        told_tell(&t, program, rows[i].args, rows[i].env);
        if (rows[i].error) {
            CHECK_EQ(t.rc, -1);
            CHECK_STR(t.err.text, rows[i].error);
            CHECK_EQ(dt_err_exit_status(&t.err), rows[i].status);
        } else {
            CHECK_OK(t.rc, t.err);
            told_check_lines(&t, rows[i].lines);
        }
        told_finish(&t);
    }
}

#define TOLD_ROWS(program, rows) told_check_rows(program, rows, sizeof(rows) / sizeof *(rows))

#endif
