/* SPDX-License-Identifier: Apache-2.0 */
#include "base/map.h"
#include "tests/lib/check.h"

struct entry {
    struct dt_map_node node;
    int value;
    uint8_t key[];
};

static struct entry *entry_new(const void *key, size_t len, int value)
{
    struct entry *e = malloc(sizeof *e + len);
    if (!e)
        abort();
    e->value = value;
    memcpy(e->key, key, len);
    return e;
}

static struct dt_bytes key_of_number(uint32_t n, char out[16])
{
    snprintf(out, 16, "key %u", n);
    return dt_bytes_of(out);
}

static void put(struct dt_map *m, uint32_t number, int value)
{
    char text[16];
    struct dt_bytes k = key_of_number(number, text);
    CHECK_EQ(dt_map_insert(m, entry_new(k.at, k.len, value), (uint32_t)k.len), 0);
}

/* Values start at 1; 0 is absence. */
static int get(struct dt_map *m, uint32_t number)
{
    char text[16];
    struct entry *e = dt_map_find(m, key_of_number(number, text));
    return e ? e->value : 0;
}

static int take(struct dt_map *m, uint32_t number)
{
    char text[16];
    struct entry *e = dt_map_remove(m, key_of_number(number, text));
    int value = e ? e->value : 0;
    free(e);
    return value;
}

static uint32_t next_random(uint32_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

TEST(an_empty_map_holds_nothing)
{
    struct dt_map m;
    size_t cursor = 0;
    dt_map_init(&m, offsetof(struct entry, key), 1);
    CHECK_EQ(get(&m, 1), 0);
    CHECK_EQ(take(&m, 1), 0);
    CHECK(dt_map_next(&m, &cursor) == NULL);
    CHECK_EQ(dt_map_overhead(&m), 0);
    dt_map_finish(&m, free);
    dt_map_finish(&m, free);
}

TEST(keys_are_bytes_of_any_length)
{
    struct dt_map m;
    static const uint8_t bytes[] = {0, 0, 1, 0, 255, 10, 0};
    dt_map_init(&m, offsetof(struct entry, key), dt_map_random_seed());
    for (uint32_t len = 0; len <= sizeof bytes; len++)
        CHECK_EQ(dt_map_insert(&m, entry_new(bytes, len, (int)len + 1), len), 0);
    for (size_t len = 0; len <= sizeof bytes; len++) {
        CHECK_ROW("%zu bytes", len);
        struct entry *e = dt_map_find(&m, (struct dt_bytes){bytes, len});
        CHECK(e != NULL);
        CHECK_EQ(e->value, len + 1);
        CHECK_EQ(e->node.key_len, len);
    }
    struct entry *empty = dt_map_remove(&m, (struct dt_bytes){NULL, 0});
    CHECK(empty != NULL);
    CHECK_EQ(empty->value, 1);
    free(empty);
    CHECK_EQ(m.count, sizeof bytes);
    dt_map_finish(&m, free);
}

TEST(a_slot_takes_a_reallocated_entry)
{
    struct dt_map m;
    char text[16];
    dt_map_init(&m, offsetof(struct entry, key), 7);
    for (uint32_t i = 0; i < 100; i++)
        put(&m, i, 1);
    for (uint32_t i = 0; i < 100; i++) {
        struct dt_bytes k = key_of_number(i, text);
        struct entry **slot = (struct entry **)dt_map_slot(&m, k);
        CHECK(slot != NULL);
        struct entry *moved = entry_new(k.at, k.len, (int)i + 1);
        moved->node = (*slot)->node;
        free(*slot);
        *slot = moved;
    }
    for (uint32_t i = 0; i < 100; i++)
        CHECK_EQ(get(&m, i), i + 1);
    CHECK(dt_map_slot(&m, dt_bytes_of("no such key")) == NULL);
    dt_map_finish(&m, free);
}

/* How often each number comes by in a walk must be as REFERENCE says: once or never. */
static void check_walk(struct dt_map *m, const int *reference, uint32_t n)
{
    uint8_t *seen = calloc(n, 1);
    size_t cursor = 0, count = 0;
    for (struct entry *e; (e = dt_map_next(m, &cursor)); count++) {
        char text[16] = ""; /* the key has no NUL behind it */
        memcpy(text, e->key + strlen("key "), e->node.key_len - strlen("key "));
        uint32_t number = (uint32_t)strtoul(text, NULL, 10);
        CHECK(number < n);
        CHECK_EQ(seen[number]++, 0);
        CHECK_EQ(e->value, reference[number]);
    }
    CHECK_EQ(count, m->count);
    free(seen);
}

TEST(random_operations_agree_with_an_array)
{
    enum { NUMBERS = 5000, OPERATIONS = 200000 };
    static int reference[NUMBERS];
    struct dt_map m;
    size_t count = 0;
    uint32_t random = 2463534242;
    dt_map_init(&m, offsetof(struct entry, key), dt_map_random_seed());
    printf("# seed %ju\n", (uintmax_t)m.seed);
    for (int i = 1; i <= OPERATIONS; i++) {
        CHECK_ROW("operation %d", i);
        uint32_t number = next_random(&random) % NUMBERS;
        /* Phases that mostly add and phases that mostly remove: growth, then churn. */
        bool adding = next_random(&random) % 10 < (i / 20000 % 2 ? 3u : 7u);
        if (adding && !reference[number]) {
            put(&m, number, i);
            reference[number] = i;
            count++;
        } else if (!adding) {
            CHECK_EQ(take(&m, number), reference[number]);
            count -= reference[number] != 0;
            reference[number] = 0;
        }
        CHECK_EQ(get(&m, number), reference[number]);
        CHECK_EQ(m.count, count);
        if (i % 5000 == 0)
            check_walk(&m, reference, NUMBERS);
    }
    dt_map_finish(&m, free);
}

TEST(a_walk_in_the_middle_of_growth_sees_each_entry_once)
{
    static int reference[3000];
    struct dt_map m;
    int walks_while_growing = 0;
    dt_map_init(&m, offsetof(struct entry, key), 3);
    for (uint32_t i = 0; i < 3000; i++) {
        put(&m, i, (int)i + 1);
        reference[i] = (int)i + 1;
        if (m.old.size) {
            walks_while_growing++;
            check_walk(&m, reference, 3000);
        }
    }
    CHECK(walks_while_growing > 50);
    dt_map_finish(&m, free);
}

TEST(no_call_moves_more_than_a_few_slots)
{
    struct dt_map m;
    dt_map_init(&m, offsetof(struct entry, key), 3);
    size_t largest = 0;
    for (uint32_t i = 0; i < 300000; i++) {
        CHECK_ROW("insert %u", i);
        size_t moved = m.moved, old = m.old.size, size = m.now.size;
        put(&m, i, 1);
        if (i % 3 == 0)
            take(&m, i / 2);
        /* A growth that began found its predecessor done: nothing was moved in one go. */
        if (m.now.size != size && old)
            CHECK(old - moved <= 16);
        else if (old && m.old.size)
            CHECK(m.moved - moved <= 16);
        if (m.old.size > largest)
            largest = m.old.size;
    }
    CHECK(largest >= 65536);
    dt_map_finish(&m, free);
}

TEST(an_emptied_map_is_small_again)
{
    enum { MANY = 100000 };
    struct dt_map m;
    dt_map_init(&m, offsetof(struct entry, key), 5);
    for (uint32_t i = 0; i < MANY; i++)
        put(&m, i, 1);
    size_t full = dt_map_overhead(&m);
    for (uint32_t i = 0; i < MANY; i++) {
        CHECK_ROW("remove %u", i);
        size_t moved = m.moved, old = m.old.size;
        CHECK_EQ(take(&m, i), 1);
        if (old && m.old.size == old)
            CHECK(m.moved - moved <= 16);
        if (i % 1000 == 0)
            CHECK_EQ(get(&m, MANY - 1), 1);
    }
    CHECK(full > 1000000);
    CHECK_EQ(dt_map_overhead(&m), 0);
    put(&m, 1, 7);
    CHECK_EQ(get(&m, 1), 7);
    dt_map_finish(&m, free);
}

TEST(churn_at_one_size_does_not_grow_the_tables)
{
    struct dt_map m;
    size_t most = 0;
    dt_map_init(&m, offsetof(struct entry, key), 11);
    for (uint32_t i = 0; i < 200000; i++) {
        CHECK_ROW("round %u", i);
        put(&m, i, 1);
        if (i >= 1000)
            CHECK_EQ(take(&m, i - 1000), 1);
        if (m.now.size > most)
            most = m.now.size;
    }
    CHECK_EQ(m.count, 1000);
    CHECK(most <= 4096);
    dt_map_finish(&m, free);
}

TEST(a_burst_of_removes_during_growth_loses_nothing)
{
    struct dt_map m;
    dt_map_init(&m, offsetof(struct entry, key), 5);
    for (uint32_t i = 0; i < 20000; i++) {
        put(&m, i, 1);
        if (m.old.size && m.moved < 64)
            for (uint32_t k = i / 2; k < i / 2 + 3; k++)
                take(&m, k);
    }
    size_t left = 0;
    for (uint32_t i = 0; i < 20000; i++)
        left += get(&m, i) != 0;
    CHECK_EQ(left, m.count);
    for (uint32_t i = 0; i < 20000; i++)
        take(&m, i);
    CHECK_EQ(m.count, 0);
    CHECK_EQ(m.old.size, 0);
    dt_map_finish(&m, free);
}

TEST(seeds_differ)
{
    CHECK(dt_map_random_seed() != dt_map_random_seed());
}
