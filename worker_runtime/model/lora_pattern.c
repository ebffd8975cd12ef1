/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks and alphas of single layers, by patterns as peft has them: a layer at PATH is meant by KEY
 * where Python's re.match(rf"(.*\.)?({KEY})$", PATH) finds something. What of Python's expressions
 * means the same to the C library is handed on to that one. */
#include "worker_runtime/model/lora.h"

#include "base/buf.h"

#include <cjson/cJSON.h>
#include <ctype.h>
#include <math.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATTERNS_MOST = 4096, PATTERN_MOST = 256, IN_BLOCK = DT_BLOCK_TENSORS_MOST };

/* -- a pattern -------------------------------------------------------------------------------- */

struct pattern {
    const char *plain; /* a name, which is compared; NULL: an expression */
    regex_t expression;
};

static int refuse_pattern(const char *key, struct dt_err *err)
{
    return dt_err_set(err, DT_E_USAGE,
                      "\"%.80s\" is no name of layers, and of regular expressions only those of at "
                      "most %d characters with . [] () | * + ? ^ $ \\d \\w \\. are taken here",
                      key, PATTERN_MOST);
}

static bool is_literal(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '-' || c == '.';
}

static bool is_plain(const char *key)
{
    const char *c = key;
    while (is_literal(*c))
        c++;
    return c > key && *c == '\0';
}

/* What stands behind a backslash. In brackets a "-" or a "[" could not be told from what they mean
 * there without one. */
static bool put_escaped(struct dt_buf *out, char c, bool in_brackets)
{
    const char *class = c == 'd' ? "0-9" : c == 'w' ? "A-Za-z0-9_" : NULL;
    bool is_itself = in_brackets ? c == '.' : c && strchr(".-()[*+?$|", c);
    if (class)
        dt_buf_printf(out, in_brackets ? "%s" : "[%s]", class);
    else if (is_itself)
        dt_buf_printf(out, in_brackets ? "%c" : "[%c]", c);
    return class || is_itself;
}

/* Whether a match is the longest or the shortest is all one here, so that a quantifier's '?' falls
 * away; a brace, which can ask for much memory, does not pass. */
static bool translate(const char *key, struct dt_buf *out)
{
    bool in_brackets = false;
    enum { NOTHING, SOMETHING, REPEATED } before = NOTHING; /* what a quantifier would repeat */
    for (const char *c = key; *c; c++) {
        bool quantifier = !in_brackets && strchr("*+?", *c);
        if (quantifier && before == REPEATED && *c == '?')
            continue;
        if (quantifier && before != SOMETHING)
            return false;
        if (*c == '\\') {
            if (!put_escaped(out, *++c, in_brackets))
                return false;
        } else if (!in_brackets && strncmp(c, "(?", 2) == 0) {
            if (c[2] != ':')
                return false;
            dt_buf_put_str(out, "(");
            c += 2;
        } else if (is_literal(*c) || *c == '^' || strchr(in_brackets ? "]" : "[()|*+?$", *c)) {
            in_brackets = *c == '[' || (in_brackets && *c != ']');
            dt_buf_put_u8(out, (uint8_t)*c);
        } else {
            return false;
        }
        before = quantifier ? REPEATED : strchr("(|^:", *c) ? NOTHING : SOMETHING;
    }
    return !in_brackets;
}

static int open_pattern(struct pattern *p, const char *key, struct dt_err *err)
{
    struct dt_buf text = {0};
    memset(p, 0, sizeof *p);
    if (is_plain(key)) {
        p->plain = key;
        return 0;
    }
    dt_buf_put_str(&text, "^(.*\\.)?(");
    bool is_ours = *key && strlen(key) <= PATTERN_MOST && translate(key, &text);
    dt_buf_put_str(&text, ")$");
    int rc = is_ours && !text.bad &&
                     regcomp(&p->expression, dt_buf_cstr(&text), REG_EXTENDED | REG_NOSUB) == 0
                 ? 0
                 : refuse_pattern(key, err);
    dt_buf_finish(&text);
    return rc;
}

static void close_pattern(struct pattern *p)
{
    if (!p->plain)
        regfree(&p->expression);
}

/* What PATH ends with, behind a ".": NAME, whose own "." is any character. */
static bool ends_with(const char *path, const char *name)
{
    size_t n = strlen(path), m = strlen(name);
    if (n < m || (n > m && path[n - m - 1] != '.'))
        return false;
    for (size_t i = 0; i < m; i++)
        if (name[i] != '.' && name[i] != path[n - m + i])
            return false;
    return true;
}

static bool means(const struct pattern *p, const char *path)
{
    return p->plain ? ends_with(path, p->plain) : regexec(&p->expression, path, 0, NULL, 0) == 0;
}

/* -- giving ----------------------------------------------------------------------------------- */

static int read_number(const struct cJSON *v, bool alpha, double *number, struct dt_err *err)
{
    *number = cJSON_IsNumber(v) ? v->valuedouble : NAN;
    if (!alpha && !(*number >= 1 && *number <= DT_LORA_RANK_MOST && *number == floor(*number)))
        return dt_err_set(err, DT_E_USAGE, "\"%.80s\": expected a whole number from 1 to %d",
                          v->string, DT_LORA_RANK_MOST);
    if (alpha && !((float)*number > 0 && *number <= DT_LORA_ALPHA_MOST))
        return dt_err_set(err, DT_E_USAGE, "\"%.80s\": expected a number above 0, up to %g",
                          v->string, DT_LORA_ALPHA_MOST);
    return 0;
}

static int own_shares(struct dt_lora *l, const struct dt_shape *s, struct dt_err *err)
{
    if (l->own)
        return 0;
    l->own = calloc(s->layers * IN_BLOCK, sizeof *l->own);
    if (!l->own)
        return dt_err_set(err, DT_E_MEMORY, "no memory for ranks of %zu blocks", s->layers);
    for (size_t i = 0; i < s->layers * IN_BLOCK; i++)
        l->own[i] = (struct dt_lora_share){l->r, l->alpha};
    return 0;
}

struct giving {
    struct dt_lora *lora;
    const struct dt_shape *shape;
    struct dt_lora_layer layers[IN_BLOCK];
    size_t count;
    bool alphas;
    bool *given; /* as lora->own: an earlier pattern has meant it */
};

/* How many layers it means, whether or not it is the first that does. */
static size_t give(struct giving *g, const struct pattern *p, double number)
{
    char path[DT_LORA_PATH_MOST];
    size_t meant = 0;
    for (size_t block = 0; block < g->shape->layers; block++)
        for (size_t i = 0; i < g->count; i++) {
            size_t at = block * IN_BLOCK + g->layers[i].which;
            dt_lora_path(&g->layers[i], block, path);
            if (!means(p, path))
                continue;
            meant++;
            if (g->given[at])
                continue;
            g->given[at] = true;
            if (g->alphas)
                g->lora->own[at].alpha = (float)number;
            else
                g->lora->own[at].r = (size_t)number;
        }
    return meant;
}

static int give_each(struct giving *g, const struct cJSON *v, bool strict, struct dt_err *err)
{
    size_t patterns = 0;
    for (const struct cJSON *c = v->child; c; c = c->next) {
        struct pattern p;
        double number;
        if (++patterns > PATTERNS_MOST)
            return dt_err_set(err, DT_E_USAGE, "there are more than %d patterns", PATTERNS_MOST);
        if (read_number(c, g->alphas, &number, err) < 0 || open_pattern(&p, c->string, err) < 0)
            return -1;
        size_t meant = give(g, &p, number);
        close_pattern(&p);
        if (strict && meant == 0)
            return dt_err_set(err, DT_E_USAGE,
                              "\"%.80s\" means no layer that has an adapter; target_modules says "
                              "which have, and \"%.80s\" is one of them",
                              c->string, g->layers[0].path);
    }
    return 0;
}

int dt_lora_pattern(struct dt_lora *l, const struct dt_shape *s, bool alphas, const struct cJSON *v,
                    bool strict, struct dt_err *err)
{
    struct giving g = {.lora = l, .shape = s, .alphas = alphas};
    if (!cJSON_IsObject(v))
        return dt_err_set(err, DT_E_USAGE,
                          "expected names of layers with numbers, {\"q_proj\": 4}");
    if (dt_lora_layers(l, s, g.layers, &g.count, err) < 0 || own_shares(l, s, err) < 0)
        return -1;
    g.given = calloc(s->layers * IN_BLOCK, sizeof *g.given);
    int rc = g.given ? give_each(&g, v, strict, err)
                     : dt_err_set(err, DT_E_MEMORY, "no memory for patterns");
    free(g.given);
    return rc;
}

/* -- saying ----------------------------------------------------------------------------------- */

static double number_of(const struct dt_lora *l, size_t block, size_t which, bool alphas)
{
    const struct dt_lora_share h = dt_lora_share(l, block, which);
    return alphas ? (double)h.alpha : (double)h.r;
}

static bool differ(double a, double b)
{
    return a < b || a > b;
}

static bool is_alike(const struct dt_lora *l, const struct dt_shape *s, size_t which, bool alphas)
{
    double first = number_of(l, 0, which, alphas);
    for (size_t block = 1; block < s->layers; block++)
        if (differ(number_of(l, block, which, alphas), first))
            return false;
    return true;
}

int dt_lora_each_pattern(const struct dt_lora *l, const struct dt_shape *s, bool alphas,
                         void (*say)(void *arg, const char *pattern, double number), void *arg,
                         struct dt_err *err)
{
    struct dt_lora_layer layers[IN_BLOCK];
    double others = alphas ? (double)l->alpha : (double)l->r;
    size_t count;
    if (!l->own)
        return 0;
    if (dt_lora_layers(l, s, layers, &count, err) < 0)
        return -1;
    for (size_t i = 0; i < count; i++) {
        bool alike = is_alike(l, s, layers[i].which, alphas);
        for (size_t block = 0; block < (alike ? 1 : s->layers); block++) {
            double number = number_of(l, block, layers[i].which, alphas);
            char path[DT_LORA_PATH_MOST];
            dt_lora_path(&layers[i], block, path);
            if (differ(number, others))
                say(arg, alike ? layers[i].name : path, number);
        }
    }
    return 0;
}
