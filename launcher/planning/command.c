/* SPDX-License-Identifier: Apache-2.0 */
/* What is executed, and how reports call it. */
#include "launcher/planning/inside.h"

#include "launcher/python/interpreter.h"
#include "launcher/words.h"

#include <stdlib.h>
#include <string.h>

/* What torchrun does inside its own process for --run-path, as a program of python -c. The record
 * it leaves is that of PyTorch's own decorator for main functions. */
static const char run_path_program[] =
    "import json, os, runpy, sys, time, traceback\n"
    "sys.argv = sys.argv[1:]\n"
    "try:\n"
    "    runpy.run_path(sys.argv[0], run_name=\"__main__\")\n"
    "except Exception as e:\n"
    "    path = os.environ.get(\"TORCHELASTIC_ERROR_FILE\")\n"
    "    if path:\n"
    "        extra = {\"py_callstack\": traceback.format_exc(), \"timestamp\": "
    "str(int(time.time()))}\n"
    "        text = \"%s: %s\" % (type(e).__name__, e)\n"
    "        with open(path, \"w\") as f:\n"
    "            json.dump({\"message\": {\"message\": text, \"extraInfo\": extra}}, f)\n"
    "    raise\n";

/* A list that is filled without ever growing. */
struct argv {
    char **at;
    size_t len;
    bool bad;
};

static void add(struct argv *a, const char *word)
{
    a->at[a->len] = strdup(word);
    if (!a->at[a->len])
        a->bad = true;
    else
        a->len++;
}

/* Whether workers get --local-rank=N, as scripts for torch.distributed.launch expect. */
static bool passes_local_rank(const struct dt_planning *c)
{
    return c->o->program == &dt_legacy_program && !c->o->use_env;
}

/* Each may have been given by its variable. */
static int fail_for_both(struct dt_planning *c, const char *option, const char *other)
{
    char one[64], two[64];
    dt_opt_written(c->o->program, &c->o->result, option, one, sizeof one);
    dt_opt_written(c->o->program, &c->o->result, other, two, sizeof two);
    return dt_err_set(c->err, DT_E_RUNTIME, "%s: a module needs Python; drop %s or %s", one, two,
                      one);
}

static int check_flags(struct dt_planning *c)
{
    const struct dt_launch_options *o = c->o;
    if (passes_local_rank(c) && o->no_python)
        return dt_planning_fail(c, "no-python",
                                "only Python scripts get an argument --local-rank; give --use-env "
                                "too");
    if (o->run_path)
        return dt_planning_ignore(c, "no-python", "--run-path is given too") < 0
                   ? -1
                   : dt_planning_ignore(c, "module", "--run-path is given too");
    if (!**o->operands)
        return dt_err_set(c->err, DT_E_RUNTIME,
                          "SCRIPT is empty; is a variable in its place on the command line unset?");
    if (o->no_python && o->module)
        return fail_for_both(c, "module", "no-python");
    return 0;
}

/* Whether PROGRAM is the Python that we would have run anyway. */
static bool is_own_interpreter(const struct dt_planning *c, const char *program)
{
    struct dt_interpreter own;
    bool same = dt_interpreter_own(c->facts, &own, NULL) == 0 && strcmp(own.path, program) == 0;
    dt_interpreter_finish(&own);
    return same;
}

/* The script's name where Python is a matter of course, else PROGRAM, as the command line has it: a
 * bare "python3" is a program like any other, as in torchrun, and what follows it may be code. */
static const char *find_title(const struct dt_planning *c, const char *program)
{
    char *const *args = c->plan->argv + 1;
    if (c->o->run_path)
        return "run_script_path";
    if (is_own_interpreter(c, program))
        for (; *args; args++)
            if (**args != '-')
                return *args;
    return program;
}

static void fill(const struct dt_planning *c, const char *program, bool python, struct argv *a)
{
    const struct dt_launch_options *o = c->o;
    char *const *operands = o->operands;
    add(a, program);
    if (python) {
        add(a, "-u");
        if (o->run_path) {
            add(a, "-c");
            add(a, run_path_program);
        } else if (o->module) {
            add(a, "-m");
        }
        add(a, *operands);
    }
    operands++;
    if (passes_local_rank(c))
        add(a, "--local-rank=${local_rank}");
    for (; *operands && !a->bad; operands++)
        add(a, *operands);
}

/* No Python can run machine code, so a script that is some is a program: nobody has to say so. */
static bool wants_python(const struct dt_planning *c)
{
    const struct dt_launch_options *o = c->o;
    if (o->run_path || o->module)
        return true;
    return !o->no_python && !dt_interpreter_is_program(c->facts, *o->operands);
}

/* An environment that is active and has no Python has been moved or deleted, and what runs instead
 * lacks its packages. */
static int note_dead(struct dt_planning *c, const struct dt_interpreter *i)
{
    if (!i->dead)
        return 0;
    return dt_words_push(c->warnings, c->err,
                         "%s is %s, which has no bin/python; scripts run with %s; activate another "
                         "environment or unset %s",
                         i->dead, dt_facts_env(c->facts, i->dead), i->path, i->dead);
}

/* The program that is executed, allocated. */
static char *choose_python(struct dt_planning *c)
{
    struct dt_interpreter i;
    char *path = NULL;
    if (dt_interpreter_find(c->facts, &i, c->err) == 0 && note_dead(c, &i) == 0 &&
        dt_planning_set(c, &c->plan->python_from, i.origin) == 0) {
        path = i.path;
        i.path = NULL;
    }
    dt_interpreter_finish(&i);
    return path;
}

int dt_planning_command(struct dt_planning *c)
{
    const struct dt_launch_options *o = c->o;
    if (check_flags(c) < 0)
        return -1;
    bool python = wants_python(c);
    if ((python && dt_planning_script(c) < 0) || dt_planning_arguments(c) < 0)
        return -1;
    char *program =
        python ? choose_python(c) : dt_interpreter_resolve(c->facts, *o->operands, c->err);
    if (!program)
        return -1;
    struct argv a = {.at = calloc(dt_words_count(o->operands) + 8, sizeof *a.at)};
    c->plan->argv = a.at;
    if (a.at)
        fill(c, program, python, &a);
    free(program);
    if (!a.at || a.bad)
        return dt_err_set(c->err, DT_E_MEMORY, "no memory for the plan");
    const char *named = python ? dt_planning_env(c, "PYTHON_EXEC") : *o->operands;
    return dt_planning_set(c, &c->plan->title, find_title(c, named ? named : a.at[0]));
}
