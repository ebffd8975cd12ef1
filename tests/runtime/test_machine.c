/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/check.h"
#include "worker_runtime/train/machine.h"

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
        {"gpus=8,gpu=Voodoo 2", "what a GPU \"Voodoo 2\" computes is not known here"},
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

/* What is free of its memory is all there is to fill, and a name in full is told. */
TEST(a_machine_that_is_seen_has_what_its_driver_says)
{
    struct dt_machine m = here();
    struct dt_err err = {0};
    struct dt_gpu_memory gpu = {"GPU 0, NVIDIA H100 80GB HBM3", 80 * GIB, 70 * GIB, GIB};
    struct dt_gpu_memory strange = {"GPU 0, Some Card", 8 * GIB, 7 * GIB, 0};
    CHECK_OK(dt_machine_see(&m, 2, &gpu, &err), err);
    CHECK_EQ(dt_machine_room(&m), 70 * GIB);
    CHECK_EQ(m.scratch, GIB);
    CHECK_EQ(m.local, 2);
    CHECK_STR(m.name, "GPU 0, NVIDIA H100 80GB HBM3");
    CHECK_OK(dt_machine_read(&m, "hosts=4,gpus=8", &err), err);
    CHECK_EQ(m.hosts * m.local, 32);
    CHECK_EQ(dt_machine_room(&m), 70 * GIB);
    CHECK_FAIL(dt_machine_see(&m, 2, &strange, &err), err, "\"GPU 0, Some Card\" computes");
}
