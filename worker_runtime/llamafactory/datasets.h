/* SPDX-License-Identifier: Apache-2.0 */
/* The datasets that a file of LLaMA-Factory's names, as dataset_info.json in their folder tells of
 * them. */
#ifndef DT_LLAMAFACTORY_DATASETS_H
#define DT_LLAMAFACTORY_DATASETS_H

#include "base/json.h"
#include "worker_runtime/data/tokenize_chats.h"
#include "worker_runtime/llamafactory/llamafactory.h"

#include <limits.h>

struct factory_dataset {
    char path[PATH_MAX];
    struct dt_chat_source source; /* its texts are those of .info */
    const struct cJSON *entry;
};

/* Zeroed memory is an empty one. */
struct factory_datasets {
    struct dt_json info;
    struct factory_dataset *at;
    size_t count;
};

/* NAMES, with commas between them, of those in the folder that DATA says, of the kind and with as
 * many examples of each as it says. End it also after a failure. */
int factory_datasets_open(struct factory_datasets *d, const struct dt_factory_data *data,
                          const char *names, struct dt_err *err);
void factory_datasets_close(struct factory_datasets *d);

#endif
