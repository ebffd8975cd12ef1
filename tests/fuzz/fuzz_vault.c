/* SPDX-License-Identifier: Apache-2.0 */
/* An image of a vault in which anything has happened to any bytes: who looks finds a step only
 * where it is, to the bit, the one that was sealed.
 *
 * Input: four bytes at which the file is cut, beyond its end for nowhere; then five bytes for each
 * change: where, and what is flipped there. */
#include "tests/fuzz/fuzz.h"
#include "worker_runtime/vault/image.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define WHOSE ((struct dt_vault_whose){5, 6})
#define MOST 32768 /* bytes of the image that are used, at most */

static uint8_t sealed[MOST];
static struct dt_vault_extent extent;

static void make(struct dt_vault_image *i)
{
    const struct dt_vault_facts f = {.whose = WHOSE,
                                     .epoch = 2,
                                     .step = 9,
                                     .world = 3,
                                     .rank = 1,
                                     .shard = 512,
                                     .state = 60,
                                     .writer = 1,
                                     .safe_epoch = -1};
    FUZZ_CHECK(dt_vault_image_begin(i, 0, &f, NULL) == 0);
    extent = i->slot[0].extent;
    FUZZ_CHECK(extent.all <= MOST);
    for (uint64_t n = extent.body_at; n < extent.all; n++)
        i->slot[0].at[n] = (uint8_t)(n * 7);
    dt_vault_image_seal(i, 0);
    memcpy(sealed, i->slot[0].at, extent.all);
}

static uint32_t number(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* Whether AT is a byte on which a step depends: neither what was told of it nor padding. */
static bool counts(size_t at)
{
    return at < offsetof(struct dt_vault_header, told) ||
           (at >= extent.sums_at && at < extent.sums_at + extent.blocks * sizeof(uint64_t)) ||
           at >= extent.body_at;
}

static bool is_whole(const uint8_t *image, size_t len)
{
    for (size_t n = 0; n < extent.all; n++)
        if (n >= len || (counts(n) && image[n] != sealed[n]))
            return false;
    return true;
}

static size_t change(uint8_t *image, const uint8_t *data, size_t size)
{
    size_t len = size >= 4 && number(data) < extent.all ? number(data) : extent.all;
    for (size_t at = 4; at + 5 <= size; at += 5)
        image[number(data + at) % extent.all] ^= data[at + 4];
    return len;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dt_vault_image i = {.fd = memfd_create("vault", 0)};
    struct dt_vault_facts f = {0};
    struct dt_err why;
    uint8_t image[MOST];
    FUZZ_CHECK(i.fd > 0);
    if (extent.all == 0)
        make(&i);
    dt_vault_image_empty(&i, 0);
    memcpy(image, sealed, extent.all);
    size_t len = change(image, data, size);
    FUZZ_CHECK(ftruncate(i.fd, 0) == 0 && pwrite(i.fd, image, len, 0) == (ssize_t)len);
    bool found = dt_vault_image_look(&i, 0, WHOSE, &f, &why);
    FUZZ_CHECK(found == is_whole(image, len));
    FUZZ_CHECK(!found || (f.step == 9 && f.shard == 512));
    FUZZ_CHECK(!dt_vault_image_look(&i, 1, WHOSE, &f, &why));
    int room = dt_vault_image_room(&i, &f);
    FUZZ_CHECK(room == 0 || room == 1);
    dt_vault_image_close(&i);
    return 0;
}
