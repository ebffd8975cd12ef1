/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers out of NF4. A block has at most 16 different ones, so these are made and rounded first,
 * and then only looked up. */
#include "worker_runtime/ops/cpu/cpu.h"
#include "worker_runtime/ops/nf4.h"

enum { PART = 1 << 9 }; /* blocks: 128 KiB of floats */

struct job {
    struct dt_nf4 q;
    struct dt_nf4_parts p;
    size_t blocks;
    float *out;
};

static void make_table(const struct job *j, size_t block, float table[DT_NF4_CODES])
{
    static const float codebook[DT_NF4_CODES] = DT_NF4_CODEBOOK;
    float scale = dt_nf4_scale(&j->p, block);
    for (size_t i = 0; i < DT_NF4_CODES; i++)
        table[i] = codebook[i] * scale;
    for (size_t i = 0; j->q.type == DT_BF16 && i < DT_NF4_CODES; i++)
        table[i] = dt_bf16_to_float(dt_float_to_bf16(table[i]));
    for (size_t i = 0; j->q.type == DT_F16 && i < DT_NF4_CODES; i++)
        table[i] = dt_f16_to_float(dt_float_to_f16(table[i]));
}

static void expand(void *arg, size_t part)
{
    const struct job *j = arg;
    struct dt_range r = dt_part(j->blocks, PART, part);
    float table[DT_NF4_CODES];
    for (size_t block = r.from; block < r.to; block++) {
        size_t first = block * DT_NF4_BLOCK, left = j->q.count - first;
        size_t pairs = (left < DT_NF4_BLOCK ? left : DT_NF4_BLOCK) / 2;
        const uint8_t *codes = j->p.codes + first / 2;
        float *out = j->out + first;
        make_table(j, block, table);
        for (size_t i = 0; i < pairs; i++) {
            out[2 * i] = table[codes[i] >> 4];
            out[2 * i + 1] = table[codes[i] & 15];
        }
        if (left < DT_NF4_BLOCK && left % 2)
            out[left - 1] = table[codes[pairs] >> 4];
    }
}

void DT_CPU(nf4_expand)(const struct dt_nf4 *q, dt_elem *out, struct dt_stream *s)
{
    struct job j = {.q = *q,
                    .p = dt_nf4_parts_of(q->packed, q->count),
                    .blocks = dt_nf4_blocks(q->count),
                    .out = out};
    dt_pool_run(s->pool, dt_parts(j.blocks, PART), expand, &j);
}
