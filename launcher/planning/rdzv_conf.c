/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/planning/rdzv_conf.h"

#include "base/str.h"
#include "launcher/number.h"
#include "rendezvous/protocol/spec.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

void dt_rdzv_conf_finish(struct dt_rdzv_conf *c)
{
    free(c->text);
    free(c->at);
    *c = (struct dt_rdzv_conf){0};
}

static int add_pair(struct dt_rdzv_conf *c, char *pair, struct dt_err *err)
{
    char *equals = strchr(pair, '=');
    if (equals)
        *equals = '\0';
    const char *key = dt_str_trim(pair);
    if (!*key)
        return dt_err_set(err, DT_E_RUNTIME, "a pair has no key; write KEY=VALUE,KEY=VALUE");
    const char *value = equals ? dt_str_trim(equals + 1) : "";
    if (!*value)
        return dt_err_set(err, DT_E_RUNTIME, "%s has no value; write %s=VALUE", key, key);
    c->at[c->len++] = (struct dt_rdzv_pair){key, value};
    return 0;
}

int dt_rdzv_conf_parse(const char *text, struct dt_rdzv_conf *out, struct dt_err *err)
{
    struct dt_rdzv_conf c = {.text = strdup(text)};
    size_t most = 1;
    for (const char *s = text; *s; s++)
        most += *s == ',';
    c.at = calloc(most, sizeof *c.at);
    int rc = c.text && c.at ? 0 : dt_err_set(err, DT_E_MEMORY, "no memory");
    char *rest = rc == 0 ? dt_str_trim(c.text) : NULL;
    if (rest && !*rest)
        rest = NULL;
    while (rest && rc == 0)
        rc = add_pair(&c, strsep(&rest, ","), err);
    if (rc < 0)
        dt_rdzv_conf_finish(&c);
    *out = c;
    return rc;
}

const char *dt_rdzv_conf_find(const struct dt_rdzv_conf *c, const char *key)
{
    for (size_t i = c->len; i-- > 0;)
        if (strcmp(c->at[i].key, key) == 0)
            return c->at[i].value;
    return NULL;
}

int dt_rdzv_conf_seconds(const struct dt_rdzv_conf *c, const char *key, dt_ms *out,
                         struct dt_err *err)
{
    const char *value = dt_rdzv_conf_find(c, key);
    int64_t n;
    if (!value)
        return 0;
    if (dt_number_int(value, &n, NULL) < 0 || n <= 0)
        return dt_err_set(err, DT_E_RUNTIME, "%s is \"%s\"; give whole seconds from 1 on", key,
                          value);
    *out = n > DT_FIELD_FOREVER / DT_SECOND ? DT_FOREVER : n * DT_SECOND;
    return 0;
}

int dt_rdzv_conf_bool(const struct dt_rdzv_conf *c, const char *key, bool *out, struct dt_err *err)
{
    static const char *const words[] = {"0", "false", "f", "no", "n", "1", "true", "t", "yes", "y"};
    const char *value = dt_rdzv_conf_find(c, key);
    if (!value)
        return 0;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcasecmp(value, words[i]) == 0) {
            *out = i >= 5;
            return 0;
        }
    }
    return dt_err_set(err, DT_E_RUNTIME, "%s is \"%s\"; give true or false", key, value);
}
