/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/train/machine.h"

#include "base/str.h"
#include "worker_runtime/train/mfu.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define GIB ((size_t)1 << 30)
#define GIGA 1e9
#define TERA 1e12
#define RANKS_MOST (1 << 20)
#define LOCAL_MOST 1024

/* A core of a processor: what OpenBLAS makes of a product with AVX-512, what a rank sends another
 * one through shared memory, and what its memory gives (docs/benchmarks.md has the first two). */
#define CORE_TERA 0.1
#define SHARED_MEMORY (10 * GIGA)
#define CORE_MEMORY (20 * GIGA)
#define PLAIN_NETWORK (1.2 * GIGA) /* Ethernet of 10 Gbit/s */

/* What a link carries, of what its maker tells. */
#define LINK_SHARE 0.9
/* Of a GPU's memory, what CUDA, NCCL and gaps between allocations may take: a sixteenth. */
#define GPU_REST 16

/* GPUs with a link of their own between them, and how much one of them sends by it; a port of the
 * network that is common beside each. */
static const struct gpu {
    const char *name;
    size_t memory;
    double inside, port, memory_speed;
} gpus[] = {
    {"A100", 80 * GIB, 230 * GIGA, 23 * GIGA, 2e12},
    {"H100", 80 * GIB, 360 * GIGA, 45 * GIGA, 3.3e12},
    {"H200", 141 * GIB, 360 * GIGA, 45 * GIGA, 4.8e12},
    {"B200", 180 * GIB, 700 * GIGA, 45 * GIGA, 8e12},
};

/* Of others: PCIe 4, and Ethernet of 100 Gbit/s for the host. */
static const struct gpu other_gpu = {"", 0, 25 * GIGA, 0, 1e12};
#define OTHER_NETWORK (11 * GIGA)

void dt_machine_init(struct dt_machine *m, int ranks, int threads, size_t memory)
{
    *m = (struct dt_machine){.hosts = 1,
                             .local = ranks,
                             .seen = true,
                             .memory = memory,
                             .host_memory = memory,
                             .threads = threads,
                             .tera = CORE_TERA * threads,
                             .inside = SHARED_MEMORY,
                             .network = PLAIN_NETWORK,
                             .memory_speed = CORE_MEMORY};
}

/* Those with PCIe alone have another name in full. */
static const struct gpu *find_gpu(const char *name)
{
    for (size_t i = 0; i < sizeof gpus / sizeof *gpus; i++)
        if (dt_mfu_has_name(name, gpus[i].name) && !dt_mfu_has_name(name, "PCIe"))
            return &gpus[i];
    return &other_gpu;
}

/* 0: not known. Some have a peak that is known and links that are those of no row: in pairs, or to
 * a processor on the same board. */
static double peak_of(const char *name)
{
    static const char *const others[] = {"NVL", "GH200", "GB200"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (dt_mfu_has_name(name, others[i]))
            return 0;
    return dt_mfu_peak(name, DT_BF16) / TERA;
}

/* "A100" comes with 40 GB and with 80: that of a row is meant by its name alone, and another name
 * may have it, as "A100-SXM4-40GB" has. 0: it is not said. */
static size_t memory_of(const char *name, const struct gpu *g)
{
    const char *bare = strncasecmp(name, "NVIDIA ", 7) == 0 ? name + 7 : name;
    if (strcasecmp(bare, g->name) == 0)
        return g->memory;
    for (const char *at = name; (at = strcasestr(at, "GB")); at++) {
        const char *digits = at;
        while (digits > name && isdigit((unsigned char)digits[-1]))
            digits--;
        size_t len = (size_t)(at - digits);
        if (len > 0 && len < 5 && !isalnum((unsigned char)at[2]))
            return (size_t)strtoul(digits, NULL, 10) * GIB;
    }
    return 0;
}

/* Each rank has one of these GPUs. Zeroed: what is not known by the name. */
static void put_gpu(struct dt_machine *m, const char *name)
{
    const struct gpu *g = find_gpu(name);
    snprintf(m->name, sizeof m->name, "%s", name);
    m->gpus = true;
    m->tera = peak_of(name);
    m->memory = memory_of(name, g);
    m->inside = g->inside;
    m->memory_speed = g->memory_speed;
}

/* As many ports as there are GPUs beside which one is common. */
static void put_network(struct dt_machine *m, int64_t told)
{
    const struct gpu *g = find_gpu(m->name);
    if (told > 0)
        m->network = (double)told * GIGA / 8 * LINK_SHARE;
    else if (m->gpus)
        m->network = g->port > 0 ? g->port * m->local : OTHER_NETWORK;
}

void dt_machine_see(struct dt_machine *m, int count, const struct dt_gpu_memory *gpu)
{
    m->local = count;
    put_gpu(m, gpu->name);
    put_network(m, 0);
    m->memory = gpu->free;
    m->scratch = gpu->scratch;
}

int dt_machine_check(const struct dt_machine *m, struct dt_err *err)
{
    if (m->tera > 0)
        return 0;
    return dt_err_set(err, DT_E_USAGE,
                      "what a GPU \"%.60s\" computes and sends is not known here; give the nearest "
                      "of A100, H100, H200, B200, L40S, L4 and A10 by --machine, as "
                      "gpu=L4,gpus=%d,memory=24G",
                      m->name, m->local);
}

size_t dt_machine_room(const struct dt_machine *m)
{
    if (!m->gpus)
        return m->memory / (size_t)m->local;
    return m->seen ? m->memory : m->memory - m->memory / GPU_REST;
}

/* -- what a person says of it ----------------------------------------------------------------- */

struct words {
    int64_t hosts, gpus, ranks, network; /* 0: not said */
    uint64_t memory;
    char gpu[64];
};

static int read_word(struct words *w, const char *key, const char *value, struct dt_err *err)
{
    if (strcmp(key, "hosts") == 0)
        return dt_str_to_int(value, 1, RANKS_MOST, &w->hosts, err);
    if (strcmp(key, "gpus") == 0)
        return dt_str_to_int(value, 1, LOCAL_MOST, &w->gpus, err);
    if (strcmp(key, "ranks") == 0)
        return dt_str_to_int(value, 1, LOCAL_MOST, &w->ranks, err);
    if (strcmp(key, "network") == 0)
        return dt_str_to_int(value, 1, 1000000, &w->network, err);
    if (strcmp(key, "memory") == 0)
        return dt_str_to_size(value, 1 << 20, (uint64_t)1 << 50, &w->memory, err);
    if (strcmp(key, "gpu") != 0)
        return dt_err_set(err, DT_E_USAGE,
                          "it is none of hosts, gpus, ranks, gpu, memory and network");
    if (!*value || strlen(value) >= sizeof w->gpu)
        return dt_err_set(err, DT_E_USAGE, "\"%.70s\" is no GPU's name", value);
    strcpy(w->gpu, value);
    return 0;
}

static int read_words(struct words *w, char *text, struct dt_err *err)
{
    char *rest = NULL;
    for (char *word = strtok_r(text, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
        char *value = strchr(word, '=');
        if (!value)
            return dt_err_set(err, DT_E_USAGE,
                              "\"%.60s\" has no value: write it as hosts=8,gpus=8,gpu=H100", word);
        *value++ = '\0';
        struct dt_err why = {0};
        if (read_word(w, word, value, &why) < 0)
            return dt_err_set(err, DT_E_USAGE, "%.60s: %.300s", word, why.text);
    }
    return 0;
}

/* Ranks compute on processors, or each on a GPU. */
static int put_ranks(struct dt_machine *m, const struct words *w, struct dt_err *err)
{
    if (w->ranks > 0 && (w->gpus > 0 || w->gpu[0]))
        return dt_err_set(err, DT_E_USAGE,
                          "ranks are those of a host without GPUs: drop ranks, or gpus and gpu");
    if (w->gpus > 0 && !w->gpu[0] && !m->gpus)
        return dt_err_set(err, DT_E_USAGE, "which GPUs? Say gpu=H100, or another one");
    if (w->gpu[0] && w->gpus == 0 && !m->gpus)
        return dt_err_set(err, DT_E_USAGE,
                          "how many GPUs has a host? Say it, as gpus=8: here are none to count");
    if (w->ranks > 0)
        dt_machine_init(m, (int)w->ranks, m->threads, m->host_memory);
    m->local = w->gpus > 0 ? (int)w->gpus : m->local;
    if (w->gpu[0]) {
        put_gpu(m, w->gpu);
        m->seen = false;
        m->scratch = 0;
    }
    return 0;
}

static int put_words(struct dt_machine *m, const struct words *w, struct dt_err *err)
{
    if (put_ranks(m, w, err) < 0 || dt_machine_check(m, err) < 0)
        return -1;
    m->hosts = w->hosts > 0 ? (int)w->hosts : m->hosts;
    if (m->hosts > RANKS_MOST / m->local)
        return dt_err_set(err, DT_E_USAGE, "%d hosts of %d ranks are more than %d", m->hosts,
                          m->local, RANKS_MOST);
    if (w->memory > 0) {
        m->memory = w->memory;
        m->seen = false;
    }
    if (m->memory == 0)
        return dt_err_set(err, DT_E_USAGE,
                          "how much memory has a GPU \"%s\"? Say it, as memory=48G", m->name);
    put_network(m, w->network);
    return 0;
}

int dt_machine_read(struct dt_machine *m, const char *text, struct dt_err *err)
{
    struct words w = {0};
    struct dt_machine read = *m;
    char *copy = strdup(text);
    if (!copy)
        return dt_err_set(err, DT_E_MEMORY, "no memory for a text");
    int rc = read_words(&w, copy, err);
    free(copy);
    if (rc < 0 || put_words(&read, &w, err) < 0)
        return -1;
    *m = read;
    return 0;
}
