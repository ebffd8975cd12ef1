/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/protocol/comms.h"

#include "rendezvous/protocol/spec.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RANKS_MOST (1 << 24) /* beyond any job, and far from an overflow */

static int64_t read_count(const uint64_t *at)
{
    uint64_t v = __atomic_load_n(at, __ATOMIC_RELAXED);
    return v <= (uint64_t)DT_STEPS_MOST ? (int64_t)v : 0;
}

static int read_rank(const int32_t *at)
{
    int32_t v = __atomic_load_n(at, __ATOMIC_RELAXED);
    return v >= 0 && v < RANKS_MOST ? v : -1;
}

/* Text with a byte that is not of CLASS is none. */
static void read_text(const char *from, size_t size, int (*class)(int), char *out)
{
    size_t n = 0;
    for (; n < size - 1; n++) {
        unsigned char c = (unsigned char)__atomic_load_n(from + n, __ATOMIC_RELAXED);
        if (c == '\0')
            break;
        if (c > 0x7f || !class(c)) {
            n = 0;
            break;
        }
        out[n] = (char)c;
    }
    out[n] = '\0';
}

/* "Bfloat16", "Float8e4m3": the first number has the bits. -1: it is no type that we know. */
static int64_t bytes_of(const char *datatype, int64_t count)
{
    long bits = strtol(datatype + strcspn(datatype, "0123456789"), NULL, 10);
    if (bits != 8 && bits != 16 && bits != 32 && bits != 64)
        return -1;
    return count <= DT_STEPS_MOST / 8 ? count * (bits / 8) : -1;
}

static void read_comm(const struct dt_page_comm *c, uint32_t state, struct dt_comm_told *out)
{
    out->entered = read_count(&c->entered);
    out->id = __atomic_load_n(&c->id, __ATOMIC_RELAXED);
    out->ranks = read_rank(&c->ranks);
    out->rank = read_rank(&c->rank);
    if (out->ranks == 0)
        out->ranks = -1;
    if (out->ranks > 0 && out->rank >= out->ranks)
        out->rank = -1;
    int64_t ended = read_count(&c->ended);
    out->ended = state == DT_PAGE_COMM_OPEN_WITH_ENDS && ended <= out->entered ? ended : -1;
    out->exchanged = read_count(&c->exchanged);
    out->count = read_count(&c->count);
    out->peer = read_rank(&c->peer);
    int64_t ns = __atomic_load_n(&c->entered_ns, __ATOMIC_RELAXED);
    out->entered_ns = ns < 0 || out->entered + out->exchanged == 0 ? 0 : ns;
    read_text(c->function, sizeof c->function, isalnum, out->function);
    read_text(c->datatype, sizeof c->datatype, isalnum, out->datatype);
    read_text(c->name, sizeof c->name, isprint, out->name);
    out->bytes = bytes_of(out->datatype, out->count);
}

void dt_page_read_comms(const struct dt_page *page, struct dt_comms_told *out)
{
    memset(out, 0, sizeof *out);
    uint32_t left_out = __atomic_load_n(&page->comms_left_out, __ATOMIC_RELAXED);
    out->left_out = left_out < RANKS_MOST ? (int)left_out : 0;
    for (size_t i = 0; i < DT_PAGE_COMMS; i++) {
        uint32_t state = __atomic_load_n(&page->comms[i].state, __ATOMIC_ACQUIRE);
        if (state == DT_PAGE_COMM_OPEN || state == DT_PAGE_COMM_OPEN_WITH_ENDS)
            read_comm(&page->comms[i], state, &out->at[out->count++]);
    }
}

const struct dt_comm_told *dt_comms_latest(const struct dt_comms_told *comms)
{
    const struct dt_comm_told *latest = NULL;
    for (int i = 0; i < comms->count; i++) {
        const struct dt_comm_told *c = &comms->at[i];
        if (c->entered_ns > (latest ? latest->entered_ns : 0))
            latest = c;
    }
    return latest;
}

int64_t dt_comms_calls(const struct dt_comms_told *comms)
{
    int64_t calls = 0;
    for (int i = 0; i < comms->count; i++)
        calls += comms->at[i].entered + comms->at[i].exchanged;
    return calls;
}

const char *dt_comm_label(const struct dt_comm_told *comm, char out[DT_COMM_LABEL])
{
    if (*comm->name)
        snprintf(out, DT_COMM_LABEL, "%s", comm->name);
    else
        snprintf(out, DT_COMM_LABEL, "%08" PRIx64, comm->id);
    return out;
}

const char *dt_comm_shape(const struct dt_comm_told *comm, char out[DT_COMM_SHAPE])
{
    *out = '\0';
    if (*comm->datatype)
        snprintf(out, DT_COMM_SHAPE, "%s [%" PRId64 "]", comm->datatype, comm->count);
    return out;
}

const char *dt_comm_describe(const struct dt_comm_told *comm, char out[DT_COMM_WORDS])
{
    char label[DT_COMM_LABEL], shape[DT_COMM_SHAPE];
    const char *function = *comm->function ? comm->function : "call";
    int n;
    if (comm->peer >= 0)
        n = snprintf(out, DT_COMM_WORDS, "%s of %s with its rank %d", function,
                     dt_comm_label(comm, label), comm->peer);
    else
        n = snprintf(out, DT_COMM_WORDS, "%s %" PRId64 " of %s", function, comm->entered,
                     dt_comm_label(comm, label));
    if (*dt_comm_shape(comm, shape))
        snprintf(out + n, DT_COMM_WORDS - (size_t)n, ", %s", shape);
    return out;
}
