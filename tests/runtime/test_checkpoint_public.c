/* SPDX-License-Identifier: Apache-2.0 */
/* dtrun/checkpoint.h as a program sees it, over ranks that are processes. */
#include <dtrun/dtrun.h>

#include "tests/lib/folder.h"
#include "tests/runtime/ranks.h"
#include "worker_runtime/ckpt/inside.h"

#include <sys/resource.h>
#include <sys/stat.h>

BEFORE_ALL
{
    folder_make();
}

/* Two blocks alike, so names need their units'. */
static const struct dt_param block[] = {{"weight", 37, true}, {"bias", 5, false}};
static const struct dt_param head[] = {{"out", 11, true}};
static const struct dt_unit units[] = {{"one", block, 2}, {"two", block, 2}, {"head", head, 1}};
enum { UNITS = 3, ELEMENTS = 2 * 42 + 11 };

struct own {
    double best;
    int64_t seen;
};

struct play {
    int stage;
    enum dt_dtype type;
    const struct dt_unit *units;
    size_t count;
};

struct actor {
    struct rank_self *me;
    struct dt_context *context; /* of a process alone; what is collective here goes over GROUP */
    struct dt_coll *group;
    struct dt_zero *z;
    struct dt_checkpoint *k;
};

static void open_actor(struct actor *a, struct rank_self *me, const char *folder)
{
    const struct play *p = me->arg;
    struct dt_context_options alone = {.device = "cpu", .threads = 1};
    struct dt_zero_options o;
    struct dt_err err = {0};
    a->me = me;
    a->context = dt_context_open(&alone, &err);
    CHECK_OK(a->context ? 0 : -1, err);
    a->group = rank_open(me);
    dt_zero_defaults(&o);
    o.stage = p->stage;
    o.model_type = p->type;
    a->z = dt_zero_create(a->context, a->group, p->units ? p->units : units,
                          p->units ? p->count : UNITS, &o, &err);
    CHECK_OK(a->z ? 0 : -1, err);
    a->k = dt_checkpoint_open(a->context, a->z, folder, 2, &err);
    CHECK_OK(a->k ? 0 : -1, err);
}

static void close_actor(struct actor *a)
{
    dt_checkpoint_close(a->k);
    dt_zero_destroy(a->z);
    dt_coll_destroy(a->group);
    dt_context_close(a->context);
}

static void fill(void *arg, size_t unit, size_t param, size_t first, size_t count, float *out)
{
    float step = *(float *)arg;
    for (size_t i = 0; i < count; i++)
        out[i] = step + (float)(100 * unit + 50 * param + first + i) / 8; /* exact in 16 bits */
}

/* Every rank sees every parameter of every unit as FILL made it. */
static void check_filled(struct actor *a, float step)
{
    struct dt_err err = {0};
    dt_zero_begin(a->z, false, true);
    for (size_t u = 0; u < UNITS; u++) {
        const float *v = dt_zero_gather(a->z, u, &err);
        CHECK_OK(v ? 0 : -1, err);
        for (size_t p = 0; p < units[u].param_count; v += units[u].params[p++].count)
            for (size_t i = 0; i < units[u].params[p].count; i++) {
                float want;
                fill(&step, u, p, i, 1, &want);
                CHECK(v[i] >= want && v[i] <= want);
            }
        dt_zero_release(a->z, u);
    }
}

static void save(struct actor *a, int64_t step)
{
    struct dt_err err = {0};
    struct own own = {.best = 0.25 * (double)step, .seen = INT64_MAX - step};
    float first = (float)step;
    CHECK_OK(dt_zero_fill(a->z, fill, &first, &err), err);
    CHECK_OK(dt_checkpoint_save(a->k, step, &own, sizeof own, &err), err);
}

static void saves_two(struct rank_self *me)
{
    struct actor a;
    struct dt_err err = {0};
    int64_t saved = 0, step = 5;
    open_actor(&a, me, at("any"));
    CHECK_OK(dt_checkpoint_resume(a.k, &step, NULL, 0, &err), err);
    CHECK_EQ(step, 0);
    CHECK_OK(dt_checkpoint_poll(a.k, &saved, &err), err);
    CHECK_EQ(saved, -1);
    for (step = 3; step <= 4; step++)
        save(&a, step);
    CHECK_OK(dt_checkpoint_wait(a.k, &saved, &err), err);
    CHECK_EQ(saved, 4);
    CHECK_STR(dt_checkpoint_warning(a.k), NULL);
    close_actor(&a);
}

static void resumes_four(struct rank_self *me)
{
    struct actor a;
    struct dt_err err = {0};
    struct own own;
    int64_t step;
    open_actor(&a, me, at("any"));
    CHECK_OK(dt_checkpoint_resume(a.k, &step, &own, sizeof own, &err), err);
    CHECK_EQ(step, 4);
    CHECK(own.best >= 1 && own.best <= 1);
    CHECK_EQ(own.seen, INT64_MAX - 4);
    check_filled(&a, 4);
    close_actor(&a);
}

TEST(any_world_and_stage_goes_on_from_any_other)
{
    enum dt_dtype types[] = {DT_F32, DT_BF16};
    for (size_t t = 0; t < 2; t++) {
        struct play p = {.stage = 3, .type = types[t]};
        CHECK_ROW("%s", t ? "bf16" : "f32");
        ranks_run(2, saves_two, &p);
        for (int size = 1; size <= 3; size++) {
            p.stage = size - 1;
            CHECK_ROW("read by %d at stage %d", size, p.stage);
            ranks_run(size, resumes_four, &p);
        }
        char command[600];
        snprintf(command, sizeof command, "rm -r '%s'", at("any"));
        CHECK_EQ(system(command), 0);
    }
}

TEST(tensors_are_named_by_unit_where_they_must_be_and_there_is_no_config)
{
    struct play p = {.stage = 1, .type = DT_BF16};
    struct dt_st_file f;
    struct dt_err err = {0};
    static const char *const names[] = {"one.weight", "one.bias", "two.weight", "two.bias",
                                        "head.out"};
    ranks_run(2, saves_two, &p);
    CHECK_OK(dt_ckpt_verify(at("any/step-00000004"), &err), err);
    CHECK(access(at("any/step-00000004/config.json"), F_OK) < 0);
    CHECK_OK(dt_st_open(&f, at("any/step-00000004/model.safetensors"), &err), err);
    CHECK_EQ(f.count, 5);
    for (size_t i = 0; i < f.count; i++) {
        CHECK_STR(f.tensors[i].name, names[i]);
        CHECK_EQ(f.tensors[i].rank, 1);
        CHECK_EQ(f.tensors[i].type, DT_BF16);
    }
    dt_st_close(&f);
}

TEST(other_names_stay_as_they_are_and_two_of_one_name_are_refused)
{
    static const struct dt_param a[] = {{"a.w", 3, true}, {"b", 2, true}}, b[] = {{"c", 4, true}};
    static const struct dt_param same[] = {{"w", 3, true}, {"w", 2, true}},
                                 none[] = {{"", 1, true}};
    static const struct {
        struct dt_unit units[2];
        const char *first, *last, *why;
    } rows[] = {
        {{{"u", a, 2}, {"v", b, 1}}, "a.w", "c", NULL},
        {{{"u", a, 2}, {"v", a, 2}}, "u.a.w", "v.b", NULL},
        {{{"u", a, 2}, {"u", a, 2}}, NULL, NULL, "two parameters are named u."},
        {{{"u", same, 2}, {"v", b, 1}}, NULL, NULL, "two parameters are named u.w"},
        {{{"u", a, 2}, {"v", none, 1}},
         NULL,
         NULL,
         "unit v: a parameter in a checkpoint has a name"},
    };
    struct dt_err err = {0};
    struct dt_context *c = dt_context_open(NULL, &err);
    CHECK_OK(c ? 0 : -1, err);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_zero_options o;
        struct dt_ckpt_model m;
        CHECK_ROW("%zu", i);
        dt_zero_defaults(&o);
        struct dt_zero *z = dt_zero_create(c, dt_context_coll(c), rows[i].units, 2, &o, &err);
        CHECK_OK(z ? 0 : -1, err);
        int rc = dt_ckpt_model_of(z, &m, &err);
        if (rows[i].why) {
            CHECK_FAIL(rc, err, rows[i].why);
        } else {
            CHECK_OK(rc, err);
            CHECK_STR(m.tensors[0].name, rows[i].first);
            CHECK_STR(m.tensors[m.count - 1].name, rows[i].last);
        }
        free(m.tensors);
        dt_zero_destroy(z);
    }
    dt_context_close(c);
}

TEST(what_cannot_be_saved_or_read_is_refused_with_a_sentence)
{
    struct play p = {.stage = 0, .type = DT_F32};
    struct rank_self alone = {.size = 1, .per_host = 1, .arg = &p, .meeting = meeting_create()};
    struct actor a;
    struct dt_err err = {0};
    int64_t step;
    open_actor(&a, &alone, at("alone"));
    CHECK_FAIL(dt_checkpoint_save(a.k, 0, NULL, 0, &err), err, "of step 1 or later");
    char large[DT_CHECKPOINT_STATE_MAX + 1] = "";
    CHECK_FAIL(dt_checkpoint_save(a.k, 1, large, sizeof large, &err), err, "up to 4096 bytes");
    CHECK_OK(dt_checkpoint_save(a.k, 1, large, sizeof large - 1, &err), err);
    CHECK_OK(dt_checkpoint_wait(a.k, NULL, &err), err);
    CHECK_FAIL(dt_checkpoint_resume(a.k, &step, &step, sizeof step, &err), err,
               "holds 4096 bytes of the program's own state, and 8 are asked for");
    CHECK_OK(dt_checkpoint_resume(a.k, &step, large, sizeof large - 1, &err), err);
    CHECK_EQ(step, 1);
    close_actor(&a);
    meeting_destroy(alone.meeting);
}

static void room_for(rlim_t bytes)
{
    struct rlimit l = {.rlim_cur = bytes, .rlim_max = RLIM_INFINITY};
    signal(SIGXFSZ, SIG_IGN);
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &l), 0);
}

static void one_has_no_room(struct rank_self *me)
{
    struct actor a;
    struct dt_err err = {0};
    int64_t saved;
    open_actor(&a, me, at("room"));
    if (me->rank == 1)
        room_for(64);
    save(&a, 1);
    CHECK_OK(dt_checkpoint_wait(a.k, &saved, &err), err);
    CHECK_EQ(saved, -1);
    const char *said = dt_checkpoint_warning(a.k);
    CHECK(said && strstr(said, "step 1 is not saved: rank 1: "));
    CHECK(strstr(said, "cannot write"));
    CHECK_STR(dt_checkpoint_warning(a.k), NULL);
    if (me->rank == 1)
        room_for(RLIM_INFINITY);
    save(&a, 2);
    while (saved < 0)
        CHECK_OK(dt_checkpoint_poll(a.k, &saved, &err), err);
    CHECK_EQ(saved, 2);
    CHECK_STR(dt_checkpoint_warning(a.k), NULL);
    close_actor(&a);
}

TEST(a_part_that_cannot_be_written_is_given_up_on_all_ranks)
{
    struct play p = {.stage = 2, .type = DT_F32};
    ranks_run(3, one_has_no_room, &p);
    CHECK(access(at("room/step-00000001"), F_OK) < 0);
    CHECK_EQ(access(at("room/step-00000002"), F_OK), 0);
}

static void latest_is_in_the_way(struct rank_self *me)
{
    struct actor a;
    struct dt_err err = {0};
    int64_t saved;
    open_actor(&a, me, at("named"));
    if (me->rank == 0)
        CHECK_EQ(mkdir(at("named/latest"), 0777), 0);
    save(&a, 1);
    CHECK_OK(dt_checkpoint_wait(a.k, &saved, &err), err);
    CHECK_EQ(saved, -1);
    CHECK(strstr(dt_checkpoint_warning(a.k), "step 1 is not saved: rank 0: "));
    if (me->rank == 0)
        CHECK_EQ(rmdir(at("named/latest")), 0);
    save(&a, 2);
    CHECK_OK(dt_checkpoint_wait(a.k, &saved, &err), err);
    CHECK_EQ(saved, 2);
    close_actor(&a);
}

TEST(so_is_one_that_cannot_get_its_name)
{
    struct play p = {.stage = 1, .type = DT_F32};
    ranks_run(2, latest_is_in_the_way, &p);
    CHECK(access(at("named/step-00000001"), F_OK) < 0);
}
