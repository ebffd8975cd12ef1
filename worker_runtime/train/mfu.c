/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/train/mfu.h"

#include <ctype.h>
#include <string.h>

#define TERA 1e12

/* The first name that is in a description counts: longer ones stand before their beginnings. */
static const struct {
    const char *name;
    double tera;
} gpus[] = {
    {"GB200", 2500},    {"B200", 2250},       {"GH200", 989},        {"H200", 989},
    {"H100 PCIe", 756}, {"H100 NVL", 835},    {"H100", 989},         {"H800", 989},
    {"H20", 148},       {"A100", 312},        {"A800", 312},         {"A40", 149.7},
    {"A30", 165},       {"A10", 125},         {"L40S", 362},         {"L40", 181},
    {"L4", 121},        {"RTX A6000", 154.8}, {"RTX 6000 Ada", 364}, {"RTX 4090", 165.2},
    {"RTX 3090", 71},
};

bool dt_mfu_has_name(const char *text, const char *name)
{
    size_t len = strlen(name);
    for (const char *at = text; (at = strcasestr(at, name)); at++) {
        bool begins = at == text || !isalnum((unsigned char)at[-1]);
        if (begins && !isalnum((unsigned char)at[len]))
            return true;
    }
    return false;
}

double dt_mfu_peak(const char *description, enum dt_dtype elem)
{
    if (elem != DT_BF16 && elem != DT_F16)
        return 0;
    for (size_t i = 0; i < sizeof gpus / sizeof *gpus; i++)
        if (dt_mfu_has_name(description, gpus[i].name))
            return gpus[i].tera * TERA;
    return 0;
}

/* A table that is looked up is no product; a head that is tied to it is one. Attention counts as if
 * all positions that a window has room for were read. */
double dt_mfu_flops_per_token(const struct dt_shape *s, size_t positions)
{
    size_t looked_up = s->tied ? 0 : s->vocabulary * s->width;
    if (s->family == DT_GPT2)
        looked_up += s->positions * s->width;
    double weights = (double)(dt_shape_active_params(s) - looked_up), read = 0;
    for (size_t layer = 0; layer < s->layers; layer++) {
        size_t window = dt_shape_window(s, layer);
        read += (double)(window > 0 && window < positions ? window : positions);
    }
    return 6 * weights + 12.0 * (double)(s->heads * s->head_dim) * read;
}
