/* SPDX-License-Identifier: Apache-2.0 */
/* What a doctor hears of another node, and texts of a kernel and of PyTorch: bounded, and what was
 * taken is written again the same. The first byte chooses which it is. */
#include "preflight/probes/compute.h"
#include "preflight/probes/cpus.h"
#include "preflight/probes/limits.h"
#include "preflight/probes/links.h"
#include "preflight/probes/memory.h"
#include "preflight/probes/python.h"
#include "preflight/probes/xids.h"
#include "preflight/speeds.h"
#include "preflight/table.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

static void try_compared(const uint8_t *data, size_t size)
{
    static struct dt_sheet sheet, found;
    struct dt_buf again = {0}, json = {0};
    struct dt_json_writer w = {.out = &json};
    memset(&sheet, 0, sizeof sheet);
    memset(&found, 0, sizeof found);
    bool taken = dt_sheet_read_compared(&sheet, (struct dt_bytes){data, size});
    FUZZ_CHECK(sheet.trait_count <= DT_SHEET_TRAITS && sheet.speed_count <= DT_SHEET_SPEEDS);
    for (size_t i = 0; i < sheet.trait_count; i++) {
        const struct dt_trait *t = &sheet.traits[i];
        FUZZ_CHECK(memchr(t->name, '\0', sizeof t->name) &&
                   memchr(t->value, '\0', sizeof t->value));
    }
    for (size_t i = 0; i < sheet.speed_count; i++) {
        const struct dt_speed *v = &sheet.speeds[i];
        FUZZ_CHECK(memchr(v->device, '\0', sizeof v->device) && memchr(v->id, '\0', sizeof v->id) &&
                   memchr(v->kind, '\0', sizeof v->kind));
    }
    dt_speeds_compare_nodes(&(struct dt_compared){.name = "node", .sheet = &sheet}, 1, &found);
    if (taken) {
        dt_sheet_put_compared(&sheet, &again);
        FUZZ_CHECK(again.len == size && memcmp(again.at, data, size) == 0);
    }
    dt_table_put_json(&sheet, &w);
    FUZZ_CHECK(!json.bad);
    dt_buf_finish(&again);
    dt_buf_finish(&json);
}

static void try_texts(const char *text)
{
    char value[16];
    struct dt_xids x = {0};
    struct dt_compute c = {0};
    FUZZ_CHECK(dt_cpus_count(text) >= 0);
    FUZZ_CHECK(dt_limits_find(text, "Max open files", false) >= DT_LIMIT_UNKNOWN);
    FUZZ_CHECK(dt_limits_find(text, "Max open files", true) >= DT_LIMIT_UNKNOWN);
    FUZZ_CHECK(dt_memory_find(text, "MemTotal") >= -1);
    dt_python_find(text, "cuda", value, sizeof value);
    FUZZ_CHECK(strlen(value) < sizeof value);
    FUZZ_CHECK(dt_python_driver_for(value) >= 0);
    (void)dt_links_match(text, "eth0");
    dt_xids_take(&x, text);
    dt_compute_take(&c, text, strlen(text));
    FUZZ_CHECK(c.count <= DT_COMPUTE_MAX);
    FUZZ_CHECK(x.broken >= 0 && memchr(x.last.text, '\0', sizeof x.last.text));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    if (*data == 0) {
        try_compared(data + 1, size - 1);
        return 0;
    }
    char *text = strndup((const char *)data + 1, size - 1);
    FUZZ_CHECK(text != NULL);
    try_texts(text);
    free(text);
    return 0;
}
