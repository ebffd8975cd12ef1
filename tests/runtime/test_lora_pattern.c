/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks and alphas of single layers: which layers a pattern means, what tensors follow, and what is
 * written for peft. */
#include "base/json.h"
#include "tests/lib/check.h"
#include "worker_runtime/model/lora.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 12 };

static const struct dt_shape llama = {.family = DT_LLAMA,
                                      .layers = BLOCKS,
                                      .heads = 2,
                                      .kv_heads = 1,
                                      .width = 8,
                                      .head_dim = 4,
                                      .inner = 7,
                                      .positions = 6,
                                      .vocabulary = 13,
                                      .rope_theta = 100};
static const struct dt_shape gpt2 = {.family = DT_GPT2,
                                     .layers = BLOCKS,
                                     .heads = 2,
                                     .kv_heads = 2,
                                     .width = 8,
                                     .head_dim = 4,
                                     .inner = 32,
                                     .positions = 6,
                                     .vocabulary = 13,
                                     .tied = true};

static struct dt_lora adapters(const struct dt_shape *s, const char *target)
{
    struct dt_lora l = {.r = 4, .alpha = 8};
    struct dt_err err = {0};
    CHECK_OK(target ? dt_lora_target(&l, s, target, &err) : dt_lora_target_all(&l, s, &err), err);
    return l;
}

static int give(struct dt_lora *l, const struct dt_shape *s, bool alphas, const char *text,
                bool strict, struct dt_err *err)
{
    struct dt_json doc;
    CHECK_OK(dt_json_parse(&doc, text, strlen(text), strlen(text), err), *err);
    int rc = dt_lora_pattern(l, s, alphas, doc.root, strict, err);
    dt_json_finish(&doc);
    return rc;
}

/* Layers, of all blocks, whose rank is 9. */
static size_t count_nines(const struct dt_lora *l)
{
    size_t n = 0;
    for (size_t block = 0; block < BLOCKS; block++)
        for (size_t i = 0; i < DT_BLOCK_TENSORS_MOST; i++)
            n += dt_lora_share(l, block, i).r == 9;
    return n;
}

/* As many as Python's re.match(rf"(.*\.)?({key})$", path) finds among a Llama's. */
TEST(a_pattern_means_the_layers_that_python_s_means)
{
    static const struct {
        const char *pattern;
        size_t means;
    } rows[] = {
        {"q_proj", BLOCKS},
        {"self_attn.q_proj", BLOCKS},
        {"proj", 0},
        {"attn.q_proj", 0},
        {"model.layers.1.self_attn.q_proj", 1},
        {"layers.1.self_attn.q_proj", 1},
        {"1.self_attn.q_proj", 1},
        {"^model.layers.1.self_attn.q_proj", 1},
        {"^layers.1.self_attn.q_proj", 0},
        {"[qv]_proj", 2 * BLOCKS},
        {"[^qkvo]+_proj", 2 * BLOCKS},
        {"(?:q|k)_proj", 2 * BLOCKS},
        {"(gate|up|down)_proj", 3 * BLOCKS},
        {"model\\\\.layers\\\\.\\\\d+\\\\.mlp\\\\..*", 3 * BLOCKS},
        {"layers\\\\.[\\\\d]\\\\..*?", 10 * 7},
        {"layers.1\\\\d.*", 2 * 7},
        {"\\\\w+", 7 * BLOCKS},
        {"q_proj$", BLOCKS},
        {"q_proj|v_proj", 2 * BLOCKS},
        {".*", 7 * BLOCKS},
        {"lm_head", 0},
        {"q.proj", BLOCKS},
        {".+?.*[.]?up.*?", BLOCKS},
        {"(?:.*)\\\\.mlp\\\\.(up)?(gate)?_proj", 2 * BLOCKS},
        {"[q\\\\-v]_proj", 2 * BLOCKS},
        /* More than regcomp() can do. */
        {"(((($|.*|^)?($|.*|^)?($|.*|^)?($|.*|^)?($|.*|^)?($|.*|^)?($|.*|^)?($|.*|^)?)+)+)+_proj",
         7 * BLOCKS},
        {"(?:(?:\\\\w+\\\\.)*?1\\\\.)+self_attn.(|k_proj|q_(proj)?)", 2},
        {"layers\\\\.[0-2]\\\\.mlp\\\\.[a-u.]+_[\\\\w\\\\.]+", 6},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_lora l = adapters(&llama, NULL);
        struct dt_err err = {0};
        char text[100];
        snprintf(text, sizeof text, "{\"%s\": 9}", rows[i].pattern);
        CHECK_ROW("%s", text);
        CHECK_OK(give(&l, &llama, false, text, false, &err), err);
        CHECK_EQ(count_nines(&l), rows[i].means);
        dt_lora_finish(&l);
    }
}

TEST(the_first_pattern_that_means_a_layer_counts)
{
    struct dt_lora l = adapters(&llama, NULL);
    struct dt_err err = {0};
    CHECK_OK(give(&l, &llama, false,
                  "{\"layers.3.self_attn.q_proj\": 2, \"q_proj\": 9, \".*_proj\": 1}", true, &err),
             err);
    CHECK_OK(give(&l, &llama, true, "{\"q_proj\": 0.5}", true, &err), err);
    CHECK_EQ(dt_lora_share(&l, 3, DT_LLAMA_Q).r, 2);
    CHECK_EQ(dt_lora_share(&l, 4, DT_LLAMA_Q).r, 9);
    CHECK_EQ(dt_lora_share(&l, 4, DT_LLAMA_K).r, 1);
    CHECK(dt_lora_share(&l, 3, DT_LLAMA_Q).alpha == 0.5f);
    CHECK(dt_lora_share(&l, 3, DT_LLAMA_K).alpha == 8);
    CHECK(dt_lora_scale(&l, 3, DT_LLAMA_Q) == 0.25f && dt_lora_scale(&l, 3, DT_LLAMA_K) == 8);
    char said[100];
    dt_lora_say(&l, &llama, said, sizeof said);
    CHECK_STR(said, "rank 1 to 9, alpha 0.5 to 8");
    dt_lora_finish(&l);
}

/* Of the second block with more, and no room lost between tensors. */
TEST(tensors_have_the_ranks_of_their_layers)
{
    struct dt_lora l = adapters(&llama, "q_proj");
    struct dt_err err = {0};
    size_t count, pairs;
    struct dt_lora_pair pair[DT_BLOCK_TENSORS_MOST];
    l.dora = true;
    CHECK_OK(give(&l, &llama, false, "{\"layers.1.self_attn.q_proj\": 9}", true, &err), err);
    struct dt_tensor *t = dt_lora_tensors(&l, &llama, &count, &err);
    CHECK_OK(t ? 0 : -1, err);
    CHECK_EQ(count, 3 * BLOCKS);
    for (size_t block = 0; block < BLOCKS; block++) {
        const struct dt_tensor *a = t + 3 * block;
        size_t r = block == 1 ? 9 : 4;
        CHECK_OK(dt_lora_pairs(&l, &llama, block, pair, &pairs, &err), err);
        CHECK_ROW("block %zu", block);
        CHECK_EQ(pairs, 1);
        CHECK_EQ(pair->r, r);
        CHECK_EQ(a[0].dims[0], r);
        CHECK_EQ(a[1].dims[1], r);
        CHECK_EQ(a[1].offset, r * 8);
        CHECK_EQ(a[2].offset, r * (8 + 8));
        CHECK(pair->a_at == a[0].offset && pair->b_at == a[1].offset && pair->m_at == a[2].offset);
    }
    free(t);
    dt_lora_finish(&l);
}

static void check_written(const struct dt_shape *s, const char *ranks, const char *alphas,
                          const char *wanted_ranks, const char *wanted_alphas)
{
    struct dt_lora l = adapters(s, NULL), again = {0};
    struct dt_buf text = {0};
    struct dt_json doc;
    struct dt_err err = {0};
    CHECK_OK(give(&l, s, false, ranks, true, &err), err);
    CHECK_OK(give(&l, s, true, alphas, true, &err), err);
    dt_lora_write(&l, s, NULL, &text);
    CHECK_OK(dt_json_parse(&doc, dt_buf_cstr(&text), text.len, text.len, &err), err);
    const char *const names[] = {"rank_pattern", "alpha_pattern"};
    const char *const wanted[] = {wanted_ranks, wanted_alphas};
    for (int i = 0; i < 2; i++) {
        char *is = cJSON_PrintUnformatted(cJSON_GetObjectItem(doc.root, names[i]));
        CHECK_STR(is, wanted[i]);
        free(is);
    }
    CHECK_OK(dt_lora_read(&again, s, &doc, &err), err);
    for (size_t block = 0; block < BLOCKS; block++)
        for (size_t i = 0; i < DT_BLOCK_TENSORS_MOST; i++)
            if (l.targets >> i & 1) {
                CHECK_EQ(dt_lora_share(&again, block, i).r, dt_lora_share(&l, block, i).r);
                CHECK(dt_lora_share(&again, block, i).alpha == dt_lora_share(&l, block, i).alpha);
            }
    dt_json_finish(&doc);
    dt_buf_finish(&text);
    dt_lora_finish(&l);
    dt_lora_finish(&again);
}

TEST(what_is_written_says_the_same_in_as_few_words_as_it_can)
{
    check_written(&llama, "{\"[qv]_proj\": 9, \"layers.2.mlp.up_proj\": 6, \"o_proj\": 4}",
                  "{\"k_proj\": 0.1}",
                  "{\"q_proj\":9,\"v_proj\":9,\"model.layers.2.mlp.up_proj\":6}",
                  "{\"k_proj\":0.1}");
    check_written(&gpt2, "{\"mlp.c_proj\": 2}", "{\"transformer.h.11.attn.c_attn\": 32}",
                  "{\"mlp.c_proj\":2}", "{\"transformer.h.11.attn.c_attn\":32}");
    check_written(&llama, "{\"q_proj\": 4}", "{\"q_proj\": 8}", "{}", "{}");
}

TEST(patterns_that_cannot_be_are_refused)
{
    static const struct {
        const char *text, *error;
        bool alphas;
    } rows[] = {
        {"[]", "expected names of layers with numbers", false},
        {"{\"q_proj\": 0}", "\"q_proj\": expected a whole number from 1 to 65536", false},
        {"{\"q_proj\": 2.5}", "\"q_proj\": expected a whole number", false},
        {"{\"q_proj\": \"4\"}", "\"q_proj\": expected a whole number", false},
        {"{\"q_proj\": 65537}", "\"q_proj\": expected a whole number", false},
        {"{\"q_proj\": 0}", "\"q_proj\": expected a number above 0, up to 1e+06", true},
        {"{\"q_proj\": 1e-60}", "\"q_proj\": expected a number above 0", true},
        {"{\"q_proj\": 2e6}", "\"q_proj\": expected a number above 0", true},
        {"{\"lm_head\": 4}", "\"lm_head\" means no layer that has an adapter", false},
        {"{\"\": 4}", "\"\" is no name of layers", false},
        {"{\"(?!q)_proj\": 4}", "is no name of layers, and of regular expressions only", false},
        {"{\"q_proj{1,9}\": 4}", "is no name of layers", false},
        {"{\"(q_proj\": 4}", "is no name of layers", false},
        {"{\"[q_proj\": 4}", "is no name of layers", false},
        {"{\"(q)\\\\1\": 4}", "is no name of layers", false},
        {"{\"q_proj\\\\\": 4}", "is no name of layers", false},
        {"{\"q++\": 4}", "is no name of layers", false},
        {"{\"*_proj\": 4}", "is no name of layers", false},
        {"{\"(?:*q)_proj\": 4}", "is no name of layers", false},
        {"{\"q)|(v_proj\": 4}", "is no name of layers", false},
        {"{\"[z-a]_proj\": 4}", "is no name of layers", false},
        {"{\"[]q]_proj\": 4}", "is no name of layers", false},
        {"{\"$+\": 4}", "is no name of layers", false},
        {"{\"(((((q+)+)+)+)+)+_proj\": 4}", "with groups at most 4 deep", false},
        {"{\"[[:alpha:]]_proj\": 4}", "is no name of layers", false},
        {"{\"\\u00e9\": 4}", "is no name of layers", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_lora l = adapters(&llama, NULL);
        struct dt_err err = {0};
        CHECK_ROW("%s", rows[i].text);
        CHECK_FAIL(give(&l, &llama, rows[i].alphas, rows[i].text, true, &err), err, rows[i].error);
        CHECK_EQ(err.code, DT_E_USAGE);
        dt_lora_finish(&l);
    }
}
