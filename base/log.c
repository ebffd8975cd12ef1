/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include "base/json_write.h"
#include "base/utf8.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define LINE_MAX_BYTES 2048

#define PATIENCE_MS 1000

static struct {
    const char *role;
    enum dt_log_level level;
    enum dt_log_format format;
    bool stuck; /* nobody read there last time */
    atomic_bool open_line;
} sink = {.role = "dtrun", .level = DT_LOG_INFO, .format = DT_LOG_TEXT};

static const char *const level_names[] = {"error", "warn", "info", "debug"};
static const char *const format_names[] = {"text", "json"};

void dt_log_open(const char *role, enum dt_log_level level, enum dt_log_format format)
{
    sink.role = role;
    sink.level = level;
    sink.format = format;
}

bool dt_log_wants(enum dt_log_level level)
{
    return level <= sink.level;
}

/* Where a pipe has any room it has that of a page, which no line of ours fills. */
static bool has_room(void)
{
    struct pollfd p = {.fd = STDERR_FILENO, .events = POLLOUT};
    int rc;
    do
        rc = poll(&p, 1, sink.stuck ? 0 : PATIENCE_MS);
    while (rc < 0 && errno == EINTR);
    sink.stuck = rc == 0;
    return rc != 0;
}

void dt_log_note_open_line(bool open)
{
    atomic_store(&sink.open_line, open);
}

bool dt_log_take_open_line(void)
{
    return atomic_exchange(&sink.open_line, false);
}

static void put_out(const char *line, size_t len)
{
    char newline = '\n';
    if (!has_room())
        return;
    struct iovec parts[2] = {{&newline, dt_log_take_open_line()}, {(char *)(uintptr_t)line, len}};
    ssize_t n = writev(STDERR_FILENO, parts, 2);
    (void)n; /* a log that cannot be written has nobody to tell */
}

void dt_log_plain(const char *line)
{
    put_out(line, strlen(line));
}

static void emit(struct dt_buf *line)
{
    dt_buf_put_u8(line, '\n');
    put_out((const char *)line->at, line->len);
    dt_buf_finish(line);
}

__attribute__((format(printf, 2, 0))) static void log_line(enum dt_log_level level, const char *fmt,
                                                           va_list ap)
{
    if (!dt_log_wants(level))
        return;
    char text[LINE_MAX_BYTES], when[DT_CLOCK_TEXT];
    vsnprintf(text, sizeof text, fmt, ap);
    dt_clock_format(dt_clock_wall_us(), when);
    struct dt_buf line = {0};
    if (sink.format == DT_LOG_JSON) {
        struct dt_json_writer w = {.out = &line};
        dt_json_put_object(&w, NULL);
        dt_json_put_text(&w, "time", when);
        dt_json_put_text(&w, "level", level_names[level]);
        dt_json_put_text(&w, "role", sink.role);
        dt_json_put_int(&w, "pid", getpid());
        dt_json_put_text(&w, "message", text);
        dt_json_put_end(&w);
    } else {
        dt_buf_printf(&line, "%s %s %s: ", when, sink.role, level_names[level]);
        dt_utf8_put_visible(&line, text, ""); /* a peer's words may be in it */
    }
    emit(&line);
}

#define DEFINE_LEVEL(name, level)                                                                  \
    void name(const char *fmt, ...)                                                                \
    {                                                                                              \
        va_list ap;                                                                                \
        va_start(ap, fmt);                                                                         \
        log_line(level, fmt, ap);                                                                  \
        va_end(ap);                                                                                \
    }

DEFINE_LEVEL(dt_error, DT_LOG_ERROR)
DEFINE_LEVEL(dt_warn, DT_LOG_WARN)
DEFINE_LEVEL(dt_info, DT_LOG_INFO)
DEFINE_LEVEL(dt_debug, DT_LOG_DEBUG)

void dt_bug(const char *fmt, ...)
{
    char text[LINE_MAX_BYTES];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    dt_error("this is a bug in dtrun, please report it: %s", text);
}

static int find_name(const char *name, const char *const *names, int n)
{
    for (int i = 0; i < n; i++)
        if (strcmp(name, names[i]) == 0)
            return i;
    return -1;
}

int dt_log_level_from(const char *name, enum dt_log_level *out, struct dt_err *err)
{
    int i = find_name(name, level_names, 4);
    if (i < 0)
        return dt_err_set(err, DT_E_USAGE,
                          "\"%s\" is no log level; give error, warn, info or debug", name);
    *out = (enum dt_log_level)i;
    return 0;
}

int dt_log_format_from(const char *name, enum dt_log_format *out, struct dt_err *err)
{
    int i = find_name(name, format_names, 2);
    if (i < 0)
        return dt_err_set(err, DT_E_USAGE, "\"%s\" is no log format; give text or json", name);
    *out = (enum dt_log_format)i;
    return 0;
}

bool dt_log_limit_pass(struct dt_log_limit *l, dt_ms now, uint64_t *held_back)
{
    if (!l->used) {
        l->used = true;
        l->tokens = l->burst;
        l->last = now;
    }
    dt_ms earned = (now - l->last) / l->every;
    if (earned > 0) {
        l->tokens = earned >= l->burst - l->tokens ? l->burst : l->tokens + (int)earned;
        l->last += earned * l->every;
    }
    if (l->tokens == 0) {
        l->held_back++;
        return false;
    }
    l->tokens--;
    *held_back = l->held_back;
    l->held_back = 0;
    return true;
}
