/* SPDX-License-Identifier: Apache-2.0 */
/* The request decoder on any bytes: whole and in slices it must say the same, ask for more than it
 * has and less than the limits allow, and every request must survive being encoded again. The first
 * byte picks the slicing. */
#include "rendezvous/protocol/c10d.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>

static const struct dt_c10d_limits limits = {.key = 256, .value = 4096, .keys = 64, .whole = 8192};

static void check_again(enum dt_c10d_dialect dialect, const struct dt_c10d_request *req,
                        const uint8_t *bytes, size_t used)
{
    struct dt_buf again = {0};
    FUZZ_CHECK(dt_c10d_encode(&again, dialect, req));
    FUZZ_CHECK(
        dt_bytes_equal((struct dt_bytes){again.at, again.len}, (struct dt_bytes){bytes, used}));
    dt_buf_finish(&again);
}

static void check_items(struct dt_c10d_request req)
{
    struct dt_bytes key, value = {0};
    uint64_t n = 0;
    while (dt_c10d_next_item(&req, &key, &value)) {
        FUZZ_CHECK(key.len <= limits.key && value.len <= limits.value);
        n++;
    }
    FUZZ_CHECK(n == req.count || req.items.at == NULL);
}

/* How the stream reads when SLICE bytes are added at a time: a hash of all that was said. */
static uint64_t read_stream(const uint8_t *bytes, size_t len, size_t slice)
{
    struct dt_c10d_decoder d = {.limits = limits, .legacy = DT_C10D_L1};
    uint64_t said = 0;
    size_t begin = 0, end = 0;
    while (begin < len) {
        struct dt_c10d_request req;
        struct dt_err err;
        size_t used;
        enum dt_decoded got = dt_c10d_decode(&d, bytes + begin, end - begin, &req, &used, &err);
        if (got == DT_MORE) {
            if (d.dialect == DT_C10D_UNTOLD || d.begun)
                FUZZ_CHECK(d.needed > end - begin);
            FUZZ_CHECK(d.needed <= limits.whole);
            if (end == len)
                break;
            end = len - end < slice ? len : end + slice;
            continue;
        }
        said = said * 31 + (uint64_t)got + 1;
        if (got == DT_BAD)
            break;
        check_again(d.dialect, &req, bytes + begin, used);
        check_items(req);
        said = said * 31 + (uint64_t)req.op + used;
        begin += used;
    }
    return said;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    size_t slice = data[0] % 17 + 1;
    FUZZ_CHECK(read_stream(data + 1, size - 1, size) == read_stream(data + 1, size - 1, slice));
    return 0;
}
