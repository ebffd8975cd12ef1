/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/output/stream.h"

#include "tests/agent/stage.h"

#include <sched.h>
#include <sys/mount.h>

TEST(a_flood_of_eight_is_filed_and_shown_whole_and_in_order)
{
    struct stage *s = stage(8);
    all_streams(s, 0, DT_STDOUT);
    play(s, s->dir, flood);
    check_flood_seen(s);
    check_flood_files(s);
    end(s);
}

TEST(a_slow_console_gets_all_of_it)
{
    struct stage *s = stage(8);
    all_streams(s, 0, DT_STDOUT);
    begin(s, s->dir);
    look(s, 4096);
    start(s, flood);
    wait_for_workers(s);
    drain(s);
    look_away(s);
    look_at_rest(s);
    check_flood_seen(s);
    check_flood_files(s);
    end(s);
}

TEST(a_console_that_somebody_made_non_blocking_gets_all_of_it)
{
    struct stage *s = stage(2);
    all_streams(s, 0, DT_STDOUT);
    CHECK_EQ(fcntl(s->console[0], F_SETFL, O_NONBLOCK), 0);
    play(s, s->dir, flood);
    check_flood_seen(s);
    end(s);
}

TEST(a_stopped_console_stops_no_worker_and_gets_all_of_it_later)
{
    struct stage *s = stage(8);
    all_streams(s, 0, DT_STDOUT);
    begin(s, s->dir);
    start(s, flood);
    wait_for_workers(s);
    CHECK_EQ(s->seen.len, 0);
    dt_output_drain(s->output, on_drained, s);
    look(s, 1 << 16);
    while (!s->drained)
        turn(s);
    look_away(s);
    look_at_rest(s);
    check_flood_seen(s);
    check_flood_files(s);
    end(s);
}

TEST(the_end_does_not_wait_for_a_stopped_console)
{
    struct stage *s = stage(4);
    all_streams(s, 0, DT_STDOUT);
    begin(s, s->dir);
    start(s, flood);
    wait_for_workers(s);
    dt_output_drain(s->output, on_drained, s);
    end(s);
}

TEST(a_console_that_is_gone_is_heard_of_by_who_has_no_file_and_missed_by_nobody_else)
{
    struct stage *s = stage(4);
    all_streams(s, 0, DT_STDOUT);
    s->streams[3].tee = 0;
    begin(s, s->dir);
    close(s->screen);
    s->screen = open("/dev/null", O_RDONLY | O_CLOEXEC);
    start(s, flood);
    while (s->live)
        turn(s);
    CHECK_EQ(s->failed, 1);
    drain(s);
    s->plan.nproc = 3;
    check_flood_files(s);
    s->plan.nproc = 4;
    end(s);
}

TEST(the_tail_is_the_last_64_KiB_of_whatever_stream)
{
    struct stage *s = stage(3);
    s->streams[0].tee = DT_STDOUT;
    s->streams[1].redirect = DT_STDOUT;
    play(s, s->dir, flood);
    for (int rank = 0; rank < 3; rank++) {
        CHECK_ROW("rank %d", rank);
        struct dt_buf tail = {0};
        char line[FLOOD_LINE + 1];
        dt_output_tail(s->output, rank, DT_STDOUT, &tail);
        CHECK_EQ(tail.len, DT_OUTPUT_TAIL);
        for (size_t n = 1; n <= DT_OUTPUT_TAIL / FLOOD_LINE; n++) {
            make_flood_line(line, rank, FLOOD_LINES - (int)n);
            CHECK_BYTES(tail.at + tail.len - n * FLOOD_LINE, FLOOD_LINE, line, FLOOD_LINE);
        }
        dt_buf_finish(&tail);
    }
    end(s);
}

TEST(a_full_disk_costs_the_file_and_nothing_else)
{
    struct stage *s = stage(1);
    char path[100];
    snprintf(path, sizeof path, "%s/0", s->dir);
    if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("dt-test", path, "tmpfs", 0, "size=64k") < 0) {
        nftw(s->dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
        SKIP("cannot mount a small tmpfs: %s", strerror(errno));
    }
    all_streams(s, 0, DT_STDOUT);
    play(s, s->dir, flood);
    check_flood_seen(s);
    struct stat st;
    snprintf(path, sizeof path, "%s/0/stdout.log", s->dir);
    CHECK_EQ(stat(path, &st), 0);
    CHECK(st.st_size > 0 && st.st_size <= 64 << 10);
    snprintf(path, sizeof path, "%s/0", s->dir);
    CHECK_EQ(umount2(path, MNT_DETACH), 0);
    end(s);
}

static void leave_a_stranger(struct stage *s, int rank)
{
    char text[20];
    (void)s;
    (void)rank;
    pid_t pid = fork();
    if (pid == 0)
        for (;;)
            pause();
    snprintf(text, sizeof text, "%d left", pid);
    say(1, text);
}

TEST(a_drain_does_not_wait_for_strangers_that_hold_the_pipe)
{
    struct stage *s = stage(1);
    all_streams(s, 0, DT_STDOUT);
    play(s, s->dir, leave_a_stranger);
    int pid = 0;
    CHECK_EQ(sscanf(dt_buf_cstr(&s->seen), "[default0]:%d left\n", &pid), 1);
    CHECK_EQ(s->seen.at[s->seen.len - 1], '\n');
    CHECK(pid > 1);
    CHECK_EQ(kill(pid, SIGKILL), 0);
    end(s);
}

/* Until its pipe is closed. */
static void leave_a_flood(struct stage *s, int rank)
{
    static const char block[4096];
    (void)s;
    (void)rank;
    if (fork() == 0)
        while (write(1, block, sizeof block) > 0)
            ;
}

TEST(a_drain_does_not_listen_to_a_stranger_for_ever)
{
    struct stage *s = stage(1);
    play(s, s->dir, leave_a_flood);
    CHECK(s->drained);
    end(s);
}

static void on_moved(void *arg)
{
    (void)arg;
}

static void on_byte(uv_poll_t *p, int status, int events)
{
    (void)events;
    *(bool *)p->data = status == 0;
    uv_poll_stop(p);
}

/* A worker closes its stdout early, and its number is soon somebody else's: a client's of the
 * store, say. Ending the stream must not make that one deaf. */
TEST(a_stream_that_has_ended_lets_go_of_its_number)
{
    uv_loop_t loop;
    uv_poll_t other;
    int ends[2];
    bool heard = false;
    struct dt_err err;
    CHECK_EQ(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    int number = ends[0];
    struct stage *s = calloc(1, sizeof *s);
    CHECK(s != NULL);
    struct dt_worker_stream_setup setup = {
        .fd = number, .file = -1, .on_moved = on_moved, .on_closed = on_closed, .arg = s};
    uv_loop_init(&loop);
    struct dt_worker_stream *stream = dt_worker_stream_open(&loop, &setup, &err);
    CHECK(stream != NULL);
    dt_worker_stream_pump(stream);
    close(ends[1]);
    while (!dt_worker_stream_is_finished(stream))
        uv_run(&loop, UV_RUN_ONCE);
    CHECK_EQ(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    CHECK_EQ(ends[0], number);
    uv_poll_init(&loop, &other, number);
    other.data = &heard;
    uv_poll_start(&other, UV_READABLE, on_byte);
    uv_run(&loop, UV_RUN_NOWAIT);
    dt_worker_stream_close(stream);
    CHECK_EQ(write(ends[1], "x", 1), 1);
    while (!heard)
        uv_run(&loop, UV_RUN_ONCE);
    uv_close((uv_handle_t *)&other, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    CHECK(s->closed);
    CHECK_EQ(uv_loop_close(&loop), 0);
    close(ends[0]);
    close(ends[1]);
    free(s);
}
