/* SPDX-License-Identifier: Apache-2.0 */
/* The trainer's uploader, driven by steps as the loop does: uploads go on beside them, what fails
 * on one rank is given up on all, and the end of a run waits no longer than it may. */
#include "tests/runtime/actor.h"

#include <dtrun/context.h>

BEFORE_ALL
{
    folder_make();
    setenv("DIR", dir, 1);
}

/* An empty place, and the actor of ME that uploads as TRAIN says, which may go away. */
static struct dt_config config;
static struct dt_train_options options;

static void open_uploading(struct actor *a, struct rank_self *me, struct dt_config_train train)
{
    struct dt_err err = {0};
    open_actor(a, me);
    config.train = train;
    config.train.save_dir = a->saves;
    a->t.config = &config;
    a->t.options = &options;
    CHECK_OK(dt_uploader_open(&a->t, 1, &err), err);
}

static void close_uploading(struct actor *a)
{
    dt_uploader_close(a->t.uploader);
    close_actor(a);
}

static void clean(void)
{
    CHECK_EQ(system("rm -rf \"$DIR\"/*"), 0);
}

/* Steps until STEP is saved. */
static void save(struct actor *a, int64_t step)
{
    struct dt_err err = {0};
    a->t.state.step = step;
    CHECK_OK(dt_saver_begin(&a->t, &err), err);
    while (a->t.saving.phase != DT_SAVING_NONE)
        step_actor(a);
    CHECK_EQ(a->t.saving.saved, step);
}

static bool is_owed(const struct actor *a)
{
    return dt_upload_owed(&a->t.uploader->turns, a->t.saving.saved, a->t.best_saved.step) >= 0;
}

static bool is_there(const char *name)
{
    return access(at(name), F_OK) == 0;
}

static const char *text_of(const char *name)
{
    static char text[1000];
    FILE *f = fopen(at(name), "r");
    CHECK(f != NULL);
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    fclose(f);
    return text;
}

static void uploads(struct rank_self *me)
{
    struct actor a;
    char url[700];
    snprintf(url, sizeof url, "file://%s", at("depot"));
    open_uploading(&a, me, (struct dt_config_train){.upload_to = url, .upload_keep_last = 2});
    for (int64_t step = 10; step <= 4000; step *= 20) { /* steps take a number too */
        save(&a, step);
        while (is_owed(&a))
            step_actor(&a);
        CHECK_EQ(a.t.uploader->turns.uploaded, step);
    }
    if (me->rank == 0) {
        CHECK(!is_there("depot/step-00000010"));
        CHECK(is_there("depot/step-00000200/state.json"));
        CHECK(is_there("depot/step-00004000/optimizer/exp_avg.safetensors"));
        CHECK_STR(text_of("depot/latest"), "step-00004000\n");
        CHECK_STR(warnings_of(&a), "");
    }
    close_uploading(&a);
}

TEST(checkpoints_are_uploaded_beside_steps)
{
    clean();
    ranks_run(3, uploads, NULL);
}

static void uploads_the_best(struct rank_self *me)
{
    struct actor a;
    char url[700];
    snprintf(url, sizeof url, "file://%s", at("depot"));
    open_uploading(
        &a, me,
        (struct dt_config_train){.upload_to = url, .upload_keep_last = 1, .keep_best = true});
    a.t.state.best = (struct dt_ckpt_best){.validated = 10, .step = 10, .loss = 1};
    for (int64_t step = 10; step <= 4000; step *= 20) {
        save(&a, step);
        while (is_owed(&a))
            step_actor(&a);
    }
    if (me->rank == 0) {
        CHECK(is_there("depot/step-00000010/state.json"));
        CHECK(!is_there("depot/step-00000200"));
        CHECK(is_there("depot/step-00004000/state.json"));
    }
    close_uploading(&a);
}

/* On a disk that has nothing. */
static void fetches_the_best(struct rank_self *me)
{
    struct actor a;
    struct dt_err err = {0};
    struct dt_found f = {.step = -1};
    char url[700];
    snprintf(url, sizeof url, "file://%s", at("depot"));
    open_uploading(&a, me, (struct dt_config_train){.upload_to = url, .keep_best = true});
    CHECK_OK(dt_uploader_restore(&a.t, &f, &err), err);
    CHECK(strstr(f.path, "/saves/step-00004000"));
    CHECK(is_there("saves/step-00004000/state.json"));
    CHECK(is_there("saves/step-00000010/state.json"));
    CHECK_STR(text_of("saves/latest"), "step-00004000\n");
    close_uploading(&a);
}

TEST(the_best_stays_where_it_was_uploaded_and_comes_back)
{
    clean();
    ranks_run(2, uploads_the_best, NULL);
    CHECK_EQ(system("rm -r \"$DIR/saves\""), 0);
    ranks_run(2, fetches_the_best, NULL);
}

/* STEP, where the copy of NEWEST will be the newest there and BEST is the best one on the disk. */
static void send(struct actor *a, struct dt_depot *d, int64_t step, int64_t newest, int64_t best)
{
    struct dt_err err = {0};
    struct dt_send s = {.depot = d,
                        .dir = a->saves,
                        .step = step,
                        .newest = newest,
                        .ranks = {0, 1, 1},
                        .keep_last = 1,
                        .best = best};
    CHECK_OK(dt_send_share(&s, &err), err);
    CHECK_OK(dt_send_seal(&s, &err), err);
    CHECK_EQ(s.warnings.len, 0);
}

static void sends_a_better_one(struct rank_self *me)
{
    struct actor a;
    struct dt_err err = {0};
    char url[700];
    snprintf(url, sizeof url, "file://%s", at("depot"));
    open_uploading(&a, me, (struct dt_config_train){0});
    struct dt_depot *d = dt_depot_open(&(struct dt_depot_options){.url = url}, &err);
    CHECK_OK(d ? 0 : -1, err);
    save(&a, 10);
    send(&a, d, 10, 10, 10);
    save(&a, 200);
    save(&a, 4000);
    send(&a, d, 4000, 4000, 200);
    CHECK(is_there("depot/step-00000010/state.json"));
    send(&a, d, 200, 4000, 200);
    CHECK(!is_there("depot/step-00000010"));
    CHECK(is_there("depot/step-00000200/state.json"));
    CHECK(is_there("depot/step-00004000/state.json"));
    CHECK_STR(text_of("depot/latest"), "step-00004000\n");
    dt_depot_close(d);
    close_uploading(&a);
}

TEST(the_best_one_stays_until_a_better_one_is_there)
{
    clean();
    ranks_run(1, sends_a_better_one, NULL);
}

static void replaces_alone(struct rank_self *me)
{
    struct actor a;
    struct dt_err err = {0};
    char url[700];
    snprintf(url, sizeof url, "file://%s", at("depot"));
    open_uploading(&a, me, (struct dt_config_train){0});
    save(&a, 10);
    if (me->rank == 1) { /* rank 0 comes later */
        struct dt_depot *d = dt_depot_open(&(struct dt_depot_options){.url = url}, &err);
        struct dt_send s = {
            .depot = d, .dir = a.saves, .step = 10, .ranks = {.rank = 1, .world = 2, .hosts = 1}};
        CHECK_EQ(system("cd \"$DIR\" && mkdir -p depot/step-00000010 && "
                        "echo other >depot/step-00000010/state.json"),
                 0);
        CHECK_OK(dt_send_share(&s, &err), err);
        CHECK(!is_there("depot/step-00000010/state.json"));
        dt_depot_close(d);
    }
    CHECK_OK(dt_coll_barrier(a.t.world, &err), err);
    close_uploading(&a);
}

TEST(no_rank_replaces_files_of_a_copy_that_counts_as_whole)
{
    clean();
    ranks_run(2, replaces_alone, NULL);
}

static void upload_step(struct actor *a, int64_t step, int64_t uploaded)
{
    save(a, step);
    while (is_owed(a))
        step_actor(a);
    CHECK_EQ(a->t.uploader->turns.uploaded, uploaded);
}

static void begins_anew(struct rank_self *me)
{
    struct actor a;
    struct dt_err err = {0};
    char url[700];
    snprintf(url, sizeof url, "file://%s", at("depot"));
    open_uploading(&a, me, (struct dt_config_train){.upload_to = url, .upload_keep_last = 1});
    a.t.uploader->anew = true; /* the store did not answer then */
    if (me->rank == 0)
        CHECK_EQ(system("cd \"$DIR\" && mkdir -p depot/step-00000010 && "
                        "echo other >depot/step-00000010/state.json"),
                 0);
    CHECK_OK(dt_coll_barrier(a.t.world, &err), err);
    upload_step(&a, 10, -1);
    if (me->rank == 0) {
        CHECK(strstr(warnings_of(&a), "holds checkpoints of another run, up to step 10; give "));
        CHECK_STR(text_of("depot/step-00000010/state.json"), "other\n");
        CHECK_EQ(system("cd \"$DIR\" && rm -r depot"), 0);
    }
    CHECK_OK(dt_coll_barrier(a.t.world, &err), err);
    upload_step(&a, 200, 200);
    upload_step(&a, 4000, 4000); /* beside its own */
    close_uploading(&a);
}

TEST(a_run_that_began_anew_uploads_nothing_between_checkpoints_of_another)
{
    clean();
    ranks_run(2, begins_anew, NULL);
}

/* Back from a vault that an earlier world of the job MARK has filled, before it had sealed any. */
static void come_back(struct actor *a, struct dt_kept_state *kept, uint64_t mark)
{
    struct dt_keeper *k = &a->t.keeper;
    *kept = (struct dt_kept_state){.state = {.step = 5, .job_mark = mark}, .anew = true};
    *k = (struct dt_keeper){.last = kept, .back = {.world = a->t.ranks}, .job_mark = mark};
    dt_keeper_settle_start(&a->t, -1);
    CHECK_EQ(a->t.state.step, 5);
    k->back.world = 0;
}

static void comes_back(struct rank_self *me)
{
    struct actor a;
    struct dt_err err = {0};
    struct dt_kept_state kept;
    char url[700];
    snprintf(url, sizeof url, "file://%s", at("depot"));
    open_uploading(&a, me, (struct dt_config_train){.upload_to = url, .upload_keep_last = 1});
    if (me->rank == 0)
        CHECK_EQ(system("cd \"$DIR\" && mkdir -p depot/step-00000010 && "
                        "echo other >depot/step-00000010/state.json"),
                 0);
    CHECK_OK(dt_coll_barrier(a.t.world, &err), err);
    come_back(&a, &kept, 77);
    upload_step(&a, 10, -1);
    if (me->rank == 0) {
        CHECK(strstr(warnings_of(&a), "holds checkpoints of another run, up to step 10; give "));
        CHECK_STR(text_of("depot/step-00000010/state.json"), "other\n");
        CHECK_EQ(system("cd \"$DIR\" && rm -r depot"), 0);
    }
    CHECK_OK(dt_coll_barrier(a.t.world, &err), err);
    upload_step(&a, 200, 200);
    come_back(&a, &kept, 77); /* the vault is of the step before it was sealed */
    upload_step(&a, 4000, 4000);
    come_back(&a, &kept, 78);
    upload_step(&a, 8000, 4000); /* of another job with a mark, that is */
    if (me->rank == 0)
        CHECK(strstr(warnings_of(&a), "holds checkpoints of another run, up to step 4000; give "));
    close_uploading(&a);
}

TEST(a_world_that_comes_back_knows_whether_the_depot_is_another_runs)
{
    clean();
    ranks_run(2, comes_back, NULL);
}

/* That of a rank alone, in round 1. */
static struct dt_context *open_context(void)
{
    static const char *const names[] = {"WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_WORLD_SIZE",
                                        "DTRUN_ROUND"};
    struct dt_err err = {0};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        setenv(names[i], "1", 1);
    setenv("RANK", "0", 1);
    setenv("LOCAL_RANK", "0", 1);
    setenv("GROUP_RANK", "0", 1);
    struct dt_context_options o = {.device = "cpu", .threads = 1};
    struct dt_context *c = dt_context_open(&o, &err);
    CHECK_OK(c ? 0 : -1, err);
    return c;
}

static void goes_on_from_its_own(struct rank_self *me)
{
    struct actor a;
    struct dt_kept_state kept = {.state = {.step = 5, .job_mark = 77}, .anew = true};
    char url[700];
    snprintf(url, sizeof url, "file://%s", at("depot"));
    open_uploading(&a, me, (struct dt_config_train){.upload_to = url, .upload_keep_last = 1});
    a.t.context = open_context();
    a.t.state = (struct dt_ckpt_state){.step = 6, .job_mark = 77}; /* saved behind the vault */
    a.t.keeper = (struct dt_keeper){.last = &kept, .back = {.step = 5, .world = 1}, .job_mark = 77};
    dt_keeper_settle_start(&a.t, 6);
    CHECK(!dt_keeper_is_back(&a.t.keeper));
    CHECK_EQ(a.t.state.step, 6);
    CHECK_EQ(system("cd \"$DIR\" && mkdir -p depot/step-00000010 && "
                    "echo other >depot/step-00000010/state.json"),
             0);
    upload_step(&a, 20, -1);
    CHECK(strstr(warnings_of(&a), "holds checkpoints of another run, up to step 10; give "));
    dt_context_close(a.t.context);
    close_uploading(&a);
}

TEST(a_world_that_goes_on_from_a_checkpoint_knows_that_too)
{
    clean();
    ranks_run(1, goes_on_from_its_own, NULL);
}

/* Notes the step of each state.json, and waits for the first until somebody says go. */
#define GATED                                                                                      \
    "case $DTRUN_UPLOAD_KEY in *state.json) until [ -e \"$DIR/go\" ]; do sleep 0.01; done;"        \
    "echo ${DTRUN_UPLOAD_KEY%/*} >>\"$DIR/log\";; esac"

static void falls_behind(struct rank_self *me)
{
    struct actor a;
    struct dt_err err = {0};
    open_uploading(&a, me, (struct dt_config_train){.upload_cmd = (char[]){GATED}});
    for (int64_t step = 1000; step <= 5000; step += 1000)
        save(&a, step); /* the upload of the first is under way all the time */
    CHECK_EQ(a.t.uploader->turns.step, 1000);
    /* keep_last is 2, and the one that is being uploaded stays beside them. */
    CHECK(is_there("saves/step-00001000/state.json"));
    CHECK_OK(dt_coll_barrier(a.t.world, &err), err);
    if (me->rank == 0)
        CHECK_EQ(system("touch \"$DIR/go\""), 0);
    while (is_owed(&a))
        step_actor(&a);
    CHECK_EQ(a.t.uploader->turns.uploaded, 5000);
    if (me->rank == 0)
        CHECK_STR(text_of("log"), "step-00001000\nstep-00005000\n");
    save(&a, 9000); /* nobody needs the first one any more */
    CHECK_OK(dt_coll_barrier(a.t.world, &err), err);
    CHECK(!is_there("saves/step-00001000/state.json"));
    close_uploading(&a);
}

TEST(a_slow_depot_gets_the_newest_and_what_it_is_sent_stays_on_the_disk)
{
    clean();
    ranks_run(2, falls_behind, NULL);
}

static void falls_behind_the_best(struct rank_self *me)
{
    struct actor a;
    struct dt_err err = {0};
    open_uploading(&a, me,
                   (struct dt_config_train){.upload_cmd = (char[]){GATED}, .keep_best = true});
    for (int64_t step = 1000; step <= 5000; step += 1000) {
        if (step == 3000)
            a.t.state.best = (struct dt_ckpt_best){.validated = 3000, .step = 3000, .loss = 1};
        save(&a, step);
        if (step == 3000 && me->rank == 0)
            CHECK_OK(dt_ckpt_point_best(a.saves, step, &err), err);
    }
    CHECK_OK(dt_coll_barrier(a.t.world, &err), err);
    if (me->rank == 0)
        CHECK_EQ(system("touch \"$DIR/go\""), 0);
    CHECK_OK(dt_uploader_finish(&a.t, false, &err), err);
    if (me->rank == 0) {
        CHECK_STR(text_of("log"), "step-00001000\nstep-00005000\nstep-00003000\n");
        CHECK_STR(warnings_of(&a), "");
    }
    close_uploading(&a);
}

TEST(a_slow_depot_gets_the_best_as_well)
{
    clean();
    ranks_run(2, falls_behind_the_best, NULL);
}

#define BAD_FILE "case $DTRUN_UPLOAD_KEY in */exp_avg_sq*) echo no >&2; exit 1;; esac"

static void fails_on_one(struct rank_self *me)
{
    struct actor a;
    open_uploading(&a, me, (struct dt_config_train){.upload_cmd = (char[]){BAD_FILE}});
    save(&a, 10);
    while (is_owed(&a))
        step_actor(&a);
    CHECK_EQ(a.t.uploader->turns.uploaded, -1);
    if (me->rank == 0) {
        const char *said = warnings_of(&a);
        CHECK(strstr(said, "p: step 10 is not uploaded to case "));
        CHECK(strstr(said,
                     "exp_avg_sq.safetensors: the upload command ended with exit status 1: no; "
                     "it is safe in "));
        CHECK(strstr(said, "/saves/step-00000010, and the next checkpoint is uploaded anew"));
    }
    save(&a, 200); /* which fails likewise */
    while (is_owed(&a))
        step_actor(&a);
    if (me->rank == 0)
        CHECK(strstr(warnings_of(&a), "p: step 200 is not uploaded to case "));
    close_uploading(&a);
}

TEST(what_fails_on_one_rank_costs_a_warning_and_the_upload)
{
    clean();
    ranks_run(3, fails_on_one, NULL);
}

static void does_not_end(struct rank_self *me)
{
    struct actor a;
    struct dt_err err = {0};
    open_uploading(&a, me,
                   (struct dt_config_train){.upload_cmd = (char[]){"exec sleep 1000"},
                                            .upload_timeout_ms = 50});
    save(&a, 10);
    CHECK_OK(dt_uploader_finish(&a.t, true, &err), err);
    CHECK_EQ(a.t.uploader->turns.phase, DT_UPLOAD_NONE);
    if (me->rank == 0)
        CHECK(strstr(warnings_of(&a), "the time to wait for it at the end of a run is over; it is "
                                      "safe in "));
    close_uploading(&a);
}

TEST(the_end_of_a_run_waits_no_longer_than_it_may)
{
    clean();
    ranks_run(2, does_not_end, NULL);
}

static void ends_in_the_middle(struct rank_self *me)
{
    struct actor a;
    open_uploading(&a, me, (struct dt_config_train){.upload_cmd = (char[]){"exec sleep 1000"}});
    save(&a, 10);
    step_actor(&a);
    CHECK_EQ(a.t.uploader->turns.phase, DT_UPLOAD_SENDING);
    close_uploading(&a); /* as after an error in a step */
}

TEST(a_run_that_fails_leaves_no_thread_behind)
{
    clean();
    ranks_run(2, ends_in_the_middle, NULL);
}
