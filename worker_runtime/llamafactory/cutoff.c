/* SPDX-License-Identifier: Apache-2.0 */
/* How long an example and a sample may be, which hangs on the model as well. */
#include "worker_runtime/config/model_file.h"
#include "worker_runtime/llamafactory/keys.h"

#include <cjson/cJSON.h>

/* Of the model that the run names; 0: none is found, and who reads it for good says why. */
static size_t positions_of(const struct factory_reading *r)
{
    const struct cJSON *model = cJSON_GetObjectItemCaseSensitive(r->run->root, "model");
    const struct cJSON *config = cJSON_GetObjectItemCaseSensitive(model, "config");
    const struct cJSON *weights = cJSON_GetObjectItemCaseSensitive(model, "weights");
    const struct cJSON *named = config ? config : weights;
    struct dt_json file = {0};
    struct dt_shape shape = {0};
    int rc = -1;
    if (cJSON_IsObject(named))
        rc = dt_shape_read(&shape, r->run, named, NULL, NULL);
    else if (cJSON_IsString(named) && dt_model_file_read(&file, named->valuestring, NULL) == 0)
        rc = dt_shape_read(&shape, &file, NULL, NULL, NULL);
    dt_json_finish(&file);
    return rc < 0 ? 0 : shape.positions;
}

int factory_settle_cutoff(const struct factory_reading *r)
{
    struct dt_factory_data *of = &r->draft->f.data;
    const struct cJSON *data = cJSON_GetObjectItemCaseSensitive(r->run->root, "data");
    int64_t most = (int64_t)positions_of(r);
    if (most > 0 && of->cutoff > most && !dt_json_has(r->file->root, "cutoff_len")) {
        of->cutoff = most;
        if (r->warnings)
            dt_buf_printf(r->warnings,
                          "cutoff_len is not written and is %lld here, as the model has %lld "
                          "positions\n",
                          (long long)of->cutoff, (long long)most);
    }
    if (dt_json_has(data, "sequence_length")) /* an override says it */
        return 0;
    return factory_put(r, "data.sequence_length", cJSON_CreateNumber((double)of->cutoff));
}
