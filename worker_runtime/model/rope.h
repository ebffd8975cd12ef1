/* SPDX-License-Identifier: Apache-2.0 */
/* How fast the pairs of a head turn with the position: pair i by theta^(-2i/head_dim), and
 * otherwise where a model was made to read longer texts than it was first trained on. Formulas and
 * defaults are Hugging Face's. Pure. */
#ifndef DT_WORKER_RUNTIME_MODEL_ROPE_H
#define DT_WORKER_RUNTIME_MODEL_ROPE_H

#include <stdbool.h>
#include <stddef.h>

enum dt_rope_kind {
    DT_ROPE_PLAIN,
    DT_ROPE_LINEAR,  /* each pair is slower by the factor */
    DT_ROPE_DYNAMIC, /* plain up to the positions that a model has; beyond them nothing is trained
                      */
    DT_ROPE_LLAMA3,  /* slow pairs are slower by the factor, fast ones are not */
    DT_ROPE_YARN,    /* the same by another rule, and the rotation scales what it turns */
};

struct dt_rope_scaling {
    enum dt_rope_kind kind;
    float factor;
    float original;             /* positions of the first training: llama3, yarn */
    float low_freq, high_freq;  /* llama3: turns within ORIGINAL, below and above which a pair is
                                   slow  and fast */
    float beta_fast, beta_slow; /* yarn: the same */
    float attention;            /* yarn: cosines and sines are multiplied by it */
    bool exact;                 /* yarn: where the ramp begins and ends is not rounded */
};

/* Fills SPEEDS[head_dim / 2]. */
void dt_rope_speeds(const struct dt_rope_scaling *s, float theta, size_t head_dim, float *speeds);
/* What the rotated is multiplied by: 1 but for yarn. */
float dt_rope_scale(const struct dt_rope_scaling *s);
/* yarn's own scale where a model names none; MSCALE and MSCALE_ALL 0: not given. */
float dt_rope_yarn_attention(double factor, double mscale, double mscale_all);

#endif
