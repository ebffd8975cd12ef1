/* SPDX-License-Identifier: Apache-2.0 */
/* That a GPU is full, in the one sentence an error has room for: what was wanted, what there is,
 * and who has it. What would need less is known to who has a configuration. */
#include "cuda/memory/inside.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { NAMED = 3 }; /* holders told by name; the others in one sum */

static const char *size_text(size_t bytes, char out[32])
{
    static const char *const unit[] = {"KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes / 1024;
    size_t u = 0;
    while (value >= 1000 && u + 1 < sizeof unit / sizeof *unit) {
        value /= 1024;
        u++;
    }
    snprintf(out, 32, value < 10 ? "%.1f %s" : "%.0f %s", value, unit[u]);
    return out;
}

struct text {
    char at[360];
    size_t used;
};

__attribute__((format(printf, 2, 3))) static void say(struct text *t, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(t->at + t->used, sizeof t->at - t->used, fmt, ap);
    va_end(ap);
    if (n > 0)
        t->used += (size_t)n < sizeof t->at - t->used ? (size_t)n : sizeof t->at - t->used - 1;
}

/* The largest of M's accounts that is not in TOLD yet. */
static const struct account *next_largest(const struct dt_cuda_memory *m,
                                          const struct account *const *told, int n)
{
    const struct account *best = NULL;
    for (const struct account *a = m->accounts; a < m->accounts + DT_CUDA_ACCOUNTS; a++) {
        bool is_told = false;
        for (int i = 0; i < n; i++)
            is_told = is_told || told[i] == a;
        if (!is_told && a->bytes > 0 && (!best || a->bytes > best->bytes))
            best = a;
    }
    return best;
}

static void say_holders(const struct dt_cuda_memory *m, struct text *t)
{
    const struct account *told[NAMED];
    size_t named = 0;
    char size[32];
    int n = 0;
    for (; n < NAMED && (told[n] = next_largest(m, told, n)); n++) {
        say(t, "%s%.30s %s", n ? ", " : "; this worker: ", told[n]->what,
            size_text(told[n]->bytes, size));
        named += told[n]->bytes;
    }
    if (m->figures.in_use > named)
        say(t, ", more %s", size_text(m->figures.in_use - named, size));
    if (m->figures.reserved > m->figures.in_use)
        say(t, "%sin pieces too small %s",
            n ? ", " : "; this worker: ", size_text(m->figures.reserved - m->figures.in_use, size));
}

/* What is neither ours nor free is of other processes, and what CUDA takes for itself. */
static void say_device(const struct dt_cuda_memory *m, struct text *t)
{
    size_t left = 0, total = 0;
    char a[32], b[32], c[32];
    m->calls.left(m->calls.arg, &left, &total);
    if (total == 0)
        return;
    size_t ours = left + m->figures.reserved, others = total > ours ? total - ours : 0;
    say(t, ": %s of %s are free, %s are others' and CUDA's own", size_text(left, a),
        size_text(total, b), size_text(others, c));
    if (m->cap)
        say(t, ", and a worker may have %s", size_text(m->cap, a));
}

void dt_cuda_memory_say_short(const struct dt_cuda_memory *m, size_t wanted, const char *what,
                              struct dt_err *err)
{
    struct text t = {.used = 0};
    char size[32];
    say_device(m, &t);
    say_holders(m, &t);
    dt_err_set(err, DT_E_MEMORY, "%s has no room for %s of %.40s%s", m->calls.name,
               size_text(wanted, size), what, t.at);
}
