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

/* Positions of a sample whose examples have up to CUTOFF tokens: both answers of a pair are in it,
 * and the last token of each takes none. */
static int64_t room_for(const struct dt_factory_data *of, int64_t cutoff)
{
    return of->pairs ? 2 * (cutoff - 1) : cutoff;
}

int factory_settle_cutoff(const struct factory_reading *r)
{
    struct dt_factory_data *of = &r->draft->f.data;
    const struct cJSON *data = cJSON_GetObjectItemCaseSensitive(r->run->root, "data");
    bool written = dt_json_has(r->file->root, "cutoff_len");
    bool overridden = dt_json_has(data, "sequence_length");
    long long all = (long long)positions_of(r), fitting = of->pairs ? all / 2 + 1 : all;
    bool fits = all == 0 || room_for(of, of->cutoff) <= all;
    if (!fits && written && of->pairs && !overridden)
        return factory_refuse(r, "cutoff_len",
                              "%lld tokens in each of two answers take %lld positions, and the "
                              "model has %lld; write at most %lld",
                              (long long)of->cutoff, (long long)room_for(of, of->cutoff), all,
                              fitting);
    if (!fits && !written) {
        of->cutoff = fitting;
        if (r->warnings)
            dt_buf_printf(r->warnings,
                          "cutoff_len is not written and is %lld here, as the model has %lld "
                          "positions%s\n",
                          fitting, all, of->pairs ? " for both answers of a pair" : "");
    }
    if (overridden)
        return 0;
    return factory_put(r, "data.sequence_length",
                       cJSON_CreateNumber((double)room_for(of, of->cutoff)));
}
