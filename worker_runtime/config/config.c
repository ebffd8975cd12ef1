/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/config/config.h"

#include "worker_runtime/config/keys.h"
#include "worker_runtime/config/merge.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

static int keep_document(struct dt_config *c, const struct dt_json *doc, struct dt_err *err)
{
    c->document = cJSON_Print(doc->root);
    return c->document ? 0 : dt_err_set(err, DT_E_MEMORY, "no memory for the configuration");
}

int dt_config_understand(struct dt_config *c, struct dt_merge *m, struct dt_buf *warnings,
                         struct dt_err *err)
{
    struct dt_config_draft draft;
    struct dt_reading r = {&draft, &m->doc, m, warnings, err};
    dt_config_draft_init(&draft);
    int rc = dt_config_read(&r);
    if (rc == 0)
        rc = dt_config_settle(&r);
    if (rc == 0)
        rc = keep_document(&draft.c, &m->doc, err);
    if (rc == 0) {
        *c = draft.c;
        memset(&draft.c, 0, sizeof draft.c); /* its strings have moved */
    }
    dt_config_draft_finish(&draft);
    return rc < 0 ? dt_merge_blame(m, err) : 0;
}

static int merge(struct dt_merge *m, const char *path, const char *deepspeed, struct dt_err *err)
{
    const char *first = path ? path : deepspeed;
    if (!first)
        return dt_err_set(err, DT_E_USAGE, "no configuration is named");
    m->name = first;
    if (dt_merge_file(&m->doc, first, err) < 0)
        return -1;
    if (path && deepspeed) {
        m->second_name = deepspeed;
        if (dt_merge_file(&m->second, deepspeed, err) < 0 || dt_merge_second(m, err) < 0)
            return -1;
    }
    return dt_merge_overrides(m, err);
}

int dt_config_load(struct dt_config *c, const char *path, const char *deepspeed,
                   const char *const *overrides, struct dt_buf *warnings, struct dt_err *err)
{
    struct dt_merge m = {.overrides = overrides};
    memset(c, 0, sizeof *c);
    int rc = merge(&m, path, deepspeed, err);
    if (rc == 0)
        rc = dt_config_understand(c, &m, warnings, err);
    dt_merge_finish(&m);
    return rc;
}

int dt_config_parse(struct dt_config *c, const char *text, size_t len, const char *name,
                    const char *folder, struct dt_buf *warnings, struct dt_err *err)
{
    struct dt_merge m = {.name = name};
    memset(c, 0, sizeof *c);
    int rc = dt_merge_parse(&m.doc, text, len, name, folder, err);
    if (rc == 0)
        rc = dt_config_understand(c, &m, warnings, err);
    dt_merge_finish(&m);
    return rc;
}

void dt_config_finish(struct dt_config *c)
{
    free(c->model.weights);
    free(c->lora_from);
    dt_lora_finish(&c->lora);
    for (size_t i = 0; i < c->data.train_count; i++)
        free(c->data.train[i].path);
    free(c->data.train);
    free(c->data.validation);
    free(c->train.save_dir);
    free(c->train.upload_to);
    free(c->train.upload_cmd);
    free(c->train.metrics);
    free(c->train.csv_path);
    free(c->train.csv_job);
    free(c->document);
    memset(c, 0, sizeof *c);
}
