/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/vault/image.h"

#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

static const char magic[8] = "dtvault";
#define VERSION 2

#define ARRAYS 3 /* of struct dt_zero_state */

static uint64_t up(uint64_t n, uint64_t to)
{
    return (n + to - 1) / to * to;
}

int dt_vault_extent(const struct dt_vault_facts *f, struct dt_vault_extent *out)
{
    const uint64_t each = sizeof(float) * ARRAYS;
    if (f->world < 1 || f->world > DT_VAULT_WORLD_MAX || f->rank < 0 || f->rank >= f->world ||
        f->step < 0 || f->epoch < 0)
        return -1;
    if (f->state == 0 || f->state > DT_VAULT_STATE_MAX || f->shard > DT_VAULT_SLOT_BYTES / each)
        return -1;
    uint64_t state = up(f->state, DT_VAULT_PAGE);
    out->body = state + f->shard * each;
    out->blocks = up(out->body, DT_VAULT_BLOCK) / DT_VAULT_BLOCK;
    out->sums_at = DT_VAULT_PAGE;
    out->body_at = up(out->sums_at + out->blocks * sizeof(uint64_t), DT_VAULT_PAGE);
    out->arrays_at = out->body_at + state;
    out->all = out->body_at + out->body;
    return out->all > DT_VAULT_SLOT_BYTES ? -1 : 0;
}

static off_t slot_at(const struct dt_vault_image *i, int slot)
{
    return (off_t)((uint64_t)(i->number * DT_VAULT_SLOTS + slot) * DT_VAULT_SLOT_BYTES);
}

/* -- the file --------------------------------------------------------------------------------- */

static bool is_in_memory(int fd)
{
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS);
    return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && seals >= 0 && st.st_nlink == 0;
}

bool dt_vault_image_take(struct dt_vault_image *i, int fd, int number)
{
    *i = (struct dt_vault_image){.fd = -1, .number = number};
    if (fd < 3 || !is_in_memory(fd))
        return false;
    i->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (i->fd < 0)
        return false;
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    return true;
}

bool dt_vault_image_open(struct dt_vault_image *i, const char *name, int number)
{
    const char *text = getenv(name);
    int64_t fd = -1;
    if (text && dt_str_to_int(text, 3, INT32_MAX, &fd, NULL) < 0)
        fd = -1;
    return dt_vault_image_take(i, (int)fd, number);
}

static void unmap(struct dt_vault_slot *s)
{
    if (s->at)
        munmap(s->at, s->extent.all);
    *s = (struct dt_vault_slot){0};
}

void dt_vault_image_close(struct dt_vault_image *i)
{
    for (int n = 0; n < DT_VAULT_SLOTS; n++)
        unmap(&i->slot[n]);
    if (i->fd > 0)
        close(i->fd);
    i->fd = -1;
}

static int map(struct dt_vault_image *i, int slot, const struct dt_vault_extent *e, int flags,
               struct dt_err *err)
{
    struct dt_vault_slot *s = &i->slot[slot];
    if (s->at && s->extent.all == e->all) {
        s->extent = *e;
        return 0;
    }
    unmap(s);
    void *at =
        mmap(NULL, e->all, PROT_READ | PROT_WRITE, MAP_SHARED | flags, i->fd, slot_at(i, slot));
    if (at == MAP_FAILED)
        return dt_err_errno(err, DT_E_MEMORY, errno, "cannot map %llu bytes of the vault",
                            (unsigned long long)e->all);
    s->at = at;
    s->extent = *e;
    return 0;
}

/* -- checksums -------------------------------------------------------------------------------- */

static uint64_t sum_block(const struct dt_vault_slot *s, uint64_t block)
{
    uint64_t at = block * DT_VAULT_BLOCK, left = s->extent.body - at;
    const uint8_t *body = s->at + s->extent.body_at;
    return XXH3_64bits(body + at, left < DT_VAULT_BLOCK ? left : DT_VAULT_BLOCK);
}

static uint64_t *sums_of(const struct dt_vault_slot *s)
{
    return (uint64_t *)(void *)(s->at + s->extent.sums_at);
}

/* Of all in front of the body; 0 says that nothing is sealed. */
static uint64_t seal_of(const struct dt_vault_slot *s)
{
    const struct dt_vault_facts *f = &dt_vault_slot_header(s)->facts;
    uint64_t seed = XXH3_64bits_withSeed(f, sizeof *f, VERSION);
    uint64_t seal = XXH3_64bits_withSeed(sums_of(s), s->extent.blocks * sizeof(uint64_t), seed);
    return seal ? seal : 1;
}

static int check_body(const struct dt_vault_slot *s, struct dt_err *err)
{
    for (uint64_t b = 0; b < s->extent.blocks; b++)
        if (sum_block(s, b) != sums_of(s)[b])
            return dt_err_set(err, DT_E_RUNTIME, "block %llu of %llu is damaged",
                              (unsigned long long)b + 1, (unsigned long long)s->extent.blocks);
    return 0;
}

/* -- reading ---------------------------------------------------------------------------------- */

/* The header as it lies there, taken once: what is checked is what is used. */
static bool read_header(const struct dt_vault_image *i, int slot, struct dt_vault_header *h)
{
    return i->fd > 0 && pread(i->fd, h, sizeof *h, slot_at(i, slot)) == (ssize_t)sizeof *h &&
           memcmp(h->magic, magic, sizeof magic) == 0 && h->version == VERSION &&
           h->bytes == sizeof *h;
}

bool dt_vault_image_facts(struct dt_vault_image *i, int slot, struct dt_vault_facts *out)
{
    struct dt_vault_header h;
    struct dt_vault_extent e;
    if (!read_header(i, slot, &h) || h.sealed == 0 || dt_vault_extent(&h.facts, &e) < 0)
        return false;
    *out = h.facts;
    return true;
}

static int check(struct dt_vault_image *i, int slot, const struct dt_vault_header *h,
                 struct dt_err *err)
{
    struct dt_vault_extent e;
    struct stat st;
    if (dt_vault_extent(&h->facts, &e) < 0)
        return dt_err_set(err, DT_E_RUNTIME, "its header is damaged");
    if (fstat(i->fd, &st) < 0 || st.st_size < slot_at(i, slot) + (off_t)e.all)
        return dt_err_set(err, DT_E_RUNTIME, "it is cut off");
    if (map(i, slot, &e, 0, err) < 0)
        return -1;
    const struct dt_vault_slot *s = &i->slot[slot];
    if (memcmp(&dt_vault_slot_header(s)->facts, &h->facts, sizeof h->facts) != 0 ||
        seal_of(s) != h->sealed)
        return dt_err_set(err, DT_E_RUNTIME, "its header is damaged");
    return check_body(s, err);
}

bool dt_vault_image_look(struct dt_vault_image *i, int slot, struct dt_vault_whose whose,
                         struct dt_vault_facts *out, struct dt_err *why)
{
    struct dt_vault_header h;
    why->text[0] = '\0';
    if (!read_header(i, slot, &h) || h.sealed == 0)
        return false;
    *out = h.facts;
    if (h.facts.whose.job != whose.job)
        dt_err_set(why, DT_E_RUNTIME, "it is of another job or model");
    else if (h.facts.whose.mesh != whose.mesh)
        dt_err_set(why, DT_E_RUNTIME, "it is of another mesh");
    if (*why->text)
        return false;
    if (check(i, slot, &h, why) == 0)
        return true;
    unmap(&i->slot[slot]);
    return false;
}

uint64_t dt_vault_image_sealed(const struct dt_vault_image *i, int slot)
{
    struct dt_vault_header h;
    return read_header(i, slot, &h) ? h.sealed : 0;
}

/* -- writing ---------------------------------------------------------------------------------- */

int dt_vault_image_room(struct dt_vault_image *i, const struct dt_vault_facts *f)
{
    struct dt_vault_facts had[DT_VAULT_SLOTS];
    for (int n = 0; n < DT_VAULT_SLOTS; n++) {
        if (!dt_vault_image_facts(i, n, &had[n]))
            had[n] = (struct dt_vault_facts){.epoch = -1, .step = -1};
        if (had[n].epoch >= 0 && had[n].whose.job == f->whose.job &&
            had[n].epoch == f->safe_epoch && had[n].step == f->safe_step)
            return !n;
    }
    if (had[0].epoch != had[1].epoch)
        return had[0].epoch < had[1].epoch ? 0 : 1;
    return had[0].step <= had[1].step ? 0 : 1;
}

/* Whether a file may be as long: a limit of files' sizes would be a signal that ends the worker. */
static int check_limit(const struct dt_vault_image *i, int slot, const struct dt_vault_extent *e,
                       struct dt_err *err)
{
    struct rlimit most;
    if (getrlimit(RLIMIT_FSIZE, &most) < 0 || most.rlim_cur == RLIM_INFINITY ||
        (uint64_t)slot_at(i, slot) + e->all <= most.rlim_cur)
        return 0;
    return dt_err_set(err, DT_E_LIMIT,
                      "the vault needs large files in memory, and files may have %llu bytes here; "
                      "try ulimit -f unlimited",
                      (unsigned long long)most.rlim_cur);
}

/* Memory is taken here, once: where there is none this is an error, and a store later a SIGBUS. */
static int take_memory(struct dt_vault_image *i, int slot, const struct dt_vault_extent *e,
                       struct dt_err *err)
{
    off_t at = slot_at(i, slot), rest = (off_t)up(e->all, DT_VAULT_PAGE);
    if (i->slot[slot].at && i->slot[slot].extent.all == e->all)
        return 0;
    unmap(&i->slot[slot]);
    if (check_limit(i, slot, e, err) < 0)
        return -1;
    fallocate(i->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at + rest,
              (off_t)DT_VAULT_SLOT_BYTES - rest);
    if (fallocate(i->fd, 0, at, rest) < 0)
        return dt_err_errno(err, DT_E_MEMORY, errno, "no memory for %llu bytes of the vault",
                            (unsigned long long)e->all);
    return map(i, slot, e, MAP_POPULATE, err);
}

/* Nobody who comes later takes it for whole. */
static void unseal(struct dt_vault_image *i, int slot)
{
    static const uint64_t none = 0;
    struct dt_vault_header h;
    if (read_header(i, slot, &h) && h.sealed)
        (void)!pwrite(i->fd, &none, sizeof none,
                      slot_at(i, slot) + (off_t)offsetof(struct dt_vault_header, sealed));
}

void dt_vault_image_empty(struct dt_vault_image *i, int slot)
{
    unseal(i, slot);
    unmap(&i->slot[slot]);
    fallocate(i->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, slot_at(i, slot),
              (off_t)DT_VAULT_SLOT_BYTES);
}

int dt_vault_image_begin(struct dt_vault_image *i, int slot, const struct dt_vault_facts *f,
                         struct dt_err *err)
{
    struct dt_vault_extent e;
    if (dt_vault_extent(f, &e) < 0)
        return dt_err_set(err, DT_E_LIMIT, "a shard of %llu numbers does not fit the vault",
                          (unsigned long long)f->shard);
    unseal(i, slot);
    if (take_memory(i, slot, &e, err) < 0) {
        dt_vault_image_empty(i, slot);
        return -1;
    }
    struct dt_vault_header *h = dt_vault_slot_header(&i->slot[slot]);
    *h = (struct dt_vault_header){.version = VERSION, .bytes = sizeof *h, .facts = *f};
    memcpy(h->magic, magic, sizeof magic);
    return 0;
}

void dt_vault_image_seal(struct dt_vault_image *i, int slot)
{
    const struct dt_vault_slot *s = &i->slot[slot];
    struct dt_vault_header *h = dt_vault_slot_header(s);
    for (uint64_t b = 0; b < s->extent.blocks; b++)
        sums_of(s)[b] = sum_block(s, b);
    atomic_store_explicit(&h->sealed, seal_of(s), memory_order_release);
}

int dt_vault_image_seal_copy(struct dt_vault_image *i, int slot, uint64_t seal, struct dt_err *err)
{
    const struct dt_vault_slot *s = &i->slot[slot];
    struct dt_vault_header *h = dt_vault_slot_header(s);
    int rc = seal_of(s) == seal ? check_body(s, err)
                                : dt_err_set(err, DT_E_RUNTIME, "its header is damaged");
    if (rc == 0)
        atomic_store_explicit(&h->sealed, seal, memory_order_release);
    else
        dt_vault_image_empty(i, slot);
    return rc;
}
