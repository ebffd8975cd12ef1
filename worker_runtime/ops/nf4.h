/* SPDX-License-Identifier: Apache-2.0 */
/* NF4 with double quantization, number for number as bitsandbytes has it. A weight is one of 16
 * numbers times the largest of its block of 64 weights. Those largest, less their mean, are each
 * one of 256 numbers times the largest of a group of 256 blocks. So a weight takes 4.13 bits.
 *
 * A tensor of COUNT numbers, packed, is one stretch of words of 32 bits:
 *
 *     map      256 floats    what a byte of absmax means
 *     offset   1 float       the mean that was taken off
 *     nested   1 float       for each group
 *     absmax   1 byte        for each block
 *     codes    half a byte   for each number; the first is in the upper half
 *              0s            up to a multiple of 16 bytes
 *
 * So what stands behind it in a unit begins where a GPU may read 16 bytes at once: kernels of norms
 * are faster there, and cuBLASLt, which cannot be told where a bias begins, may count on it.
 *
 * The map is there with each tensor, as in bitsandbytes' files, and not built in: a file's own is
 * used to the last bit. */
#ifndef DT_WORKER_RUNTIME_OPS_NF4_H
#define DT_WORKER_RUNTIME_OPS_NF4_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "worker_runtime/ops/half.h"

#define DT_NF4_BLOCK 64
#define DT_NF4_GROUP 256 /* blocks */
#define DT_NF4_MAP 256
#define DT_NF4_CODES 16

#define DT_NF4_CODEBOOK                                                                            \
    {                                                                                              \
        -1.0f, -0.6961928009986877f, -0.5250730514526367f, -0.39491748809814453f,                  \
            -0.28444138169288635f, -0.18477343022823334f, -0.09105003625154495f, 0.0f,             \
            0.07958029955625534f, 0.16093020141124725f, 0.24611230194568634f,                      \
            0.33791524171829224f, 0.44070982933044434f, 0.5626170039176941f, 0.7229568362236023f,  \
            1.0f                                                                                   \
    }

DT_HALF size_t dt_nf4_blocks(size_t count)
{
    return count / DT_NF4_BLOCK + (count % DT_NF4_BLOCK != 0);
}

DT_HALF size_t dt_nf4_groups(size_t count)
{
    size_t blocks = dt_nf4_blocks(count);
    return blocks / DT_NF4_GROUP + (blocks % DT_NF4_GROUP != 0);
}

DT_HALF size_t dt_nf4_code_bytes(size_t count)
{
    return count / 2 + count % 2;
}

struct dt_nf4_parts {
    float *map, *offset, *nested;
    uint8_t *absmax, *codes;
    size_t words; /* of all */
};

/* PACKED has room for a tensor of COUNT numbers, or is NULL, and only .words is of use. */
DT_HALF struct dt_nf4_parts dt_nf4_parts_of(const void *packed, size_t count)
{
    size_t nested_at = DT_NF4_MAP + 1, absmax_at = nested_at + dt_nf4_groups(count);
    size_t codes_at = absmax_at + (dt_nf4_blocks(count) + 3) / 4;
    struct dt_nf4_parts p = {NULL, NULL, NULL, NULL, NULL, 0};
    p.words = (codes_at + (dt_nf4_code_bytes(count) + 3) / 4 + 3) / 4 * 4;
    if (!packed)
        return p;
    p.map = (float *)packed;
    p.offset = p.map + DT_NF4_MAP;
    p.nested = p.map + nested_at;
    p.absmax = (uint8_t *)(p.map + absmax_at);
    p.codes = (uint8_t *)(p.map + codes_at);
    return p;
}

/* What the codes of BLOCK are multiplied by. The product is rounded before the sum, as there are
 * two operations in bitsandbytes: a compiler would make one of them. */
DT_HALF float dt_nf4_scale(const struct dt_nf4_parts *p, size_t block)
{
#ifdef __CUDA_ARCH__
    float product = __fmul_rn(p->map[p->absmax[block]], p->nested[block / DT_NF4_GROUP]);
    return __fadd_rn(product, *p->offset);
#else
    volatile float product = p->map[p->absmax[block]] * p->nested[block / DT_NF4_GROUP];
    return product + *p->offset;
#endif
}

DT_HALF int dt_nf4_code(const struct dt_nf4_parts *p, size_t i)
{
    return i % 2 ? p->codes[i / 2] & 15 : p->codes[i / 2] >> 4;
}

/* -- packing, on the host ---------------------------------------------------------------------- */

/* The map that bitsandbytes makes. */
void dt_nf4_map(float map[DT_NF4_MAP]);

/* Packs numbers as they come, so that nobody has all of them at once. */
struct dt_nf4_writer {
    struct dt_nf4_parts to;
    size_t count, done;
    float *absmax; /* of each block */
};

/* PACKED is the caller's, and need not be zeroed. */
int dt_nf4_open(struct dt_nf4_writer *w, void *packed, size_t count, struct dt_err *err);
/* The next N numbers: a multiple of 64, but for the last of all. -1: one is not finite. */
int dt_nf4_write(struct dt_nf4_writer *w, const float *x, size_t n, struct dt_err *err);
/* All are here: the largest of blocks are packed as well. */
void dt_nf4_finish(struct dt_nf4_writer *w);
void dt_nf4_close(struct dt_nf4_writer *w); /* zeroed is fine */

/* N numbers from FIRST on of a tensor of COUNT, rounded to nothing: for who has no ops. */
void dt_nf4_read(const void *packed, size_t count, size_t first, size_t n, float *out);

#endif
