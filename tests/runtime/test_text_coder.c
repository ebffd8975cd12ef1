/* SPDX-License-Identifier: Apache-2.0 */
/* What a model says behind a prompt is the text that stands there, to the last blank. */
#include "worker_runtime/generate/text_coder.h"

#include "base/fs.h"
#include "tests/lib/folder.h"
#include "worker_runtime/data/chat/template.h"
#include "worker_runtime/saved/saved_model.h"

#define ROWS(t) (sizeof(t) / sizeof *(t))

BEFORE_ALL
{
    folder_make();
}

static const struct dt_shape bytes = {.vocabulary = 320, .bos = {1, {256}}, .eos = {1, {256}}};

/* A folder with the tokenizer of a family, which names END, unless it is NULL, as the end of a
 * text. */
static const char *folder_of(const char *family, const char *end)
{
    struct dt_err err = {0};
    struct dt_buf text = {0};
    char path[600], said[200] = "{}";
    const char *folder = at(family);
    CHECK_OK(dt_fs_mkdir_p(folder, 0755, &err), err);
    snprintf(path, sizeof path, "%s/%s.json", DT_TOKENIZERS_DIR, family);
    CHECK_OK(dt_fs_read(path, (size_t)64 << 20, &text, &err), err);
    snprintf(path, sizeof path, "%s/tokenizer.json", folder);
    CHECK_OK(dt_fs_replace(path, text.at, text.len, 0644, &err), err);
    snprintf(path, sizeof path, "%s/tokenizer_config.json", folder);
    if (end)
        snprintf(said, sizeof said, "{\"eos_token\": \"%s\"}", end);
    CHECK_OK(dt_fs_replace(path, said, strlen(said), 0644, &err), err);
    dt_buf_finish(&text);
    return folder;
}

static struct dt_prompt encode(struct dt_text_coder *c, const char *text)
{
    struct dt_err err = {0};
    struct dt_prompt ids;
    CHECK_OK(dt_text_coder_encode(c, dt_bytes_of(text), &bytes, &ids, &err), err);
    return ids;
}

/* PROMPT's tokens are those that PROMPT and REST begin with. */
static void check_rest(struct dt_text_coder *c, const char *prompt, const char *rest)
{
    char all[200];
    struct dt_buf out = {0};
    snprintf(all, sizeof all, "%s%s", prompt, rest);
    struct dt_prompt whole = encode(c, all), front = encode(c, prompt);
    CHECK(whole.count > front.count);
    CHECK_BYTES(whole.at, front.count * sizeof *front.at, front.at, front.count * sizeof *front.at);
    for (size_t i = front.count; i < whole.count; i++)
        dt_text_coder_put(c, whole.at[i], &out);
    dt_text_coder_end(c, &out);
    CHECK_STR(dt_buf_cstr(&out), rest);
    dt_buf_finish(&out);
    free(whole.at);
    free(front.at);
}

TEST(text_behind_a_prompt_is_the_rest_of_it)
{
    static const char *const families[] = {"gpt2",  "llama2", "llama3", "mistral", "phi3",
                                           "qwen2", "smollm", "tekken", "gemma"};
    struct dt_err err = {0};
    for (size_t i = 0; i < ROWS(families); i++) {
        struct dt_text_coder c;
        CHECK_ROW("%s", families[i]);
        CHECK_OK(dt_text_coder_open(&c, folder_of(families[i], NULL), &err), err);
        check_rest(&c, "one two", " three, four");
        check_rest(&c, "the end.", "\n\nNext");
        dt_text_coder_finish(&c);
    }
}

TEST(bytes_are_tokens_of_models_that_were_trained_on_them)
{
    struct dt_err err = {0};
    struct dt_text_coder c;
    CHECK_OK(dt_text_coder_open(&c, "", &err), err);
    check_rest(&c, "one", " two \xc3\xbc");
    struct dt_prompt none = encode(&c, "");
    CHECK_EQ(none.count, 1);
    CHECK_EQ(none.at[0], 256);
    free(none.at);
    CHECK(dt_text_coder_ends(&c, &bytes, 256));
    CHECK(!dt_text_coder_ends(&c, &bytes, 255));
    dt_text_coder_finish(&c);
}

TEST(a_model_without_a_tokenizer_is_of_bytes_or_refused)
{
    const struct dt_shape end = {.vocabulary = 400, .eos = {1, {256}}};
    const struct dt_shape other = {.vocabulary = 50257, .eos = {1, {50256}}};
    struct dt_err err = {0};
    char out[PATH_MAX];
    const char *own = folder_of("gpt2", NULL);
    CHECK_OK(dt_saved_model_tokenizer(NULL, dir, NULL, &bytes, out, &err), err);
    CHECK_STR(out, "");
    CHECK_OK(dt_saved_model_tokenizer(NULL, dir, NULL, &end, out, &err), err);
    CHECK_STR(out, "");
    CHECK(dt_saved_model_tokenizer(NULL, dir, NULL, &other, out, &err) < 0);
    CHECK(strstr(err.text, "has no tokenizer.json; name the folder of the model's tokenizer by "
                           "--tokenizer") != NULL);
    CHECK_OK(dt_saved_model_tokenizer(NULL, own, NULL, &other, out, &err), err);
    CHECK_STR(out, own);
    CHECK_OK(dt_saved_model_tokenizer("else", own, NULL, &bytes, out, &err), err);
    CHECK_STR(out, "else");
}

TEST(the_tokenizer_of_adapters_is_theirs_or_that_of_the_model_which_they_adapt)
{
    static const char config[] = "{\"base_model_name_or_path\": \"Qwen/Nowhere\"}";
    const struct dt_shape shape = {.vocabulary = 50257, .eos = {1, {50256}}};
    struct dt_err err = {0};
    char out[PATH_MAX], model[PATH_MAX], adapters[PATH_MAX];
    snprintf(model, sizeof model, "%s", folder_of("gpt2", NULL));
    snprintf(adapters, sizeof adapters, "%s", at("adapters"));
    CHECK_OK(dt_fs_mkdir_p(adapters, 0755, &err), err);
    CHECK_OK(dt_fs_replace(at("adapters/adapter_config.json"), config, strlen(config), 0644, &err),
             err);
    CHECK(dt_saved_model_tokenizer(NULL, adapters, NULL, &shape, out, &err) < 0);
    CHECK(strstr(err.text, "Qwen/Nowhere has no tokenizer.json") != NULL);
    CHECK_OK(dt_saved_model_tokenizer(NULL, adapters, model, &shape, out, &err), err);
    CHECK_STR(out, model);
    CHECK_OK(dt_fs_replace(at("adapters/tokenizer.json"), "{}", 2, 0644, &err), err);
    CHECK_OK(dt_saved_model_tokenizer(NULL, adapters, model, &shape, out, &err), err);
    CHECK_STR(out, adapters);
}

/* What the question is asked in, as somebody would write it by hand. */
static void check_question(const char *tokenizer, const char *template, const char *system,
                           const char *whole, const char *end)
{
    struct dt_err err = {0};
    struct dt_text_coder c;
    struct dt_prompt asked;
    CHECK_ROW("%s", template);
    CHECK_OK(dt_text_coder_open(&c, tokenizer, &err), err);
    struct dt_prompt written = encode(&c, whole), last = encode(&c, end);
    CHECK(!dt_text_coder_ends(&c, &(struct dt_shape){0}, last.at[last.count - 1]));
    CHECK_OK(dt_text_coder_ask(&c, dt_template_find(template, &err), system,
                               dt_bytes_of("How many?"), &asked, &err),
             err);
    CHECK_BYTES(asked.at, asked.count * sizeof *asked.at, written.at,
                written.count * sizeof *written.at);
    CHECK(dt_text_coder_ends(&c, &(struct dt_shape){0}, last.at[last.count - 1]));
    CHECK(!dt_text_coder_ends(&c, &(struct dt_shape){0}, asked.at[asked.count - 1]));
    free(asked.at);
    free(written.at);
    free(last.at);
    dt_text_coder_finish(&c);
}

TEST(a_question_ends_where_its_answer_begins)
{
    check_question(folder_of("qwen2", NULL), "chatml", NULL,
                   "<|im_start|>user\nHow many?<|im_end|>\n<|im_start|>assistant\n", "<|im_end|>");
    check_question(
        folder_of("qwen2", NULL), "chatml", "Be brief.",
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHow many?<|im_end|>\n"
        "<|im_start|>assistant\n",
        "<|im_end|>");
    check_question(folder_of("qwen2", NULL), "qwen2", "",
                   "<|im_start|>user\nHow many?<|im_end|>\n<|im_start|>assistant\n", "<|im_end|>");
    check_question(folder_of("llama2", NULL), "llama2", NULL, "[INST] How many? [/INST]", "</s>");
}

TEST(what_cannot_be_asked_is_refused)
{
    struct dt_err err = {0};
    struct dt_text_coder c;
    struct dt_prompt asked;
    CHECK_OK(dt_text_coder_open(&c, folder_of("gpt2", NULL), &err), err);
    CHECK(dt_text_coder_ask(&c, dt_template_find("chatml", &err), NULL, dt_bytes_of("?"), &asked,
                            &err) < 0);
    CHECK(strstr(err.text, "the tokenizer has no token <|im_") != NULL);
    free(asked.at);
    const struct dt_bytes cut = {(const uint8_t *)"How\0many?", 9};
    dt_text_coder_finish(&c);
    CHECK_OK(dt_text_coder_open(&c, folder_of("qwen2", NULL), &err), err);
    CHECK(dt_text_coder_ask(&c, dt_template_find("chatml", &err), NULL, cut, &asked, &err) < 0);
    CHECK(strstr(err.text, "byte 3 of the prompt is 0") != NULL);
    free(asked.at);
    dt_text_coder_finish(&c);
}

TEST(the_end_is_the_models_and_the_tokenizers)
{
    const struct dt_shape shape = {.vocabulary = 50257, .eos = {2, {5, 9}}};
    struct dt_err err = {0};
    struct dt_text_coder c;
    const char *model = folder_of("gpt2", "<|endoftext|>");
    CHECK_OK(dt_text_coder_open(&c, model, &err), err);
    struct dt_prompt none = encode(&c, "");
    CHECK_EQ(none.count, 1);
    CHECK(dt_text_coder_ends(&c, &shape, 5));
    CHECK(dt_text_coder_ends(&c, &shape, 9));
    CHECK(!dt_text_coder_ends(&c, &shape, 6));
    struct dt_prompt front;
    const struct dt_shape no_bos = {.vocabulary = 50257};
    CHECK_OK(dt_text_coder_encode(&c, dt_bytes_of(""), &no_bos, &front, &err), err);
    CHECK_EQ(front.count, 1);
    CHECK(dt_text_coder_ends(&c, &shape, front.at[0]));
    free(none.at);
    free(front.at);
    dt_text_coder_finish(&c);
}
