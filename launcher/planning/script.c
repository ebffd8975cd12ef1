/* SPDX-License-Identifier: Apache-2.0 */
/* Mistakes that can be seen in SCRIPT and in the words behind it before anything starts. What could
 * work is never refused, only warned of. */
#include "launcher/planning/inside.h"

#include "base/auto.h"
#include "launcher/python/interpreter.h"
#include "launcher/words.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The first line of PATH as far as it fits, if that is a program which names its interpreter. */
static bool read_shebang(const char *path, char out[128])
{
    DT_AUTO_FD fd =
        access(path, X_OK) == 0 ? open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC) : -1;
    ssize_t n = fd < 0 ? -1 : read(fd, out, 127);
    if (n < 3 || out[0] != '#' || out[1] != '!')
        return false;
    out[n] = '\0';
    out[strcspn(out, "\r\n")] = '\0';
    return true;
}

/* Nobody asks for an interpreter of PYTHON_EXEC that it opens its script. */
static bool is_opened_by_python(const struct dt_planning *c, const char *script)
{
    bool is_option = *script == '-', is_template = strchr(script, '$') != NULL;
    return !c->o->module && !is_option && !is_template && !dt_planning_env(c, "PYTHON_EXEC");
}

static int fail_missing(struct dt_planning *c, const char *script)
{
    bool has_folder = strchr(script, '/') != NULL;
    DT_AUTO_FREE char *command = has_folder ? NULL : dt_interpreter_resolve(c->facts, script, NULL);
    DT_AUTO_FREE char *here = *script == '/' ? NULL : getcwd(NULL, 0);
    if (command)
        return dt_err_set(c->err, DT_E_RUNTIME,
                          "SCRIPT: \"%s\" is no file of the working directory, but the command %s; "
                          "give --no-python to run that",
                          script, command);
    return dt_err_set(c->err, DT_E_RUNTIME, "SCRIPT: there is no file \"%s\"%s%s%s", script,
                      here ? " in " : "", here ? here : "",
                      has_folder || strstr(script, ".py") ? "" : "; give -m if it is a module");
}

/* torchrun starts Python for it all the same, as often as there are restarts. */
int dt_planning_script(struct dt_planning *c)
{
    const char *script = *c->o->operands;
    char line[128];
    if (!is_opened_by_python(c, script))
        return 0;
    if (access(script, F_OK) < 0 && (errno == ENOENT || errno == ENOTDIR))
        return fail_missing(c, script);
    if (!read_shebang(script, line) || strstr(line, "python") || strstr(line, "pypy"))
        return 0;
    return dt_words_push(c->warnings, c->err,
                         "\"%s\" begins with %s and will be run by Python; give --no-python to run "
                         "it as a program",
                         script, line);
}

/* Whether WORD is, in full, an option about nodes and workers. */
static const struct dt_opt *find_option(const struct dt_planning *c, const char *word)
{
    if (strncmp(word, "--", 2) != 0)
        return NULL;
    const struct dt_opt *o = dt_opt_named(c->o->program, word + 2, strcspn(word + 2, "="));
    bool about_nodes = o && (strcmp(dt_opt_group(o), DT_LAUNCH_NODES_GROUP) == 0 ||
                             strcmp(dt_opt_group(o), DT_LAUNCH_RDZV_GROUP) == 0);
    return about_nodes ? o : NULL;
}

int dt_planning_arguments(struct dt_planning *c)
{
    for (char *const *word = c->o->operands + 1; *word; word++) {
        const struct dt_opt *o = find_option(c, *word);
        if (o && !dt_launch_options_gave(c->o, o->name))
            return dt_words_push(c->warnings, c->err,
                                 "--%s stands behind SCRIPT, so it is an argument of %s and not an "
                                 "option of %s; write options before SCRIPT",
                                 o->name, *c->o->operands, c->o->program->name);
    }
    return 0;
}
