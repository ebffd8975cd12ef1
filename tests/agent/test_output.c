/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/output/output.h"

#include "tests/agent/stage.h"

#include <pty.h>
#include <sys/ioctl.h>
#include <termios.h>

/* -- looking inherited ------------------------------------------------------------------------ */

static void speak_on_both(struct stage *s, int rank)
{
    (void)s;
    (void)rank;
    say(1, isatty(1) ? "a terminal " : "none ");
    for (int i = 0; i < 50; i++) {
        say(1, "o");
        say(2, "e");
    }
}

#define FIFTY(x) TEN(x) TEN(x) TEN(x) TEN(x) TEN(x)
#define TEN(x) x x x x x x x x x x

TEST(stdout_and_stderr_on_one_pipe_keep_their_order)
{
    struct stage *s = stage(1);
    play(s, s->dir, speak_on_both);
    check_seen(s, "none " FIFTY("oe"));
    check_tail(s, 0, DT_STDOUT, "none " FIFTY("oe"));
    check_tail(s, 0, DT_STDERR, "none " FIFTY("oe"));
    end(s);
}

TEST(stdout_and_stderr_on_two_pipes_stay_apart)
{
    int out[2], err[2];
    CHECK_EQ(pipe2(out, O_CLOEXEC), 0);
    CHECK_EQ(pipe2(err, O_CLOEXEC), 0);
    struct stage *s = stage_on(1, out[0], out[1], err[1]);
    play(s, s->dir, speak_on_both);
    check_seen(s, "none " FIFTY("o"));
    char text[100] = "";
    CHECK_EQ(read(err[0], text, sizeof text - 1), 50);
    CHECK_STR(text, FIFTY("e"));
    check_tail(s, 0, DT_STDERR, FIFTY("e"));
    close(err[0]);
    end(s);
}

static struct stage *stage_on_terminal(void)
{
    int screen, terminal;
    struct termios t;
    struct winsize size = {.ws_row = 17, .ws_col = 71};
    if (openpty(&screen, &terminal, NULL, NULL, &size) < 0)
        SKIP("no pseudo-terminals: %s", strerror(errno));
    CHECK_EQ(tcgetattr(terminal, &t), 0);
    CHECK(t.c_oflag & OPOST); /* so that \n becomes \r\n, which must happen once */
    return stage_on(1, screen, terminal, dup(terminal));
}

TEST(where_dtrun_has_a_terminal_workers_have_one_whose_streams_keep_their_order)
{
    struct stage *s = stage_on_terminal();
    play(s, s->dir, speak_on_both);
    check_seen(s, "a terminal " FIFTY("oe"));
    end(s);
}

static void tell_size(struct stage *s, int rank)
{
    char text[40];
    struct winsize size;
    (void)s;
    (void)rank;
    for (int i = 0; i < 2; i++) {
        ioctl(1, TIOCGWINSZ, &size);
        snprintf(text, sizeof text, "%dx%d\n", size.ws_row, size.ws_col);
        say(1, text);
        if (i == 0)
            await_go();
    }
}

TEST(the_workers_terminal_has_the_size_of_ours)
{
    struct stage *s = stage_on_terminal();
    begin(s, s->dir);
    look(s, 100);
    start(s, tell_size);
    while (!strchr(dt_buf_cstr(&s->seen), '\n'))
        turn(s);
    ioctl(s->screen, TIOCSWINSZ, &(struct winsize){.ws_row = 20, .ws_col = 80});
    dt_output_resize(s->output);
    go(s, 0);
    wait_for_workers(s);
    drain(s);
    look_at_rest(s);
    check_seen(s, "17x71\r\n20x80\r\n");
    end(s);
}

static void hello(struct stage *s, int rank)
{
    char text[40];
    (void)s;
    snprintf(text, sizeof text, "%d says", rank);
    say(1, text);
    say(1, " hello");
    say(2, "oh\n");
}

TEST(without_a_folder_redirects_and_tees_are_inherited)
{
    struct stage *s = stage(2);
    s->streams[0].tee = DT_STDOUT | DT_STDERR;
    s->streams[1] = (struct dt_plan_streams){.redirect = DT_STDOUT, .hidden = true};
    play(s, NULL, hello);
    check_seen(s, "0 says hellooh\n");
    check_tail(s, 1, DT_STDOUT, "1 says hellooh\n");
    end(s);
}

TEST(really_inherited_streams_are_ours_and_tees_stay)
{
    struct stage *s = stage(1);
    s->plan.inherit_streams = true;
    s->streams[0].tee = DT_STDERR;
    play(s, s->dir, hello);
    CHECK_EQ(s->fds[0][0], -1);
    CHECK(s->fds[0][1] >= 0);
    check_seen(s, "0 says hello[default0]:oh\n");
    check_file(s, "0/stderr.log", "oh\n");
    check_tail(s, 0, DT_STDOUT, "");
    end(s);
}

TEST(hidden_ranks_show_nothing_and_are_remembered)
{
    struct stage *s = stage(2);
    s->streams[0].hidden = s->streams[1].hidden = true;
    s->streams[1].tee = DT_STDOUT;
    play(s, s->dir, hello);
    check_seen(s, "");
    check_tail(s, 0, DT_STDERR, "0 says hellooh\n");
    check_file(s, "1/stdout.log", "1 says hello");
    check_tail(s, 1, DT_STDOUT, "1 says hello");
    check_tail(s, 1, DT_STDERR, "oh\n");
    end(s);
}

/* -- files ------------------------------------------------------------------------------------ */

static void speak_into_a_file(struct stage *s, int rank)
{
    struct stat st;
    (void)s;
    (void)rank;
    if (fstat(1, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size != 0)
        _exit(5);
    say(1, "rotated away");
    if (ftruncate(1, 0) < 0)
        _exit(6);
    say(1, "kept");
}

TEST(a_redirected_stream_is_the_file_itself_empty_at_first_and_may_be_cut)
{
    struct stage *s = stage(1);
    all_streams(s, DT_STDOUT, 0);
    char path[100];
    snprintf(path, sizeof path, "%s/0/stdout.log", s->dir);
    struct dt_err err;
    CHECK_OK(dt_fs_replace(path, "of yesterday", 12, 0600, &err), err);
    play(s, s->dir, speak_into_a_file);
    check_seen(s, "");
    check_file(s, "0/stdout.log", "kept");
    check_tail(s, 0, DT_STDOUT, "kept");
    end(s);
}

static void speak_in_pieces(struct stage *s, int rank)
{
    (void)s;
    (void)rank;
    say(1, "abc");
    say(1, "def\n10%\r20%\r");
    say(1, "\n\x1b[31mred\x1b[0m \xff\n");
    say(2, "no end");
}

TEST(a_teed_line_has_one_prefix_and_its_file_has_the_bytes)
{
    struct stage *s = stage(1);
    all_streams(s, 0, DT_STDOUT);
    play(s, s->dir, speak_in_pieces);
    check_file(s, "0/stdout.log", "abcdef\n10%\r20%\r\n\x1b[31mred\x1b[0m \xff\n");
    s->streams[0].tee = DT_STDERR;
    s->plan.line_prefix = (char *)"<$rank> ";
    s->plan.strip_codes = true;
    dt_buf_clear(&s->seen);
    play(s, s->dir, speak_in_pieces);
    CHECK(strstr(dt_buf_cstr(&s->seen), "<0> no end\n"));
    all_streams(s, 0, DT_STDOUT | DT_STDERR);
    s->plan.line_prefix = NULL;
    dt_buf_clear(&s->seen);
    play(s, s->dir, speak_in_pieces);
    check_file(s, "0/stdout.log", "abcdef\n10%\r20%\r\nred \xff\n");
    check_file(s, "0/stderr.log", "no end");
    CHECK(strstr(dt_buf_cstr(&s->seen), "[default0]:abcdef\n[default0]:10%\r[default0]:20%\r\n"
                                        "[default0]:\x1b[31mred\x1b[0m \xff\n"));
    CHECK(strstr(dt_buf_cstr(&s->seen), "[default0]:no end\n"));
    end(s);
}

static void say_what_matters(struct stage *s, int rank)
{
    char text[100];
    (void)s;
    snprintf(text, sizeof text, "loss 1\nrank %d: WARN\nerror at last, unfinished", rank);
    say(1, text);
    say(2, "WARN\nfatal\n");
}

TEST(filters_collect_lines_of_all_teed_ranks)
{
    char *out[] = {(char *)"WARN", (char *)"error", NULL}, *err[] = {(char *)"fatal", NULL};
    struct stage *s = stage(3);
    all_streams(s, 0, DT_STDOUT | DT_STDERR);
    s->streams[1].hidden = true;
    s->streams[2].tee = 0;
    s->plan.stdout_filters = out;
    s->plan.stderr_filters = err;
    play(s, s->dir, say_what_matters);
    struct dt_buf text = {0};
    struct dt_err e;
    char path[100];
    snprintf(path, sizeof path, "%s/filtered_stdout.log", s->dir);
    CHECK_OK(dt_fs_read(path, 1000, &text, &e), e);
    for (int rank = 0; rank < 2; rank++) {
        char wanted[100];
        snprintf(wanted, sizeof wanted, "[default%d]:rank %d: WARN\n", rank, rank);
        CHECK(strstr(dt_buf_cstr(&text), wanted));
        snprintf(wanted, sizeof wanted, "[default%d]:error at last, unfinished\n", rank);
        CHECK(strstr(dt_buf_cstr(&text), wanted));
    }
    CHECK_EQ(text.len,
             2 * strlen("[default0]:rank 0: WARN\n[default0]:error at last, unfinished\n"));
    dt_buf_clear(&text);
    snprintf(path, sizeof path, "%s/filtered_stderr.log", s->dir);
    CHECK_OK(dt_fs_read(path, 1000, &text, &e), e);
    CHECK_EQ(text.len, 2 * strlen("[default0]:fatal\n"));
    dt_buf_finish(&text);
    CHECK(!strstr(dt_buf_cstr(&s->seen), "[default1]"));
    end(s);
}

/* -- moments ---------------------------------------------------------------------------------- */

static void ask(struct stage *s, int rank)
{
    (void)s;
    (void)rank;
    say(1, "continue? ");
    await_go();
    say(1, "yes\n");
}

TEST(an_unfinished_line_is_shown_after_a_while_if_wanted)
{
    struct stage *s = stage(1);
    all_streams(s, 0, DT_STDOUT);
    s->plan.partial_line_after = 1;
    begin(s, s->dir);
    look(s, 100);
    start(s, ask);
    wait_until_seen(s, "[default0]:continue? ");
    go(s, 0);
    wait_for_workers(s);
    drain(s);
    look_at_rest(s);
    check_seen(s, "[default0]:continue? yes\n");
    end(s);
}

static void speak_in_turn(struct stage *s, int rank)
{
    (void)s;
    if (rank == 0)
        say(1, "10%");
    await_go();
    say(1, rank == 0 ? " done\n" : "hello\n");
}

TEST(another_rank_does_not_speak_into_an_unfinished_line)
{
    struct stage *s = stage(2);
    all_streams(s, 0, DT_STDOUT);
    s->plan.partial_line_after = 1;
    begin(s, s->dir);
    look(s, 100);
    start(s, speak_in_turn);
    wait_until_seen(s, "[default0]:10%");
    go(s, 1);
    wait_until_seen(s, "[default0]:10%\n[default1]:hello\n");
    go(s, 0);
    wait_for_workers(s);
    drain(s);
    look_at_rest(s);
    check_seen(s, "[default0]:10%\n[default1]:hello\n[default0]: done\n");
    end(s);
}

static void count_in_turn(struct stage *s, int rank)
{
    (void)s;
    if (rank == 0)
        say(1, "10%\r");
    await_go();
    say(1, rank == 0 ? "\nend\n" : "hello\n");
}

TEST(another_rank_does_not_write_over_a_progress_bar)
{
    struct stage *s = stage(2);
    all_streams(s, 0, DT_STDOUT);
    begin(s, s->dir);
    look(s, 100);
    start(s, count_in_turn);
    wait_until_seen(s, "[default0]:10%\r");
    go(s, 1);
    wait_until_seen(s, "[default0]:10%\r\n[default1]:hello\n");
    go(s, 0);
    wait_for_workers(s);
    drain(s);
    look_at_rest(s);
    check_seen(s, "[default0]:10%\r\n[default1]:hello\n[default0]:end\n");
    check_file(s, "0/stdout.log", "10%\r\nend\n");
    end(s);
}

static void say_alike(struct stage *s, int rank)
{
    (void)s;
    say(1, "loading\n");
    if (rank == 2)
        say(1, "I am 2\n");
}

TEST(what_all_ranks_say_is_shown_once_if_wanted)
{
    struct stage *s = stage(3);
    all_streams(s, 0, DT_STDOUT);
    s->plan.collapse_lines = true;
    begin(s, s->dir);
    start(s, say_alike);
    for (int i = 0; i < 3; i++) /* all have spoken before the first is listened to */
        CHECK_EQ(waitpid(s->pids[i], NULL, 0), s->pids[i]);
    drain(s);
    look_at_rest(s);
    check_seen(s, "[default0-2]:loading\n[default2]:I am 2\n");
    check_file(s, "1/stdout.log", "loading\n");
    end(s);
}

TEST(a_second_attempt_has_files_of_its_own)
{
    struct stage *s = stage(1);
    char second[100];
    all_streams(s, 0, DT_STDOUT);
    play(s, s->dir, hello);
    snprintf(second, sizeof second, "%s/0", s->dir); /* any folder with a folder 0 in it */
    char inner[120];
    snprintf(inner, sizeof inner, "%s/0", second);
    CHECK_EQ(mkdir(inner, 0700), 0);
    play(s, second, hello);
    check_file(s, "0/stdout.log", "0 says hello");
    check_file(s, "0/0/stdout.log", "0 says hello");
    check_tail(s, 0, DT_STDOUT, "0 says hello");
    end(s);
}
