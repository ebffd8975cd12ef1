/* SPDX-License-Identifier: Apache-2.0 */
/* Workers that outlive another one's failure, on one node. */
#include "tests/lib/check.h"
#include "tests/lib/job.h"

#include <poll.h>
#include <signal.h>

#define STAYS "--no-python", getenv("DT_STAYS")
#define PLACES 8

struct place {
    int rank, size, round, restarts, port, pid;
};

/* The places that workers printed, in their order; where the last one ends is *COUNT. */
static void read_places(struct job *j, struct place *out, int *count)
{
    *count = 0;
    for (const char *at = job_out(j); (at = strstr(at, "rank ")) && *count < PLACES; at++) {
        struct place *p = &out[*count];
        *count += sscanf(at, "rank %d of %d round %d restart %d port %d pid %d", &p->rank, &p->size,
                         &p->round, &p->restarts, &p->port, &p->pid) == 6;
    }
}

static int pid_of(const struct place *p, int count, int rank, int round)
{
    for (int i = 0; i < count; i++)
        if (p[i].rank == rank && p[i].round == round)
            return p[i].pid;
    CHECK_ROW("rank %d of round %d", rank, round);
    CHECK(!"is there");
    return -1;
}

/* A file in a folder of the test's own. */
struct file {
    char dir[64], path[96], await[112];
};

static void make_file(struct file *f, const char *who)
{
    tmp_make(f->dir);
    snprintf(f->path, sizeof f->path, "%s/go", f->dir);
    snprintf(f->await, sizeof f->await, "%sawait:%s", who, f->path);
}

static void go(const struct file *f)
{
    fclose(fopen(f->path, "w"));
}

TEST(those_that_can_stay_keep_their_process)
{
    struct job j;
    struct file f;
    struct place p[PLACES];
    int count;
    make_file(&f, "rank:1:");
    JOB_START(&j, "--nproc-per-node", "3", "--max-restarts", "2", STAYS, "can", "place", f.await,
              "rank:1:kill:9", "next", "place", "again", "place");
    CHECK(job_says_lines(&j, 3));
    go(&f);
    CHECK_EQ(job_wait(&j), 0);
    read_places(&j, p, &count);
    CHECK_EQ(count, 6);
    for (int rank = 0; rank < 3; rank++) {
        CHECK_ROW("rank %d", rank);
        CHECK_EQ(pid_of(p, count, rank, 0) == pid_of(p, count, rank, 1), rank != 1);
    }
    for (int i = 0; i < count; i++) {
        CHECK_EQ(p[i].size, 3);
        CHECK_EQ(p[i].restarts, p[i].round);
        CHECK_EQ(p[i].port, p[0].port);
    }
    CHECK(strstr(job_err(&j), "worker 1 (rank 1, pid ") != NULL);
    CHECK_EQ(count_words(job_err(&j), "restart 1 of 2"), 1);
    CHECK(strstr(job_err(&j), "closing signal") == NULL);
    job_finish(&j);
    tmp_remove(f.dir);
}

/* Both reasons for which all are started again: the option, and one that cannot stay. */
TEST(where_one_cannot_stay_nobody_does)
{
    static const struct {
        const char *keep, *can;
    } rows[] = {{"--keep-workers=never", "can"}, {"--keep-workers=auto", "rank:1:can"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct job j;
        struct file f;
        struct place p[PLACES];
        int count;
        CHECK_ROW("%s %s", rows[i].keep, rows[i].can);
        make_file(&f, "rank:1:");
        JOB_START(&j, "--nproc-per-node", "2", "--max-restarts", "1", rows[i].keep, STAYS,
                  rows[i].can, "place", f.await, "rank:1:kill:9", "hang", "again", "place");
        CHECK(job_says_lines(&j, 2));
        go(&f);
        CHECK_EQ(job_wait(&j), 0);
        read_places(&j, p, &count);
        CHECK_EQ(count, 4);
        CHECK(pid_of(p, count, 0, 0) != pid_of(p, count, 0, 1));
        CHECK_EQ(count_words(job_err(&j), "closing signal"), 1);
        job_finish(&j);
        tmp_remove(f.dir);
    }
}

TEST(one_that_does_not_leave_its_round_is_ended_with_all)
{
    struct job j;
    struct file f;
    struct place p[PLACES];
    int count;
    make_file(&f, "rank:1:");
    JOB_START(&j, "--nproc-per-node", "3", "--max-restarts", "1", STAYS, "can", "place", f.await,
              "rank:1:kill:9", "rank:2:hang", "next", "again", "place");
    CHECK(job_says_lines(&j, 3));
    go(&f);
    CHECK_EQ(job_wait(&j), 0);
    read_places(&j, p, &count);
    CHECK_EQ(count, 6);
    for (int rank = 0; rank < 3; rank++)
        CHECK(pid_of(p, count, rank, 0) != pid_of(p, count, rank, 1));
    CHECK(strstr(job_err(&j), "worker 2 has not left its round within 5 s: no worker stays"));
    job_finish(&j);
    tmp_remove(f.dir);
}

TEST(one_that_says_it_can_stay_and_exits_is_started_again)
{
    struct job j;
    struct file f;
    make_file(&f, "rank:1:");
    JOB_START(&j, "--nproc-per-node", "3", "--max-restarts", "1", STAYS, "can", "place", f.await,
              "rank:1:kill:9", "rank:2:over", "rank:2:exit:0", "next", "place", "again", "place");
    CHECK(job_says_lines(&j, 3));
    go(&f);
    CHECK_EQ(job_wait(&j), 0);
    CHECK_EQ(count_words(job_out(&j), "rank 2 of 3 round 1"), 1);
    CHECK_EQ(count_words(job_out(&j), "round 1"), 3);
    job_finish(&j);
    tmp_remove(f.dir);
}

/* There is nothing to wait for: the last restart is used up, so they are ended as always. */
TEST(nobody_stays_for_a_round_that_cannot_come)
{
    struct job j;
    struct file f;
    make_file(&f, "rank:1:");
    JOB_START(&j, "--nproc-per-node", "2", "--max-restarts", "0", STAYS, "can", "place", f.await,
              "rank:1:exit:7", "hang");
    CHECK(job_says_lines(&j, 2));
    go(&f);
    CHECK_EQ(job_wait(&j), 1);
    CHECK_EQ(count_words(job_err(&j), "closing signal SIGTERM"), 1);
    CHECK(strstr(job_err(&j), "exitcode  : 7 ") != NULL);
    job_finish(&j);
    tmp_remove(f.dir);
}

/* What the dead one printed stays in its file, be it that dtrun writes it or the worker itself; and
 * what it left in error.json is not the next one's. */
TEST(files_go_on_beside_those_that_stay)
{
    static const char *const options[] = {"--tee", "--redirects"};
    for (int i = 0; i < 2; i++) {
        struct job j;
        struct file f;
        char logs[80], run[160], path[224], printed[112], both[112], await[112];
        CHECK_ROW("%s", options[i]);
        make_file(&f, "rank:1:");
        snprintf(logs, sizeof logs, "%s/logs", f.dir);
        snprintf(printed, sizeof printed, "rank:0:touch:%s", f.path);
        snprintf(both, sizeof both, "touch:%s/both", f.dir);
        snprintf(await, sizeof await, "await:%s/both", f.dir);
        JOB_START(&j, "--nproc-per-node", "2", "--max-restarts", "1", "--log-dir", logs, options[i],
                  "3", STAYS, "can", "rank:0:line:round 0", printed, f.await,
                  "rank:1:line:last words", "rank:1:error:{\"message\": \"of the first\"}",
                  "rank:1:exit:1", "next", "line:round 1", both, "hang", "again",
                  "line:first words", await, "exit:1");
        CHECK_EQ(job_wait(&j), 1);
        only_entry(logs, run, sizeof run);
        snprintf(path, sizeof path, "%s/attempt_0/1/stdout.log", run);
        CHECK_STR(read_text(path), "last words\nfirst words\n");
        snprintf(path, sizeof path, "%s/attempt_0/0/stdout.log", run);
        CHECK_STR(read_text(path), "round 0\nround 1\n");
        CHECK_EQ(count_words(job_out(&j), "[default1]:last words\n"), i == 0);
        const char *report = strstr(job_err(&j), "ChildFailedError");
        CHECK(report && !strstr(report, "of the first"));
        job_finish(&j);
        tmp_remove(f.dir);
    }
}

/* Killed with -9: the guards, of which there are two then, end all. */
TEST(nothing_is_left_of_those_that_stayed_when_dtrun_is_killed)
{
    struct job j;
    struct file f;
    struct place p[PLACES];
    int count;
    make_file(&f, "rank:1:");
    JOB_START(&j, "--nproc-per-node", "2", "--max-restarts", "1", STAYS, "can", "place", f.await,
              "rank:1:kill:9", "next", "place", "hang", "again", "place", "ignore:15", "hang");
    CHECK(job_says_lines(&j, 2));
    go(&f);
    CHECK(job_says_lines(&j, 4));
    kill(j.pid, SIGKILL);
    job_wait(&j); /* until nobody has its output open any more */
    read_places(&j, p, &count);
    CHECK_EQ(count, 4);
    for (int i = 0; i < count; i++)
        while (kill(p[i].pid, 0) == 0) /* ended, and soon reaped */
            poll(NULL, 0, 1);
    job_finish(&j);
    tmp_remove(f.dir);
}

TEST(those_that_stayed_end_with_the_job)
{
    struct job j;
    struct file f;
    make_file(&f, "rank:1:");
    JOB_START(&j, "--nproc-per-node", "2", "--max-restarts", "1", STAYS, "can", "place", f.await,
              "rank:1:kill:9", "next", "place", "hang", "again", "place", "hang");
    CHECK(job_says_lines(&j, 2));
    go(&f);
    CHECK(job_says_lines(&j, 4));
    CHECK_EQ(job_stop(&j, SIGTERM), 1);
    CHECK_EQ(count_words(job_err(&j), "closing signal SIGTERM"), 2);
    job_finish(&j);
    tmp_remove(f.dir);
}
