/* SPDX-License-Identifier: Apache-2.0 */
/* The files are a stranger's: each part is as long as the model's sizes make it before a byte of it
 * is taken, and each number is looked at before it is used. */
#include "worker_runtime/ckpt/bitsandbytes.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "worker_runtime/ops/nf4.h"

#define STATE_MOST ((size_t)4096)
#define LARGEST 1e30f /* of what stands for weights: their products and sums are finite */

static const char *const suffixes[DT_BNB_PARTS] = {
    [DT_BNB_CODES] = "",
    [DT_BNB_ABSMAX] = ".absmax",
    [DT_BNB_QUANT_MAP] = ".quant_map",
    [DT_BNB_NESTED_ABSMAX] = ".nested_absmax",
    [DT_BNB_NESTED_QUANT_MAP] = ".nested_quant_map",
    [DT_BNB_STATE] = ".quant_state.bitsandbytes__nf4",
};

enum dt_bnb_part dt_bnb_part_of(const char *name, size_t *length)
{
    size_t n = strlen(name);
    for (int i = DT_BNB_ABSMAX; i < DT_BNB_PARTS; i++) {
        size_t m = strlen(suffixes[i]);
        *length = n - m;
        if (n > m && strcmp(name + n - m, suffixes[i]) == 0)
            return (enum dt_bnb_part)i;
    }
    *length = n;
    return DT_BNB_CODES;
}

static uint64_t elements_of(const struct dt_st_tensor *t)
{
    return (t->end - t->begin) / dt_dtype_size(t->type);
}

/* -- what is there ---------------------------------------------------------------------------- */

static int check_part(const struct dt_bnb_weight *w, enum dt_bnb_part part, enum dt_dtype type,
                      size_t count, struct dt_err *err)
{
    const struct dt_st_tensor *codes = w->part[DT_BNB_CODES].tensor, *t = w->part[part].tensor;
    if (!t)
        return dt_err_set(err, DT_E_USAGE,
                          "tensor %.200s is quantized, and %s, which belongs to it, is missing; "
                          "only NF4 with double quantization is read",
                          codes->name, suffixes[part]);
    if (t->type != type)
        return dt_err_set(err, DT_E_USAGE,
                          "tensor %.200s is not of type %s, as NF4 with double quantization has it",
                          t->name, dt_st_type_name(type));
    if (elements_of(t) != count)
        return dt_err_set(err, DT_E_USAGE,
                          "tensor %.200s has %llu elements; this model's size makes it %zu",
                          t->name, (unsigned long long)elements_of(t), count);
    return 0;
}

static int check_sizes(const struct dt_bnb_weight *w, size_t count, struct dt_err *err)
{
    const struct {
        enum dt_bnb_part part;
        enum dt_dtype type;
        size_t count;
    } wanted[] = {
        {DT_BNB_CODES, DT_U8, dt_nf4_code_bytes(count)},
        {DT_BNB_QUANT_MAP, DT_F32, DT_NF4_CODES},
        {DT_BNB_ABSMAX, DT_U8, dt_nf4_blocks(count)},
        {DT_BNB_NESTED_ABSMAX, DT_F32, dt_nf4_groups(count)},
        {DT_BNB_NESTED_QUANT_MAP, DT_F32, DT_NF4_MAP},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if (check_part(w, wanted[i].part, wanted[i].type, wanted[i].count, err) < 0)
            return -1;
    return 0;
}

static int read_part(const struct dt_bnb_stored *p, void *to, struct dt_err *err)
{
    uint64_t at = p->file->data_at + p->tensor->begin, left = p->tensor->end - p->tensor->begin;
    char *next = to;
    while (left > 0) {
        ssize_t got = pread(p->file->fd, next, left, (off_t)at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot read tensor %s", p->tensor->name);
        if (got == 0)
            return dt_err_set(err, DT_E_RUNTIME, "tensor %s ends early", p->tensor->name);
        next += got;
        at += (uint64_t)got;
        left -= (uint64_t)got;
    }
    return 0;
}

/* -- what it says of itself ------------------------------------------------------------------- */

static int wants_word(const struct dt_json *doc, const char *name, const char *wanted,
                      struct dt_err *err)
{
    const char *is;
    if (dt_json_string(doc, NULL, name, &is, err) < 0)
        return -1;
    return strcmp(is, wanted) == 0 ? 0
                                   : dt_err_set(err, DT_E_USAGE,
                                                "%s is \"%.40s\", and only \"%s\" "
                                                "is read",
                                                name, is, wanted);
}

static int wants_number(const struct dt_json *doc, const char *name, int64_t wanted,
                        struct dt_err *err)
{
    int64_t is;
    if (dt_json_int(doc, NULL, name, 0, INT32_MAX, &is, err) < 0)
        return -1;
    return is == wanted ? 0
                        : dt_err_set(err, DT_E_USAGE, "%s is %lld, and only %lld is read", name,
                                     (long long)is, (long long)wanted);
}

static int take_type(struct dt_bnb_weight *w, const struct dt_json *doc, struct dt_err *err)
{
    static const struct {
        const char *name;
        enum dt_dtype type;
    } known[] = {{"float32", DT_F32}, {"bfloat16", DT_BF16}, {"float16", DT_F16}};
    const char *name;
    if (dt_json_string(doc, NULL, "dtype", &name, err) < 0)
        return -1;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].name, name) == 0) {
            w->type = known[i].type;
            return 0;
        }
    return dt_err_set(err, DT_E_USAGE, "dtype \"%.40s\" is none of float32, bfloat16, float16",
                      name);
}

static int check_shape(const struct dt_json *doc, size_t out, size_t in, struct dt_err *err)
{
    const struct cJSON *v = cJSON_GetObjectItemCaseSensitive(doc->root, "shape");
    const struct cJSON *a = cJSON_IsArray(v) ? v->child : NULL, *b = a ? a->next : NULL;
    bool two = a && b && !b->next && cJSON_IsNumber(a) && cJSON_IsNumber(b);
    if (!two || a->valuedouble != (double)out || b->valuedouble != (double)in)
        return dt_err_set(err, DT_E_USAGE, "shape is not [%zu, %zu], as this model has it", out,
                          in);
    return 0;
}

static int take_members(struct dt_bnb_weight *w, const struct dt_json *doc, size_t out, size_t in,
                        struct dt_err *err)
{
    double offset;
    if (wants_word(doc, "quant_type", "nf4", err) < 0 ||
        wants_number(doc, "blocksize", DT_NF4_BLOCK, err) < 0 ||
        wants_number(doc, "nested_blocksize", DT_NF4_GROUP, err) < 0 ||
        wants_word(doc, "nested_dtype", "float32", err) < 0 || take_type(w, doc, err) < 0 ||
        check_shape(doc, out, in, err) < 0 ||
        dt_json_number(doc, NULL, "nested_offset", &offset, err) < 0)
        return -1;
    if (!(fabs(offset) <= (double)LARGEST))
        return dt_err_set(err, DT_E_USAGE, "nested_offset %g cannot be", offset);
    w->offset = (float)offset;
    return 0;
}

int dt_bnb_take_state(struct dt_bnb_weight *w, struct dt_bytes text, size_t out, size_t in,
                      struct dt_err *err)
{
    struct dt_json doc = {NULL};
    int rc = dt_json_parse(&doc, (const char *)text.at, text.len, STATE_MOST, err);
    if (rc == 0)
        rc = take_members(w, &doc, out, in, err);
    dt_json_finish(&doc);
    return rc;
}

static int read_state(struct dt_bnb_weight *w, size_t out, size_t in, struct dt_err *err)
{
    const struct dt_bnb_stored *p = &w->part[DT_BNB_STATE];
    uint8_t text[STATE_MOST];
    if (!p->tensor)
        return check_part(w, DT_BNB_STATE, DT_U8, 0, err);
    size_t length = (size_t)(p->tensor->end - p->tensor->begin);
    if (p->tensor->type != DT_U8 || length == 0 || length > sizeof text)
        return dt_err_set(err, DT_E_USAGE, "tensor %.200s is not the bytes of a short text",
                          p->tensor->name);
    if (read_part(p, text, err) < 0)
        return -1;
    if (dt_bnb_take_state(w, (struct dt_bytes){text, length}, out, in, err) < 0)
        return dt_err_wrap(err, "%.200s", p->tensor->name);
    return 0;
}

int dt_bnb_check(struct dt_bnb_weight *w, const struct dt_tensor *ours, size_t out, size_t in,
                 struct dt_err *err)
{
    if (!w->part[DT_BNB_CODES].tensor)
        return dt_err_set(err, DT_E_USAGE, "tensor %s is missing, and %s is there", ours->name,
                          "what it would be quantized by");
    return check_sizes(w, out * in, err) < 0 ? -1 : read_state(w, out, in, err);
}

/* -- its numbers ------------------------------------------------------------------------------ */

/* No number above MOST in size, nor one that is none. */
static int check_numbers(const struct dt_st_tensor *t, const float *x, size_t n, float most,
                         struct dt_err *err)
{
    for (size_t i = 0; i < n; i++)
        if (!(fabsf(x[i]) <= most))
            return dt_err_set(err, DT_E_USAGE, "tensor %.200s has %g at %zu, which cannot be",
                              t->name, (double)x[i], i);
    return 0;
}

static int check_codebook(const struct dt_bnb_stored *p, struct dt_err *err)
{
    static const float codebook[DT_NF4_CODES] = DT_NF4_CODEBOOK;
    float x[DT_NF4_CODES];
    if (read_part(p, x, err) < 0)
        return -1;
    for (size_t i = 0; i < DT_NF4_CODES; i++)
        if (x[i] != codebook[i])
            return dt_err_set(err, DT_E_USAGE, "tensor %.200s is not the codebook of NF4",
                              p->tensor->name);
    return 0;
}

int dt_bnb_pack(const struct dt_bnb_weight *w, size_t count, void *packed, struct dt_err *err)
{
    struct dt_nf4_parts to = dt_nf4_parts_of(packed, count);
    const struct dt_bnb_stored *p = w->part;
    memset(packed, 0, to.words * sizeof(uint32_t));
    *to.offset = w->offset;
    if (check_codebook(&p[DT_BNB_QUANT_MAP], err) < 0 ||
        read_part(&p[DT_BNB_NESTED_QUANT_MAP], to.map, err) < 0 ||
        check_numbers(p[DT_BNB_NESTED_QUANT_MAP].tensor, to.map, DT_NF4_MAP, 1, err) < 0 ||
        read_part(&p[DT_BNB_NESTED_ABSMAX], to.nested, err) < 0 ||
        check_numbers(p[DT_BNB_NESTED_ABSMAX].tensor, to.nested, dt_nf4_groups(count), LARGEST,
                      err) < 0)
        return -1;
    return read_part(&p[DT_BNB_ABSMAX], to.absmax, err) < 0 ||
                   read_part(&p[DT_BNB_CODES], to.codes, err) < 0
               ? -1
               : 0;
}

/* -- writing ---------------------------------------------------------------------------------- */

void dt_bnb_describe(enum dt_bnb_part part, const char *weight, size_t count,
                     char name[DT_BNB_NAME_SIZE], struct dt_st_tensor *to)
{
    const struct {
        enum dt_dtype type;
        size_t elements;
    } has[DT_BNB_PARTS] = {
        [DT_BNB_CODES] = {DT_U8, dt_nf4_code_bytes(count)},
        [DT_BNB_ABSMAX] = {DT_U8, dt_nf4_blocks(count)},
        [DT_BNB_QUANT_MAP] = {DT_F32, DT_NF4_CODES},
        [DT_BNB_NESTED_ABSMAX] = {DT_F32, dt_nf4_groups(count)},
        [DT_BNB_NESTED_QUANT_MAP] = {DT_F32, DT_NF4_MAP},
        [DT_BNB_STATE] = {DT_U8, DT_BNB_STATE_SIZE},
    };
    snprintf(name, DT_BNB_NAME_SIZE, "%s%s", weight, suffixes[part]);
    *to = (struct dt_st_tensor){.name = name,
                                .type = has[part].type,
                                .rank = part == DT_BNB_CODES ? 2 : 1,
                                .dims = {has[part].elements, 1}};
}

/* A float is written so that the same one is read, whatever reads it as a double. */
static void write_state(size_t out, size_t in, enum dt_dtype type, float offset,
                        char state[DT_BNB_STATE_SIZE])
{
    const char *name = type == DT_BF16 ? "bfloat16" : type == DT_F16 ? "float16" : "float32";
    int n = snprintf(state, DT_BNB_STATE_SIZE,
                     "{\"quant_type\": \"nf4\", \"blocksize\": %d, \"dtype\": \"%s\", "
                     "\"shape\": [%zu, %zu], \"nested_blocksize\": %d, "
                     "\"nested_dtype\": \"float32\", \"nested_offset\": %.17g}",
                     DT_NF4_BLOCK, name, out, in, DT_NF4_GROUP, (double)offset);
    memset(state + n, ' ', DT_BNB_STATE_SIZE - (size_t)n);
}

struct dt_bytes dt_bnb_bytes(enum dt_bnb_part part, const void *packed, size_t out, size_t in,
                             enum dt_dtype type, struct dt_bnb_room *room)
{
    static const float codebook[DT_NF4_CODES] = DT_NF4_CODEBOOK;
    const struct dt_nf4_parts p = dt_nf4_parts_of(packed, out * in);
    switch (part) {
    case DT_BNB_CODES:
        return (struct dt_bytes){p.codes, dt_nf4_code_bytes(out * in)};
    case DT_BNB_ABSMAX:
        return (struct dt_bytes){p.absmax, dt_nf4_blocks(out * in)};
    case DT_BNB_NESTED_ABSMAX:
        return (struct dt_bytes){(uint8_t *)p.nested, dt_nf4_groups(out * in) * sizeof *p.nested};
    case DT_BNB_NESTED_QUANT_MAP:
        return (struct dt_bytes){(uint8_t *)p.map, DT_NF4_MAP * sizeof *p.map};
    case DT_BNB_STATE:
        write_state(out, in, type, *p.offset, room->state);
        return (struct dt_bytes){(uint8_t *)room->state, sizeof room->state};
    default:
        memcpy(room->codebook, codebook, sizeof codebook);
        return (struct dt_bytes){(uint8_t *)room->codebook, sizeof room->codebook};
    }
}
