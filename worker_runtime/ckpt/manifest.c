/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/ckpt/manifest.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/base64.h"
#include "base/crc32c.h"
#include "base/json.h"
#include "base/json_write.h"
#include "worker_runtime/ckpt/safetensors.h"

#define FORMAT "dtrun checkpoint"
#define VERSION 2
#define FLAT_VERSION 1 /* is read, too */
#define TRAILER_LEN 25 /* of: "crc32c": "xxxxxxxx"\n}\n with two spaces in front */
#define EXACT_MAX ((int64_t)1 << 53)

const char *dt_ckpt_file_name(bool adapters, enum dt_ckpt_file f)
{
    if (adapters && f == DT_FILE_MODEL)
        return DT_CKPT_ADAPTER;
    if (adapters && f == DT_FILE_CONFIG)
        return "adapter_config.json";
    static const char *const names[DT_CKPT_FILES] = {
        "model.safetensors",
        DT_CKPT_OPTIMIZER "/master.safetensors",
        DT_CKPT_OPTIMIZER "/exp_avg.safetensors",
        DT_CKPT_OPTIMIZER "/exp_avg_sq.safetensors",
        "config.json",
    };
    return names[f];
}

const char *dt_manifest_file_name(const struct dt_manifest *m, enum dt_ckpt_file f)
{
    const char *name = dt_ckpt_file_name(m->adapters, f), *slash = strchr(name, '/');
    return m->flat && slash ? slash + 1 : name;
}

enum dt_ckpt_file dt_manifest_master(enum dt_dtype model_type)
{
    return model_type == DT_F32 ? DT_FILE_MODEL : DT_FILE_MASTER;
}

void dt_manifest_finish(struct dt_manifest *m)
{
    for (int i = 0; i < DT_CKPT_FILES; i++)
        free(m->files[i].crc);
    memset(m, 0, sizeof *m);
}

int dt_manifest_size(struct dt_manifest *m, enum dt_ckpt_file f, uint64_t bytes, struct dt_err *err)
{
    struct dt_ckpt_sums *s = &m->files[f];
    s->bytes = bytes;
    s->blocks = (size_t)((bytes + m->block_bytes - 1) / m->block_bytes);
    s->crc = calloc(s->blocks + 1, sizeof *s->crc);
    return s->crc ? 0 : dt_err_set(err, DT_E_MEMORY, "no memory for checksums");
}

/* -- writing ---------------------------------------------------------------------------------- */

static void put_scaler(struct dt_json_writer *w, const struct dt_ckpt_state *s)
{
    dt_json_put_object(w, "loss_scale");
    dt_json_put_number(w, "scale", s->scaler.scale);
    dt_json_put_int(w, "hysteresis_left", s->scaler.hysteresis_left);
    dt_json_put_int(w, "iteration", s->scaler.iteration);
    dt_json_put_int(w, "last_overflow", s->scaler.last_overflow);
    dt_json_put_end(w);
}

static void put_best(struct dt_json_writer *w, const struct dt_ckpt_best *b)
{
    dt_json_put_object(w, "validations");
    dt_json_put_int(w, "last_step", b->validated);
    dt_json_put_int(w, "no_better", b->worse);
    if (b->mark)
        dt_json_put_uint(w, "mark", b->mark);
    if (b->step) {
        dt_json_put_int(w, "best_step", b->step);
        dt_json_put_number(w, "best_loss", b->loss);
    }
    dt_json_put_end(w);
}

static void put_own(struct dt_json_writer *w, const struct dt_ckpt_state *s)
{
    struct dt_buf text = {0};
    dt_base64_write(&text, (struct dt_bytes){s->own, s->own_size});
    dt_json_put_text(w, "own", dt_buf_cstr(&text));
    w->out->bad = w->out->bad || text.bad;
    dt_buf_finish(&text);
}

/* What may be above 2^53 is written as text: JSON's numbers are exact to there only. */
static void put_state(struct dt_json_writer *w, const struct dt_ckpt_state *s)
{
    dt_json_put_int(w, "step", s->step);
    dt_json_put_int(w, "tokens", s->tokens);
    dt_json_put_raw(w, "data_position", "\"%" PRIu64 "\"", s->data_position);
    dt_json_put_raw(w, "seed", "\"%" PRIu64 "\"", s->seed);
    dt_json_put_int(w, "train_batch", s->train_batch);
    if (s->sequence_length) {
        dt_json_put_int(w, "sequence_length", s->sequence_length);
        dt_json_put_int(w, "data_tokens", s->data_tokens);
        dt_json_put_raw(w, "data_mark", "\"%" PRIu32 "\"", s->data_mark);
    }
    if (s->shuffled)
        dt_json_put_bool(w, "shuffled", s->shuffled > 0);
    if (s->packed)
        dt_json_put_bool(w, "packed", s->packed > 0);
    dt_json_put_int(w, "optimizer_steps", s->optimizer_steps);
    dt_json_put_int(w, "schedule_steps", s->schedule_steps);
    put_scaler(w, s);
    if (isfinite(s->last_loss))
        dt_json_put_number(w, "last_loss", s->last_loss);
    if (s->best.validated)
        put_best(w, &s->best);
    dt_json_put_int(w, "world", s->world);
    dt_json_put_int(w, "stage", s->stage);
    if (s->tensor > 1)
        dt_json_put_int(w, "tensor", s->tensor);
    if (s->pipeline > 1)
        dt_json_put_int(w, "pipeline", s->pipeline);
    if (s->context > 1)
        dt_json_put_int(w, "context", s->context);
    dt_json_put_text(w, "run_id", s->run_id);
    dt_json_put_int(w, "round", s->round);
    if (s->job_mark)
        dt_json_put_raw(w, "job_mark", "\"%" PRIu64 "\"", s->job_mark);
    dt_json_put_array(w, "micro_steps");
    for (int i = 0; i < s->micro_steps_count; i++)
        dt_json_put_int(w, NULL, s->micro_steps[i]);
    dt_json_put_end(w);
    if (s->own_size)
        put_own(w, s);
}

static void put_file(struct dt_json_writer *w, const char *name, const struct dt_ckpt_sums *s)
{
    dt_json_put_object(w, name);
    dt_json_put_uint(w, "bytes", s->bytes);
    dt_json_put_array(w, "crc32c");
    for (size_t i = 0; i < s->blocks; i++)
        dt_json_put_raw(w, NULL, "\"%08" PRIx32 "\"", s->crc[i]);
    dt_json_put_end(w);
    dt_json_put_end(w);
}

static void trailer(char out[TRAILER_LEN + 1], struct dt_bytes before)
{
    snprintf(out, TRAILER_LEN + 1, "  \"crc32c\": \"%08" PRIx32 "\"\n}\n", dt_crc32c(0, before));
}

void dt_manifest_write(const struct dt_manifest *m, struct dt_buf *out)
{
    char end[TRAILER_LEN + 1];
    size_t at = out->len;
    struct dt_json_writer w = {.out = out, .style = DT_JSON_SPACED, .lines = 2};
    dt_json_put_object(&w, NULL);
    dt_json_put_text(&w, "format", FORMAT);
    dt_json_put_int(&w, "version", VERSION);
    put_state(&w, &m->state);
    dt_json_put_text(&w, "model_type", dt_st_type_name(m->model_type));
    dt_json_put_text(&w, "master", dt_manifest_file_name(m, dt_manifest_master(m->model_type)));
    dt_json_put_uint(&w, "block_bytes", m->block_bytes);
    dt_json_put_object(&w, "files");
    for (int i = 0; i < DT_CKPT_FILES; i++)
        if (m->files[i].bytes)
            put_file(&w, dt_manifest_file_name(m, i), &m->files[i]);
    dt_json_put_end(&w);
    dt_buf_put_str(out, ",\n"); /* the trailer is the last member, and sums what stands before it */
    if (out->bad)
        return;
    trailer(end, (struct dt_bytes){out->at + at, out->len - at});
    dt_buf_put_str(out, end);
}

/* -- reading ---------------------------------------------------------------------------------- */

static int read_u64(const struct dt_json *doc, const char *name, uint64_t *out, struct dt_err *err)
{
    const char *text;
    char *end;
    if (dt_json_string(doc, NULL, name, &text, err) < 0)
        return -1;
    *out = strtoull(text, &end, 10);
    return *text && !*end ? 0 : dt_err_set(err, DT_E_USAGE, "%s: no number", name);
}

static int read_small(const struct dt_json *doc, const struct cJSON *object, const char *name,
                      int *out, struct dt_err *err)
{
    int64_t v;
    if (dt_json_int(doc, object, name, INT32_MIN, INT32_MAX, &v, err) < 0)
        return -1;
    *out = (int)v;
    return 0;
}

static int read_count(const struct dt_json *doc, const char *name, int64_t *out, struct dt_err *err)
{
    return dt_json_int(doc, NULL, name, 0, EXACT_MAX, out, err);
}

static int read_scaler(const struct dt_json *doc, struct dt_loss_scaler *s, struct dt_err *err)
{
    const struct cJSON *o;
    if (dt_json_object(doc, NULL, "loss_scale", &o, err) < 0 ||
        dt_json_number(doc, o, "scale", &s->scale, err) < 0 ||
        read_small(doc, o, "hysteresis_left", &s->hysteresis_left, err) < 0 ||
        dt_json_int(doc, o, "iteration", -EXACT_MAX, EXACT_MAX, &s->iteration, err) < 0)
        return -1;
    return dt_json_int(doc, o, "last_overflow", -EXACT_MAX, EXACT_MAX, &s->last_overflow, err);
}

static int read_micro_steps(const struct dt_json *doc, struct dt_ckpt_state *s, struct dt_err *err)
{
    const struct cJSON *array;
    int most = (int)(sizeof s->micro_steps / sizeof *s->micro_steps);
    if (dt_json_array(doc, NULL, "micro_steps", &array, err) < 0)
        return -1;
    for (const struct cJSON *c = dt_json_first(array); c; c = dt_json_next(c)) {
        if (s->micro_steps_count == most || !cJSON_IsNumber(c))
            return dt_err_set(err, DT_E_USAGE, "micro_steps: expected up to %d numbers", most);
        s->micro_steps[s->micro_steps_count++] = c->valueint;
    }
    return 0;
}

static int read_own(const struct dt_json *doc, struct dt_ckpt_state *s, struct dt_err *err)
{
    const char *text;
    struct dt_buf own = {0};
    if (!dt_json_has(doc->root, "own"))
        return 0;
    int rc = dt_json_string(doc, NULL, "own", &text, err);
    if (rc == 0)
        rc = dt_base64_read(dt_bytes_of(text), &own, err);
    if (rc == 0 && own.len > sizeof s->own)
        rc = dt_err_set(err, DT_E_USAGE, "own: more than %zu bytes", sizeof s->own);
    if (rc == 0 && own.len)
        memcpy(s->own, own.at, own.len);
    s->own_size = rc == 0 ? own.len : 0;
    dt_buf_finish(&own);
    return rc;
}

/* 1 or -1; 0: it is not there. */
static int read_whether(const struct dt_json *doc, const char *name, int *out, struct dt_err *err)
{
    bool yes = false;
    *out = 0;
    if (!dt_json_has(doc->root, name))
        return 0;
    if (dt_json_bool(doc, NULL, name, &yes, err) < 0)
        return -1;
    *out = yes ? 1 : -1;
    return 0;
}

/* Not there in what programs of other people save, nor in older checkpoints. */
static int read_data(const struct dt_json *doc, struct dt_ckpt_state *s, struct dt_err *err)
{
    uint64_t mark;
    if (read_whether(doc, "shuffled", &s->shuffled, err) < 0 ||
        read_whether(doc, "packed", &s->packed, err) < 0)
        return -1;
    if (!dt_json_has(doc->root, "sequence_length"))
        return 0;
    if (read_count(doc, "sequence_length", &s->sequence_length, err) < 0 ||
        read_count(doc, "data_tokens", &s->data_tokens, err) < 0 ||
        read_u64(doc, "data_mark", &mark, err) < 0)
        return -1;
    s->data_mark = (uint32_t)mark;
    return 0;
}

/* Not there where no validation was judged. */
static int read_best(const struct dt_json *doc, struct dt_ckpt_best *b, struct dt_err *err)
{
    const struct cJSON *o;
    if (!dt_json_has(doc->root, "validations"))
        return 0;
    if (dt_json_object(doc, NULL, "validations", &o, err) < 0 ||
        dt_json_int(doc, o, "last_step", 1, EXACT_MAX, &b->validated, err) < 0 ||
        dt_json_int(doc, o, "no_better", 0, EXACT_MAX, &b->worse, err) < 0)
        return -1;
    if (dt_json_has(o, "mark")) {
        int64_t mark;
        if (dt_json_int(doc, o, "mark", 1, UINT32_MAX, &mark, err) < 0)
            return -1;
        b->mark = (uint64_t)mark;
    }
    if (!dt_json_has(o, "best_step"))
        return 0;
    if (dt_json_int(doc, o, "best_step", 1, EXACT_MAX, &b->step, err) < 0)
        return -1;
    return dt_json_number(doc, o, "best_loss", &b->loss, err);
}

static int read_state(const struct dt_json *doc, struct dt_ckpt_state *s, struct dt_err *err)
{
    const char *run_id;
    s->last_loss = NAN;
    if (read_count(doc, "step", &s->step, err) < 0 ||
        read_count(doc, "tokens", &s->tokens, err) < 0 ||
        read_u64(doc, "data_position", &s->data_position, err) < 0 ||
        read_u64(doc, "seed", &s->seed, err) < 0 ||
        read_count(doc, "train_batch", &s->train_batch, err) < 0 ||
        read_count(doc, "optimizer_steps", &s->optimizer_steps, err) < 0 ||
        dt_json_int(doc, NULL, "schedule_steps", -1, EXACT_MAX, &s->schedule_steps, err) < 0 ||
        read_scaler(doc, &s->scaler, err) < 0 ||
        read_small(doc, NULL, "world", &s->world, err) < 0 ||
        read_small(doc, NULL, "stage", &s->stage, err) < 0 ||
        (dt_json_has(doc->root, "tensor") &&
         read_small(doc, NULL, "tensor", &s->tensor, err) < 0) ||
        (dt_json_has(doc->root, "pipeline") &&
         read_small(doc, NULL, "pipeline", &s->pipeline, err) < 0) ||
        (dt_json_has(doc->root, "context") &&
         read_small(doc, NULL, "context", &s->context, err) < 0) ||
        dt_json_string(doc, NULL, "run_id", &run_id, err) < 0 ||
        dt_json_int(doc, NULL, "round", -EXACT_MAX, EXACT_MAX, &s->round, err) < 0)
        return -1;
    snprintf(s->run_id, sizeof s->run_id, "%s", run_id);
    if (dt_json_has(doc->root, "last_loss") &&
        dt_json_number(doc, NULL, "last_loss", &s->last_loss, err) < 0)
        return -1;
    if (dt_json_has(doc->root, "job_mark") && read_u64(doc, "job_mark", &s->job_mark, err) < 0)
        return -1;
    if (read_data(doc, s, err) < 0 || read_best(doc, &s->best, err) < 0 ||
        read_own(doc, s, err) < 0)
        return -1;
    return read_micro_steps(doc, s, err);
}

static int read_sums(struct dt_manifest *m, enum dt_ckpt_file f, const struct dt_json *doc,
                     const struct cJSON *file, struct dt_err *err)
{
    int64_t bytes;
    const struct cJSON *array;
    if (dt_json_int(doc, file, "bytes", 1, EXACT_MAX, &bytes, err) < 0 ||
        dt_json_array(doc, file, "crc32c", &array, err) < 0)
        return -1;
    uint64_t blocks = ((uint64_t)bytes + m->block_bytes - 1) / m->block_bytes;
    if (blocks > DT_MANIFEST_MAX || (uint64_t)cJSON_GetArraySize(array) != blocks)
        return dt_err_set(err, DT_E_USAGE, "%s has not one checksum for each block",
                          dt_manifest_file_name(m, f));
    if (dt_manifest_size(m, f, (uint64_t)bytes, err) < 0)
        return -1;
    size_t i = 0;
    for (const struct cJSON *c = dt_json_first(array); c; c = dt_json_next(c), i++) {
        char *end = NULL;
        m->files[f].crc[i] = cJSON_IsString(c) ? (uint32_t)strtoul(c->valuestring, &end, 16) : 0;
        if (!end || *end || end != c->valuestring + 8)
            return dt_err_set(err, DT_E_USAGE, "%s has a checksum that is none",
                              dt_manifest_file_name(m, f));
    }
    return 0;
}

static int read_files(struct dt_manifest *m, const struct dt_json *doc, struct dt_err *err)
{
    const struct cJSON *files;
    enum dt_ckpt_file master = dt_manifest_master(m->model_type);
    if (dt_json_object(doc, NULL, "files", &files, err) < 0)
        return -1;
    m->adapters = dt_json_has(files, DT_CKPT_ADAPTER);
    for (int i = 0; i < DT_CKPT_FILES; i++) {
        const struct cJSON *file;
        const char *name = dt_manifest_file_name(m, i);
        if (i == DT_FILE_MASTER && master != DT_FILE_MASTER)
            continue;
        if (i == DT_FILE_CONFIG && !dt_json_has(files, name))
            continue;
        if (dt_json_object(doc, files, name, &file, err) < 0 || read_sums(m, i, doc, file, err) < 0)
            return -1;
    }
    return 0;
}

static int read_type(const struct dt_json *doc, enum dt_dtype *out, struct dt_err *err)
{
    const char *text;
    if (dt_json_string(doc, NULL, "model_type", &text, err) < 0)
        return -1;
    for (int i = 0; i < DT_DTYPES; i++)
        if (strcmp(dt_st_type_name(i), text) == 0) {
            *out = i;
            return 0;
        }
    return dt_err_set(err, DT_E_USAGE, "model_type: \"%s\" is none", text);
}

static int read_all(struct dt_manifest *m, const struct dt_json *doc, struct dt_err *err)
{
    const char *format;
    int64_t version, block;
    if (dt_json_string(doc, NULL, "format", &format, err) < 0 ||
        dt_json_int(doc, NULL, "version", 0, INT32_MAX, &version, err) < 0)
        return -1;
    if (strcmp(format, FORMAT) != 0 || (version != VERSION && version != FLAT_VERSION))
        return dt_err_set(err, DT_E_USAGE,
                          "\"%s\" of version %d is not read by this dtrun, which reads \"" FORMAT
                          "\" of versions %d and %d",
                          format, (int)version, FLAT_VERSION, VERSION);
    m->flat = version == FLAT_VERSION;
    if (read_state(doc, &m->state, err) < 0 || read_type(doc, &m->model_type, err) < 0 ||
        dt_json_int(doc, NULL, "block_bytes", 1, (int64_t)DT_CKPT_BLOCK_MAX, &block, err) < 0)
        return -1;
    m->block_bytes = (uint64_t)block;
    return read_files(m, doc, err);
}

int dt_manifest_read(struct dt_manifest *m, struct dt_bytes text, struct dt_err *err)
{
    struct dt_json doc;
    char end[TRAILER_LEN + 1];
    memset(m, 0, sizeof *m);
    if (text.len < TRAILER_LEN)
        return dt_err_set(err, DT_E_USAGE, "it ends early");
    size_t before = text.len - TRAILER_LEN;
    trailer(end, (struct dt_bytes){text.at, before});
    if (memcmp(end, text.at + before, TRAILER_LEN) != 0)
        return dt_err_set(err, DT_E_USAGE, "it is cut short or damaged: its checksum is not right");
    if (dt_json_parse(&doc, (const char *)text.at, text.len, DT_MANIFEST_MAX, err) < 0)
        return -1;
    int rc = read_all(m, &doc, err);
    dt_json_finish(&doc);
    if (rc < 0)
        dt_manifest_finish(m);
    return rc;
}
