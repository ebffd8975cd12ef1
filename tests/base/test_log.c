/* SPDX-License-Identifier: Apache-2.0 */
#include "base/journald.h"
#include "base/json.h"
#include "base/log.h"
#include "tests/lib/check.h"

#include <cjson/cJSON.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>

/* What WRITE leaves on standard error, which a pipe stands in for. Lines fit into the pipe. */
static const char *captured(void (*write_lines)(void), char out[8192])
{
    int fds[2], saved = dup(STDERR_FILENO);
    if (saved < 0 || pipe(fds) < 0 || dup2(fds[1], STDERR_FILENO) < 0)
        abort();
    close(fds[1]);
    write_lines();
    dup2(saved, STDERR_FILENO); /* the last writing end of the pipe */
    close(saved);
    size_t n = 0;
    for (ssize_t got; (got = read(fds[0], out + n, 8191 - n)) > 0;)
        n += (size_t)got;
    close(fds[0]);
    out[n] = '\0';
    return out;
}

static void one_of_each(void)
{
    dt_error("e%d", 1);
    dt_warn("w");
    dt_info("i");
    dt_debug("d");
}

TEST(a_text_line_has_time_role_level_and_message)
{
    char out[8192];
    dt_log_open("dtrun-test", DT_LOG_ERROR, DT_LOG_TEXT);
    captured(one_of_each, out);
    CHECK_EQ(strlen(out), strlen("2026-11-21T11:33:12.123456Z dtrun-test error: e1\n"));
    CHECK_EQ(out[10], 'T');
    CHECK_EQ(out[26], 'Z');
    CHECK_STR(out + 27, " dtrun-test error: e1\n");
}

TEST(a_level_lets_through_itself_and_what_is_worse)
{
    for (int level = DT_LOG_ERROR; level <= DT_LOG_DEBUG; level++) {
        CHECK_ROW("level %d", level);
        char out[8192];
        int lines = 0;
        dt_log_open("t", (enum dt_log_level)level, DT_LOG_TEXT);
        captured(one_of_each, out);
        for (const char *c = out; *c; c++)
            lines += *c == '\n';
        CHECK_EQ(lines, level + 1);
        CHECK(dt_log_wants((enum dt_log_level)level));
        CHECK_EQ(dt_log_wants(DT_LOG_DEBUG), level == DT_LOG_DEBUG);
    }
}

static void broken_utf8(void)
{
    dt_info("caf\xc3\xa9 \xff\xc0\xaf \"quoted\" \\ \x01 tab\t two\nlines");
}

TEST(a_json_line_is_json_whatever_the_message)
{
    char out[8192];
    struct dt_err err = {0};
    struct dt_json doc;
    const char *text;
    int64_t pid;
    dt_log_open("dtrun-test", DT_LOG_INFO, DT_LOG_JSON);
    captured(broken_utf8, out);
    CHECK_EQ(strchr(out, '\n') - out, (ptrdiff_t)strlen(out) - 1); /* one line */
    CHECK_OK(dt_json_parse(&doc, out, strlen(out), sizeof out, &err), err);
    CHECK_OK(dt_json_string(&doc, NULL, "message", &text, &err), err);
    CHECK_STR(
        text,
        "caf\xc3\xa9 \xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd \"quoted\" \\ \x01 tab\t two\nlines");
    CHECK_OK(dt_json_string(&doc, NULL, "level", &text, &err), err);
    CHECK_STR(text, "info");
    CHECK_OK(dt_json_string(&doc, NULL, "role", &text, &err), err);
    CHECK_STR(text, "dtrun-test");
    CHECK_OK(dt_json_int(&doc, NULL, "pid", 1, INT32_MAX, &pid, &err), err);
    CHECK_EQ(pid, getpid());
    dt_json_finish(&doc);
}

static void two_lines(void)
{
    dt_info("peer said a\nfake line");
}

TEST(a_message_cannot_fake_a_second_line_in_text)
{
    char out[8192];
    dt_log_open("t", DT_LOG_INFO, DT_LOG_TEXT);
    captured(two_lines, out);
    CHECK_EQ(strchr(out, '\n') - out, (ptrdiff_t)strlen(out) - 1);
}

static void very_long(void)
{
    dt_info("%05000d", 1);
}

TEST(a_long_message_is_cut_and_still_a_line)
{
    char out[8192];
    dt_log_open("t", DT_LOG_INFO, DT_LOG_TEXT);
    captured(very_long, out);
    CHECK(strlen(out) > 2000);
    CHECK(strlen(out) < 2200);
    CHECK_EQ(out[strlen(out) - 1], '\n');
}

static void a_bug(void)
{
    dt_bug("state %d", 9);
}

TEST(a_bug_is_an_error_that_says_so)
{
    char out[8192];
    dt_log_open("t", DT_LOG_ERROR, DT_LOG_TEXT);
    captured(a_bug, out);
    CHECK(strstr(out, "error: this is a bug in dtrun, please report it: state 9\n") != NULL);
}

TEST(levels_and_formats_have_names)
{
    static const char *const levels[] = {"error", "warn", "info", "debug"};
    struct dt_err err = {0};
    enum dt_log_level level;
    enum dt_log_format format;
    for (int i = 0; i < 4; i++) {
        CHECK_OK(dt_log_level_from(levels[i], &level, &err), err);
        CHECK_EQ(level, i);
    }
    CHECK_FAIL(dt_log_level_from("loud", &level, &err), err, "\"loud\" is no log level");
    CHECK_OK(dt_log_format_from("json", &format, &err), err);
    CHECK_EQ(format, DT_LOG_JSON);
    CHECK_FAIL(dt_log_format_from("xml", &format, &err), err, "\"xml\" is no log format");
}

TEST(a_limit_lets_a_burst_through_and_then_one_per_interval)
{
    struct dt_log_limit l = {.burst = 3, .every = 1000};
    uint64_t held = 99;
    /* clang-format off */
    static const struct { dt_ms now; bool pass; uint64_t held; } rows[] = {
        {5000, true, 0}, {5000, true, 0}, {5001, true, 0},
        {5002, false, 0}, {5999, false, 0},
        {6000, true, 2}, {6001, false, 0},
        {7500, true, 1}, {7999, false, 0}, {8000, true, 1}, /* half an interval is not lost */
        {60000, true, 0}, {60000, true, 0}, {60000, true, 0}, {60000, false, 0}, /* never above the burst */
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("row %zu at %jd", i, (intmax_t)rows[i].now);
        CHECK_EQ(dt_log_limit_pass(&l, rows[i].now, &held), rows[i].pass);
        if (rows[i].pass)
            CHECK_EQ(held, rows[i].held);
    }
}

TEST(a_limit_that_slept_for_ages_does_not_overflow)
{
    struct dt_log_limit l = {.burst = 2, .every = 1};
    uint64_t held;
    CHECK(dt_log_limit_pass(&l, 1, &held));
    CHECK(dt_log_limit_pass(&l, DT_FOREVER, &held));
    CHECK(dt_log_limit_pass(&l, DT_FOREVER, &held));
    CHECK(!dt_log_limit_pass(&l, DT_FOREVER, &held));
}

TEST(a_limit_works_from_time_zero)
{
    struct dt_log_limit l = {.burst = 2, .every = 1000};
    uint64_t held;
    CHECK(dt_log_limit_pass(&l, 0, &held));
    CHECK(dt_log_limit_pass(&l, 0, &held));
    CHECK(!dt_log_limit_pass(&l, 0, &held));
}

/* A pager that shows its first page, a terminal after Ctrl-S. */
TEST(a_log_that_nobody_reads_holds_nobody_up_and_goes_on_when_somebody_does)
{
    char page[4096] = "", out[8192];
    int fds[2], saved = dup(STDERR_FILENO);
    CHECK(saved >= 0 && pipe2(fds, O_NONBLOCK) == 0);
    while (write(fds[1], page, sizeof page) > 0)
        ;
    fcntl(fds[1], F_SETFL, 0);
    dt_log_open("t", DT_LOG_INFO, DT_LOG_TEXT);
    dup2(fds[1], STDERR_FILENO);
    for (int i = 0; i < 3; i++)
        dt_info("nobody reads this");
    while (read(fds[0], page, sizeof page) > 0)
        ;
    dt_info("this is read");
    dup2(saved, STDERR_FILENO);
    ssize_t n = read(fds[0], out, sizeof out - 1);
    out[n > 0 ? n : 0] = '\0';
    CHECK(strstr(out, "this is read") != NULL);
    CHECK(strstr(out, "nobody reads") == NULL);
    close(saved);
    close(fds[0]);
    close(fds[1]);
}

/* -- what a line is about --------------------------------------------------------------------- */

static void about_a_rank(void)
{
    dt_log_set_job("llama", "node7");
    dt_log_set_round(3);
    dt_warn("of the job");
    dt_log_about(DT_LOG_WARN, &(struct dt_log_about){.round = -1, .rank = 12}, "of a rank");
    dt_log_about(
        DT_LOG_WARN,
        &(struct dt_log_about){.kind = "node_lost", .run = "b", .round = 0, .node = "", .rank = -1},
        "of another job");
    dt_log_set_job(NULL, NULL);
    dt_log_set_round(-1);
    dt_warn("of nothing");
}

TEST(a_json_line_says_what_it_is_about)
{
    char out[8192];
    dt_log_open("t", DT_LOG_INFO, DT_LOG_JSON);
    captured(about_a_rank, out);
    CHECK(strstr(out, ",\"run\":\"llama\",\"round\":3,\"node\":\"node7\","
                      "\"message\":\"of the job\"}\n"));
    CHECK(strstr(out, ",\"run\":\"llama\",\"round\":3,\"node\":\"node7\",\"rank\":12,"
                      "\"message\":\"of a rank\"}\n"));
    CHECK(strstr(out, ",\"kind\":\"node_lost\",\"run\":\"b\",\"round\":0,"
                      "\"message\":\"of another job\"}\n"));
    char alone[64];
    snprintf(alone, sizeof alone, "\"pid\":%d,\"message\":\"of nothing\"}\n", (int)getpid());
    CHECK(strstr(out, alone) != NULL);
    dt_log_open("t", DT_LOG_INFO, DT_LOG_TEXT);
    captured(about_a_rank, out);
    CHECK(strstr(out, " t warn: of a rank\n") != NULL);
}

/* -- the system's journal --------------------------------------------------------------------- */

static char entry[8192]; /* the last that went to the journal */
static bool journal_takes;

int __wrap_dt_journald_send(const struct dt_buf *e);
int __wrap_dt_journald_send(const struct dt_buf *e)
{
    snprintf(entry, sizeof entry, "%.*s", (int)e->len, (const char *)e->at);
    return journal_takes ? 0 : -1;
}

/* As systemd does for the program of a unit. */
static void connect_with_journal(ino_t more)
{
    struct stat st;
    char stream[64];
    CHECK_EQ(fstat(STDERR_FILENO, &st), 0);
    snprintf(stream, sizeof stream, "%ju:%ju", (uintmax_t)st.st_dev, (uintmax_t)(st.st_ino + more));
    setenv("JOURNAL_STREAM", stream, 1);
    dt_log_open("dtrun-test", DT_LOG_INFO, DT_LOG_TEXT);
}

static void to_the_journal(void)
{
    connect_with_journal(0);
    dt_log_about(DT_LOG_WARN,
                 &(struct dt_log_about){
                     .kind = "node_lost", .run = "llama", .round = 3, .node = "node7", .rank = -1},
                 "node7 is %s", "lost\nMESSAGE=fake");
}

static void beside_the_journal(void)
{
    connect_with_journal(1);
    dt_info("redirected");
}

static void forget_journal(void)
{
    unsetenv("JOURNAL_STREAM");
    dt_log_open("t", DT_LOG_INFO, DT_LOG_TEXT);
}

TEST(the_journal_gets_entries_with_a_priority_and_fields)
{
    char out[8192];
    journal_takes = true;
    captured(to_the_journal, out);
    CHECK_STR(out, "");
    CHECK_STR(entry, "PRIORITY=4\nSYSLOG_IDENTIFIER=dtrun-test\n"
                     "MESSAGE=node7 is lost\\x0aMESSAGE=fake\n"
                     "DTRUN_KIND=node_lost\nDTRUN_RUN=llama\nDTRUN_ROUND=3\nDTRUN_NODE=node7\n");
    forget_journal();
}

TEST(a_journal_that_takes_no_entry_gets_lines_without_a_time)
{
    char out[8192];
    journal_takes = false;
    captured(to_the_journal, out);
    CHECK_STR(out, "<4>node7 is lost\\x0aMESSAGE=fake\n");
    forget_journal();
}

TEST(a_log_that_is_redirected_is_none_of_the_journals)
{
    char out[8192];
    captured(beside_the_journal, out);
    CHECK(strstr(out, "Z dtrun-test info: redirected\n") != NULL);
    setenv("JOURNAL_STREAM", "no numbers", 1);
    CHECK(!dt_journald_has_stderr());
    unsetenv("JOURNAL_STREAM");
    CHECK(!dt_journald_has_stderr());
    forget_journal();
}

TEST(a_value_of_several_lines_goes_behind_its_length)
{
    struct dt_buf e = {0};
    dt_journald_put(&e, "A", "b=c");
    dt_journald_put(&e, "D", "e\nf");
    CHECK_BYTES(e.at, e.len, "A=b=c\nD\n\3\0\0\0\0\0\0\0e\nf\n", 20);
    dt_buf_finish(&e);
}
