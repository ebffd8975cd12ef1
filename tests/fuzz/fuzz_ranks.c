/* SPDX-License-Identifier: Apache-2.0 */
/* What other nodes say at the static rendezvous, from any bytes: what is read can be written and
 * read again, and ranks that are taken are ranks. The first byte says which of the two it is. */
#include "agent/backend/fixed/ranks.h"
#include "rendezvous/protocol/spec.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

static void read_node(struct dt_bytes text)
{
    struct dt_ranks_node node, again;
    struct dt_buf out = {0};
    struct dt_err err = {0};
    if (dt_ranks_read_node(text, &node, &err) < 0) {
        FUZZ_CHECK(err.text[0] != '\0');
        return;
    }
    FUZZ_CHECK(node.workers >= 1 && node.workers <= DT_WORKERS_MOST);
    dt_ranks_write_node(&out, &node, 0);
    if (out.len <= DT_RANKS_TEXT_MAX) {
        FUZZ_CHECK(dt_ranks_read_node((struct dt_bytes){out.at, out.len}, &again, &err) == 0);
        FUZZ_CHECK(strcmp(again.role, node.role) == 0 && again.workers == node.workers &&
                   again.nodes == node.nodes);
        free(again.role);
    }
    free(node.role);
    dt_buf_finish(&out);
}

static void read_place(struct dt_bytes text)
{
    struct dt_ranks_place place, again;
    struct dt_buf out = {0};
    struct dt_err err = {0};
    if (dt_ranks_read_place(text, &place, &err) < 0) {
        FUZZ_CHECK(err.text[0] != '\0');
        return;
    }
    FUZZ_CHECK(place.first >= 0 && place.first < place.size);
    FUZZ_CHECK(place.first_in_role >= 0 && place.first_in_role < place.role_size);
    dt_ranks_write_place(&out, &place);
    FUZZ_CHECK(dt_ranks_read_place((struct dt_bytes){out.at, out.len}, &again, &err) == 0);
    FUZZ_CHECK(memcmp(&place, &again, sizeof place) == 0);
    dt_buf_finish(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    struct dt_bytes text = {data + 1, size - 1};
    if (data[0] % 2)
        read_place(text);
    else
        read_node(text);
    return 0;
}
