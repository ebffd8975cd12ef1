/* SPDX-License-Identifier: Apache-2.0 */
/* A config.json of weights that are not stored as floats. Which weights those are the files say,
 * tensor by tensor; here is only whether their form is one that is read. */
#include "worker_runtime/model/inside.h"

#include <cjson/cJSON.h>
#include <string.h>

static bool is_word(const struct cJSON *object, const char *name, const char *word)
{
    const struct cJSON *v = cJSON_GetObjectItemCaseSensitive(object, name);
    return cJSON_IsString(v) && strcmp(v->valuestring, word) == 0;
}

static bool is_true(const struct cJSON *object, const char *name)
{
    return cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(object, name));
}

int dt_shape_read_quantized(const struct dt_shape_reading *r, const char *name)
{
    const struct cJSON *v = cJSON_GetObjectItemCaseSensitive(r->object, name);
    if (!v || cJSON_IsNull(v) || cJSON_IsFalse(v) || (cJSON_IsObject(v) && !v->child))
        return 0;
    if (is_word(v, "quant_method", "bitsandbytes") && is_true(v, "load_in_4bit") &&
        is_word(v, "bnb_4bit_quant_type", "nf4") && is_true(v, "bnb_4bit_use_double_quant"))
        return 0;
    return dt_shape_refuse(r, name,
                           "of quantized weights only bitsandbytes' NF4 with double quantization "
                           "is read; take the model's folder of 16-bit floats");
}
