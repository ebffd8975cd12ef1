/* SPDX-License-Identifier: Apache-2.0 */
/* Workers that outlive their round, in an elastic job whose rendezvous follows a script: in the
 * rounds it gives them, and when something else than a next round comes. */
#include "tests/agent/scripted_run.h"

#define MEET "meet" /* stands for meet:2: and a folder */

/* Two workers, of ranks 2 and 3, or 0 and 1 in a world of another size; R is made. */
static void play_stays(struct run *r, const struct scripted_line *script,
                       const char *const *actions)
{
    char *argv[16] = {getenv("DT_STAYS")}, dir[64], meet[80];
    int n = 1;
    tmp_make(dir);
    snprintf(meet, sizeof meet, "meet:2:%s", dir);
    for (; *actions; actions++)
        argv[n++] = strcmp(*actions, MEET) == 0 ? meet : (char *)(uintptr_t)*actions;
    r->plan.keep_workers = true;
    run_argv(r, argv, script);
    tmp_remove(dir);
}

static void run_stays(struct run *r, const struct scripted_line *script, const char *const *actions)
{
    run_make(r);
    play_stays(r, script, actions);
}
#define RUN_STAYS(r, script, ...) run_stays((r), (script), (const char *const[]){__VA_ARGS__, NULL})

static const char *out_of(struct run *r)
{
    return dt_buf_cstr(&r->out);
}

/* The pid that a worker printed behind WORDS. */
static int pid_behind(struct run *r, const char *words)
{
    const char *at = strstr(out_of(r), words);
    CHECK_ROW("%s in %s", words, out_of(r));
    CHECK(at != NULL);
    const char *pid = at ? strstr(at, "pid ") : NULL;
    return pid ? atoi(pid + 4) : -1;
}

TEST(a_round_that_others_end_ends_no_worker_that_can_stay)
{
    static const struct scripted_line script[] = {
        ON(S_JOIN, A_WORLD, .round = 0),
        ON(S_AT_STEP, A_STOP, .words = "node2 went offline"),
        ON(S_JOIN, A_WORLD, .words = "2 workers instead of 4", .round = 5, .size = 2),
        ON(S_AT_STEP, A_STOP, .words = "node2 is back"),
        ON(S_JOIN, A_WORLD, .round = 6),
        ON(S_BARRIER, A_OVER),
        {0},
    };
    struct run r;
    RUN_STAYS(&r, script, "can", "place", MEET, "step:7", "next", "place", MEET, "step:7", "next",
              "place");
    CHECK_EQ(r.status, 0);
    CHECK_CALLS(&r, "join\njoin\njoin\nbarrier\nclose\n");
    for (int i = 0; i < 2; i++) {
        char first[32], second[32];
        snprintf(first, sizeof first, "rank %d of 4 round 0 ", 2 + i);
        snprintf(second, sizeof second, "rank %d of 2 round 5 ", i);
        int pid = pid_behind(&r, first);
        CHECK_EQ(pid_behind(&r, second), pid);
        snprintf(first, sizeof first, "rank %d of 4 round 6 ", 2 + i);
        CHECK_EQ(pid_behind(&r, first), pid);
    }
    CHECK(!says(&r, "closing signal"));
    run_finish(&r);
}

/* Rank 3 dies, its peer waits, and what comes is no world. */
#define RANK_3_DIES "can", "place", MEET, "rank:3:kill:9", "next", "place"

TEST(a_failure_ends_the_process_that_failed)
{
    static const struct scripted_line script[] = {
        ON(S_JOIN, A_WORLD, .round = 0),
        ON(S_FAILED, A_NOTHING),
        ON(S_JOIN, A_WORLD, .words = "rank 3 failed; restart 1 of 3", .round = 1, .restarts = 1),
        ON(S_BARRIER, A_OVER),
        {0},
    };
    struct run r;
    RUN_STAYS(&r, script, RANK_3_DIES, "again", "place");
    CHECK_EQ(r.status, 0);
    CHECK_CALLS(
        &r,
        "join\nfailed, crash, rank 3/1, 0/9, \"SIGKILL\", rank 3 (local rank 1) died of SIGKILL\n"
        "join\nbarrier\nclose\n");
    CHECK_EQ(pid_behind(&r, "rank 2 of 4 round 0 "),
             pid_behind(&r, "rank 2 of 4 round 1 restart 1"));
    CHECK(pid_behind(&r, "rank 3 of 4 round 0 ") !=
          pid_behind(&r, "rank 3 of 4 round 1 restart 1"));
    CHECK_SAYS(&r, "worker 1 (rank 3, pid ");
    run_finish(&r);
}

TEST(whatever_comes_instead_of_a_world_ends_those_that_wait)
{
    static const struct scripted_line scripts[][6] = {
        {ON(S_JOIN, A_WORLD), ON(S_FAILED, A_NOTHING),
         ON(S_JOIN, A_CLOSED, .words = "no restart is left", .kind = DT_CLOSE_FAILED)},
        {ON(S_JOIN, A_WORLD), ON(S_FAILED, A_NOTHING), ON(S_JOIN, A_SIGNAL),
         ON(S_LEAVE, A_NOTHING)},
        {ON(S_JOIN, A_WORLD), ON(S_FAILED, A_NOTHING),
         ON(S_JOIN, A_GIVE_UP, .words = "nobody hosts it any more")},
    };
    static const struct {
        int status;
        const char *says;
    } rows[] = {
        {128 + 9, "root cause: rank 3"},
        {128 + 15, "got signal: 15"},
        {69, "nobody hosts it any more"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct run r;
        CHECK_ROW("row %zu", i);
        RUN_STAYS(&r, scripts[i], RANK_3_DIES);
        CHECK_EQ(r.status, rows[i].status);
        CHECK_SAYS(&r, rows[i].says);
        CHECK(strstr(out_of(&r), "round 1") == NULL);
        CHECK(kill(pid_behind(&r, "rank 2 of 4"), 0) < 0);
        run_finish(&r);
    }
}

TEST(last_words_after_the_end_are_shown_here_and_told_nobody_elsewhere)
{
    static const struct scripted_line script[] = {
        ON(S_JOIN, A_WORLD),
        ON(S_AT_STEP, A_TAIL),
        ON(S_AT_STEP, A_STOP, .words = "node2 went offline"),
        ON(S_JOIN, A_CLOSED, .words = "a person stopped it", .kind = DT_CLOSE_STOPPED),
        ON(S_CLOSE, A_TAIL),
        {0},
    };
    struct run r;
    RUN_STAYS(&r, script, "can", MEET, "last:farewell", "step:7", "next");
    CHECK_CALLS(&r, "join\njoin\nclose\n");
    CHECK_SAYS(&r, "a person stopped it");
    CHECK(r.status < 256);
    CHECK(strstr(out_of(&r), "farewell") != NULL);
    run_finish(&r);
}

TEST(those_that_end_instead_are_started_again)
{
    static const struct scripted_line script[] = {
        ON(S_JOIN, A_WORLD, .round = 0),
        ON(S_AT_STEP, A_STOP, .words = "node2 went offline"),
        ON(S_JOIN, A_WORLD, .round = 1),
        ON(S_BARRIER, A_OVER),
        {0},
    };
    struct run r;
    RUN_STAYS(&r, script, "can", "place", MEET, "step:7", "over", "exit:1", "again", "place");
    CHECK_EQ(r.status, 0);
    CHECK_CALLS(&r, "join\njoin\nbarrier\nclose\n");
    for (int rank = 2; rank < 4; rank++) {
        char first[32], then[32];
        snprintf(first, sizeof first, "rank %d of 4 round 0 ", rank);
        snprintf(then, sizeof then, "rank %d of 4 round 1 ", rank);
        CHECK(pid_behind(&r, first) != pid_behind(&r, then));
    }
    run_finish(&r);
}

/* What it printed last is more than dtrun reads ahead of a console, and its reader has stopped. */
TEST(a_console_that_nobody_reads_keeps_no_round_from_coming)
{
    static const struct scripted_line script[] = {
        ON(S_JOIN, A_WORLD, .round = 0),
        ON(S_FAILED, A_NOTHING),
        ON(S_JOIN, A_WORLD, .round = 1, .restarts = 1),
        ON(S_BARRIER, A_OVER),
        {0},
    };
    static const char *const actions[] = {
        "can", MEET, "rank:3:flood:100000", "rank:3:kill:9", "next", "again", NULL};
    struct run r;
    int console[2];
    CHECK(pipe2(console, O_CLOEXEC) == 0);
    run_make(&r);
    r.console = console[1];
    for (int i = 0; i < 2; i++)
        r.streams[i].redirect = r.streams[i].tee = DT_STDOUT;
    play_stays(&r, script, actions);
    CHECK_EQ(r.status, 0);
    CHECK_SAYS(&r, "what workers printed last is not shown: nobody reads it");
    CHECK(!says(&r, "closing signal"));
    close(console[0]);
    close(console[1]);
    run_finish(&r);
}
