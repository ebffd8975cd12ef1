/* SPDX-License-Identifier: Apache-2.0 */
/* One order over all samples of an epoch says which file is next and the how manieth of it this is;
 * an order of the file's own says which sample that is. A file that is gone through exactly once in
 * an epoch needs none: each of its places comes up once already. */
#include "worker_runtime/data/mixture.h"

#include "base/crc32c.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLES_MOST 1e15 /* of an epoch */

struct file {
    struct dt_tokens *tokens;
    struct dt_samples *samples;
    double weight;
    uint64_t first, share; /* its places in an epoch */
};

struct dt_mixture {
    size_t count;
    uint64_t samples; /* of an epoch */
    bool shuffle;
    struct file files[];
};

static int open_file(struct dt_mixture *m, size_t i, const struct dt_mixture_options *o,
                     struct dt_err *err)
{
    struct file *f = &m->files[i];
    const struct dt_mixture_file *from = &o->files[i];
    f->tokens = dt_tokens_open(from->path, o->raw_width, o->vocabulary, err);
    if (!f->tokens)
        return -1;
    f->samples = dt_samples_open(f->tokens, o->positions, o->alone, err);
    if (!f->samples)
        return dt_err_wrap(err, "%s", from->path);
    f->weight = from->weight;
    double share = round(f->weight * (double)dt_samples_count(f->samples));
    if (share > SAMPLES_MOST)
        return dt_err_set(err, DT_E_USAGE, "%s: the weight %g makes more samples than there can be",
                          from->path, from->weight);
    f->first = m->samples;
    f->share = share < 1 ? 1 : (uint64_t)share;
    m->samples += f->share;
    return 0;
}

struct dt_mixture *dt_mixture_open(const struct dt_mixture_options *o, struct dt_err *err)
{
    struct dt_mixture *m = calloc(1, sizeof *m + o->count * sizeof *m->files);
    if (!m) {
        dt_err_set(err, DT_E_MEMORY, "no memory for %zu files of tokens", o->count);
        return NULL;
    }
    m->shuffle = o->shuffle;
    for (; m->count < o->count; m->count++)
        if (open_file(m, m->count, o, err) < 0) {
            m->count++; /* what there is of it is closed too */
            dt_mixture_close(m);
            return NULL;
        }
    return m;
}

void dt_mixture_close(struct dt_mixture *m)
{
    for (size_t i = 0; m && i < m->count; i++) {
        dt_samples_close(m->files[i].samples);
        dt_tokens_close(m->files[i].tokens);
    }
    free(m);
}

size_t dt_mixture_files(const struct dt_mixture *m)
{
    return m->count;
}

const struct dt_samples *dt_mixture_file(const struct dt_mixture *m, size_t i)
{
    return m->files[i].samples;
}

size_t dt_mixture_samples(const struct dt_mixture *m)
{
    return (size_t)m->samples;
}

bool dt_mixture_packed(const struct dt_mixture *m)
{
    bool packed = false;
    for (size_t i = 0; i < m->count; i++)
        packed |= dt_samples_packed(m->files[i].samples);
    return packed;
}

bool dt_mixture_are_bytes(const struct dt_mixture *m)
{
    bool bytes = true;
    for (size_t i = 0; i < m->count; i++)
        bytes &= dt_tokens_are_bytes(m->files[i].tokens);
    return bytes;
}

size_t dt_mixture_tokens(const struct dt_mixture *m)
{
    size_t tokens = 0;
    for (size_t i = 0; i < m->count; i++)
        tokens += dt_tokens_count(m->files[i].tokens);
    return tokens;
}

/* Its weight, and not its places: these follow from the length of samples too, which is no other
 * data. */
static uint32_t mark_behind(uint32_t mark, const struct file *f)
{
    uint64_t facts[] = {0, dt_tokens_mark(f->tokens)};
    uint8_t bytes[sizeof facts];
    memcpy(&facts[0], &f->weight, sizeof f->weight);
    for (size_t k = 0; k < sizeof bytes; k++)
        bytes[k] = (uint8_t)(facts[k / 8] >> k % 8 * 8);
    return dt_crc32c(mark, (struct dt_bytes){bytes, sizeof bytes});
}

/* That of one file of weight 1 is the file's own, as it was before there were mixtures. */
uint32_t dt_mixture_mark(const struct dt_mixture *m)
{
    uint32_t mark = dt_tokens_mark(m->files[0].tokens);
    for (size_t i = 0; i < m->count; i++)
        if (i > 0 || m->files[i].weight != 1)
            mark = mark_behind(mark, &m->files[i]);
    return mark;
}

static const struct file *file_of(const struct dt_mixture *m, uint64_t place)
{
    size_t i = m->count - 1;
    while (m->files[i].first > place)
        i--;
    return &m->files[i];
}

/* The sample of *FILE at POSITION. */
static size_t sample_at(const struct dt_mixture *m, uint64_t seed, uint64_t position,
                        const struct file **file)
{
    const struct dt_sampler all = {
        .samples = (size_t)m->samples, .seed = seed, .shuffle = m->shuffle};
    uint64_t epoch = position / m->samples, place = dt_sampler_at(&all, position);
    const struct file *f = *file = file_of(m, place);
    size_t count = dt_samples_count(f->samples);
    place -= f->first;
    if (f->share == count)
        return (size_t)place;
    const struct dt_sampler own = {
        .samples = count, .seed = seed + 1 + (uint64_t)(f - m->files), .shuffle = m->shuffle};
    return dt_sampler_at(&own, epoch * f->share + place);
}

uint64_t dt_mixture_targets(const struct dt_mixture *m, uint64_t seed, uint64_t position)
{
    const struct file *f;
    size_t i = sample_at(m, seed, position, &f);
    return dt_samples_targets(f->samples, i);
}

int dt_mixture_read(const struct dt_mixture *m, uint64_t seed, uint64_t position, int32_t *ids,
                    int32_t *targets, int32_t *documents, struct dt_err *err)
{
    const struct file *f;
    size_t i = sample_at(m, seed, position, &f);
    return dt_samples_read(f->samples, i, ids, targets, documents, err);
}
