/* SPDX-License-Identifier: Apache-2.0 */
/* A connection of the control protocol, whatever comes over it: preamble, then frames. Whole and in
 * slices it must say the same, and what is taken must survive being written and read again. The
 * first byte says how it is sliced. */
#include "rendezvous/protocol/messages.h"
#include "tests/fuzz/fuzz.h"

#define MOST 4096

/* Written again it is the same message, and writing that gives the same bytes. */
static void check_again(const struct dt_message *m)
{
    struct dt_buf once = {0}, twice = {0};
    struct dt_message again;
    struct dt_err err = {0};
    size_t used;
    dt_message_encode(&once, m);
    FUZZ_CHECK(dt_message_decode(once.at, once.len, DT_STATUS_FRAME_MAX, &again, &used, &err) ==
               DT_DONE);
    FUZZ_CHECK(used == once.len && again.type == m->type);
    dt_message_encode(&twice, &again);
    FUZZ_CHECK(twice.len == once.len && memcmp(twice.at, once.at, once.len) == 0);
    dt_message_finish(&again);
    dt_buf_finish(&once);
    dt_buf_finish(&twice);
}

/* A hash of all that was said when SLICE bytes are added at a time. */
static uint64_t read_frames(const uint8_t *bytes, size_t len, size_t slice)
{
    uint64_t said = 0;
    size_t begin = 0, end = 0;
    bool greeted = false;
    for (;;) {
        struct dt_message m = {0};
        struct dt_err err = {0};
        int version = 0;
        size_t used = DT_CONTROL_PREAMBLE;
        enum dt_decoded got =
            greeted ? dt_message_decode(bytes + begin, end - begin, MOST, &m, &used, &err)
                    : dt_control_read_preamble(bytes, end, &version);
        if (got == DT_MORE && end == len)
            return said;
        if (got == DT_MORE) {
            end = len - end < slice ? len : end + slice;
            continue;
        }
        said = said * 31 + (uint64_t)got + (uint64_t)version + (uint64_t)m.type;
        if (got == DT_BAD) {
            FUZZ_CHECK(!greeted || (err.code == DT_E_PROTOCOL && *err.text));
            return said;
        }
        FUZZ_CHECK(used <= end - begin);
        if (greeted)
            check_again(&m);
        dt_message_finish(&m);
        begin += used;
        greeted = true;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    FUZZ_CHECK(read_frames(data + 1, size - 1, size) ==
               read_frames(data + 1, size - 1, data[0] % 17 + 1u));
    return 0;
}
