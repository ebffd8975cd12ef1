/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/vault/vault.h"

#include "base/str.h"
#include "rendezvous/protocol/vault_fds.h"
#include "worker_runtime/device/device.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

struct dt_vault {
    struct dt_vault_options o;
    struct dt_vault_image own, peer[DT_VAULT_COPIES];
    int lent;                      /* copies that this world's ranks are kept in */
    int kept;                      /* the slot that was sealed last; -1: none in this world */
    int64_t safe_epoch, safe_step; /* epoch -1: there is none */
    int begun;                     /* the slot of the own image that this world began from; or -1 */
};

static bool open_image(struct dt_vault_image *i, int fd, const char *name, int number)
{
    return fd ? dt_vault_image_take(i, fd, number) : dt_vault_image_open(i, name, number);
}

struct dt_vault *dt_vault_open(const struct dt_vault_options *o, struct dt_err *err)
{
    struct dt_vault_image own;
    if (!open_image(&own, o->own, DT_VAULT_OWN_ENV, 0))
        return NULL;
    struct dt_vault *v = calloc(1, sizeof *v);
    if (!v) {
        dt_vault_image_close(&own);
        dt_err_set(err, DT_E_MEMORY, "no memory for the vault");
        return NULL;
    }
    *v = (struct dt_vault){.o = *o, .own = own, .kept = -1, .safe_epoch = -1, .begun = -1};
    for (int i = 0; i < DT_VAULT_COPIES; i++)
        open_image(&v->peer[i], o->peer, DT_VAULT_PEER_ENV, i);
    return v;
}

void dt_vault_close(struct dt_vault *v)
{
    if (!v)
        return;
    dt_vault_image_close(&v->own);
    for (int i = 0; i < DT_VAULT_COPIES; i++)
        dt_vault_image_close(&v->peer[i]);
    free(v);
}

bool dt_vault_has_earlier(int64_t epoch)
{
    struct dt_vault_image own;
    struct dt_vault_facts f;
    bool has = false;
    if (!dt_vault_image_open(&own, DT_VAULT_OWN_ENV, 0))
        return false;
    for (int n = 0; n < DT_VAULT_SLOTS; n++)
        has = has || (dt_vault_image_facts(&own, n, &f) && f.epoch < epoch);
    dt_vault_image_close(&own);
    return has;
}

uint64_t dt_vault_job(const char *run_id, const char *meaning, const struct dt_unit *units,
                      size_t count, size_t state_size)
{
    uint64_t h = XXH3_64bits_withSeed(DT_VERSION, strlen(DT_VERSION), state_size);
    h = XXH3_64bits_withSeed(run_id, strlen(run_id), h);
    h = XXH3_64bits_withSeed(meaning, strlen(meaning), h);
    for (size_t u = 0; u < count; u++)
        for (size_t p = 0; p < units[u].param_count; p++) {
            const struct dt_param *param = &units[u].params[p];
            const uint64_t size = param->count;
            h = XXH3_64bits_withSeed(param->name, strlen(param->name), h);
            h = XXH3_64bits_withSeed(&size, sizeof size, h);
        }
    return h;
}

/* -- coming back ------------------------------------------------------------------------------ */

static struct dt_vault_held held_of(const struct dt_vault *v, const struct dt_vault_facts *f,
                                    enum dt_vault_source source, int slot)
{
    if (source == DT_VAULT_OWN && f->writer == getpid())
        source = DT_VAULT_OWN_MEMORY;
    return (struct dt_vault_held){.source = source,
                                  .slot = slot,
                                  .host = v->o.host,
                                  .epoch = f->epoch,
                                  .step = f->step,
                                  .world = f->world,
                                  .rank = f->rank,
                                  .shard = (int64_t)f->shard,
                                  .state = (int64_t)f->state};
}

static bool is_no_news(const struct dt_vault *v, const struct dt_vault_facts *f)
{
    const struct dt_vault_whose *own = &v->o.whose;
    return v->o.meshes && f->whose.job == own->job && f->whose.mesh != own->mesh;
}

/* FIRST: the number of its first slot among all of SOURCE. */
static void list_image(struct dt_vault *v, struct dt_vault_image *i, enum dt_vault_source source,
                       int first, struct dt_vault_held held[DT_VAULT_SLOTS], struct dt_buf *said)
{
    const char *whose = source == DT_VAULT_OWN ? "vault" : "neighbour's copy";
    for (int n = 0; n < DT_VAULT_SLOTS; n++) {
        struct dt_vault_facts f;
        struct dt_err why;
        if (dt_vault_image_look(i, n, v->o.whose, &f, &why))
            held[n] = held_of(v, &f, source, first + n);
        else if (*why.text && !is_no_news(v, &f))
            dt_buf_printf(said, "a step in the %s of rank %d is of no use: %s\n", whose, v->o.rank,
                          why.text);
    }
}

void dt_vault_list(struct dt_vault *v, struct dt_vault_held held[DT_VAULT_HELD],
                   struct dt_buf *said)
{
    memset(held, 0, DT_VAULT_HELD * sizeof *held);
    if (!v)
        return;
    list_image(v, &v->own, DT_VAULT_OWN, 0, held, said);
    for (int i = 0; i < DT_VAULT_COPIES; i++)
        list_image(v, &v->peer[i], DT_VAULT_COPY, i * DT_VAULT_SLOTS,
                   held + (i + 1) * DT_VAULT_SLOTS, said);
}

const struct dt_vault_slot *dt_vault_slot(const struct dt_vault *v, enum dt_vault_source source,
                                          int slot)
{
    const struct dt_vault_image *i =
        source == DT_VAULT_COPY ? &v->peer[slot / DT_VAULT_SLOTS] : &v->own;
    return &i->slot[slot % DT_VAULT_SLOTS];
}

void dt_vault_begin_from(struct dt_vault *v, int64_t epoch, int64_t step)
{
    v->safe_epoch = epoch;
    v->safe_step = step;
    for (int n = 0; n < DT_VAULT_SLOTS; n++) {
        struct dt_vault_facts f;
        if (dt_vault_image_facts(&v->own, n, &f) && f.epoch == epoch && f.step == step)
            v->begun = n;
    }
}

/* -- keeping ---------------------------------------------------------------------------------- */

size_t dt_vault_bytes(size_t shard, size_t state)
{
    struct dt_vault_facts f = {.world = 1, .shard = shard, .state = state};
    struct dt_vault_extent e;
    return dt_vault_extent(&f, &e) < 0 ? SIZE_MAX : DT_VAULT_SLOTS * e.all;
}

static size_t bytes_mapped(const struct dt_vault_image *i)
{
    size_t bytes = 0;
    for (int n = 0; n < DT_VAULT_SLOTS; n++)
        bytes += i->slot[n].at ? i->slot[n].extent.all : 0;
    return bytes;
}

size_t dt_vault_mapped(const struct dt_vault *v)
{
    size_t bytes = v ? bytes_mapped(&v->own) : 0;
    for (int i = 0; v && i < DT_VAULT_COPIES; i++)
        bytes += bytes_mapped(&v->peer[i]);
    return bytes;
}

static size_t bytes_taken(const struct dt_vault_image *i)
{
    struct stat st;
    return i->fd > 0 && fstat(i->fd, &st) == 0 ? (size_t)st.st_blocks * 512 : 0;
}

int dt_vault_check_room(const struct dt_vault *v, const struct dt_vault_need *n, struct dt_err *err)
{
    size_t bytes, all;
    char needed[24], there[24];
    size_t taken = bytes_taken(&v->own) + (n->images > 1 ? bytes_taken(&v->peer[0]) : 0);
    if (__builtin_mul_overflow(dt_vault_bytes(n->shard, n->state), (size_t)n->images, &bytes))
        bytes = SIZE_MAX;
    size_t more = bytes > taken ? bytes - taken : 0;
    if (__builtin_mul_overflow(more, (size_t)n->local, &all))
        all = SIZE_MAX;
    if (n->left < 0 || all <= (size_t)n->left)
        return 0;
    return dt_err_set(
        err, DT_E_MEMORY,
        "the vault of %d rank%s on a host%s would take %s more of its memory, and %s are left; "
        "fewer ranks on a host, or more hosts, make it smaller",
        n->local, n->local == 1 ? "" : "s", n->images > 1 ? ", with copies of other ranks'," : "",
        dt_str_from_size(all, needed, sizeof needed),
        dt_str_from_size((uint64_t)n->left, there, sizeof there));
}

static int copy(struct dt_vault_slot *s, struct dt_zero *z, struct dt_bytes state,
                struct dt_err *err)
{
    struct dt_device *d = dt_zero_device(z);
    struct dt_zero_state out = {.master = dt_vault_slot_array(s, 0),
                                .exp_avg = dt_vault_slot_array(s, 1),
                                .exp_avg_sq = dt_vault_slot_array(s, 2)};
    memcpy(dt_vault_slot_state(s), state.at, state.len);
    return dt_zero_save(z, &out, err) < 0 ? -1 : d->table->snap_wait(d, err);
}

struct dt_vault_facts dt_vault_facts_here(const struct dt_vault *v, uint64_t shard)
{
    return (struct dt_vault_facts){.whose = v->o.whose,
                                   .epoch = v->o.epoch,
                                   .world = v->o.world,
                                   .rank = v->o.rank,
                                   .shard = shard,
                                   .writer = getpid(),
                                   .safe_epoch = v->safe_epoch,
                                   .safe_step = v->safe_step};
}

int dt_vault_keep(struct dt_vault *v, struct dt_zero *z, int64_t step, struct dt_bytes state,
                  struct dt_err *err)
{
    size_t shard = v->o.shard ? v->o.shard : dt_zero_layout(z)->shard;
    struct dt_vault_facts f = dt_vault_facts_here(v, shard);
    f.step = step;
    f.state = state.len;
    int slot = dt_vault_image_room(&v->own, &f);
    if (dt_vault_image_begin(&v->own, slot, &f, err) < 0 ||
        copy(&v->own.slot[slot], z, state, err) < 0)
        return -1;
    dt_vault_image_seal(&v->own, slot);
    v->kept = slot;
    return 0;
}

/* What earlier worlds have left in images that this one has no use for. */
static void empty_unused(struct dt_vault *v)
{
    for (int i = v->lent; i < DT_VAULT_COPIES; i++)
        for (int n = 0; n < DT_VAULT_SLOTS; n++)
            dt_vault_image_empty(&v->peer[i], n);
}

void dt_vault_safe(struct dt_vault *v, int64_t step)
{
    if (v->safe_epoch != v->o.epoch)
        empty_unused(v);
    v->safe_epoch = v->o.epoch;
    v->safe_step = step;
}

/* Its length last: whoever reads half of it would see none. A file that may not be so long has none
 * either: to write beyond the limit would be a signal that ends the worker. */
void dt_vault_leave_note(struct dt_vault *v, struct dt_bytes note)
{
    const uint32_t none = 0, len = (uint32_t)note.len;
    const off_t at = (off_t)DT_VAULT_NOTE_AT;
    struct rlimit most;
    if (note.len > DT_VAULT_NOTE_MAX || getrlimit(RLIMIT_FSIZE, &most) < 0 ||
        (most.rlim_cur != RLIM_INFINITY &&
         most.rlim_cur < DT_VAULT_NOTE_AT + sizeof len + note.len))
        return;
    if (pwrite(v->own.fd, &none, sizeof none, at) == (ssize_t)sizeof none &&
        pwrite(v->own.fd, note.at, note.len, at + (off_t)sizeof len) == (ssize_t)note.len)
        (void)!pwrite(v->own.fd, &len, sizeof len, at);
}

void dt_vault_told(struct dt_vault *v, enum dt_vault_told what)
{
    int slot = v->kept >= 0 ? v->kept : v->begun;
    if (slot >= 0 && v->own.slot[slot].at)
        atomic_fetch_or(&dt_vault_slot_header(&v->own.slot[slot])->told, (uint32_t)what);
}

struct dt_vault_image *dt_vault_own(struct dt_vault *v, int *slot)
{
    *slot = v->kept;
    return &v->own;
}

struct dt_vault_image *dt_vault_peer(struct dt_vault *v, int copy)
{
    if (copy >= DT_VAULT_COPIES || v->peer[copy].fd < 0)
        return NULL;
    v->lent = copy < v->lent ? v->lent : copy + 1;
    return &v->peer[copy];
}
