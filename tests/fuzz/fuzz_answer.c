/* SPDX-License-Identifier: Apache-2.0 */
/* The decoder of answers on whatever a server may send: whole and in slices it must say the same,
 * and wait for no more than the limits allow. The first three bytes say what was asked, for how
 * many keys, and the slicing. */
#include "rendezvous/protocol/c10d_answer.h"
#include "tests/fuzz/fuzz.h"

static const struct dt_c10d_limits limits = {.key = 256, .value = 4096, .keys = 64, .whole = 8192};

/* A hash of all that was said when SLICE bytes are added at a time. */
static uint64_t read_answers(enum dt_c10d_op op, uint64_t asked, const uint8_t *bytes, size_t len,
                             size_t slice)
{
    struct dt_c10d_answer_decoder d = {.limits = limits};
    uint64_t said = 0;
    size_t begin = 0, end = 0;
    dt_c10d_answer_expect(&d, op, asked);
    for (int answers = 0; answers < 16;) {
        struct dt_c10d_reply reply;
        struct dt_err err;
        size_t used;
        enum dt_decoded got =
            dt_c10d_answer_decode(&d, bytes + begin, end - begin, &reply, &used, &err);
        if (got == DT_MORE) {
            FUZZ_CHECK(d.needed > end - begin && d.needed <= limits.whole);
            if (end == len)
                break;
            end = len - end < slice ? len : end + slice;
            continue;
        }
        said = said * 31 + (uint64_t)got;
        if (got == DT_BAD)
            break;
        FUZZ_CHECK(used <= end - begin && reply.value.len <= limits.value);
        struct dt_bytes blob;
        uint64_t n = 0;
        while (dt_c10d_next_blob(&reply.items, &blob))
            n++;
        FUZZ_CHECK(n == reply.count);
        said = said * 31 + used + (uint64_t)reply.number;
        begin += used;
        answers++;
        dt_c10d_answer_expect(&d, op, asked);
    }
    return said;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 3)
        return 0;
    enum dt_c10d_op op = (enum dt_c10d_op)(data[0] % DT_C10D_OPS);
    uint64_t asked = data[1] % 8;
    FUZZ_CHECK(read_answers(op, asked, data + 3, size - 3, size) ==
               read_answers(op, asked, data + 3, size - 3, data[2] % 17 + 1u));
    return 0;
}
