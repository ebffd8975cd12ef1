/* SPDX-License-Identifier: Apache-2.0 */
/* The matrix instructions of a warp and its asynchronous copies, by what the PTX ISA says of them.
 * Which lane holds which element is written as the ISA's tables of fragments have it, and a plain
 * product is taken of the whole matrices in between. */
#include "tests/gpu/emulator/block.h"

namespace dt_emulator
{

/* A register holds two bfloat16, the one with the lower number in its lower half. */
static float half_of(uint32_t r, int which)
{
    uint32_t bits = which ? r & 0xffff0000u : r << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

struct mma {
    float *d;
    const uint32_t *a, *b;
};

/* mma.m16n8k16: A is 16x16, B 16x8, D 16x8; "group" and "within" are the ISA's groupID and
 * threadID_in_group. */
static void exchange_mma(const lanes &l)
{
    float a[16][16], b[16][8];
    for (int n = 0; n < WARP; n++) {
        const mma *m = static_cast<mma *>(l.at[n]);
        int group = n >> 2, within = n % 4;
        for (int i = 0; i < 8; i++) {
            int row = i < 2 || (4 <= i && i < 6) ? group : group + 8;
            int col = within * 2 + (i & 1) + (i < 4 ? 0 : 8);
            a[row][col] = half_of(m->a[i / 2], i % 2);
        }
        for (int i = 0; i < 4; i++)
            b[within * 2 + (i & 1) + (i < 2 ? 0 : 8)][group] = half_of(m->b[i / 2], i % 2);
    }
    for (int n = 0; n < WARP; n++) {
        const mma *m = static_cast<mma *>(l.at[n]);
        int group = n >> 2, within = n % 4;
        for (int i = 0; i < 4; i++) {
            int row = i < 2 ? group : group + 8, col = within * 2 + (i & 1);
            float sum = 0;
            for (int k = 0; k < 16; k++)
                sum += a[row][k] * b[k][col];
            m->d[i] += sum;
        }
    }
}

struct ldmatrix {
    uint32_t *r;
    const unsigned char *row;
};

/* ldmatrix.x4: lanes 0-7 name the rows of the first 8x8 matrix, 8-15 of the second, and so on. Of
 * each matrix, lane n gets elements 2 * (n % 4) and the next of row n / 4. */
template <bool TRANSPOSED> static void exchange_ldmatrix(const lanes &l)
{
    for (int n = 0; n < WARP; n++) {
        for (int matrix = 0; matrix < 4; matrix++) {
            uint16_t two[2];
            for (int i = 0; i < 2; i++) {
                int row = n / 4, col = n % 4 * 2 + i;
                if (TRANSPOSED)
                    std::swap(row, col);
                const ldmatrix *from = static_cast<ldmatrix *>(l.at[matrix * 8 + row]);
                memcpy(&two[i], from->row + col * 2, 2);
            }
            static_cast<ldmatrix *>(l.at[n])->r[matrix] = two[0] | uint32_t(two[1]) << 16;
        }
    }
}

static void load(uint32_t r[4], const void *row, exchange_fn *exchange, const char *what, place at)
{
    if (reinterpret_cast<uintptr_t>(row) % 16 != 0)
        give_up("%s at %s:%d: a row that is not 16-byte aligned", what, at.file, at.line);
    if (!is_shared(row, 16))
        give_up("%s at %s:%d: a row that is not in shared memory", what, at.file, at.line);
    shared_read(row, 16);
    ldmatrix mine = {r, static_cast<const unsigned char *>(row)};
    meet_warp(0xffffffffu, what, &mine, exchange, at);
}

} // namespace dt_emulator

using namespace dt_emulator;

void dt_mma_m16n8k16_bf16(float d[4], const uint32_t a[4], const uint32_t b[2], const char *file,
                          int line)
{
    mma mine = {d, a, b};
    meet_warp(0xffffffffu, "mma", &mine, exchange_mma, {file, line});
}

void dt_ldmatrix_x4(uint32_t r[4], const void *shared_row, const char *file, int line)
{
    load(r, shared_row, exchange_ldmatrix<false>, "ldmatrix", {file, line});
}

void dt_ldmatrix_x4_trans(uint32_t r[4], const void *shared_row, const char *file, int line)
{
    load(r, shared_row, exchange_ldmatrix<true>, "ldmatrix.trans", {file, line});
}

/* The bytes may arrive at any time from now on: what is there is lost at once, what comes is there
 * only after the wait. */
void dt_copy_async16(void *shared, const void *global, bool valid)
{
    thread *t = current();
    if ((reinterpret_cast<uintptr_t>(shared) | reinterpret_cast<uintptr_t>(global)) % 16 != 0)
        give_up("an asynchronous copy that is not 16-byte aligned");
    if (!is_shared(shared, 16))
        give_up("an asynchronous copy to what is not shared memory");
    shared_written(shared, 16);
    memset(shared, 0xff, 16);
    t->copies.push_back({static_cast<unsigned char *>(shared),
                         valid ? static_cast<const unsigned char *>(global) : nullptr, t->commits});
}

void dt_copy_async_commit()
{
    current()->commits++;
}

void dt_emulator_copy_async_wait(int groups)
{
    thread *t = current();
    std::vector<copy> later;
    for (const copy &c : t->copies) {
        if (c.group >= t->commits - groups) {
            later.push_back(c);
            continue;
        }
        shared_written(c.to, 16);
        if (c.from)
            memcpy(c.to, c.from, 16);
        else
            memset(c.to, 0, 16);
    }
    t->copies.swap(later);
}
