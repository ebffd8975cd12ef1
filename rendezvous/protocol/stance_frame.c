/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/protocol/stance_frame.h"

#include <stdlib.h>

/* A view of the groups that are taken, in their order. */
struct part {
    struct dt_stances stances;
    size_t room; /* bytes of JSON that are left */
};

static void put(const struct dt_stances *s, struct dt_buf *out)
{
    struct dt_json_writer w = {.out = out};
    dt_json_put_object(&w, NULL);
    dt_stances_put_json(s, "stances", &w);
    dt_json_put_end(&w);
}

static bool fits(struct part *p, struct dt_stance_group *g, struct dt_buf *scratch)
{
    dt_buf_clear(scratch);
    put(&(struct dt_stances){g, 1}, scratch);
    if (p->stances.len == DT_STANCES_MAX || scratch->len > p->room)
        return false;
    p->room -= scratch->len;
    p->stances.len++;
    return true;
}

/* Marks in TAKEN which groups there is room for. */
static void choose(struct part *p, const struct dt_stances *s, int keep, int also, bool *taken,
                   struct dt_buf *scratch)
{
    const int first[] = {keep, also};
    for (size_t i = 0; i < sizeof first / sizeof *first; i++)
        if (first[i] >= 0 && (size_t)first[i] < s->len && !taken[first[i]])
            taken[first[i]] = fits(p, &s->at[first[i]], scratch);
    for (size_t i = 0; i < s->len && p->stances.len < DT_STANCES_MAX; i++)
        if (!taken[i])
            taken[i] = fits(p, &s->at[i], scratch);
}

static void collect(struct part *p, const struct dt_stances *s, const bool *taken)
{
    size_t n = 0;
    for (size_t i = 0; i < s->len; i++)
        if (taken[i])
            p->stances.at[n++] = s->at[i];
}

void dt_stance_frame_put(const struct dt_stances *s, int keep, int also, struct dt_buf *out)
{
    struct part p = {.room = DT_STANCE_FRAME_MAX};
    struct dt_buf scratch = {0};
    bool *taken = calloc(s->len + 1, sizeof *taken);
    p.stances.at = calloc(DT_STANCES_MAX, sizeof *p.stances.at);
    if (taken && p.stances.at) {
        choose(&p, s, keep, also, taken, &scratch);
        collect(&p, s, taken);
        dt_buf_clear(&scratch);
        put(&p.stances, &scratch);
    }
    if (!taken || !p.stances.at || scratch.bad)
        out->bad = true;
    else
        dt_buf_put(out, scratch.at + 1, scratch.len - 2); /* without the braces */
    free(taken);
    free(p.stances.at);
    dt_buf_finish(&scratch);
}

int dt_stance_frame_find(const struct dt_stances *s, int rank)
{
    for (size_t i = 0; i < s->len; i++)
        for (size_t k = 0; k < s->at[i].len; k++)
            if (rank >= s->at[i].ranges[k].first && rank <= s->at[i].ranges[k].last)
                return (int)i;
    return -1;
}
