/* SPDX-License-Identifier: Apache-2.0 */
/* What the keys of a depot tell: which checkpoints are there, which is gone on from, which go. */
#include "tests/lib/check.h"
#include "worker_runtime/ckpt/upload/shelf.h"

/* Keys apart by blanks; each file has as many bytes as its key has letters. */
static void read_shelf(struct dt_shelf *s, const char *keys, const char *latest)
{
    struct dt_depot_list files = {0};
    struct dt_err err = {0};
    char *copy = strdup(keys);
    for (char *rest, *key = strtok_r(copy, " ", &rest); key; key = strtok_r(NULL, " ", &rest))
        CHECK_OK(dt_depot_list_add(&files, key, strlen(key), &err), err);
    CHECK_OK(dt_shelf_read(s, &files, dt_bytes_of(latest), &err), err);
    dt_depot_list_finish(&files);
    free(copy);
}

TEST(a_checkpoint_is_whole_when_its_state_is_there)
{
    struct dt_shelf s;
    read_shelf(&s,
               "latest step-00000010/model.safetensors step-00000010/state.json "
               "step-00000020/model.safetensors step-00000020/optimizer/state.json "
               "step-00000030/state.json other/state.json step-40/state.json step-00000050",
               "step-00000010\n");
    CHECK_EQ(s.count, 3);
    CHECK_EQ(s.latest, 10);
    CHECK_EQ(s.at[0].step, 30);
    CHECK(s.at[0].whole);
    CHECK_EQ(s.at[1].step, 20);
    CHECK(!s.at[1].whole);
    CHECK_EQ(s.at[1].files, 2);
    CHECK_EQ(s.at[2].step, 10);
    CHECK(s.at[2].whole);
    CHECK_EQ(s.at[2].bytes,
             strlen("step-00000010/model.safetensors") + strlen("step-00000010/state.json"));
    dt_shelf_finish(&s);
}

TEST(what_is_gone_on_from)
{
    static const struct {
        const char *keys, *latest, *order;
    } rows[] = {
        {"", "", ""},
        {"step-00000010/model.safetensors", "step-00000010\n", ""},
        {"step-00000010/state.json step-00000020/state.json", "", "20 10 "},
        {"step-00000010/state.json step-00000020/state.json", "step-00000020\n", "20 10 "},
        /* A run that went back to 10: 20 and 30 are another history. */
        {"step-00000010/state.json step-00000020/state.json step-00000030/state.json "
         "step-00000005/state.json",
         "step-00000010\n", "10 5 30 20 "},
        /* `latest` is not whole any more, or is no name. */
        {"step-00000010/state.json step-00000020/a step-00000030/state.json", "step-00000020\n",
         "10 30 "},
        {"step-00000010/state.json step-00000020/state.json", "../x", "20 10 "},
        {"step-00000010/state.json", "step-00000010\nstep-00000010\n", "10 "},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_shelf s;
        char order[100] = "";
        CHECK_ROW("%s, latest %s", rows[i].keys, rows[i].latest);
        read_shelf(&s, rows[i].keys, rows[i].latest);
        for (int64_t step = -1; (step = dt_shelf_next(&s, step)) >= 0;)
            snprintf(order + strlen(order), sizeof order - strlen(order), "%d ", (int)step);
        CHECK_STR(order, rows[i].order);
        dt_shelf_finish(&s);
    }
}

TEST(what_goes)
{
    static const struct {
        const char *keys, *latest;
        int64_t step;
        int keep_last;
        const char *gone;
    } rows[] = {
        {"step-00000010/state.json step-00000020/state.json step-00000030/state.json",
         "step-00000030\n", 30, 2, "10 "},
        {"step-00000010/state.json step-00000020/state.json step-00000030/state.json",
         "step-00000030\n", 30, 1, "20 10 "},
        {"step-00000010/state.json step-00000020/state.json", "step-00000020\n", 20, 2, ""},
        {"step-00000010/state.json step-00000020/state.json", "step-00000020\n", 20, 0, ""},
        /* What an upload left that was given up goes, and does not count. */
        {"step-00000010/state.json step-00000015/model.safetensors step-00000020/state.json",
         "step-00000020\n", 20, 2, "15 "},
        {"step-00000015/model.safetensors step-00000020/state.json", "step-00000020\n", 20, 0,
         "15 "},
        /* What is ahead belongs to a run that was gone back from, and stays. */
        {"step-00000010/state.json step-00000020/state.json step-00000030/state.json "
         "step-00000040/a",
         "step-00000020\n", 20, 1, "10 "},
        /* `latest` stays whatever the numbers say. */
        {"step-00000010/state.json step-00000020/state.json step-00000030/state.json",
         "step-00000010\n", 30, 1, "20 "},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_shelf s;
        char gone[100] = "";
        CHECK_ROW("row %zu: %s", i, rows[i].keys);
        read_shelf(&s, rows[i].keys, rows[i].latest);
        for (size_t k = 0; k < s.count; k++)
            if (dt_shelf_is_outdated(&s, &s.at[k], rows[i].step, rows[i].keep_last))
                snprintf(gone + strlen(gone), sizeof gone - strlen(gone), "%d ", (int)s.at[k].step);
        CHECK_STR(gone, rows[i].gone);
        dt_shelf_finish(&s);
    }
}
