/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/doctor/doctor.h"

#include "agent/agent.h"
#include "agent/checkup.h"
#include "launcher/doctor/meeting.h"
#include "launcher/fleet/plan.h"
#include "launcher/launch.h"
#include "launcher/planning/planning.h"
#include "launcher/python/interpreter.h"
#include "launcher/words.h"
#include "preflight/examine.h"
#include "preflight/screen.h"
#include "preflight/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct doctor {
    const char *name; /* of the program */
    struct dt_launch_options options;
    struct dt_facts facts;
    struct dt_plan plan;
    char **warnings;
    struct dt_interpreter python; /* of a line without a script */
    char **folders, **files;      /* that a person named */
    struct dt_sheet sheet;
    struct dt_meeting_page *page; /* of a job of several nodes */
};

static void finish(struct doctor *d)
{
    dt_words_free(d->folders);
    dt_words_free(d->files);
    dt_words_free(d->warnings);
    dt_interpreter_finish(&d->python);
    dt_plan_finish(&d->plan);
    dt_launch_options_finish(&d->options);
    dt_meeting_page_destroy(d->page);
    free(d);
}

static int copy_words(const struct dt_opt_strings *from, char ***to, struct dt_err *err)
{
    for (size_t i = 0; i < from->len; i++)
        if (dt_words_push(to, err, "%s", from->at[i]) < 0)
            return -1;
    return 0;
}

/* This very program, in the place of a script. */
static char self[] = "/proc/self/exe", word[] = DT_LAUNCH_DOCTOR;
static char *const stand_in[] = {self, word, NULL};

/* The plan of the job that the line stands for. Without a script this very program stands in its
 * place, and the Python that would run one is looked at all the same. */
static int plan_job(struct doctor *d, struct dt_err *err)
{
    bool has_script = *d->options.operands != NULL;
    if (!has_script) {
        d->options.operands = stand_in;
        dt_interpreter_find(&d->facts, &d->python, NULL);
    }
    if (dt_plan_make(&d->options, &d->facts, &d->plan, &d->warnings, err) < 0)
        return -1;
    return copy_words(&d->options.check_folder, &d->folders, err) < 0 ||
                   copy_words(&d->options.check_file, &d->files, err) < 0
               ? -1
               : 0;
}

static int examine(struct doctor *d, struct dt_err *err)
{
    struct dt_checkup c = dt_checkup_of(&d->plan);
    c.thorough = true;
    c.compute = d->options.check_compute;
    c.folders = d->folders;
    c.files = d->files;
    if (d->python.path) {
        c.python = d->python.path;
        c.script = NULL;
    }
    for (char *const *w = d->warnings; w && *w; w++)
        dt_sheet_remark(&d->sheet, "options", DT_GRADE_NOTE, NULL, "%s", *w);
    for (char *const *i = d->plan.ignored; i && *i; i++)
        dt_sheet_remark(&d->sheet, "options", DT_GRADE_NOTE, NULL, "%s", *i);
    return dt_examine(&c, dt_probes, dt_probe_count, DT_PROBE_ALONE, DT_EXAMINE_TIME, &d->sheet,
                      err);
}

static void print(const struct dt_sheet *sheet)
{
    struct dt_buf out = {0};
    struct dt_screen screen = dt_screen_find();
    dt_table_put(sheet, screen.colour, screen.columns, &out);
    fputs(dt_buf_cstr(&out), stdout);
    dt_buf_finish(&out);
}

static void print_json(const struct dt_sheet *sheet)
{
    struct dt_buf out = {0};
    struct dt_json_writer json = {.out = &out, .style = DT_JSON_SPACED, .lines = 2};
    dt_table_put_json(sheet, &json);
    puts(dt_buf_cstr(&out));
    dt_buf_finish(&out);
}

/* -- between nodes ---------------------------------------------------------------------------- */

/* Whatever named it, so that a doctor never takes part in the job itself. */
static int rename_run(struct dt_plan *plan, struct dt_err *err)
{
    char id[DT_RUN_ID_MAX];
    snprintf(id, sizeof id, "%.*s.doctor", (int)(sizeof id - sizeof ".doctor"), plan->run_id);
    free(plan->run_id);
    plan->run_id = strdup(id);
    return plan->run_id ? 0 : dt_err_set(err, DT_E_MEMORY, "no memory for the plan");
}

/* The line as it is, but for what it starts and what becomes of that: the nodes meet as they would.
 */
static int plan_meeting(struct doctor *d, struct dt_plan *plan, char ***warnings,
                        struct dt_err *err)
{
    struct dt_launch_options o = d->options;
    static char one[] = "1", none[] = "0", nowhere[] = "/dev/null", quiet[] = "null";
    char with_spares[32];
    if (o.run.spares > 0) { /* they will run what others run */
        snprintf(with_spares, sizeof with_spares, "%d:%d", d->plan.min_nodes + o.run.spares,
                 d->plan.max_nodes + o.run.spares);
        o.nnodes = with_spares;
        o.run.spares = 0;
    }
    o.operands = stand_in;
    o.module = o.run_path = o.virtual_local_rank = false;
    o.no_python = o.inherit_streams = o.no_look = true;
    o.numa_binding = DT_BIND_NONE;
    o.nproc_per_node = one;
    o.log_dir = nowhere;
    o.redirects = o.tee = none;
    o.event_log_handler = quiet;
    o.local_ranks_filter = o.stdout_filters = o.stderr_filters = o.progress_file = NULL;
    o.health_port = 0;
    o.health_address = o.upload_cmd = NULL;
    o.upload.len = 0;
    o.nccl_profiler = DT_NCCL_OFF;
    o.preflight = DT_PREFLIGHT_OFF;
    o.run.max_restarts = 0;
    o.http.len = 0;
    return dt_plan_make(&o, &d->facts, plan, warnings, err) < 0 ? -1 : rename_run(plan, err);
}

static void fill_page(const struct doctor *d)
{
    struct dt_meeting_page *page = d->page;
    page->own = d->sheet;
    if (d->plan.node_name)
        snprintf(page->name, sizeof page->name, "%s", d->plan.node_name);
    else if (gethostname(page->name, sizeof page->name - 1) < 0)
        strcpy(page->name, "node");
    for (size_t i = 0; i < d->options.check_folder.len && i < DT_MEETING_FOLDERS; i++)
        if (strlen(d->options.check_folder.at[i]) < DT_MEETING_PATH)
            strcpy(page->folders[i], d->options.check_folder.at[i]);
}

/* What is found between the nodes goes into the page. */
static int compare_nodes(struct doctor *d, struct dt_err *err)
{
    struct dt_plan plan = {0};
    char **warnings = NULL;
    if (!(d->page = dt_meeting_page_create(err)))
        return -1;
    fill_page(d);
    d->facts.env = environ; /* the page's place has been added, for which it may have moved */
    int rc = plan_meeting(d, &plan, &warnings, err);
    if (rc == 0 && (dt_agent_run(&plan) != 0 || !d->page->over))
        dt_sheet_remark(&d->page->among, "nodes", DT_GRADE_FAIL,
                        "start the same line on all nodes at about the same time",
                        "the nodes did not meet; the lines above say why");
    dt_words_free(warnings);
    dt_plan_finish(&plan);
    return rc;
}

/* -- all of it -------------------------------------------------------------------------------- */

/* Nobody waits for other nodes to read what is wrong with this one. */
static int diagnose(struct doctor *d)
{
    struct dt_err err;
    if (dt_launch_options_gave(&d->options, "log-level"))
        dt_log_open(d->name, d->options.log_level, DT_LOG_TEXT);
    if (plan_job(d, &err) < 0 || examine(d, &err) < 0)
        return dt_launch_refuse(d->name, &err);
    bool several = d->plan.max_nodes > 1;
    if (!d->options.json)
        print(&d->sheet);
    if (several && !d->options.json)
        fputs("\nBetween the nodes:\n", stdout);
    fflush(stdout);
    if (several && compare_nodes(d, &err) < 0)
        return dt_launch_refuse(d->name, &err);
    if (several && !d->options.json)
        print(&d->page->among);
    if (several)
        dt_sheet_add(&d->sheet, &d->page->among);
    if (d->options.json)
        print_json(&d->sheet);
    int status = dt_launch_printed(d->name);
    return status != 0 ? status : dt_sheet_status(&d->sheet);
}

static int doctor(struct doctor *d, int argc, char **argv)
{
    const struct dt_opt_program *program = d->options.program;
    struct dt_err err;
    /* The word is read as the name of the program would be. */
    if (dt_launch_options_read_doctor(&d->options, program, argc - 1, argv + 1, environ, &err) < 0)
        return dt_launch_refuse(d->name, &err);
    if (d->options.result.help)
        dt_opt_help(program, stdout);
    else if (d->options.result.version)
        printf("%s " DT_VERSION "\n", d->name);
    else if (dt_fleet_is_asked(&d->options))
        return dt_launch_fleet(&d->options, argc - 1, argv + 1, &d->facts);
    else
        return diagnose(d);
    return dt_launch_printed(d->name);
}

int dt_doctor(const struct dt_opt_program *program, int argc, char **argv)
{
    const char *page = getenv(DT_MEETING_ENV); /* of a doctor that has started this one */
    if (page)
        return dt_meeting_attend(page);
    struct doctor *d = calloc(1, sizeof *d);
    if (!d)
        return dt_launch_refuse(program->name,
                                &(struct dt_err){.code = DT_E_MEMORY, .text = "no memory"});
    d->name = program->name;
    d->options.program = program;
    dt_facts_read(&d->facts, argv[0], environ);
    dt_log_open(d->name, dt_launch_log_level(&d->facts), DT_LOG_TEXT);
    int status = doctor(d, argc, argv);
    finish(d);
    return status;
}
