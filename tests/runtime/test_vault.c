/* SPDX-License-Identifier: Apache-2.0 */
/* Which steps a rank has at each moment, of a world that may die at any. */
#include "worker_runtime/vault/vault.h"

#include "rendezvous/protocol/vault_fds.h"
#include "tests/lib/check.h"

#include <dtrun/context.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define PARAMS 100

static const struct dt_param params[] = {{"w", PARAMS, true}};
static const struct dt_unit units[] = {{"u", params, 1}};

static void make_file(const char *name)
{
    char number[16];
    snprintf(number, sizeof number, "%d", memfd_create("vault", MFD_ALLOW_SEALING));
    setenv(name, number, 1);
}

static uint64_t job(void)
{
    return dt_vault_job("run", "", units, 1, sizeof(int));
}

static struct dt_vault *open_as(const struct dt_vault_options *o)
{
    struct dt_err err = {0};
    struct dt_vault *v = dt_vault_open(o, &err);
    CHECK(v != NULL);
    return v;
}

static struct dt_vault *open_at(int64_t epoch)
{
    return open_as(&(struct dt_vault_options){.whose.job = job(), .world = 1, .epoch = epoch});
}

/* "0.4 0.5 " for steps 4 and 5 of world 0, in the order of slots. */
static const char *steps(struct dt_vault *v)
{
    static char text[200];
    struct dt_vault_held held[DT_VAULT_HELD];
    struct dt_buf said = {0};
    size_t n = 0;
    *text = '\0';
    dt_vault_list(v, held, &said);
    CHECK_STR(dt_buf_cstr(&said), "");
    dt_buf_finish(&said);
    for (int i = 0; i < DT_VAULT_HELD; i++)
        if (held[i].source)
            n += (size_t)snprintf(text + n, sizeof text - n, "%lld.%lld ", (long long)held[i].epoch,
                                  (long long)held[i].step);
    return text;
}

struct bench {
    struct dt_context *context;
    struct dt_zero *zero;
};

static void fill(void *arg, size_t unit, size_t param, size_t first, size_t count, float *out)
{
    (void)arg, (void)unit, (void)param;
    for (size_t i = 0; i < count; i++)
        out[i] = (float)(first + i);
}

static struct bench open_bench(void)
{
    struct bench b;
    struct dt_err err = {0};
    struct dt_zero_options o;
    dt_zero_defaults(&o);
    struct dt_context_options c = {.device = "cpu", .threads = 1};
    b.context = dt_context_open(&c, &err);
    CHECK_OK(b.context ? 0 : -1, err);
    b.zero = dt_zero_create(b.context, dt_context_coll(b.context), units, 1, &o, &err);
    CHECK_OK(b.zero ? 0 : -1, err);
    CHECK_OK(dt_zero_fill(b.zero, fill, NULL, &err), err);
    return b;
}

static void close_bench(struct bench *b)
{
    dt_zero_destroy(b->zero);
    dt_context_close(b->context);
}

static void keep(struct dt_vault *v, const struct bench *b, int step)
{
    struct dt_err err = {0};
    struct dt_bytes state = {(const uint8_t *)&step, sizeof step};
    CHECK_OK(dt_vault_keep(v, b->zero, step, state, &err), err);
}

TEST(one_step_that_all_have_is_there_at_every_moment)
{
    struct bench b = open_bench();
    make_file(DT_VAULT_OWN_ENV);
    struct dt_vault *v = open_at(0);
    CHECK_STR(steps(v), "");
    keep(v, &b, 1);
    CHECK_STR(steps(v), "0.1 ");
    dt_vault_safe(v, 1);
    keep(v, &b, 2);
    CHECK_STR(steps(v), "0.1 0.2 ");
    keep(v, &b, 3); /* nobody said that all have 2 */
    CHECK_STR(steps(v), "0.1 0.3 ");
    dt_vault_safe(v, 3);
    keep(v, &b, 4);
    CHECK_STR(steps(v), "0.4 0.3 ");
    dt_vault_close(v);
    close_bench(&b);
}

TEST(what_a_world_began_from_stays_until_it_has_a_step_of_its_own)
{
    struct bench b = open_bench();
    make_file(DT_VAULT_OWN_ENV);
    struct dt_vault *v = open_at(0);
    keep(v, &b, 1);
    dt_vault_safe(v, 1);
    keep(v, &b, 2);
    dt_vault_close(v);
    for (int world = 1; world < 4; world++) { /* each dies before all have its first step */
        CHECK_ROW("world %d", world);
        char wanted[40];
        v = open_at(world);
        dt_vault_begin_from(v, 0, 1);
        keep(v, &b, 2);
        snprintf(wanted, sizeof wanted, "0.1 %d.2 ", world);
        CHECK_STR(steps(v), wanted);
        dt_vault_close(v);
    }
    close_bench(&b);
}

/* Be it of another mesh, and so of no use. */
TEST(it_is_known_that_there_was_an_earlier_world)
{
    struct bench b = open_bench();
    unsetenv(DT_VAULT_OWN_ENV);
    CHECK(!dt_vault_has_earlier(1));
    make_file(DT_VAULT_OWN_ENV);
    CHECK(!dt_vault_has_earlier(1));
    struct dt_vault *v = open_at(1);
    CHECK(!dt_vault_has_earlier(2));
    keep(v, &b, 1);
    CHECK(!dt_vault_has_earlier(1));
    CHECK(dt_vault_has_earlier(2));
    dt_vault_close(v);
    CHECK(dt_vault_has_earlier(2));
    close_bench(&b);
}

TEST(a_step_is_what_it_was_and_who_made_it_is_known)
{
    struct bench b = open_bench();
    make_file(DT_VAULT_OWN_ENV);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        struct dt_vault *of_child = open_at(0);
        keep(of_child, &b, 7);
        dt_vault_told(of_child, DT_VAULT_TOLD_STEP);
        _exit(0);
    }
    int status;
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK_EQ(status, 0);
    struct dt_vault *v = open_at(1);
    struct dt_vault_held held[DT_VAULT_HELD];
    struct dt_buf said = {0};
    dt_vault_list(v, held, &said);
    CHECK_EQ(held[0].source, DT_VAULT_OWN);
    const struct dt_vault_slot *s = dt_vault_slot(v, DT_VAULT_OWN, 0);
    CHECK_EQ(*(const int *)(const void *)dt_vault_slot_state(s), 7);
    CHECK_EQ(dt_vault_slot_header(s)->told, DT_VAULT_TOLD_STEP);
    for (int i = 0; i < PARAMS; i++)
        CHECK(dt_vault_slot_array(s, 0)[i] == (float)i && dt_vault_slot_array(s, 1)[i] == 0);
    dt_vault_begin_from(v, 0, 7);
    keep(v, &b, 8);
    dt_vault_list(v, held, &said);
    CHECK_EQ(held[1].source, DT_VAULT_OWN_MEMORY);
    dt_vault_close(v);
    close_bench(&b);
}

TEST(damage_is_told_and_steps_of_others_do_not_count)
{
    struct bench b = open_bench();
    struct dt_vault_held held[DT_VAULT_HELD];
    struct dt_buf said = {0};
    make_file(DT_VAULT_OWN_ENV);
    struct dt_vault *v = open_at(0);
    keep(v, &b, 1);
    dt_vault_slot_array(dt_vault_slot(v, DT_VAULT_OWN, 0), 2)[PARAMS / 2] = 3;
    dt_vault_list(v, held, &said);
    CHECK_EQ(held[0].source, DT_VAULT_NOTHING);
    CHECK_STR(dt_buf_cstr(&said),
              "a step in the vault of rank 0 is of no use: block 1 of 1 is damaged\n");
    dt_buf_finish(&said);
    dt_vault_close(v);
    close_bench(&b);
    static const struct dt_param renamed[] = {{"v", PARAMS, true}}, larger[] = {{"w", 101, true}};
    const struct dt_unit other_name[] = {{"u", renamed, 1}}, other_size[] = {{"u", larger, 1}};
    CHECK(dt_vault_job("other", "", units, 1, sizeof(int)) != job());
    CHECK(dt_vault_job("run", "alpha 8", units, 1, sizeof(int)) != job());
    CHECK(dt_vault_job("run", "", other_name, 1, sizeof(int)) != job());
    CHECK(dt_vault_job("run", "", other_size, 1, sizeof(int)) != job());
    CHECK(dt_vault_job("run", "", units, 1, sizeof(int) + 1) != job());
}

TEST(steps_of_another_mesh_do_not_count_and_are_no_news_where_meshes_change)
{
    static const struct {
        struct dt_vault_whose add;
        bool meshes;
        const char *said;
    } rows[] = {
        {{0, 0}, true, ""},
        {{0, 1}, true, ""},
        {{0, 1}, false, "a step in the vault of rank 0 is of no use: it is of another mesh\n"},
        {{1, 1},
         true,
         "a step in the vault of rank 0 is of no use: it is of another job or model\n"},
    };
    struct bench b = open_bench();
    make_file(DT_VAULT_OWN_ENV);
    struct dt_vault *first = open_at(0);
    keep(first, &b, 1);
    dt_vault_close(first);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%zu", i);
        struct dt_vault_held held[DT_VAULT_HELD];
        struct dt_buf said = {0};
        const struct dt_vault_whose *add = &rows[i].add;
        struct dt_vault *v = open_as(&(struct dt_vault_options){
            .whose = {job() + add->job, add->mesh}, .world = 1, .meshes = rows[i].meshes});
        dt_vault_list(v, held, &said);
        CHECK_EQ(held[0].source, add->job || add->mesh ? DT_VAULT_NOTHING : DT_VAULT_OWN_MEMORY);
        CHECK_STR(dt_buf_cstr(&said), rows[i].said);
        dt_buf_finish(&said);
        dt_vault_close(v);
    }
    close_bench(&b);
}

TEST(more_than_is_left_is_refused_before_it_is_taken)
{
    struct dt_err err = {0};
    struct bench b = open_bench();
    make_file(DT_VAULT_OWN_ENV);
    struct dt_vault *v = open_at(0);
    size_t shard = 1 << 20, one = dt_vault_bytes(shard, 4);
    CHECK(one > 2 * 12 * shard && one < 2 * 13 * shard);
    struct dt_vault_need need = {.shard = shard, .state = 4, .images = 1, .local = 3, .left = -1};
    CHECK_EQ(dt_vault_check_room(v, &need, &err), 0);
    need.left = (int64_t)(3 * one);
    CHECK_EQ(dt_vault_check_room(v, &need, &err), 0);
    need.left--;
    CHECK_FAIL(dt_vault_check_room(v, &need, &err), err,
               "the vault of 3 ranks on a host would take ");
    need.left = (int64_t)(6 * one);
    need.images = 2;
    CHECK_EQ(dt_vault_check_room(v, &need, &err), 0);
    need.images = 3;
    CHECK_FAIL(dt_vault_check_room(v, &need, &err), err,
               "the vault of 3 ranks on a host, with copies of other ranks', would take ");
    need = (struct dt_vault_need){SIZE_MAX / 64, 4, 1, 3, INT64_MAX};
    CHECK_FAIL(dt_vault_check_room(v, &need, &err), err, "would take ");
    CHECK_EQ(dt_vault_mapped(NULL), 0);
    CHECK_EQ(dt_vault_mapped(v), 0);
    keep(v, &b, 1); /* what it has already it need not take */
    CHECK(dt_vault_mapped(v) > 0 && dt_vault_mapped(v) < one);
    need = (struct dt_vault_need){shard, 4, 1, 1, (int64_t)one - 4096};
    CHECK_EQ(dt_vault_check_room(v, &need, &err), 0);
    dt_vault_close(v);
    close_bench(&b);
}

TEST(a_note_for_the_agent_stands_behind_all_steps_and_is_taken_back)
{
    static const char words[] = "/here\0/bin/train\0train";
    char text[sizeof words];
    uint32_t len;
    make_file(DT_VAULT_OWN_ENV);
    int fd = atoi(getenv(DT_VAULT_OWN_ENV));
    struct dt_vault *v = open_at(0);
    dt_vault_leave_note(v, (struct dt_bytes){(const uint8_t *)words, sizeof words});
    CHECK_EQ(pread(fd, &len, sizeof len, (off_t)DT_VAULT_NOTE_AT), sizeof len);
    CHECK_EQ(len, sizeof words);
    CHECK_EQ(pread(fd, text, sizeof text, (off_t)DT_VAULT_NOTE_AT + (off_t)sizeof len), len);
    CHECK(memcmp(text, words, sizeof words) == 0);
    dt_vault_leave_note(v, (struct dt_bytes){0});
    CHECK_EQ(pread(fd, &len, sizeof len, (off_t)DT_VAULT_NOTE_AT), sizeof len);
    CHECK_EQ(len, 0);
    dt_vault_close(v);
    close(fd);
    unsetenv(DT_VAULT_OWN_ENV);
}
