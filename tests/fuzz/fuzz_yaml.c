/* SPDX-License-Identifier: Apache-2.0 */
/* Settings in YAML from any bytes: refused with the line that is wrong, or JSON that reads back as
 * itself. */
#include "tests/fuzz/fuzz.h"
#include "worker_runtime/config/yaml.h"

#include <cjson/cJSON.h>
#include <string.h>

#define WRITTEN_MOST (DT_YAML_MAX * 8)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dt_err err = {0};
    struct dt_json doc, again;
    if (dt_yaml_parse(&doc, (const char *)data, size, &err) < 0) {
        FUZZ_CHECK(!doc.root && strncmp(err.text, "line ", strlen("line ")) == 0);
        return 0;
    }
    char *text = dt_json_text(doc.root);
    FUZZ_CHECK(text && cJSON_IsObject(doc.root));
    FUZZ_CHECK(dt_json_no_duplicates(&doc, &err) == 0);
    FUZZ_CHECK(dt_json_parse(&again, text, strlen(text), WRITTEN_MOST, &err) == 0);
    FUZZ_CHECK(cJSON_Compare(doc.root, again.root, true));
    dt_json_finish(&again);
    dt_json_finish(&doc);
    free(text);
    return 0;
}
