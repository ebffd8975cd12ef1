/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/rescue.h"

#include "agent/output/lines.h"
#include "agent/process/reap.h"
#include "base/child.h"
#include "base/list.h"
#include "base/log.h"
#include "base/loop/ending.h"
#include "rendezvous/protocol/vault_fds.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* What forks as the others are killed may escape, and keep the output open. */
#define KILL_AGAIN_MS 100

struct dt_rescue {
    struct dt_child child;
    uv_pipe_t output;
    uv_timer_t limit;
    struct dt_lines lines;
    char room[2048]; /* for what is read */
    void (*on_over)(void *arg);
    void *arg;
    struct dt_ending ending;
};

/* -- the note --------------------------------------------------------------------------------- */

/* Its strings in a row; 0: there is none, or it does not end as one does. */
static size_t read_note(int fd, char out[DT_VAULT_NOTE_MAX])
{
    uint32_t len = 0;
    off_t at = (off_t)DT_VAULT_NOTE_AT;
    if (fd <= 0 || pread(fd, &len, sizeof len, at) != (ssize_t)sizeof len || len == 0 ||
        len > DT_VAULT_NOTE_MAX || pread(fd, out, len, at + (off_t)sizeof len) != (ssize_t)len)
        return 0;
    return out[len - 1] == '\0' ? len : 0;
}

/* Of the first worker that has left one: they all say the same. */
static size_t find_note(const struct dt_vaults *v, char out[DT_VAULT_NOTE_MAX])
{
    size_t len = 0;
    for (int i = 0; len == 0 && i < dt_vaults_count(v); i++)
        len = read_note(dt_vaults_own(v, i), out);
    return len;
}

/* To be freed; the strings are NOTE's. NULL: they are too few for a command, or no memory. */
static char **split_note(char *note, size_t len)
{
    size_t count = 0;
    for (size_t at = 0; at < len; at += strlen(note + at) + 1)
        count++;
    char **words = count > 2 ? calloc(count + 1, sizeof *words) : NULL;
    for (size_t at = 0, i = 0; words && at < len; at += strlen(note + at) + 1)
        words[i++] = note + at;
    return words;
}

/* -- the program ------------------------------------------------------------------------------ */

/* How many; own and peer of each worker in turn. */
static size_t list_files(const struct dt_vaults *v, int *fds, struct dt_buf *list)
{
    size_t n = 0;
    for (int i = 0; i < dt_vaults_count(v); i++) {
        fds[n++] = dt_vaults_own(v, i);
        fds[n++] = dt_vaults_peer(v, i);
        dt_buf_printf(list, "%s%d,%d", i ? "," : "", fds[n - 2], fds[n - 1]);
    }
    return n;
}

static int spawn(struct dt_child *c, const struct dt_plan *plan, const struct dt_vaults *v,
                 int round, char **words)
{
    struct dt_buf run = {0}, number = {0}, files = {0};
    int *fds = calloc(2 * (size_t)dt_vaults_count(v), sizeof *fds);
    dt_buf_printf(&run, "TORCHELASTIC_RUN_ID=%s", plan->run_id);
    dt_buf_printf(&number, "DTRUN_ROUND=%d", round);
    dt_buf_put_str(&files, DT_VAULT_FILES_ENV "=");
    size_t count = fds ? list_files(v, fds, &files) : 0;
    char *variables[] = {(char *)(uintptr_t)dt_buf_cstr(&run),
                         (char *)(uintptr_t)dt_buf_cstr(&number),
                         (char *)(uintptr_t)dt_buf_cstr(&files),
                         (char[]){"TORCHELASTIC_ERROR_FILE="}}; /* ours is not its own */
    char **env = dt_child_env(variables, sizeof variables / sizeof *variables);
    struct dt_child_order o = {.dir = words[0],
                               .path = words[1],
                               .argv = words + 2,
                               .env = env,
                               .keep = fds,
                               .keep_count = count,
                               .session = true};
    bool made = count && env && !run.bad && !number.bad && !files.bad;
    int rc = made ? dt_child_start(c, &o) : ENOMEM;
    free(env);
    free(fds);
    dt_buf_finish(&run);
    dt_buf_finish(&number);
    dt_buf_finish(&files);
    return rc;
}

/* -- what it says, and its end ---------------------------------------------------------------- */

static void log_line(void *arg, struct dt_bytes piece, bool starts, bool ends)
{
    char line[DT_LINES_LONGEST + 2];
    (void)arg;
    (void)starts;
    (void)ends;
    snprintf(line, sizeof line, "%.*s", (int)piece.len, (const char *)piece.at);
    dt_log_plain(line);
}

static void release(void *rescue)
{
    struct dt_rescue *r = rescue;
    dt_lines_finish(&r->lines);
    free(r); /* the only free of one that was started */
}

static void close_handles(struct dt_rescue *r)
{
    dt_lines_end(&r->lines, log_line, NULL);
    waitpid(r->child.pid, NULL, WNOHANG); /* unless the guard has taken it already */
    dt_ending_begin(&r->ending, release, r, r->on_over, r->arg);
    dt_ending_close(&r->ending, &r->output);
    dt_ending_close(&r->ending, &r->limit);
}

static void on_room(uv_handle_t *h, size_t wanted, uv_buf_t *out)
{
    struct dt_rescue *r = dt_container_of(h, struct dt_rescue, output);
    (void)wanted;
    *out = uv_buf_init(r->room, sizeof r->room);
}

static void on_read(uv_stream_t *s, ssize_t n, const uv_buf_t *buf)
{
    struct dt_rescue *r = dt_container_of(s, struct dt_rescue, output);
    struct dt_bytes in = {(const uint8_t *)buf->base, n > 0 ? (size_t)n : 0};
    dt_lines_put(&r->lines, in, log_line, NULL);
    if (n < 0)
        close_handles(r);
}

/* A command that uploads is in a group of its own. */
static void on_kill(uv_timer_t *t)
{
    struct dt_rescue *r = dt_container_of(t, struct dt_rescue, limit);
    dt_reap_signal_session(r->child.pid, SIGKILL);
}

static void kill_it(struct dt_rescue *r)
{
    on_kill(&r->limit);
    uv_timer_start(&r->limit, on_kill, KILL_AGAIN_MS, KILL_AGAIN_MS);
}

static void on_limit(uv_timer_t *t)
{
    dt_warn("what workers kept in memory is not saved: there is no time left");
    kill_it(dt_container_of(t, struct dt_rescue, limit));
}

void dt_rescue_limit(struct dt_rescue *r, dt_ms patience)
{
    if (patience <= 0)
        kill_it(r);
    else if (!uv_is_active((uv_handle_t *)&r->limit))
        uv_timer_start(&r->limit, on_limit, (uint64_t)patience, 0);
}

struct dt_rescue *dt_rescue_start(uv_loop_t *loop, const struct dt_plan *plan,
                                  const struct dt_vaults *v, int round, void (*on_over)(void *arg),
                                  void *arg)
{
    char note[DT_VAULT_NOTE_MAX];
    char **words = split_note(note, find_note(v, note));
    struct dt_rescue *r = words ? calloc(1, sizeof *r) : NULL;
    int rc = r ? spawn(&r->child, plan, v, round, words) : 0;
    if (rc)
        dt_warn("what workers kept in memory is not saved: cannot start %s in %s: %s", words[1],
                words[0], strerror(rc));
    free(words);
    if (!r || rc) {
        free(r);
        return NULL;
    }
    r->on_over = on_over;
    r->arg = arg;
    uv_timer_init(loop, &r->limit);
    uv_pipe_init(loop, &r->output, 0);
    uv_pipe_open(&r->output, r->child.output);
    uv_read_start((uv_stream_t *)&r->output, on_room, on_read);
    return r;
}
