/* SPDX-License-Identifier: Apache-2.0 */
/* What a node tells of its workers' output to people elsewhere, and when. */
#include "agent/output/tails.h"

#include "tests/agent/stage.h"

#include <semaphore.h>

BEFORE_ALL
{
    setenv("UV_THREADPOOL_SIZE", "1", 1);
}

static struct dt_tails *tails;
static struct dt_world world = {.round = 4};
static char told[1 << 20]; /* what came, since it was last read */
static int pages, overs;
static size_t told_len; /* of all of it */
static char grows[100]; /* a file that is written to while it is told of; "": none */
static uv_timer_t tick; /* a turn may do all there is to do before it waits: this ends it */

static void append(const char *path)
{
    static const char text[9000] = "a line\n";
    int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    CHECK(fd >= 0);
    CHECK_EQ(write(fd, text, sizeof text), sizeof text);
    close(fd);
}

static void on_tell(void *arg, int64_t id, bool over, const char *page)
{
    size_t len = strlen(told);
    (void)arg;
    CHECK(id >= 7 && id < 7 + DT_TAILS_MOST);
    CHECK(!page || strlen(page) < DT_FRAME_MAX - 500);
    told_len += page ? strlen(page) : 0;
    if (*grows && told_len < 4 << 20)
        append(grows);
    snprintf(told + len, sizeof told - len, "%s", page ? page : "");
    pages += page != NULL;
    overs += over;
}

static void on_tick(uv_timer_t *t)
{
    (void)t;
}

static void open_tails(struct stage *s)
{
    struct dt_err err = {0};
    struct dt_tails_config config = {
        .output = s->output, .plan = &s->plan, .world = &world, .tell = on_tell};
    tails = dt_tails_create(&s->loop, &config, &err);
    CHECK_STR(err.text, "");
    told[0] = '\0';
    pages = overs = 0;
    told_len = 0;
    uv_timer_init(&s->loop, &tick);
    uv_timer_start(&tick, on_tick, 1, 1);
}

static void close_tails(struct stage *s)
{
    dt_tails_close(tails);
    uv_close((uv_handle_t *)&tick, NULL);
    end(s);
}

static void ask_as(int id, const char *ranks, int lines, bool follow)
{
    dt_tails_hear(
        tails,
        &(struct dt_message){
            .type = DT_MSG_TAIL,
            .tail = {.id = id, .ranks = ranks, .lines = lines, .follow = follow, .room = 8192}});
}

static void ask(const char *ranks, int lines, bool follow)
{
    ask_as(7, ranks, lines, follow);
}

static void go_on(int room)
{
    dt_tails_hear(tails,
                  &(struct dt_message){.type = DT_MSG_MORE, .more = {.id = 7, .room = room}});
}

/* Until so many pages came in all, each of which is answered. */
static void await_pages(struct stage *s, int count)
{
    while (pages < count) {
        int before = pages;
        turn(s);
        if (pages > before)
            go_on(8192);
    }
}

static void await_over(struct stage *s)
{
    while (!overs) {
        int before = pages;
        turn(s);
        if (pages > before && !overs)
            go_on(8192);
    }
}

static bool tells(const char *words)
{
    return strstr(told, words) != NULL;
}

static void three_lines(struct stage *s, int rank)
{
    (void)s;
    say(1, rank ? "a1\nb1\nc1\n" : "a0\nb0\nc0\n");
    say(2, "e");
}

TEST(the_last_lines_of_the_ranks_that_are_wanted)
{
    struct stage *s = stage(2);
    all_streams(s, 0, DT_STDOUT | DT_STDERR);
    play(s, s->dir, three_lines);
    open_tails(s);
    ask("1", 2, false);
    await_over(s);
    CHECK_EQ(pages, 1);
    CHECK(tells("{\"role\":\"default\",\"round\":4,\"pieces\":[{\"rank\":1,\"since\":"));
    CHECK(tells(",\"at\":3,\"next\":9,\"text\":\"b1\\nc1\\n\"}"));
    CHECK(tells(",\"at\":0,\"next\":1,\"open\":true,\"text\":\"e\"}"));
    CHECK(!tells("\"rank\":0"));
    close_tails(s);
}

TEST(streams_that_are_one_are_told_as_one_and_files_as_what_goes_through)
{
    static const unsigned redirects[] = {0, DT_STDOUT | DT_STDERR};
    for (int i = 0; i < 2; i++) {
        struct stage *s = stage(1);
        CHECK_ROW("%d", i);
        if (i == 0)
            s->console[1] = dup2(s->console[0], s->console[1]);
        all_streams(s, redirects[i], 0);
        play(s, s->dir, three_lines);
        open_tails(s);
        ask("", DT_TAIL_ALL, false);
        await_over(s);
        CHECK(tells(i ? "\"at\":0,\"next\":9,\"text\":\"a0\\nb0\\nc0\\n\"}"
                      : "\"at\":0,\"next\":10,\"open\":true,\"text\":\"a0\\nb0\\nc0\\ne\"}"));
        CHECK_EQ(tells("\"stderr\":true"), i == 1);
        close_tails(s);
    }
}

static void two_parts(struct stage *s, int rank)
{
    (void)s;
    (void)rank;
    say(1, "first\n");
    await_go();
    say(1, "second\nthird, without an end");
}

TEST(nothing_is_told_before_the_page_is_answered_and_the_rest_when_workers_are_over)
{
    struct stage *s = stage(1);
    begin(s, NULL);
    look(s, 1 << 16);
    start(s, two_parts);
    wait_until_seen(s, "first\n");
    open_tails(s);
    ask("", 10, true);
    while (pages < 1)
        turn(s);
    CHECK(tells("\"text\":\"first\\n\""));
    go(s, 0);
    wait_for_workers(s);
    drain(s);
    CHECK_EQ(pages, 1);
    dt_tails_flush(tails);
    CHECK_EQ(pages, 2);
    CHECK(tells("\"at\":6,\"next\":34,\"open\":true,\"text\":\"second\\nthird, without an end\""));
    dt_tails_flush(tails);
    CHECK_EQ(pages, 2);
    CHECK_EQ(overs, 0);
    look_away(s);
    close_tails(s);
}

static void one_line(struct stage *s, int rank)
{
    (void)s;
    (void)rank;
    say(1, "again\n");
}

TEST(workers_of_the_next_round_are_told_from_their_beginning)
{
    struct stage *s = stage(1);
    play(s, NULL, one_line);
    open_tails(s);
    ask("", 0, true);
    dt_tails_flush(tails);
    CHECK_EQ(pages, 0); /* none of its last lines was wanted */
    play(s, NULL, one_line);
    dt_tails_flush(tails);
    CHECK(tells("\"at\":0,\"next\":6,\"text\":\"again\\n\""));
    close_tails(s);
}

TEST(of_a_flood_a_part_is_told_in_whole_lines)
{
    struct stage *s = stage(2);
    size_t before;
    all_streams(s, DT_STDOUT, 0);
    play(s, s->dir, flood);
    open_tails(s);
    ask("0", DT_TAIL_ALL, true);
    await_pages(s, 3);
    before = strlen(told);
    CHECK(before < 4 * 8192);
    CHECK(tells("\"text\":\"0 0"));
    dt_tails_flush(tails);
    CHECK(strlen(told) < sizeof told - 1);
    CHECK(tells("0 019999 "));
    CHECK(!tells("\"rank\":1"));
    close_tails(s);
}

static void nothing(struct stage *s, int rank)
{
    (void)s;
    (void)rank;
}

TEST(of_workers_that_print_nothing_the_end_alone_is_told)
{
    struct stage *s = stage(2);
    play(s, NULL, nothing);
    open_tails(s);
    ask("", 10, false);
    await_over(s);
    CHECK_EQ(pages, 0);
    close_tails(s);
}

TEST(who_has_gone_is_told_nothing)
{
    struct stage *s = stage(1);
    play(s, s->dir, three_lines);
    open_tails(s);
    ask("", 10, true);
    go_on(0);
    dt_tails_flush(tails);
    CHECK_EQ(pages, 0);
    for (int i = 0; i < 20; i++) /* one more than there are places takes the place of another */
        ask("", 10, true);
    close_tails(s);
}

TEST(a_read_that_is_under_way_at_the_end_harms_nobody)
{
    struct stage *s = stage(1);
    all_streams(s, DT_STDOUT | DT_STDERR, 0);
    play(s, s->dir, three_lines);
    open_tails(s);
    ask("", 10, true);
    uv_run(&s->loop, UV_RUN_NOWAIT);
    dt_tails_flush(tails);
    ask("", 10, true);
    uv_run(&s->loop, UV_RUN_NOWAIT);
    close_tails(s);
}

/* The one thread that files are read by waits until the gate is open. */
static sem_t gate;

static void wait_at_gate(uv_work_t *work)
{
    (void)work;
    sem_wait(&gate);
}

static void on_gate_passed(uv_work_t *work, int status)
{
    (void)work;
    (void)status;
}

TEST(a_disk_that_hangs_is_not_waited_for_at_the_end)
{
    struct stage *s = stage(1);
    uv_work_t work;
    sem_init(&gate, 0, 0);
    all_streams(s, DT_STDOUT | DT_STDERR, 0);
    play(s, s->dir, three_lines);
    open_tails(s);
    uv_queue_work(&s->loop, &work, wait_at_gate, on_gate_passed);
    ask("", 10, true);
    turn(s); /* in which the read begins */
    for (uint64_t from = uv_now(&s->loop); uv_now(&s->loop) < from + 2000;)
        turn(s);
    dt_tails_flush(tails);
    CHECK_EQ(pages, 0);
    sem_post(&gate);
    go_on(8192);
    await_pages(s, 1);
    CHECK(tells("a0\\nb0\\nc0\\n"));
    close_tails(s);
    sem_destroy(&gate);
}

TEST(what_is_told_at_the_end_is_so_much_in_all_whoever_reads)
{
    for (int file = 0; file < 2; file++) {
        struct stage *s = stage(1);
        CHECK_ROW("%d", file);
        all_streams(s, file ? DT_STDOUT : 0, 0);
        play(s, file ? s->dir : NULL, flood);
        open_tails(s);
        for (int i = 0; i < DT_TAILS_MOST; i++)
            ask_as(7 + i, "", DT_TAIL_ALL, true);
        dt_tails_flush(tails);
        CHECK(pages >= 2 * DT_TAILS_MOST);
        CHECK(told_len < 400 << 10);
        CHECK(tells("0 019999 "));
        close_tails(s);
    }
}

TEST(who_writes_on_does_not_keep_the_end_from_coming)
{
    struct stage *s = stage(1);
    all_streams(s, DT_STDOUT, 0);
    play(s, s->dir, flood);
    open_tails(s);
    snprintf(grows, sizeof grows, "%s/0/stdout.log", s->dir);
    ask("", DT_TAIL_ALL, true);
    dt_tails_flush(tails);
    CHECK(told_len < 4 << 20);
    *grows = '\0';
    close_tails(s);
}

static void bells(struct stage *s, int rank)
{
    (void)s;
    (void)rank;
    for (int i = 0; i < 1000; i++)
        say(1, "\a\a\a\a\a\a\a\a\a\a\a\a\a\a\a\a\a\a\a\a\a\a\a\a\a\a\a\a\a\a\a\n");
}

/* on_tell() measures each. */
TEST(a_page_that_was_begun_makes_none_too_long)
{
    struct stage *s = stage(1);
    all_streams(s, DT_STDOUT, 0);
    play(s, s->dir, bells);
    open_tails(s);
    for (int turns = 0; turns < 20; turns++) {
        CHECK_ROW("%d", turns);
        ask("", DT_TAIL_ALL, true);
        for (int i = 0; i < turns; i++)
            turn(s);
        dt_tails_flush(tails);
        CHECK(pages > 0);
    }
    close_tails(s);
}
