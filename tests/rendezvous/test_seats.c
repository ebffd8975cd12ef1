/* SPDX-License-Identifier: Apache-2.0 */
/* Who sits where: stories by hand, and what must hold whatever the old table and whoever is there.
 */
#include "base/chance.h"
#include "rendezvous/rdzv/seats.h"
#include "tests/lib/check.h"

#define MOST 24 /* of candidates or seats in a story */

struct table {
    struct dt_seat_candidate c[MOST];
    size_t count;
    struct dt_seat_memory last[MOST];
    size_t last_count;
    char texts[2 * MOST][16];
    size_t texts_len;
};

/* "name[/domain][@last seat][#wish][!]"; "!": a last resort. They came as they are listed. */
static void read_candidate(struct table *t, const char *word)
{
    struct dt_seat_candidate *c = &t->c[t->count++];
    char *name = t->texts[t->texts_len++];
    size_t len = strcspn(word, "/@#!");
    memcpy(name, word, len);
    *c = (struct dt_seat_candidate){.id = 100 + t->count,
                                    .name = name,
                                    .domain = "",
                                    .order = -1,
                                    .came = (int64_t)t->count,
                                    .last_seat = -1};
    for (word += len; *word; word += strcspn(word, "/@#!")) {
        char mark = *word++;
        if (mark == '@')
            c->last_seat = atoi(word);
        else if (mark == '#')
            c->order = atoi(word);
        else if (mark == '!')
            c->last_resort = true;
        else
            c->domain = strncpy(t->texts[t->texts_len++], word, strcspn(word, "@#!"));
    }
}

/* "name[/domain]"; "-": nothing is known of this seat. */
static void read_memory(struct table *t, const char *word)
{
    struct dt_seat_memory *m = &t->last[t->last_count++];
    char *name = t->texts[t->texts_len++];
    snprintf(name, sizeof t->texts[0], "%s", *word == '-' ? "" : word);
    char *slash = strchr(name, '/');
    *m = (struct dt_seat_memory){.name = name, .domain = slash ? slash + 1 : ""};
    if (slash)
        *slash = '\0';
}

static void each_word(struct table *t, const char *words,
                      void (*read)(struct table *, const char *))
{
    char copy[400];
    snprintf(copy, sizeof copy, "%s", words);
    char *rest = copy;
    for (char *word; (word = strsep(&rest, " "));)
        if (*word)
            read(t, word);
}

/* The names by seat, and in brackets who stays out. */
static const char *seating(const struct table *t, int n, char out[400])
{
    size_t len = 0;
    out[0] = '\0';
    for (int seat = 0; seat < n; seat++)
        for (size_t i = 0; i < t->count; i++)
            if (t->c[i].seat == seat)
                len += (size_t)snprintf(out + len, 400 - len, "%s%s", len ? " " : "", t->c[i].name);
    for (size_t i = 0; i < t->count; i++)
        if (t->c[i].seat < 0)
            len += (size_t)snprintf(out + len, 400 - len, "%s(%s)", len ? " " : "", t->c[i].name);
    return out;
}

struct row {
    const char *candidates, *last;
    size_t target;
    const char *want;
};

static void check_rows(const struct row *rows, size_t count, enum dt_rank_policy policy)
{
    for (size_t i = 0; i < count; i++) {
        CHECK_ROW("%s | %s | %zu", rows[i].candidates, rows[i].last, rows[i].target);
        struct table t = {0};
        char out[400];
        each_word(&t, rows[i].candidates, read_candidate);
        each_word(&t, rows[i].last, read_memory);
        int n = dt_seats_assign(t.c, t.count, rows[i].target, t.last, t.last_count, policy);
        CHECK_EQ(n, t.count < rows[i].target ? t.count : rows[i].target);
        CHECK_STR(seating(&t, n, out), rows[i].want);
    }
}

#define CHECK_SEATING(rows, policy) check_rows((rows), sizeof(rows) / sizeof *(rows), (policy))

TEST(names_are_in_the_order_people_expect)
{
    static const char *const sorted[] = {
        "",
        "a",
        "a1",
        "a01b",
        "a2",
        "a10",
        "a10b2",
        "a10b10",
        "node-2",
        "node-10",
        "node01",
        "node1",
        "node2",
        "node2a",
        "node09",
        "node10",
        "node99999999999999999999",
        "node100000000000000000000",
        "nodeb",
        "rack\xc3\xa9",
    };
    size_t count = sizeof sorted / sizeof *sorted;
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < count; j++) {
            CHECK_ROW("%s and %s", sorted[i], sorted[j]);
            int by = dt_seats_compare_names(sorted[i], sorted[j]);
            CHECK_EQ((by > 0) - (by < 0), (i > j) - (i < j));
        }
}

TEST(the_first_round_is_in_order)
{
    static const struct row rows[] = {
        {"", "", 4, ""},
        {"a b", "", 0, "(a) (b)"},
        {"n10 n2 n1", "", 9, "n1 n2 n10"},
        {"n1/r2 n2/r10 n3/r1", "", 9, "n3 n1 n2"},
        {"n1#2 n2#0 n3#1", "", 9, "n2 n3 n1"},
        {"n1 n2#7 n3/a", "", 9, "n2 n1 n3"},
        {"n1#3 n2#3", "", 9, "n1 n2"},
        {"n3 n2 n1", "", 2, "n2 n3 (n1)"}, /* who came first is in */
        {"n3#5 n2 n1#0", "", 2, "n3 n2 (n1)"},
        {"x x", "", 2, "x x"},
    };
    CHECK_SEATING(rows, DT_RANKS_STABLE);
    CHECK_SEATING(rows, DT_RANKS_TORCHRUN);
}

TEST(survivors_stay_and_others_take_the_holes)
{
    static const struct row rows[] = {
        {"c@2 b@1 a@0", "a b c", 3, "a b c"},
        {"z a@0 c@2", "a b c", 3, "a z c"},
        {"z a@0 c@2", "a b c", 2, "a c (z)"},     /* a seat in the round comes first */
        {"z b a@0 c@2", "a b c", 3, "a b c (z)"}, /* b is back */
        {"z b a@0 c@2", "a b c", 4, "a b c z"},
        {"z y c b@3", "a b x d", 4, "c y z b"}, /* strangers: in the order of the first round */
        {"b a d@3", "a b c d", 3, "a b d"},     /* back in their own seats before d moves */
        {"y a@0 b@1", "a b", 3, "a b y"},
        {"y9 y10 a@0", "a", 3, "a y9 y10"},
        {"y#5 x#4 a@1", "b a c", 3, "x a y"},
        {"x a@0", "a - -", 3, "a x"},
    };
    CHECK_SEATING(rows, DT_RANKS_STABLE);
}

TEST(a_smaller_world_moves_only_the_highest_into_the_lowest_holes)
{
    static const struct row rows[] = {
        {"a@0 c@2 d@3", "a b c d", 4, "a d c"},
        {"b@1 d@3 f@5", "a b c d e f", 6, "d b f"},
        {"e@4 f@5", "a b c d e f", 6, "e f"},
        {"a@0 b@1 c@2 d@3", "a b c d", 2, "a b (c) (d)"}, /* the lowest stay, if that many cannot */
        {"d@3 c@2", "a b c d", 1, "c (d)"},
        {"f a@0 e@4", "a b c d e f", 6, "a e f"}, /* f's seat is gone, it comes after e */
        {"z f a@0 e@4", "a b c d e f", 3, "a e f (z)"},
    };
    CHECK_SEATING(rows, DT_RANKS_STABLE);
}

TEST(a_spare_of_the_same_domain_is_preferred)
{
    static const struct row rows[] = {
        {"x/r1 y/r2 a@0", "a/r1 b/r2", 2, "a y (x)"},
        {"x/r1 y/r2 a@0", "a/r1 b/r3", 2, "a x (y)"},
        {"x/r1 y/r2 a@0", "a/r1 b/r2 c/r1", 3, "a y x"},
        {"x/r2 y/r2 z/r1 a@0", "a b/r2 c/r1", 3, "a x z (y)"}, /* one hole, one neighbour */
        {"x/r2 b/r9 a@0", "a b/r2", 2, "a b (x)"},             /* its own seat before its domain */
        {"x y/r2 a@0", "a b", 2, "a x (y)"},                   /* no domain is none in common */
        {"x/r2 y/r2 a@0", "a b/r2 c/r2", 3, "a x y"},
    };
    CHECK_SEATING(rows, DT_RANKS_STABLE);
}

TEST(the_last_resort_fills_only_what_nobody_else_does)
{
    static const struct row rows[] = {
        {"x! y z", "", 2, "y z (x)"},
        {"x! y z", "", 3, "x y z"},
        {"a@0! b@1 x", "a b", 2, "x b (a)"},
        {"a@0! b@1! x", "a b c", 2, "a x (b)"},
        {"a@0! b@1 x", "a b c", 3, "a b x"},
        {"b! x a@0", "a b", 2, "a x (b)"},
        {"x/r1! y/r9 a@0", "a b/r1", 2, "a y (x)"},
        {"x! y/r1! a@0", "a b/r1", 2, "a y (x)"},
        {"x! b! a@0", "a b", 2, "a b (x)"},
        {"x! y/r1! z/r1 a@0", "a b/r1 c", 3, "a z x (y)"},
    };
    CHECK_SEATING(rows, DT_RANKS_STABLE);
}

TEST(under_the_torchrun_policy_seats_are_given_anew)
{
    static const struct row rows[] = {
        {"c@0 b@1 a@2", "c b a", 3, "a b c"},
        {"n1 n10@0 n2@1", "n10 n2 n3", 3, "n1 n2 n10"},
        {"n1 n10@0 n2@1", "n10 n2", 2, "n2 n10 (n1)"}, /* who is in is the same question */
        {"n1/b n2/a n3#0", "", 3, "n3 n2 n1"},
    };
    CHECK_SEATING(rows, DT_RANKS_TORCHRUN);
}

/* Of a random old table and random presence. */
struct world {
    struct dt_seat_candidate c[MOST];
    struct dt_seat_memory last[MOST];
    size_t count, last_count, target;
    struct dt_seat_candidate *at[MOST];
    int n;
};

static uint64_t below(uint64_t *seed, uint64_t limit)
{
    return dt_chance(seed) % limit;
}

static struct world random_world(uint64_t *seed)
{
    static const char *const names[] = {"n0",  "n1",  "n2",  "n3",  "n4",  "n5",  "n6",  "n7",
                                        "n8",  "n9",  "n10", "n11", "n12", "n13", "n14", "n15",
                                        "n16", "n17", "n18", "n19", "n20", "n21", "n22", "n23"};
    static const char *const domains[] = {"", "r1", "r2", "r3"};
    struct world w = {.last_count = below(seed, MOST / 2), .target = below(seed, MOST)};
    uint64_t presence = 1 + below(seed, 4), spares = below(seed, MOST / 2);
    for (size_t i = 0; i < MOST; i++) {
        struct dt_seat_candidate c = {.id = dt_chance(seed),
                                      .name = names[i],
                                      .domain = domains[below(seed, 4)],
                                      .order = below(seed, 4) ? -1 : (int)below(seed, 5),
                                      .came = (int64_t)below(seed, 9),
                                      .last_seat = -1,
                                      .last_resort = below(seed, 6) == 0,
                                      .seat = 77};
        if (i < w.last_count)
            w.last[i] = (struct dt_seat_memory){c.name, c.domain};
        if (i < w.last_count && below(seed, 5) < presence)
            c.last_seat = (int)i;
        if (c.last_seat >= 0 ||
            (i < w.last_count ? below(seed, 6) == 0 : i < w.last_count + spares))
            w.c[w.count++] = c;
    }
    for (size_t i = w.count; i > 1; i--) {
        size_t j = below(seed, i);
        struct dt_seat_candidate c = w.c[j];
        w.c[j] = w.c[i - 1];
        w.c[i - 1] = c;
    }
    return w;
}

static void seat_all(struct world *w, enum dt_rank_policy policy)
{
    w->n = dt_seats_assign(w->c, w->count, w->target, w->last, w->last_count, policy);
    memset(w->at, 0, sizeof w->at);
    for (size_t i = 0; i < w->count; i++) {
        CHECK(w->c[i].seat >= -1 && w->c[i].seat < w->n);
        if (w->c[i].seat >= 0) {
            CHECK(!w->at[w->c[i].seat]);
            w->at[w->c[i].seat] = &w->c[i];
        }
    }
    CHECK_EQ(w->n, w->count < w->target ? w->count : w->target);
    for (int seat = 0; seat < w->n; seat++)
        CHECK(w->at[seat]);
}

/* Its seat in the old table, as who is back: -1 otherwise. */
static int old_seat(const struct world *w, const struct dt_seat_candidate *c)
{
    for (size_t i = 0; c->last_seat < 0 && i < w->last_count; i++)
        if (strcmp(w->last[i].name, c->name) == 0)
            return (int)i;
    return -1;
}

/* Larger: must not be out while a smaller one is in. */
static int right_of(const struct world *w, const struct dt_seat_candidate *c)
{
    return (c->last_resort ? 0 : 10) + (c->last_seat >= 0 ? 2 : old_seat(w, c) >= 0 ? 1 : 0);
}

static void check_who_is_in(const struct world *w)
{
    for (size_t i = 0; i < w->count; i++)
        for (size_t j = 0; j < w->count; j++) {
            const struct dt_seat_candidate *in = &w->c[i], *out = &w->c[j];
            if (in->seat < 0 || out->seat >= 0)
                continue;
            CHECK(right_of(w, in) >= right_of(w, out));
            if (right_of(w, in) == right_of(w, out) && in->last_seat >= 0)
                CHECK(in->last_seat < out->last_seat);
        }
}

static void check_who_sits_where(const struct world *w)
{
    int lowest_for_moved = 0;
    for (int seat = 0; seat < w->n; seat++) {
        const struct dt_seat_candidate *c = w->at[seat];
        int home = c->last_seat >= 0 ? c->last_seat : old_seat(w, c);
        CHECK_ROW("%s in seat %d", c->name, seat);
        if (home >= 0 && home < w->n)
            CHECK_EQ(seat, home); /* only those whose seats are gone move */
        if (home >= w->n)
            lowest_for_moved = seat;
    }
    for (int seat = 0; seat < lowest_for_moved; seat++) {
        const struct dt_seat_candidate *c = w->at[seat];
        CHECK(c->last_seat >= 0 || old_seat(w, c) >= 0); /* no stranger sits below who moved */
    }
}

/* Nobody sits in a lost neighbour's seat, or is out, while a neighbour of it sits as a stranger. */
static void check_neighbours(const struct world *w)
{
    for (int seat = 0; seat < w->n && seat < (int)w->last_count; seat++) {
        const struct dt_seat_candidate *c = w->at[seat];
        const char *lost = w->last[seat].domain;
        if (c->last_seat >= 0 || old_seat(w, c) >= 0 || !*lost || strcmp(c->domain, lost) == 0)
            continue;
        for (size_t i = 0; i < w->count; i++) {
            const struct dt_seat_candidate *o = &w->c[i];
            CHECK_ROW("%s in seat %d, and not %s", c->name, seat, o->name);
            if (o->last_seat >= 0 || old_seat(w, o) >= 0 || strcmp(o->domain, lost) != 0)
                continue;
            if (o->seat < 0)
                CHECK(o->last_resort && !c->last_resort);
            else
                CHECK(o->seat < (int)w->last_count &&
                      strcmp(w->last[o->seat].domain, o->domain) == 0);
        }
    }
}

TEST(whatever_the_table_and_whoever_is_there)
{
    uint64_t seed = 20240229;
    int moved = 0, back = 0, out = 0;
    for (int story = 0; story < 20000; story++) {
        CHECK_ROW("story %d", story);
        struct world w = random_world(&seed);
        seat_all(&w, DT_RANKS_STABLE);
        check_who_is_in(&w);
        check_who_sits_where(&w);
        check_neighbours(&w);
        for (size_t i = 0; i < w.count; i++) {
            moved += w.c[i].last_seat >= w.n && w.c[i].seat >= 0;
            back += old_seat(&w, &w.c[i]) >= 0 && old_seat(&w, &w.c[i]) == w.c[i].seat;
            out += w.c[i].seat < 0;
        }
    }
    CHECK(moved > 1000 && back > 1000 && out > 1000); /* the stories tell of all of it */
}

TEST(under_the_torchrun_policy_the_same_are_in)
{
    uint64_t seed = 7;
    for (int story = 0; story < 5000; story++) {
        CHECK_ROW("story %d", story);
        struct world w = random_world(&seed), again = w;
        seat_all(&w, DT_RANKS_STABLE);
        seat_all(&again, DT_RANKS_TORCHRUN);
        for (size_t i = 0; i < w.count; i++)
            CHECK_EQ(w.c[i].seat < 0, again.c[i].seat < 0);
        for (int seat = 1; seat < again.n; seat++) {
            const struct dt_seat_candidate *a = again.at[seat - 1], *b = again.at[seat];
            CHECK(b->order < 0 || (a->order >= 0 && a->order <= b->order));
            if (a->order == b->order)
                CHECK(strcmp(a->domain, b->domain) < 0 ||
                      (strcmp(a->domain, b->domain) == 0 &&
                       dt_seats_compare_names(a->name, b->name) < 0));
        }
    }
}

TEST(the_order_of_the_candidates_decides_nothing)
{
    uint64_t seed = 11;
    for (int story = 0; story < 2000; story++) {
        CHECK_ROW("story %d", story);
        struct world w = random_world(&seed), turned = w;
        for (size_t i = 0; i < w.count; i++)
            turned.c[i] = w.c[w.count - 1 - i];
        seat_all(&w, DT_RANKS_STABLE);
        seat_all(&turned, DT_RANKS_STABLE);
        for (int seat = 0; seat < w.n; seat++)
            CHECK_STR(turned.at[seat]->name, w.at[seat]->name);
    }
}

/* Were any step quadratic, this would not end before the test's time is over. */
TEST(two_hundred_thousand_take_no_time)
{
    enum { NODES = 200000 };
    static struct dt_seat_candidate c[NODES];
    static struct dt_seat_memory last[NODES];
    static char names[NODES][12];
    for (int i = 0; i < NODES; i++) {
        snprintf(names[i], sizeof names[i], "n%d", i);
        last[i] = (struct dt_seat_memory){names[i], "rack"};
    }
    for (int strangers = 0; strangers < 2; strangers++) {
        for (int i = 0; i < NODES; i++)
            c[i] = (struct dt_seat_candidate){.id = (uint64_t)i,
                                              .name = names[i],
                                              .domain = "rack",
                                              .order = -1,
                                              .came = i,
                                              .last_seat = -1};
        for (int i = 0; i < NODES; i++)
            if (strangers)
                c[i].name = "new"; /* all of one name and of one domain */
            else if (i % 2)
                c[i].last_seat = i;
        CHECK_EQ(dt_seats_assign(c, NODES, NODES, last, NODES, DT_RANKS_STABLE), NODES);
        for (int i = 0; i < NODES; i++)
            CHECK_EQ(c[i].seat, i);
    }
}
