/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/hang/hang.h"

#include "agent/hang/record.h"
#include "agent/hang/survey.h"
#include "agent/hang/witness.h"
#include "agent/look/glance.h"
#include "base/list.h"
#include "base/log.h"
#include "base/loop/aside.h"
#include "base/loop/ending.h"
#include "base/str.h"
#include "rendezvous/hang/doubt.h"
#include "rendezvous/protocol/stance_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define ANSWERS_MAX (2 * DT_SECOND) /* flight recorders are waited for; they look once a second */
#define SAY_AGAIN (10 * DT_SECOND)  /* that they stand still, as long as nobody calls it a hang */

enum state {
    MOVING,
    STILL, /* for too long, but nobody has called it a hang */
    TOLD,
    STATES,
};

/* What may follow what. A finding of the whole job may come when the workers here move again. */
static const bool may_follow[STATES][STATES] = {
    [MOVING] = {[STILL] = true, [TOLD] = true},
    [STILL] = {[MOVING] = true, [TOLD] = true},
    [TOLD] = {[MOVING] = true},
};

static const char *const state_name[] = {[MOVING] = "moving", [STILL] = "still", [TOLD] = "told"};

struct dt_hang {
    struct dt_hang_means means;
    const struct dt_hang_events *events;
    void *arg;
    enum state state;
    dt_ms began; /* to stand still */
    dt_ms said;  /* ... when it was said last */
    dt_ms asked; /* ... when flight recorders were asked about it; 0: not yet */
    int hangs;   /* told so far */
    char sentence[DT_HANG_SENTENCE_MAX];
    struct dt_buf stacks; /* of the last look */

    struct dt_witness *witness;
    struct dt_glance *glances;
    struct dt_sample *samples;
    uv_timer_t timer;
    struct dt_aside sampling;
    bool samples_taken; /* a thread has the two above */
    struct dt_ending ending;
};

/* One look, in a thread and back. */
struct request {
    struct dt_aside aside;
    struct dt_hang *hang;
    dt_hang_looked_fn *then;
    void *arg;
    struct dt_stances stances;
    struct dt_buf stacks;
    struct dt_err err;
    int rc, count, store_port;
    bool native;
    struct dt_survey_worker workers[];
};

static void enter(struct dt_hang *h, enum state to)
{
    if (!may_follow[h->state][to])
        dt_bug("workers that are %s cannot be %s", state_name[h->state], state_name[to]);
    h->state = to;
}

static int count_of(const struct dt_hang *h)
{
    return h->means.plan->nproc;
}

static bool runs(const struct dt_hang *h, int i)
{
    return dt_group_worker(h->means.group, i)->end == DT_WORKER_RUNS;
}

/* -- looks ------------------------------------------------------------------------------------ */

static void describe_left(const struct dt_worker *w, char *out, size_t size)
{
    if (w->end == DT_WORKER_NEVER_STARTED)
        snprintf(out, size, "has not been started");
    else if (WIFSIGNALED(w->status))
        snprintf(out, size, "has died of signal %d", WTERMSIG(w->status));
    else
        snprintf(out, size, "has exited with %d", WEXITSTATUS(w->status));
}

static void free_request(struct request *r)
{
    for (int i = 0; i < r->count; i++)
        free(r->workers[i].dump);
    dt_stances_finish(&r->stances);
    dt_buf_finish(&r->stacks);
    free(r);
}

/* What was dumped about an earlier time that they stood still says nothing of now. */
static char *choose_dump(const struct dt_hang *h, int i)
{
    const char *dump = h->asked ? dt_recorders_dump(h->means.recorders, i) : NULL;
    return dump ? strdup(dump) : NULL;
}

static void prepare(struct request *r)
{
    const struct dt_hang_means *m = &r->hang->means;
    r->store_port = m->world->store_is_served ? m->world->master_port : 0;
    for (int i = 0; i < r->count; i++) {
        const struct dt_worker *w = dt_group_worker(m->group, i);
        r->workers[i] = (struct dt_survey_worker){
            .rank = m->world->first_rank + i,
            .pid = runs(r->hang, i) ? w->pid : 0,
            .still = r->hang->witness ? dt_witness_still_of(r->hang->witness, i) : 0,
            .dump = choose_dump(r->hang, i),
        };
        if (r->hang->witness)
            r->workers[i].round = dt_witness_round_of(r->hang->witness, i);
        dt_pages_read(m->pages, i, &r->workers[i].page);
        dt_pages_read_comms(m->pages, i, &r->workers[i].comms);
        if (!r->workers[i].pid)
            describe_left(w, r->workers[i].left, sizeof r->workers[i].left);
    }
}

static void take_look(struct dt_aside *aside)
{
    struct request *r = dt_container_of(aside, struct request, aside);
    r->rc = dt_survey_take(r->workers, r->count, r->store_port, r->native, &r->stances, &r->stacks,
                           &r->err);
}

static void take_stances(struct dt_hang *h, struct request *r)
{
    if (r->aside.status < 0)
        dt_warn("the workers could not be looked at: %s", uv_strerror(r->aside.status));
    else if (r->rc < 0)
        dt_warn("the workers could not be looked at: %s", r->err.text);
    if (r->aside.status < 0 || r->rc < 0)
        return;
    dt_buf_finish(&h->stacks);
    h->stacks = r->stacks;
    r->stacks = (struct dt_buf){0};
    r->then(r->arg, &r->stances);
}

static void on_looked(struct dt_aside *aside)
{
    struct request *r = dt_container_of(aside, struct request, aside);
    struct dt_hang *h = r->hang;
    if (!h->ending.begun)
        take_stances(h, r);
    free_request(r);
    dt_ending_step(&h->ending);
}

int dt_hang_look(struct dt_hang *h, bool native, dt_hang_looked_fn *then, void *arg,
                 struct dt_err *err)
{
    struct request *r = calloc(1, sizeof *r + (size_t)count_of(h) * sizeof r->workers[0]);
    if (!r)
        return dt_err_set(err, DT_E_MEMORY, "no memory for a look at the workers");
    *r = (struct request){
        .hang = h, .native = native, .then = then, .arg = arg, .count = count_of(h)};
    prepare(r);
    int rc = dt_aside_run(&r->aside, h->means.loop, take_look, on_looked);
    if (rc < 0) {
        free_request(r);
        return dt_err_set(err, DT_E_RUNTIME, "no look at the workers: %s", uv_strerror(rc));
    }
    dt_ending_add(&h->ending);
    return 0;
}

static void print_look(void *arg, const struct dt_stances *stances)
{
    struct dt_buf text = {0};
    (void)arg;
    dt_stances_put_text(stances, &text);
    dt_log_plain(dt_buf_cstr(&text));
    dt_buf_finish(&text);
}

void dt_hang_print_look(struct dt_hang *h)
{
    struct dt_err err;
    if (dt_hang_look(h, false, print_look, h, &err) < 0)
        dt_warn("%s", err.text);
}

/* -- what is found ---------------------------------------------------------------------------- */

static void keep_record(struct dt_hang *h, const struct dt_stances *all,
                        const struct dt_hang_finding *f)
{
    char path[PATH_MAX];
    struct dt_err err;
    if (dt_hang_record_write(h->means.logs, h->hangs, dt_clock_wall_us(), all, f, &h->stacks, path,
                             &err) < 0)
        dt_warn("the evidence cannot be kept: %s", err.text);
    else if (path[0])
        dt_warn("what each worker does is in %s and, with its stacks, in stacks.txt beside it",
                path);
}

/* The first rank of a group that runs here; -1: none does. */
static int find_here(const struct dt_hang *h, const struct dt_stance_group *g)
{
    int first = h->means.world->first_rank;
    for (int i = 0; i < count_of(h); i++)
        for (size_t k = 0; runs(h, i) && k < g->len; k++)
            if (g->ranges[k].first <= first + i && first + i <= g->ranges[k].last)
                return i;
    return -1;
}

/* Where nobody is singled out, rank 0 has to go: any does, as all begin again together. */
static int choose_victim(const struct dt_hang *h, const struct dt_stances *all,
                         const struct dt_hang_finding *f)
{
    if (f->culprit >= 0 && (size_t)f->culprit < all->len)
        return find_here(h, &all->at[f->culprit]);
    return h->means.world->first_rank == 0 && runs(h, 0) ? 0 : -1;
}

/* An older rendezvous does not know of workers that move all the same. */
static bool may_end_well(const struct dt_hang *h, const struct dt_hang_finding *f, int victim)
{
    return f->class == DT_HANG_BUSY || f->class == DT_HANG_LONG ||
           (h->witness && dt_witness_round_of(h->witness, victim).last > 0);
}

void dt_hang_tell(struct dt_hang *h, const struct dt_stances *all, const struct dt_hang_finding *f)
{
    if (h->state == TOLD)
        return;
    enter(h, TOLD);
    h->hangs++;
    /* Whoever watches the health would end what may be a long evaluation. */
    snprintf(h->sentence, sizeof h->sentence, "%s", f->class == DT_HANG_LONG ? "" : f->sentence);
    dt_warn("%s", f->sentence);
    if (f->advice[0])
        dt_warn("%s", f->advice);
    keep_record(h, all, f);
    int victim = choose_victim(h, all, f);
    if (h->means.plan->on_hang != DT_ON_HANG_LOG && victim >= 0 && !may_end_well(h, f, victim))
        h->events->end(h->arg, victim, f->sentence);
}

const char *dt_hang_sentence(const struct dt_hang *h)
{
    return h->state == TOLD && *h->sentence ? h->sentence : NULL;
}

/* A job of this node alone, or of nodes that do not talk about it. */
static void judge_alone(void *arg, const struct dt_stances *stances)
{
    struct dt_hang *h = arg;
    struct dt_hang_finding f;
    if (h->state != STILL || (!dt_witness_is_sure(h->witness) && dt_hang_is_in_doubt(stances)))
        return;
    dt_hang_judge(stances, h->means.world->size, dt_witness_still(h->witness), &f);
    dt_hang_tell(h, stances, &f);
}

/* -- samples ---------------------------------------------------------------------------------- */

static void say_still(struct dt_hang *h, dt_ms still)
{
    struct dt_err err;
    h->said = dt_clock_monotonic();
    if (h->events->still && h->events->still(h->arg, still, dt_witness_is_sure(h->witness)))
        return;
    if (dt_hang_look(h, false, judge_alone, h, &err) < 0)
        dt_warn("%s", err.text);
}

static void move_again(struct dt_hang *h, dt_ms now)
{
    char time[32];
    if (h->state == TOLD)
        dt_warn("the job moves again after %s",
                dt_str_from_duration((now - h->began) / DT_SECOND * DT_SECOND, time, sizeof time));
    enter(h, MOVING);
    if (h->events->still)
        h->events->still(h->arg, 0, true);
}

/* Workers that end, of themselves or not, do not move again. */
static bool is_ending(const struct dt_hang *h)
{
    bool any = false;
    for (int i = 0; i < count_of(h); i++) {
        enum dt_worker_end end = dt_group_worker(h->means.group, i)->end;
        if (end == DT_WORKER_FAILED || end == DT_WORKER_TERMINATED)
            return true;
        any = any || end == DT_WORKER_RUNS;
    }
    return !any;
}

/* In time to have the answers when they have stood still for LIMIT. */
static void ask_recorders(struct dt_hang *h, dt_ms now, dt_ms still, dt_ms limit)
{
    if (still < limit / 2)
        h->asked = 0;
    else if (!h->asked && dt_recorders_ask(h->means.recorders) > 0)
        h->asked = now;
}

static bool awaits_answers(const struct dt_hang *h, dt_ms now)
{
    return h->asked && now - h->asked < ANSWERS_MAX && dt_recorders_silent(h->means.recorders) > 0;
}

static void decide(struct dt_hang *h, dt_ms now)
{
    dt_ms still = dt_witness_still(h->witness), limit = dt_witness_limit(h->witness);
    if (is_ending(h))
        return;
    ask_recorders(h, now, still, limit);
    if (h->state != MOVING && now - still > h->began)
        move_again(h, now);
    if (h->state == MOVING && still >= limit && !awaits_answers(h, now)) {
        enter(h, STILL);
        h->began = now - still;
        say_still(h, still);
    } else if (h->state == STILL && now - h->said >= SAY_AGAIN) {
        say_still(h, still);
    }
}

static void sample_page(const struct dt_hang *h, int i, struct dt_sample *s)
{
    static const char *const slow[] = {"setup", "validation", "checkpoint"};
    struct dt_page_told page;
    struct dt_comms_told comms;
    s->told = dt_pages_read(h->means.pages, i, &page);
    dt_pages_read_comms(h->means.pages, i, &comms);
    s->step = page.step;
    s->slow = page.steps >= 0 && page.step >= page.steps; /* what comes after the last one */
    for (size_t k = 0; s->told && k < sizeof slow / sizeof *slow; k++)
        s->slow = s->slow || strcmp(page.section, slow[k]) == 0;
    s->mark[0] = page.step;
    s->mark[1] = page.updated_ns;
    s->mark[2] = page.section_ns;
    s->mark[3] = dt_comms_calls(&comms);
}

static void take_samples(struct dt_aside *aside)
{
    struct dt_hang *h = dt_container_of(aside, struct dt_hang, sampling);
    for (int i = 0; i < count_of(h); i++) {
        struct dt_sample *s = &h->samples[i];
        struct dt_glance_seen seen;
        if (s->over)
            continue;
        dt_glance_take(&h->glances[i], &seen);
        s->state = seen.state;
        s->cpu_ms = seen.cpu_ms;
        s->faults = seen.faults;
        s->sleeps = seen.sleeps;
        s->place = dt_place_of(&seen.stacks, seen.main, seen.state != 'R');
        dt_glance_finish(&seen);
    }
}

/* Where no thread could be had there is no sample either: who cannot see does not judge. */
static void on_samples(struct dt_aside *aside)
{
    struct dt_hang *h = dt_container_of(aside, struct dt_hang, sampling);
    dt_ms now = dt_clock_monotonic();
    h->samples_taken = false;
    if (!h->ending.begun && aside->status == 0) {
        for (int i = 0; i < count_of(h); i++)
            sample_page(h, i, &h->samples[i]);
        dt_witness_note(h->witness, now, h->samples);
        decide(h, now);
    }
    dt_ending_step(&h->ending);
}

static void on_time(uv_timer_t *timer)
{
    struct dt_hang *h = dt_container_of(timer, struct dt_hang, timer);
    if (h->samples_taken)
        return;
    for (int i = 0; i < count_of(h); i++) {
        h->samples[i] = (struct dt_sample){.over = !runs(h, i)};
        h->glances[i].root = dt_group_worker(h->means.group, i)->pid;
    }
    h->samples_taken = dt_aside_run(&h->sampling, h->means.loop, take_samples, on_samples) == 0;
    if (h->samples_taken)
        dt_ending_add(&h->ending);
}

/* -- beginning and end ------------------------------------------------------------------------ */

static void hang_free(void *hang)
{
    struct dt_hang *h = hang;
    dt_witness_destroy(h->witness);
    free(h->glances);
    free(h->samples);
    dt_buf_finish(&h->stacks);
    free(h); /* the only free of one that was opened */
}

static int open_witness(struct dt_hang *h, struct dt_err *err)
{
    size_t count = (size_t)count_of(h);
    dt_ms after = h->means.plan->hang_after;
    if (after == DT_FOREVER)
        return 0;
    h->witness = dt_witness_create(count_of(h), after);
    h->glances = calloc(count, sizeof *h->glances);
    h->samples = calloc(count, sizeof *h->samples);
    if (!h->witness || !h->glances || !h->samples)
        return dt_err_set(err, DT_E_MEMORY, "no memory to watch %zu workers", count);
    return 0;
}

struct dt_hang *dt_hang_open(const struct dt_hang_means *means, const struct dt_hang_events *events,
                             void *arg, struct dt_err *err)
{
    struct dt_hang *h = calloc(1, sizeof *h);
    if (!h) {
        dt_err_set(err, DT_E_MEMORY, "no memory to watch the workers");
        return NULL;
    }
    *h = (struct dt_hang){.means = *means, .events = events, .arg = arg};
    if (open_witness(h, err) < 0) {
        hang_free(h);
        return NULL;
    }
    uv_timer_init(means->loop, &h->timer);
    if (h->witness)
        uv_timer_start(&h->timer, on_time, DT_WITNESS_EVERY, DT_WITNESS_EVERY);
    return h;
}

void dt_hang_close(struct dt_hang *h, void (*on_closed)(void *arg), void *arg)
{
    dt_ending_begin(&h->ending, hang_free, h, on_closed, arg);
    dt_ending_close(&h->ending, &h->timer);
}
