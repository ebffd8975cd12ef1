/* SPDX-License-Identifier: Apache-2.0 */
/* An event's record, whatever a journal may hold: it is refused, or it is an event that is written
 * again as it was, and as JSON. */
#include "base/json.h"
#include "rendezvous/events/event.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

static void check_json(const struct dt_event *e)
{
    struct dt_buf text = {0};
    struct dt_json doc;
    dt_event_put_json(&text, e);
    FUZZ_CHECK(dt_json_parse(&doc, (const char *)text.at, text.len, text.len, NULL) == 0);
    FUZZ_CHECK(!memchr(text.at, '\n', text.len)); /* it is to be a line of a file */
    dt_json_finish(&doc);
    dt_buf_finish(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dt_event e;
    struct dt_buf again = {0};
    if (!dt_event_restore(&e, (struct dt_bytes){data, size}))
        return 0;
    dt_event_save(&e, &again);
    FUZZ_CHECK(again.len == size && memcmp(again.at, data, size) == 0);
    check_json(&e);
    dt_buf_finish(&again);
    return 0;
}
