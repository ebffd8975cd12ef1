/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/train/rescue.h"

#include "base/auto.h"
#include "base/fs.h"
#include "base/say.h"
#include "rendezvous/protocol/vault_fds.h"
#include "worker_runtime/ckpt/rescue.h"
#include "worker_runtime/train/inside.h"

#include <inttypes.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define LOOK_EVERY_NS 20000000
#define TRIES 2 /* a rank has two steps, and one of them is whole among all nodes */
#define PATIENCE (10 * DT_SECOND)     /* all agents begin at about the same time */
#define LONGEST (30 * 60 * DT_SECOND) /* the part of a large model, on a slow disk */

/* -- the note --------------------------------------------------------------------------------- */

static void put_word(struct dt_buf *out, const char *word)
{
    dt_buf_put(out, word, strlen(word) + 1);
}

/* This very command line, and --rescue: behind all else, as the first word may be a command. */
static void put_command(struct dt_buf *out)
{
    struct dt_buf line = {0};
    if (dt_fs_read("/proc/self/cmdline", DT_VAULT_NOTE_MAX, &line, NULL) < 0 || line.len == 0)
        out->bad = true;
    else {
        dt_buf_put(out, line.at, line.len);
        put_word(out, "--rescue");
    }
    dt_buf_finish(&line);
}

static void put_adapters(struct dt_buf *out, const struct dt_config *c)
{
    struct dt_buf set = {0};
    dt_buf_put_str(&set, "lora=");
    dt_config_put_lora(c, &set);
    put_word(out, "--set");
    put_word(out, dt_buf_cstr(&set));
    out->bad = out->bad || set.bad;
    dt_buf_finish(&set);
}

void dt_rescue_leave_note(struct dt_vault *v, const struct dt_config *c, bool saves)
{
    struct dt_buf note = {0};
    char here[PATH_MAX], program[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    if (saves && n > 0 && getcwd(here, sizeof here)) {
        program[n] = '\0';
        put_word(&note, here);
        put_word(&note, program);
        put_command(&note);
        if (c->lora_from)
            put_adapters(&note, c);
    }
    dt_vault_leave_note(v, note.bad ? (struct dt_bytes){0} : (struct dt_bytes){note.at, note.len});
    dt_buf_finish(&note);
}

/* -- what there is ---------------------------------------------------------------------------- */

struct remains {
    const struct dt_rescue_options *o;
    struct dt_trainer t; /* its configuration, model and data */
    const char *run_id;
    int64_t round;
    struct dt_vault **vault; /* of each worker of this node */
    int count;
    struct dt_vault_held *held; /* DT_VAULT_HELD of each */
};

static size_t held_count(const struct remains *r)
{
    return (size_t)r->count * DT_VAULT_HELD;
}

/* "7,8,9,10": pairs. How many; -1: that is no such list. */
static int read_files(const char *text, int *fds, int most)
{
    int n = 0;
    for (char *end; text && *text; text = *end ? end + 1 : end) {
        long fd = strtol(text, &end, 10);
        if (end == text || (*end && *end != ',') || fd < 3 || fd > INT_MAX || n == most)
            return -1;
        fds[n++] = (int)fd;
    }
    return n > 0 && n % 2 == 0 ? n : -1;
}

static int open_vaults(struct remains *r, struct dt_err *err)
{
    const char *text = getenv(DT_VAULT_FILES_ENV);
    int most = text ? (int)strlen(text) / 2 + 1 : 0;
    DT_AUTO_FREE int *fds = calloc((size_t)most + 1, sizeof *fds);
    int n = fds ? read_files(text, fds, most) : -1;
    if (n < 0)
        return dt_err_set(err, DT_E_USAGE,
                          "--rescue is for dtrun alone: there is no list of files "
                          "in " DT_VAULT_FILES_ENV);
    struct dt_vault_options o = {.whose = dt_keeper_whose(&r->t, r->run_id, r->o->init_from)};
    r->count = n / 2;
    r->vault = calloc((size_t)r->count, sizeof *r->vault);
    r->held = calloc(held_count(r), sizeof *r->held);
    if (!r->vault || !r->held)
        return dt_err_set(err, DT_E_MEMORY, "no memory for the vaults of %d workers", r->count);
    struct dt_buf unsaid = {0}; /* of what is damaged; that a step is not whole is said */
    for (int i = 0; i < r->count; i++) {
        o.own = fds[2 * i];
        o.peer = fds[2 * i + 1];
        r->vault[i] = dt_vault_open(&o, NULL);
        dt_vault_list(r->vault[i], r->held + (size_t)i * DT_VAULT_HELD, &unsaid);
    }
    dt_buf_finish(&unsaid);
    return 0;
}

static const struct dt_vault_slot *slot_of(const struct remains *r, const struct dt_vault_held *h)
{
    size_t worker = (size_t)(h - r->held) / DT_VAULT_HELD;
    return dt_vault_slot(r->vault[worker], (enum dt_vault_source)h->source, (int)h->slot);
}

static int count_parts(const struct remains *r, const struct dt_vault_held *step)
{
    int parts = 0;
    for (int rank = 0; rank < step->world; rank++)
        parts += dt_vault_part(r->held, held_count(r), step, rank) != NULL;
    return parts;
}

/* The newest step of which this node has all; else those of which it has a part, as other nodes may
 * have the others. How many. */
static int choose(const struct remains *r, const struct dt_vault_held *tries[TRIES])
{
    const struct dt_vault_held *step = NULL;
    int n = 0;
    while ((step = dt_vault_next_step(r->held, held_count(r), step))) {
        if (count_parts(r, step) == step->world) {
            tries[0] = step;
            return 1;
        }
        if (n < TRIES)
            tries[n++] = step;
    }
    return n;
}

/* -- saving ----------------------------------------------------------------------------------- */

static int take_state(const struct remains *r, const struct dt_vault_held *step,
                      struct dt_kept_state *k, struct dt_err *err)
{
    if (step->state != (int64_t)sizeof *k)
        return dt_err_set(err, DT_E_RUNTIME, "the vault is of another program");
    memcpy(k, dt_vault_slot_state(slot_of(r, step)), sizeof *k);
    return dt_kept_check(k, err);
}

/* Not where a checkpoint has it, or the model has diverged. A checkpoint of another job, or of a
 * higher round, is of an earlier one: had a later one begun, the rescue would be too late. */
static bool is_worth_it(const struct remains *r, const struct dt_vault_held *step,
                        const struct dt_kept_state *k)
{
    struct dt_ckpt_state s;
    char path[PATH_MAX];
    if (k->skipped > 0 && !r->o->config->scaler.dynamic)
        return false;
    if (dt_ckpt_find(r->o->config->train.save_dir, path, sizeof path, NULL, NULL) < 0 || !*path ||
        dt_ckpt_peek(path, &s, NULL) < 0 || s.job_mark != k->state.job_mark || s.round > r->round)
        return true;
    return step->epoch != s.round ? step->epoch > s.round : step->step > s.step;
}

/* Where tokenizer and the like of this model are; NULL: nowhere. */
static const char *companions(const struct remains *r, char room[PATH_MAX])
{
    const char *dir = r->o->config->train.save_dir;
    if (dt_ckpt_find(dir, room, PATH_MAX, NULL, NULL) == 0 && *room)
        return room;
    return r->o->init_from ? dt_ckpt_weights_folder(r->o->init_from, room) : NULL;
}

/* Large models take minutes. */
static void say_saving(const struct remains *r, const struct dt_vault_held *step)
{
    char line[PATH_MAX + 200];
    const char *part = count_parts(r, step) == step->world ? "" : "what this node has of ";
    snprintf(line, sizeof line,
             "saving %sstep %" PRId64 " in %s, as workers have kept it in memory", part, step->step,
             r->o->config->train.save_dir);
    dt_say(DT_TRAIN_PROGRAM, line);
}

static int save(struct remains *r, const struct dt_vault_held *step, const struct dt_kept_state *k,
                enum dt_rescue_end *how, struct dt_err *err)
{
    const struct dt_config *c = r->o->config;
    char room[PATH_MAX];
    struct dt_ckpt_model model = r->t.saved;
    if (*k->base)
        model.base = k->base;
    DT_AUTO_FREE struct dt_rescue_shard *shards = calloc((size_t)step->world, sizeof *shards);
    struct dt_ckpt_options o = {.dir = c->train.save_dir,
                                .keep_last = c->train.keep_last,
                                .keep_best = c->train.keep_best,
                                .model = model,
                                .model_type = dt_config_trained_type(c),
                                .epoch = r->round,
                                .finite_only = true,
                                .run_id = r->run_id,
                                .job_mark = k->state.job_mark};
    struct dt_rescue_step s = {.state = &k->state,
                               .shards = shards,
                               .world = (int)step->world,
                               .shard = (size_t)step->shard,
                               .companions = companions(r, room),
                               .patience = PATIENCE,
                               .longest = LONGEST};
    if (!shards)
        return dt_err_set(err, DT_E_MEMORY, "no memory for shards");
    say_saving(r, step);
    for (int rank = 0; rank < s.world; rank++) {
        const struct dt_vault_held *h = dt_vault_part(r->held, held_count(r), step, rank);
        const struct dt_vault_slot *slot = h ? slot_of(r, h) : NULL;
        if (slot)
            shards[rank] =
                (struct dt_rescue_shard){dt_vault_slot_array(slot, 0), dt_vault_slot_array(slot, 1),
                                         dt_vault_slot_array(slot, 2)};
    }
    return dt_ckpt_rescue(&o, &s, how, err);
}

/* -- uploading -------------------------------------------------------------------------------- */

static int send(void *arg, struct dt_err *err)
{
    return dt_send_share(arg, err) < 0 ? -1 : dt_send_seal(arg, err);
}

static int await(struct dt_errand *e, dt_ms patience, struct dt_err *err)
{
    const struct timespec nap = {.tv_nsec = LOOK_EVERY_NS};
    dt_ms until = dt_clock_after(dt_clock_monotonic(), patience);
    int rc;
    while ((rc = dt_errand_ask(e, err)) == 0) {
        if (dt_clock_monotonic() > until)
            dt_errand_stop(e);
        nanosleep(&nap, NULL);
    }
    return rc;
}

/* By itself alone, for no other rank is left. */
static int upload(const struct remains *r, const struct dt_kept_state *k, struct dt_err *err)
{
    const struct dt_config_train *c = &r->o->config->train;
    struct dt_errand errand = {0};
    struct dt_depot_options o = {.url = c->upload_to,
                                 .command = c->upload_cmd,
                                 .bandwidth = (uint64_t)c->upload_bandwidth,
                                 .stop = &errand.stop};
    struct dt_send s = {.depot = dt_depot_open(&o, err),
                        .dir = c->save_dir,
                        .step = k->state.step,
                        .newest = k->state.step,
                        .ranks = {0, 1, 1},
                        .keep_last = c->upload_keep_last,
                        .best = c->keep_best ? k->state.best.step : 0,
                        .anew = k->anew,
                        .job_mark = k->state.job_mark,
                        .stop = &errand.stop};
    int rc = s.depot ? dt_errand_begin(&errand, send, &s, err) : -1;
    if (rc == 0)
        rc = await(&errand, c->upload_timeout_ms, err);
    dt_errand_finish(&errand);
    dt_depot_close(s.depot);
    dt_buf_finish(&s.warnings);
    return rc < 0 ? -1 : 0;
}

/* -- all of it -------------------------------------------------------------------------------- */

static void say_saved(const struct remains *r, const struct dt_kept_state *k)
{
    int64_t step = k->state.step;
    const struct dt_config_train *c = &r->o->config->train;
    char line[PATH_MAX + 200];
    struct dt_err why = {0};
    snprintf(line, sizeof line, "step %" PRId64 " is saved in %s/step-%08" PRId64, step,
             c->save_dir, step);
    dt_say(DT_TRAIN_PROGRAM, line);
    if (!c->upload_to && !c->upload_cmd)
        return;
    bool done = upload(r, k, &why) == 0;
    snprintf(line, sizeof line, "step %" PRId64 " is %suploaded%s%s", step, done ? "" : "not ",
             done ? "" : ": ", done ? "" : why.text);
    dt_say(DT_TRAIN_PROGRAM, line);
}

static int fail_incomplete(const struct dt_vault_held *step, struct dt_err *err)
{
    return dt_err_set(err, DT_E_RUNTIME,
                      "step %" PRId64 " is not saved: the nodes that are left do not have the "
                      "shards of all %" PRId64 " ranks of it",
                      step->step, step->world);
}

/* A later world that saves, or another node that does, is no failure. */
static int save_newest(struct remains *r, struct dt_kept_state *k, struct dt_err *err)
{
    const struct dt_vault_held *tries[TRIES];
    bool elsewhere = false;
    enum dt_rescue_end how = DT_RESCUE_TOO_LATE;
    int n = choose(r, tries);
    for (int i = 0; i < n; i++) {
        if (take_state(r, tries[i], k, err) < 0)
            return -1;
        if (!is_worth_it(r, tries[i], k))
            return 0;
        if (save(r, tries[i], k, &how, err) < 0)
            return dt_err_wrap(err, "step %" PRId64 " is not saved", tries[i]->step);
        if (how == DT_RESCUE_SAVED)
            say_saved(r, k);
        if (how == DT_RESCUE_SAVED || how == DT_RESCUE_TOO_LATE)
            return 0;
        elsewhere = elsewhere || how == DT_RESCUE_ELSEWHERE;
    }
    return n == 0 || elsewhere ? 0 : fail_incomplete(tries[n - 1], err);
}

/* What a checkpoint of another one has in its config.json depends on the data; what it has in its
 * tensors does not, so data that is gone is no reason to lose them. */
static int open_rescue(struct remains *r, struct dt_err *err)
{
    const char *round = getenv("DTRUN_ROUND"), *run = getenv("TORCHELASTIC_RUN_ID");
    /* A note is left by ranks that have all of the model, in whatever mesh the run began. */
    r->t.other = *r->o->config;
    r->t.other.parallel.tensor = r->t.other.parallel.pipeline = r->t.other.parallel.expert = 1;
    r->t.config = &r->t.other;
    r->run_id = run ? run : "";
    r->round = round ? strtoll(round, NULL, 10) : 0;
    if (dt_trainer_open_model(&r->t, err) < 0)
        return -1;
    if (r->o->init_from)
        r->t.saved.base = dt_ckpt_weights_folder(r->o->init_from, r->t.weights);
    if (dt_trainer_open_data(&r->t, NULL) < 0 && !r->t.train)
        r->t.shape = r->o->config->model.shape;
    return open_vaults(r, err);
}

int dt_rescue_run(const struct dt_rescue_options *o, struct dt_err *err)
{
    struct remains r = {.o = o};
    DT_AUTO_FREE struct dt_kept_state *k = calloc(1, sizeof *k);
    int rc = k ? open_rescue(&r, err) : dt_err_set(err, DT_E_MEMORY, "no memory for a state");
    if (rc == 0)
        rc = save_newest(&r, k, err);
    for (int i = 0; i < r.count && r.vault; i++)
        dt_vault_close(r.vault[i]);
    free(r.vault);
    free(r.held);
    dt_trainer_close(&r.t);
    return rc;
}
