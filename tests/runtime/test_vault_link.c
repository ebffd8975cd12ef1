/* SPDX-License-Identifier: Apache-2.0 */
/* Copies between ranks that are all in this process, each with its link and images; and links
 * against peers that break the rules, which are bare wires here. */
#include "tests/lib/check.h"
#include "worker_runtime/coll/wire/tcp/tcp.h"
#include "worker_runtime/vault/link.h"
#include "worker_runtime/vault/neighbour.h"

#include <poll.h>
#include <stdatomic.h>
#include <sys/mman.h>

#define RANKS 5
#define SHARD ((uint64_t)500000) /* floats in an array: a copy is more than one chunk */
#define WHOSE ((struct dt_vault_whose){77, 78})
#define LONG (600 * DT_SECOND) /* that only a hang reaches */

struct rank {
    struct dt_link *link;
    struct dt_vault_image own, peer[RANKS];
    int neighbour, wards[RANKS], ward_count;
};

static struct dt_vault_image open_image(void)
{
    struct dt_vault_image i = {.fd = memfd_create("image", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
    CHECK(i.fd >= 0);
    return i;
}

static struct dt_vault_facts facts(int rank, int world, int64_t step)
{
    return (struct dt_vault_facts){.whose = WHOSE,
                                   .epoch = 2,
                                   .step = step,
                                   .world = world,
                                   .rank = rank,
                                   .shard = SHARD,
                                   .state = 100,
                                   .writer = 1,
                                   .safe_epoch = step > 1 ? 2 : -1,
                                   .safe_step = step - 1};
}

/* Numbers that no other rank and no other step has. */
static float number(int rank, int64_t step, uint64_t i)
{
    return (float)((uint64_t)rank * 1000 + (uint64_t)step * 7 + i % 991);
}

static int fill(struct dt_vault_image *image, const struct dt_vault_facts *f)
{
    struct dt_err err = {0};
    int slot = dt_vault_image_room(image, f);
    CHECK_OK(dt_vault_image_begin(image, slot, f, &err), err);
    struct dt_vault_slot *s = &image->slot[slot];
    memset(dt_vault_slot_state(s), (int)f->step, f->state);
    for (int which = 0; which < 3; which++)
        for (uint64_t i = 0; i < f->shard; i++)
            dt_vault_slot_array(s, which)[i] = number((int)f->rank, f->step, i + (uint64_t)which);
    dt_vault_image_seal(image, slot);
    return slot;
}

/* The newest step that IMAGE holds of RANK, looked at byte by byte; -1: none. */
static int64_t newest(struct dt_vault_image *image, int rank)
{
    struct dt_vault_facts f;
    struct dt_err why = {0};
    int64_t step = -1;
    for (int n = 0; n < DT_VAULT_SLOTS; n++) {
        if (!dt_vault_image_look(image, n, WHOSE, &f, &why) || f.rank != rank || f.step <= step)
            continue;
        step = f.step;
        for (int which = 0; which < 3; which++)
            for (uint64_t i = 0; i < f.shard; i += 1009)
                if (dt_vault_slot_array(&image->slot[n], which)[i] !=
                    number(rank, step, i + (uint64_t)which))
                    return -2;
    }
    return step;
}

/* -- worlds of links -------------------------------------------------------------------------- */

static void open_ranks(struct rank *all, const int *host, int world)
{
    struct dt_link_card cards[RANKS];
    struct dt_err err = {0};
    for (int r = 0; r < world; r++) {
        all[r] = (struct rank){.own = open_image()};
        all[r].neighbour = dt_neighbour_of(host, world, r);
        all[r].ward_count = dt_neighbour_wards(host, world, r, all[r].wards);
        all[r].link = dt_link_open(r, &cards[r], &err);
        CHECK_OK(all[r].link ? 0 : -1, err);
    }
    for (int r = 0; r < world; r++) {
        struct dt_link_ward wards[RANKS];
        struct dt_vault_facts like = facts(r, world, 0);
        for (int i = 0; i < all[r].ward_count; i++) {
            all[r].peer[i] = open_image();
            wards[i] = (struct dt_link_ward){all[r].wards[i], &all[r].peer[i]};
        }
        CHECK_OK(dt_link_start(all[r].link, cards, all[r].neighbour, wards, all[r].ward_count,
                               &like, &err),
                 err);
    }
}

static void close_rank(struct rank *r)
{
    dt_link_close(r->link);
    dt_vault_image_close(&r->own);
    for (int i = 0; i < r->ward_count; i++)
        dt_vault_image_close(&r->peer[i]);
}

static const struct world {
    const char *what;
    int size, host[RANKS];
} worlds[] = {
    {"two hosts of one rank", 2, {0, 1}},
    {"a ring of three", 3, {0, 1, 2}},
    {"three ranks and two", 5, {0, 0, 0, 1, 1}},
};

TEST(each_step_of_each_rank_comes_to_its_neighbour)
{
    for (size_t w = 0; w < sizeof worlds / sizeof *worlds; w++) {
        const struct world *t = &worlds[w];
        struct rank all[RANKS];
        struct dt_err err = {0};
        CHECK_ROW("%s", t->what);
        open_ranks(all, t->host, t->size);
        for (int64_t step = 1; step <= 5; step++) {
            CHECK_ROW("step %d", (int)step);
            for (int r = 0; r < t->size; r++) {
                struct dt_vault_facts f = facts(r, t->size, step);
                dt_link_offer(all[r].link, &all[r].own, fill(&all[r].own, &f));
            }
            for (int r = 0; r < t->size; r++)
                CHECK_OK(dt_link_wait(all[r].link, LONG, NULL, NULL, &err), err);
        }
        for (int r = 0; r < t->size; r++) {
            dt_link_close(all[r].link);
            all[r].link = NULL;
            for (int i = 0; i < all[r].ward_count; i++)
                CHECK_EQ(newest(&all[r].peer[i], all[r].wards[i]), 5);
        }
        for (int r = 0; r < t->size; r++)
            close_rank(&all[r]);
    }
}

TEST(who_has_offered_nothing_waits_for_nothing)
{
    static const int host[] = {0, 1};
    struct rank all[2];
    struct dt_err err = {0};
    open_ranks(all, host, 2);
    CHECK_OK(dt_link_wait(all[0].link, 0, NULL, NULL, &err), err);
    close_rank(&all[0]);
    close_rank(&all[1]);
}

TEST(a_peer_that_is_gone_ends_the_wait)
{
    static const int host[] = {0, 1};
    struct rank all[2];
    struct dt_err err = {0};
    struct dt_vault_facts f = facts(0, 2, 1);
    open_ranks(all, host, 2);
    dt_link_offer(all[0].link, &all[0].own, fill(&all[0].own, &f));
    CHECK_OK(dt_link_wait(all[0].link, LONG, NULL, NULL, &err), err);
    close_rank(&all[1]);
    f = facts(0, 2, 2);
    dt_link_offer(all[0].link, &all[0].own, fill(&all[0].own, &f));
    CHECK_FAIL(dt_link_wait(all[0].link, LONG, NULL, NULL, &err), err, "rank 1");
    CHECK(strstr(err.text, "broke (") != NULL);
    CHECK_EQ(err.code, DT_E_RUNTIME); /* not one that says that the job's group is broken */
    close_rank(&all[0]);
}

/* What is damaged between the seal and the neighbour's memory. */
TEST(a_damaged_copy_does_not_count)
{
    static const int host[] = {0, 1};
    struct rank all[2];
    struct dt_err err = {0};
    struct dt_vault_facts f = facts(0, 2, 1);
    open_ranks(all, host, 2);
    dt_link_offer(all[0].link, &all[0].own, fill(&all[0].own, &f));
    CHECK_OK(dt_link_wait(all[0].link, LONG, NULL, NULL, &err), err);
    f = facts(0, 2, 2);
    int slot = fill(&all[0].own, &f);
    dt_vault_slot_array(&all[0].own.slot[slot], 2)[SHARD - 1] += 1;
    dt_link_offer(all[0].link, &all[0].own, slot);
    CHECK_FAIL(dt_link_wait(all[0].link, LONG, NULL, NULL, &err), err, "broke (");
    CHECK_FAIL(dt_link_wait(all[1].link, LONG, NULL, NULL, &err), err,
               "a copy of rank 0: block 2 of 2 is damaged");
    dt_link_close(all[1].link);
    all[1].link = NULL;
    CHECK_EQ(newest(&all[1].peer[0], 0), 1);
    close_rank(&all[0]);
    close_rank(&all[1]);
}

static const struct wrong {
    const char *what;
    struct dt_vault_facts add; /* to what would be right */
} wrongs[] = {
    {"of another job", {.whose.job = 1}},
    {"of another mesh", {.whose.mesh = 1}},
    {"of another world of the job", {.epoch = 1}},
    {"of a world of another size", {.world = 1}},
    {"of another rank", {.rank = 1}},
    {"of a larger shard", {.shard = 16}},
    {"of a smaller shard", {.shard = -(uint64_t)16}},
};

TEST(a_copy_that_is_not_what_is_expected_is_not_taken)
{
    static const int host[] = {0, 1};
    for (size_t i = 0; i < sizeof wrongs / sizeof *wrongs; i++) {
        const struct dt_vault_facts *add = &wrongs[i].add;
        struct rank all[2];
        struct dt_err err = {0};
        struct dt_vault_facts f = facts(0, 2, 1);
        CHECK_ROW("%s", wrongs[i].what);
        open_ranks(all, host, 2);
        f.whose.job += add->whose.job;
        f.whose.mesh += add->whose.mesh;
        f.epoch += add->epoch;
        f.world += add->world;
        f.rank += add->rank;
        f.shard += add->shard;
        dt_link_offer(all[0].link, &all[0].own, fill(&all[0].own, &f));
        CHECK_FAIL(dt_link_wait(all[0].link, LONG, NULL, NULL, &err), err, "broke (");
        CHECK_FAIL(dt_link_wait(all[1].link, LONG, NULL, NULL, &err), err,
                   "a copy of rank 0: what came is no copy of its part");
        close_rank(&all[0]);
        close_rank(&all[1]);
    }
}

/* -- against a bare wire ---------------------------------------------------------------------- */

struct odd { /* rank 1, which keeps to no rules; rank 0 is a link */
    struct rank link;
    struct dt_wire *wire;
    struct dt_link_card cards[2];
};

static void open_odd(struct odd *o)
{
    struct dt_err err = {0};
    struct dt_vault_facts like = facts(0, 2, 0);
    size_t len;
    o->link = (struct rank){.own = open_image(), .peer = {open_image()}, .ward_count = 1};
    o->link.link = dt_link_open(0, &o->cards[0], &err);
    CHECK_OK(o->link.link ? 0 : -1, err);
    o->wire = dt_wire_tcp.open(1, &err);
    CHECK_OK(o->wire ? 0 : -1, err);
    CHECK_OK(dt_wire_tcp.address(o->wire, o->cards[1].bytes, &len, &err), err);
    struct dt_link_ward ward = {1, &o->link.peer[0]};
    CHECK_OK(dt_link_start(o->link.link, o->cards, 1, &ward, 1, &like, &err), err);
    CHECK_OK(dt_wire_tcp.connect(o->wire, 0, o->cards[0].bytes, DT_LINK_CARD, &err), err);
}

static void close_odd(struct odd *o)
{
    close_rank(&o->link);
    dt_wire_tcp.close(o->wire);
}

/* Until rank 0's connection is gone. */
static void move_to_the_end(struct odd *o)
{
    const char *why;
    while (dt_wire_tcp.broken(o->wire, 0, &why) < 0) {
        struct pollfd f = {.fd = dt_wire_tcp.wait_fd(o->wire), .events = POLLIN};
        poll(&f, 1, 20);
        dt_wire_tcp.progress(o->wire);
    }
}

static const struct noise {
    const char *what;
    uint64_t tag;
    size_t len;
    const char *said;
} noises[] = {
    {"a head of no bytes", 1, 0, "0 bytes came where"},
    {"a head that is cut off", 1, 40, "40 bytes came where"},
    {"a head of another size", 1, 4096, "4096 bytes came where"},
    {"a head of noise", 1, 2 * sizeof(uint64_t) + sizeof(struct dt_vault_facts),
     "a copy of rank 1: what came is no copy of its part"},
    {"a reply to nothing", 3, 24, "a copy for rank 1: it has taken another copy than it was sent"},
};

/* A copy is offered, as a reply is looked at when there is something to reply to. */
TEST(noise_of_a_peer_ends_the_link)
{
    static char bytes[4096];
    memset(bytes, 0x5a, sizeof bytes);
    for (size_t i = 0; i < sizeof noises / sizeof *noises; i++) {
        const struct noise *t = &noises[i];
        struct odd o;
        struct dt_err err = {0};
        struct dt_wire_request *r;
        struct dt_vault_facts f = facts(0, 2, 1);
        CHECK_ROW("%s", t->what);
        open_odd(&o);
        dt_link_offer(o.link.link, &o.link.own, fill(&o.link.own, &f));
        CHECK_OK(dt_wire_tcp.send(o.wire, 0, t->tag, bytes, t->len, &r, &err), err);
        move_to_the_end(&o);
        CHECK_FAIL(dt_link_wait(o.link.link, LONG, NULL, NULL, &err), err, t->said);
        CHECK_EQ(newest(&o.link.peer[0], 1), -1);
        close_odd(&o);
    }
}

static bool after_two_looks(void *looks)
{
    return atomic_fetch_add((atomic_int *)looks, 1) >= 1;
}

/* A neighbour that is there and takes nothing: the buffers of the connection are full. */
TEST(a_neighbour_that_takes_nothing_is_waited_for_no_longer_than_is_said)
{
    struct odd o;
    struct dt_err err = {0};
    struct dt_vault_facts f = facts(0, 2, 1);
    atomic_int looks = 0;
    open_odd(&o);
    dt_link_offer(o.link.link, &o.link.own, fill(&o.link.own, &f));
    CHECK_FAIL(dt_link_wait(o.link.link, 1, NULL, NULL, &err), err,
               "a copy for rank 1: it has not taken it within 0 s");
    CHECK_FAIL(dt_link_wait(o.link.link, LONG, after_two_looks, &looks, &err), err,
               "this world is over");
    close_odd(&o); /* and the thread ends in the middle of its copy */
}

/* The world breaks while this rank's copy is under way, and while its ward's is. */
TEST(a_link_ends_in_the_middle_of_a_copy)
{
    static const int host[] = {0, 1};
    for (int64_t i = 0; i < 10; i++) {
        struct rank all[2];
        struct dt_err err = {0};
        open_ranks(all, host, 2);
        for (int r = 0; r < 2; r++) {
            struct dt_vault_facts f = facts(r, 2, 1);
            dt_link_offer(all[r].link, &all[r].own, fill(&all[r].own, &f));
        }
        dt_link_close(all[i % 2].link);
        all[i % 2].link = NULL;
        struct rank *left = &all[1 - i % 2];
        if (dt_link_wait(left->link, LONG, NULL, NULL, &err) < 0)
            CHECK(strstr(err.text, "broke") != NULL);
        close_rank(&all[0]);
        close_rank(&all[1]);
    }
    CHECK(true);
}
