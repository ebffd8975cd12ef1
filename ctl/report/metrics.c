/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/report/metrics.h"

#include "base/auto.h"
#include "base/json.h"
#include "ctl/report/grow.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define BACK_MAX 1000 /* bytes of words */

static const char *const names[DT_REPORT_SERIES] = {
    [DT_REPORT_LOSS] = "loss",
    [DT_REPORT_LR] = "lr",
    [DT_REPORT_GRAD_NORM] = "grad_norm",
    [DT_REPORT_TOKENS_PER_S] = "tokens_per_s",
    [DT_REPORT_MS] = "ms",
    [DT_REPORT_FORWARD] = "forward_ms",
    [DT_REPORT_BACKWARD] = "backward_ms",
    [DT_REPORT_COMMUNICATION] = "communication_ms",
    [DT_REPORT_OPTIMIZER] = "optimizer_ms",
    [DT_REPORT_DATA] = "data_ms",
    [DT_REPORT_CHECKPOINT] = "checkpoint_ms",
    [DT_REPORT_VAULT] = "vault_ms",
};

int64_t dt_report_time(const char *text)
{
    struct tm t = {0};
    const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &t);
    int64_t us = 0, unit = 100000;
    if (!rest || t.tm_year < 70 || t.tm_year > 8000)
        return DT_REPORT_UNKNOWN;
    if (*rest == '.')
        for (rest++; *rest >= '0' && *rest <= '9'; rest++, unit /= 10)
            us += (*rest - '0') * unit;
    if (strcmp(rest, "Z") != 0)
        return DT_REPORT_UNKNOWN;
    return (int64_t)timegm(&t) * 1000000 + us;
}

static double number_of(const struct dt_json *doc, const char *name)
{
    double v;
    return dt_json_has(doc->root, name) && dt_json_number(doc, NULL, name, &v, NULL) == 0 ? v : NAN;
}

static int add_step(struct dt_report *r, const struct dt_report_step *s, struct dt_err *err)
{
    if (r->step_count == DT_REPORT_STEPS_MAX) {
        r->too_many = true;
        return 0;
    }
    struct dt_report_step *more = dt_report_grow(r->steps, r->step_count, sizeof *more, err);
    if (!more)
        return -1;
    r->steps = more;
    r->steps[r->step_count++] = *s;
    return 0;
}

static int add_validation(struct dt_report *r, const struct dt_report_validation *v,
                          struct dt_err *err)
{
    if (r->validation_count == DT_REPORT_STEPS_MAX) {
        r->too_many = true;
        return 0;
    }
    struct dt_report_validation *more =
        dt_report_grow(r->validations, r->validation_count, sizeof *more, err);
    if (!more)
        return -1;
    r->validations = more;
    r->validations[r->validation_count++] = *v;
    return 0;
}

static int add_comeback(struct dt_report *r, const struct dt_json *doc, int round,
                        struct dt_err *err)
{
    const char *text;
    if (!dt_json_has(doc->root, "back") || r->comeback_count == DT_REPORT_COMEBACKS_MAX ||
        dt_json_string(doc, NULL, "back", &text, NULL) < 0)
        return 0;
    struct dt_report_comeback *more =
        dt_report_grow(r->comebacks, r->comeback_count, sizeof *more, err);
    if (!more)
        return -1;
    r->comebacks = more;
    r->comebacks[r->comeback_count++] = (struct dt_report_comeback){round, strndup(text, BACK_MAX)};
    return 0;
}

static int take(struct dt_report *r, const struct dt_json *doc, bool redone, struct dt_err *err)
{
    const char *time;
    int64_t round = 0;
    struct dt_report_step s = {.redone = redone};
    if (dt_json_int(doc, NULL, "step", 0, INT64_MAX / 2, &s.step, NULL) < 0 ||
        dt_json_string(doc, NULL, "time", &time, NULL) < 0 ||
        (s.at_us = dt_report_time(time)) == DT_REPORT_UNKNOWN ||
        (dt_json_has(doc->root, "round") &&
         dt_json_int(doc, NULL, "round", 0, INT_MAX, &round, NULL) < 0)) {
        r->strange_lines++;
        return 0;
    }
    s.round = (int)round;
    if (dt_json_has(doc->root, "validation_loss")) {
        struct dt_report_validation v = {s.at_us, s.step, number_of(doc, "validation_loss")};
        return redone ? 0 : add_validation(r, &v, err);
    }
    for (int i = 0; i < DT_REPORT_SERIES; i++)
        s.v[i] = number_of(doc, names[i]);
    return add_comeback(r, doc, s.round, err) < 0 ? -1 : add_step(r, &s, err);
}

int dt_report_metrics_line(struct dt_report *r, const char *line, size_t len, bool redone,
                           struct dt_err *err)
{
    struct dt_json doc;
    if (len == 0)
        return 0;
    if (dt_json_parse(&doc, line, len, DT_REPORT_LINE_MAX, NULL) < 0) {
        r->strange_lines++;
        return 0;
    }
    int rc = take(r, &doc, redone, err);
    dt_json_finish(&doc);
    return rc;
}

/* Nobody waits for the other end of a pipe. */
static FILE *open_ordinary(const char *path, struct dt_err *err)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    if (fd < 0 || fstat(fd, &st) < 0) {
        dt_err_errno(err, DT_E_RUNTIME, errno, "cannot read %s", path);
    } else if (!S_ISREG(st.st_mode)) {
        dt_err_set(err, DT_E_RUNTIME, "%s is no ordinary file", path);
    } else {
        FILE *f = fdopen(fd, "r");
        if (f)
            return f;
        dt_err_errno(err, DT_E_MEMORY, errno, "cannot read %s", path);
    }
    if (fd >= 0)
        close(fd);
    return NULL;
}

/* What is left of a line that is too long, up to its newline. */
static void skip_line(FILE *f)
{
    int c;
    while ((c = getc_unlocked(f)) != EOF && c != '\n')
        ;
}

/* A torn last line is no line: it may be half of a number. */
static int read_lines(struct dt_report *r, FILE *f, char *line, bool redone, struct dt_err *err)
{
    while (fgets(line, DT_REPORT_LINE_MAX, f)) {
        size_t len = strlen(line);
        if (len > 0 && line[len - 1] == '\n') {
            if (dt_report_metrics_line(r, line, len - 1, redone, err) < 0)
                return -1;
            continue;
        }
        r->strange_lines++;
        if (len == DT_REPORT_LINE_MAX - 1)
            skip_line(f);
    }
    return 0;
}

int dt_report_metrics_read(struct dt_report *r, const char *path, bool redone, struct dt_err *err)
{
    DT_AUTO_FILE f = open_ordinary(path, err);
    DT_AUTO_FREE char *line = malloc(DT_REPORT_LINE_MAX);
    if (!f)
        return -1;
    if (!line)
        return dt_err_set(err, DT_E_MEMORY, "no memory to read %s", path);
    if (read_lines(r, f, line, redone, err) < 0)
        return -1;
    return ferror(f) ? dt_err_errno(err, DT_E_RUNTIME, EIO, "cannot read %s", path) : 0;
}
