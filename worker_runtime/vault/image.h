/* SPDX-License-Identifier: Apache-2.0 */
/* A vault's image: the last steps of one rank, in a file in memory that outlives the process.
 *
 * An image has two slots. A slot holds one step of one rank, and the other one stays whole while it
 * is written. A file of copies may have images of several ranks, one behind the other. The file is
 * sparse: slot S of image I begins at byte (I * DT_VAULT_SLOTS + S) * DT_VAULT_SLOT_BYTES:
 *
 *     page 0      struct dt_vault_header
 *     then        a checksum of each block of the body, XXH3 of 64 bits, and padding to a page
 *     then        the body: the state that ranks share, padding to a page, and three arrays of
 *                 `shard` floats: master, exp_avg, exp_avg_sq; as struct dt_zero_state has them
 *
 * Numbers are in the machine's own order: an image never leaves machines that can train together.
 *
 * `sealed` is written last, with release order, and is a checksum of all else that is in front of
 * the body. 0: the slot counts for nothing. Whoever reads an image takes it for bytes from outside:
 * dt_vault_image_look() says whether a slot counts.
 *
 * A neighbour's copy has the same format, byte for byte, but not the same slots: the receiver takes
 * the slot that dt_vault_image_room() names. One thread at a time uses a struct dt_vault_image;
 * another one may read a sealed slot of it until dt_vault_image_begin() takes that slot again. */
#ifndef DT_WORKER_RUNTIME_VAULT_IMAGE_H
#define DT_WORKER_RUNTIME_VAULT_IMAGE_H

#include "base/buf.h"
#include "base/err.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DT_VAULT_SLOTS 2
#define DT_VAULT_SLOT_BYTES ((uint64_t)1 << 40)
#define DT_VAULT_BLOCK ((uint64_t)4 << 20) /* of the body, with a checksum of its own */
#define DT_VAULT_PAGE 4096
#define DT_VAULT_STATE_MAX ((uint64_t)1 << 20)
#define DT_VAULT_WORLD_MAX (1 << 20)

/* Images of another job, or of another mesh, count for nothing. */
struct dt_vault_whose {
    uint64_t job;  /* a hash of the run and of all of the model */
    uint64_t mesh; /* one of how its ranks share the model; 0: they share data alone */
};

/* What a slot holds. */
struct dt_vault_facts {
    struct dt_vault_whose whose;
    int64_t epoch;  /* of the world that made the step */
    int64_t step;   /* that is done */
    int64_t world;  /* ranks over which it was cut */
    int64_t rank;   /* whose part this is */
    uint64_t shard; /* floats in each of the arrays */
    uint64_t state; /* bytes of what ranks share; not 0 */
    int64_t writer; /* the process that made it */
    /* The step that the world could come back to for certain when this was written; its slot is
     * not to be taken. epoch -1: there was none. */
    int64_t safe_epoch, safe_step;
};

struct dt_vault_header {
    char magic[8];
    uint32_t version, bytes; /* of this struct */
    _Atomic uint64_t sealed;
    struct dt_vault_facts facts;
    /* In no checksum, and no copy has it: what has been told of the step since. */
    _Atomic uint32_t told;
};

enum dt_vault_told {
    DT_VAULT_TOLD_STEP = 1,       /* its line */
    DT_VAULT_TOLD_VALIDATION = 2, /* and the validation that was due behind it */
};

/* Sizes that follow from facts; from the beginning of a slot. */
struct dt_vault_extent {
    uint64_t sums_at, blocks; /* checksums */
    uint64_t body_at, body;   /* and bytes of the body */
    uint64_t arrays_at;       /* the first array; the others follow */
    uint64_t all;             /* bytes of the slot that are used */
};

/* -1: such facts cannot be: they do not fit a slot, or contradict each other. */
int dt_vault_extent(const struct dt_vault_facts *f, struct dt_vault_extent *out);

struct dt_vault_slot {
    uint8_t *at; /* NULL: not mapped */
    struct dt_vault_extent extent;
};

struct dt_vault_image {
    int fd;     /* -1: none */
    int number; /* in its file */
    struct dt_vault_slot slot[DT_VAULT_SLOTS];
};

/* Image NUMBER of the file whose descriptor is FD; that is looked at before it is taken, as it may
 * be left over from another program. False: there is none. Children do not inherit it. */
bool dt_vault_image_take(struct dt_vault_image *i, int fd, int number);
/* The same of the descriptor that the variable NAME of the environment has, DT_VAULT_OWN_ENV or
 * DT_VAULT_PEER_ENV. */
bool dt_vault_image_open(struct dt_vault_image *i, const char *name, int number);
void dt_vault_image_close(struct dt_vault_image *i); /* what it holds stays */

/* What is in a slot, as its header says: no checksum of the body is looked at. False: nothing that
 * was sealed. */
bool dt_vault_image_facts(struct dt_vault_image *i, int slot, struct dt_vault_facts *out);
/* The same, and every byte is right and of WHOSE. False and WHY: it is damaged, or of another job
 * or mesh, as OUT says; WHY "" where nothing was ever sealed. */
bool dt_vault_image_look(struct dt_vault_image *i, int slot, struct dt_vault_whose whose,
                         struct dt_vault_facts *out, struct dt_err *why);

/* Which slot F may be written into: not the one that holds its safe step. Of two that hold nothing
 * of worth, the older one. */
int dt_vault_image_room(struct dt_vault_image *i, const struct dt_vault_facts *f);

/* Takes SLOT for F: it counts for nothing until it is sealed. The memory is the slot's, with room
 * for all of it, and *err says so where there is none: then the slot is empty. */
int dt_vault_image_begin(struct dt_vault_image *i, int slot, const struct dt_vault_facts *f,
                         struct dt_err *err);
/* The body is there: sums and seal are made. */
void dt_vault_image_seal(struct dt_vault_image *i, int slot);
/* For who has copied all of a slot, with dt_vault_image_begin() in front, but for the header: seals
 * it when each sum is right and SEAL is what comes of it. -1: it is not, and the slot is empty. */
int dt_vault_image_seal_copy(struct dt_vault_image *i, int slot, uint64_t seal, struct dt_err *err);
/* The seal of a slot; 0: not sealed. */
uint64_t dt_vault_image_sealed(const struct dt_vault_image *i, int slot);
/* Gives its memory back. */
void dt_vault_image_empty(struct dt_vault_image *i, int slot);

/* Parts of a slot that is mapped: by look() or begin(). */
static inline struct dt_vault_header *dt_vault_slot_header(const struct dt_vault_slot *s)
{
    return (struct dt_vault_header *)(void *)s->at;
}

static inline uint8_t *dt_vault_slot_state(const struct dt_vault_slot *s)
{
    return s->at + s->extent.body_at;
}

/* WHICH 0: master, 1: exp_avg, 2: exp_avg_sq. */
static inline float *dt_vault_slot_array(const struct dt_vault_slot *s, int which)
{
    uint64_t shard = dt_vault_slot_header(s)->facts.shard;
    return (float *)(void *)(s->at + s->extent.arrays_at) + (uint64_t)which * shard;
}

#endif
