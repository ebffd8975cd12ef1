/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/hang/calls.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

_Static_assert(DT_COMM_LABEL <= DT_STANCE_NAME_MAX && DT_COMM_SHAPE <= DT_STANCE_NAME_MAX,
               "both fit into a stance");

/* "all_reduce" of "AllReduce", as PyTorch calls it. */
static void name_call(const char *function, char out[DT_STANCE_NAME_MAX])
{
    size_t n = 0;
    for (const char *f = function; *f && n + 2 < DT_STANCE_NAME_MAX; f++) {
        if (isupper((unsigned char)*f) && f != function)
            out[n++] = '_';
        out[n++] = (char)tolower((unsigned char)*f);
    }
    out[n] = '\0';
}

/* Whether the program's COLLECTIVE can be the call: all_gather_into_tensor is NCCL's AllGather, and
 * a barrier an AllReduce. The program may wait in a collective of another library. */
static bool can_be(const char *collective, const char *call)
{
    if (strcmp(collective, "barrier") == 0)
        return strcmp(call, "all_reduce") == 0;
    return strncmp(collective, call, strlen(call)) == 0;
}

/* The communicator whose GPU stands in a collective: of several the one that was called first, as
 * the others are behind it. NULL: none is known to. */
static const struct dt_comm_told *under_way(const struct dt_comms_told *comms)
{
    const struct dt_comm_told *first = NULL;
    for (int i = 0; i < comms->count; i++) {
        const struct dt_comm_told *c = &comms->at[i];
        if (c->ended >= 0 && c->ended < c->entered && (!first || c->entered_ns < first->entered_ns))
            first = c;
    }
    return first;
}

static void put_group(const struct dt_comm_told *c, int64_t sequence, struct dt_stance *s)
{
    char label[DT_COMM_LABEL], shape[DT_COMM_SHAPE];
    s->sequence = sequence;
    snprintf(s->group, sizeof s->group, "%s", dt_comm_label(c, label));
    if (sequence == c->entered && c->peer < 0) /* the call that is described */
        snprintf(s->shape, sizeof s->shape, "%s", dt_comm_shape(c, shape));
}

static void add_to_collective(const struct dt_comm_told *latest, struct dt_stance *s)
{
    char call[DT_STANCE_NAME_MAX];
    name_call(latest->function, call);
    if (latest->peer >= 0 || (*s->collective && !can_be(s->collective, call)))
        return;
    if (!*s->collective)
        snprintf(s->collective, sizeof s->collective, "%s", call);
    put_group(latest, latest->entered, s);
}

static void stand_in(const struct dt_comm_told *c, struct dt_stance *s)
{
    int64_t sequence = c->ended + 1;
    s->doing = DT_DOING_COLLECTIVE;
    *s->collective = '\0';
    if (sequence == c->entered && c->peer < 0)
        name_call(c->function, s->collective);
    put_group(c, sequence, s);
    snprintf(s->detail, sizeof s->detail, "its GPU has not ended the collective");
}

/* Its GPU may wait in that call while the program is where S says: by the numbers of all ranks it
 * can be told. */
static void tell_last(const struct dt_comm_told *latest, struct dt_stance *s)
{
    char words[DT_COMM_WORDS];
    if (latest->peer < 0 && latest->ended < latest->entered) {
        name_call(latest->function, s->collective);
        put_group(latest, latest->entered, s);
    }
    if (!*s->detail)
        snprintf(s->detail, sizeof s->detail, "its last call of NCCL was %s",
                 dt_comm_describe(latest, words));
}

void dt_calls_tell(const struct dt_comms_told *comms, struct dt_stance *s)
{
    const struct dt_comm_told *latest = dt_comms_latest(comms), *first = under_way(comms);
    if (!latest)
        return;
    if (s->doing == DT_DOING_COLLECTIVE)
        add_to_collective(latest, s);
    else if (first && (s->doing == DT_DOING_WAIT || s->doing == DT_DOING_COMPUTE))
        stand_in(first, s);
    else
        tell_last(latest, s);
}

void dt_calls_put_text(const struct dt_comms_told *comms, struct dt_buf *out)
{
    char words[DT_COMM_WORDS];
    for (int i = 0; i < comms->count; i++) {
        const struct dt_comm_told *c = &comms->at[i];
        if (c->entered_ns == 0)
            continue;
        dt_buf_printf(out, "NCCL: the last call was %s", dt_comm_describe(c, words));
        if (c->ended >= 0)
            dt_buf_printf(out, "; %" PRId64 " of %" PRId64 " collectives are over", c->ended,
                          c->entered);
        dt_buf_put_str(out, "\n");
    }
}
