/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/launch.h"

#include "agent/agent.h"
#include "agent/bind/bind.h"
#include "base/fs.h"
#include "base/say.h"
#include "launcher/doctor/doctor.h"
#include "launcher/fleet/fleet.h"
#include "launcher/fleet/lifeline.h"
#include "launcher/look.h"
#include "launcher/number.h"
#include "launcher/planning/planning.h"
#include "launcher/print_plan.h"
#include "launcher/words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum dt_log_level dt_launch_log_level(const struct dt_facts *facts)
{
    static const struct {
        const char *name;
        enum dt_log_level level;
    } names[] = {
        {"DEBUG", DT_LOG_DEBUG}, {"NOTSET", DT_LOG_DEBUG},   {"INFO", DT_LOG_INFO},
        {"WARN", DT_LOG_WARN},   {"WARNING", DT_LOG_WARN},   {"ERROR", DT_LOG_ERROR},
        {"FATAL", DT_LOG_ERROR}, {"CRITICAL", DT_LOG_ERROR},
    };
    const char *text = dt_facts_env(facts, "LOGLEVEL");
    int64_t n;
    if (!text)
        return DT_LOG_WARN;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcasecmp(text, names[i].name) == 0)
            return names[i].level;
    if (dt_number_int(text, &n, NULL) < 0)
        return DT_LOG_WARN;
    return n <= 10 ? DT_LOG_DEBUG : n <= 20 ? DT_LOG_INFO : n <= 30 ? DT_LOG_WARN : DT_LOG_ERROR;
}

int dt_launch_printed(const char *name)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return 0;
    dt_say(name, "standard output cannot be written");
    return 1;
}

int dt_launch_refuse(const char *name, const struct dt_err *err)
{
    int status = dt_err_exit_status(err);
    dt_say(name, err->text);
    if (status == 2)
        fprintf(stderr, "`%s --help` lists the options.\n", name);
    return status;
}

/* As it would be on this machine, or why not. */
static void put_places(const struct dt_plan *p, struct dt_buf *out)
{
    struct dt_err err;
    struct dt_bind *b = dt_bind_create(p, getenv("CUDA_VISIBLE_DEVICES"), &err);
    if (!b)
        dt_buf_printf(out, "binding of workers: not possible: %s\n", err.text);
    for (int i = 0; b && i < p->nproc; i++) {
        dt_buf_put_str(out, "binding of ");
        dt_bind_describe(b, i, out);
        dt_buf_put_str(out, "\n");
    }
    dt_bind_destroy(b);
}

static int print_config(const char *name, const struct dt_plan *plan, char *const *warnings)
{
    struct dt_buf text = {0};
    dt_plan_print(plan, warnings, &text);
    if (plan->bind != DT_BIND_NONE)
        put_places(plan, &text);
    fputs(dt_buf_cstr(&text), stdout);
    dt_buf_finish(&text);
    return dt_launch_printed(name);
}

static int run_plan(const struct dt_plan *plan, char *const *warnings)
{
    for (char *const *w = warnings; w && *w; w++)
        dt_warn("%s", *w);
    for (char *const *i = plan->ignored; i && *i; i++)
        dt_warn("%s", *i);
    for (char *const *n = plan->needless; n && *n; n++)
        dt_info("%s", *n);
    return dt_agent_run(plan);
}

static int run_here(const struct dt_launch_options *o, const struct dt_facts *facts)
{
    const char *name = o->program->name;
    struct dt_plan plan = {0};
    struct dt_err err = {0};
    char **warnings = NULL;
    int status;
    if (dt_plan_make(o, facts, &plan, &warnings, &err) < 0)
        status = dt_launch_refuse(name, &err);
    else if (o->print_config)
        status = print_config(name, &plan, warnings);
    else
        status = run_plan(&plan, warnings);
    dt_words_free(warnings);
    dt_plan_finish(&plan);
    return status;
}

int dt_launch_fleet(const struct dt_launch_options *o, int argc, char **argv,
                    const struct dt_facts *facts)
{
    const char *name = o->program->name;
    struct dt_fleet_plan plan;
    struct dt_err err = {0};
    int status;
    if (dt_fleet_plan_make(o, argc, argv, facts, &plan, &err) < 0)
        status = dt_launch_refuse(name, &err);
    else if (!o->print_config)
        status = dt_fleet_run(&plan);
    else
        status = dt_fleet_plan_print(&plan, stdout, &err) < 0 ? dt_launch_refuse(name, &err)
                                                              : dt_launch_printed(name);
    dt_fleet_plan_finish(&plan);
    return status;
}

/* The name in ARGV is that by which a person, or a script, called us. */
static int plan_and_run(const struct dt_launch_options *o, int argc, char **argv)
{
    struct dt_facts facts;
    dt_facts_read(&facts, argc > 0 ? argv[0] : NULL, environ);
    dt_log_open(o->program->name,
                dt_launch_options_gave(o, "log-level") ? o->log_level : dt_launch_log_level(&facts),
                o->log_format);
    return dt_fleet_is_asked(o) ? dt_launch_fleet(o, argc, argv, &facts) : run_here(o, &facts);
}

/* Another dtrun has started this one, and says what it is to do. */
static int follow_order(const struct dt_opt_program *program)
{
    struct dt_fleet_order order;
    struct dt_err err = {0};
    int status = 1;
    if (dt_lifeline_greet(&order, &err) == 0 && dt_lifeline_follow(&err) == 0)
        status = dt_launch(program, (int)dt_words_count(order.argv), order.argv);
    else if (*err.text)
        dt_say(program->name, err.text);
    dt_fleet_order_finish(&order);
    dt_lifeline_say_over();
    return status;
}

int dt_launch(const struct dt_opt_program *program, int argc, char **argv)
{
    struct dt_launch_options options;
    struct dt_err err = {0};
    int status;
    /* A closed descriptor must not become the number of a socket of ours, which workers would then
     * inherit; they are to find it closed. */
    dt_fs_reserve_standard_fds();
    if (program->first_word && argc > 1 && strcmp(argv[1], program->first_word) == 0)
        return dt_doctor(program, argc, argv);
    if (dt_launch_options_read(&options, program, argc, argv, environ, &err) < 0) {
        status = dt_launch_refuse(program->name, &err);
    } else if (options.result.help) {
        dt_opt_help(program, stdout);
        status = dt_launch_printed(program->name);
    } else if (options.result.version) {
        printf("%s " DT_VERSION "\n", program->name);
        status = dt_launch_printed(program->name);
    } else if (options.look.len > 0) {
        status = dt_launch_look(&options);
        if (dt_launch_printed(program->name) != 0)
            status = 1;
    } else if (options.fleet_agent) {
        status = follow_order(program);
    } else {
        status = plan_and_run(&options, argc, argv);
    }
    dt_launch_options_finish(&options);
    return status;
}
