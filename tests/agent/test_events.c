/* SPDX-License-Identifier: Apache-2.0 */
/* tests/golden/events.txt is what torchrun 2.6 gave its event handler: a job of two workers that
 * failed after a restart, and one of one that went well. */
#include "agent/events.h"
#include "base/fs.h"
#include "base/json.h"
#include "tests/lib/check.h"
#include "tests/lib/folder.h"

#include <cjson/cJSON.h>
#include <ctype.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

BEFORE_ALL
{
    folder_make();
}

/* A plan whose events go to FILE in the folder of the tests. */
static struct dt_plan plan_for(const char *file, char sink[300])
{
    snprintf(sink, 300, "file:%s", at(file));
    return (struct dt_plan){
        .title = (char *)"python3",
        .role = (char *)"default",
        .run_id = (char *)"none",
        .event_log = sink,
    };
}

static const char *read_text(const char *path, struct dt_buf *b)
{
    struct dt_err err = {0};
    dt_buf_clear(b);
    CHECK_OK(dt_fs_read(path, 1 << 20, b, &err), err);
    return dt_buf_cstr(b);
}

/* Measured numbers become N. */
static void mask(const char *line, char *out, size_t size)
{
    static const char *const names[] = {
        "\"timestamp\": ", "\"total_run_time\": ", "\"duration_ms\": "};
    size_t n = 0;
    while (*line && n + 32 < size) {
        size_t len = 0;
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            if (strncmp(line, names[i], strlen(names[i])) == 0)
                len = strlen(names[i]);
        if (len && isdigit((unsigned char)line[len])) {
            n += (size_t)snprintf(out + n, size - n, "%.*sN", (int)len, line);
            line += len;
            line += strspn(line, "0123456789.e-");
        } else {
            out[n++] = *line++;
        }
    }
    out[n] = '\0';
}

static const char *text_of(const cJSON *o, const char *name)
{
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, name));
}

static int int_of(const cJSON *o, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(o, name)->valueint;
}

/* Makes ours do what torchrun did when it recorded WANTED, and compares the lines. */
static void check_event(const char *wanted, struct dt_buf *b)
{
    char sink[300], ours[8000], theirs[8000];
    struct dt_err err = {0};
    struct dt_plan plan = plan_for("golden", sink);
    struct dt_json doc, inner;
    CHECK_OK(dt_json_parse(&doc, wanted, strlen(wanted), 1 << 20, &err), err);
    const cJSON *m = cJSON_GetObjectItemCaseSensitive(doc.root, "metadata");
    const char *more = text_of(m, "metadata");
    CHECK_OK(dt_json_parse(&inner, more, strlen(more), 1 << 20, &err), err);
    bool worker = strcmp(text_of(doc.root, "source"), "WORKER") == 0;
    plan.run_id = (char *)text_of(m, "run_id");
    plan.role = (char *)text_of(m, "role");
    struct dt_world world = {.group_size = 1};
    if (worker)
        world.role_size = cJSON_GetObjectItem(inner.root, "role_world_size")->child->valueint;
    struct dt_events *e = dt_events_open(&plan, "node0.example.org", &err);
    CHECK_STR(err.text, "");
    dt_events_set_world(e, dt_json_has(m, "group_rank") ? &world : NULL,
                        int_of(m, "agent_restarts"));
    if (worker)
        dt_events_worker(e, text_of(m, "state"), int_of(m, "global_rank"),
                         atoi(text_of(m, "worker_id")), text_of(m, "raw_error"));
    else
        dt_events_agent(e, text_of(m, "state"), dt_json_has(m, "duration_ms") ? 17 : -1,
                        text_of(m, "raw_error"));
    dt_events_close(e);
    mask(read_text(at("golden"), b), ours, sizeof ours);
    mask(wanted, theirs, sizeof theirs);
    CHECK_STR(ours, theirs);
    CHECK_EQ(unlink(at("golden")), 0);
    dt_json_finish(&doc);
    dt_json_finish(&inner);
}

TEST(events_are_those_of_torchrun)
{
    struct dt_buf all = {0}, b = {0};
    int count = 0;
    read_text(DT_GOLDEN_DIR "/events.txt", &all);
    while (all.len) {
        char line[4000] = "";
        size_t n = (size_t)((uint8_t *)memchr(all.at, '\n', all.len) - all.at) + 1;
        CHECK(n < sizeof line);
        memcpy(line, all.at, n);
        dt_buf_consume(&all, n);
        CHECK_ROW("line %d", ++count);
        check_event(line, &b);
    }
    CHECK_EQ(count, 11);
    dt_buf_finish(&all);
    dt_buf_finish(&b);
}

TEST(any_text_stays_one_line_of_json)
{
    char sink[300];
    struct dt_err err = {0};
    struct dt_plan plan = plan_for("odd", sink);
    struct dt_world world = {.group_rank = 2, .group_size = 3, .first_rank = 8};
    struct dt_buf b = {0};
    struct dt_json doc;
    plan.run_id = (char *)"a\"b\n\xff";
    plan.backend = DT_BACKEND_C10D;
    struct dt_events *e = dt_events_open(&plan, "host", &err);
    CHECK(e != NULL);
    dt_events_set_world(e, &world, 1);
    dt_events_worker(e, "FAILED", 1, 4, "{\"message\": \"x\n\"}");
    dt_events_close(e);
    const char *text = read_text(at("odd"), &b);
    CHECK_EQ(strcspn(text, "\n") + 1, b.len);
    CHECK_OK(dt_json_parse(&doc, text, b.len, 10000, &err), err);
    const cJSON *m = cJSON_GetObjectItem(doc.root, "metadata");
    CHECK_STR(text_of(m, "run_id"), "a\"b\n\xef\xbf\xbd");
    CHECK_STR(text_of(m, "raw_error"), "{\"message\": \"x\n\"}");
    CHECK_STR(text_of(m, "rdzv_backend"), "c10d");
    CHECK_EQ(int_of(m, "global_rank"), 9);
    CHECK_EQ(int_of(m, "group_rank"), 2);
    CHECK(cJSON_GetObjectItem(doc.root, "timestamp")->valuedouble > 1.6e12);
    dt_json_finish(&doc);
    dt_buf_finish(&b);
}

TEST(a_file_is_appended_to)
{
    char sink[300];
    struct dt_err err = {0};
    struct dt_plan plan = plan_for("more", sink);
    struct dt_buf b = {0};
    CHECK_OK(dt_fs_replace(at("more"), "before\n", 7, 0600, &err), err);
    struct dt_events *one = dt_events_open(&plan, "host", &err);
    struct dt_events *two = dt_events_open(&plan, "host", &err);
    CHECK(one && two);
    dt_events_agent(one, "A", -1, NULL);
    dt_events_agent(two, "B", -1, NULL);
    dt_events_agent(one, "C", -1, NULL);
    dt_events_close(one);
    dt_events_close(two);
    const char *text = read_text(at("more"), &b);
    const char *a = strstr(text, "status.A\""), *c = strstr(text, "status.C\"");
    CHECK(strncmp(text, "before\n{", 8) == 0);
    CHECK(a && c && strstr(text, "status.B\"") > a && strstr(text, "status.B\"") < c);
    dt_buf_finish(&b);
}

/* Runs BODY with standard error in a file and gives back what was written. */
static const char *stderr_of(void (*body)(struct dt_events *), const char *log, struct dt_buf *b)
{
    struct dt_err err = {0};
    struct dt_plan plan = {
        .title = (char *)"t", .role = (char *)"r", .run_id = (char *)"i", .event_log = (char *)log};
    int saved = dup(STDERR_FILENO);
    int file = open(at("stderr"), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);
    struct dt_events *e = dt_events_open(&plan, "host", &err);
    dup2(file, STDERR_FILENO);
    if (e)
        body(e);
    dup2(saved, STDERR_FILENO);
    close(saved);
    close(file);
    CHECK_STR(err.text, "");
    dt_events_close(e);
    return read_text(at("stderr"), b);
}

static void two_events(struct dt_events *e)
{
    dt_events_agent(e, "FIRST", 3, NULL);
    dt_events_agent(e, "SECOND", 3, NULL);
}

TEST(the_console_is_standard_error_and_null_is_nowhere)
{
    struct dt_buf b = {0};
    const char *text = stderr_of(two_events, "console", &b);
    CHECK(strncmp(text, "{\"name\": \"torchelastic.worker.status.FIRST\"", 43) == 0);
    CHECK(strstr(text, "}}\n{\"name\": \"torchelastic.worker.status.SECOND\"") != NULL);
    CHECK_STR(stderr_of(two_events, "null", &b), "");
    dt_buf_finish(&b);
}

TEST(a_sink_that_is_full_is_said_once)
{
    struct dt_buf b = {0};
    const char *text = stderr_of(two_events, "file:/dev/full", &b);
    const char *first = strstr(text, "events are lost: cannot write to file:/dev/full: No space");
    CHECK(first != NULL);
    CHECK(strstr(first + 1, "events are lost") == NULL);
    dt_buf_finish(&b);
}

TEST(what_cannot_be_a_sink_is_an_error)
{
    char fifo[300];
    CHECK_EQ(mkfifo(at("fifo"), 0600), 0);
    snprintf(fifo, sizeof fifo, "file:%s", at("fifo"));
    const struct {
        const char *log, *why;
    } rows[] = {
        {"bogus", "there is no event handler \"bogus\"; give null, console or file:PATH"},
        {"", "there is no event handler \"\""},
        {"file:", "cannot append to the file \"\": No such file"},
        {"file:/nonexistent/x", "cannot append to the file \"/nonexistent/x\": No such"},
        {"file:/tmp", "Is a directory"},
        {fifo, "fifo\": No such device"}, /* nobody reads it, and we do not wait */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_err err = {0};
        struct dt_plan plan = {.event_log = (char *)rows[i].log};
        CHECK_ROW("%s", rows[i].log);
        struct dt_events *e = dt_events_open(&plan, "host", &err);
        CHECK(e == NULL);
        CHECK(strstr(err.text, rows[i].why) != NULL);
    }
}
