/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/failure/notice.h"

#include "agent/failure/excerpt.h"
#include "base/signame.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#define CAUSE_MAX 300 /* characters of the reason, of those that DT_WHY_MAX has room for */

/* The last line of TEXT that says something, without the space around it. */
static struct dt_bytes last_line(const char *text)
{
    static const char space[] = " \t\r\n";
    const char *end = text + strlen(text), *at;
    while (end > text && strchr(space, end[-1]))
        end--;
    for (at = end; at > text && at[-1] != '\n';)
        at--;
    while (at < end && strchr(space, *at))
        at++;
    return (struct dt_bytes){(const uint8_t *)at, (size_t)(end - at)};
}

static bool is_digit(uint8_t c)
{
    return c >= '0' && c <= '9';
}

void dt_notice_signature(int exit_code, int signum, const char *message, char out[DT_SIGNATURE_MAX])
{
    struct dt_bytes line = last_line(message);
    char name[DT_SIGNAME_TEXT];
    if (signum) {
        snprintf(out, DT_SIGNATURE_MAX, "%s", dt_signame_text(signum, name));
        return;
    }
    size_t n =
        (size_t)snprintf(out, DT_SIGNATURE_MAX, "exit %d%s", exit_code, line.len ? ": " : "");
    for (size_t i = 0; i < line.len && n < DT_SIGNATURE_MAX - 1; i++) {
        bool digit = is_digit(line.at[i]);
        if (!digit || i == 0 || !is_digit(line.at[i - 1]))
            out[n++] = digit ? '#' : (char)line.at[i];
    }
    /* Not half a character of UTF-8, if that is what it is: its first byte goes too. */
    if (n == DT_SIGNATURE_MAX - 1)
        while (n > 0 && (out[n - 1] & 0x80) && (out[--n] & 0xc0) == 0x80)
            ;
    out[n] = '\0';
}

static void put_text(struct dt_notice *n, const struct dt_worker *w, const char *message)
{
    const struct dt_result *r = &n->result;
    struct dt_bytes line = last_line(message);
    char name[DT_SIGNAME_TEXT], memory[DT_OOM_TEXT];
    const char *cause = *w->why ? w->why : dt_oom_text(&w->oom, memory);
    if (r->signal)
        snprintf(n->text, sizeof n->text, "rank %d (local rank %d) died of %s%s%.*s", r->rank,
                 r->local_rank, dt_signame_text(r->signal, name), *cause ? ", " : "", CAUSE_MAX,
                 cause);
    else
        snprintf(n->text, sizeof n->text, "rank %d (local rank %d) exited with %d%s%.*s", r->rank,
                 r->local_rank, r->exit_code, line.len ? ": " : "",
                 line.len < 200 ? (int)line.len : 200, (const char *)line.at);
}

void dt_notice_make(struct dt_notice *n, const struct dt_scene *scene, int local_rank,
                    const struct dt_worker *w)
{
    struct dt_buf said = {0}, message = {0};
    bool killed = WIFSIGNALED(w->status), told = dt_inquiry_said(scene, local_rank, &said);
    struct dt_bytes all = {said.at, said.len};
    *n = (struct dt_notice){0};
    dt_inquiry_cause(scene, local_rank, w, all, told, &n->cause);
    n->result = (struct dt_result){
        .evidence = killed && !w->ours ? DT_EVIDENCE_CRASH : DT_EVIDENCE_PROGRAM,
        .rank = scene->world->first_rank + local_rank,
        .local_rank = local_rank,
        .exit_code = killed ? 0 : WEXITSTATUS(w->status),
        .signal = killed ? WTERMSIG(w->status) : 0,
        .signature = n->signature,
        .text = n->text,
        .retry = n->cause.retry,
        .early = dt_inquiry_is_early(scene, w),
        .place = n->cause.place,
        .weak = n->cause.strength == DT_CAUSE_WEAK,
        .age = (dt_clock_monotonic_ns() - w->exited_ns) / 1000000,
        .cause = dt_cause_sentence(&n->cause, scene->world->first_rank + local_rank, n->sentence),
    };
    if (!told)
        dt_excerpt_put(all, &message);
    const char *words = dt_buf_cstr(told ? &said : &message);
    dt_notice_signature(n->result.exit_code, n->result.signal, words, n->signature);
    put_text(n, w, words);
    dt_buf_finish(&said);
    dt_buf_finish(&message);
}
