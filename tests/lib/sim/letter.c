/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/sim/letter.h"

#include <stdlib.h>
#include <string.h>

enum { STRINGS_MAX = 12 };

/* Where the strings of M are; returns how many. */
static size_t strings_of(struct dt_message *m, const char **at[STRINGS_MAX])
{
    size_t n = 0;
    at[n++] = &m->run;
    at[n++] = &m->why;
    switch (m->type) {
    case DT_MSG_JOIN:
        at[n++] = &m->join.node.name;
        at[n++] = &m->join.node.boot;
        at[n++] = &m->join.node.domain;
        at[n++] = &m->join.node.addr;
        at[n++] = &m->join.node.role;
        at[n++] = &m->join.claim.over;
        break;
    case DT_MSG_BEAT:
        at[n++] = &m->beat.straggler;
        at[n++] = &m->beat.own.reason;
        break;
    case DT_MSG_WORLD:
        at[n++] = &m->world.master_addr;
        at[n++] = &m->world.news;
        at[n++] = &m->world.cause;
        break;
    case DT_MSG_CLOSE:
        at[n++] = &m->close.cause;
        break;
    case DT_MSG_FINDING:
        m->finding.stances = (struct dt_stances){0}; /* nobody looks at them */
        at[n++] = &m->finding.class;
        at[n++] = &m->finding.sentence;
        at[n++] = &m->finding.advice;
        break;
    case DT_MSG_RESULT:
        at[n++] = &m->result.signature;
        at[n++] = &m->result.text;
        at[n++] = &m->result.place;
        at[n++] = &m->result.cause;
        break;
    default:
        break;
    }
    return n;
}

struct sim_letter *sim_letter_copy(const struct dt_message *m)
{
    struct dt_message to = *m;
    const char **at[STRINGS_MAX];
    size_t n = strings_of(&to, at), room = 0;
    for (size_t i = 0; i < n; i++)
        room += *at[i] ? strlen(*at[i]) + 1 : 0;
    struct sim_letter *l = malloc(sizeof *l + room);
    if (!l)
        abort();
    char *text = (char *)(l + 1);
    for (size_t i = 0; i < n; i++) {
        if (!*at[i])
            continue;
        size_t len = strlen(*at[i]) + 1;
        memcpy(text, *at[i], len);
        *at[i] = text;
        text += len;
    }
    *l = (struct sim_letter){.m = to};
    return l;
}

struct sim_letter *sim_letter_make(const struct dt_message *m, bool coded, struct dt_err *err)
{
    if (!coded)
        return sim_letter_copy(m);
    struct dt_buf frame = {0};
    size_t used = 0;
    struct sim_letter *l = calloc(1, sizeof *l);
    if (!l)
        abort();
    l->coded = true;
    dt_message_encode(&frame, m);
    enum dt_decoded got = dt_message_decode(frame.at, frame.len, DT_FRAME_MAX, &l->m, &used, err);
    if (got == DT_MORE || (got == DT_DONE && used != frame.len))
        dt_err_set(err, DT_E_PROTOCOL, "%zu bytes of the frame's %zu were read", used, frame.len);
    dt_buf_finish(&frame);
    if (got == DT_DONE && used)
        return l;
    free(l);
    return NULL;
}

void sim_letter_free(struct sim_letter *l)
{
    if (l && l->coded)
        dt_message_finish(&l->m);
    free(l);
}
