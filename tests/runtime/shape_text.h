/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes from texts, and the beginnings of small ones: what a story is about comes behind. */
#ifndef DT_TESTS_RUNTIME_SHAPE_TEXT_H
#define DT_TESTS_RUNTIME_SHAPE_TEXT_H

#include "base/json.h"
#include "tests/lib/check.h"
#include "worker_runtime/model/shape.h"

#define ROWS(t) (sizeof(t) / sizeof *(t))

static struct dt_buf notes; /* of the last one that was read */

static inline int read_shape(struct dt_shape *s, const char *text, struct dt_err *err)
{
    struct dt_json doc;
    int rc = dt_json_parse(&doc, text, strlen(text), 1 << 16, err);
    dt_buf_clear(&notes);
    if (rc == 0)
        rc = dt_shape_read(s, &doc, NULL, &notes, err);
    dt_json_finish(&doc);
    return rc;
}

static inline struct dt_shape shape_of(const char *text)
{
    struct dt_shape s;
    struct dt_err err = {0};
    CHECK_OK(read_shape(&s, text, &err), err);
    return s;
}

#define G "{\"model_type\":\"gpt2\",\"n_layer\":2,\"n_embd\":8,\"vocab_size\":5"
#define L                                                                                          \
    "{\"model_type\":\"llama\",\"num_hidden_layers\":1,\"hidden_size\":8,"                         \
    "\"intermediate_size\":6,\"max_position_embeddings\":4,\"vocab_size\":5"

/* Two heads share the width, and none says how large it is. */
#define WIDE(width)                                                                                \
    "{\"model_type\":\"llama\",\"num_hidden_layers\":1,\"hidden_size\":" #width                    \
    ",\"intermediate_size\":6,\"max_position_embeddings\":4,\"vocab_size\":5,"                     \
    "\"num_attention_heads\":2}"

/* Small ones with experts: three of them, of which a token goes through two. */
#define ROUTED(model_type)                                                                         \
    "{\"model_type\":\"" model_type "\",\"num_hidden_layers\":2,\"hidden_size\":8,"                \
    "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"max_position_embeddings\":4,"           \
    "\"vocab_size\":5,\"num_experts_per_tok\":2"
#define MIXTRAL ROUTED("mixtral") ",\"intermediate_size\":6,\"num_local_experts\":3"
#define QWEN2_MOE                                                                                  \
    ROUTED("qwen2_moe")                                                                            \
    ",\"num_experts\":3,\"moe_intermediate_size\":4,\"shared_expert_intermediate_size\":5"
#define QWEN3_MOE ROUTED("qwen3_moe") ",\"num_experts\":3,\"moe_intermediate_size\":4"

#define M                                                                                          \
    "{\"model_type\":\"mistral\",\"num_hidden_layers\":2,\"hidden_size\":8,"                       \
    "\"intermediate_size\":6,\"max_position_embeddings\":64,\"vocab_size\":5,"                     \
    "\"num_attention_heads\":2"

#define Q                                                                                          \
    "{\"model_type\":\"qwen2\",\"num_hidden_layers\":3,\"hidden_size\":8,"                         \
    "\"intermediate_size\":6,\"max_position_embeddings\":64,\"vocab_size\":5,"                     \
    "\"num_attention_heads\":2,\"num_key_value_heads\":1"

#define Q3                                                                                         \
    "{\"model_type\":\"qwen3\",\"num_hidden_layers\":3,\"hidden_size\":8,"                         \
    "\"intermediate_size\":6,\"max_position_embeddings\":64,\"vocab_size\":5,"                     \
    "\"num_attention_heads\":2,\"num_key_value_heads\":1"

#define GEMMA(model_type, layers)                                                                  \
    "{\"model_type\":\"" model_type "\",\"num_hidden_layers\":" layers ",\"hidden_size\":8,"       \
    "\"intermediate_size\":6,\"max_position_embeddings\":64,\"vocab_size\":5,"                     \
    "\"num_attention_heads\":2,\"num_key_value_heads\":1"

#endif
