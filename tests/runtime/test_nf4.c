/* SPDX-License-Identifier: Apache-2.0 */
/* NF4: what is packed comes back as near as its form allows, in whatever parts it is given. That
 * the bits are bitsandbytes' own is torch_nf4.py's to tell. */
#include "tests/runtime/ops_kit.h"
#include "worker_runtime/ops/nf4.h"

static const float codebook[DT_NF4_CODES] = DT_NF4_CODEBOOK;

/* X packed, PIECE numbers at a time. */
static void *packed_in(struct kit *k, const float *x, size_t count, size_t piece)
{
    struct dt_err err = {0};
    struct dt_nf4_writer w;
    void *to = kit_alloc(k, dt_nf4_parts_of(NULL, count).words * sizeof(uint32_t));
    CHECK_OK(dt_nf4_open(&w, to, count, &err), err);
    for (size_t at = 0; at < count; at += piece)
        CHECK_OK(dt_nf4_write(&w, x + at, count - at < piece ? count - at : piece, &err), err);
    dt_nf4_finish(&w);
    dt_nf4_close(&w);
    return to;
}

static void *packed(struct kit *k, const float *x, size_t count)
{
    return packed_in(k, x, count, count);
}

TEST(numbers_of_the_codebook_come_back_as_they_are)
{
    struct kit k = {.state = 1};
    float x[150], back[150];
    for (size_t i = 0; i < 150; i++)
        x[i] = codebook[i * 7 % DT_NF4_CODES] * 0.75f;
    void *p = packed(&k, x, 150);
    dt_nf4_read(p, 150, 0, 150, back);
    CHECK_BYTES(back, sizeof back, x, sizeof x);
    dt_nf4_read(p, 150, 63, 67, back);
    CHECK_BYTES(back, 67 * sizeof *x, x + 63, 67 * sizeof *x);
    kit_free(&k);
}

TEST(the_first_of_two_is_in_the_upper_half)
{
    struct kit k = {.state = 1};
    const float x[3] = {1, -1, 0.4407098293304443f};
    const struct dt_nf4_parts p = dt_nf4_parts_of(packed(&k, x, 3), 3);
    CHECK_EQ(p.codes[0], 0xf0);
    CHECK_EQ(p.codes[1], 0xc7); /* a 0 stands behind the last of an odd number */
    kit_free(&k);
}

TEST(half_way_between_two_the_lower_one_is_taken)
{
    struct kit k = {.state = 1};
    const float half = 0.6427869200706482f;
    const float x[4] = {1, half, nextafterf(half, 1), nextafterf(half, 0)};
    const struct dt_nf4_parts p = dt_nf4_parts_of(packed(&k, x, 4), 4);
    CHECK_EQ(p.codes[0], 0xfd);
    CHECK_EQ(p.codes[1], 0xed);
    kit_free(&k);
}

TEST(parts_of_any_size_give_the_same_bytes)
{
    static const size_t counts[] = {1, 63, 64, 65, 127, 4096, 16384, 16385, 40001};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        struct kit k = {.state = i};
        size_t n = counts[i], bytes = dt_nf4_parts_of(NULL, n).words * sizeof(uint32_t);
        float *x = kit_numbers(&k, n);
        const void *whole = packed(&k, x, n);
        CHECK_ROW("%zu numbers", n);
        CHECK_EQ(bytes % 16, 0); /* GPUs read what stands behind it 16 bytes at once */
        CHECK_BYTES(packed_in(&k, x, n, 64), bytes, whole, bytes);
        CHECK_BYTES(packed_in(&k, x, n, 640), bytes, whole, bytes);
        kit_free(&k);
    }
}

/* Neighbours of the codebook are 0.31 apart at most, and a byte says the largest of a block to some
 * hundredths of what sets the blocks of a group apart. */
TEST(what_comes_back_is_near)
{
    enum { N = 50000 };
    struct kit k = {.state = 3};
    float *x = kit_numbers(&k, N), *back = kit_alloc(&k, N * sizeof *back);
    dt_nf4_read(packed(&k, x, N), N, 0, N, back);
    kit_near("numbers", N, back, x, 0.17);
    double off = 0, all = 0;
    for (size_t i = 0; i < N; i++) {
        off += ((double)back[i] - (double)x[i]) * ((double)back[i] - (double)x[i]);
        all += (double)x[i] * (double)x[i];
    }
    CHECK_ROW("squares %g of %g are lost", off, all);
    CHECK(off < 0.02 * all);
    kit_free(&k);
}

TEST(a_block_of_zeros_stays_one_beside_others)
{
    struct kit k = {.state = 3};
    float x[192] = {0}, back[192];
    void *p = packed(&k, x, 192);
    dt_nf4_read(p, 192, 0, 192, back);
    CHECK_BYTES(back, sizeof back, x, sizeof x);
    for (size_t i = 64; i < 128; i++)
        x[i] = i % 2 ? 1.0f : -1.0f;
    dt_nf4_read(packed(&k, x, 192), 192, 0, 64, back);
    for (size_t i = 0; i < 64; i++)
        CHECK(back[i] == 0);
    kit_free(&k);
}

TEST(the_map_is_that_of_seven_decades)
{
    float map[DT_NF4_MAP];
    dt_nf4_map(map);
    for (size_t i = 1; i < DT_NF4_MAP; i++) {
        CHECK_ROW("%zu: %.9g behind %.9g", i, (double)map[i], (double)map[i - 1]);
        CHECK(map[i] > map[i - 1]);
    }
    CHECK_ROW("%.9g to %.9g, around %.9g", (double)map[0], (double)map[254], (double)map[126]);
    CHECK(fabs((double)map[0] + 0.99296874) < 1e-8 && map[254] == -map[0]);
    CHECK(map[127] == 0 && map[255] == 1 && fabs((double)map[126] + 5.5e-7) < 1e-13);
}

TEST(numbers_that_are_not_finite_are_refused)
{
    const float bad[] = {INFINITY, -INFINITY, NAN};
    for (size_t i = 0; i < 3; i++) {
        struct kit k = {.state = 1};
        struct dt_err err = {0};
        struct dt_nf4_writer w;
        float x[70] = {1};
        void *to = kit_alloc(&k, dt_nf4_parts_of(NULL, 70).words * sizeof(uint32_t));
        x[67] = bad[i];
        CHECK_OK(dt_nf4_open(&w, to, 70, &err), err);
        CHECK_FAIL(dt_nf4_write(&w, x, 70, &err), err, "is not finite");
        dt_nf4_close(&w);
        kit_free(&k);
    }
}

TEST(a_weight_takes_4_bits_and_an_eighth)
{
    size_t n = (size_t)4096 * 11008;
    double bits = (double)dt_nf4_parts_of(NULL, n).words * 32 / (double)n;
    CHECK_ROW("%g bits", bits);
    CHECK(bits > 4.126 && bits < 4.128);
}
