/* SPDX-License-Identifier: Apache-2.0 */
/* OpenBLAS reads its environment once, as it is loaded: threads of its own start then, and its
 * kernels are chosen then. So what it shall do is put in the environment for that moment, and it is
 * asked afterwards what it did. Its OpenMP build counts threads for each calling thread, and takes
 * the first number from OpenMP's own variable. */
#include "worker_runtime/ops/cpu/blas_library.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct setting {
    const char *name, *value;
    char *before;
};

static int apply(struct setting *s)
{
    const char *before = getenv(s->name);
    if (!s->value)
        return 0;
    s->before = before ? strdup(before) : NULL;
    if (before && !s->before)
        return -1;
    return setenv(s->name, s->value, 1);
}

static void restore(struct setting *s)
{
    if (!s->value)
        return;
    if (s->before)
        setenv(s->name, s->before, 1);
    else
        unsetenv(s->name);
    free(s->before);
}

static void *load(const char *name, const char *core)
{
    struct setting settings[] = {{.name = "OPENBLAS_NUM_THREADS", .value = "1"},
                                 {.name = "OMP_NUM_THREADS", .value = "1"},
                                 {.name = "OPENBLAS_CORETYPE", .value = core}};
    enum { N = sizeof settings / sizeof settings[0] };
    void *handle = NULL;
    size_t applied = 0;
    while (applied < N && apply(&settings[applied]) == 0)
        applied++;
    if (applied == N)
        handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    while (applied > 0)
        restore(&settings[--applied]);
    return handle;
}

/* POSIX lets a pointer from dlsym() be one to a function; C has no cast that says so. */
static void find(void *handle, const char *symbol, void *to)
{
    void *at = dlsym(handle, symbol);
    memcpy(to, &at, sizeof at);
}

int dt_blas_library_open(struct dt_blas_library *l, const char *name, const char *core,
                         struct dt_err *err)
{
    enum { OPENMP = 2 };
    int (*parallel)(void);
    *l = (struct dt_blas_library){.handle = load(name, core)};
    if (!l->handle) {
        const char *why = dlerror();
        return dt_err_set(err, DT_E_RUNTIME, "cannot load the BLAS \"%s\": %s", name,
                          why ? why : "no memory");
    }
    find(l->handle, "cblas_sgemm", &l->sgemm);
    find(l->handle, "openblas_set_num_threads", &l->set_threads);
    find(l->handle, "openblas_get_corename", &l->core);
    find(l->handle, "openblas_get_config", &l->config);
    find(l->handle, "openblas_get_parallel", &parallel);
    if (!l->sgemm) {
        dt_blas_library_close(l);
        return dt_err_set(err, DT_E_RUNTIME,
                          "\"%s\" has no cblas_sgemm and so is no CBLAS; install OpenBLAS "
                          "(Debian: libopenblas0)",
                          name);
    }
    l->openmp = parallel && parallel() == OPENMP;
    if (l->set_threads)
        l->set_threads(1);
    return 0;
}

void dt_blas_library_close(struct dt_blas_library *l)
{
    if (l->handle)
        dlclose(l->handle);
    *l = (struct dt_blas_library){0};
}

/* OpenBLAS's names of cores that have no AVX2 kernels. A name that is not here is newer than we
 * are, and its choice stands. */
static bool is_basic(const char *core)
{
    static const char *const basic[] = {
        "Katmai",      "Coppermine",   "Northwood", "Prescott",    "Banias",    "Core2",
        "Penryn",      "Dunnington",   "Nehalem",   "Sandybridge", "Atom",      "Athlon",
        "Opteron",     "Opteron_SSE3", "Barcelona", "Bobcat",      "Bulldozer", "Piledriver",
        "Steamroller", "Nano",         "Generic",   "unknown",
    };
    for (size_t i = 0; i < sizeof basic / sizeof basic[0]; i++)
        if (strcasecmp(core, basic[i]) == 0)
            return true;
    return false;
}

const char *dt_blas_better_core(const char *chosen, enum dt_cpu_level level)
{
    if (level == DT_CPU_BASE || !is_basic(chosen))
        return NULL;
    return level == DT_CPU_V4 ? "SkylakeX" : "Haswell";
}
