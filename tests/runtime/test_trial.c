/* SPDX-License-Identifier: Apache-2.0 */
/* A CPU on trial: as it is, and made to multiply or to remember wrongly. */
#include "tests/lib/check.h"
#include "worker_runtime/device/trial.h"
#include "worker_runtime/ops/ops.h"
#include "worker_runtime/train/trials.h"

#include <stdlib.h>
#include <string.h>

#define MIB ((size_t)1 << 20)
#define PIECE (16 * MIB) /* goes to the device and back as one */

/* A CPU whose tables are a story's own. */
struct faulty {
    struct dt_device *cpu;
    struct dt_ops ops;
    struct dt_device_ops table;
};

static struct faulty open_faulty(void)
{
    struct dt_err err = {0};
    struct faulty f = {.cpu = dt_device_open_cpu(1, &err)};
    CHECK_OK(f.cpu ? 0 : -1, err);
    f.ops = *f.cpu->ops;
    f.table = *f.cpu->table;
    return f;
}

/* Two pieces, and a rest that is left out. */
static struct dt_trial try_it(struct faulty *f)
{
    const struct dt_trial_limits limits = {
        .side = 256, .memory = 2 * PIECE + MIB, .product_time = 1, .memory_time = 600 * DT_SECOND};
    struct dt_err err = {0};
    struct dt_trial t;
    f->cpu->ops = &f->ops;
    f->cpu->table = &f->table;
    CHECK_OK(dt_trial_run(f->cpu, &limits, &t, &err), err);
    dt_device_close(f->cpu);
    return t;
}

TEST(a_cpu_that_is_well)
{
    struct faulty f = open_faulty();
    struct dt_trial t = try_it(&f);
    CHECK_STR(t.wrong, "");
    CHECK(t.side == 128 || t.side == 256);
    CHECK(t.compared >= 1);
    CHECK(t.flops > 0 && t.written > 0 && t.got > 0);
    CHECK_EQ(t.memory, 2 * PIECE);
}

TEST(little_time_is_enough_for_a_piece)
{
    const struct dt_trial_limits little = {.side = 128, .memory = 4 * PIECE};
    struct dt_err err = {0};
    struct dt_trial t;
    struct faulty f = open_faulty();
    CHECK_OK(dt_trial_run(f.cpu, &little, &t, &err), err);
    CHECK_STR(t.wrong, "");
    CHECK_EQ(t.compared, 1);
    CHECK_EQ(t.memory, PIECE);
    dt_device_close(f.cpu);
}

static float off_by;

static void multiply_wrongly(const struct dt_linear *l, dt_elem *out, const dt_elem *x,
                             struct dt_stream *s)
{
    dt_ops_cpu()->linear_forward(l, out, x, s);
    ((float *)out)[5 * l->out + 7] += off_by;
}

TEST(one_wrong_element_of_a_product_is_found)
{
    static const float errors[] = {1, -1, 0.25f, 0x1p30f, __builtin_nanf("")};
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        struct faulty f = open_faulty();
        CHECK_ROW("off by %g", (double)errors[i]);
        off_by = errors[i];
        f.ops.linear_forward = multiply_wrongly;
        struct dt_trial t = try_it(&f);
        CHECK(strncmp(t.wrong, "a product of ", 13) == 0);
        CHECK(strstr(t.wrong, " in row 5, column 7, where "));
        CHECK_EQ(t.compared, 1);
        CHECK_EQ(t.memory, 0); /* nobody needs to know more */
    }
}

static int pieces_before;

static void lose_a_bit(struct dt_device *d, void *host, const void *at, size_t bytes)
{
    (void)d;
    memcpy(host, at, bytes);
    if (bytes == PIECE && pieces_before-- == 0)
        ((uint8_t *)host)[bytes - 3] ^= 4;
}

TEST(one_wrong_byte_of_the_memory_is_found)
{
    for (int before = 0; before < 4; before++) { /* each piece, and each again the other way */
        struct faulty f = open_faulty();
        CHECK_ROW("%d pieces before", before);
        pieces_before = before;
        f.table.to_host = lose_a_bit;
        struct dt_trial t = try_it(&f);
        CHECK(strncmp(t.wrong, "byte ", 5) == 0);
        CHECK_EQ(strtoul(t.wrong + 5, NULL, 10), (before % 2 + 1) * PIECE - 3);
        CHECK(strstr(t.wrong, " is read as 0x"));
    }
}

/* All pieces are in one place. */
static uint8_t *place;

static void write_to_one_place(struct dt_device *d, void *at, const void *host, size_t bytes)
{
    (void)d;
    memcpy(bytes == PIECE ? place : at, host, bytes);
}

static void read_from_one_place(struct dt_device *d, void *host, const void *at, size_t bytes)
{
    (void)d;
    memcpy(host, bytes == PIECE ? place : at, bytes);
}

TEST(memory_that_answers_for_other_memory_is_found)
{
    static uint8_t room[PIECE];
    struct faulty f = open_faulty();
    place = room;
    f.table.from_host = write_to_one_place;
    f.table.to_host = read_from_one_place;
    struct dt_trial t = try_it(&f);
    CHECK(strncmp(t.wrong, "byte ", 5) == 0);
    CHECK(strtoul(t.wrong + 5, NULL, 10) < PIECE);
}

static int fail(struct dt_device *d, struct dt_err *err)
{
    (void)d;
    return dt_err_set(err, DT_E_RUNTIME, "an illegal address");
}

TEST(a_device_that_fails_says_why)
{
    const struct dt_trial_limits limits = {.side = 128, .memory = MIB};
    struct faulty f = open_faulty();
    struct dt_err err = {0};
    struct dt_trial t;
    f.table.sync = fail;
    f.cpu->table = &f.table;
    CHECK_FAIL(dt_trial_run(f.cpu, &limits, &t, &err), err, "an illegal address");
    dt_device_close(f.cpu);
}

TEST(many_devices_have_longer_than_one)
{
    static const struct {
        int count, seconds;
    } rows[] = {{1, 12}, {2, 15}, {8, 33}, {10, 39}, {11, 40}, {16, 40}, {INT32_MAX, 40}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%d devices", rows[i].count);
        CHECK_EQ(dt_trials_patience(rows[i].count), rows[i].seconds);
    }
}
