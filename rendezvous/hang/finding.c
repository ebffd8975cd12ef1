/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/hang/finding.h"

#include "rendezvous/protocol/stance_frame.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static_assert(DT_HANG_SENTENCE_MAX == DT_FINDING_TEXT_MAX, "a sentence goes over the wire whole");

int dt_hang_first_rank(const struct dt_stances *all, int group)
{
    bool there = group >= 0 && (size_t)group < all->len && all->at[group].len > 0;
    return there ? all->at[group].ranges[0].first : -1;
}

void dt_hang_finding_put(const struct dt_hang_finding *f, const struct dt_stances *all,
                         struct dt_finding_message *out)
{
    *out = (struct dt_finding_message){.class = dt_hang_class_name(f->class),
                                       .guilty = f->guilty,
                                       .culprit = dt_hang_first_rank(all, f->culprit),
                                       .waiting = dt_hang_first_rank(all, f->waiting),
                                       .sentence = f->sentence,
                                       .advice = f->advice,
                                       .stances = *all};
}

static enum dt_hang_class class_of(const char *name)
{
    for (int c = 0; c < DT_HANG_CLASSES; c++)
        if (strcmp(name, dt_hang_class_name((enum dt_hang_class)c)) == 0)
            return (enum dt_hang_class)c;
    return DT_HANG_NONE;
}

static int group_of(const struct dt_stances *all, int rank)
{
    return rank < 0 ? -1 : dt_stance_frame_find(all, rank);
}

void dt_hang_finding_get(const struct dt_finding_message *m, struct dt_hang_finding *out)
{
    *out = (struct dt_hang_finding){.class = class_of(m->class),
                                    .guilty = m->guilty,
                                    .culprit = group_of(&m->stances, m->culprit),
                                    .waiting = group_of(&m->stances, m->waiting)};
    snprintf(out->sentence, sizeof out->sentence, "%s", m->sentence);
    snprintf(out->advice, sizeof out->advice, "%s", m->advice);
}
