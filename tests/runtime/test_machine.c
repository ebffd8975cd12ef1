/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/check.h"
#include "worker_runtime/train/machine.h"

#include <stdio.h>

#define ROWS(t) (sizeof(t) / sizeof *(t))
#define GIB ((size_t)1 << 30)

static struct dt_machine here(void)
{
    struct dt_machine m;
    dt_machine_init(&m, 4, 2, 32 * GIB);
    return m;
}

TEST(words_say_what_is_another_machine)
{
    /* clang-format off */
    static const struct {
        const char *words;
        int hosts, local;
        bool gpus;
        size_t memory;
        int64_t network; /* MB/s */
        size_t room;
    } rows[] = {
        {"hosts=2", 2, 4, false, 32 * GIB, 1200, 8 * GIB},
        {"ranks=16,memory=64G", 1, 16, false, 64 * GIB, 1200, 4 * GIB},
        {"hosts=8,gpus=8,gpu=H100", 8, 8, true, 80 * GIB, 360000, 75 * GIB},
        {"gpus=4,gpu=a100,network=100", 1, 4, true, 80 * GIB, 11250, 75 * GIB},
        {"gpus=4,gpu=NVIDIA H200,memory=64G", 1, 4, true, 64 * GIB, 180000, 60 * GIB},
        {"gpus=2,gpu=L40S,memory=48G", 1, 2, true, 48 * GIB, 11000, 45 * GIB},
        {"gpus=2,gpu=H100 PCIe,memory=80G", 1, 2, true, 80 * GIB, 11000, 75 * GIB},
        {"gpus=2,gpu=h100 pcie,memory=80G", 1, 2, true, 80 * GIB, 11000, 75 * GIB},
        {"gpus=4,gpu=nvidia a100", 1, 4, true, 80 * GIB, 92000, 75 * GIB},
        {"gpus=4,gpu=A100-SXM4-40GB", 1, 4, true, 40 * GIB, 92000, 40 * GIB / 16 * 15},
        {"gpus=4,gpu=A100-PCIE-40GB", 1, 4, true, 40 * GIB, 11000, 40 * GIB / 16 * 15},
        {"gpus=4,gpu=A100 16 GB,memory=40G", 1, 4, true, 40 * GIB, 92000, 40 * GIB / 16 * 15},
    };
    /* clang-format on */
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct dt_machine m = here();
        struct dt_err err = {0};
        CHECK_ROW("%s", rows[i].words);
        CHECK_OK(dt_machine_read(&m, rows[i].words, &err), err);
        CHECK_EQ(m.hosts, rows[i].hosts);
        CHECK_EQ(m.local, rows[i].local);
        CHECK_EQ(m.gpus, rows[i].gpus);
        CHECK_EQ(m.memory, rows[i].memory);
        CHECK_EQ((int64_t)(m.network / 1e6 + 0.5), rows[i].network);
        CHECK_EQ(dt_machine_room(&m), rows[i].room);
    }
}

TEST(words_that_say_nothing_clear_are_refused)
{
    static const struct {
        const char *words, *why;
    } rows[] = {
        {"hosts", "\"hosts\" has no value: write it as hosts=8"},
        {"hosts=0", "hosts: "},
        {"hosts=8x", "hosts: "},
        {"hosts=1048576,ranks=1024", "1048576 hosts of 1024 ranks are more than 1048576"},
        {"nodes=8", "nodes: it is none of hosts, gpus, ranks, gpu, memory and network"},
        {"memory=much", "memory: "},
        {"memory=1", "memory: "},
        {"network=0", "network: "},
        {"gpus=8", "which GPUs? Say gpu=H100"},
        {"gpu=", "gpu: \"\" is no GPU's name"},
        {"gpu=H100", "how many GPUs has a host? Say it, as gpus=8"},
        {"gpus=8,gpu=Voodoo 2",
         "what a GPU \"Voodoo 2\" computes and sends is not known here; give"},
        {"gpus=8,gpu=RTX A1000,memory=8G",
         "what a GPU \"RTX A1000\" computes and sends is not known"},
        {"gpus=8,gpu=GH200", "what a GPU \"GH200\" computes and sends is not known here"},
        {"gpus=8,gpu=GB200,memory=180G", "what a GPU \"GB200\" computes and sends is not known"},
        {"gpus=8,gpu=H100 NVL,memory=94G",
         "what a GPU \"H100 NVL\" computes and sends is not known"},
        {"gpus=8,gpu=A100-SXM4", "how much memory has a GPU \"A100-SXM4\"?"},
        {"gpus=8,gpu=A100 XGB", "how much memory has a GPU \"A100 XGB\"?"},
        {"gpus=8,gpu=L4", "how much memory has a GPU \"L4\"? Say it, as memory=48G"},
        {"ranks=8,gpus=8", "ranks are those of a host without GPUs"},
    };
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct dt_machine m = here();
        struct dt_err err = {0};
        CHECK_ROW("%s", rows[i].words);
        CHECK_FAIL(dt_machine_read(&m, rows[i].words, &err), err, rows[i].why);
        CHECK_EQ(err.code, DT_E_USAGE);
        CHECK_EQ(m.local, 4);
    }
}

static struct dt_machine seen(const char *name, int gpus)
{
    struct dt_machine m = here();
    struct dt_gpu_memory gpu = {"", 80 * GIB, 70 * GIB, GIB};
    snprintf(gpu.name, sizeof gpu.name, "%s", name);
    dt_machine_see(&m, gpus, &gpu);
    return m;
}

/* What is free of its memory is all there is to fill, and a name in full is told. */
TEST(a_machine_that_is_seen_has_what_its_driver_says)
{
    struct dt_machine m = seen("GPU 0, NVIDIA H100 80GB HBM3", 2);
    struct dt_err err = {0};
    CHECK_OK(dt_machine_check(&m, &err), err);
    CHECK_EQ(dt_machine_room(&m), 70 * GIB);
    CHECK_EQ(m.scratch, GIB);
    CHECK_EQ(m.local, 2);
    CHECK_EQ((int64_t)(m.network / 1e6 + 0.5), 90000);
    CHECK_STR(m.name, "GPU 0, NVIDIA H100 80GB HBM3");
    CHECK_OK(dt_machine_read(&m, "hosts=4,gpus=8", &err), err);
    CHECK_EQ(m.hosts * m.local, 32);
    CHECK_EQ(dt_machine_room(&m), 70 * GIB);
    CHECK_EQ((int64_t)(m.network / 1e6 + 0.5), 360000); /* eight ports */
}

/* Its processors have the host's memory, and not that of a GPU. */
TEST(ranks_of_a_machine_with_gpus_have_its_own_memory)
{
    struct dt_machine m = seen("GPU 0, NVIDIA H100 80GB HBM3", 8);
    struct dt_err err = {0};
    CHECK_OK(dt_machine_read(&m, "ranks=16", &err), err);
    CHECK(!m.gpus && m.seen);
    CHECK_EQ(m.memory, 32 * GIB);
    CHECK_EQ(dt_machine_room(&m), 2 * GIB);
    CHECK_EQ((int64_t)(m.network / 1e6 + 0.5), 1200);
}

/* Words about another machine do not need it, and those that leave it in place do. */
TEST(a_gpu_that_nobody_knows_is_no_matter_where_words_say_another)
{
    static const char *const instead[] = {"gpu=H100,gpus=8", "gpu=L4,memory=24G", "ranks=4"};
    struct dt_machine strange = seen("GPU 0, NVIDIA GeForce RTX 4080", 2), m;
    struct dt_err err = {0};
    CHECK_FAIL(
        dt_machine_check(&strange, &err), err,
        "what a GPU \"GPU 0, NVIDIA GeForce RTX 4080\" computes and sends is not known here; "
        "give the nearest of A100, H100, H200, B200, L40S, L4 and A10 by --machine, as "
        "gpu=L4,gpus=2,memory=24G");
    CHECK_EQ(err.code, DT_E_USAGE);
    for (size_t i = 0; i < ROWS(instead); i++) {
        m = strange;
        CHECK_ROW("%s", instead[i]);
        CHECK_OK(dt_machine_read(&m, instead[i], &err), err);
        CHECK_OK(dt_machine_check(&m, &err), err);
    }
    m = strange;
    CHECK_FAIL(dt_machine_read(&m, "hosts=2,gpus=4", &err), err, "RTX 4080\" computes and sends");
    CHECK_EQ(m.hosts, 1);
}
