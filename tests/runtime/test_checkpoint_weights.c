/* SPDX-License-Identifier: Apache-2.0 */
/* Folders as Hugging Face's programs leave them. */
#include "base/fs.h"
#include "tests/runtime/checkpoints.h"
#include "worker_runtime/ckpt/convert.h"

BEFORE_ALL
{
    folder_make();
}

#define MOST 64

struct folder {
    struct dt_st_tensor t[MOST];
    char names[MOST][128];
    size_t count;
    float value; /* of all elements; 0: as write_file() has them */
};

static struct dt_st_tensor *add(struct folder *f, const char *prefix, const char *name,
                                enum dt_dtype type)
{
    struct dt_st_tensor *t = &f->t[f->count];
    snprintf(f->names[f->count], sizeof *f->names, "%s%s", prefix, name);
    *t = (struct dt_st_tensor){.name = f->names[f->count], .type = type};
    f->count++;
    return t;
}

static uint64_t elements(const struct dt_st_tensor *t)
{
    return (t->end - t->begin) / dt_dtype_size(t->type);
}

/* Tensors FIRST to END of F, which are M's in its order, as a file; element I of the model's
 * payload is I % 251 / 4, which every type holds exactly. */
static void write_file(struct folder *f, size_t first, size_t end, const struct model *m,
                       const char *path)
{
    struct dt_buf out = {0};
    struct dt_err err;
    CHECK_OK(dt_st_header(f->t + first, end - first, NULL, &out, &err), err);
    for (size_t i = first; i < end; i++) {
        size_t n = (size_t)elements(&f->t[i]), at_element = 0;
        for (size_t k = 0; k < m->count && k < i; k++)
            at_element += m->tensors[k].count;
        uint8_t *to = dt_buf_room(&out, n * dt_dtype_size(f->t[i].type));
        for (size_t k = 0; k < n; k++) {
            float v = f->value > 0 ? f->value : (float)((at_element + k) % 251) / 4;
            dt_convert_from_f32(f->t[i].type, &v, to + k * dt_dtype_size(f->t[i].type), 1);
        }
        dt_buf_grew(&out, n * dt_dtype_size(f->t[i].type));
    }
    CHECK_OK(dt_fs_replace(path, out.at, out.len, 0644, &err), err);
    dt_buf_finish(&out);
}

static void add_model(struct folder *f, const struct model *m, const char *prefix,
                      enum dt_dtype type)
{
    for (size_t i = 0; i < m->count; i++) {
        struct dt_st_tensor *t = add(f, prefix, m->tensors[i].name, type);
        t->rank = m->tensors[i].rank;
        for (int d = 0; d < t->rank; d++)
            t->dims[d] = m->tensors[i].dims[d];
    }
}

/* Reads the tensors of FOLDER, each in that many pieces, as ranks that share it would. */
static int read_folder(const char *folder, const struct model *m, int pieces, struct dt_err *err)
{
    struct dt_ckpt_model saved = model_saved(m);
    struct dt_ckpt_weights *w = dt_ckpt_weights_open(folder, &saved, err);
    size_t payload_at = 0;
    int rc = w ? 0 : -1;
    for (size_t i = 0; rc == 0 && i < m->count; payload_at += m->tensors[i++].count) {
        size_t all = m->tensors[i].count, each = all / (size_t)pieces + 1;
        float *to = calloc(all, sizeof *to);
        for (size_t first = 0; rc == 0 && first < all; first += each)
            rc = dt_ckpt_weights_read(w, i, first, all - first < each ? all - first : each,
                                      to + first, err);
        for (size_t k = 0; rc == 0 && k < all; k++) {
            CHECK_ROW("element %zu", payload_at + k);
            CHECK(to[k] * 4 == (float)((payload_at + k) % 251));
        }
        free(to);
    }
    dt_ckpt_weights_close(w);
    return rc;
}

TEST(one_file_of_any_float_type_and_any_prefix)
{
    static const enum dt_dtype types[] = {DT_F32, DT_BF16, DT_F16, DT_F64};
    static const char *const prefixes[] = {"", "transformer.", "model."};
    struct model m = model_make();
    struct dt_err err;
    for (size_t t = 0; t < 4; t++)
        for (size_t p = 0; p < 3; p++) {
            struct folder f = {.count = 0};
            char path[300];
            CHECK_ROW("type %zu, prefix \"%s\"", t, prefixes[p]);
            snprintf(path, sizeof path, "%s/one-%zu-%zu", dir, t, p);
            CHECK_OK(dt_fs_mkdir_p(path, 0777, &err), err);
            add_model(&f, &m, prefixes[p], types[t]);
            strcat(path, "/model.safetensors");
            write_file(&f, 0, f.count, &m, path);
            *strrchr(path, '/') = '\0';
            CHECK_OK(read_folder(path, &m, 1 + (int)(t + p) % 4, &err), err);
        }
    free(m.tensors);
}

/* Of outputs FIRST to END of tensor I, against all elements read at once. */
static void check_norms(const struct dt_ckpt_weights *w, const struct model *m, size_t i,
                        size_t first, size_t end)
{
    const struct dt_tensor *t = &m->tensors[i];
    bool in_out = m->shape.family == DT_GPT2;
    size_t outs = t->dims[in_out], ins = t->dims[!in_out];
    float *x = calloc(t->count, sizeof *x), *norms = calloc(outs, sizeof *norms);
    struct dt_err err = {0};
    CHECK_OK(dt_ckpt_weights_read(w, i, 0, t->count, x, &err), err);
    CHECK_OK(dt_ckpt_weights_norms(w, i, DT_F32, first, end - first, norms, &err), err);
    for (size_t o = first; o < end; o++) {
        double square = 0;
        for (size_t k = 0; k < ins; k++) {
            double one = (double)x[in_out ? k * outs + o : o * ins + k];
            square += one * one;
        }
        CHECK_ROW("%s, output %zu", t->name, o);
        CHECK((double)norms[o - first] * (double)norms[o - first] > square * 0.999999);
        CHECK((double)norms[o - first] * (double)norms[o - first] < square * 1.000001);
    }
    free(x);
    free(norms);
}

TEST(norms_are_of_outputs_and_of_weights_as_they_are_kept)
{
    struct model m = model_make();
    struct dt_ckpt_model saved = model_saved(&m);
    struct dt_err err;
    for (int even = 0; even < 2; even++) {
        struct folder f = {.value = even ? 1.001f : 0};
        char path[300];
        float norm = 0;
        snprintf(path, sizeof path, "%s/norms-%d", dir, even);
        CHECK_OK(dt_fs_mkdir_p(path, 0777, &err), err);
        add_model(&f, &m, "", DT_F32);
        strcat(path, "/model.safetensors");
        write_file(&f, 0, f.count, &m, path);
        *strrchr(path, '/') = '\0';
        struct dt_ckpt_weights *w = dt_ckpt_weights_open(path, &saved, &err);
        CHECK_OK(w ? 0 : -1, err);
        for (size_t i = 0; i < m.count; i++) {
            size_t outs = m.tensors[i].dims[m.shape.family == DT_GPT2];
            if (m.tensors[i].rank < 2 || m.tensors[i].unit != 1)
                continue;
            check_norms(w, &m, i, 0, outs);
            check_norms(w, &m, i, outs / 3, outs - 1);
            CHECK_OK(dt_ckpt_weights_norms(w, i, DT_BF16, 1, 1, &norm, &err), err);
            double all = (double)(m.tensors[i].count / outs);
            CHECK_ROW("%s, whose elements are 1 in bf16: %g", m.tensors[i].name, (double)norm);
            CHECK(!even || ((double)norm * (double)norm > all * 0.99999 &&
                            (double)norm * (double)norm < all * 1.00001));
        }
        dt_ckpt_weights_close(w);
    }
    free(m.tensors);
}

TEST(a_llama_with_and_without_its_head)
{
    struct model m = {.shape = {.family = DT_LLAMA,
                                .layers = 1,
                                .heads = 2,
                                .kv_heads = 1,
                                .width = 6,
                                .head_dim = 3,
                                .inner = 8,
                                .positions = 5,
                                .vocabulary = 11,
                                .norm_eps = 1e-5f,
                                .rope_theta = 10000}};
    struct dt_err err;
    for (int tied = 0; tied < 2; tied++) {
        struct folder f = {.count = 0};
        char path[300];
        m.shape.tied = tied;
        m.count = dt_shape_tensor_count(&m.shape);
        m.tensors = dt_shape_tensors(&m.shape, &err);
        CHECK_OK(m.tensors ? 0 : -1, err);
        add_model(&f, &m, "", DT_BF16);
        CHECK(strncmp(f.names[0], "model.", 6) == 0);
        for (size_t i = 0; tied && i < f.count; i++) /* as a model without its head is saved */
            f.t[i].name += strlen("model.");
        snprintf(path, sizeof path, "%s/llama-%d", dir, tied);
        CHECK_OK(dt_fs_mkdir_p(path, 0777, &err), err);
        strcat(path, "/model.safetensors");
        write_file(&f, 0, f.count, &m, path);
        *strrchr(path, '/') = '\0';
        CHECK_OK(read_folder(path, &m, 3, &err), err);
        free(m.tensors);
    }
}

TEST(shards_with_an_index)
{
    struct model m = model_make();
    struct folder f = {.count = 0};
    struct dt_err err;
    struct dt_buf index = {0};
    add_model(&f, &m, "transformer.", DT_F16);
    CHECK_OK(dt_fs_mkdir_p(at("shards"), 0777, &err), err);
    write_file(&f, 0, 5, &m, at("shards/model-00001-of-00002.safetensors"));
    write_file(&f, 5, f.count, &m, at("shards/model-00002-of-00002.safetensors"));
    dt_buf_put_str(&index, "{\"metadata\":{\"total_size\":1},\"weight_map\":{");
    for (size_t i = 0; i < f.count; i++)
        dt_buf_printf(&index, "%s\"%s\":\"model-0000%d-of-00002.safetensors\"", i ? "," : "",
                      f.names[i], i < 5 ? 1 : 2);
    dt_buf_put_str(&index, "}}");
    const char *path = at("shards/model.safetensors.index.json");
    CHECK_OK(dt_fs_replace(path, index.at, index.len, 0644, &err), err);
    CHECK_OK(read_folder(at("shards"), &m, 3, &err), err);
    CHECK_EQ(unlink(at("shards/model-00002-of-00002.safetensors")), 0);
    CHECK_FAIL(read_folder(at("shards"), &m, 3, &err), err, "model-00002-of-00002.safetensors");
    CHECK_OK(dt_fs_replace(path, "{\"weight_map\":{\"a\":\"../x\"}}", 27, 0644, &err), err);
    CHECK_FAIL(read_folder(at("shards"), &m, 3, &err), err, "names a file that is none");
    CHECK_FAIL(read_folder(dir, &m, 1, &err), err, "neither");
    CHECK(!strstr(err.text, "pytorch_model.bin"));
    CHECK_OK(dt_fs_replace(at("pytorch_model.bin"), "", 0, 0644, &err), err);
    CHECK_FAIL(read_folder(dir, &m, 1, &err), err, "; of its pytorch_model.bin transformers makes");
    dt_buf_finish(&index);
    free(m.tensors);
}

/* With F as the only file of the folder NAME. */
static int read_one(const char *name, struct folder *f, const struct model *m, struct dt_err *err)
{
    char path[300];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    CHECK_OK(dt_fs_mkdir_p(path, 0777, err), *err);
    strcat(path, "/model.safetensors");
    write_file(f, 0, f->count, m, path);
    *strrchr(path, '/') = '\0';
    return read_folder(path, m, 2, err);
}

TEST(masks_and_a_tied_head_are_passed_over)
{
    struct model m = model_make();
    struct folder f = {.count = 0};
    struct dt_err err;
    add_model(&f, &m, "transformer.", DT_F32);
    add(&f, "transformer.", "h.0.attn.bias", DT_U8);
    add(&f, "transformer.", "h.1.attn.masked_bias", DT_F32);
    struct dt_st_tensor *head = add(&f, "", "lm_head.weight", DT_F32);
    head->rank = 2;
    head->dims[0] = 11;
    head->dims[1] = 6;
    CHECK_OK(read_one("tied", &f, &m, &err), err);
    m.shape.tied = false;
    CHECK_FAIL(read_one("tied", &f, &m, &err), err, "tensor lm_head.weight is none of");
    free(m.tensors);
}

TEST(what_does_not_fit_is_named)
{
    struct model m = model_make();
    struct folder whole = {.count = 0}, f;
    struct dt_err err;
    add_model(&whole, &m, "", DT_F32);
    for (size_t i = 0; i < whole.count; i++)
        whole.t[i].name = whole.names[i];
    f = whole;
    f.count--;
    CHECK_FAIL(read_one("less", &f, &m, &err), err, "is missing");
    f = whole;
    add(&f, "", "h.2.ln_1.weight", DT_F32);
    CHECK_FAIL(read_one("more", &f, &m, &err), err, "h.2.ln_1.weight is none of this model's");
    f = whole;
    f.t[0].dims[0]++;
    CHECK_FAIL(read_one("shape", &f, &m, &err), err,
               "has the shape [12, 6], this model's has [11, 6]");
    f = whole;
    f.t[1].type = DT_I32;
    f.t[1].dims[0] = m.tensors[1].dims[0];
    CHECK_FAIL(read_one("type", &f, &m, &err), err, "no float type");
    f = whole;
    struct dt_st_tensor *twice = add(&f, "transformer.", m.tensors[0].name, DT_F32);
    twice->rank = 2;
    twice->dims[0] = 11;
    twice->dims[1] = 6;
    CHECK_FAIL(read_one("twice", &f, &m, &err), err, "are both this model's");
    free(m.tensors);
}
