/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/top/grid.h"
#include "tests/lib/check.h"

static const struct dt_grid_column columns[] = {
    {"NAME", 0, 8, false}, {"STATE", 0, 8, false}, {"LOSS", 3, 8, true},
    {"STEP", 5, 8, true},  {"OWNER", 1, 8, false},
};

/* CELLS: with | between them. */
static void check_grid(const char *cells, int width, const char *expected)
{
    struct dt_grid g;
    struct dt_picture p;
    struct dt_buf out = {0};
    char *text = strdup(cells), *rest = text;
    dt_grid_init(&g, columns, sizeof columns / sizeof *columns);
    for (char *cell; (cell = strsep(&rest, "|"));) {
        if (g.cells % g.count == 0)
            dt_grid_begin_row(&g, DT_LOOK_PLAIN);
        dt_grid_add(&g, cell);
    }
    dt_grid_fit(&g, width);
    CHECK_EQ(dt_picture_init(&p, 4, width), 0);
    dt_grid_draw_headings(&g, &p, 0, DT_LOOK_BOLD);
    dt_grid_draw(&g, &p, 1, 0, 16);
    dt_picture_put_text(&p, &out);
    CHECK_STR(dt_buf_cstr(&out), expected);
    dt_buf_finish(&out);
    dt_picture_finish(&p);
    dt_grid_finish(&g);
    free(text);
}

TEST(columns_are_left_out_in_the_order_of_their_worth)
{
    static const char cells[] = "a|running|2.5|1200|ada|bb|failed||7|bob";
    static const struct {
        int width;
        const char *expected;
    } rows[] = {
        {40, "NAME  STATE    LOSS  STEP  OWNER\n"
             "a     running   2.5  1200  ada\n"
             "bb    failed            7  bob\n"},
        {32, "NAME  STATE    LOSS  STEP  OWNER\n"
             "a     running   2.5  1200  ada\n"
             "bb    failed            7  bob\n"},
        {31, "NAME  STATE    LOSS  STEP\n"
             "a     running   2.5  1200\n"
             "bb    failed            7\n"},
        {24, "NAME  STATE    STEP\n"
             "a     running  1200\n"
             "bb    failed      7\n"},
        {14, "NAME  STATE\n"
             "a     running\n"
             "bb    failed\n"},
        {11, "NA  STATE\n"
             "a   running\n"
             "bb  failed\n"},
        {5, "NAME\n"
            "a\n"
            "bb\n"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%d columns", rows[i].width);
        check_grid(cells, rows[i].width, rows[i].expected);
    }
}

TEST(a_column_that_nobody_knows_anything_for_is_left_out)
{
    check_grid("a|running||1200|", 40, "NAME  STATE    STEP\na     running  1200\n");
    check_grid("|||||||||", 40, "NAME  STATE\n");
}

TEST(long_and_hostile_cells_are_cut_and_shown)
{
    check_grid("a-very-long-name|r|1|2|3", 40,
               "NAME      STATE  LOSS  STEP  OWNER\na-very-~  r         1     2  3\n");
    check_grid("a\033[2J|r|1|2|3", 40,
               "NAME      STATE  LOSS  STEP  OWNER\na\\x1b[2J  r         1     2  3\n");
}

TEST(a_part_of_many_rows_is_drawn)
{
    struct dt_grid g;
    struct dt_picture p;
    struct dt_buf out = {0};
    dt_grid_init(&g, columns, 2);
    for (int i = 0; i < 1000; i++) {
        dt_grid_begin_row(&g, i == 998 ? DT_LOOK_BAD : DT_LOOK_PLAIN);
        dt_grid_printf(&g, "n%d", i);
        dt_grid_add(&g, "running");
    }
    dt_grid_fit(&g, 20);
    CHECK_EQ(dt_picture_init(&p, 5, 20), 0);
    dt_grid_draw(&g, &p, 1, 997, 2);
    dt_picture_put_text(&p, &out);
    CHECK_STR(dt_buf_cstr(&out), "\nn997  running\nn998  running\n");
    CHECK_EQ(p.look[1 * 20], DT_LOOK_PLAIN);
    CHECK_EQ(p.look[2 * 20], DT_LOOK_BAD);
    dt_buf_finish(&out);
    dt_picture_finish(&p);
    dt_grid_finish(&g);
}
