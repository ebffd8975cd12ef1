/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/web/facts.h"

#include "rendezvous/runs/runs.h"
#include "rendezvous/runs/status.h"
#include "rendezvous/store/heap.h"

#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

static const char *const path_names[DT_WEB_PATHS] = {
    [DT_WEB_PATH_PAGE] = "/",
    [DT_WEB_PATH_HEALTHZ] = "/healthz",
    [DT_WEB_PATH_READYZ] = "/readyz",
    [DT_WEB_PATH_METRICS] = "/metrics",
    [DT_WEB_PATH_STATUS] = "/status.json",
    [DT_WEB_PATH_EVENTS] = "/events",
    [DT_WEB_PATH_OTHER] = "other",
};

const char *dt_web_path_name(enum dt_web_path path)
{
    return path_names[path];
}

enum dt_web_path dt_web_path_of(const char *text)
{
    enum dt_web_path p = 0;
    while (p < DT_WEB_PATH_OTHER && strcmp(path_names[p], text) != 0)
        p++;
    return p;
}

/* -- this process ----------------------------------------------------------------------------- */

static int64_t in_ms(struct timeval t)
{
    return (int64_t)t.tv_sec * 1000 + t.tv_usec / 1000;
}

/* Kernels before 6.2 do not tell how many files are open, and counting ten thousand takes long. */
static int64_t count_files(void)
{
    struct stat st;
    return stat("/proc/self/fd", &st) == 0 && st.st_size > 0 ? st.st_size : -1;
}

static void gather_process(struct dt_web_facts *f)
{
    struct rusage used;
    struct rlimit files;
    uint64_t resident;
    f->cpu_ms =
        getrusage(RUSAGE_SELF, &used) == 0 ? in_ms(used.ru_utime) + in_ms(used.ru_stime) : -1;
    f->resident = dt_store_heap_resident(&resident) ? (int64_t)resident : -1;
    f->files = count_files();
    f->files_most = getrlimit(RLIMIT_NOFILE, &files) == 0 ? (int64_t)files.rlim_cur : -1;
}

/* -- runs ------------------------------------------------------------------------------------- */

static void add_counts(struct dt_web_facts *f, const struct dt_members *members)
{
    for (int doing = 0; doing < DT_MEMBER_DOINGS; doing++)
        for (int link = 0; link < DT_LINKS; link++)
            f->nodes[doing][link] += (int64_t)members->counts[doing][link];
}

/* A number of which 0 means that it is unknown. */
static int64_t known(int64_t n)
{
    return n > 0 ? n : -1;
}

static int64_t bytes(int64_t mib)
{
    return mib > 0 ? mib << 20 : mib;
}

static void add_telemetry(struct dt_web_node *node, const struct dt_status_node *row)
{
    bool tells_memory = row->gpu_mem_total_mib > 0, tells_disk = row->disk_total_mib > 0;
    node->step_ms = known(row->step_ms);
    node->gpus = row->gpus;
    node->gpu_busy = row->gpus > 0 && row->gpu_busy >= 0 ? row->gpu_busy * 10 : -1;
    node->gpu_memory = tells_memory ? bytes(row->gpu_mem_total_mib) : -1;
    node->gpu_memory_used = tells_memory ? bytes(row->gpu_mem_mib) : -1;
    node->disk = tells_disk ? bytes(row->disk_total_mib) : -1;
    node->disk_free = tells_disk ? bytes(row->disk_free_mib) : -1;
    node->upload_behind_s = row->upload_behind_s;
}

static void add_node(struct dt_web_facts *f, struct dt_web_run *run, const struct dt_rdzv *r,
                     const struct dt_member *m, dt_ms now)
{
    struct dt_status_node row = dt_rdzv_status_node(r, m, now);
    run->spares += m->doing == DT_MEMBER_WAITING && m->parked;
    run->suspects += m->link == DT_LINK_SUSPECT;
    if (row.step_age_s > 0 && (run->step_age_s < 0 || row.step_age_s < run->step_age_s))
        run->step_age_s = row.step_age_s;
    if (f->node_count == DT_WEB_NODES_SHOWN) {
        f->nodes_left_out++;
        return;
    }
    struct dt_web_node *node = &f->node[f->node_count++];
    *node = (struct dt_web_node){
        .run = r->id,
        .name = row.name,
        .beat_age_s = row.beat_age_s,
        .workers = row.workers,
        .step = row.step,
        .step_age_s = known(row.step_age_s),
        .tokens_per_s = row.tokens_per_s,
    };
    add_telemetry(node, &row);
}

static void add_training(struct dt_web_run *run, const struct dt_rdzv *r)
{
    struct dt_training t;
    dt_rdzv_training(r, &t);
    bool shares = t.compute + t.comm + t.data + t.idle > 0;
    run->steps = known(t.steps);
    run->loss = t.loss;
    run->tokens_per_s = t.tokens_per_s;
    run->mfu = known(t.mfu);
    run->compute = shares ? t.compute : -1;
    run->comm = shares ? t.comm : -1;
    run->data = shares ? t.data : -1;
    run->idle = shares ? t.idle : -1;
}

static void gather_run(struct dt_web_facts *f, struct dt_web_run *run, const struct dt_rdzv *r,
                       dt_ms now)
{
    bool runs = r->state == DT_RUN_RUNNING;
    *run = (struct dt_web_run){
        .id = r->id,
        .state = r->state,
        .state_s = now > r->since ? (now - r->since) / DT_SECOND : 0,
        .failed = r->state == DT_RUN_CLOSED && r->closed.kind != DT_CLOSE_SUCCEEDED &&
                  r->closed.kind != DT_CLOSE_STOPPED,
        .paused = dt_rdzv_is_paused(r),
        .hangs = dt_rdzv_standstill(r) != NULL,
        .straggles = dt_rdzv_straggler(r) != NULL,
        .round = r->round,
        .restarts = r->budget.restarts,
        .losses = r->budget.losses,
        .restarts_left = r->spec.max_restarts - r->budget.spent,
        .min_nodes = r->spec.min_nodes,
        .max_nodes = r->spec.max_nodes,
        .nodes = (int64_t)(runs ? r->seats_len : dt_rdzv_count_ready(r)),
        .workers = runs ? r->size : 0,
        .step = r->budget.step,
        .step_age_s = -1,
    };
    add_training(run, r);
    dt_list_each(&r->members.all, n)
        add_node(f, run, r, dt_container_of(n, struct dt_member, in_all), now);
    f->runs[r->state]++;
    f->spares += run->spares;
    f->workers += run->workers;
    add_counts(f, &r->members);
}

static void gather_runs(struct dt_web_facts *f, const struct dt_rdzv_runs *runs, dt_ms now)
{
    struct dt_web_run beyond;
    dt_list_each(&runs->all, n)
    {
        const struct dt_rdzv *r = dt_container_of(n, struct dt_rdzv_run, in_all)->rdzv;
        bool shown = f->run_count < DT_WEB_RUNS_SHOWN;
        if (!r->begun)
            continue;
        gather_run(f, shown ? &f->run[f->run_count++] : &beyond, r, now);
        f->runs_left_out += !shown;
    }
}

static void gather_excluded(struct dt_web_facts *f, const struct dt_exclude *x, dt_ms now)
{
    f->drained = (int64_t)x->drained_count;
    dt_list_each(&x->banned, n) f->quarantined +=
        dt_container_of(n, struct dt_excluded, in_banned)->until > now;
}

static void gather_state(struct dt_web_facts *f, const struct dt_journal *j)
{
    f->unwritten = j ? (int64_t)dt_journal_unwritten(j) : -1;
    f->state_lost = j ? dt_journal_is_lost(j) : -1;
}

void dt_web_facts_gather(struct dt_web_facts *f, const char *host,
                         const struct dt_rdzv_server *server, const struct dt_store_server *store,
                         const struct dt_web_counts *counts, int64_t started_us, dt_ms now)
{
    const struct dt_rdzv_runs *runs = dt_rdzv_server_runs(server);
    memset(f, 0, sizeof *f);
    f->version = DT_VERSION;
    f->host = host;
    f->started_ms = started_us / 1000;
    f->store = *dt_store_server_counters(store);
    f->keys = *dt_store_server_store(store);
    f->control = *dt_rdzv_server_counters(server);
    f->counts = *counts;
    gather_process(f);
    gather_runs(f, runs, now);
    gather_excluded(f, &runs->exclude, now);
    gather_state(f, runs->journal);
}

/* -- alerts ----------------------------------------------------------------------------------- */

static void add_receivers(struct dt_web_facts *f, const struct dt_alerts *a)
{
    size_t count = dt_alerts_receivers(a);
    f->receiver_count = count < DT_WEB_RECEIVERS_SHOWN ? count : DT_WEB_RECEIVERS_SHOWN;
    for (size_t i = 0; i < f->receiver_count; i++) {
        struct dt_web_receiver *r = &f->receiver[i];
        struct dt_post_counters c = dt_alerts_receiver(a, i, &r->name);
        r->delivered = (int64_t)c.delivered;
        r->failed = (int64_t)c.failed;
        r->dropped = (int64_t)c.dropped;
        r->waiting = (int64_t)c.waiting;
    }
}

void dt_web_facts_add_alerts(struct dt_web_facts *f, const struct dt_alert_book *raised,
                             const struct dt_alerts *alerts)
{
    for (size_t i = 0; i < dt_alert_rules_len && i < DT_WEB_RULES_MOST; i++)
        f->alert[i] = (int64_t)dt_alert_book_count(raised, &dt_alert_rules[i]);
    if (alerts)
        add_receivers(f, alerts);
}
