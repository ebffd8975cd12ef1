/* SPDX-License-Identifier: Apache-2.0 */
/* Opening, and the life of a save up to the moment all ranks are done; commit.c has the rest. */
#include "worker_runtime/ckpt/inside.h"
#include "worker_runtime/device/device.h"

#include <assert.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "base/fs.h"

#define HUGE_PAGE ((size_t)2 << 20)

/* -- opening ---------------------------------------------------------------------------------- */

static size_t elements(const struct dt_tensor *t)
{
    size_t n = 1;
    for (int i = 0; i < t->rank; i++)
        n *= t->dims[i];
    return n;
}

int dt_ckpt_cut(const struct dt_ckpt_model *m, size_t world, struct dt_layout *l,
                struct dt_err *err)
{
    size_t units = m->count ? m->tensors[m->count - 1].unit + 1 : 0;
    size_t *sizes = calloc(units + 1, sizeof *sizes);
    if (!sizes)
        return dt_err_set(err, DT_E_MEMORY, "no memory for %zu units", units);
    for (size_t i = 0; i < m->count; i++) {
        const struct dt_tensor *t = &m->tensors[i];
        if (t->unit >= units || t->offset != sizes[t->unit] ||
            (i && t->unit < m->tensors[i - 1].unit)) {
            free(sizes);
            return dt_err_set(err, DT_E_RUNTIME, "tensor %s does not stand behind the one before",
                              t->name);
        }
        sizes[t->unit] += elements(t);
    }
    int rc = dt_layout_init(l, sizes, units, world, err);
    free(sizes);
    return rc;
}

/* Touched here, so that no save waits for pages, and large ones where there are such: a fault for
 * each 4 KiB took longer than the copy. Not malloc(), from which and the memset() a compiler makes
 * a calloc(), which touches nothing. */
static float *shard_memory(size_t count)
{
    size_t align = count * sizeof(float) < HUGE_PAGE ? 64 : HUGE_PAGE;
    size_t bytes = (count * sizeof(float) / align + 1) * align;
    float *p = aligned_alloc(align, bytes);
    if (!p)
        return NULL;
    if (align == HUGE_PAGE)
        madvise(p, bytes, MADV_HUGEPAGE);
    memset(p, 0, bytes);
    return p;
}

int dt_ckpt_shards_init(struct dt_zero_state *s, const struct dt_layout *l, size_t rank,
                        struct dt_device *device, struct dt_err *err)
{
    float **arrays[] = {&s->master, &s->exp_avg, &s->exp_avg_sq};
    s->layout = l;
    s->rank = rank;
    for (size_t i = 0; i < 3; i++) {
        *arrays[i] = device ? device->table->alloc_host(device, l->shard * sizeof(float), err)
                            : shard_memory(l->shard);
        if (!*arrays[i])
            return device ? dt_err_wrap(err, "a copy of the shards")
                          : dt_err_set(err, DT_E_MEMORY, "no memory for a copy of %zu elements",
                                       l->shard);
    }
    return 0;
}

void dt_ckpt_shards_finish(struct dt_zero_state *s, struct dt_device *device)
{
    float *arrays[] = {s->master, s->exp_avg, s->exp_avg_sq};
    for (size_t i = 0; i < 3; i++) {
        if (device && arrays[i])
            device->table->free_host(device, arrays[i]);
        else
            free(arrays[i]);
    }
    memset(s, 0, sizeof *s);
}

const char *const dt_ckpt_nf4_words[DT_CKPT_NF4_WORDS] = {
    [DT_F32] = "nf4 float32", [DT_BF16] = "nf4 bfloat16", [DT_F16] = "nf4 float16"};

static int make_head(struct dt_ckpt *c, enum dt_ckpt_file file, enum dt_dtype type,
                     struct dt_err *err)
{
    const struct dt_ckpt_model *m = &c->o.model;
    const char *const base[] = {DT_CKPT_NF4_KEY, dt_ckpt_nf4_words[m->nf4_type], NULL};
    const struct dt_tensor *tensors = c->o.model.tensors;
    size_t count = c->o.model.count;
    struct dt_st_tensor *t = calloc(count + 1, sizeof *t);
    if (!t)
        return dt_err_set(err, DT_E_MEMORY, "no memory for %zu tensors", count);
    for (size_t i = 0; i < count; i++) {
        t[i].name = tensors[i].name;
        t[i].type = type;
        t[i].rank = tensors[i].rank;
        for (int d = 0; d < t[i].rank; d++)
            t[i].dims[d] = tensors[i].dims[d];
    }
    int rc =
        dt_st_header(t, count, m->nf4 && file == DT_FILE_MODEL ? base : NULL, &c->head[file], err);
    c->bytes[file] = c->head[file].len + (count ? t[count - 1].end : 0);
    free(t);
    return rc;
}

static int make_heads(struct dt_ckpt *c, struct dt_err *err)
{
    struct dt_buf *config = &c->head[DT_FILE_CONFIG];
    if (make_head(c, DT_FILE_MODEL, c->o.model_type, err) < 0 ||
        make_head(c, DT_FILE_EXP_AVG, DT_F32, err) < 0 ||
        make_head(c, DT_FILE_EXP_AVG_SQ, DT_F32, err) < 0)
        return -1;
    if (dt_manifest_master(c->o.model_type) == DT_FILE_MASTER &&
        make_head(c, DT_FILE_MASTER, DT_F32, err) < 0)
        return -1;
    if (!c->o.model.shape)
        return 0;
    if (c->o.model.lora)
        dt_lora_write(c->o.model.lora, c->o.model.shape, c->o.model.base, config);
    else
        dt_shape_write(c->o.model.shape, c->o.model_type, config);
    c->bytes[DT_FILE_CONFIG] = config->len;
    return config->bad ? dt_err_set(err, DT_E_MEMORY, "no memory for the model's configuration")
                       : 0;
}

struct dt_ckpt *dt_ckpt_open(const struct dt_ckpt_options *o, struct dt_err *err)
{
    struct dt_ckpt *c = calloc(1, sizeof *c);
    if (!c) {
        dt_err_set(err, DT_E_MEMORY, "no memory for checkpoints");
        return NULL;
    }
    c->o = *o;
    c->claim = -1;
    atomic_init(&c->pinned, -1);
    if (c->o.block_bytes == 0)
        c->o.block_bytes = DT_CKPT_BLOCK;
    c->shards.steps = &c->steps;
    if ((dt_fs_mkdir_p(o->dir, 0777, o->goes_on ? NULL : err) < 0 && !o->goes_on) ||
        dt_ckpt_cut(&o->model, (size_t)o->world, &c->layout, err) < 0 || make_heads(c, err) < 0 ||
        dt_ckpt_shards_init(&c->shards, &c->layout, (size_t)o->rank, o->device, err) < 0)
        goto fail;
    if (o->rank == 0 && o->run_id && dt_ckpt_claim(o->dir, o->run_id, &c->claim, err) < 0)
        goto fail;
    if (o->rank == 0)
        dt_ckpt_fence_begin(c);
    return c;
fail:
    dt_ckpt_close(c);
    return NULL;
}

void dt_ckpt_close(struct dt_ckpt *c)
{
    if (!c)
        return;
    dt_ckpt_settle(c);
    dt_ckpt_sweep_join(&c->sweep);
    if (c->claim >= 0)
        close(c->claim);
    for (int f = 0; f < DT_CKPT_FILES; f++)
        dt_buf_finish(&c->head[f]);
    dt_ckpt_shards_finish(&c->shards, c->o.device);
    dt_layout_finish(&c->layout);
    dt_companions_finish(&c->companions);
    free(c->pieces.v);
    free(c);
}

int dt_ckpt_accompany(struct dt_ckpt *c, const char *folder, struct dt_err *err)
{
    dt_ckpt_settle(c);
    return dt_companions_read(&c->companions, folder, err);
}

/* -- a save ----------------------------------------------------------------------------------- */

/* What may follow what. */
static const bool may_follow[DT_CKPT_PHASES][DT_CKPT_PHASES] = {
    [DT_CKPT_IDLE] = {[DT_CKPT_WRITING] = true},
    [DT_CKPT_WRITING] = {[DT_CKPT_WRITTEN] = true},
    [DT_CKPT_WRITTEN] = {[DT_CKPT_COMMITTING] = true, [DT_CKPT_IDLE] = true},
    [DT_CKPT_COMMITTING] = {[DT_CKPT_NAMED] = true},
    [DT_CKPT_NAMED] = {[DT_CKPT_IDLE] = true},
};

void dt_ckpt_enter(struct dt_ckpt *c, enum dt_ckpt_phase to)
{
    assert(may_follow[c->phase][to]);
    c->phase = to;
}

int dt_ckpt_thread(pthread_t *out, void *(*run)(void *), void *arg)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(out, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

struct dt_zero_state *dt_ckpt_shards(struct dt_ckpt *c)
{
    return &c->shards;
}

static int name_save(struct dt_ckpt *c, const struct dt_ckpt_state *s, struct dt_err *err)
{
    c->state = *s;
    c->saves++;
    snprintf(c->world, sizeof c->world, "-%08" PRIx32 "-%" PRId64 "-",
             dt_crc32c(0, dt_bytes_of(s->run_id)), c->o.epoch);
    if (snprintf(c->temp, sizeof c->temp, "%s/.tmp-step-%08" PRId64 "%s%u", c->o.dir, s->step,
                 c->world, c->saves) >= (int)sizeof c->temp)
        return dt_err_set(err, DT_E_RUNTIME, "the path %.60s... is too long", c->o.dir);
    return 0;
}

int dt_ckpt_start(struct dt_ckpt *c, const struct dt_ckpt_state *s, struct dt_err *err)
{
    if (name_save(c, s, err) < 0)
        return -1;
    atomic_store(&c->outcome, DT_CKPT_BUSY);
    atomic_store(&c->stop, false);
    int rc = dt_ckpt_thread(&c->thread, dt_ckpt_write, c);
    if (rc)
        return dt_err_errno(err, DT_E_RUNTIME, rc, "cannot start the thread that writes");
    dt_ckpt_enter(c, DT_CKPT_WRITING);
    return 0;
}

int dt_ckpt_start_given_up(struct dt_ckpt *c, const struct dt_ckpt_state *s,
                           const struct dt_err *why, struct dt_err *err)
{
    if (name_save(c, s, err) < 0)
        return -1;
    c->failure = *why;
    atomic_store(&c->outcome, why->code ? DT_CKPT_FAILED : DT_CKPT_WELL);
    dt_ckpt_enter(c, DT_CKPT_WRITING);
    dt_ckpt_enter(c, DT_CKPT_WRITTEN);
    return 0;
}

void dt_ckpt_wait(struct dt_ckpt *c)
{
    if (c->phase != DT_CKPT_WRITING && c->phase != DT_CKPT_COMMITTING)
        return;
    pthread_join(c->thread, NULL);
    dt_ckpt_enter(c, c->phase == DT_CKPT_WRITING ? DT_CKPT_WRITTEN : DT_CKPT_NAMED);
}

void dt_ckpt_sweep_join(struct dt_ckpt_sweep *s)
{
    if (s->running)
        pthread_join(s->thread, NULL);
    s->running = false;
}

void dt_ckpt_settle(struct dt_ckpt *c)
{
    dt_ckpt_commit(c, false, NULL);
}

int dt_ckpt_done(struct dt_ckpt *c, struct dt_err *err)
{
    if (c->phase != DT_CKPT_WRITING && c->phase != DT_CKPT_WRITTEN)
        return 1;
    int outcome = atomic_load_explicit(&c->outcome, memory_order_acquire);
    if (outcome == DT_CKPT_FAILED && err)
        *err = c->failure;
    return outcome == DT_CKPT_FAILED ? -1 : outcome == DT_CKPT_WELL;
}
