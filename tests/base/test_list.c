/* SPDX-License-Identifier: Apache-2.0 */
#include "base/list.h"
#include "tests/lib/check.h"

struct item {
    int number;
    struct dt_node node;
};

static void make(struct dt_list *l, struct item *items, int n)
{
    dt_list_init(l);
    for (int i = 0; i < n; i++) {
        items[i].number = i;
        dt_node_init(&items[i].node);
        dt_list_append(l, &items[i].node);
    }
}

/* "0 1 2" */
static const char *text(struct dt_list *l, char out[64])
{
    size_t n = 0;
    out[0] = '\0';
    dt_list_each(l, at) n += (size_t)snprintf(out + n, 64 - n, n ? " %d" : "%d",
                                              dt_container_of(at, struct item, node)->number);
    return out;
}

TEST(things_stay_in_order)
{
    struct dt_list l;
    struct item items[4];
    char out[64];
    make(&l, items, 0);
    CHECK(dt_list_empty(&l));
    CHECK(dt_list_first(&l) == NULL);
    CHECK(dt_list_pop(&l) == NULL);
    CHECK_STR(text(&l, out), "");
    make(&l, items, 4);
    CHECK(!dt_list_empty(&l));
    CHECK_STR(text(&l, out), "0 1 2 3");
    CHECK(dt_list_pop(&l) == &items[0].node);
    CHECK(dt_list_first(&l) == &items[1].node);
    CHECK_STR(text(&l, out), "1 2 3");
}

TEST(removing_twice_is_harmless)
{
    struct dt_list l;
    struct item items[3];
    char out[64];
    make(&l, items, 3);
    dt_list_remove(&items[1].node);
    CHECK(!dt_node_linked(&items[1].node));
    dt_list_remove(&items[1].node);
    CHECK_STR(text(&l, out), "0 2");
    dt_list_append(&l, &items[1].node);
    CHECK_STR(text(&l, out), "0 2 1");
}

TEST(the_current_node_may_go_while_walking)
{
    struct dt_list l;
    struct item items[6];
    char out[64];
    make(&l, items, 6);
    dt_list_each(&l, n) if (dt_container_of(n, struct item, node)->number % 2 == 0)
        dt_list_remove(n);
    CHECK_STR(text(&l, out), "1 3 5");
    dt_list_each(&l, n) dt_list_remove(n);
    CHECK(dt_list_empty(&l));
}

TEST(moving_empties_one_list_into_another)
{
    /* Rows: sizes of the two lists. */
    static const struct {
        int to, from;
        const char *text;
    } rows[] = {{0, 0, ""}, {0, 2, "0 1"}, {2, 0, "0 1"}, {2, 3, "0 1 0 1 2"}, {1, 1, "0 0"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%d and %d", rows[i].to, rows[i].from);
        struct dt_list to, from;
        struct item a[3], b[3];
        char out[64];
        make(&to, a, rows[i].to);
        make(&from, b, rows[i].from);
        dt_list_move(&to, &from);
        CHECK(dt_list_empty(&from));
        CHECK_STR(text(&to, out), rows[i].text);
        int backwards = 0;
        for (struct dt_node *n = to.head.prev; n != &to.head; n = n->prev)
            backwards++;
        CHECK_EQ(backwards, rows[i].to + rows[i].from);
    }
}
