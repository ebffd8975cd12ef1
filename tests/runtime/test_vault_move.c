/* SPDX-License-Identifier: Apache-2.0 */
/* Shards of a step on their way into a world of another size, and into the same one. */
#include "rendezvous/protocol/vault_fds.h"
#include "tests/runtime/ranks.h"
#include "worker_runtime/vault/move.h"

#define UNITS 4
#define OLD_MOST 5
#define JOB 9
#define EPOCH 1
#define STEP 30

/* One that nobody divides, one smaller than a shard may be, one large, one of a round number. */
static const size_t sizes[UNITS] = {1000, 7, 300001, 4096};

static struct dt_layout cut(int world)
{
    struct dt_layout l;
    CHECK_EQ(dt_layout_init(&l, sizes, UNITS, (size_t)world, NULL), 0);
    return l;
}

/* What stands at AT of payload space. */
static float value(size_t at, int which)
{
    return (float)(at * 3 + (size_t)which);
}

TEST(each_number_goes_once_from_its_old_owner_to_its_new_one)
{
    for (int from = 1; from <= OLD_MOST; from++)
        for (int to = 1; to <= 7; to++) {
            CHECK_ROW("from %d ranks to %d", from, to);
            struct dt_layout old = cut(from), new = cut(to);
            struct dt_vault_walk w = {0};
            struct dt_vault_piece p;
            size_t payload = 0;
            while (dt_vault_next_piece(&w, &old, &new, &p)) {
                struct dt_stretch a = {0}, b = {0};
                for (size_t i = 0; dt_layout_owned(&old, (size_t)p.from, &i, &a);)
                    if (p.from_at >= a.shard_at && p.from_at < a.shard_at + a.count)
                        break;
                for (size_t i = 0; dt_layout_owned(&new, (size_t)p.to, &i, &b);)
                    if (p.to_at >= b.shard_at && p.to_at < b.shard_at + b.count)
                        break;
                CHECK_EQ(a.payload_at + p.from_at - a.shard_at, payload);
                CHECK_EQ(b.payload_at + p.to_at - b.shard_at, payload);
                CHECK(p.from_at + p.count <= a.shard_at + a.count);
                CHECK(p.to_at + p.count <= b.shard_at + b.count);
                payload += p.count;
            }
            CHECK_EQ(payload, old.payload);
            dt_layout_finish(&old);
            dt_layout_finish(&new);
        }
}

/* Who of a new world holds which shard of an old one, and where. */
struct story {
    const char *name;
    int old, new;
    int own[8], peer[8]; /* shards of the old world; -1: none */
    const char *said;
};

static const struct story stories[] = {
    {"the same world", 3, 3, {0, 1, 2}, {-1, -1, -1}, "ranks 0 to 2 from their own vaults"},
    {"one host is gone, and its neighbour has a copy",
     4,
     3,
     {0, 1, 2},
     {-1, -1, 3},
     "ranks 0 to 2 from their own vaults, rank 3 from a copy on node 2"},
    {"others came, in front of those who stayed",
     2,
     5,
     {-1, -1, -1, 1, 0},
     {-1, -1, -1, -1, -1},
     "ranks 0 and 1 from their own vaults"},
    {"one has all",
     2,
     4,
     {-1, 0, -1, -1},
     {-1, 1, -1, -1},
     "rank 0 from its own vault, rank 1 from a copy on node 1"},
    {"all is at one who is alone",
     2,
     1,
     {1},
     {0},
     "rank 0 from a copy on node 0, rank 1 from its own vault"},
};

static void fill(const char *name, int shard, int old)
{
    struct dt_layout l = cut(old);
    struct dt_vault_image i;
    struct dt_stretch s;
    struct dt_vault_facts f = {.whose.job = JOB,
                               .epoch = EPOCH,
                               .step = STEP,
                               .world = old,
                               .rank = shard,
                               .shard = l.shard,
                               .state = 5,
                               .writer = 1,
                               .safe_epoch = -1};
    CHECK(dt_vault_image_open(&i, name, 0));
    CHECK_EQ(dt_vault_image_begin(&i, 1, &f, NULL), 0);
    for (int which = 0; which < 3; which++)
        for (size_t n = 0; dt_layout_owned(&l, (size_t)shard, &n, &s);)
            for (size_t k = 0; k < s.count; k++)
                dt_vault_slot_array(&i.slot[1], which)[s.shard_at + k] =
                    value(s.payload_at + k, which);
    dt_vault_image_seal(&i, 1);
    dt_vault_image_close(&i);
    dt_layout_finish(&l);
}

static void make_file(const char *name)
{
    char number[16];
    snprintf(number, sizeof number, "%d", memfd_create("vault", MFD_ALLOW_SEALING));
    setenv(name, number, 1);
}

static struct dt_vault *open_vault(const struct rank_self *me, const struct story *s)
{
    struct dt_vault_options o = {.whose.job = JOB,
                                 .rank = me->rank,
                                 .world = me->size,
                                 .host = me->rank,
                                 .epoch = EPOCH + 1};
    struct dt_err err = {0};
    make_file(DT_VAULT_OWN_ENV);
    make_file(DT_VAULT_PEER_ENV);
    if (s->own[me->rank] >= 0)
        fill(DT_VAULT_OWN_ENV, s->own[me->rank], s->old);
    if (s->peer[me->rank] >= 0)
        fill(DT_VAULT_PEER_ENV, s->peer[me->rank], s->old);
    struct dt_vault *v = dt_vault_open(&o, &err);
    CHECK(v != NULL);
    return v;
}

static void choose(struct rank_self *me, struct dt_coll *g, struct dt_vault *v,
                   struct dt_vault_choice *c, const char *wanted)
{
    struct dt_vault_held own[DT_VAULT_HELD], all[8 * DT_VAULT_HELD];
    struct dt_buf said = {0};
    dt_vault_list(v, own, &said);
    CHECK_STR(dt_buf_cstr(&said), "");
    CHECK_EQ(dt_coll_all_gather(g, own, all, sizeof own, DT_U8, NULL), 0);
    CHECK_EQ(dt_vault_choose(all, me->size, c, NULL), 0);
    CHECK_EQ(c->step, STEP);
    dt_vault_choice_describe(c, &said);
    CHECK_STR(dt_buf_cstr(&said), wanted);
    dt_buf_finish(&said);
}

static void comes_back(struct rank_self *me)
{
    const struct story *story = me->arg;
    struct dt_coll *g = rank_open(me);
    struct dt_vault *v = open_vault(me, story);
    struct dt_vault_choice c;
    struct dt_vault_shards got;
    struct dt_stretch s;
    struct dt_layout l = cut(me->size);
    choose(me, g, v, &c, story->said);
    CHECK_EQ(dt_vault_move(v, &c, &l, g, &got, NULL), 0);
    const float *arrays[] = {got.state.master, got.state.exp_avg, got.state.exp_avg_sq};
    for (int which = 0; which < 3; which++)
        for (size_t n = 0; dt_layout_owned(&l, (size_t)me->rank, &n, &s);)
            for (size_t k = 0; k < s.count; k++)
                if (arrays[which][s.shard_at + k] != value(s.payload_at + k, which))
                    CHECK_EQ(s.payload_at + k, SIZE_MAX);
    dt_vault_shards_finish(&got);
    dt_vault_choice_finish(&c);
    dt_vault_close(v);
    dt_layout_finish(&l);
    dt_coll_destroy(g);
}

TEST(a_step_comes_back_into_a_world_of_any_size)
{
    for (size_t i = 0; i < sizeof stories / sizeof *stories; i++) {
        CHECK_ROW("%s", stories[i].name);
        ranks_run(stories[i].new, comes_back, (void *)(uintptr_t)&stories[i]);
    }
}
