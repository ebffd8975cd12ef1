/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/rdzv/inside.h"

#include "rendezvous/hang/finding.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define LINE_MAX_BYTES (2 * DT_WHY_MAX)

void dt_rdzv_actions_finish(struct dt_rdzv_actions *a)
{
    free(a->at);
    dt_buf_finish(&a->texts);
    *a = (struct dt_rdzv_actions){0};
}

void rdzv_actions_clear(struct dt_rdzv_actions *a)
{
    a->len = 0;
    a->bad = a->journalled = false;
    dt_buf_clear(&a->texts);
    dt_buf_put_u8(&a->texts, '\0'); /* text 0: none */
}

const char *dt_rdzv_text(const struct dt_rdzv_actions *a, size_t text)
{
    return a->texts.bad ? "" : (const char *)a->texts.at + text;
}

size_t rdzv_text(struct dt_rdzv_actions *a, const char *text)
{
    size_t at = a->texts.len;
    if (!*text)
        return 0;
    dt_buf_put(&a->texts, text, strlen(text) + 1);
    a->bad = a->bad || a->texts.bad;
    return a->texts.bad ? 0 : at;
}

static struct dt_rdzv_action *add(struct dt_rdzv_actions *a, enum dt_rdzv_action_type type)
{
    if (a->len == a->size) {
        size_t size = a->size ? a->size * 2 : 16;
        struct dt_rdzv_action *at = realloc(a->at, size * sizeof *at);
        if (!at) {
            a->bad = true;
            return NULL;
        }
        a->at = at;
        a->size = size;
    }
    struct dt_rdzv_action *new = &a->at[a->len++];
    *new = (struct dt_rdzv_action){.type = type};
    return new;
}

void rdzv_journal(struct dt_rdzv_actions *a)
{
    if (!a->journalled)
        a->journalled = add(a, DT_DO_JOURNAL) != NULL;
}

void rdzv_journal_node(struct dt_rdzv_actions *a, const char *name)
{
    size_t text = rdzv_text(a, name);
    struct dt_rdzv_action *node = add(a, DT_DO_NODE);
    if (node)
        node->text = text;
}

void rdzv_say(struct dt_rdzv_actions *a, enum dt_event_weight weight, const char *fmt, ...)
{
    char line[LINE_MAX_BYTES];
    va_list args;
    va_start(args, fmt);
    vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    size_t text = rdzv_text(a, line);
    struct dt_rdzv_action *say = add(a, DT_DO_SAY);
    if (say) {
        say->weight = weight;
        say->text = text;
    }
}

static struct dt_rdzv_action *add_tell(const struct dt_rdzv *r, struct dt_rdzv_actions *a,
                                       enum dt_event_kind kind, const char *node, const char *line)
{
    size_t text = rdzv_text(a, line), of = rdzv_text(a, node ? node : "");
    struct dt_rdzv_action *tell = add(a, DT_DO_TELL);
    if (!tell)
        return NULL;
    tell->round = r->round;
    tell->text = text;
    tell->tell.kind = kind;
    tell->tell.node = of;
    tell->tell.rank = -1;
    return tell;
}

struct dt_rdzv_action *rdzv_tell(const struct dt_rdzv *r, struct dt_rdzv_actions *a,
                                 enum dt_event_kind kind, const char *node, const char *fmt, ...)
{
    char line[LINE_MAX_BYTES];
    va_list args;
    va_start(args, fmt);
    vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    return add_tell(r, a, kind, node, line);
}

struct dt_rdzv_action *rdzv_tell_silently(const struct dt_rdzv *r, struct dt_rdzv_actions *a,
                                          enum dt_event_kind kind, const char *node,
                                          const char *text)
{
    struct dt_rdzv_action *tell = add_tell(r, a, kind, node, text);
    if (tell)
        tell->tell.silent = true;
    return tell;
}

struct dt_rdzv_action *rdzv_send(struct dt_rdzv_actions *a, uint64_t to,
                                 enum dt_message_type message, int round, size_t why)
{
    struct dt_rdzv_action *send = add(a, DT_DO_SEND);
    if (!send)
        return NULL;
    send->to = to;
    send->message = message;
    send->round = round;
    send->text = why;
    return send;
}

static void put_close(const struct dt_rdzv_actions *a, const struct dt_rdzv_action *send,
                      struct dt_message *out)
{
    out->close.kind = send->close.kind;
    out->close.cause = dt_rdzv_text(a, send->close.cause);
}

static void put_look(const struct dt_rdzv_action *send, struct dt_message *out)
{
    out->look.id = send->look.id;
    out->look.native = send->look.native;
}

void dt_rdzv_message(const struct dt_rdzv_actions *a, const struct dt_rdzv_action *send,
                     const char *run, struct dt_message *out)
{
    *out = (struct dt_message){.type = send->message,
                               .run = run,
                               .round = send->round,
                               .incarnation = send->to,
                               .why = dt_rdzv_text(a, send->text)};
    if (send->message == DT_MSG_WORLD)
        out->world = send->world;
    else if (send->message == DT_MSG_BEAT)
        out->beat = send->beat;
    else if (send->message == DT_MSG_CLOSE)
        put_close(a, send, out);
    else if (send->message == DT_MSG_STOP)
        out->stop.together = send->together;
    else if (send->message == DT_MSG_LOOK)
        put_look(send, out);
    else if (send->message == DT_MSG_FINDING)
        dt_hang_finding_put(send->finding.what, send->finding.stances, &out->finding);
}
