/* SPDX-License-Identifier: Apache-2.0 */
/* Normalizer and pre-tokenizer: what happens to a text before the model gets its words. */
#include "base/utf8.h"
#include "worker_runtime/data/tokenizer/pattern.h"
#include "worker_runtime/data/tokenizer/read.h"

#include <cjson/cJSON.h>

/* How GPT-2 cuts: ByteLevel's own pattern. */
#define GPT2_PATTERN                                                                               \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define MARK "\xe2\x96\x81" /* U+2581, for a blank */
/* Before each of them that follows something else. */
#define MARK_PATTERN MARK "+[^" MARK "]*|[^" MARK "]+"

typedef int read_fn(struct dt_reading *r, const struct cJSON *node);

struct kind {
    const char *type;
    read_fn *read;
};

/* NODE by its "type": an unknown one is refused, as it would change tokens. */
static int read_kind(struct dt_reading *r, const struct cJSON *node, const struct kind *kinds)
{
    const char *type;
    if (dt_json_string(&r->doc, node, "type", &type, r->err) < 0)
        return -1;
    for (const struct kind *k = kinds; k->type; k++)
        if (strcmp(k->type, type) == 0)
            return k->read(r, node);
    return dt_read_refuse(r, node, "\"%.40s\" is not known here", type);
}

static int read_each(struct dt_reading *r, const struct cJSON *node, const char *name,
                     read_fn *read)
{
    const struct cJSON *list;
    if (dt_json_array(&r->doc, node, name, &list, r->err) < 0)
        return -1;
    for (const struct cJSON *one = dt_json_first(list); one; one = dt_json_next(one))
        if (read(r, one) < 0)
            return -1;
    return 0;
}

/* -- steps ------------------------------------------------------------------------------------ */

static int add_split(struct dt_reading *r, const struct cJSON *node, struct dt_pattern *pattern,
                     enum dt_split_behavior behavior, bool invert)
{
    if (!pattern)
        return dt_read_refuse(r, node, "%s", r->err ? r->err->text : "its pattern");
    return dt_read_add_step(
        r, (struct dt_step){
               .kind = DT_STEP_SPLIT, .pattern = pattern, .behavior = behavior, .invert = invert});
}

static int add_text(struct dt_reading *r, struct dt_step step, const char *text)
{
    step.text = dt_read_copy(r, text);
    if (step.text)
        return dt_read_add_step(r, step);
    dt_step_finish(&step);
    return -1;
}

static int add_replace(struct dt_reading *r, const struct cJSON *node, struct dt_pattern *pattern,
                       const char *text)
{
    if (!pattern)
        return dt_read_refuse(r, node, "%s", r->err ? r->err->text : "its pattern");
    return add_text(
        r,
        (struct dt_step){.kind = DT_STEP_SPLIT, .behavior = DT_SPLIT_REPLACE, .pattern = pattern},
        text);
}

/* The pattern of NODE: {"String": ...} or {"Regex": ...}. NULL and the error. */
static struct dt_pattern *read_pattern(struct dt_reading *r, const struct cJSON *node)
{
    const struct cJSON *pattern;
    const char *text;
    if (dt_json_object(&r->doc, node, "pattern", &pattern, r->err) < 0)
        return NULL;
    bool plain = dt_json_has(pattern, "String");
    if (dt_json_string(&r->doc, pattern, plain ? "String" : "Regex", &text, r->err) < 0)
        return NULL;
    if (*text)
        return plain ? dt_pattern_literal(text, r->err) : dt_pattern_regex(text, r->err);
    dt_err_set(r->err, DT_E_USAGE, "its pattern is empty");
    return NULL;
}

/* -- normalizers ------------------------------------------------------------------------------ */

static int read_prepend(struct dt_reading *r, const struct cJSON *node)
{
    const char *text;
    if (dt_json_string(&r->doc, node, "prepend", &text, r->err) < 0)
        return -1;
    return add_text(r, (struct dt_step){.kind = DT_STEP_PREPEND, .where = DT_PREPEND_ALWAYS}, text);
}

static int read_replace(struct dt_reading *r, const struct cJSON *node)
{
    const char *text;
    if (dt_json_string(&r->doc, node, "content", &text, r->err) < 0)
        return -1;
    return add_replace(r, node, read_pattern(r, node), text);
}

static int read_nfc(struct dt_reading *r, const struct cJSON *node)
{
    (void)node;
    return dt_read_add_step(r, (struct dt_step){.kind = DT_STEP_NFC});
}

static int read_normalizer(struct dt_reading *r, const struct cJSON *node);

static int read_normalizers(struct dt_reading *r, const struct cJSON *node)
{
    return read_each(r, node, "normalizers", read_normalizer);
}

static int read_normalizer(struct dt_reading *r, const struct cJSON *node)
{
    static const struct kind kinds[] = {{"Sequence", read_normalizers},
                                        {"Prepend", read_prepend},
                                        {"Replace", read_replace},
                                        {"NFC", read_nfc},
                                        {NULL, NULL}};
    return read_kind(r, node, kinds);
}

/* -- pre-tokenizers --------------------------------------------------------------------------- */

static int read_behavior(struct dt_reading *r, const struct cJSON *node,
                         enum dt_split_behavior *behavior)
{
    static const char *const names[] = {
        [DT_SPLIT_ISOLATED] = "Isolated",           [DT_SPLIT_REMOVED] = "Removed",
        [DT_SPLIT_PREVIOUS] = "MergedWithPrevious", [DT_SPLIT_NEXT] = "MergedWithNext",
        [DT_SPLIT_CONTIGUOUS] = "Contiguous",
    };
    const char *name;
    if (dt_json_string(&r->doc, node, "behavior", &name, r->err) < 0)
        return -1;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], name) == 0) {
            *behavior = (enum dt_split_behavior)i;
            return 0;
        }
    return dt_read_refuse(r, node, "behavior \"%.40s\" is not known here", name);
}

static int read_split(struct dt_reading *r, const struct cJSON *node)
{
    enum dt_split_behavior behavior = DT_SPLIT_ISOLATED;
    bool invert = false;
    if (read_behavior(r, node, &behavior) < 0 || dt_read_flag(r, node, "invert", &invert) < 0)
        return -1;
    return add_split(r, node, read_pattern(r, node), behavior, invert);
}

static int read_digits(struct dt_reading *r, const struct cJSON *node)
{
    bool each = false;
    if (dt_read_flag(r, node, "individual_digits", &each) < 0)
        return -1;
    return add_split(r, node, dt_pattern_regex(each ? "\\p{N}" : "\\p{N}+", r->err),
                     DT_SPLIT_ISOLATED, false);
}

static int read_byte_level(struct dt_reading *r, const struct cJSON *node)
{
    bool prefix = true, own_pattern = true;
    struct dt_step step = {.kind = DT_STEP_PREPEND, .where = DT_PREPEND_UNLESS_THERE};
    r->in_bytes = true;
    if (dt_read_flag(r, node, "add_prefix_space", &prefix) < 0 ||
        dt_read_flag(r, node, "use_regex", &own_pattern) < 0)
        return -1;
    if (prefix && add_text(r, step, " ") < 0)
        return -1;
    if (!own_pattern)
        return 0;
    return add_split(r, node, dt_pattern_regex(GPT2_PATTERN, r->err), DT_SPLIT_ISOLATED, false);
}

/* "prepend_scheme", or "add_prefix_space" of old files. *ADDS: whether it adds anything. */
static int read_scheme(struct dt_reading *r, const struct cJSON *node, enum dt_prepend_where *where,
                       bool *adds)
{
    const char *scheme = "always";
    *adds = true;
    if (dt_read_flag(r, node, "add_prefix_space", adds) < 0)
        return -1;
    if (dt_json_has(node, "prepend_scheme") &&
        dt_json_string(&r->doc, node, "prepend_scheme", &scheme, r->err) < 0)
        return -1;
    *where = strcmp(scheme, "first") == 0 ? DT_PREPEND_FIRST : DT_PREPEND_UNLESS_THERE;
    if (strcmp(scheme, "never") == 0)
        *adds = false;
    else if (strcmp(scheme, "first") != 0 && strcmp(scheme, "always") != 0)
        return dt_read_refuse(r, node, "prepend_scheme \"%.40s\" is not known here", scheme);
    return 0;
}

static int read_metaspace(struct dt_reading *r, const struct cJSON *node)
{
    const char *mark = MARK;
    bool split = true, adds;
    struct dt_step step = {.kind = DT_STEP_PREPEND};
    if (dt_json_has(node, "replacement") &&
        dt_json_string(&r->doc, node, "replacement", &mark, r->err) < 0)
        return -1;
    if (!*mark || dt_utf8_len((const uint8_t *)mark, strlen(mark)) != strlen(mark))
        return dt_read_refuse(r, node, "its replacement is not one character");
    if (read_scheme(r, node, &step.where, &adds) < 0 || dt_read_flag(r, node, "split", &split) < 0)
        return -1;
    if (add_replace(r, node, dt_pattern_literal(" ", r->err), mark) < 0)
        return -1;
    if (adds && add_text(r, step, mark) < 0)
        return -1;
    return split ? add_split(r, node, dt_pattern_literal(mark, r->err), DT_SPLIT_NEXT, false) : 0;
}

static int read_pre_tokenizer(struct dt_reading *r, const struct cJSON *node);

static int read_pre_tokenizers(struct dt_reading *r, const struct cJSON *node)
{
    return read_each(r, node, "pretokenizers", read_pre_tokenizer);
}

static int read_pre_tokenizer(struct dt_reading *r, const struct cJSON *node)
{
    static const struct kind kinds[] = {
        {"Sequence", read_pre_tokenizers}, {"Split", read_split},         {"Digits", read_digits},
        {"ByteLevel", read_byte_level},    {"Metaspace", read_metaspace}, {NULL, NULL}};
    if (r->in_bytes)
        return dt_read_refuse(r, node, "nothing can follow ByteLevel here");
    return read_kind(r, node, kinds);
}

static bool has_byte_level(const struct cJSON *node)
{
    const struct cJSON *type = cJSON_GetObjectItemCaseSensitive(node, "type");
    const struct cJSON *list = cJSON_GetObjectItemCaseSensitive(node, "pretokenizers");
    bool found = cJSON_IsString(type) && strcmp(type->valuestring, "ByteLevel") == 0;
    for (const struct cJSON *one = list ? list->child : NULL; one && !found; one = one->next)
        found = has_byte_level(one);
    return found;
}

bool dt_read_is_byte_level(const struct dt_reading *r)
{
    const struct cJSON *node = dt_read_part(r, NULL, "pre_tokenizer");
    return node && has_byte_level(node);
}

/* -- a cut of our own ------------------------------------------------------------------------- */

/* Whether TEXT has something else in front of a mark. */
static bool has_inner_mark(struct dt_bytes text)
{
    const size_t n = strlen(MARK);
    for (size_t i = n; i + n <= text.len; i++)
        if (memcmp(text.at + i, MARK, n) == 0 && memcmp(text.at + i - n, MARK, n) != 0)
            return true;
    return text.len > n && memcmp(text.at, MARK, n) != 0 && memmem(text.at, text.len, MARK, n);
}

/* Models of SentencePiece have no cuts: a whole text is a word. Where no token has a mark behind
 * something else, no merge reaches over such a place, and a cut there changes nothing; words are
 * then short. */
static int add_mark_cut(struct dt_reading *r)
{
    const struct dt_bpe *b = &r->tokenizer->bpe;
    if (b->byte_level || b->whole_words_first || dt_vocab_find(&b->words, dt_bytes_of(MARK)) < 0)
        return 0;
    for (uint32_t id = 0; id < b->words.limit; id++)
        if (has_inner_mark(dt_vocab_text(&b->words, id)))
            return 0;
    return add_split(r, NULL, dt_pattern_regex(MARK_PATTERN, r->err), DT_SPLIT_ISOLATED, false);
}

int dt_read_steps(struct dt_reading *r)
{
    const struct cJSON *normalizer = dt_read_part(r, NULL, "normalizer");
    const struct cJSON *pre_tokenizer = dt_read_part(r, NULL, "pre_tokenizer");
    if (dt_read_added_step(r, false, 0) < 0)
        return -1;
    int first = r->tokenizer->step_count;
    if (normalizer && read_normalizer(r, normalizer) < 0)
        return -1;
    if (dt_read_added_step(r, true, first) < 0)
        return -1;
    if (pre_tokenizer && read_pre_tokenizer(r, pre_tokenizer) < 0)
        return -1;
    return add_mark_cut(r);
}
