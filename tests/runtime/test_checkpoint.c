/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/runtime/checkpoints.h"

#include "base/crc32c.h"
#include "base/fs.h"
#include "worker_runtime/ops/half.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

BEFORE_ALL
{
    folder_make();
}

static const char *found(const char *folder, struct dt_buf *warning)
{
    static char path[PATH_MAX];
    struct dt_err err;
    CHECK_OK(dt_ckpt_find(folder, path, sizeof path, warning, &err), err);
    return *path ? strrchr(path, '/') + 1 : path;
}

TEST(any_world_reads_what_any_world_wrote)
{
    static const enum dt_dtype types[] = {DT_F32, DT_BF16, DT_F16};
    for (int a = 1; a <= 4; a++)
        for (int b = 1; b <= 4; b++) {
            char folder[512];
            struct dt_err err;
            int t = (a + b) % 3;
            CHECK_ROW("%d ranks write, %d read, type %d", a, b, t);
            snprintf(folder, sizeof folder, "%s/any-%d-%d", dir, a, b);
            save_once(folder, a, types[t], 100);
            CHECK_STR(found(folder, NULL), "step-00000100");
            strcat(folder, "/step-00000100");
            CHECK_OK(dt_ckpt_verify(folder, &err), err);
            CHECK_OK(read_all_ranks(folder, b, 100, &err), err);
            CHECK_EQ(entries(folder, ""), 4);
            CHECK_EQ(entries(folder, "model"), 1); /* the only weights that others find */
            strcat(folder, "/optimizer");
            CHECK_EQ(entries(folder, "master"), t != 0);
            CHECK_EQ(entries(folder, ""), t ? 3 : 2);
        }
}

/* What stands before AT in TEXT, with TO for each FROM. */
static void put_replaced(struct dt_buf *out, const char *text, size_t len, const char *from,
                         const char *to)
{
    const char *end = text + len;
    for (const char *at; (at = strstr(text, from)) && at < end; text = at + strlen(from)) {
        dt_buf_put(out, text, (size_t)(at - text));
        dt_buf_put_str(out, to);
    }
    dt_buf_put(out, text, (size_t)(end - text));
}

/* PATH as the first version of the format had it. */
static void make_flat(const char *path)
{
    static const char *const names[] = {"master", "exp_avg", "exp_avg_sq"};
    struct dt_buf text = {0}, first = {0}, flat = {0};
    struct dt_err err;
    char from[400], to[400];
    for (size_t i = 0; i < 3; i++) {
        snprintf(from, sizeof from, "%s/optimizer/%s.safetensors", path, names[i]);
        snprintf(to, sizeof to, "%s/%s.safetensors", path, names[i]);
        CHECK_EQ(rename(from, to), 0);
    }
    snprintf(from, sizeof from, "%s/optimizer", path);
    CHECK_EQ(rmdir(from), 0);
    snprintf(to, sizeof to, "%s/state.json", path);
    CHECK_OK(dt_fs_read(to, 1 << 20, &text, &err), err);
    const char *json = dt_buf_cstr(&text), *sum = strstr(json, "  \"crc32c\": \"");
    CHECK(sum != NULL);
    put_replaced(&first, json, (size_t)(sum - json), "\"optimizer/", "\"");
    const char *one = dt_buf_cstr(&first);
    put_replaced(&flat, one, strlen(one), "\"version\": 2", "\"version\": 1");
    uint32_t crc = dt_crc32c(0, (struct dt_bytes){flat.at, flat.len});
    dt_buf_printf(&flat, "  \"crc32c\": \"%08x\"\n}\n", crc);
    CHECK_OK(dt_fs_replace(to, flat.at, flat.len, 0644, &err), err);
    dt_buf_finish(&text);
    dt_buf_finish(&first);
    dt_buf_finish(&flat);
}

TEST(what_the_first_version_wrote_is_read)
{
    char path[300];
    struct dt_err err;
    save_once(at("flat"), 2, DT_BF16, 100);
    snprintf(path, sizeof path, "%s", at("flat/step-00000100"));
    make_flat(path);
    CHECK_STR(found(at("flat"), NULL), "step-00000100");
    CHECK_OK(dt_ckpt_verify(path, &err), err);
    CHECK_OK(read_all_ranks(path, 3, 100, &err), err);
    snprintf(path, sizeof path, "%s", at("flat/step-00000100/exp_avg.safetensors"));
    CHECK_EQ(unlink(path), 0);
    CHECK_FAIL(dt_ckpt_verify(at("flat/step-00000100"), &err), err,
               "step-00000100/exp_avg.safetensors");
}

TEST(the_state_comes_back)
{
    struct dt_ckpt_state want = state_of(7), s = {.scaler = {.window = 55, .dynamic = true}};
    struct dt_err err;
    save_once(at("state"), 2, DT_F32, 7);
    const char *path = at("state/step-00000007");
    CHECK_OK(read_rank(path, 1, 2, 7, NULL, &s, &err), err);
    CHECK_EQ(s.tokens, want.tokens);
    CHECK(s.data_position == want.data_position && s.seed == want.seed);
    CHECK_EQ(s.train_batch, 48);
    CHECK_EQ(s.shuffled, -1);
    CHECK_EQ(s.packed, 1);
    CHECK_EQ(s.optimizer_steps, 6);
    CHECK_EQ(s.schedule_steps, 5);
    CHECK(memcmp(&s.scaler.scale, &want.scaler.scale, sizeof(double)) == 0);
    CHECK_EQ(s.scaler.hysteresis_left, 2);
    CHECK_EQ(s.scaler.iteration, 7);
    CHECK_EQ(s.scaler.last_overflow, -1);
    CHECK_EQ(s.scaler.window, 55); /* of the configuration */
    CHECK(s.scaler.dynamic);
    CHECK(memcmp(&s.last_loss, &want.last_loss, sizeof(double)) == 0);
    CHECK(memcmp(&s.best, &want.best, sizeof s.best) == 0);
    CHECK_STR(s.run_id, want.run_id);
    CHECK_EQ(s.round, 3);
    CHECK(s.job_mark == want.job_mark);
    CHECK_EQ(s.micro_steps_count, 3);
    CHECK_EQ(s.micro_steps[1], 5);
    CHECK_BYTES(s.own, s.own_size, want.own, want.own_size);
    CHECK_OK(dt_ckpt_peek(path, &s, &err), err);
    CHECK_EQ(s.step, 7);
    CHECK_FAIL(dt_ckpt_peek(at("state"), &s, &err), err, "state.json");
}

TEST(what_is_not_known_is_not_written_and_a_loss_may_be_no_number)
{
    struct dt_manifest m = {.state = state_of(3), .block_bytes = 9, .model_type = DT_F32}, back;
    struct dt_buf text = {0};
    struct dt_err err;
    m.state.last_loss = INFINITY;
    m.state.shuffled = m.state.packed = 0;
    m.state.best.mark = 0;
    for (int f = 0; f < DT_CKPT_FILES; f++)
        if (f != DT_FILE_MASTER)
            CHECK_OK(dt_manifest_size(&m, f, 10, &err), err);
    dt_manifest_write(&m, &text);
    CHECK_OK(dt_manifest_read(&back, (struct dt_bytes){text.at, text.len}, &err), err);
    CHECK(isnan(back.state.last_loss));
    CHECK(strstr(dt_buf_cstr(&text), "packed") == NULL);
    CHECK_EQ(back.state.shuffled, 0);
    CHECK_EQ(back.state.packed, 0);
    CHECK_EQ(back.state.best.mark, 0);
    CHECK_EQ(back.state.best.worse, 4);
    dt_manifest_finish(&m);
    dt_manifest_finish(&back);
    dt_buf_finish(&text);
}

TEST(the_model_is_the_master_rounded)
{
    struct dt_st_file f;
    struct dt_err err;
    struct model m = model_make();
    save_once(at("rounded"), 3, DT_BF16, 5);
    CHECK_OK(dt_st_open(&f, at("rounded/step-00000005/model.safetensors"), &err), err);
    CHECK_EQ(f.count, m.count);
    size_t n = (size_t)(f.size - f.data_at) / 2, k = 0;
    for (size_t i = 0; i < m.count; i++)
        CHECK_STR(f.tensors[i].name, m.tensors[i].name);
    for (; k < n; k++) {
        uint16_t have;
        CHECK_EQ(pread(f.fd, &have, 2, (off_t)(f.data_at + 2 * k)), 2);
        CHECK_ROW("element %zu", k);
        CHECK_EQ(have, dt_float_to_bf16(value_of(5, 0, k)));
    }
    CHECK_EQ(n, dt_shape_params(&m.shape));
    dt_st_close(&f);
    free(m.tensors);
}

/* -- damage ----------------------------------------------------------------------------------- */

static off_t size_of(const char *path)
{
    struct stat st;
    CHECK_EQ(stat(path, &st), 0);
    return st.st_size;
}

static void flip(const char *path, off_t place, uint8_t bits)
{
    uint8_t b;
    int fd = open(path, O_RDWR);
    CHECK(fd >= 0);
    CHECK_EQ(pread(fd, &b, 1, place), 1);
    b ^= bits;
    CHECK_EQ(pwrite(fd, &b, 1, place), 1);
    close(fd);
}

TEST(a_flipped_bit_anywhere_is_found_and_its_tensor_named)
{
    static const char *const files[] = {"config.json", "model.safetensors",
                                        "optimizer/exp_avg.safetensors",
                                        "optimizer/exp_avg_sq.safetensors"};
    const char *path = "step-00000002";
    char folder[300], file[400];
    struct dt_err err;
    save_once(at("flip"), 2, DT_F32, 1);
    save_once(at("flip"), 2, DT_F32, 2);
    snprintf(folder, sizeof folder, "%s/flip/%s", dir, path);
    for (size_t f = 0; f < 4; f++) {
        snprintf(file, sizeof file, "%s/%s", folder, files[f]);
        off_t size = size_of(file);
        for (off_t i = 0; i < size; i += i < 600 ? 1 : 37) {
            CHECK_ROW("%s, byte %lld", files[f], (long long)i);
            flip(file, i, (uint8_t)(1 << i % 8));
            CHECK_FAIL(dt_ckpt_verify(folder, &err), err, files[f]);
            CHECK_FAIL(read_all_ranks(folder, 3, 2, &err), err, files[f]);
            flip(file, i, (uint8_t)(1 << i % 8));
        }
        CHECK_OK(read_all_ranks(folder, 3, 2, &err), err);
    }
    snprintf(file, sizeof file, "%s/optimizer/exp_avg.safetensors", folder);
    flip(file, size_of(file) - 1, 4);
    CHECK_FAIL(read_all_ranks(folder, 3, 2, &err), err, "ln_f.bias stand");
    CHECK_OK(dt_ckpt_find_before(at("flip"), folder, file, sizeof file, NULL, &err), err);
    CHECK_STR(strrchr(file, '/'), "/step-00000001");
    CHECK_FAIL(dt_ckpt_find_before(at("flip"), file, folder, sizeof folder, NULL, &err), err,
               "no older checkpoint");
}

TEST(a_file_cut_short_or_gone_sends_back_to_the_checkpoint_before)
{
    static const char *const files[] = {"config.json",
                                        "model.safetensors",
                                        "optimizer/master.safetensors",
                                        "optimizer/exp_avg.safetensors",
                                        "optimizer/exp_avg_sq.safetensors",
                                        "state.json"};
    for (size_t f = 0; f < 6; f++)
        for (int gone = 0; gone < 2; gone++) {
            char folder[300], file[400];
            struct dt_buf warning = {0};
            CHECK_ROW("%s %s", files[f], gone ? "gone" : "cut");
            snprintf(folder, sizeof folder, "%s/cut-%zu-%d", dir, f, gone);
            save_once(folder, 2, DT_BF16, 1);
            save_once(folder, 2, DT_BF16, 2);
            snprintf(file, sizeof file, "%s/step-00000002/%s", folder, files[f]);
            CHECK_EQ(gone ? unlink(file) : truncate(file, size_of(file) - 1), 0);
            CHECK_STR(found(folder, &warning), "step-00000001");
            CHECK(strstr(dt_buf_cstr(&warning), file) != NULL);
            dt_buf_finish(&warning);
        }
}

TEST(state_json_cut_at_any_byte_or_with_any_bit_flipped_is_refused)
{
    char path[PATH_MAX];
    struct dt_buf text = {0};
    struct dt_err err;
    save_once(at("text"), 2, DT_F32, 4);
    const char *file = at("text/step-00000004/state.json");
    CHECK_OK(dt_fs_read(file, 1 << 20, &text, &err), err);
    for (size_t n = text.len; n-- > 0;) {
        file = at("text/step-00000004/state.json");
        CHECK_ROW("cut at %zu", n);
        CHECK_EQ(truncate(file, (off_t)n), 0);
        CHECK_FAIL(dt_ckpt_find(at("text"), path, sizeof path, NULL, &err), err, "is whole");
    }
    for (size_t n = 0; n < text.len; n++)
        for (int bit = 0; bit < 8; bit++) {
            struct dt_manifest m;
            text.at[n] ^= (uint8_t)(1 << bit);
            CHECK_ROW("byte %zu, bit %d", n, bit);
            CHECK_FAIL(dt_manifest_read(&m, (struct dt_bytes){text.at, text.len}, &err), err, "");
            text.at[n] ^= (uint8_t)(1 << bit);
        }
    CHECK_OK(dt_fs_replace(file, text.at, text.len, 0644, &err), err);
    CHECK_STR(found(at("text"), NULL), "step-00000004");
    dt_buf_finish(&text);
}

/* -- which one -------------------------------------------------------------------------------- */

TEST(no_folder_and_an_empty_one_hold_nothing_to_resume_from)
{
    struct dt_err err;
    CHECK_STR(found(at("never"), NULL), "");
    CHECK_OK(dt_fs_mkdir_p(at("empty"), 0777, &err), err);
    CHECK_STR(found(at("empty"), NULL), "");
}

/* Over memory that is not zero, as a stack is in life. */
TEST(what_is_no_checkpoint_is_not_verified)
{
    struct dt_err err;
    char name[5000];
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    CHECK_FAIL(dt_ckpt_verify(at("not there"), &err), err, "there is no folder ");
    CHECK_OK(dt_fs_mkdir_p(at("holds none"), 0755, &err), err);
    CHECK_FAIL(dt_ckpt_verify(at("holds none"), &err), err,
               "is no checkpoint, and no `latest` in ");
    CHECK_FAIL(dt_ckpt_verify(name, &err), err, "is too long");
    save_once(at("unverified"), 1, DT_F32, 1);
    CHECK_EQ(unlink(at("unverified/step-00000001/model.safetensors")), 0);
    CHECK_FAIL(dt_ckpt_verify(at("unverified/step-00000001"), &err), err, "model.safetensors");
}

TEST(latest_decides_and_without_it_the_highest_step)
{
    struct dt_buf warning = {0};
    struct dt_err err;
    save_once(at("which"), 1, DT_F32, 1);
    save_once(at("which"), 1, DT_F32, 3);
    save_once(at("which"), 1, DT_F32, 2); /* a run that went back */
    CHECK_STR(found(at("which"), &warning), "step-00000002");
    CHECK_EQ(warning.len, 0);
    CHECK_OK(dt_fs_replace(at("which/latest"), "step-00000009\n", 14, 0644, &err), err);
    CHECK_STR(found(at("which"), &warning), "step-00000003");
    CHECK(strstr(dt_buf_cstr(&warning), "step-00000009, which `latest` names") != NULL);
    CHECK_EQ(unlink(at("which/latest")), 0);
    CHECK_STR(found(at("which"), NULL), "step-00000003");
    dt_buf_finish(&warning);
}

TEST(the_oldest_go)
{
    struct world w;
    world_open(&w, at("keep"), 2, (struct dt_ckpt_options){.keep_last = 2});
    for (int64_t step = 1; step <= 5; step++)
        world_save(&w, step);
    world_close(&w);
    CHECK_EQ(entries(at("keep"), "step-"), 2);
    CHECK_EQ(entries(at("keep"), ""), 3);
    CHECK(dt_fs_exists(at("keep/step-00000004")));
    CHECK_STR(found(at("keep"), NULL), "step-00000005");
}

/* The states of these saves say that step 2 is the best. */
TEST(the_best_stays_as_long_as_it_is_named)
{
    struct world w;
    struct dt_err err;
    char aside[PATH_MAX];
    CHECK_EQ(dt_ckpt_best(at("best")), -1);
    world_open(&w, at("best"), 2, (struct dt_ckpt_options){.keep_last = 1, .keep_best = true});
    for (int64_t step = 1; step <= 5; step++)
        world_save(&w, step);
    CHECK_EQ(dt_ckpt_best(at("best")), 2);
    CHECK_EQ(entries(at("best"), "step-"), 2);
    CHECK(dt_ckpt_is_there(at("best"), 2) && dt_ckpt_is_there(at("best"), 5));
    CHECK(dt_fs_exists(at("best/best/model.safetensors")));
    world_close(&w);
    CHECK_OK(dt_ckpt_point_best(at("best"), 5, &err), err);
    CHECK_EQ(dt_ckpt_best(at("best")), 5);
    world_open(&w, at("best"), 2, (struct dt_ckpt_options){.keep_last = 1}); /* asks for no best */
    world_save(&w, 6);
    world_save(&w, 7);
    world_close(&w);
    CHECK(dt_ckpt_is_there(at("best"), 5) && dt_ckpt_is_there(at("best"), 7));
    CHECK_EQ(entries(at("best"), "step-"), 2);
    CHECK_OK(dt_ckpt_set_aside(at("best"), aside, &err), err);
    CHECK_EQ(dt_ckpt_best(at("best")), -1);
    CHECK_EQ(dt_ckpt_best(aside), 5);
}

TEST(a_step_saved_again_replaces_what_was_there)
{
    struct dt_err err;
    save_once(at("again"), 3, DT_F32, 6);
    flip(at("again/step-00000006/state.json"), 20, 1);
    save_once(at("again"), 2, DT_F32, 6);
    CHECK_STR(found(at("again"), NULL), "step-00000006");
    CHECK_OK(read_all_ranks(at("again/step-00000006"), 2, 6, &err), err);
    CHECK_EQ(entries(at("again"), ""), 2);
}

/* A round that ends behind so many questions. */
static enum dt_ckpt_leave ask(void *arg)
{
    int *left = arg;
    return (*left)-- > 0 ? DT_CKPT_MAY : DT_CKPT_MAY_NEVER;
}

/* A save asks before the folder gets its name, and before `latest` does. */
TEST(when_the_round_is_over_nothing_is_committed)
{
    for (int more = 0; more < 2; more++) {
        struct world w;
        int left = 2 + more;
        struct dt_err err;
        struct dt_ckpt_options o = {.may_commit = ask, .may_commit_arg = &left};
        const char *folder = more ? "over between" : "over";
        world_open(&w, at(folder), 2, o);
        world_save(&w, 1);
        world_start(&w, 2);
        CHECK_FAIL(world_finish(&w, &err), err, "round of this world is over");
        CHECK_STR(found(at(folder), NULL), "step-00000001");
        world_close(&w);
        CHECK_EQ(entries(at(folder), ""), 2);
    }
}

TEST(what_an_earlier_world_left_is_removed)
{
    struct world w;
    struct dt_err err;
    CHECK_OK(dt_fs_mkdir_p(at("left/.tmp-step-00000009-0-1-1"), 0777, &err), err);
    CHECK_OK(
        dt_fs_replace(at("left/.tmp-step-00000009-0-1-1/model.safetensors"), "x", 1, 0644, &err),
        err);
    CHECK_OK(dt_fs_replace(at("left/.tmp-latest.Ab12cD"), "x", 1, 0644, &err), err);
    CHECK_OK(dt_fs_replace(at("left/latest.backup"), "not ours", 8, 0644, &err), err);
    world_open(&w, at("left"), 2, (struct dt_ckpt_options){.epoch = 2});
    CHECK_EQ(entries(at("left"), ""), 1);
    CHECK_EQ(entries(at("left"), "latest.backup"), 1);
    world_close(&w);
}

/* The folder stays with who has it; a world of the same run may come, and any when that one has
 * ended. */
TEST(two_runs_do_not_share_a_folder)
{
    struct world first, again;
    struct model m = model_make();
    struct dt_err err;
    world_open(&first, at("claimed"), 2, (struct dt_ckpt_options){.run_id = "run-a"});
    world_start(&first, 1);
    struct dt_ckpt_options other = {
        .dir = at("claimed"), .model = model_saved(&m), .world = 1, .run_id = "run-b"};
    CHECK(!dt_ckpt_open(&other, &err));
    CHECK_FAIL(-1, err, "another run run-a saves in ");
    other.run_id = ""; /* alone, without a name: not the same as anybody */
    CHECK(!dt_ckpt_open(&other, &err));
    CHECK_OK(world_finish(&first, &err), err); /* nothing was swept away */
    world_open(&again, at("claimed"), 1, (struct dt_ckpt_options){.run_id = "run-a"});
    world_close(&again);
    world_close(&first);
    world_open(&again, at("claimed"), 1, (struct dt_ckpt_options){.run_id = "run-b"});
    world_save(&again, 2);
    world_close(&again);
    CHECK_STR(found(at("claimed"), NULL), "step-00000002");
    free(m.tensors);
}

/* Has the lock until somebody has asked for it in vain, and so reads whose it is. */
static void hold_and_die(int ready) __attribute__((noreturn));
static void hold_and_die(int ready)
{
    char event[sizeof(struct inotify_event) + NAME_MAX + 1];
    const char *lock = at("dying/.lock");
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0666), watch = inotify_init1(IN_CLOEXEC);
    bool held = flock(fd, LOCK_EX | LOCK_NB) == 0 && write(fd, "run-a", 5) == 5 &&
                inotify_add_watch(watch, lock, IN_ACCESS) >= 0;
    (void)!write(ready, held ? "y" : "n", 1);
    (void)!read(watch, event, sizeof event);
    _exit(0);
}

/* As workers are whose launcher was killed: they hear of it, and are gone a moment later. */
TEST(a_run_that_dies_is_waited_for)
{
    struct world w;
    int ready[2];
    char byte;
    CHECK(mkdir(at("dying"), 0777) == 0 && pipe2(ready, O_CLOEXEC) == 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0)
        hold_and_die(ready[1]);
    CHECK(read(ready[0], &byte, 1) == 1 && byte == 'y');
    world_open(&w, at("dying"), 1, (struct dt_ckpt_options){.run_id = "run-b"});
    world_save(&w, 1);
    world_close(&w);
    CHECK_STR(found(at("dying"), NULL), "step-00000001");
    CHECK(waitpid(pid, NULL, 0) == pid);
    close(ready[0]);
    close(ready[1]);
}

/* One number of rank 1 is none that a run can go on from. */
static void start_with(struct world *w, int64_t step, enum dt_ckpt_file file, float number)
{
    struct dt_ckpt_state state = state_of(step);
    struct dt_err err;
    struct dt_stretch p;
    size_t i = 0;
    for (int r = 0; r < w->size; r++) {
        struct dt_zero_state *s = dt_ckpt_shards(w->rank[r]);
        fill(s, step);
        if (r == 1 && dt_layout_owned(s->layout, s->rank, &i, &p))
            *((file == DT_FILE_EXP_AVG      ? s->exp_avg
               : file == DT_FILE_EXP_AVG_SQ ? s->exp_avg_sq
                                            : s->master) +
              p.shard_at) = number;
        CHECK_OK(dt_ckpt_start(w->rank[r], &state, &err), err);
    }
}

TEST(a_state_with_numbers_that_are_not_finite_is_not_saved_where_that_is_asked_for)
{
    static const enum dt_ckpt_file files[] = {DT_FILE_MASTER, DT_FILE_EXP_AVG, DT_FILE_EXP_AVG_SQ};
    const float numbers[] = {NAN, INFINITY, -INFINITY};
    struct world w;
    struct dt_err err;
    world_open(&w, at("finite"), 2,
               (struct dt_ckpt_options){.model_type = DT_BF16, .finite_only = true});
    world_save(&w, 1);
    for (size_t i = 0; i < 3; i++) {
        CHECK_ROW("%s", dt_ckpt_file_name(false, files[i]));
        start_with(&w, 2, files[i], numbers[i]);
        CHECK_FAIL(world_finish(&w, &err), err, "the model has diverged, ");
        CHECK(strstr(err.text, i == 0 ? "model.safetensors" : dt_ckpt_file_name(false, files[i])));
        CHECK_STR(found(at("finite"), NULL), "step-00000001");
    }
    world_save(&w, 3);
    CHECK_STR(found(at("finite"), NULL), "step-00000003");
    world_close(&w);

    world_open(&w, at("any"), 2, (struct dt_ckpt_options){.model_type = DT_BF16});
    start_with(&w, 1, DT_FILE_MASTER, -INFINITY);
    CHECK_OK(world_finish(&w, &err), err);
    world_close(&w);
}

TEST(a_folder_that_is_removed_under_a_run_is_claimed_anew)
{
    struct world first;
    struct model m = model_make();
    struct dt_err err;
    struct dt_ckpt_options other = {
        .dir = at("removed"), .model = model_saved(&m), .world = 1, .run_id = "run-b"};
    world_open(&first, at("removed"), 2, (struct dt_ckpt_options){.run_id = "run-a"});
    world_save(&first, 1);
    dt_ckpt_remove(at("removed"));
    world_save(&first, 2);
    CHECK_STR(found(at("removed"), NULL), "step-00000002");
    CHECK(!dt_ckpt_open(&other, &err));
    CHECK_FAIL(-1, err, "another run run-a saves in ");

    dt_ckpt_remove(at("removed"));
    struct dt_ckpt *taken = dt_ckpt_open(&other, &err);
    CHECK_OK(taken ? 0 : -1, err);
    for (int64_t step = 3; step < 5; step++) {
        world_start(&first, step);
        CHECK_FAIL(world_finish(&first, &err), err, "another run run-b saves in ");
    }
    dt_ckpt_close(taken);
    world_save(&first, 5);
    CHECK_STR(found(at("removed"), NULL), "step-00000005");
    world_close(&first);
    free(m.tensors);
}

TEST(a_world_that_goes_on_without_its_folder_saves_as_soon_as_that_can_be_made)
{
    struct world w;
    struct dt_err err;
    struct dt_ckpt_options o = {.run_id = "run-a", .goes_on = true};
    int file = creat(at("away"), 0600);
    CHECK(file >= 0);
    close(file);
    world_open(&w, at("away/c"), 2, o);
    world_start(&w, 1);
    CHECK_FAIL(world_finish(&w, &err), err, "is no folder");
    CHECK_EQ(unlink(at("away")), 0);
    world_save(&w, 2);
    CHECK_STR(found(at("away/c"), NULL), "step-00000002");
    world_close(&w);
}

TEST(a_rank_on_another_disk_is_noticed)
{
    struct world w;
    struct dt_err err;
    char part[PATH_MAX];
    world_open(&w, at("disk"), 2, (struct dt_ckpt_options){0});
    world_start(&w, 1);
    dt_ckpt_wait(w.rank[1]);
    snprintf(part, sizeof part, "%.3000s/.part-1.json", w.rank[1]->temp);
    CHECK_EQ(unlink(part), 0);
    CHECK_FAIL(world_finish(&w, &err), err, "rank 1's part");
    CHECK_STR(found(at("disk"), NULL), "");
    world_save(&w, 2);
    CHECK_STR(found(at("disk"), NULL), "step-00000002");
    world_close(&w);
    CHECK_EQ(entries(at("disk"), ""), 2);
}

TEST(a_save_that_begins_before_the_last_one_ended_gives_that_one_up)
{
    struct world w;
    world_open(&w, at("early"), 2, (struct dt_ckpt_options){0});
    world_start(&w, 1);
    for (int r = 0; r < 2; r++)
        dt_ckpt_settle(w.rank[r]);
    world_save(&w, 2);
    CHECK_EQ(dt_ckpt_done(w.rank[0], NULL), 1);
    world_close(&w);
    CHECK_EQ(entries(at("early"), ""), 2);
}

TEST(another_model_is_refused_with_what_differs)
{
    struct model m = model_make();
    struct dt_ckpt_model saved = model_saved(&m);
    struct dt_layout l;
    int64_t steps;
    struct dt_zero_state in = {.steps = &steps};
    struct dt_ckpt_state s = {0};
    struct dt_err err;
    save_once(at("model"), 1, DT_F32, 1);
    CHECK_OK(dt_ckpt_cut(&saved, 1, &l, &err), err);
    CHECK_OK(dt_ckpt_shards_init(&in, &l, 0, NULL, &err), err);
    m.shape.layers = 3;
    CHECK_FAIL(dt_ckpt_read(at("model/step-00000001"), &saved, &in, &s, &err), err,
               "has layers 2, this run's has 3; give another folder to start anew");
    m.shape.layers = 2;
    m.shape.score_cap = 50;
    CHECK_FAIL(dt_ckpt_read(at("model/step-00000001"), &saved, &in, &s, &err), err,
               "has cap of scores 0, this run's has 50");
    m.shape.score_cap = 0;
    m.tensors[3].dims[0]++;
    CHECK_FAIL(dt_ckpt_read(at("model/step-00000001"), &saved, &in, &s, &err), err,
               m.tensors[3].name);
    dt_ckpt_shards_finish(&in, NULL);
    dt_layout_finish(&l);
    free(m.tensors);
}
