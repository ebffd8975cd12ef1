/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that are processes, and their dt_zero: saved at one stage and world, resumed at another. */
#include "tests/runtime/checkpoints.h"
#include "tests/runtime/ranks.h"
#include "worker_runtime/ckpt/recut.h"
#include "worker_runtime/ckpt/saving.h"
#include "worker_runtime/device/device.h"
#include "worker_runtime/zero/create.h"

#include <fcntl.h>

BEFORE_ALL
{
    folder_make();
}

static bool no_memory, none_for_files; /* on this rank, for shards, and for what is read */

int __real_dt_ckpt_shards_init(struct dt_zero_state *out, const struct dt_layout *l, size_t rank,
                               struct dt_device *device, struct dt_err *err);
int __wrap_dt_ckpt_shards_init(struct dt_zero_state *out, const struct dt_layout *l, size_t rank,
                               struct dt_device *device, struct dt_err *err);

int __wrap_dt_ckpt_shards_init(struct dt_zero_state *out, const struct dt_layout *l, size_t rank,
                               struct dt_device *device, struct dt_err *err)
{
    if (no_memory)
        return dt_err_set(err, DT_E_MEMORY, "no memory for shards");
    return __real_dt_ckpt_shards_init(out, l, rank, device, err);
}

int __real_dt_fs_read(const char *path, size_t max, struct dt_buf *out, struct dt_err *err);
int __wrap_dt_fs_read(const char *path, size_t max, struct dt_buf *out, struct dt_err *err);

int __wrap_dt_fs_read(const char *path, size_t max, struct dt_buf *out, struct dt_err *err)
{
    if (none_for_files)
        return dt_err_set(err, DT_E_MEMORY, "no memory for files");
    return __real_dt_fs_read(path, max, out, err);
}

#define ALL_RANKS (-1)

struct play {
    const char *folder;
    int without; /* memory: that rank, or ALL_RANKS ... */
    bool files;  /* ... for files; else for shards */
    int stage;
    enum dt_dtype type;
    int64_t step;        /* to save; or that resuming must find, 0: nothing */
    const char *warning; /* that somebody must have then */
};

struct actor {
    struct rank_self *me;
    const struct play *p;
    struct model m;
    struct dt_device *device;
    struct dt_coll *coll;
    struct dt_zero *z;
};

static void open_actor(struct actor *a, struct rank_self *me)
{
    struct dt_err err = {0};
    struct dt_zero_options o;
    struct dt_unit *units;
    struct dt_param *params;
    *a = (struct actor){.me = me, .p = me->arg, .m = model_make()};
    a->device = dt_device_open_cpu(1, &err);
    CHECK_OK(a->device ? 0 : -1, err);
    a->coll = rank_open(me);
    CHECK_OK(dt_shape_units(&a->m.shape, a->m.tensors, &units, &params, &err), err);
    dt_zero_defaults(&o);
    o.stage = a->p->stage;
    o.model_type = a->p->type;
    struct dt_zero_place place = {
        .device = a->device, .group = a->coll, .sharing = (size_t)me->size};
    a->z = dt_zero_create_on(&place, units, dt_shape_unit_count(&a->m.shape), &o, &err);
    CHECK_OK(a->z ? 0 : -1, err);
    free(units);
    free(params);
}

static void close_actor(struct actor *a)
{
    dt_zero_destroy(a->z);
    dt_coll_destroy(a->coll);
    dt_device_close(a->device);
    free(a->m.tensors);
}

/* The state of STEP, as training would have left it. */
static void put_state(struct actor *a, int64_t step)
{
    struct dt_zero_state in = {0};
    struct dt_err err = {0};
    int64_t steps = step - 1;
    in.steps = &steps;
    CHECK_OK(dt_ckpt_shards_init(&in, dt_zero_layout(a->z), dt_zero_rank(a->z), NULL, &err), err);
    fill(&in, step);
    CHECK_OK(dt_zero_load(a->z, &in, &err), err);
    dt_ckpt_shards_finish(&in, NULL);
}

static void check_state(struct actor *a, int64_t step)
{
    int64_t steps = 0;
    struct dt_zero_state out = {.steps = &steps};
    struct dt_err err = {0};
    CHECK_OK(dt_ckpt_shards_init(&out, dt_zero_layout(a->z), dt_zero_rank(a->z), NULL, &err), err);
    CHECK_OK(dt_zero_save(a->z, &out, &err), err);
    CHECK_OK(dt_zero_device(a->z)->table->snap_wait(dt_zero_device(a->z), &err), err);
    CHECK_EQ(wrong_values(&out, step), 0);
    CHECK_EQ(steps, step - 1);
    dt_ckpt_shards_finish(&out, NULL);
}

static struct dt_ckpt *open_ckpt_of(const struct actor *a, const struct dt_ckpt_model *m)
{
    struct dt_err err = {0};
    struct dt_ckpt_options o = {.dir = a->p->folder,
                                .model = *m,
                                .model_type = a->p->type,
                                .rank = a->me->rank,
                                .world = a->me->size,
                                .block_bytes = BLOCK};
    struct dt_ckpt *c = dt_ckpt_open(&o, &err);
    CHECK_OK(c ? 0 : -1, err);
    return c;
}

static struct dt_ckpt *open_ckpt(const struct actor *a)
{
    const struct dt_ckpt_model m = model_saved(&a->m);
    return open_ckpt_of(a, &m);
}

static bool is_without(const struct actor *a)
{
    return a->p->without == ALL_RANKS || a->p->without == a->me->rank;
}

/* As ranks save that share tensors, though each has all of them here. */
static void save_without_memory(struct rank_self *me)
{
    struct actor a;
    struct dt_err err = {0};
    struct dt_buf said = {0};
    char wanted[100];
    open_actor(&a, me);
    struct dt_ckpt_model saved = model_saved(&a.m);
    const struct dt_recut recut = {
        .parts = &a.m.tensors, .mesh = {{1, me->size, 1, 1, 1}}, .world = a.coll};
    saved.recut = &recut;
    struct dt_saving k = {.ckpt = open_ckpt_of(&a, &saved), .saved = -1};
    struct dt_ckpt_state s = state_of(a.p->step);
    put_state(&a, a.p->step);
    no_memory = is_without(&a);
    CHECK_OK(dt_saving_begin(&k, a.z, &s, &err), err);
    CHECK_OK(dt_saving_finish(&k, a.coll, &said, &err), err);
    CHECK_EQ(k.saved, -1);
    snprintf(wanted, sizeof wanted,
             "step %d is not saved: rank %d: no memory for shards; training goes on\n",
             (int)a.p->step, a.p->without == ALL_RANKS ? 0 : a.p->without);
    CHECK_STR(dt_buf_cstr(&said), wanted);
    CHECK_OK(dt_saving_begin(&k, a.z, &s, &err), err); /* nor is there any for the next ... */
    no_memory = false;
    CHECK_OK(dt_saving_begin(&k, a.z, &s, &err), err); /* ... which gives way to one behind it */
    CHECK_OK(dt_saving_finish(&k, a.coll, &said, &err), err);
    CHECK_EQ(k.saved, a.p->step);
    CHECK_STR(dt_buf_cstr(&said), wanted);
    dt_buf_finish(&said);
    dt_ckpt_close(k.ckpt);
    close_actor(&a);
}

static void save(struct rank_self *me)
{
    struct actor a;
    struct dt_err err = {0};
    open_actor(&a, me);
    struct dt_ckpt_state s = state_of(a.p->step);
    struct dt_ckpt *c = open_ckpt(&a);
    put_state(&a, a.p->step);
    CHECK_OK(dt_ckpt_begin(c, a.z, &s, &err), err);
    put_state(&a, a.p->step + 1); /* the snapshot is not touched by what comes */
    dt_ckpt_wait(c);
    int32_t done = dt_ckpt_done(c, &err);
    CHECK_OK(done == 1 ? 0 : -1, err);
    CHECK_OK(dt_coll_all_reduce(a.coll, &done, 1, DT_I32, DT_MIN, &err), err);
    CHECK_OK(dt_ckpt_commit(c, done == 1, &err), err);
    dt_ckpt_close(c);
    close_actor(&a);
}

static void resume(struct rank_self *me)
{
    struct actor a;
    struct dt_err err = {0};
    struct dt_ckpt_state s = {0};
    struct dt_buf warning = {0};
    char path[PATH_MAX];
    open_actor(&a, me);
    struct dt_ckpt_model saved = model_saved(&a.m);
    CHECK_OK(dt_ckpt_resume(a.p->folder, &saved, a.z, NULL, &s, path, &warning, &err), err);
    if (a.p->step == 0) {
        CHECK_STR(path, "");
    } else {
        CHECK_EQ(s.step, a.p->step);
        check_state(&a, a.p->step);
    }
    int32_t warned = a.p->warning && strstr(dt_buf_cstr(&warning), a.p->warning) != NULL;
    CHECK_OK(dt_coll_all_reduce(a.coll, &warned, 1, DT_I32, DT_MAX, &err), err);
    CHECK_EQ(warned, a.p->warning != NULL);
    dt_buf_finish(&warning);
    close_actor(&a);
}

static void resume_without_memory(struct rank_self *me)
{
    struct actor a;
    struct dt_err err = {0};
    struct dt_ckpt_state s = {0};
    struct dt_buf warning = {0};
    char path[PATH_MAX], wanted[60];
    open_actor(&a, me);
    const struct dt_ckpt_model saved = model_saved(&a.m);
    *(a.p->files ? &none_for_files : &no_memory) = is_without(&a);
    int rc = dt_ckpt_resume(a.p->folder, &saved, a.z, NULL, &s, path, &warning, &err);
    no_memory = none_for_files = false;
    CHECK_EQ(rc, -1);
    CHECK_STR(path, "");
    CHECK_STR(dt_buf_cstr(&warning), "");
    snprintf(wanted, sizeof wanted, "rank %d: no memory for %s", a.p->without,
             a.p->files ? "files" : "shards");
    CHECK_STR(err.text, wanted + (is_without(&a) ? strlen("rank 0: ") : 0));
    CHECK_EQ(err.code, is_without(&a) ? DT_E_MEMORY : DT_E_ELSEWHERE);
    dt_buf_finish(&warning);
    close_actor(&a);
}

static void load(struct rank_self *me)
{
    struct actor a;
    struct dt_err err = {0};
    struct dt_ckpt_state s = {0};
    open_actor(&a, me);
    struct dt_ckpt_model saved = model_saved(&a.m);
    CHECK_OK(dt_ckpt_load(a.p->folder, &saved, a.z, NULL, &s, &err), err);
    check_state(&a, a.p->step);
    close_actor(&a);
}

/* With a snapshot that has the numbers of something else, padding included. */
static void load_by_snapshot(struct rank_self *me)
{
    struct actor a;
    struct dt_err err = {0};
    struct dt_ckpt_state s = {0};
    char path[PATH_MAX];
    open_actor(&a, me);
    struct dt_ckpt_model saved = model_saved(&a.m);
    struct dt_ckpt *c = open_ckpt(&a);
    struct dt_zero_state *lent = dt_ckpt_shards(c);
    memset(lent->master, 1, dt_zero_layout(a.z)->shard * sizeof *lent->master);
    memset(lent->exp_avg, 1, dt_zero_layout(a.z)->shard * sizeof *lent->exp_avg);
    CHECK_OK(dt_ckpt_resume(a.p->folder, &saved, a.z, c, &s, path, NULL, &err), err);
    check_state(&a, a.p->step);
    CHECK_EQ(wrong_values(lent, a.p->step), 0);
    dt_ckpt_close(c);
    close_actor(&a);
}

static void load_weights(struct rank_self *me)
{
    struct actor a;
    struct dt_err err = {0};
    open_actor(&a, me);
    struct dt_ckpt_model saved = model_saved(&a.m);
    CHECK_OK(dt_ckpt_load_weights(a.p->folder, &saved, a.z, &err), err);
    CHECK_EQ(dt_zero_steps(a.z), 0);
    close_actor(&a);
}

TEST(any_stage_and_world_resumes_what_any_other_saved)
{
    for (int a = 1; a <= 4; a++)
        for (int b = 1; b <= 4; b++) {
            int from = (a + b) % 4, to = (2 * a + b) % 4;
            char folder[300];
            struct play p = {.folder = folder, .stage = from, .step = 10 * a + b};
            p.type = (a ^ b) & 1 ? DT_BF16 : DT_F32;
            CHECK_ROW("%d ranks at stage %d, %d ranks at stage %d", a, from, b, to);
            snprintf(folder, sizeof folder, "%s/%d-%d", dir, a, b);
            ranks_run(a, save, &p);
            p.stage = to;
            ranks_run(b, resume, &p);
        }
}

TEST(every_pair_of_stages)
{
    for (int from = 0; from < 4; from++) {
        char folder[300];
        struct play p = {.folder = folder, .stage = from, .type = DT_F16, .step = 7};
        snprintf(folder, sizeof folder, "%s/stage-%d", dir, from);
        ranks_run(3, save, &p);
        for (p.stage = 0; p.stage < 4; p.stage++) {
            CHECK_ROW("from %d to %d", from, p.stage);
            ranks_run(2, resume, &p);
        }
    }
}

TEST(an_empty_folder_is_a_start_from_nothing)
{
    struct play p = {.folder = at("nothing"), .stage = 2};
    ranks_run(3, resume, &p);
}

TEST(when_one_rank_meets_damage_all_take_the_one_before)
{
    char folder[300], file[400];
    struct play p = {.folder = folder, .stage = 3, .step = 1};
    snprintf(folder, sizeof folder, "%s/damage", dir);
    ranks_run(2, save, &p);
    p.step = 2;
    ranks_run(2, save, &p);
    snprintf(file, sizeof file, "%s/step-00000002/optimizer/exp_avg.safetensors", folder);
    int fd = open(file, O_WRONLY);
    CHECK(fd >= 0);
    CHECK_EQ(pwrite(fd, "?", 1, 3000), 1);
    close(fd);
    p.step = 1;
    p.warning = "step-00000002/optimizer/exp_avg.safetensors: bytes ";
    for (int size = 1; size <= 4; size++) {
        ranks_run(size, resume, &p);
        ranks_run(size, load_by_snapshot, &p); /* what was read of the damaged one is in it */
    }
}

TEST(a_save_of_shared_tensors_that_a_rank_has_no_memory_for_is_given_up_on_all)
{
    static const int rows[] = {0, 2, ALL_RANKS};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char folder[300];
        struct play p = {.folder = folder, .without = rows[i], .stage = 1, .step = 3};
        CHECK_ROW("rank %d", rows[i]);
        snprintf(folder, sizeof folder, "%s/no-memory-%zu", dir, i);
        ranks_run(3, save_without_memory, &p);
        ranks_run(2, resume, &p);
    }
}

TEST(a_rank_without_memory_is_no_damage_and_no_older_checkpoint_is_taken)
{
    static const struct {
        int rank;
        bool files;
    } rows[] = {{0, false}, {1, false}, {0, true}, {1, true}};
    struct play p = {.folder = at("no-memory"), .stage = 2, .step = 1};
    ranks_run(2, save, &p);
    p.step = 2;
    ranks_run(2, save, &p);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("rank %d, for %s", rows[i].rank, rows[i].files ? "files" : "shards");
        p.without = rows[i].rank;
        p.files = rows[i].files;
        ranks_run(2, resume_without_memory, &p);
    }
    ranks_run(2, resume, &p);
}

TEST(one_folder_by_its_name_and_its_weights_alone)
{
    char folder[300];
    struct play p = {.folder = folder, .stage = 1, .step = 4};
    snprintf(folder, sizeof folder, "%s/named", dir);
    ranks_run(2, save, &p);
    for (int size = 1; size <= 3; size++)
        ranks_run(size, load_by_snapshot, &p);
    strcat(folder, "/step-00000004");
    ranks_run(3, load, &p);
    ranks_run(3, load_weights, &p);
}
