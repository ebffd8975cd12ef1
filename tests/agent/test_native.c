/* SPDX-License-Identifier: Apache-2.0 */
/* Stacks of C code, of a child that stands in a function whose name is known. */
#include "agent/look/native.h"
#include "agent/look/print.h"
#include "tests/lib/check.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

BEFORE_ALL
{
    if (!DT_TEST_LIBDW)
        SKIP("built without libdw");
}

static volatile int stays = 1;

__attribute__((noinline)) static void dt_test_stands_here(void)
{
    while (stays)
        pause();
}

static pid_t start(void)
{
    int ends[2];
    char byte;
    CHECK(pipe(ends) == 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (write(ends[1], "x", 1) == 1)
            dt_test_stands_here();
        _exit(0);
    }
    CHECK_EQ(read(ends[0], &byte, 1), 1);
    close(ends[0]);
    close(ends[1]);
    return pid;
}

static void end(pid_t pid)
{
    kill(pid, SIGKILL);
    CHECK_EQ(waitpid(pid, NULL, 0), pid);
}

static bool has_function(const struct dt_look_task *t, const char *name)
{
    for (size_t i = 0; i < t->native_depth; i++)
        if (strcmp(t->native[i].function, name) == 0)
            return true;
    return false;
}

/* The child may be seen on its way there. */
TEST(the_calls_of_a_program_in_c_are_named_and_it_runs_on)
{
    struct dt_look look = {0};
    struct dt_err err;
    struct dt_buf text = {0};
    pid_t pid = start();
    do {
        dt_look_finish(&look);
        CHECK_OK(dt_look_at(&look, pid, &err), err);
        CHECK_OK(dt_native_add(&look, &err), err);
        CHECK_EQ(look.len, 1);
        CHECK_STR(look.at[0].no_native, "");
    } while (!has_function(look.at[0].process.tasks, "dt_test_stands_here"));
    CHECK_STR(look.at[0].process.tasks[0].native[0].object, "libc.so.6");
    dt_look_print(&look, &text);
    CHECK(strstr(dt_buf_cstr(&text), "    dt_test_stands_here  (test_native)\n") != NULL);
    dt_buf_clear(&text);
    struct dt_json_writer json = {.out = &text, .style = DT_JSON_SPACED};
    dt_look_put_json(&look, &json);
    CHECK(strstr(dt_buf_cstr(&text),
                 "{\"function\": \"dt_test_stands_here\", \"object\": \"test_native\"}") != NULL);
    dt_buf_finish(&text);
    dt_look_finish(&look);
    siginfo_t info = {0};
    CHECK_EQ(waitid(P_PID, (id_t)pid, &info, WSTOPPED | WNOHANG | WNOWAIT), 0);
    CHECK_EQ(info.si_pid, 0);
    end(pid);
}

TEST(a_process_that_ends_or_is_being_debugged_costs_its_own_entry)
{
    struct dt_look look;
    struct dt_err err;
    pid_t pid = start();
    CHECK_OK(dt_look_at(&look, pid, &err), err);
    CHECK(ptrace(PTRACE_SEIZE, pid, NULL, NULL) == 0);
    CHECK_OK(dt_native_add(&look, &err), err);
    CHECK_EQ(look.at[0].process.tasks[0].native_depth, 0);
    end(pid);
    CHECK_OK(dt_native_add(&look, &err), err);
    CHECK_EQ(look.at[0].process.tasks[0].native_depth, 0);
    CHECK(look.at[0].no_native[0] != '\0');
    struct dt_buf text = {0};
    struct dt_json_writer json = {.out = &text, .style = DT_JSON_SPACED};
    dt_look_put_json(&look, &json);
    CHECK(strstr(dt_buf_cstr(&text), "\"no_native\": \"") != NULL);
    dt_buf_finish(&text);
    dt_look_finish(&look);
}
