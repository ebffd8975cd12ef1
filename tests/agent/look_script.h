/* SPDX-License-Identifier: Apache-2.0 */
/* A real CPython ($DT_TEST_PYTHON, or the system's) that stands where its script says. Programs
 * that look at one are skipped where its stacks cannot be read. */
#ifndef DT_TESTS_AGENT_LOOK_SCRIPT_H
#define DT_TESTS_AGENT_LOOK_SCRIPT_H

#include "agent/look/look.h"
#include "tests/lib/check.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

/* A script in place has written a byte, in the line where it stays. */
struct script {
    pid_t pid;
    int in, out;
};

static inline const char *python(void)
{
    const char *path = getenv("DT_TEST_PYTHON");
    return path ? path : "/usr/bin/python3";
}

static inline void start_program(struct script *s, char *const *argv)
{
    int in[2], out[2];
    CHECK(pipe(in) == 0 && pipe(out) == 0);
    s->pid = fork();
    CHECK(s->pid >= 0);
    if (s->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(in[0], 0);
        dup2(out[1], 1);
        close(in[0]), close(in[1]), close(out[0]), close(out[1]);
        execv(argv[0], argv);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    s->in = in[1];
    s->out = out[0];
}

static inline void start(struct script *s, const char *text)
{
    char path[64], byte;
    snprintf(path, sizeof path, "%s", python());
    char *argv[] = {path, (char[]){"-c"}, (char *)(uintptr_t)text, NULL};
    start_program(s, argv);
    CHECK_EQ(read(s->out, &byte, 1), 1);
}

static inline void end(struct script *s)
{
    int status;
    kill(s->pid, SIGKILL);
    CHECK_EQ(waitpid(s->pid, &status, 0), s->pid);
    close(s->in);
    close(s->out);
}

/* From 3.11 on CPython knows a function by the names of what it is defined in, too. */
static bool has_qualified_names;

/* Whether the CPython at hand is one whose stacks can be read. */
BEFORE_ALL
{
    struct script s;
    struct dt_look look;
    struct dt_err err;
    if (access(python(), X_OK) != 0)
        SKIP("there is no %s", python());
    start(&s, "import os; os.write(1, b'x'), os.read(0, 1)");
    int rc = dt_look_at(&look, s.pid, &err);
    bool known = rc == 0 && look.len == 1 && !strstr(look.at[0].unreadable, "is not known");
    has_qualified_names = known && look.at[0].python >= 0x030b0000;
    dt_look_finish(&look);
    end(&s);
    if (!known)
        SKIP("the stacks of this version of %s are not known", python());
}

#define SLEEPER                                                                                    \
    "import os\n"                                                                                  \
    "def inner():\n"                                                                               \
    "    os.write(1, b'x'), os.read(0, 1)\n"                                                       \
    "inner()\n"

#endif
