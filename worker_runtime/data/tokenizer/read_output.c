/* SPDX-License-Identifier: Apache-2.0 */
/* Post-processor and decoder: the tokens around a text, and the way back. */
#include "worker_runtime/data/tokenizer/read.h"

#include <cjson/cJSON.h>

#define AROUND_MAX 64

/* -- post-processor --------------------------------------------------------------------------- */

static int put_special(struct dt_reading *r, const struct cJSON *node, const struct cJSON *special,
                       struct dt_ids *to)
{
    const char *name;
    const struct cJSON *known, *one, *ids;
    if (dt_json_string(&r->doc, special, "id", &name, r->err) < 0 ||
        dt_json_object(&r->doc, node, "special_tokens", &known, r->err) < 0 ||
        dt_json_object(&r->doc, known, name, &one, r->err) < 0 ||
        dt_json_array(&r->doc, one, "ids", &ids, r->err) < 0)
        return -1;
    for (const struct cJSON *id = dt_json_first(ids); id; id = dt_json_next(id)) {
        double value = cJSON_IsNumber(id) ? id->valuedouble : -1;
        bool in_range = value >= 0 && value < dt_tokenizer_vocabulary(r->tokenizer);
        uint32_t token = in_range ? (uint32_t)value : DT_TOKEN_NONE;
        if (token != value || !dt_vocab_has(&r->tokenizer->texts, token))
            return dt_read_refuse(r, id, "it is no token");
        if (to->len == AROUND_MAX)
            return dt_read_refuse(r, node, "more than %d tokens around a text", AROUND_MAX);
        dt_ids_put(to, &token, 1);
    }
    return to->bad ? dt_err_set(r->err, DT_E_MEMORY, "no memory for a tokenizer") : 0;
}

static int read_template(struct dt_reading *r, const struct cJSON *node)
{
    struct dt_tokenizer *t = r->tokenizer;
    const struct cJSON *single;
    int texts = 0, parts = 0;
    if (t->front.len || t->back.len)
        return dt_read_refuse(r, node, "a second one is not done here");
    if (dt_json_array(&r->doc, node, "single", &single, r->err) < 0)
        return -1;
    for (const struct cJSON *one = dt_json_first(single); one; one = dt_json_next(one)) {
        const struct cJSON *special = dt_read_part(r, one, "SpecialToken");
        if (++parts > AROUND_MAX)
            return dt_read_refuse(r, single, "more than %d parts", AROUND_MAX);
        texts += dt_json_has(one, "Sequence");
        if (special && put_special(r, node, special, texts ? &t->back : &t->front) < 0)
            return -1;
    }
    return texts == 1 ? 0 : dt_read_refuse(r, single, "it has %d texts; one is known here", texts);
}

static int read_post_processor(struct dt_reading *r, const struct cJSON *node)
{
    const char *type;
    const struct cJSON *list;
    if (dt_json_string(&r->doc, node, "type", &type, r->err) < 0)
        return -1;
    if (strcmp(type, "ByteLevel") == 0) /* it is about places in the text, and no token changes */
        return 0;
    if (strcmp(type, "TemplateProcessing") == 0)
        return read_template(r, node);
    if (strcmp(type, "Sequence") != 0)
        return dt_read_refuse(r, node, "\"%.40s\" is not known here", type);
    if (dt_json_array(&r->doc, node, "processors", &list, r->err) < 0)
        return -1;
    for (const struct cJSON *one = dt_json_first(list); one; one = dt_json_next(one))
        if (read_post_processor(r, one) < 0)
            return -1;
    return 0;
}

int dt_read_post_processor(struct dt_reading *r)
{
    const struct cJSON *node = dt_read_part(r, NULL, "post_processor");
    return node ? read_post_processor(r, node) : 0;
}

/* -- decoder ---------------------------------------------------------------------------------- */

/* What was read before: the steps of struct dt_decoding have one order. */
enum stage { REPLACED, FELL_BACK, FUSED, STRIPPED };

/* Replacements one behind the other multiply: the greatest token is a piece at most. */
static int check_growth(struct dt_reading *r, const struct cJSON *node, size_t from, size_t to)
{
    r->growth *= to > from ? (to + from - 1) / from : 1;
    if (r->growth <= DT_GROWTH_MAX)
        return 0;
    return dt_read_refuse(r, node, "the decoder makes more than %zu bytes of one", DT_GROWTH_MAX);
}

static int read_replace(struct dt_reading *r, const struct cJSON *node)
{
    struct dt_decoding *d = &r->tokenizer->decoding;
    const struct cJSON *pattern;
    const char *from, *to;
    if (dt_json_object(&r->doc, node, "pattern", &pattern, r->err) < 0 ||
        dt_json_string(&r->doc, pattern, "String", &from, r->err) < 0 ||
        dt_json_string(&r->doc, node, "content", &to, r->err) < 0)
        return -1;
    if (!*from || d->replacement_count == DT_REPLACEMENTS_MAX)
        return dt_read_refuse(r, node, "an empty pattern, or more than %d", DT_REPLACEMENTS_MAX);
    if (check_growth(r, node, strlen(from), strlen(to)) < 0)
        return -1;
    struct dt_replacement *new = &d->replacements[d->replacement_count++];
    new->from = dt_read_copy(r, from);
    new->to = dt_read_copy(r, to);
    return new->from &&new->to ? 0 : -1;
}

static int read_strip(struct dt_reading *r, const struct cJSON *node)
{
    struct dt_decoding *d = &r->tokenizer->decoding;
    const char *content;
    int64_t start, stop;
    if (dt_json_string(&r->doc, node, "content", &content, r->err) < 0 ||
        dt_json_int(&r->doc, node, "start", 0, 1000, &start, r->err) < 0 ||
        dt_json_int(&r->doc, node, "stop", 0, 0, &stop, r->err) < 0)
        return -1;
    d->strip_most = (size_t)start;
    d->strip = dt_read_copy(r, content);
    return d->strip ? 0 : -1;
}

static int read_metaspace(struct dt_reading *r, const struct cJSON *node)
{
    struct dt_decoding *d = &r->tokenizer->decoding;
    const char *mark = "\xe2\x96\x81", *scheme = "always";
    d->metaspace_drop = true;
    if (dt_json_has(node, "replacement") &&
        dt_json_string(&r->doc, node, "replacement", &mark, r->err) < 0)
        return -1;
    if (dt_json_has(node, "prepend_scheme") &&
        dt_json_string(&r->doc, node, "prepend_scheme", &scheme, r->err) < 0)
        return -1;
    if (!*mark || d->metaspace)
        return dt_read_refuse(r, node, "an empty replacement, or a second one");
    if (dt_read_flag(r, node, "add_prefix_space", &d->metaspace_drop) < 0)
        return -1;
    if (strcmp(scheme, "never") == 0)
        d->metaspace_drop = false;
    d->metaspace = dt_read_copy(r, mark);
    return d->metaspace ? 0 : -1;
}

/* One decoder, behind what stands in *AT. */
static int read_one(struct dt_reading *r, const struct cJSON *node, enum stage *at)
{
    static const struct {
        const char *type;
        enum stage after, to; /* what may have been before, at most; what is now */
        int (*read)(struct dt_reading *r, const struct cJSON *node);
    } kinds[] = {
        {"Replace", REPLACED, REPLACED, read_replace},
        {"Metaspace", REPLACED, REPLACED, read_metaspace},
        {"ByteFallback", REPLACED, FELL_BACK, NULL},
        {"Fuse", FUSED, FUSED, NULL},
        {"Strip", FUSED, STRIPPED, read_strip},
    };
    const char *type;
    if (dt_json_string(&r->doc, node, "type", &type, r->err) < 0)
        return -1;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(type, kinds[i].type) != 0 || *at > kinds[i].after)
            continue;
        if (kinds[i].read == read_strip && *at != FUSED)
            break;
        if (kinds[i].to == FELL_BACK)
            r->tokenizer->decoding.byte_fallback = true;
        *at = kinds[i].to;
        return kinds[i].read ? kinds[i].read(r, node) : 0;
    }
    return dt_read_refuse(r, node, "\"%.40s\" is not known here, or not at this place", type);
}

static int read_decoders(struct dt_reading *r, const struct cJSON *node)
{
    const struct cJSON *list;
    enum stage at = REPLACED;
    if (dt_json_array(&r->doc, node, "decoders", &list, r->err) < 0)
        return -1;
    for (const struct cJSON *one = dt_json_first(list); one; one = dt_json_next(one))
        if (read_one(r, one, &at) < 0)
            return -1;
    return 0;
}

int dt_read_decoder(struct dt_reading *r)
{
    struct dt_decoding *d = &r->tokenizer->decoding;
    const struct cJSON *node = dt_read_part(r, NULL, "decoder");
    const char *type;
    d->joined = node != NULL;
    if (!node)
        return 0;
    if (dt_json_string(&r->doc, node, "type", &type, r->err) < 0)
        return -1;
    d->byte_level = strcmp(type, "ByteLevel") == 0;
    if (d->byte_level)
        return 0;
    if (strcmp(type, "Sequence") == 0)
        return read_decoders(r, node);
    return read_one(r, node, &(enum stage){REPLACED});
}
