/* SPDX-License-Identifier: Apache-2.0 */
/* Folders of Hugging Face's that come out of others. */
#include "worker_runtime/export/export.h"

#include "tests/runtime/saved_models.h"
#include "worker_runtime/data/tokenize.h"
#include "worker_runtime/saved/saved_model.h"

#include <math.h>

#define ROWS(t) (sizeof(t) / sizeof *(t))

BEFORE_ALL
{
    folder_make();
}

static const struct dt_shape shape = {
    DT_LLAMA, 2, 4, 2, 12, 4, 10, 30, 50, 1e-6f, 10000, 0.02f, .tied = true, .eos = {2, {7, 9}}};

static float value_of(const struct dt_tensor *t, size_t i)
{
    return (float)(t->unit + 1) / 3 + (float)i / 1000;
}

static float rounded(enum dt_dtype type, float v)
{
    uint8_t bytes[8];
    dt_convert_from_f32(type, &v, bytes, 1);
    dt_convert_to_f32(type, bytes, &v, 1);
    return v;
}

static void check_folder(const char *folder, enum dt_dtype from, enum dt_dtype type)
{
    struct dt_saved_model m;
    struct dt_err err = {0};
    struct dt_buf notes = {0};
    float room[1000];
    CHECK_OK(dt_saved_model_open(&m, folder, NULL, &notes, &err), err);
    CHECK_STR(dt_buf_cstr(&notes), "");
    CHECK_EQ(m.shape.eos.count, 2);
    CHECK_EQ(m.model.count, dt_shape_tensor_count(&shape));
    for (size_t i = 0; i < m.model.count; i++) {
        const struct dt_tensor *t = &m.model.tensors[i];
        CHECK(t->count <= ROWS(room));
        CHECK_EQ(dt_ckpt_weights_type(m.weights, i), type);
        CHECK_OK(dt_ckpt_weights_read(m.weights, i, 0, t->count, room, &err), err);
        for (size_t k = 0; k < t->count; k++) {
            CHECK_ROW("%s[%zu]", t->name, k);
            CHECK(room[k] == rounded(type, rounded(from, value_of(t, k))));
        }
    }
    dt_saved_model_close(&m);
    dt_buf_finish(&notes);
}

TEST(weights_are_the_same_in_any_type)
{
    static const struct {
        enum dt_dtype from;
        enum dt_export_type type;
        enum dt_dtype to;
    } rows[] = {
        {DT_F32, DT_EXPORT_AS_IT_IS, DT_F32}, {DT_BF16, DT_EXPORT_AS_IT_IS, DT_BF16},
        {DT_F16, DT_EXPORT_AS_IT_IS, DT_F16}, {DT_F64, DT_EXPORT_AS_IT_IS, DT_F32},
        {DT_F32, DT_EXPORT_BF16, DT_BF16},    {DT_F32, DT_EXPORT_F16, DT_F16},
        {DT_BF16, DT_EXPORT_F32, DT_F32},
    };
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct dt_err err = {0};
        struct dt_buf notes = {0};
        char from[100], to[100];
        snprintf(from, sizeof from, "%s", at("from"));
        snprintf(to, sizeof to, "%s", at("to/folder"));
        CHECK_ROW("row %zu", i);
        saved_make(from, &shape, rows[i].from, value_of);
        const struct dt_export_options o = {.model = from, .out = to, .type = rows[i].type};
        CHECK_OK(dt_export_hf(&o, &notes, &err), err);
        check_folder(to, rows[i].from, rows[i].to);
        dt_buf_finish(&notes);
    }
}

static float value_with_a_large_one(const struct dt_tensor *t, size_t i)
{
    return t->unit == 1 && i == 3 ? -70000 : value_of(t, i);
}

TEST(a_weight_beyond_16_bits_is_refused_with_its_tensor)
{
    static const struct {
        enum dt_export_type type;
        bool gguf, fits;
    } rows[] = {
        {DT_EXPORT_F16, false, false}, {DT_EXPORT_F16, true, false}, {DT_EXPORT_BF16, false, true},
        {DT_EXPORT_F32, false, true},  {DT_EXPORT_BF16, true, true},
    };
    struct dt_shape of_bytes = shape;
    char from[100];
    snprintf(from, sizeof from, "%s", at("large"));
    of_bytes.vocabulary = DT_BYTE_VOCABULARY; /* a gguf needs no tokenizer then */
    saved_make(from, &of_bytes, DT_F32, value_with_a_large_one);
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct dt_err err = {0};
        struct dt_buf notes = {0};
        char to[100];
        CHECK_ROW("row %zu", i);
        snprintf(to, sizeof to, "%s", at(rows[i].gguf ? "large.gguf" : "large-hf"));
        const struct dt_export_options o = {.model = from, .out = to, .type = rows[i].type};
        int rc = (rows[i].gguf ? dt_export_gguf : dt_export_hf)(&o, &notes, &err);
        if (rows[i].fits) {
            CHECK_OK(rc, err);
        } else {
            CHECK_FAIL(rc, err, "has the weight -70000, which is beyond the numbers");
            CHECK(strstr(err.text, "tensor model.layers.0."));
        }
        dt_buf_finish(&notes);
    }
}

static float value_with_none(const struct dt_tensor *t, size_t i)
{
    return t->unit == 1 && i == 3 ? NAN : value_of(t, i);
}

TEST(weights_that_are_no_numbers_are_refused_with_their_tensor)
{
    struct dt_shape of_bytes = shape;
    char from[100], to[100];
    snprintf(from, sizeof from, "%s", at("none"));
    of_bytes.vocabulary = DT_BYTE_VOCABULARY;
    saved_make(from, &of_bytes, DT_F32, value_with_none);
    for (int gguf = 0; gguf < 2; gguf++) {
        struct dt_err err = {0};
        struct dt_buf notes = {0};
        snprintf(to, sizeof to, "%s", at(gguf ? "none.gguf" : "none-hf"));
        const struct dt_export_options o = {.model = from, .out = to};
        CHECK_ROW("gguf %d", gguf);
        CHECK_FAIL((gguf ? dt_export_gguf : dt_export_hf)(&o, &notes, &err), err, " holds NaN: ");
        CHECK(strstr(err.text, "tensor model.layers.0."));
        dt_buf_finish(&notes);
    }
}

static bool is_there(const char *folder, const char *name)
{
    char path[300];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return dt_fs_exists(path);
}

TEST(the_tokenizer_comes_along_and_nothing_else)
{
    struct dt_err err = {0};
    struct dt_buf text = {0}, notes = {0};
    const char *from = at("from"), *to = at("along"), *other = at("other");
    saved_make(from, &shape, DT_F32, value_of);
    dt_buf_put_str(&text, "{}");
    saved_write(from, "tokenizer.json", &text);
    saved_write(from, "generation_config.json", &text);
    saved_write(from, "README.md", &text);
    struct dt_export_options o = {.model = from, .out = to};
    CHECK_OK(dt_export_hf(&o, &notes, &err), err);
    CHECK(is_there(to, "tokenizer.json") && is_there(to, "generation_config.json"));
    CHECK(!is_there(to, "README.md"));

    CHECK_OK(dt_fs_mkdir_p(other, 0755, &err), err);
    saved_write(other, "vocab.json", &text);
    o.tokenizer = other;
    o.out = to = at("named");
    CHECK_OK(dt_export_hf(&o, &notes, &err), err);
    CHECK(is_there(to, "vocab.json") && !is_there(to, "tokenizer.json"));
    dt_buf_finish(&text);
    dt_buf_finish(&notes);
}

TEST(a_model_that_replaces_another_leaves_none_of_its_files)
{
    struct dt_err err = {0};
    struct dt_buf text = {0}, notes = {0};
    const char *from = at("with"), *bare = at("bare"), *to = at("twice");
    saved_make(from, &shape, DT_F32, value_of);
    saved_make(bare, &shape, DT_F32, value_of);
    dt_buf_put_str(&text, "{}");
    saved_write(from, "tokenizer.json", &text);
    saved_write(from, "chat_template.jinja", &text);
    struct dt_export_options o = {.model = from, .out = to};
    CHECK_OK(dt_export_hf(&o, &notes, &err), err);
    CHECK_STR(dt_buf_cstr(&notes), "");
    saved_write(to, "README.md", &text);
    o.model = bare;
    CHECK_OK(dt_export_hf(&o, &notes, &err), err);
    CHECK(!is_there(to, "tokenizer.json") && !is_there(to, "chat_template.jinja"));
    CHECK(is_there(to, "README.md"));
    CHECK(strstr(dt_buf_cstr(&notes), "of the model that was there: tokenizer.json, "
                                      "chat_template.jinja\n"));

    o.out = to = at("made-ready"); /* by somebody, for this model */
    CHECK_OK(dt_fs_mkdir_p(to, 0755, &err), err);
    saved_write(to, "tokenizer.json", &text);
    CHECK_OK(dt_export_hf(&o, &notes, &err), err);
    CHECK(is_there(to, "tokenizer.json"));
    dt_buf_finish(&text);
    dt_buf_finish(&notes);
}

TEST(a_model_is_not_written_over_itself)
{
    struct dt_err err = {0};
    struct dt_buf notes = {0};
    const char *from = at("from");
    saved_make(from, &shape, DT_F32, value_of);
    struct dt_export_options o = {.model = from, .out = from, .type = DT_EXPORT_F16};
    CHECK(dt_export_hf(&o, &notes, &err) < 0);
    CHECK(strstr(err.text, "is the model and the folder to write") != NULL);
    check_folder(from, DT_F32, DT_F32);

    struct dt_buf latest = {0};
    const char *run = at("run");
    saved_make(at("run/step-00000002"), &shape, DT_F32, value_of);
    dt_buf_put_str(&latest, "step-00000002\n");
    saved_write(run, "latest", &latest);
    dt_buf_finish(&latest);
    o.model = o.out = run;
    CHECK_FAIL(dt_export_hf(&o, &notes, &err), err, "is the model and the folder to write");
    CHECK(!is_there(run, "model.safetensors"));
    o.model = from;
    o.out = at("from/model.safetensors");
    CHECK(dt_export_hf(&o, &notes, &err) < 0);
    o.model = at("nowhere");
    CHECK(dt_export_gguf(&o, &notes, &err) < 0);
    CHECK(strstr(err.text, "nowhere") != NULL);
    dt_buf_finish(&notes);
}

static int names_in(const char *folder)
{
    int n = 0;
    DIR *d = opendir(folder);
    CHECK(d != NULL);
    for (struct dirent *e; (e = readdir(d));)
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

/* What of the weights was written is gone, and nothing else has begun. */
TEST(who_is_told_to_end_leaves_no_part_of_a_file)
{
    static const volatile sig_atomic_t stop = SIGINT;
    struct dt_err err = {0};
    struct dt_buf notes = {0};
    const char *from = at("bare"), *to = at("stopped");
    char file[600];
    saved_make(from, &shape, DT_F32, value_of);
    struct dt_export_options o = {.model = from, .out = to, .stop = &stop};
    CHECK(dt_export_hf(&o, &notes, &err) < 0);
    CHECK(strstr(err.text, "told to end; ") && strstr(err.text, "/stopped is not written"));
    CHECK_EQ(names_in(to), 0);

    struct dt_shape bytes = shape;
    bytes.vocabulary = 320;
    saved_make(from, &bytes, DT_F32, value_of);
    snprintf(file, sizeof file, "%s/model.gguf", to);
    o.out = file;
    CHECK(dt_export_gguf(&o, &notes, &err) < 0);
    CHECK(strstr(err.text, "model.gguf is not written") != NULL);
    CHECK_EQ(names_in(to), 0);
    dt_buf_finish(&notes);
}

TEST(a_failure_leaves_the_model_that_was_there)
{
    static const volatile sig_atomic_t stop = SIGTERM;
    struct dt_shape wider = shape;
    struct dt_err err = {0};
    struct dt_buf notes = {0}, text = {0};
    const char *from = at("wider"), *to = at("before");
    wider.inner *= 2;
    saved_make(from, &wider, DT_F32, value_of);
    dt_buf_put_str(&text, "{}");
    saved_write(from, "tokenizer.json", &text);
    saved_make(to, &shape, DT_F32, value_of);
    const struct dt_export_options o = {.model = from, .out = to, .stop = &stop};
    CHECK(dt_export_hf(&o, &notes, &err) < 0);
    check_folder(to, DT_F32, DT_F32);
    CHECK(!is_there(to, "tokenizer.json"));
    dt_buf_finish(&text);
    dt_buf_finish(&notes);
}
