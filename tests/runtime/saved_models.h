/* SPDX-License-Identifier: Apache-2.0 */
/* Folders with a model that a test makes by hand. */
#ifndef DT_TESTS_RUNTIME_SAVED_MODELS_H
#define DT_TESTS_RUNTIME_SAVED_MODELS_H

#include "base/fs.h"
#include "tests/lib/folder.h"
#include "worker_runtime/ckpt/convert.h"
#include "worker_runtime/ckpt/safetensors.h"
#include "worker_runtime/model/shape.h"

/* Element I of T. */
typedef float saved_value_fn(const struct dt_tensor *t, size_t i);

static inline void saved_write(const char *folder, const char *name, const struct dt_buf *bytes)
{
    struct dt_err err = {0};
    char path[600];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    CHECK(!bytes->bad);
    CHECK_OK(dt_fs_replace(path, bytes->at, bytes->len, 0644, &err), err);
}

static inline void saved_put_tensors(const struct dt_shape *s, enum dt_dtype type,
                                     saved_value_fn *value, struct dt_buf *out)
{
    struct dt_err err = {0};
    size_t count = dt_shape_tensor_count(s);
    struct dt_tensor *tensors = dt_shape_tensors(s, &err);
    struct dt_st_tensor *saved = calloc(count, sizeof *saved);
    CHECK(tensors && saved);
    for (size_t i = 0; i < count; i++)
        saved[i] = (struct dt_st_tensor){.name = tensors[i].name,
                                         .type = type,
                                         .rank = tensors[i].rank,
                                         .dims = {tensors[i].dims[0], tensors[i].dims[1]}};
    CHECK_OK(dt_st_header(saved, count, NULL, out, &err), err);
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < tensors[i].count; k++) {
            float v = value(&tensors[i], k);
            uint8_t bytes[sizeof(double)];
            dt_convert_from_f32(type, &v, bytes, 1);
            dt_buf_put(out, bytes, dt_dtype_size(type));
        }
    free(tensors);
    free(saved);
}

/* A folder of Hugging Face's, without a tokenizer. */
static inline void saved_make(const char *folder, const struct dt_shape *s, enum dt_dtype type,
                              saved_value_fn *value)
{
    struct dt_err err = {0};
    struct dt_buf out = {0};
    CHECK_OK(dt_fs_mkdir_p(folder, 0755, &err), err);
    dt_shape_write(s, type, &out);
    saved_write(folder, "config.json", &out);
    dt_buf_clear(&out);
    saved_put_tensors(s, type, value, &out);
    saved_write(folder, "model.safetensors", &out);
    dt_buf_finish(&out);
}

#endif
