/* SPDX-License-Identifier: Apache-2.0 */
/* How many workers, what they are called, how many threads each, their locale, and where they may
 * run. */
#include "launcher/planning/inside.h"

#include "launcher/number.h"
#include "launcher/python/lc_ctype.h"
#include "launcher/words.h"

#include <string.h>

static int count_gpus(struct dt_planning *c, int *n)
{
    *n = c->facts->count_gpus();
    if (*n > 0)
        return 0;
    return dt_planning_fail(c, "nproc-per-node",
                            "\"gpu\" needs a GPU and none is visible here; look at nvidia-smi and "
                            "CUDA_VISIBLE_DEVICES, or give a number");
}

static int read_nproc(struct dt_planning *c)
{
    const char *text = c->o->nproc_per_node;
    int64_t n = 0;
    int counted = 0;
    if (dt_number_int(text, &n, NULL) < 0) {
        if (strcmp(text, "gpu") == 0 && count_gpus(c, &counted) < 0)
            return -1;
        if (strcmp(text, "xpu") == 0)
            return dt_planning_fail(c, "nproc-per-node",
                                    "\"xpu\": dtrun cannot count GPUs of that kind; give a number");
        if (strcmp(text, "auto") == 0)
            counted = c->facts->count_gpus();
        if (strcmp(text, "cpu") == 0 || (strcmp(text, "auto") == 0 && counted == 0))
            counted = c->facts->cpus;
        if (counted == 0)
            return dt_planning_fail(
                c, "nproc-per-node",
                "\"%s\" is not a number of workers; give a number, cpu, gpu or auto", text);
        n = counted;
    }
    if (n < 1 || n > DT_WORKERS_MOST)
        return dt_planning_fail(c, "nproc-per-node", "\"%s\" is not from 1 to %d", text,
                                DT_WORKERS_MOST);
    c->plan->nproc = (int)n;
    return 0;
}

static int choose_threads(struct dt_planning *c)
{
    struct dt_plan *p = c->plan;
    const struct dt_launch_threads *t = &c->o->omp_threads;
    if (t->how == DT_OMP_GIVEN) {
        p->omp_threads = t->count;
        return 0;
    }
    const char *set = dt_facts_env(c->facts, "OMP_NUM_THREADS");
    if (set)
        return dt_planning_ignore(c, "omp-threads", "OMP_NUM_THREADS is set, to \"%s\"", set);
    if (t->how == DT_OMP_AUTO) {
        int share = c->facts->allowed_cpus / p->nproc;
        p->omp_threads = share > 1 ? share : 1;
        return 0;
    }
    if (p->nproc == 1)
        return 0;
    p->omp_threads = 1;
    return dt_words_push(
        c->warnings, c->err,
        "OMP_NUM_THREADS is set to 1, as by torchrun; --omp-threads=auto divides the "
        "processors among the workers");
}

int dt_planning_workers(struct dt_planning *c)
{
    struct dt_plan *p = c->plan;
    if (read_nproc(c) < 0 || choose_threads(c) < 0 ||
        dt_planning_set(c, &p->role, c->o->role) < 0 ||
        dt_planning_set(c, &p->ctype, dt_lc_ctype_coerced(c->facts)) < 0)
        return -1;
    p->virtual_local_rank = c->o->virtual_local_rank;
    p->bind = c->o->numa_binding;
    return dt_planning_needless(c, "start-method", "workers are always programs of their own");
}
