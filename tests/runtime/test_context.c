/* SPDX-License-Identifier: Apache-2.0 */
/* What a worker makes of its environment: all of a job or none, and each mistake a sentence. */
#include "tests/lib/check.h"
#include "worker_runtime/inside.h"
#include "worker_runtime/job_env.h"

#include <dtrun/coll.h>

static const char *const names[] = {"RANK",
                                    "WORLD_SIZE",
                                    "LOCAL_RANK",
                                    "LOCAL_WORLD_SIZE",
                                    "GROUP_RANK",
                                    "GROUP_WORLD_SIZE",
                                    "MASTER_ADDR",
                                    "MASTER_PORT",
                                    "TORCHELASTIC_USE_AGENT_STORE",
                                    "TORCHELASTIC_RESTART_COUNT",
                                    "TORCHELASTIC_RUN_ID",
                                    "DTRUN_ROUND",
                                    "OMP_NUM_THREADS"};
#define NAMES (sizeof names / sizeof *names)

static void clear(void)
{
    for (size_t i = 0; i < NAMES; i++)
        unsetenv(names[i]);
}

/* Rank 5 of 6, on the second of two hosts. */
static void set_good(void)
{
    static const char *const good[] = {"5",    "6",    "2", "3",   "1", "2", "node0",
                                       "4711", "True", "1", "run", "3", NULL};
    clear();
    for (size_t i = 0; good[i]; i++)
        setenv(names[i], good[i], 1);
}

/* What a worker that stays finds there, whatever it found before. */
TEST(the_place_in_a_next_world_replaces_the_one_before)
{
    static const struct {
        int size;
        const char *rank_text, *size_text;
    } rows[] = {{4, "3", "4"}, {0, NULL, NULL}, {2, "3", "2"}};
    static const char *const ranks[] = {"ROLE_RANK", "DTRUN_PREV_RANK"};
    static const char *const sizes[] = {"ROLE_WORLD_SIZE", "DTRUN_PREV_WORLD_SIZE"};
    set_good();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_page_world w = {.rank = 1,
                                  .size = 4,
                                  .local_rank = 1,
                                  .local_size = 2,
                                  .groups = 2,
                                  .restarts = 2,
                                  .round = 9,
                                  .master_port = 29500,
                                  .master_addr = "node7",
                                  .role_rank = 3,
                                  .role_size = rows[i].size,
                                  .prev_rank = 3,
                                  .prev_size = rows[i].size};
        struct dt_job_env e;
        struct dt_err err = {0};
        CHECK_ROW("row %zu", i);
        CHECK_OK(dt_job_env_enter(&w, &err), err);
        CHECK_OK(dt_job_env_read(&e, &err), err);
        CHECK_EQ(e.rank, 1);
        CHECK_EQ(e.world, 4);
        CHECK_EQ(e.groups, 2);
        CHECK_EQ(e.epoch, 9);
        CHECK_STR(e.store, "node7:29500");
        CHECK_STR(getenv("DTRUN_RESTART_COUNT"), "2");
        for (size_t k = 0; k < 2; k++) {
            CHECK_STR(getenv(ranks[k]), rows[i].rank_text);
            CHECK_STR(getenv(sizes[k]), rows[i].size_text);
        }
    }
}

TEST(a_whole_environment_is_read)
{
    struct dt_job_env e;
    struct dt_err err = {0};
    set_good();
    CHECK_OK(dt_job_env_read(&e, &err), err);
    CHECK(!e.alone);
    CHECK_EQ(e.rank, 5);
    CHECK_EQ(e.world, 6);
    CHECK_EQ(e.local_rank, 2);
    CHECK_EQ(e.local_world, 3);
    CHECK_EQ(e.group, 1);
    CHECK_EQ(e.groups, 2);
    CHECK_EQ(e.restarts, 1);
    CHECK_EQ(e.epoch, 3);
    CHECK_STR(e.run_id, "run");
    CHECK_STR(e.store, "node0:4711");
    unsetenv("DTRUN_ROUND"); /* of a torchrun */
    setenv("MASTER_ADDR", "fe80::1", 1);
    CHECK_OK(dt_job_env_read(&e, &err), err);
    CHECK_EQ(e.epoch, 1);
    CHECK_STR(e.store, "[fe80::1]:4711");
}

TEST(what_cannot_be_is_said_with_the_name_of_the_variable)
{
    static const struct {
        const char *name, *value, *words;
    } rows[] = {
        {"RANK", NULL, "RANK is not in the environment, but WORLD_SIZE is"},
        {"GROUP_WORLD_SIZE", "", "GROUP_WORLD_SIZE is not in the environment, but RANK is"},
        {"LOCAL_RANK", NULL, "start it with dtrun, or unset RANK to run alone"},
        {"RANK", "five", "RANK in the environment: \"five\""},
        {"RANK", "-1", "RANK in the environment"},
        {"RANK", "6", "RANK is 6, but WORLD_SIZE is 6"},
        {"WORLD_SIZE", "0", "WORLD_SIZE in the environment"},
        {"LOCAL_RANK", "3", "LOCAL_RANK is 3, but LOCAL_WORLD_SIZE is 3"},
        {"LOCAL_WORLD_SIZE", "7", "LOCAL_WORLD_SIZE is 7, more than WORLD_SIZE, which is 6"},
        {"GROUP_RANK", "2", "GROUP_RANK is 2, but GROUP_WORLD_SIZE is 2"},
        {"GROUP_WORLD_SIZE", "9", "GROUP_WORLD_SIZE is 9, more than WORLD_SIZE"},
        {"MASTER_ADDR", NULL, "MASTER_ADDR is not in the environment"},
        {"MASTER_PORT", NULL, "MASTER_PORT is not in the environment"},
        {"MASTER_PORT", "65536", "MASTER_PORT in the environment"},
        {"TORCHELASTIC_USE_AGENT_STORE", NULL, "is not set, not \"True\""},
        {"TORCHELASTIC_USE_AGENT_STORE", "False", "is \"False\", not \"True\""},
        {"TORCHELASTIC_RESTART_COUNT", "x", "TORCHELASTIC_RESTART_COUNT in the environment"},
        {"DTRUN_ROUND", "-2", "DTRUN_ROUND in the environment"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s=%s", rows[i].name, rows[i].value ? rows[i].value : "(unset)");
        struct dt_job_env e;
        struct dt_err err = {0};
        set_good();
        if (rows[i].value)
            setenv(rows[i].name, rows[i].value, 1);
        else
            unsetenv(rows[i].name);
        CHECK_FAIL(dt_job_env_read(&e, &err), err, rows[i].words);
        CHECK_EQ(err.code, DT_E_USAGE);
    }
}

TEST(one_group_holds_all_ranks)
{
    struct dt_job_env e;
    struct dt_err err = {0};
    set_good();
    setenv("GROUP_RANK", "0", 1);
    setenv("GROUP_WORLD_SIZE", "1", 1);
    CHECK_FAIL(dt_job_env_read(&e, &err), err, "LOCAL_WORLD_SIZE is 3 and WORLD_SIZE is 6");
}

TEST(threads_are_asked_for_or_said_or_shared)
{
    int n, whole;
    struct dt_err err = {0};
    clear();
    CHECK_OK(dt_job_env_threads(0, 1, &whole, &err), err);
    CHECK(whole >= 1);
    CHECK_OK(dt_job_env_threads(0, 1 << 20, &n, &err), err);
    CHECK_EQ(n, 1);
    setenv("OMP_NUM_THREADS", "3,2", 1);
    CHECK_OK(dt_job_env_threads(0, 4, &n, &err), err);
    CHECK_EQ(n, 3);
    CHECK_OK(dt_job_env_threads(7, 4, &n, &err), err);
    CHECK_EQ(n, 7);
    setenv("OMP_NUM_THREADS", "many", 1);
    CHECK_FAIL(dt_job_env_threads(0, 4, &n, &err), err, "OMP_NUM_THREADS in the environment");
}

TEST(alone_a_context_is_a_world_of_one)
{
    struct dt_err err = {0};
    float v = 2;
    clear();
    struct dt_context *c = dt_context_open(&(struct dt_context_options){.device = "cpu"}, &err);
    CHECK_OK(c ? 0 : -1, err);
    CHECK_EQ(dt_context_rank(c), 0);
    CHECK_EQ(dt_context_world(c), 1);
    CHECK_EQ(dt_context_hosts(c), 1);
    CHECK_STR(dt_context_run_id(c), "");
    CHECK(dt_context_device(c) != NULL);
    CHECK(dt_context_page(c) != NULL);
    CHECK_OK(dt_coll_all_reduce(dt_context_coll(c), &v, 1, DT_F32, DT_SUM, &err), err);
    CHECK(v == 2);
    dt_context_close(c);
    dt_context_close(NULL);
}
