/* SPDX-License-Identifier: Apache-2.0 */
/* `dtrun-train export`: a saved model for other programs. Memory stays small however large it is.
 */
#ifndef DT_WORKER_RUNTIME_EXPORT_EXPORT_H
#define DT_WORKER_RUNTIME_EXPORT_EXPORT_H

#include "base/buf.h"
#include "base/err.h"

#include <signal.h>

enum dt_export_type {
    DT_EXPORT_AS_IT_IS, /* each tensor in the type that it is saved in */
    DT_EXPORT_F32,
    DT_EXPORT_F16,
    DT_EXPORT_BF16,
    DT_EXPORT_NF4, /* linear layers as bitsandbytes has them; Hugging Face's folders alone have it
                    */
    DT_EXPORT_Q8_0 /* 8 bits and a factor for 32 weights; GGUF alone has it */
};

struct dt_export_options {
    const char *model;     /* as dt_saved_model_open() takes it */
    const char *base;      /* the model of adapters; NULL: the one that they name */
    const char *tokenizer; /* the folder of its tokenizer; NULL: the model's own */
    const char *out;
    enum dt_export_type type;
    const volatile sig_atomic_t *stop; /* not 0: end, and leave nothing behind; NULL: never */
};

/* A folder of Hugging Face's: config.json, model.safetensors, and the tokenizer's files. NOTES gets
 * lines on what there is to know of it, here and below. */
int dt_export_hf(const struct dt_export_options *o, struct dt_buf *notes, struct dt_err *err);
/* One file, which llama.cpp runs. */
int dt_export_gguf(const struct dt_export_options *o, struct dt_buf *notes, struct dt_err *err);

#endif
