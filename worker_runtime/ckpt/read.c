/* SPDX-License-Identifier: Apache-2.0 */
/* A checkpoint's files, block by block: a block is read whole, even where a part of it is wanted,
 * as its checksum is that of the whole. */
#include "worker_runtime/ckpt/inside.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/crc32c.h"
#include "base/json.h"
#include "worker_runtime/no_folder.h"

struct blocks {
    const struct dt_st_file *f;
    const struct dt_ckpt_sums *sums;
    uint64_t size; /* of a block */
    uint8_t *room;
    uint64_t held; /* the index of the one in ROOM, + 1; 0: none */
    uint64_t at;   /* where it begins */
    size_t len;
};

static int read_whole(int fd, uint8_t *to, size_t len, uint64_t at, struct dt_err *err)
{
    for (size_t done = 0; done < len;) {
        ssize_t n = pread(fd, to + done, len - done, (off_t)(at + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot read byte %" PRIu64, at + done);
        if (n == 0)
            return dt_err_set(err, DT_E_RUNTIME, "it ends at byte %" PRIu64, at + done);
        done += (size_t)n;
    }
    return 0;
}

/* Says what stands in the block that is bad. */
static int damaged(const struct blocks *b, uint32_t found, uint32_t wanted, struct dt_err *err)
{
    const struct dt_st_tensor *first = NULL, *last = NULL;
    char what[240];
    for (size_t i = 0; i < b->f->count; i++) {
        const struct dt_st_tensor *t = &b->f->tensors[i];
        if (b->f->data_at + t->end <= b->at || b->f->data_at + t->begin >= b->at + b->len)
            continue;
        first = first ? first : t;
        last = t;
    }
    if (!first)
        snprintf(what, sizeof what, "the header stands");
    else if (first == last)
        snprintf(what, sizeof what, "tensor %.95s stands", first->name);
    else
        snprintf(what, sizeof what, "tensors %.95s to %.95s stand", first->name, last->name);
    return dt_err_set(err, DT_E_RUNTIME,
                      "bytes %" PRIu64 " to %" PRIu64 ", where %s, are damaged (checksum %08" PRIx32
                      ", written with %08" PRIx32 "); take an older checkpoint",
                      b->at, b->at + b->len, what, found, wanted);
}

/* The block of index I in ROOM, and as it was written. */
static int hold(struct blocks *b, uint64_t i, struct dt_err *err)
{
    if (b->held == i + 1)
        return 0;
    b->held = 0;
    b->at = i * b->size;
    b->len = (size_t)(b->sums->bytes - b->at < b->size ? b->sums->bytes - b->at : b->size);
    if (read_whole(b->f->fd, b->room, b->len, b->at, err) < 0)
        return -1;
    uint32_t found = dt_crc32c(0, (struct dt_bytes){b->room, b->len});
    if (found != b->sums->crc[i])
        return damaged(b, found, b->sums->crc[i], err);
    b->held = i + 1;
    return 0;
}

/* LEN bytes of the file from AT on. TO NULL: they are verified only. */
static int take(struct blocks *b, uint64_t at, uint64_t len, void *to, struct dt_err *err)
{
    uint8_t *p = to;
    while (len) {
        if (hold(b, at / b->size, err) < 0)
            return -1;
        size_t skip = (size_t)(at - b->at), n = b->len - skip;
        n = n < len ? n : (size_t)len;
        if (p) {
            memcpy(p, b->room + skip, n);
            p += n;
        }
        at += n;
        len -= n;
    }
    return 0;
}

static int blocks_init(struct blocks *b, const struct dt_st_file *f, const struct dt_manifest *m,
                       enum dt_ckpt_file file, struct dt_err *err)
{
    const struct dt_ckpt_sums *sums = &m->files[file];
    size_t room = (size_t)(sums->bytes < m->block_bytes ? sums->bytes : m->block_bytes);
    *b = (struct blocks){.f = f, .sums = sums, .size = m->block_bytes, .room = malloc(room)};
    if (f->size != sums->bytes)
        return dt_err_set(err, DT_E_RUNTIME, "it has changed while it was looked at");
    return b->room ? 0 : dt_err_set(err, DT_E_MEMORY, "no memory for a block of %zu bytes", room);
}

/* F holds the model's tensors as float32 in the order of payload space, so that a place in that is
 * a place in the file. */
static int check_tensors(const struct dt_st_file *f, const struct dt_ckpt_model *model,
                         struct dt_err *err)
{
    const struct dt_tensor *tensors = model->tensors;
    if (f->count != model->count)
        return dt_err_set(err, DT_E_RUNTIME, "it has %zu tensors, this model has %zu", f->count,
                          model->count);
    for (size_t i = 0; i < model->count; i++) {
        const struct dt_st_tensor *t = dt_st_find(f, tensors[i].name);
        uint64_t begin = i ? f->tensors[i - 1].end : 0;
        bool same = t && t->type == DT_F32 && t->rank == tensors[i].rank && t->begin == begin;
        for (int d = 0; same && d < t->rank; d++)
            same = t->dims[d] == tensors[i].dims[d];
        if (!t)
            return dt_err_set(err, DT_E_RUNTIME, "tensor %s is missing", tensors[i].name);
        if (!same)
            return dt_err_set(err, DT_E_RUNTIME,
                              "tensor %s has another shape, type or place than this model's",
                              tensors[i].name);
    }
    return 0;
}

static int read_stretches(struct blocks *b, const struct dt_zero_state *out, float *to,
                          struct dt_err *err)
{
    struct dt_stretch s;
    /* The header, by one of all. */
    if (out->rank == 0 && take(b, 0, b->f->data_at, NULL, err) < 0)
        return -1;
    for (size_t i = 0; dt_layout_owned(out->layout, out->rank, &i, &s);)
        if (take(b, b->f->data_at + s.payload_at * sizeof *to, s.count * sizeof *to,
                 to + s.shard_at, err) < 0)
            return -1;
    return 0;
}

static int open_file(struct dt_st_file *f, const char *path, const struct dt_manifest *m,
                     enum dt_ckpt_file file, char name[PATH_MAX], struct dt_err *err)
{
    if (dt_ckpt_join_path(name, path, dt_manifest_file_name(m, file), err) < 0)
        return -1;
    return dt_st_open(f, name, err);
}

/* Our own files are nobody's wrong usage, whatever the reader of such files calls what is wrong. */
static int not_usage(const char *name, struct dt_err *err)
{
    if (err && err->code != DT_E_MEMORY)
        err->code = DT_E_RUNTIME;
    return name ? dt_err_wrap(err, "%s", name) : -1;
}

/* FILE's part of the rank that OUT is for, into TO. */
static int read_file(const char *path, const struct dt_manifest *m, enum dt_ckpt_file file,
                     const struct dt_ckpt_model *model, const struct dt_zero_state *out, float *to,
                     struct dt_err *err)
{
    struct dt_st_file f;
    struct blocks b = {.room = NULL};
    char name[PATH_MAX];
    if (open_file(&f, path, m, file, name, err) < 0)
        return not_usage(NULL, err);
    int rc = check_tensors(&f, model, err);
    if (rc == 0)
        rc = blocks_init(&b, &f, m, file, err);
    if (rc == 0)
        rc = read_stretches(&b, out, to, err);
    free(b.room);
    dt_st_close(&f);
    return rc < 0 ? not_usage(name, err) : 0;
}

/* -- the model -------------------------------------------------------------------------------- */

static int differs(struct dt_err *err, const char *what, double there, double here)
{
    return dt_err_set(err, DT_E_USAGE,
                      "the checkpoint's model has %s %.9g, this run's has %.9g; give another "
                      "folder to start anew",
                      what, there, here);
}

/* Another way to scale rotary positions is no other model where they turn alike. */
static bool same_rotation(const struct dt_shape *there, const struct dt_shape *here)
{
    float a[DT_HEAD_DIM_MOST / 2], b[DT_HEAD_DIM_MOST / 2];
    if (here->family == DT_GPT2)
        return true;
    dt_rope_speeds(&there->rope, there->rope_theta, here->head_dim, a);
    dt_rope_speeds(&here->rope, here->rope_theta, here->head_dim, b);
    float scales[] = {dt_rope_scale(&there->rope), dt_rope_scale(&here->rope)};
    return memcmp(a, b, here->head_dim / 2 * sizeof *a) == 0 &&
           memcmp(&scales[0], &scales[1], sizeof scales[0]) == 0;
}

static int compare_shapes(const struct dt_shape *there, const struct dt_shape *here,
                          struct dt_err *err)
{
    const struct {
        const char *what;
        double there, here;
    } rows[] = {
        {"layers", (double)there->layers, (double)here->layers},
        {"heads", (double)there->heads, (double)here->heads},
        {"key-value heads", (double)there->kv_heads, (double)here->kv_heads},
        {"width", (double)there->width, (double)here->width},
        {"head size", (double)there->head_dim, (double)here->head_dim},
        {"inner width", (double)there->inner, (double)here->inner},
        {"positions", (double)there->positions, (double)here->positions},
        {"vocabulary", (double)there->vocabulary, (double)here->vocabulary},
        {"norm epsilon", (double)there->norm_eps, (double)here->norm_eps},
        {"rope theta", (double)there->rope_theta, (double)here->rope_theta},
        {"window", (double)there->window, (double)here->window},
        {"layers without a window", (double)there->full_layers, (double)here->full_layers},
        {"layers from one without a window to the next", (double)there->full_every,
         (double)here->full_every},
        {"rope theta of layers with a window", (double)there->local_theta,
         (double)here->local_theta},
        {"query scalar", (double)there->query_scalar, (double)here->query_scalar},
        {"cap of scores", (double)there->score_cap, (double)here->score_cap},
        {"cap of logits", (double)there->logit_cap, (double)here->logit_cap},
        {"tied embeddings", there->tied, here->tied},
        {"experts", (double)there->experts, (double)here->experts},
        {"experts for a token", (double)there->expert_picks, (double)here->expert_picks},
        {"inner width of an expert", (double)there->expert_inner, (double)here->expert_inner},
        {"inner width of the shared expert", (double)there->shared_inner,
         (double)here->shared_inner},
        {"norm_topk_prob", there->weigh_picks, here->weigh_picks},
    };
    if (there->family != here->family)
        return dt_err_set(err, DT_E_USAGE, "the checkpoint's model is of another family");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].there < rows[i].here || rows[i].there > rows[i].here)
            return differs(err, rows[i].what, rows[i].there, rows[i].here);
    if (!same_rotation(there, here))
        return dt_err_set(err, DT_E_USAGE,
                          "the checkpoint's model scales rotary positions in another way");
    return 0;
}

static int compare_adapters(const struct dt_lora *there, const struct dt_lora *here,
                            struct dt_err *err)
{
    const struct {
        const char *what;
        double there, here;
    } rows[] = {
        {"lora.r", (double)there->r, (double)here->r},
        {"lora.alpha", (double)there->alpha, (double)here->alpha},
        {"lora.use_rslora", there->rslora, here->rslora},
        {"lora.use_dora", there->dora, here->dora},
    };
    if (there->saves_embedding != here->saves_embedding || there->saves_head != here->saves_head)
        return dt_err_set(err, DT_E_USAGE,
                          "the checkpoint has other modules than lora.modules_to_save");
    if (there->targets != here->targets)
        return dt_err_set(err, DT_E_USAGE,
                          "the checkpoint's adapters are of other layers than lora.target_modules");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].there < rows[i].here || rows[i].there > rows[i].here)
            return differs(err, rows[i].what, rows[i].there, rows[i].here);
    return 0;
}

/* The targets are alike by now. */
static int compare_shares(const struct dt_lora *there, const struct dt_lora *here,
                          const struct dt_shape *s, struct dt_err *err)
{
    for (size_t block = 0; block < s->layers; block++)
        for (size_t i = 0; i < DT_BLOCK_TENSORS_MOST; i++) {
            if (!(here->targets >> i & 1))
                continue;
            const struct dt_lora_share was = dt_lora_share(there, block, i);
            const struct dt_lora_share is = dt_lora_share(here, block, i);
            if (was.r != is.r)
                return differs(err, "lora.rank_pattern of a layer", (double)was.r, (double)is.r);
            if (was.alpha < is.alpha || was.alpha > is.alpha)
                return differs(err, "lora.alpha_pattern of a layer", (double)was.alpha,
                               (double)is.alpha);
        }
    return 0;
}

static int check_config(const struct dt_json *doc, const struct dt_ckpt_model *model,
                        struct dt_err *err)
{
    struct dt_shape shape;
    struct dt_lora lora = {0};
    if (!model->lora)
        return dt_shape_read(&shape, doc, NULL, NULL, err) < 0
                   ? -1
                   : compare_shapes(&shape, model->shape, err);
    int rc = dt_lora_read(&lora, model->shape, doc, err);
    if (rc == 0)
        rc = compare_adapters(&lora, model->lora, err);
    if (rc == 0)
        rc = compare_shares(&lora, model->lora, model->shape, err);
    dt_lora_finish(&lora);
    return rc;
}

/* One kind of checkpoint is not the other, whatever else is right about it. */
static int check_kind(const char *path, const struct dt_manifest *m,
                      const struct dt_ckpt_model *model, struct dt_err *err)
{
    if (m->adapters && !model->lora)
        return dt_err_set(err, DT_E_USAGE,
                          "%s holds adapters, and this run trains the whole model; write its "
                          "\"lora\" block, or another train.save_dir",
                          path);
    if (!m->adapters && model->lora)
        return dt_err_set(err, DT_E_USAGE,
                          "%s holds a whole model, and this run trains adapters; to adapt that "
                          "model, name it by model.weights, and take another train.save_dir",
                          path);
    return 0;
}

static int check_model(const char *path, const struct dt_manifest *m, struct dt_buf *config,
                       const struct dt_ckpt_model *model, struct dt_err *err)
{
    struct dt_json doc;
    if (check_kind(path, m, model, err) < 0)
        return -1;
    if (!config->len)
        return dt_err_set(err, DT_E_USAGE, "%s has no config.json: no transformer was saved there",
                          path);
    int rc = dt_json_parse(&doc, (const char *)config->at, config->len, config->len, err);
    if (rc == 0)
        rc = check_config(&doc, model, err);
    dt_json_finish(&doc);
    return rc < 0 ? dt_err_wrap(err, "%s/%s", path, dt_manifest_file_name(m, DT_FILE_CONFIG)) : 0;
}

/* -- all of it -------------------------------------------------------------------------------- */

static void keep_state(const struct dt_ckpt_state *from, struct dt_ckpt_state *to)
{
    struct dt_loss_scaler configured = to->scaler;
    *to = *from;
    to->scaler.dynamic = configured.dynamic;
    to->scaler.consecutive_hysteresis = configured.consecutive_hysteresis;
    to->scaler.min_scale = configured.min_scale;
    to->scaler.window = configured.window;
    to->scaler.hysteresis = configured.hysteresis;
}

static int read_all(const char *path, const struct dt_manifest *m,
                    const struct dt_ckpt_model *model, const struct dt_zero_state *out,
                    struct dt_err *err)
{
    enum dt_ckpt_file master = dt_manifest_master(m->model_type);
    if (read_file(path, m, master, model, out, out->master, err) < 0 ||
        read_file(path, m, DT_FILE_EXP_AVG, model, out, out->exp_avg, err) < 0)
        return -1;
    return read_file(path, m, DT_FILE_EXP_AVG_SQ, model, out, out->exp_avg_sq, err);
}

int dt_ckpt_read(const char *path, const struct dt_ckpt_model *model,
                 const struct dt_zero_state *out, struct dt_ckpt_state *s, struct dt_err *err)
{
    struct dt_manifest m;
    struct dt_buf config = {0};
    int rc = dt_ckpt_look(path, &m, &config, err);
    if (rc == 0) {
        if (model->shape)
            rc = check_model(path, &m, &config, model, err);
        if (rc == 0)
            rc = read_all(path, &m, model, out, err);
        if (rc == 0) {
            keep_state(&m.state, s);
            *out->steps = m.state.optimizer_steps;
        }
        dt_manifest_finish(&m);
    }
    dt_buf_finish(&config);
    return rc;
}

static int verify_file(const char *path, const struct dt_manifest *m, enum dt_ckpt_file file,
                       struct dt_err *err)
{
    struct dt_st_file f;
    struct blocks b;
    char name[PATH_MAX];
    if (open_file(&f, path, m, file, name, err) < 0)
        return -1;
    int rc = blocks_init(&b, &f, m, file, err);
    if (rc == 0)
        rc = take(&b, 0, f.size, NULL, err);
    free(b.room);
    dt_st_close(&f);
    return rc < 0 ? dt_err_wrap(err, "%s", name) : 0;
}

/* A folder that never was one is not damaged. */
static int check_is_one(const char *path, struct dt_err *err)
{
    char file[PATH_MAX];
    if (dt_ckpt_join_path(file, path, DT_CKPT_STATE, err) < 0)
        return -1;
    if (dt_is_missing(path))
        return dt_err_set(err, DT_E_RUNTIME, "there is no folder %.200s", path);
    if (dt_is_missing(file))
        return dt_err_set(err, DT_E_RUNTIME,
                          "%.200s is no checkpoint, and no `latest` in it names one: there is no "
                          "%s in it",
                          path, DT_CKPT_STATE);
    return 0;
}

int dt_ckpt_verify(const char *path, struct dt_err *err)
{
    struct dt_manifest m;
    int rc = 0;
    if (check_is_one(path, err) < 0)
        return -1;
    if (dt_ckpt_look(path, &m, NULL, err) < 0) /* which verifies config.json */
        return -1;
    for (int f = 0; f < DT_CKPT_FILES && rc == 0; f++)
        if (m.files[f].bytes && f != DT_FILE_CONFIG)
            rc = verify_file(path, &m, f, err);
    dt_manifest_finish(&m);
    return rc;
}
