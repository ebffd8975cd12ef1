/* SPDX-License-Identifier: Apache-2.0 */
/* Alerts that are open when a server ends, however it ends, are those of the next one. */
#include "base/fs.h"
#include "rendezvous/alerts/keep.h"
#include "rendezvous/alerts/saved.h"
#include "tests/lib/folder.h"

#include <fcntl.h>
#include <sys/stat.h>

BEFORE_ALL
{
    folder_make();
}

/* A server, as far as alerts go. */
struct server {
    uv_loop_t loop;
    struct dt_alert_book book;
    struct dt_alert_keep *keep;
    char told[512]; /* "hang raised a; " */
};

static void on_notice(void *arg, const struct dt_notice *n)
{
    struct server *s = arg;
    size_t len = strlen(s->told);
    snprintf(s->told + len, sizeof s->told - len, "%s %s %s; ", n->rule,
             n->state == DT_NOTICE_OVER ? "over" : "raised", n->run);
}

static void on_changed(void *arg, size_t place, const struct dt_alert *a, dt_ms now)
{
    dt_alert_keep_note(((struct server *)arg)->keep, place, a, now);
}

static void server_begin(struct server *s, const char *state_dir)
{
    struct dt_err err = {0};
    *s = (struct server){.book = {.cooldown = 300 * DT_SECOND,
                                  .on_notice = on_notice,
                                  .on_changed = on_changed,
                                  .arg = s}};
    uv_loop_init(&s->loop);
    CHECK_EQ(dt_alert_book_init(&s->book), 0);
    s->keep = dt_alert_keep_open(&s->loop, state_dir, &s->book, &err);
    CHECK_STR(err.text, "");
    CHECK(s->keep != NULL);
}

static void on_closed(void *arg)
{
    *(bool *)arg = true;
}

static void server_end(struct server *s)
{
    bool closed = false;
    dt_alert_keep_close(s->keep, on_closed, &closed);
    uv_run(&s->loop, UV_RUN_DEFAULT);
    CHECK(closed);
    CHECK_EQ(uv_loop_close(&s->loop), 0);
    dt_alert_book_finish(&s->book);
}

static void happen(struct server *s, enum dt_event_kind kind, const char *run)
{
    dt_alert_book_take(&s->book,
                       &(struct dt_event){.kind = kind,
                                          .run = run,
                                          .round = 3,
                                          .rank = 7,
                                          .at_us = 1234567,
                                          .words = "rank 7 sleeps"},
                       dt_clock_monotonic());
}

/* The open ones, as "a b! ": of which runs, and whether people know. */
static const char *open_ones(const struct server *s)
{
    static char text[256];
    size_t len = 0;
    text[0] = '\0';
    for (size_t i = 0; i < DT_ALERTS_MOST; i++) {
        const struct dt_alert *a = &s->book.at[i];
        if (a->rule && a->open)
            len += (size_t)snprintf(text + len, sizeof text - len, "%s%s ", a->run,
                                    a->told ? "!" : "");
    }
    return text;
}

TEST(the_next_server_tells_the_end_and_not_the_beginning_once_more)
{
    struct server s;
    server_begin(&s, at("next"));
    happen(&s, DT_EVENT_HANG, "a");
    happen(&s, DT_EVENT_RUN_ENDED_WELL, "b");
    CHECK_STR(s.told, "hang raised a; run_ended_well raised b; ");
    server_end(&s);
    server_begin(&s, at("next"));
    CHECK_STR(open_ones(&s), "a! ");
    happen(&s, DT_EVENT_HANG, "a");
    CHECK_STR(s.told, "");
    happen(&s, DT_EVENT_HANG_OVER, "a");
    CHECK_STR(s.told, "hang over a; ");
    server_end(&s);
    server_begin(&s, at("next"));
    CHECK_STR(open_ones(&s), "");
    server_end(&s);
}

TEST(what_was_not_told_yet_is_told_by_the_next_server)
{
    struct server s;
    server_begin(&s, at("not yet"));
    happen(&s, DT_EVENT_SPARES_EXHAUSTED, "a"); /* when that has lasted for a minute */
    server_end(&s);
    server_begin(&s, at("not yet"));
    CHECK_STR(open_ones(&s), "a ");
    dt_alert_book_tick(&s.book, dt_clock_monotonic() + 61 * DT_SECOND);
    CHECK_STR(s.told, "spares_exhausted raised a; ");
    server_end(&s);
}

TEST(lighter_alerts_than_the_next_server_is_to_tell_are_left_out)
{
    struct server s;
    server_begin(&s, at("level"));
    happen(&s, DT_EVENT_STRAGGLER, "a");
    happen(&s, DT_EVENT_HANG, "b");
    server_end(&s);
    server_begin(&s, at("level"));
    CHECK_STR(open_ones(&s), "a! b! ");
    struct server strict = {.book = {.least = DT_EVENT_ERROR, .on_notice = on_notice}};
    server_end(&s);
    struct dt_err err = {0};
    uv_loop_init(&strict.loop);
    CHECK_EQ(dt_alert_book_init(&strict.book), 0);
    strict.keep = dt_alert_keep_open(&strict.loop, at("level"), &strict.book, &err);
    CHECK_STR(open_ones(&strict), "b! ");
    server_end(&strict);
}

/* -- kill -9 ---------------------------------------------------------------------------------- */

static void write_file(const char *path, struct dt_bytes bytes)
{
    int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
    CHECK(fd >= 0 && write(fd, bytes.at, bytes.len) == (ssize_t)bytes.len);
    close(fd);
}

TEST(a_kill_at_any_byte_leaves_what_was_open_at_some_moment_and_never_an_earlier_one)
{
    static const char *const moments[] = {"", "a ", "a! ", "a! b ", "a! b! ", "b! "};
    struct server s;
    struct dt_buf file = {0};
    struct dt_err err = {0};
    size_t moment = 0;
    server_begin(&s, at("killed"));
    happen(&s, DT_EVENT_HANG, "a");
    happen(&s, DT_EVENT_HANG, "b");
    happen(&s, DT_EVENT_HANG_OVER, "a");
    server_end(&s);
    CHECK_OK(dt_fs_read(at("killed/alerts/journal"), 1 << 16, &file, &err), err);
    CHECK_EQ(mkdir(at("cut"), 0700) | mkdir(at("cut/alerts"), 0700), 0);
    for (size_t len = 0; len <= file.len; len++) {
        write_file(at("cut/alerts/journal"), (struct dt_bytes){file.at, len});
        server_begin(&s, at("cut"));
        while (moment < sizeof moments / sizeof *moments &&
               strcmp(moments[moment], open_ones(&s)) != 0)
            moment++;
        CHECK(moment < sizeof moments / sizeof *moments);
        server_end(&s);
    }
    CHECK_STR(moments[moment], "b! ");
    dt_buf_finish(&file);
}

/* -- one record ------------------------------------------------------------------------------- */

static const struct dt_alert_rule *rule_called(const char *name)
{
    size_t i = 0;
    while (strcmp(dt_alert_rules[i].name, name) != 0)
        i++;
    return &dt_alert_rules[i];
}

TEST(a_record_has_all_of_an_alert_and_times_go_on_while_no_server_runs)
{
    struct dt_alert a = {.rule = rule_called("straggler"),
                         .run = "llama",
                         .node = "node7",
                         .words = "rank 12 is slow",
                         .round = 2,
                         .rank = 12,
                         .open = true,
                         .told = true,
                         .times = 4,
                         .opened = 1000,
                         .told_at = 2000,
                         .raised_us = 77},
                    b;
    struct dt_buf record = {0};
    dt_alert_save(&a, 5000, 10000000, &record);
    struct dt_bytes in = {record.at, record.len};
    CHECK(dt_alert_restore(&b, in, 100000, 11000000)); /* a second later, on another clock */
    CHECK(b.rule == a.rule && b.open && b.told);
    CHECK_STR(b.run, "llama");
    CHECK_STR(b.node, "node7");
    CHECK_STR(b.words, "rank 12 is slow");
    CHECK_EQ(b.round, 2);
    CHECK_EQ(b.rank, 12);
    CHECK_EQ(b.times, 4);
    CHECK_EQ(b.raised_us, 77);
    CHECK_EQ(b.opened, 100000 - 4000 - 1000);
    CHECK_EQ(b.told_at, 100000 - 3000 - 1000);
    CHECK(dt_alert_restore(&b, in, 10, 9000000)); /* after a boot, and the wall's clock set back */
    CHECK_EQ(b.opened, 0);
    CHECK_EQ(b.told_at, 0);
    dt_buf_finish(&record);
}

TEST(what_is_no_alert_is_refused)
{
    struct dt_alert a = {.rule = rule_called("hang"), .round = -1, .rank = -1, .told_at = -1}, b;
    struct dt_buf record = {0};
    dt_alert_save(&a, 0, 1, &record);
    CHECK(dt_alert_restore(&b, (struct dt_bytes){record.at, record.len}, 0, 1));
    CHECK_EQ(b.told_at, -1);
    for (size_t len = 0; len < record.len; len++)
        CHECK(!dt_alert_restore(&b, (struct dt_bytes){record.at, len}, 0, 1));
    record.at[8 + 4] = 'H'; /* the first letter of the rule's name */
    CHECK(!dt_alert_restore(&b, (struct dt_bytes){record.at, record.len}, 0, 1));
    record.at[8 + 4] = 'h';
    dt_buf_put_u8(&record, 0);
    CHECK(!dt_alert_restore(&b, (struct dt_bytes){record.at, record.len}, 0, 1));
    dt_buf_finish(&record);
}
