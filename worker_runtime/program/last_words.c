/* SPDX-License-Identifier: Apache-2.0 */
/* Why it ends, for people and for the launcher. */
#include "base/fs.h"
#include "base/json_write.h"
#include "base/say.h"
#include "worker_runtime/program/inside.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int program_number(const char *name, int fallback)
{
    const char *value = getenv(name);
    int n = value ? atoi(value) : 0;
    return n > 0 ? n : fallback;
}

/* Where dtrun and torchrun look for why a worker failed. */
static void leave_error_file(const char *text)
{
    const char *path = getenv("TORCHELASTIC_ERROR_FILE");
    struct dt_buf out = {0};
    if (!path || !*path)
        return;
    struct dt_json_writer w = {.out = &out, .style = DT_JSON_SPACED};
    dt_json_put_object(&w, NULL);
    dt_json_put_text(&w, "message", text);
    dt_json_put_end(&w);
    dt_buf_put_u8(&out, '\n');
    if (!out.bad)
        dt_fs_replace(path, out.at, out.len, 0644, NULL);
    dt_buf_finish(&out);
}

/* A rank that fails because another one is gone knows nothing of why, and one that leaves a
 * sentence to rank 0 says nothing. Such a rank lets the one that speaks be the first to end, so
 * that the launcher takes that one for the cause; most often it is told to end before this second
 * is over. */
static void let_the_first_speak(void)
{
    sigset_t ending, before;
    sigemptyset(&ending);
    sigaddset(&ending, SIGTERM);
    sigaddset(&ending, SIGINT);
    sigprocmask(SIG_BLOCK, &ending, &before);
    if (!program_told_to_end) /* a signal that comes from here on ends the wait */
        ppoll(NULL, 0, &(struct timespec){.tv_sec = 1}, &before);
    sigprocmask(SIG_SETMASK, &before, NULL);
}

/* Before the ranks meet, what is wrong with the options or the configuration is wrong on all of
 * them, so rank 0 says it; the others only where no launcher shows what they leave. */
static bool is_said_by_another(const struct failure *f)
{
    if (f->met)
        return f->err.code == DT_E_ELSEWHERE;
    const char *left = getenv("TORCHELASTIC_ERROR_FILE");
    return (f->of_configuration || f->err.code == DT_E_USAGE) && left && *left &&
           program_number("RANK", 0) != 0;
}

struct last_words {
    char text[sizeof((struct dt_err *)NULL)->text + 64];
};

static struct last_words last_words(const struct dt_err *err)
{
    struct last_words w;
    const char *rank = getenv("RANK");
    if (rank && *rank)
        snprintf(w.text, sizeof w.text, "rank %.12s: %s", rank, err->text);
    else
        snprintf(w.text, sizeof w.text, "%s", err->text);
    return w;
}

int program_say_failure(const struct failure *f)
{
    const struct dt_err *err = &f->err;
    struct last_words w = last_words(err);
    if (!is_said_by_another(f))
        dt_say(DT_TRAIN_PROGRAM, w.text);
    if (err->code == DT_E_DISCONNECTED || is_said_by_another(f))
        let_the_first_speak();
    if (!program_told_to_end)
        leave_error_file(w.text);
    return dt_err_exit_status(err);
}

void program_give_up(void *arg, const struct dt_err *why)
{
    struct last_words w = last_words(why);
    (void)arg;
    dt_say(DT_TRAIN_PROGRAM, w.text);
    if (!program_told_to_end)
        leave_error_file(w.text);
    _exit(dt_err_exit_status(why));
}
