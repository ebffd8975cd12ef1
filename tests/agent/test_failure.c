/* SPDX-License-Identifier: Apache-2.0 */
/* The report beside what torchrun 2.6 printed: tests/golden/report has its blocks, NAME.txt, and
 * the error files its workers left, NAME.RANK.json. Times, pids and paths are taken from the
 * recording, so that all of it can be compared to the byte. */
#include "agent/failure/error_file.h"
#include "agent/failure/failure.h"
#include "base/fs.h"
#include "tests/lib/check.h"
#include "tests/lib/folder.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

BEFORE_ALL
{
    folder_make();
    setenv("TZ", "UTC", 1);
    tzset();
}

static void read_golden(const char *name, struct dt_buf *out)
{
    struct dt_err err = {0};
    char path[512];
    snprintf(path, sizeof path, "%s/report/%s.txt", DT_GOLDEN_DIR, name);
    CHECK_OK(dt_fs_read(path, 1 << 20, out, &err), err);
}

/* One recorded failure, whose "[N]:" line TEXT starts with, completed from its error file. HOST
 * gets the host's name; returns N. */
static size_t take_failure(const char *text, const char *name, struct dt_failure *f, char host[64])
{
    struct tm tm = {0};
    struct dt_err err = {0};
    char file[256], json[512];
    size_t index;
    CHECK_EQ(sscanf(text,
                    "[%zu]:\n  time      : %d-%d-%d_%d:%d:%d\n  host      : %63s\n"
                    "  rank      : %d (local_rank: %d)\n  exitcode  : %d (pid: %d)\n"
                    "  error_file: %255s\n",
                    &index, &tm.tm_year, &tm.tm_mon, &tm.tm_mday, &tm.tm_hour, &tm.tm_min,
                    &tm.tm_sec, host, &f->rank, &f->local_rank, &f->exit_code, &f->pid, file),
             13);
    tm.tm_year -= 1900;
    tm.tm_mon -= 1;
    snprintf(json, sizeof json, "%s/report/%s.%d.json", DT_GOLDEN_DIR, name, f->local_rank);
    bool has_file = strcmp(file, "<N/A>") != 0;
    CHECK_EQ(dt_fs_exists(json), has_file);
    /* What has a file must not need the time. */
    CHECK_OK(dt_failure_complete(f, has_file ? json : NULL, (struct dt_bytes){0},
                                 has_file ? INT32_MAX : timegm(&tm), &err),
             err);
    CHECK_EQ(f->has_file, has_file);
    if (has_file) {
        CHECK_STR(f->error_file, json);
        free(f->error_file);
        f->error_file = strdup(file);
    }
    return index;
}

static void check_golden(const char *name)
{
    struct dt_failure failures[4] = {{0}};
    struct dt_buf wanted = {0}, made = {0};
    char title[128], host[64] = "";
    size_t count = 0;
    read_golden(name, &wanted);
    const char *text = dt_buf_cstr(&wanted);
    CHECK_EQ(sscanf(text, "%*[^\n]\n%*[=]\n%127s FAILED\n", title), 1);
    for (const char *c = strchr(text, '\n'); c; c = strchr(c + 1, '\n')) {
        struct dt_failure f = {0};
        if (c[1] != '[')
            continue;
        size_t index = take_failure(c + 1, name, &f, host);
        CHECK(index < 4);
        failures[index] = f;
        count++;
    }
    CHECK(count > 0);
    dt_failure_report(failures, count, title, host, &made);
    CHECK_STR(dt_buf_cstr(&made), text);
    for (size_t i = 0; i < count; i++)
        dt_failure_finish(&failures[i]);
    dt_buf_finish(&wanted);
    dt_buf_finish(&made);
}

TEST(reports_are_those_of_torchrun)
{
    static const char *const names[] = {
        "crash", "chain", "surrogate", "exit",      "kill",    "segv",  "rt",     "plain",
        "empty", "long",  "nostack",   "nomessage", "several", "older", "narrow",
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        CHECK_ROW("%s", names[i]);
        check_golden(names[i]);
    }
}

TEST(without_a_file_the_last_output_speaks)
{
    static const struct {
        int exit_code;
        const char *last, *message, *remark;
    } rows[] = {
        {7, "", "To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html",
         NULL},
        {7, "one\ntwo\n", "one\n  two", NULL},
        {1, "x\nTraceback (most recent call last):\n  File\nE: y\n",
         "Traceback (most recent call last):\n    File\n  E: y", NULL},
        {-9, "\n", "Signal 9 (SIGKILL) received by PID 77", NULL},
        {-11, "one\ntwo\n", "Signal 11 (SIGSEGV) received by PID 77\n  one\n  two", NULL},
        {-40, "", "Signal 40 (<N/A>) received by PID 77", NULL},
        {-9, "one\ntwo\n", "Signal 9 (SIGKILL) received by PID 77\n  one\n  two\n  no memory",
         "no memory"},
        {-9, "", "Signal 9 (SIGKILL) received by PID 77\n  no memory", "no memory"},
        {1, "", "no memory", "no memory"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_failure f = {.pid = 77, .exit_code = rows[i].exit_code};
        struct dt_err err = {0};
        CHECK_ROW("%d after \"%s\"", rows[i].exit_code, rows[i].last);
        strcpy(f.remark, rows[i].remark ? rows[i].remark : "");
        CHECK_OK(dt_failure_complete(&f, at("no such file"), dt_bytes_of(rows[i].last), 99, &err),
                 err);
        CHECK_STR(f.message, rows[i].message);
        CHECK(f.error_file == NULL);
        CHECK(!f.has_file);
        CHECK_EQ(f.time, 99);
        dt_failure_finish(&f);
    }
}

/* Standard error goes to a file while the log is expected to speak. */
static int silence(void)
{
    int saved = dup(STDERR_FILENO);
    int null = open(at("log"), O_WRONLY | O_CREAT | O_APPEND, 0600);
    dup2(null, STDERR_FILENO);
    close(null);
    return saved;
}

static void speak(int saved)
{
    dup2(saved, STDERR_FILENO);
    close(saved);
}

/* A worker chooses the text of its file: codes for a terminal are taken out of it, and what is left
 * of them is shown. */
TEST(an_error_file_does_not_reach_the_terminal_as_it_is)
{
    static const char file[] = "{\"message\": \"a \\u001b[2Jred\\n\\tline\\u001b]52;c;eA==\\u0007 "
                               "\\u009b2J \\u202e \\u00fc\\r\"}";
    struct dt_failure f = {.pid = 77, .exit_code = 1};
    struct dt_buf out = {0};
    struct dt_err err = {0};
    CHECK_OK(dt_fs_replace(at("evil.json"), file, sizeof file - 1, 0600, &err), err);
    CHECK_OK(dt_failure_complete(&f, at("evil.json"), dt_bytes_of(""), 99, &err), err);
    dt_failure_report(&f, 1, "x", "h", &out);
    CHECK(strstr(dt_buf_cstr(&out), "traceback : a red\n\tline \\u009b2J \\u202e \xc3\xbc\\x0d\n"));
    dt_buf_finish(&out);
    dt_failure_finish(&f);
}

TEST(a_file_that_makes_no_sense_is_shown_and_not_believed)
{
    static const struct {
        const char *text;
        bool shown;
    } rows[] = {{"", false}, {"{\"message\": ", true}, {"{}", true}, {"\xff\x01", true}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_failure f = {.pid = 77, .exit_code = 1, .rank = 5};
        struct dt_err err = {0};
        CHECK_ROW("%s", rows[i].text);
        CHECK_OK(dt_fs_replace(at("bad"), rows[i].text, strlen(rows[i].text), 0600, &err), err);
        int saved = silence();
        int rc = dt_failure_complete(&f, at("bad"), dt_bytes_of("last\n"), 99, &err);
        speak(saved);
        CHECK_OK(rc, err);
        CHECK(!f.has_file);
        CHECK_STR(f.error_file, rows[i].shown ? at("bad") : NULL);
        CHECK_STR(f.message, "last");
        CHECK_EQ(f.time, 99);
        dt_failure_finish(&f);
    }
    struct dt_buf log = {0};
    struct dt_err err = {0};
    CHECK_OK(dt_fs_read(at("log"), 10000, &log, &err), err);
    CHECK(strstr(dt_buf_cstr(&log), "rank 5: the error file ") != NULL);
    CHECK(strstr(dt_buf_cstr(&log), "makes no sense: line 1, column") != NULL);
    dt_buf_finish(&log);
}

TEST(a_file_without_a_time_counts_from_when_we_saw_it)
{
    struct dt_failure f = {.exit_code = 1};
    struct dt_err err = {0};
    CHECK_OK(dt_fs_replace(at("timeless"), "{\"message\": \"m\"}", 16, 0600, &err), err);
    CHECK_OK(dt_failure_complete(&f, at("timeless"), (struct dt_bytes){0}, 99, &err), err);
    CHECK(f.has_file);
    CHECK_EQ(f.time, 99);
    dt_failure_finish(&f);
}

#define WEAK(at)                                                                                   \
    {                                                                                              \
        .time = (at), .cause.strength = DT_CAUSE_WEAK                                              \
    }

TEST(the_root_is_the_first_by_strength_then_time_then_death_then_rank)
{
    static const struct {
        const char *story;
        struct dt_failure f[3];
        size_t root;
    } rows[] = {
        {"one of one", {{.rank = 4, .time = 9}}, 0},
        {"the smallest time", {{.time = 9}, {.time = 8, .died_ns = 99}, {.time = 10}}, 1},
        {"an exception long before its process ended",
         {{.time = 50, .died_ns = 1}, {.time = 20, .died_ns = 2, .has_file = true}},
         1},
        {"of one second the first to die",
         {{.time = 9, .died_ns = 3}, {.time = 9, .died_ns = 2}, {.time = 9, .died_ns = 4}},
         1},
        {"of one moment the lowest rank",
         {{.rank = 7, .time = 9}, {.rank = 8, .time = 9}, {.rank = 6, .time = 9}},
         2},
        {"who lost its connection, or waited, before the one that failed of itself",
         {WEAK(1), WEAK(2), {.time = 9}},
         2},
        {"among those of whom nothing is known, time counts",
         {WEAK(1), {.time = 5, .cause.strength = DT_CAUSE_PLAIN}, {.time = 9}},
         1},
        {"where all only saw another's end, the first", {WEAK(3), WEAK(2), WEAK(4)}, 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s", rows[i].story);
        CHECK_EQ(dt_failure_root(rows[i].f, i == 0 ? 1 : i == 2 ? 2 : 3), rows[i].root);
    }
}

static void check_file(const char *path, const char *wanted)
{
    struct dt_buf b = {0};
    struct dt_err err = {0};
    CHECK_OK(dt_fs_read(path, 10000, &b, &err), err);
    CHECK_STR(dt_buf_cstr(&b), wanted);
    dt_buf_finish(&b);
}

TEST(the_root_failure_is_left_for_who_started_us)
{
    static const char text[] = "{\"message\": {\"message\": \"m\"}}";
    static const char left[] = "{\"message\":{\"message\":\"m\",\"errorCode\":-9}}";
    struct dt_failure f = {.exit_code = -9};
    struct dt_err err = {0};
    char link[256];
    CHECK_OK(dt_failure_propagate(&f, at("up"), &err), err); /* it has no file */
    CHECK(!dt_fs_exists(at("up")));
    CHECK_OK(dt_fs_replace(at("theirs"), text, sizeof text - 1, 0600, &err), err);
    CHECK_OK(dt_failure_complete(&f, at("theirs"), (struct dt_bytes){0}, 99, &err), err);
    CHECK_OK(dt_failure_propagate(&f, at("up"), &err), err);
    check_file(at("up"), left);
    CHECK_OK(dt_fs_replace(at("up"), "older and quite a bit longer than what will come then", 53,
                           0600, &err),
             err);
    CHECK_OK(dt_failure_propagate(&f, at("up"), &err), err);
    check_file(at("up"), left);
    /* A link stays one, and a device is written to and not replaced. */
    strcpy(link, at("link"));
    CHECK_EQ(symlink("up", link), 0);
    CHECK_OK(dt_fs_replace(at("up"), "old", 3, 0600, &err), err);
    CHECK_OK(dt_failure_propagate(&f, link, &err), err);
    check_file(at("up"), left);
    struct stat st;
    CHECK_OK(dt_failure_propagate(&f, "/dev/null", &err), err);
    CHECK_EQ(stat("/dev/null", &st), 0);
    CHECK(S_ISCHR(st.st_mode));
    CHECK_FAIL(dt_failure_propagate(&f, at("no/folder"), &err), err, "our error file ");
    dt_failure_finish(&f);
}

TEST(what_ended_the_agent_itself_is_left_in_the_form_of_a_worker_s_file)
{
    struct dt_error_file file;
    struct dt_err err = {0};
    CHECK_OK(dt_failure_leave_own("Process 5 got \"15\"", 99, at("own"), &err), err);
    check_file(at("own"),
               "{\"message\": {\"message\": \"Process 5 got \\\"15\\\"\", \"extraInfo\": "
               "{\"py_callstack\": \"Process 5 got \\\"15\\\"\", \"timestamp\": \"99\"}}}");
    CHECK_OK(dt_error_file_read(at("own"), &file, &err), err);
    CHECK_EQ(file.time, 99);
    CHECK_STR(file.message, "Process 5 got \"15\"");
    dt_error_file_finish(&file);
    CHECK_FAIL(dt_failure_leave_own("m", 99, at("no/folder"), &err), err, "our error file ");
}

TEST(events_get_the_file_or_the_message)
{
    static const char text[] = "{\"message\": {\"message\": \"m\", \"n\": 1}}";
    struct dt_failure f = {.exit_code = -9, .pid = 5}, g = {.exit_code = 1};
    struct dt_err err = {0};
    struct dt_buf out = {0};
    CHECK_OK(dt_failure_complete(&f, NULL, dt_bytes_of("a \"b\""), 99, &err), err);
    CHECK_OK(dt_failure_json(&f, &out, &err), err);
    CHECK_STR(dt_buf_cstr(&out),
              "{\"message\": \"Signal 9 (SIGKILL) received by PID 5\\n  a \\\"b\\\"\"}");
    dt_buf_clear(&out);
    CHECK_OK(dt_fs_replace(at("json"), text, sizeof text - 1, 0600, &err), err);
    CHECK_OK(dt_failure_complete(&g, at("json"), (struct dt_bytes){0}, 99, &err), err);
    CHECK_OK(dt_failure_json(&g, &out, &err), err);
    CHECK_STR(dt_buf_cstr(&out), "{\"message\":{\"message\":\"m\",\"n\":1}}");
    dt_buf_finish(&out);
    dt_failure_finish(&f);
    dt_failure_finish(&g);
}
