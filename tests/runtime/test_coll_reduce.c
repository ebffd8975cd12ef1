/* SPDX-License-Identifier: Apache-2.0 */
/* The arithmetic under the collectives, and who has a core of its own. */
#include "tests/lib/check.h"
#include "worker_runtime/coll/host/patience.h"
#include "worker_runtime/coll/host/reduce.h"

#include <math.h>

static float f16_value(uint16_t h)
{
    int exponent = h >> 10 & 31, fraction = h & 1023;
    float f = exponent == 31 ? (fraction ? NAN : INFINITY)
              : exponent     ? ldexpf((float)(1024 + fraction), exponent - 25)
                             : ldexpf((float)fraction, -24);
    return h & 0x8000 ? -f : f;
}

static float bf16_value(uint16_t h)
{
    uint32_t bits = (uint32_t)h << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* Of the two neighbours of F the nearer, the even one when both are as near: by trying all. */
static bool is_nearest(float f, uint16_t got, float (*value)(uint16_t))
{
    float v = value(got), most = value == f16_value ? 65504.0f : 3.3895314e38f;
    if (isnan(f))
        return isnan(v);
    if (isinf(f) || isinf(v))
        return v == f || (isinf(v) && fabsf(f) > most && signbit(v) == signbit(f));
    double off = fabs((double)f - (double)v);
    for (int step = -1; step <= 1; step += 2) {
        uint16_t other = (uint16_t)(got + step);
        if ((other ^ got) & 0x8000 || !isfinite(value(other)))
            continue;
        double theirs = fabs((double)f - (double)value(other));
        if (theirs < off || (theirs == off && (got & 1)))
            return false;
    }
    return true;
}

static void check_half(enum dt_dtype type, float (*value)(uint16_t), uint16_t other)
{
    static uint16_t all[65536], same[65536], out[65536];
    for (size_t i = 0; i < 65536; i++) {
        all[i] = (uint16_t)i;
        same[i] = other;
    }
    const void *in[] = {all, same};
    dt_reduce(type, DT_SUM, out, in, 2, 65536);
    for (size_t i = 0; i < 65536; i++) {
        float sum = value(all[i]) + value(other);
        if (!is_nearest(sum, out[i], value)) {
            CHECK_ROW("%04x + %04x is %04x", all[i], other, out[i]);
            CHECK(is_nearest(sum, out[i], value));
        }
    }
    CHECK_EQ(sizeof out, 131072);
}

TEST(halves_are_rounded_to_the_nearest)
{
    static const uint16_t others[] = {0,      0x8000, 1,      0x8001, 0x0400, 0x3c00, 0x3c01,
                                      0x1234, 0x7bff, 0xfbff, 0x7c00, 0x7f7f, 0x0080, 0x3f81};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        check_half(DT_F16, f16_value, others[i]);
        check_half(DT_BF16, bf16_value, others[i]);
    }
}

/* 256 + 1 + 1 is 256 when each sum is rounded to bf16. */
TEST(halves_are_rounded_once)
{
    uint16_t big = 0x4380, one = 0x3f80, out;
    const void *in[] = {&big, &one, &one};
    dt_reduce(DT_BF16, DT_SUM, &out, in, 3, 1);
    CHECK_EQ(out, 0x4381);
}

TEST(a_nan_stays_wherever_it_is)
{
    float a[3] = {NAN, 1, 1}, b[3] = {1, NAN, 1}, c[3] = {1, 1, NAN}, out[3];
    const void *in[] = {a, b, c};
    for (int op = DT_SUM; op <= DT_MIN; op++) {
        dt_reduce(DT_F32, (enum dt_coll_op)op, out, in, 3, 3);
        CHECK(isnan(out[0]) && isnan(out[1]) && isnan(out[2]));
    }
}

TEST(sums_of_integers_wrap)
{
    int32_t a = INT32_MAX, b = 1, out;
    const void *in[] = {&a, &b};
    dt_reduce(DT_I32, DT_SUM, &out, in, 2, 1);
    CHECK_EQ(out, INT32_MIN);
}

TEST(the_result_may_be_any_of_the_buffers)
{
    for (int n = 1; n <= 5; n++)
        for (int at = 0; at < n; at++) {
            float buf[5][3000];
            const void *in[5];
            for (int r = 0; r < n; r++) {
                in[r] = buf[r];
                for (int i = 0; i < 3000; i++)
                    buf[r][i] = (float)(i + r);
            }
            dt_reduce(DT_F32, DT_SUM, buf[at], in, n, 3000);
            CHECK_ROW("%d buffers, into number %d", n, at);
            for (int i = 0; i < 3000; i++)
                CHECK_EQ((int)buf[at][i], i * n + n * (n - 1) / 2);
        }
}

TEST(cores_suffice_when_each_can_have_one)
{
    static const struct {
        const char *what;
        uint64_t cores[4];
        int n, ranks;
        bool suffice;
    } rows[] = {
        {"two on two", {3, 3}, 2, 2, true},
        {"three on two", {3, 3, 3}, 3, 3, false},
        {"two bound to one", {1, 1}, 2, 2, false},
        {"each bound to its own", {1, 2, 4}, 3, 3, true},
        {"two of four bound to one", {1, 1, 15, 15}, 4, 4, false},
        {"a part of a crowd", {3, 3}, 2, 8, false},
        {"a part of many, all bound", {1, 2}, 2, 8, true},
        {"a part of many, enough for all", {15, 15}, 2, 4, true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct dt_cores cores[4] = {0};
        for (int r = 0; r < rows[i].n; r++)
            cores[r].bits[1] = rows[i].cores[r];
        CHECK_ROW("%s", rows[i].what);
        CHECK_EQ(dt_cores_suffice(cores, rows[i].n, rows[i].ranks), rows[i].suffice);
    }
}
