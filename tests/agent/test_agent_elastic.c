/* SPDX-License-Identifier: Apache-2.0 */
/* What an agent makes of the decisions of an elastic rendezvous, which here follow a script: whole
 * agents, each in a process of its own, with shells as workers. */
#include "tests/agent/scripted_run.h"

#define FIRST(why_it_ends) "[ $RANK = 2 ] || exec sleep 1000; " why_it_ends

/* -- rounds ----------------------------------------------------------------------------------- */

TEST(a_round_that_others_end_costs_nothing_and_the_next_one_knows_the_last)
{
    static const struct scripted_line script[] = {
        ON(S_JOIN, A_WORLD, .round = 3),
        ON(S_ALL_RUN, A_STOP, .words = "node2 went offline"),
        ON(S_JOIN, A_WORLD, .words = "node2 went offline; spare0 takes seat 2", .round = 4,
           .prev = 4),
        ON(S_BARRIER, A_OVER),
        {0},
    };
    struct run r;
    run_make(&r);
    run_agent(&r,
              "[ $DTRUN_ROUND -gt 3 ] || exec sleep 1000; [ $RANK = 2 ] || exit 0; "
              "echo $DTRUN_PREV_RANK/$DTRUN_PREV_WORLD_SIZE $TORCHELASTIC_RESTART_COUNT",
              script);
    CHECK_EQ(r.status, 0);
    CHECK_CALLS(&r, "join\njoin\nbarrier\nclose\n");
    CHECK_STR(dt_buf_cstr(&r.out), "4/6 0\n");
    CHECK_SAYS(&r, "round 3 is over: node2 went offline\n");
    CHECK_SAYS(&r, "round 4: node2 went offline; spare0 takes seat 2\n");
    CHECK(!says(&r, "ChildFailedError") && !says(&r, "restart "));
    run_finish(&r);
}

TEST(files_of_the_round_before_are_set_aside_under_its_number)
{
    static const struct scripted_line script[] = {
        ON(S_JOIN, A_WORLD, .round = 3), ON(S_ALL_RUN, A_STOP, .words = "why"),
        ON(S_JOIN, A_WORLD, .round = 7), /* a spare in between */
        ON(S_BARRIER, A_OVER),           {0},
    };
    struct run r;
    run_make(&r);
    run_agent(&r,
              "[ $DTRUN_ROUND -gt 3 ] || exec sleep 1000; [ $RANK = 2 ] || exit 0; "
              "cd " /* of the run */ "$(dirname $(dirname $(dirname $TORCHELASTIC_ERROR_FILE))); "
              "echo *",
              script);
    CHECK_EQ(r.status, 0);
    CHECK_STR(dt_buf_cstr(&r.out), "attempt_0 attempt_0.round_3 rounds\n");
    run_finish(&r);
}

TEST(a_round_may_end_while_its_workers_have_succeeded_here)
{
    static const struct scripted_line script[] = {
        ON(S_JOIN, A_WORLD, .round = 0),
        ON(S_BARRIER, A_STOP, .words = "rank 0 failed"),
        ON(S_JOIN, A_WORLD, .words = "rank 0 failed; restart 1 of 3", .round = 1, .restarts = 1),
        ON(S_BARRIER, A_CLOSED, .words = "all are done", .kind = DT_CLOSE_SUCCEEDED),
        {0},
    };
    struct run r;
    run_make(&r);
    run_agent(&r, "[ $RANK = 3 ] || echo restart $TORCHELASTIC_RESTART_COUNT", script);
    CHECK_EQ(r.status, 0);
    CHECK_CALLS(&r, "join\nbarrier\njoin\nbarrier\nclose\n");
    CHECK_STR(dt_buf_cstr(&r.out), "restart 0\nrestart 1\n");
    CHECK_SAYS(&r, "round 1: rank 0 failed; restart 1 of 3\n");
    run_finish(&r);
}

TEST(workers_that_may_do_harm_are_killed_at_once)
{
    static const struct scripted_line script[] = {
        ON(S_JOIN, A_WORLD, .round = 0),
        ON(S_AT_STEP, A_KILL, .words = "this node was taken for lost"),
        ON(S_JOIN, A_CLOSED, .words = "enough", .kind = DT_CLOSE_ENDED),
        {0},
    };
    struct run r;
    run_make(&r);
    r.plan.progress_file = r.progress; /* by it the script sees that the signal is ignored */
    char worker[512];
    snprintf(worker, sizeof worker,
             "trap '' TERM; echo 1 >>%s.n; [ $(wc -l <%s.n) -lt 2 ] || echo 7 >%s; "
             "while :; do sleep 1000; done",
             r.progress, r.progress, r.progress);
    run_agent(&r, worker, script);
    CHECK_EQ(r.status, 1);
    CHECK_CALLS(&r, "join\njoin\nclose\n");
    CHECK_SAYS(&r, " without waiting\n");
    CHECK(strstr(dt_buf_cstr(&r.err), "Unable to shutdown") == NULL); /* they got no time */
    CHECK_SAYS(&r, "this node lost the rendezvous of its job: enough\n");
    run_finish(&r);
}

/* -- progress pages --------------------------------------------------------------------------- */

/* For a shell: what a worker tells, and what it is told. */
#define PAGE "/proc/self/fd/$DTRUN_PROGRESS_FD"
#define TELL(octal)                                                                                \
    "printf '\\1\\0\\0\\0\\0\\0\\0\\0\\" octal "\\0\\0\\0\\0\\0\\0\\0' | dd of=" PAGE              \
    " bs=1 seek=64 conv=notrunc 2>/dev/null; "
#define SAY_OVER "echo over $(od -An -tu4 -j16 -N4 " PAGE "); "

TEST(steps_on_a_page_are_told_and_a_round_is_over_before_its_workers_are_stopped)
{
    static const struct scripted_line script[] = {
        ON(S_JOIN, A_WORLD, .round = 3),
        ON(S_AT_STEP, A_STOP, .words = "node2 went offline"),
        ON(S_JOIN, A_WORLD, .words = "node2 went offline", .round = 4),
        ON(S_BARRIER, A_OVER),
        {0},
    };
    struct run r;
    run_make(&r);
    run_agent(&r,
              "if [ $DTRUN_ROUND = 4 ]; then " SAY_OVER " exit 0; fi; "
              "trap '" SAY_OVER " exit 0' TERM; "
              "if [ $RANK = 2 ]; then " TELL("5") " else " TELL(
                  "7") " fi; while :; do sleep 1000 & wait; done",
              script);
    CHECK_EQ(r.status, 0);
    CHECK_CALLS(&r, "join\njoin\nbarrier\nclose\n");
    CHECK(count_words(dt_buf_cstr(&r.out), "over 1\n") >= 1);  /* one may not be that far yet */
    CHECK_EQ(count_words(dt_buf_cstr(&r.out), "over 0\n"), 2); /* pages of the next round */
    CHECK_SAYS(&r, "warn: round 3: last step 7\n");
    run_finish(&r);
}

/* The first that is told of step 7 is told with its speed, however late it is. */
TEST(of_workers_that_stand_still_no_speed_is_told)
{
    static const struct scripted_line script[] = {
        ON(S_JOIN, A_WORLD),
        ON(S_FAST, A_NOTHING),
        ON(S_OVERDUE, A_CLOSED, .words = "why", .kind = DT_CLOSE_ENDED),
        {0},
    };
    struct run r;
    run_make(&r);
    run_agent(&r,
              "printf '\\0\\0\\0\\0\\0\\100\\217\\100' | dd of=" PAGE /* 1000.0 */
              " bs=1 seek=112 conv=notrunc 2>/dev/null; " TELL("7") "exec sleep 1000",
              script);
    CHECK_CALLS(&r, "join\nclose\n");
    run_finish(&r);
}

TEST(the_end_of_a_job_is_the_end_of_a_round_unless_a_person_made_it)
{
    static const struct {
        enum dt_close_kind kind;
        const char *over;
    } rows[] = {{DT_CLOSE_FAILED, "over 1\n"}, {DT_CLOSE_ENDED, "over 0\n"}};
    for (size_t i = 0; i <= sizeof rows / sizeof *rows; i++) {
        const struct scripted_line closed[] = {
            ON(S_JOIN, A_WORLD, .round = 3),
            ON(S_AT_STEP, A_CLOSED, .words = "why", .kind = rows[i % 2].kind),
            {0}};
        const struct scripted_line stopped[] = {
            ON(S_JOIN, A_WORLD), ON(S_AT_STEP, A_SIGNAL), ON(S_LEAVE, A_NOTHING), {0}};
        struct run r;
        CHECK_ROW("row %zu", i);
        run_make(&r);
        run_agent(&r,
                  "trap '" SAY_OVER " exit 0' TERM; " TELL("7") "while :; do sleep 1000 & wait; "
                                                                "done",
                  i < 2 ? closed : stopped);
        const char *out = dt_buf_cstr(&r.out);
        CHECK(count_words(out, "over ") >= 1); /* one may not be that far yet */
        CHECK_EQ(count_words(out, i < 2 ? rows[i].over : "over 0\n"), count_words(out, "over "));
        run_finish(&r);
    }
}

TEST(a_file_that_was_asked_for_counts_instead_of_pages)
{
    static const struct scripted_line script[] = {
        ON(S_JOIN, A_WORLD),
        ON(S_AT_STEP, A_CLOSED, .words = "why", .kind = DT_CLOSE_ENDED),
        {0},
    };
    struct run r;
    char worker[512];
    run_make(&r);
    r.plan.progress_file = r.progress;
    snprintf(worker, sizeof worker, TELL("11") "echo 7 >%s.$RANK; mv %s.$RANK %s; exec sleep 1000",
             r.progress, r.progress, r.progress);
    run_agent(&r, worker, script);
    CHECK_CALLS(&r, "join\nclose\n");
    run_finish(&r);
}

/* -- failures --------------------------------------------------------------------------------- */

TEST(a_failure_is_said_once_while_the_others_live_and_followed_by_a_restart)
{
    static const struct scripted_line script[] = {
        ON(S_JOIN, A_WORLD, .round = 0),
        ON(S_FAILED, A_KILL, .words = "rank 2 failed"),
        ON(S_JOIN, A_WORLD, .round = 1, .restarts = 1),
        ON(S_BARRIER, A_OVER),
        {0},
    };
    struct run r;
    char worker[512], ready[96];
    run_make(&r);
    snprintf(ready, sizeof ready, "%s/ready", r.dir);
    CHECK_EQ(mkfifo(ready, 0600), 0);
    snprintf(worker, sizeof worker,
             "[ $TORCHELASTIC_RESTART_COUNT = 0 ] || exit 0; "
             "[ $RANK = 2 ] || { trap '' TERM; echo >%s; while :; do sleep 1000; done; }; "
             "read x <%s; printf %%s '{\"message\": \"no shard 17\\nfor me \"}' "
             ">$TORCHELASTIC_ERROR_FILE; exit 3",
             ready, ready);
    run_agent(&r, worker, script);
    CHECK_EQ(r.status, 0);
    CHECK_CALLS(&r,
                "join\n"
                "failed, program, rank 2/0, 3/0, \"exit 3: for me\", rank 2 (local rank 0) exited "
                "with 3: for me\n"
                "join\nbarrier\nclose\n");
    CHECK_SAYS(&r, "worker 0 (rank 2, pid ");
    CHECK(!says(&r, "ChildFailedError"));
    run_finish(&r);
}

TEST(the_last_failure_is_reported_where_it_happened)
{
    static const struct {
        const char *how, *call;
        enum dt_plan_exit policy;
        enum dt_close_kind kind;
        int status;
    } rows[] = {
        {"exit 3", "program, rank 2/0, 3/0, \"exit 3\", rank 2 (local rank 0) exited with 3",
         DT_EXIT_ROOT_CAUSE, DT_CLOSE_FAILED, 3},
        {"exit 3", "program, rank 2/0, 3/0, \"exit 3\", rank 2 (local rank 0) exited with 3",
         DT_EXIT_TORCHRUN, DT_CLOSE_FAILED, 1},
        {"kill -SEGV $$$$" /* a dollar for each two */,
         "crash, rank 2/0, 0/11, \"SIGSEGV\", rank 2 (local rank 0) died of SIGSEGV",
         DT_EXIT_ROOT_CAUSE, DT_CLOSE_FAILED, 139},
        {"exit 3", "program, rank 2/0, 3/0, \"exit 3\", rank 2 (local rank 0) exited with 3",
         DT_EXIT_ROOT_CAUSE, DT_CLOSE_NO_PROGRESS, 93},
        {"exit 3", "program, rank 2/0, 3/0, \"exit 3\", rank 2 (local rank 0) exited with 3",
         DT_EXIT_TORCHRUN, DT_CLOSE_NO_PROGRESS, 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s, kind %d, policy %d", rows[i].how, rows[i].kind, rows[i].policy);
        const struct scripted_line script[] = {
            ON(S_JOIN, A_WORLD, .round = 0),
            ON(S_FAILED, A_NOTHING),
            ON(S_JOIN, A_CLOSED, .words = "no restart is left", .kind = rows[i].kind),
            {0},
        };
        struct run r;
        char worker[128], calls[256];
        run_make(&r);
        r.plan.exit_policy = rows[i].policy;
        snprintf(worker, sizeof worker, FIRST("%s"), rows[i].how);
        snprintf(calls, sizeof calls, "join\nfailed, %s\njoin\nclose\n", rows[i].call);
        run_agent(&r, worker, script);
        CHECK_EQ(r.status, rows[i].status);
        CHECK_CALLS(&r, calls);
        CHECK_SAYS(&r, ": no restart is left\n");
        CHECK_SAYS(&r, "ChildFailedError");
        CHECK_SAYS(&r, "rank      : 2 (local_rank: 0)");
        run_finish(&r);
    }
}

TEST(many_failures_are_told_once_and_the_job_may_end_before_they_are_gone)
{
    static const struct scripted_line script[] = {
        ON(S_JOIN, A_WORLD, .round = 0),
        ON(S_FAILED, A_CLOSED, .words = "no restart is left", .kind = DT_CLOSE_FAILED),
        {0},
    };
    struct run r;
    run_make(&r);
    run_agent(&r, "exit 3", script);
    CHECK_EQ(r.status, 3);
    CHECK_EQ(count_words(dt_buf_cstr(&r.calls), "failed, "), 1);
    CHECK_EQ(count_words(dt_buf_cstr(&r.calls), "join\n"), 1);
    CHECK_SAYS(&r, "the job failed: no restart is left\n");
    CHECK_SAYS(&r, "ChildFailedError");
    run_finish(&r);
}

TEST(a_failure_after_the_round_was_ended_is_nobodys_news)
{
    static const struct scripted_line script[] = {
        ON(S_JOIN, A_WORLD, .round = 0),
        ON(S_AT_STEP, A_STOP, .words = "node2 went offline"),
        ON(S_JOIN, A_WORLD, .round = 1),
        ON(S_BARRIER, A_OVER),
        {0},
    };
    struct run r;
    char worker[512];
    run_make(&r);
    r.plan.progress_file = r.progress;
    snprintf(worker, sizeof worker,
             "[ $DTRUN_ROUND = 0 ] || exit 0; trap 'exit 5' TERM; [ $RANK = 3 ] || echo 7 >%s; "
             "while :; do sleep 1000 & wait; done",
             r.progress);
    run_agent(&r, worker, script);
    CHECK_EQ(r.status, 0);
    CHECK_CALLS(&r, "join\njoin\nbarrier\nclose\n");
    run_finish(&r);
}

TEST(what_cannot_be_started_here_is_left_to_others)
{
    static const struct scripted_line script[] = {
        ON(S_JOIN, A_WORLD, .round = 0), ON(S_LEAVE, A_NOTHING), {0}};
    struct run r;
    run_make(&r);
    char *argv[] = {(char *)"/etc/passwd", NULL};
    run_argv(&r, argv, script);
    CHECK_EQ(r.status, 1);
    CHECK(strncmp(dt_buf_cstr(&r.calls), "join\nleave, worker ", 19) == 0);
    run_finish(&r);
}

/* -- the end of the job ----------------------------------------------------------------------- */

TEST(an_end_that_others_made_gives_its_reason_and_its_exit_status)
{
    static const struct {
        enum dt_close_kind kind;
        int torchrun, root_cause;
        const char *words;
    } rows[] = {
        {DT_CLOSE_SUCCEEDED, 0, 0, ""},
        {DT_CLOSE_FAILED, 1, 1, "the job failed: because\n"},
        {DT_CLOSE_TIMEOUT, 1, 75, "the job ended, as too few nodes came: because\n"},
        {DT_CLOSE_NO_PROGRESS, 1, 93, "the job ended, as it would only fail again: because\n"},
        {DT_CLOSE_REFUSED, 1, 1, "this node cannot be in the job: because\n"},
        {DT_CLOSE_ENDED, 1, 1, "this node lost the rendezvous of its job: because\n"},
    };
    for (size_t i = 0; i < 3 * sizeof rows / sizeof *rows; i++) {
        const struct scripted_line joining[] = {
            ON(S_JOIN, A_CLOSED, .words = "because", .kind = rows[i / 3].kind), {0}};
        const struct scripted_line running[] = {
            ON(S_JOIN, A_WORLD),
            ON(S_ALL_RUN, A_CLOSED, .words = "because", .kind = rows[i / 3].kind),
            {0}};
        const struct scripted_line finished[] = {
            ON(S_JOIN, A_WORLD),
            ON(S_BARRIER, A_CLOSED, .words = "because", .kind = rows[i / 3].kind),
            {0}};
        static const char *const calls[] = {"join\nclose\n", "join\nclose\n",
                                            "join\nbarrier\nclose\n"};
        const struct scripted_line *scripts[] = {joining, running, finished};
        for (int policy = 0; policy < 2; policy++) {
            struct run r;
            CHECK_ROW("kind %d, phase %zu, policy %d", rows[i / 3].kind, i % 3, policy);
            run_make(&r);
            r.plan.exit_policy = policy ? DT_EXIT_ROOT_CAUSE : DT_EXIT_TORCHRUN;
            run_agent(&r, i % 3 == 1 ? "exec sleep 1000" : "exit 0", scripts[i % 3]);
            CHECK_EQ(r.status, policy ? rows[i / 3].root_cause : rows[i / 3].torchrun);
            CHECK_CALLS(&r, calls[i % 3]);
            CHECK_SAYS(&r, rows[i / 3].words);
            CHECK(!says(&r, "ChildFailedError"));
            run_finish(&r);
        }
    }
}

TEST(a_rendezvous_that_cannot_be_reached)
{
    static const struct scripted_line script[] = {
        ON(S_JOIN, A_GIVE_UP, .words = "nobody is at node0:29400"), {0}};
    for (int policy = 0; policy < 2; policy++) {
        struct run r;
        CHECK_ROW("policy %d", policy);
        run_make(&r);
        r.plan.exit_policy = policy ? DT_EXIT_ROOT_CAUSE : DT_EXIT_TORCHRUN;
        run_agent(&r, "exit 0", script);
        CHECK_EQ(r.status, policy ? 69 : 1);
        CHECK_CALLS(&r, "join\nclose\n");
        CHECK_SAYS(&r, "nobody is at node0:29400\n");
        run_finish(&r);
    }
}

TEST(a_signal_is_told_before_the_workers_are_gone)
{
    static const struct scripted_line running[] = {
        ON(S_JOIN, A_WORLD), ON(S_ALL_RUN, A_SIGNAL), ON(S_LEAVE, A_NOTHING), {0}};
    static const struct scripted_line parked[] = {
        ON(S_JOIN, A_SIGNAL), ON(S_LEAVE, A_NOTHING), {0}};
    static const struct scripted_line *const scripts[] = {running, parked};
    for (int i = 0; i < 2; i++) {
        struct run r;
        CHECK_ROW("%s", i ? "parked" : "running");
        run_make(&r);
        run_agent(&r, "exec sleep 1000", scripts[i]);
        CHECK_EQ(r.status, 128 + SIGTERM);
        CHECK_CALLS(&r, "join\nleave, it got SIGTERM\nclose\n");
        CHECK_SAYS(&r, "got signal: 15");
        CHECK(!says(&r, "ChildFailedError"));
        run_finish(&r);
    }
}

/* By the one who has started all nodes: nobody else may be there to say so. */
TEST(a_job_that_is_lost_ends_without_a_rendezvous_that_says_so)
{
    static const struct scripted_line running[] = {ON(S_JOIN, A_WORLD), ON(S_ALL_RUN, A_LOST), {0}};
    static const struct scripted_line parked[] = {ON(S_JOIN, A_LOST), {0}};
    static const struct scripted_line told_why[] = {
        ON(S_JOIN, A_WORLD),
        ON(S_ALL_RUN, A_LOST),
        ON(S_ALL_RUN, A_CLOSED, .words = "rank 0 failed", .kind = DT_CLOSE_FAILED),
        {0}};
    static const struct {
        const struct scripted_line *script;
        const char *says;
    } rows[] = {
        {running, "error: the job failed: too few of its hosts are left"},
        {parked, "error: the job failed: too few of its hosts are left"},
        {told_why, "error: the job failed: rank 0 failed\n"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct run r;
        CHECK_ROW("row %zu", i);
        run_make(&r);
        run_agent(&r, "exec sleep 1000", rows[i].script);
        CHECK_EQ(r.status, 1);
        CHECK_CALLS(&r, "join\nclose\n");
        CHECK_SAYS(&r, rows[i].says);
        CHECK_EQ(count_words(dt_buf_cstr(&r.err), "the job failed"), 1);
        run_finish(&r);
    }
}

TEST(a_terminal_may_be_resized_while_the_end_is_waited_for)
{
    static const struct scripted_line script[] = {
        ON(S_JOIN, A_WORLD), ON(S_BARRIER, A_OVER), ON(S_CLOSE, A_RESIZE), {0}};
    struct run r;
    run_make(&r);
    run_agent(&r, "exit 0", script);
    CHECK_EQ(r.status, 0);
    CHECK_CALLS(&r, "join\nbarrier\nclose\n");
    run_finish(&r);
}
