/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/failure/failure.h"

#include "agent/failure/error_file.h"
#include "agent/failure/excerpt.h"
#include "agent/output/strip.h"
#include "base/auto.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/json_write.h"
#include "base/log.h"
#include "base/signame.h"
#include "base/utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define WIDTH_MAX 60
#define HINT "To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html"

static int no_memory(struct dt_err *err)
{
    return dt_err_set(err, DT_E_MEMORY, "no memory to note how a worker failed");
}

static bool holds_something(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && st.st_size > 0;
}

/* A file that makes no sense is said and otherwise as none: the worker's failure is what matters.
 */
static int look_at_file(struct dt_failure *f, const char *path, struct dt_err *err)
{
    struct dt_error_file file;
    struct dt_err why = {0};
    if (!holds_something(path))
        return 0;
    f->error_file = strdup(path);
    if (!f->error_file)
        return no_memory(err);
    int rc = dt_error_file_read(path, &file, &why);
    if (rc == 0) {
        f->has_file = true;
        f->message = file.message;
        file.message = NULL;
        if (file.time >= 0)
            f->time = file.time;
    } else if (why.code == DT_E_MEMORY) {
        no_memory(err);
    } else {
        dt_log_about(DT_LOG_WARN, &(struct dt_log_about){.round = -1, .rank = f->rank},
                     "rank %d: %s; what it printed last is shown instead", f->rank, why.text);
    }
    dt_error_file_finish(&file);
    return rc < 0 && why.code == DT_E_MEMORY ? -1 : 0;
}

/* What can be said without a file. */
static int make_message(struct dt_failure *f, struct dt_bytes last, struct dt_err *err)
{
    struct dt_buf lines = {0}, message = {0};
    dt_excerpt_put(last, &lines);
    if (f->exit_code < 0) {
        const char *name = dt_signame(-f->exit_code);
        dt_buf_printf(&message, "Signal %d (%s) received by PID %d%s", -f->exit_code,
                      name ? name : "<N/A>", (int)f->pid, lines.len ? "\n  " : "");
    } else if (lines.len == 0 && !*f->remark) {
        dt_buf_put_str(&message, HINT);
    }
    for (size_t i = 0; i < lines.len; i++) {
        dt_buf_put_u8(&message, lines.at[i]);
        if (lines.at[i] == '\n')
            dt_buf_put_str(&message, "  ");
    }
    f->message = strdup(dt_buf_cstr(&message));
    bool bad = lines.bad || message.bad || !f->message;
    dt_buf_finish(&lines);
    dt_buf_finish(&message);
    return bad ? no_memory(err) : 0;
}

/* Behind whatever the worker said of itself, as it cannot know this. */
static int add_remark(struct dt_failure *f, struct dt_err *err)
{
    char *both;
    if (asprintf(&both, "%s%s%s", f->message, *f->message ? "\n  " : "", f->remark) < 0)
        return no_memory(err);
    free(f->message);
    f->message = both;
    return 0;
}

int dt_failure_complete(struct dt_failure *f, const char *error_file, struct dt_bytes last,
                        int64_t now, struct dt_err *err)
{
    f->time = now;
    if (error_file && look_at_file(f, error_file, err) < 0)
        return -1;
    if (!f->message && make_message(f, last, err) < 0)
        return -1;
    return *f->remark ? add_remark(f, err) : 0;
}

void dt_failure_finish(struct dt_failure *f)
{
    free(f->error_file);
    free(f->message);
    *f = (struct dt_failure){0};
}

/* Of an exception the file tells when it was thrown, which may be long before the process ended, so
 * its time counts, as in torchrun. All times are floors of one clock: a smaller one is truly
 * earlier, and within a second the kernel's order of deaths is the best there is. */
static bool is_earlier(const struct dt_failure *a, const struct dt_failure *b)
{
    if (a->time != b->time)
        return a->time < b->time;
    if (a->died_ns != b->died_ns)
        return a->died_ns < b->died_ns;
    return a->rank < b->rank;
}

/* Who lost a connection, or waited in vain, mostly did so because another one failed, be that one's
 * end the later: a process closes its connections before it is gone. */
static bool is_likelier(const struct dt_failure *a, const struct dt_failure *b)
{
    bool a_weak = a->cause.strength == DT_CAUSE_WEAK, b_weak = b->cause.strength == DT_CAUSE_WEAK;
    return a_weak == b_weak ? is_earlier(a, b) : b_weak;
}

size_t dt_failure_root(const struct dt_failure *failures, size_t count)
{
    size_t root = 0;
    for (size_t i = 1; i < count; i++)
        if (is_likelier(&failures[i], &failures[root]))
            root = i;
    return root;
}

/* Of a worker's own file: what it holds for its terminal is not to be done on ours. */
static void put_message(const char *message, struct dt_buf *out)
{
    struct dt_strip strip = {0};
    struct dt_buf text = {0};
    dt_buf_put_str(&text, message);
    text.len = dt_strip(&strip, text.at, text.len);
    dt_utf8_put_visible(out, dt_buf_cstr(&text), "\n\t");
    out->bad = out->bad || text.bad;
    dt_buf_finish(&text);
}

static void put_failure(const struct dt_failure *f, size_t index, const char *host,
                        struct dt_buf *out)
{
    char when[64] = "<N/A>";
    time_t t = f->time;
    struct tm tm;
    if (localtime_r(&t, &tm))
        strftime(when, sizeof when, "%Y-%m-%d_%H:%M:%S", &tm);
    dt_buf_printf(out,
                  "[%zu]:\n"
                  "  time      : %s\n"
                  "  host      : %s\n"
                  "  rank      : %d (local_rank: %d)\n"
                  "  exitcode  : %d (pid: %d)\n"
                  "  error_file: %s\n"
                  "  traceback : ",
                  index, when, host, f->rank, f->local_rank, f->exit_code, (int)f->pid,
                  f->error_file ? f->error_file : "<N/A>");
    put_message(f->message ? f->message : HINT, out);
    dt_buf_put_u8(out, '\n');
}

/* Characters of the longest line. */
static size_t width_of(const struct dt_buf *text)
{
    size_t longest = 0, here = 0;
    for (size_t i = 0; i < text->len; i++) {
        here = text->at[i] == '\n' ? 0 : here + ((text->at[i] & 0xc0) != 0x80);
        longest = here > longest ? here : longest;
    }
    return longest;
}

static void put_rule(char c, size_t width, struct dt_buf *out)
{
    while (width-- > 0)
        dt_buf_put_u8(out, (uint8_t)c);
    dt_buf_put_u8(out, '\n');
}

void dt_failure_report(const struct dt_failure *failures, size_t count, const char *title,
                       const char *host, struct dt_buf *out)
{
    struct dt_buf head = {0}, others = {0}, root = {0};
    size_t first = dt_failure_root(failures, count);
    dt_buf_printf(&head, "%s FAILED\n", title);
    for (size_t i = 0; i < count; i++)
        put_failure(&failures[i], i, host, i == first ? &root : &others);
    size_t width = width_of(&head);
    if (width_of(&root) > width)
        width = width_of(&root);
    if (width_of(&others) > width)
        width = width_of(&others);
    if (width > WIDTH_MAX)
        width = WIDTH_MAX;
    if (count == 1)
        dt_buf_put_str(&others, "  <NO_OTHER_FAILURES>\n");

    dt_buf_put_str(out, "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n");
    put_rule('=', width, out);
    dt_buf_put(out, head.at, head.len);
    put_rule('-', width, out);
    dt_buf_put_str(out, "Failures:\n");
    dt_buf_put(out, others.at, others.len);
    put_rule('-', width, out);
    dt_buf_put_str(out, "Root Cause (first observed failure):\n");
    dt_buf_put(out, root.at, root.len);
    put_rule('=', width, out);
    out->bad = out->bad || head.bad || others.bad || root.bad;
    dt_buf_finish(&head);
    dt_buf_finish(&others);
    dt_buf_finish(&root);
}

/* Its error file as JSON, once more from the disk: it may be large, and is seldom wanted. */
static int print_file(const struct dt_failure *f, int exit_code, struct dt_buf *out,
                      struct dt_err *err)
{
    struct dt_error_file file;
    int rc = dt_error_file_read(f->error_file, &file, err);
    if (rc == 0)
        rc = dt_error_file_print(&file, exit_code, out, err);
    dt_error_file_finish(&file);
    return rc;
}

int dt_failure_json(const struct dt_failure *f, struct dt_buf *out, struct dt_err *err)
{
    if (f->has_file)
        return print_file(f, 0, out, err);
    const char *message = f->message ? f->message : HINT;
    struct dt_json_writer w = {.out = out, .style = DT_JSON_SPACED};
    dt_json_put_object(&w, NULL);
    dt_json_put_text(&w, "message", message);
    dt_json_put_end(&w);
    return out->bad ? no_memory(err) : 0;
}

/* For what cannot be replaced by another file: a device, a pipe somebody reads, a file mounted over
 * a name as containers do. */
static int write_into(const char *path, struct dt_buf *text, struct dt_err *err)
{
    DT_AUTO_FD fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NONBLOCK | O_CLOEXEC, 0644);
    if (fd < 0)
        return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot open our error file %s", path);
    while (text->len) {
        ssize_t n = write(fd, text->at, text->len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot write our error file %s", path);
        dt_buf_consume(text, (size_t)n);
    }
    return 0;
}

static int leave(const char *path, struct dt_buf *text, struct dt_err *err)
{
    struct stat st;
    bool replaceable = lstat(path, &st) < 0 || S_ISREG(st.st_mode);
    if (replaceable && dt_fs_replace(path, text->at, text->len, 0644, NULL) == 0)
        return 0;
    return write_into(path, text, err);
}

int dt_failure_propagate(const struct dt_failure *root, const char *path, struct dt_err *err)
{
    struct dt_buf text = {0};
    if (!root->has_file)
        return 0;
    int rc = print_file(root, root->exit_code, &text, err);
    if (rc == 0)
        rc = leave(path, &text, err);
    dt_buf_finish(&text);
    return rc;
}

int dt_failure_leave_own(const char *message, int64_t now, const char *path, struct dt_err *err)
{
    char timestamp[24];
    struct dt_buf text = {0};
    struct dt_json_writer w = {.out = &text, .style = DT_JSON_SPACED};
    snprintf(timestamp, sizeof timestamp, "%lld", (long long)now);
    dt_json_put_object(&w, NULL);
    dt_json_put_object(&w, "message");
    dt_json_put_text(&w, "message", message);
    dt_json_put_object(&w, "extraInfo");
    dt_json_put_text(&w, "py_callstack", message);
    dt_json_put_text(&w, "timestamp", timestamp);
    for (int i = 0; i < 3; i++)
        dt_json_put_end(&w);
    int rc = text.bad ? no_memory(err) : leave(path, &text, err);
    dt_buf_finish(&text);
    return rc;
}
