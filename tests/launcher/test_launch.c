/* SPDX-License-Identifier: Apache-2.0 */
/* The two programs as processes. */
#include "tests/lib/check.h"

#include <sys/wait.h>

BEFORE_ALL
{
    if (!getenv("DT_DTRUN") || !getenv("DT_DTRUN_LAUNCH"))
        SKIP("DT_DTRUN and DT_DTRUN_LAUNCH name no programs");
}

/* Runs COMMAND (dtrun is "$D", dtrun-launch "$L") in a shell; what it printed on both streams. */
static const char *run(const char *command, int *status)
{
    static char text[32768];
    setenv("D", getenv("DT_DTRUN"), 1);
    setenv("L", getenv("DT_DTRUN_LAUNCH"), 1);
    char whole[2048];
    snprintf(whole, sizeof whole, "{ %s ; } 2>&1", command);
    FILE *p = popen(whole, "r");
    CHECK(p != NULL);
    size_t n = fread(text, 1, sizeof text - 1, p);
    text[n] = '\0';
    int rc = pclose(p);
    *status = WIFEXITED(rc) ? WEXITSTATUS(rc) : 128 + WTERMSIG(rc);
    return text;
}

TEST(what_they_print_and_how_they_end)
{
    /* clang-format off */
    static const struct { const char *command; int status; const char *words; } rows[] = {
        {"\"$D\" --help", 0, "Usage: dtrun [options] SCRIPT [ARG...]\n"},
        {"\"$D\" --help", 0, "\nFor example: dtrun --nproc-per-node 8"},
        {"\"$L\" --help", 0, "--use-env"},
        {"\"$D\" --version", 0, "dtrun " DT_VERSION "\n"},
        {"\"$L\" --version", 0, "dtrun-launch " DT_VERSION "\n"},
        {"\"$D\"", 2, "dtrun: SCRIPT is missing"},
        {"\"$D\" --no-such x", 2, "dtrun: --no-such: no such option\n`dtrun --help` lists the options.\n"},
        {"\"$D\" --nnodes 0 x", 1, "dtrun: --nnodes: \"0\" is not N or MIN:MAX"},
        {"\"$L\" --no-python true", 1, "dtrun-launch: --no-python: only Python scripts"},
        {"\"$D\" --print-config --no-python true a", 0, "/true a\ninterpreter from: none is needed\ntitle: true\n"},
        {"\"$D\" --print-config --no-python true >/dev/full", 1, "dtrun: standard output cannot be written"},
        {"\"$D\" --print-config --hosts a,b:2 x.py 'a b'", 0, "host b:\n  here: ssh "},
        {"\"$D\" --print-config --hosts a,b:2 x.py \"it's\"", 0, "--node-rank=1 --node-name=b -- x.py 'it'\\''s'\n"},
        {"\"$D\" --hosts a,-b x.py", 2, "dtrun: --hosts: \"-b\" is no host"},
        {"\"$D\" --fleet-agent </dev/null", 1, "dtrun-fleet-agent 1 " DT_VERSION " "},
        {"printf '\\377\\377\\377\\377' | \"$D\" --fleet-agent", 1, "dtrun: what came on standard input is no order"},
        {"\"$D\" --look 1 x.py", 2, "dtrun: --look starts nothing: leave \"x.py\" out"},
        {"\"$D\" --look x", 2, "dtrun: --look: \"x\""},
        {"\"$D\" --look 0", 2, "dtrun: --look: "},
        {"\"$D\" --json x.py", 2, "dtrun: --json: goes with --look or `dtrun doctor` only"},
        {"\"$D\" --check-file f x.py", 2, "dtrun: --check-file: goes with `dtrun doctor` only"},
        {"\"$D\" --check-folder f x.py", 2, "dtrun: --check-folder: goes with `dtrun doctor` only"},
        {"\"$D\" --check-compute cpu x.py", 2, "dtrun: --check-compute: goes with `dtrun doctor` only"},
        {"\"$D\" doctor --check-compute x", 2, "--check-compute"},
        {"\"$D\" doctor --look 1", 2, "dtrun: --look: has nothing to do with doctor"},
        {"\"$D\" doctor --hosts a,b --print-config", 0, "  there: dtrun doctor --nnodes=2 --rdzv-id="},
        {"\"$L\" doctor", 1, "dtrun-launch: SCRIPT: there is no file \"doctor\""},
        {"\"$D\" doctor --no-such", 2, "dtrun: --no-such: no such option"},
        {"\"$D\" doctor --help", 0, "Usage: dtrun [options] SCRIPT [ARG...]\n"},
        {"\"$D\" doctor --version", 0, "dtrun " DT_VERSION "\n"},
        {"\"$D\" doctor gone.py", 1, "dtrun: SCRIPT: there is no file \"gone.py\""},
        {"\"$D\" doctor >/dev/full", 1, "dtrun: standard output cannot be written"},
        {"\"$D\" doctor --check-folder /gone", 1, "FAIL folders    there is no folder /gone (make it"},
        {"\"$D\" doctor --check-file /gone", 1, "FAIL files      /gone cannot be read: No such file"},
        {"\"$D\" doctor --json --check-file /gone; [ $? = 1 ]", 0, "{\n  \"verdict\": \"fail\",\n  \"remarks\": [\n"},
        {"s=$(\"$D\" doctor); s=$?; [ $s = 0 ] || [ $s = 3 ]", 0, ""},
        {"\"$D\" --native x.py", 2, "dtrun: --native: goes with --look only"},
        {"\"$D\" --look 2147483647", 1, "dtrun: there is no process 2147483647"},
        {"\"$D\" --look $$", 0, "pid "},
        {"\"$D\" --look $$ --look $$ --json", 0, "[\n  {\n    \"more_processes\": false,"},
        {"\"$D\" --look $$ >/dev/full", 1, "dtrun: standard output cannot be written"},
        {"\"$D\" --help >/dev/full", 1, "dtrun: standard output cannot be written"},
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s", rows[i].command);
        int status;
        const char *text = run(rows[i].command, &status);
        CHECK_EQ(status, rows[i].status);
        if (!strstr(text, rows[i].words))
            CHECK_STR(text, rows[i].words);
        CHECK(strstr(text, rows[i].words) != NULL);
    }
}

TEST(help_fits_80_columns)
{
    int status;
    char *text = strdup(run("\"$D\" --help; \"$L\" --help", &status));
    int lines = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"), lines++) {
        CHECK_ROW("%s", line);
        CHECK(strlen(line) < 80);
    }
    CHECK(lines > 100);
    free(text);
}

/* A folder with all that a link to us in an environment is about. */
#define IN_VENV                                                                                    \
    "d=$(mktemp -d); trap 'rm -r $d' EXIT; mkdir -p $d/bin $d/work; >$d/pyvenv.cfg; "              \
    ">$d/work/t.py; "                                                                              \
    "cd $d/work; ln -s \"$D\" $d/bin/torchrun; ln -s /bin/echo $d/bin/python; "

TEST(a_link_in_an_environment_runs_the_python_there)
{
    int status;
    const char *text =
        run(IN_VENV "$d/bin/torchrun t.py a; PATH=$d/bin:$PATH torchrun --log-dir /dev/null t.py b",
            &status);
    CHECK_STR(text, "-u t.py a\n-u t.py b\n");
    CHECK_EQ(status, 0);
    text = run(IN_VENV "$d/bin/torchrun --print-config t.py | sed \"s:$d::\"", &status);
    CHECK(strstr(text, "command: /bin/python -u t.py\n"
                       "interpreter from: 'the environment that dtrun was called in'\n") == text);
    text = run(IN_VENV "VIRTUAL_ENV=/no/venv \"$D\" --print-config t.py", &status);
    CHECK(strstr(text, "\nwarning: VIRTUAL_ENV is /no/venv, which has no bin/python; scripts run "
                       "with "));
}

/* Each COMMAND runs in a folder with a script and a program, and a python that is neither. */
TEST(scripts_that_no_python_can_run)
{
    /* clang-format off */
    static const struct { const char *command; int status; const char *words; } rows[] = {
        {"\"$D\" --max-restarts 3 --log-dir logs gone.py; s=$?; ls -d logs; exit $s", 1,
         "dtrun: SCRIPT: there is no file \"gone.py\" in HERE\nls: "},
        {"\"$D\" --print-config ./gone.py", 1, "dtrun: SCRIPT: there is no file \"./gone.py\" in HERE\n"},
        {"\"$D\" /no/train.py", 1, "dtrun: SCRIPT: there is no file \"/no/train.py\"\n"},
        {"\"$D\" t.py/x", 1, "dtrun: SCRIPT: there is no file \"t.py/x\" in HERE\n"},
        {"\"$D\" pkg.train", 1, "dtrun: SCRIPT: there is no file \"pkg.train\" in HERE; give -m if it is a module\n"},
        {"\"$D\" --run-path gone.py", 1, "dtrun: SCRIPT: there is no file \"gone.py\""},
        {"\"$D\" python t.py", 1, "dtrun: SCRIPT: \"python\" is no file of the working directory, but the command "
         "bin/python; give --no-python to run that\n"},
        {"\"$D\" ./run.sh", 0, "warn: \"./run.sh\" begins with #!/bin/sh -e and will be run by Python; give --no-python to run "
         "it as a program\n-u ./run.sh\n"},
        {"\"$D\" ./run.py", 0, "-u ./run.py\n"},
        {"\"$D\" -- -c gone.py", 0, "-u -c gone.py\n"},
        {"\"$D\" 't${local_rank}.py'", 0, "-u t0.py\n"},
        {"\"$D\" -m gone", 0, "-u -m gone\n"},
        {"PYTHON_EXEC=echo \"$D\" gone.py", 0, "-u gone.py\n"},
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char command[1024];
        int status;
        snprintf(command, sizeof command,
                 "d=$(mktemp -d); trap 'rm -r $d' EXIT; cd $d; mkdir bin; PATH=bin:$PATH; >t.py; "
                 "for n in run.sh run.py bin/python; do >$n; chmod +x $n; done; "
                 "echo '#!/bin/sh -e' >run.sh; echo '#!/usr/bin/env python3' >run.py; "
                 "printf '#!/bin/sh\necho \"$@\"\n' >bin/python; cp bin/python bin/python3; "
                 "unset VIRTUAL_ENV CONDA_PREFIX; s=0; (%s) >said 2>&1 || s=$?; "
                 "sed \"s:$PWD:HERE:; s/^[^ ]* [^ ]* dtrun: //\" said; exit $s",
                 rows[i].command);
        CHECK_ROW("%s", rows[i].command);
        const char *text = run(command, &status);
        CHECK_EQ(status, rows[i].status);
        if (!strstr(text, rows[i].words))
            CHECK_STR(text, rows[i].words);
    }
}

/* Until a round has begun, lines are about a run and a node, and of no round. */
TEST(the_log_is_json_where_that_is_asked_for)
{
    int status;
    char host[256], serving[512], ranks[512];
    CHECK_EQ(gethostname(host, sizeof host), 0);
    snprintf(serving, sizeof serving, "\"run\":\"llama\",\"node\":\"%s\",\"message\":\"serving",
             host);
    snprintf(ranks, sizeof ranks,
             "\"run\":\"llama\",\"round\":0,\"node\":\"%s\",\"message\":\"node 0 of 1: ranks 0 to "
             "1 of 2",
             host);
    const char *text = run("\"$D\" --log-format json --log-level info --nproc-per-node 2 "
                           "--rdzv-id llama --no-python true",
                           &status);
    CHECK_EQ(status, 0);
    CHECK(strstr(text, serving) != NULL);
    CHECK(strstr(text, ranks) != NULL);
    CHECK(strstr(text, "Z dtrun ") == NULL); /* no line is text */
    run("\"$D\" --log-format yaml --no-python true", &status);
    CHECK_EQ(status, 2);
}

TEST(warnings_follow_the_log_level)
{
    static const struct {
        const char *how;
        bool shown;
    } rows[] = {
        {"\"$D\"", true},
        {"LOGLEVEL=WARNING \"$D\"", true},
        {"LOGLEVEL=info \"$D\"", true},
        {"LOGLEVEL=30 \"$D\"", true},
        {"LOGLEVEL=nonsense \"$D\"", true},
        {"LOGLEVEL= \"$D\"", true},
        {"LOGLEVEL=ERROR \"$D\"", false},
        {"LOGLEVEL=critical \"$D\"", false},
        {"LOGLEVEL=31 \"$D\"", false},
        {"LOGLEVEL=ERROR \"$D\" --log-level=warn", true},
        {"LOGLEVEL=DEBUG DTRUN_LOG_LEVEL=error \"$D\"", false},
    };
    unsetenv("OMP_NUM_THREADS");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s", rows[i].how);
        char command[256];
        int status;
        snprintf(command, sizeof command,
                 "%s --nproc-per-node 2 --log-dir /dev/null --no-python true", rows[i].how);
        const char *text = run(command, &status);
        CHECK_EQ(status, 0);
        CHECK_EQ(strstr(text, "OMP_NUM_THREADS is set to 1") != NULL, rows[i].shown);
    }
}

TEST(asking_for_the_plan_leaves_nothing_behind)
{
    int status;
    const char *text =
        run("d=$(mktemp -d); \"$D\" --print-config --log-dir $d/a/b --no-python true >/dev/null; "
            "ls -A $d; rmdir $d",
            &status);
    CHECK_STR(text, "");
    CHECK_EQ(status, 0);
}
