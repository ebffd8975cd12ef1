/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/generate/command.h"

#include "base/auto.h"
#include "base/clock.h"
#include "base/say.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define WHO "dtrun-train"
#define PROMPT_MAX ((size_t)64 << 20)
#define CHUNK ((size_t)64 << 10)

static int read_all(int fd, const char *name, struct dt_buf *out, struct dt_err *err)
{
    for (;;) {
        uint8_t *room = dt_buf_room(out, CHUNK);
        if (!room)
            return dt_err_set(err, DT_E_MEMORY, "no memory for a prompt");
        ssize_t n = read(fd, room, CHUNK);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot read %s", name);
        if (n == 0)
            return 0;
        dt_buf_grew(out, (size_t)n);
        if (out->len > PROMPT_MAX)
            return dt_err_set(err, DT_E_USAGE, "%s is longer than any prompt: more than 64 MiB",
                              name);
    }
}

int dt_generate_read_prompt(const char *path, struct dt_buf *out, struct dt_err *err)
{
    if (path && strcmp(path, "-") != 0) {
        DT_AUTO_FD fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            return dt_err_errno(err, DT_E_USAGE, errno, "cannot open %s", path);
        if (read_all(fd, path, out, err) < 0)
            return -1;
    } else {
        if (isatty(STDIN_FILENO))
            dt_say(WHO, "the prompt, please; Ctrl-D ends it");
        if (read_all(STDIN_FILENO, "standard input", out, err) < 0)
            return -1;
    }
    if (out->len && out->at[out->len - 1] == '\n')
        out->len--;
    return 0;
}

/* At once, and not by way of stdio: people read along. */
static int show(struct dt_buf *text, struct dt_err *err)
{
    while (text->len) {
        ssize_t n = write(STDOUT_FILENO, text->at, text->len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot write standard output");
        dt_buf_consume(text, (size_t)n);
    }
    return 0;
}

struct times {
    int64_t begun, ended; /* nanoseconds */
    int64_t prompt_read;  /* 0: it was not */
};

static double per_second(size_t tokens, int64_t ns)
{
    return ns > 0 ? (double)tokens * 1e9 / (double)ns : 0;
}

static const char *why(enum dt_generation_end end)
{
    switch (end) {
    case DT_GENERATION_GOES_ON:
        break;
    case DT_GENERATION_END_TOKEN:
        return "the model ended its text";
    case DT_GENERATION_STOP:
        return "a stop came";
    case DT_GENERATION_MAX_TOKENS:
        return "--max-new-tokens are reached";
    case DT_GENERATION_POSITIONS:
        return "the model takes no longer text";
    }
    return "told to end";
}

/* The first token comes with the prompt, so those behind it tell how fast the model speaks. */
static void say_how(const struct dt_generation *g, const struct dt_generation_options *o,
                    const struct times *t, enum dt_generation_end end)
{
    size_t prompt = dt_generation_prompt(g), count = dt_generation_count(g);
    char text[240];
    int n = snprintf(text, sizeof text, "prompt: %zu token%s, ", prompt, prompt == 1 ? "" : "s");
    if (t->prompt_read)
        n += snprintf(text + n, sizeof text - (size_t)n, "%.1f tokens/s",
                      per_second(prompt, t->prompt_read - t->begun));
    else
        n += snprintf(text + n, sizeof text - (size_t)n, "not read to its end");
    n += snprintf(text + n, sizeof text - (size_t)n, "; text: %zu token%s", count,
                  count == 1 ? "" : "s");
    if (count > 1)
        n += snprintf(text + n, sizeof text - (size_t)n, ", %.1f tokens/s",
                      per_second(count - 1, t->ended - t->prompt_read));
    if (o->sampling.temperature > 0)
        n += snprintf(text + n, sizeof text - (size_t)n, "; --seed %llu",
                      (unsigned long long)o->seed);
    snprintf(text + n, sizeof text - (size_t)n, "; %s", why(end));
    dt_say(WHO, text);
}

/* A token more, and what there is to show of it. Told to end, END says that nothing has ended. */
static int take_next(struct dt_generation *g, struct dt_buf *text, enum dt_generation_end *end,
                     struct dt_err *err)
{
    struct dt_err why = {0};
    if (dt_generation_next(g, text, end, &why) == 0)
        return show(text, err);
    *end = DT_GENERATION_GOES_ON;
    if (why.code == DT_E_CANCELED)
        return 0;
    *err = why;
    return -1;
}

static int go_on(struct dt_generation *g, const volatile sig_atomic_t *stop, struct dt_buf *text,
                 struct times *t, enum dt_generation_end *end, struct dt_err *err)
{
    *end = DT_GENERATION_GOES_ON;
    *t = (struct times){.begun = dt_clock_monotonic_ns()};
    while (*end == DT_GENERATION_GOES_ON && !(stop && *stop)) {
        if (take_next(g, text, end, err) < 0)
            return -1;
        if (!t->prompt_read && (dt_generation_count(g) > 0 || *end != DT_GENERATION_GOES_ON))
            t->prompt_read = dt_clock_monotonic_ns();
    }
    t->ended = dt_clock_monotonic_ns();
    if (*end == DT_GENERATION_GOES_ON)
        dt_generation_cut(g, text);
    return show(text, err);
}

int dt_generate(const struct dt_generation_options *o, struct dt_device *device,
                void (*ready)(void), struct dt_err *err)
{
    struct dt_buf notes = {0}, text = {0};
    struct times times;
    enum dt_generation_end end;
    struct dt_generation *g = dt_generation_open(o, device, &notes, err);
    dt_say_lines(WHO, dt_buf_cstr(&notes));
    if (g)
        ready();
    int rc = g ? go_on(g, o->stop, &text, &times, &end, err) : -1;
    if (rc == 0 && o->visible)
        dt_buf_put_u8(&text, '\n');
    if (rc == 0)
        rc = show(&text, err);
    if (rc == 0)
        say_how(g, o, &times, end);
    dt_generation_close(g);
    dt_buf_finish(&notes);
    dt_buf_finish(&text);
    return rc;
}
