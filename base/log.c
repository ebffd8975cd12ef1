/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include "base/journald.h"
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
    bool journald; /* reads what we write */
    bool stuck;    /* nobody read there last time */
    atomic_bool open_line;
    const char *run, *node;
    atomic_int round;
} sink = {.role = "dtrun", .level = DT_LOG_INFO, .format = DT_LOG_TEXT, .round = -1};

static const char *const level_names[] = {"error", "warn", "info", "debug"};
static const char *const format_names[] = {"text", "json"};

void dt_log_open(const char *role, enum dt_log_level level, enum dt_log_format format)
{
    sink.role = role;
    sink.level = level;
    sink.format = format;
    sink.journald = dt_journald_has_stderr();
}

void dt_log_set_job(const char *run, const char *node)
{
    sink.run = run;
    sink.node = node;
}

void dt_log_set_round(int round)
{
    atomic_store(&sink.round, round);
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

/* -- a line in each form ---------------------------------------------------------------------- */

static void put_json_text(struct dt_json_writer *w, const char *name, const char *text)
{
    if (text && *text)
        dt_json_put_text(w, name, text);
}

static void put_json_number(struct dt_json_writer *w, const char *name, int number)
{
    if (number >= 0)
        dt_json_put_int(w, name, number);
}

static void put_json(struct dt_buf *line, enum dt_log_level level, const struct dt_log_about *about,
                     const char *text)
{
    struct dt_json_writer w = {.out = line};
    char when[DT_CLOCK_TEXT];
    dt_clock_format(dt_clock_wall_us(), when);
    dt_json_put_object(&w, NULL);
    dt_json_put_text(&w, "time", when);
    dt_json_put_text(&w, "level", level_names[level]);
    dt_json_put_text(&w, "role", sink.role);
    dt_json_put_int(&w, "pid", getpid());
    put_json_text(&w, "kind", about->kind);
    put_json_text(&w, "run", about->run);
    put_json_number(&w, "round", about->round);
    put_json_text(&w, "node", about->node);
    put_json_number(&w, "rank", about->rank);
    dt_json_put_text(&w, "message", text);
    dt_json_put_end(&w);
}

static void put_text(struct dt_buf *line, enum dt_log_level level, const char *text)
{
    char when[DT_CLOCK_TEXT];
    dt_clock_format(dt_clock_wall_us(), when);
    dt_buf_printf(line, "%s %s %s: ", when, sink.role, level_names[level]);
    dt_utf8_put_visible(line, text, ""); /* a peer's words may be in it */
}

/* As syslog(3) numbers them. */
static int priority_of(enum dt_log_level level)
{
    static const int priorities[] = {
        [DT_LOG_ERROR] = 3, [DT_LOG_WARN] = 4, [DT_LOG_INFO] = 6, [DT_LOG_DEBUG] = 7};
    return priorities[level];
}

static void put_field(struct dt_buf *entry, const char *name, const char *text)
{
    if (text && *text)
        dt_journald_put(entry, name, text);
}

static void put_field_number(struct dt_buf *entry, const char *name, int number)
{
    char text[16];
    snprintf(text, sizeof text, "%d", number);
    if (number >= 0)
        dt_journald_put(entry, name, text);
}

/* False: the journal does not take it so. */
static bool send_entry(enum dt_log_level level, const struct dt_log_about *about, const char *text)
{
    struct dt_buf entry = {0}, words = {0};
    dt_utf8_put_visible(&words, text, "");
    put_field_number(&entry, "PRIORITY", priority_of(level));
    dt_journald_put(&entry, "SYSLOG_IDENTIFIER", sink.role);
    dt_journald_put(&entry, "MESSAGE", dt_buf_cstr(&words));
    put_field(&entry, "DTRUN_KIND", about->kind);
    put_field(&entry, "DTRUN_RUN", about->run);
    put_field_number(&entry, "DTRUN_ROUND", about->round);
    put_field(&entry, "DTRUN_NODE", about->node);
    put_field_number(&entry, "DTRUN_RANK", about->rank);
    bool taken = dt_journald_send(&entry) == 0;
    dt_buf_finish(&words);
    dt_buf_finish(&entry);
    return taken;
}

/* The journal takes the number in front for the priority. */
static void put_prefixed(struct dt_buf *line, enum dt_log_level level, const char *text)
{
    dt_buf_printf(line, "<%d>", priority_of(level));
    dt_utf8_put_visible(line, text, "");
}

__attribute__((format(printf, 3, 0))) static void
log_line(enum dt_log_level level, const struct dt_log_about *about, const char *fmt, va_list ap)
{
    char text[LINE_MAX_BYTES];
    struct dt_buf line = {0};
    if (!dt_log_wants(level))
        return;
    vsnprintf(text, sizeof text, fmt, ap);
    if (sink.format == DT_LOG_JSON)
        put_json(&line, level, about, text);
    else if (sink.journald && send_entry(level, about, text))
        return;
    else if (sink.journald)
        put_prefixed(&line, level, text);
    else
        put_text(&line, level, text);
    emit(&line);
}

/* What ABOUT leaves open, the job of this process says. */
void dt_log_about(enum dt_log_level level, const struct dt_log_about *about, const char *fmt, ...)
{
    struct dt_log_about whole = *about;
    va_list ap;
    whole.run = whole.run ? whole.run : sink.run;
    whole.node = whole.node ? whole.node : sink.node;
    whole.round = whole.round >= 0 ? whole.round : atomic_load(&sink.round);
    va_start(ap, fmt);
    log_line(level, &whole, fmt, ap);
    va_end(ap);
}

static struct dt_log_about the_job(void)
{
    return (struct dt_log_about){
        .run = sink.run, .node = sink.node, .round = atomic_load(&sink.round), .rank = -1};
}

#define DEFINE_LEVEL(name, level)                                                                  \
    void name(const char *fmt, ...)                                                                \
    {                                                                                              \
        struct dt_log_about job = the_job();                                                       \
        va_list ap;                                                                                \
        va_start(ap, fmt);                                                                         \
        log_line(level, &job, fmt, ap);                                                            \
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
