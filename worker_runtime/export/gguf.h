/* SPDX-License-Identifier: Apache-2.0 */
/* GGUF, version 3, as llama.cpp reads it: keys with values, what tensors there are, and behind that
 * their data in the same order, each at a multiple of DT_GGUF_ALIGN. All but the data is made here.
 * A key or tensor is put once. Pure. */
#ifndef DT_WORKER_RUNTIME_EXPORT_GGUF_H
#define DT_WORKER_RUNTIME_EXPORT_GGUF_H

#include "base/buf.h"

#include <stdbool.h>

#define DT_GGUF_ALIGN 32

/* Of tensors; the numbers are the format's. */
enum dt_gguf_type { DT_GGUF_F32 = 0, DT_GGUF_F16 = 1, DT_GGUF_Q8_0 = 8, DT_GGUF_BF16 = 30 };

/* Of values. */
enum dt_gguf_value {
    DT_GGUF_U32 = 4,
    DT_GGUF_I32 = 5,
    DT_GGUF_FLOAT = 6,
    DT_GGUF_BOOL = 7,
    DT_GGUF_TEXT = 8,
    DT_GGUF_ARRAY = 9
};

struct dt_gguf { /* zeroed: an empty one */
    struct dt_buf pairs, tensors;
    uint64_t pair_count, tensor_count;
    uint64_t data; /* bytes of all tensors so far, aligned */
};

void dt_gguf_finish(struct dt_gguf *g);

void dt_gguf_put_u32(struct dt_gguf *g, const char *key, uint32_t v);
void dt_gguf_put_float(struct dt_gguf *g, const char *key, float v);
void dt_gguf_put_bool(struct dt_gguf *g, const char *key, bool v);
void dt_gguf_put_text(struct dt_gguf *g, const char *key, struct dt_bytes v);
/* COUNT elements follow, by the functions below and all of one kind. */
void dt_gguf_put_array(struct dt_gguf *g, const char *key, enum dt_gguf_value kind, uint64_t count);
void dt_gguf_add_i32(struct dt_gguf *g, int32_t v);
void dt_gguf_add_float(struct dt_gguf *g, float v);
void dt_gguf_add_text(struct dt_gguf *g, struct dt_bytes v);

/* ROWS 0: a tensor of one dimension. A row of TYPE can be WIDTH long: dt_gguf_takes(). */
void dt_gguf_put_tensor(struct dt_gguf *g, const char *name, enum dt_gguf_type type, size_t rows,
                        size_t width);
/* Appends all that stands in front of the data. */
void dt_gguf_put_head(const struct dt_gguf *g, struct dt_buf *out);

bool dt_gguf_takes(enum dt_gguf_type type, size_t width);
size_t dt_gguf_row_bytes(enum dt_gguf_type type, size_t width);
/* A row as it stands in the data; F16 and BF16 to the nearest, Q8_0 as llama.cpp rounds. */
void dt_gguf_encode(enum dt_gguf_type type, const float *row, size_t width, void *out);
/* From the end of a tensor of that many bytes to the beginning of the next. */
size_t dt_gguf_padding(uint64_t bytes);

#endif
