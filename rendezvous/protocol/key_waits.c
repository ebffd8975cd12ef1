/* SPDX-License-Identifier: Apache-2.0 */
/* {"waits":[{"from":"127.0.0.1:41234","waited":8123,"keys":"default_pg/0//3"}]} */
#include "rendezvous/protocol/key_waits.h"

#include "base/json.h"
#include "base/str.h"
#include "rendezvous/protocol/fields.h"

#include <stdio.h>
#include <string.h>

#define KEY_SHOWN 100
#define COUNT_TEXT 40 /* ", ", " and N more" */

/* clang-format off */
static const struct dt_field fields[] = {
    {.name = "from", .kind = DT_FIELD_TEXT, .at = offsetof(struct dt_key_wait, from), .max = DT_ADDR_TEXT - 1},
    {.name = "waited", .kind = DT_FIELD_TIME, .at = offsetof(struct dt_key_wait, waited), .max = DT_FIELD_FOREVER},
    {.name = "keys", .kind = DT_FIELD_TEXT, .at = offsetof(struct dt_key_wait, keys), .max = DT_KEY_WAIT_TEXT_MAX - 1},
    {0},
};
/* clang-format on */

static struct dt_bytes without_slash(struct dt_bytes key)
{
    for (; key.len > 1 && *key.at == '/'; key.len--)
        key.at++;
    return key;
}

void dt_key_wait_name(struct dt_key_wait *w, const struct dt_bytes *keys, size_t count,
                      uint64_t missing)
{
    char shown[KEY_SHOWN];
    size_t used = 0, named = 0;
    for (; named < count && named < DT_KEY_WAIT_NAMED; named++) {
        dt_str_printable(without_slash(keys[named]), shown, sizeof shown);
        if (used + strlen(shown) + COUNT_TEXT > sizeof w->keys)
            break;
        used += (size_t)snprintf(w->keys + used, sizeof w->keys - used, "%s%s",
                                 named == 0 ? "" : ", ", shown);
    }
    if (missing > named)
        snprintf(w->keys + used, sizeof w->keys - used, " and %llu more",
                 (unsigned long long)(missing - named));
}

void dt_key_waits_put(const struct dt_key_waits *waits, struct dt_buf *out)
{
    dt_buf_put_str(out, "{\"waits\":[");
    for (size_t i = 0; i < waits->len; i++) {
        dt_buf_put_str(out, i == 0 ? "{" : ",{");
        dt_fields_put(out, &waits->at[i], fields);
        dt_buf_put_str(out, "}");
    }
    dt_buf_put_str(out, "]}");
}

int dt_key_waits_get(struct dt_key_waits *waits, struct dt_bytes value, struct dt_err *err)
{
    struct dt_json doc;
    const struct cJSON *array;
    int rc = dt_json_parse(&doc, (const char *)value.at, value.len, DT_KEY_WAITS_BYTES, err);
    waits->len = 0;
    if (rc == 0)
        rc = dt_json_array(&doc, NULL, "waits", &array, err);
    for (const struct cJSON *at = rc == 0 ? dt_json_first(array) : NULL;
         at && rc == 0 && waits->len < DT_KEY_WAITS_MAX; at = dt_json_next(at))
        rc = dt_fields_get(&doc, at, fields, &waits->at[waits->len++], err);
    dt_json_finish(&doc);
    if (rc < 0)
        waits->len = 0;
    return rc;
}

const struct dt_key_wait *dt_key_waits_find(const struct dt_key_waits *waits, const char *from)
{
    for (size_t i = 0; *from && i < waits->len; i++)
        if (strcmp(waits->at[i].from, from) == 0)
            return &waits->at[i];
    return NULL;
}
