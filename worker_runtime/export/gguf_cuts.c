/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/export/gguf_cuts.h"

#include "base/json.h"

#include <cjson/cJSON.h>
#include <string.h>

#define ROWS(t) (sizeof(t) / sizeof *(t))

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"
#define REST "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

/* Names of llama.cpp for patterns, which it has as code. */
static const struct {
    const char *pattern, *name;
} cuts[] = {
    {CONTRACTIONS "\\p{N}{1,3}" REST, "llama-bpe"},
    {CONTRACTIONS "\\p{N}" REST, "qwen2"},
    {"[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+|"
     "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*|"
     "\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
     "tekken"},
};

struct cutting {
    const char *pattern; /* of the one Split; NULL: none */
    bool digits;         /* each alone */
    bool byte_level;     /* by the pattern that belongs to it */
    int others;          /* steps that are none of these */
};

static bool is_type(const struct cJSON *step, const char *type)
{
    const struct cJSON *t = cJSON_GetObjectItemCaseSensitive(step, "type");
    return cJSON_IsString(t) && strcmp(t->valuestring, type) == 0;
}

static void look_at(struct cutting *c, const struct cJSON *step)
{
    const struct cJSON *pattern = cJSON_GetObjectItemCaseSensitive(step, "pattern");
    const struct cJSON *regex = cJSON_GetObjectItemCaseSensitive(pattern, "Regex");
    if (is_type(step, "Split") && cJSON_IsString(regex) && !c->pattern)
        c->pattern = regex->valuestring;
    else if (is_type(step, "Digits"))
        c->digits = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(step, "individual_digits"));
    else if (is_type(step, "ByteLevel"))
        c->byte_level = !cJSON_IsFalse(cJSON_GetObjectItemCaseSensitive(step, "use_regex"));
    else
        c->others++;
}

static const char *name_of(const struct cutting *c)
{
    if (c->others || (c->pattern && (c->digits || c->byte_level)))
        return NULL;
    if (!c->pattern)
        return !c->byte_level ? NULL : c->digits ? "smollm" : "gpt-2";
    for (size_t i = 0; i < ROWS(cuts); i++)
        if (strcmp(cuts[i].pattern, c->pattern) == 0)
            return cuts[i].name;
    return NULL;
}

const char *dt_gguf_cuts_name(const struct cJSON *file)
{
    const struct cJSON *p = cJSON_GetObjectItemCaseSensitive(file, "pre_tokenizer");
    struct cutting c = {0};
    if (!is_type(p, "Sequence")) {
        look_at(&c, p);
        return name_of(&c);
    }
    const struct cJSON *steps = cJSON_GetObjectItemCaseSensitive(p, "pretokenizers");
    for (const struct cJSON *s = steps ? dt_json_first(steps) : NULL; s; s = dt_json_next(s))
        look_at(&c, s);
    return name_of(&c);
}
