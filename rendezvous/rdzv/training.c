/* SPDX-License-Identifier: Apache-2.0 */
/* How the training of a run goes, put together of what its nodes tell with their beats. */
#include "rendezvous/rdzv/inside.h"

/* Sums over nodes, each with the weight of its workers. */
struct sums {
    int64_t of_mfu, mfu; /* workers that tell of it, and the sum */
    int64_t of_shares;   /* likewise */
    int64_t compute, comm, data;
    int lowest; /* of the ranks whose node tells a loss; -1: none yet */
};

bool dt_rdzv_is_fresh(const struct dt_member *m)
{
    return m->doing == DT_MEMBER_RUNNING && m->link == DT_LINK_ONLINE;
}

/* Each node may tell the most there is. */
static int64_t add_up(int64_t a, int64_t b)
{
    return b < DT_FIELD_WHOLE_MAX - a ? a + b : DT_FIELD_WHOLE_MAX;
}

static void add(struct sums *s, struct dt_training *out, const struct dt_member *m)
{
    const struct dt_telemetry *t = &m->telemetry.is;
    out->tokens_per_s = add_up(out->tokens_per_s, m->beat.tokens_per_s);
    if (t->steps > out->steps)
        out->steps = t->steps;
    if (t->loss && *t->loss && (s->lowest < 0 || m->first_rank < s->lowest)) {
        s->lowest = m->first_rank;
        out->loss = t->loss;
    }
    if (t->mfu > 0) {
        s->of_mfu += m->workers;
        s->mfu += (int64_t)t->mfu * m->workers;
    }
    if (t->compute + t->comm + t->data + t->idle == 0)
        return;
    s->of_shares += m->workers;
    s->compute += (int64_t)t->compute * m->workers;
    s->comm += (int64_t)t->comm * m->workers;
    s->data += (int64_t)t->data * m->workers;
}

void dt_rdzv_training(const struct dt_rdzv *r, struct dt_training *out)
{
    struct sums s = {.lowest = -1};
    *out = (struct dt_training){.step = r->budget.step, .loss = ""};
    dt_list_each(&r->members.all, n)
    {
        const struct dt_member *m = dt_container_of(n, struct dt_member, in_all);
        if (dt_rdzv_is_fresh(m))
            add(&s, out, m);
    }
    if (s.of_mfu > 0)
        out->mfu = (int)(s.mfu / s.of_mfu);
    if (s.of_shares == 0)
        return;
    out->compute = (int)(s.compute / s.of_shares);
    out->comm = (int)(s.comm / s.of_shares);
    out->data = (int)(s.data / s.of_shares);
    out->idle = DT_SHARE_WHOLE - out->compute - out->comm - out->data;
}
