/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks and alphas of single layers, by patterns as peft has them: a layer at PATH is meant by KEY
 * where Python's re.match(rf"(.*\.)?({KEY})$", PATH) finds something. */
#include "worker_runtime/model/lora.h"

#include <assert.h>
#include <cjson/cJSON.h>
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PATTERNS_MOST = 4096, PATTERN_MOST = 256, GROUPS_MOST = 4 };
enum { IN_BLOCK = DT_BLOCK_TENSORS_MOST };

/* -- a pattern -------------------------------------------------------------------------------- */

static int refuse_pattern(const char *key, struct dt_err *err)
{
    return dt_err_set(err, DT_E_USAGE,
                      "\"%.80s\" is no name of layers, and of regular expressions only those of at "
                      "most %d characters, with groups at most %d deep and with . [] () | * + ? ^ "
                      "$ \\d \\w \\. are taken here",
                      key, PATTERN_MOST, GROUPS_MOST);
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

/* -- an expression ---------------------------------------------------------------------------- */

/* Files of strangers have expressions, and regcomp() takes any time and memory for "((a+)+)+". Here
 * an expression is gone through with all places of the path at once where it may be by then, so
 * that nothing is tried twice: a bit for each place, of which the last is the path's end. */
typedef uint64_t places;

enum { PATH_MOST = 63 };

struct walk {
    const char *at; /* of the expression */
    const char *path;
    size_t n;
    int depth;
    bool bad;
};

struct class
{
    bool has[128];
};

static void add_range(struct class *class, int from, int to)
{
    for (int c = from; c <= to; c++)
        class->has[c] = true;
}

static places refuse_walk(struct walk *w)
{
    w->bad = true;
    return 0;
}

/* Whoever is before a character of CLASS is then behind it. */
static places step(const struct walk *w, places from, const struct class *class)
{
    places to = 0;
    for (size_t i = 0; i < w->n; i++)
        if (from >> i & 1 && class->has[w->path[i] & 127])
            to |= (places)1 << (i + 1);
    return to;
}

/* What a backslash makes of the character behind it: that one, or some. How many, 0 if that is not
 * known here. */
static int take_escaped(struct walk *w, struct class *class)
{
    char c = *w->at;
    if (!c || !strchr("dw.-()[]*+?$|^", c))
        return 0;
    w->at++;
    if (c != 'd' && c != 'w') {
        add_range(class, c, c);
        return 1;
    }
    add_range(class, '0', '9');
    if (c == 'd')
        return 10;
    add_range(class, 'A', 'Z');
    add_range(class, 'a', 'z');
    add_range(class, '_', '_');
    return 63;
}

/* A character in brackets, a range of them, or a class. */
static bool take_member(struct walk *w, struct class *class)
{
    char from = *w->at++;
    int count = 1;
    if (from == '\\') {
        from = *w->at;
        count = take_escaped(w, class);
    } else if (is_literal(from)) {
        add_range(class, from, from);
    } else {
        return false;
    }
    if (count == 0 || *w->at != '-' || w->at[1] == ']')
        return count > 0;
    char to = w->at[1];
    if (count > 1 || !isalnum((unsigned char)to) || to < from)
        return false;
    add_range(class, from, to);
    w->at += 2;
    return true;
}

/* Behind a "[". */
static places take_brackets(struct walk *w, places from)
{
    struct class class = {0};
    bool others = *w->at == '^';
    w->at += others;
    do {
        if (!*w->at || !take_member(w, &class))
            return refuse_walk(w);
    } while (*w->at != ']');
    w->at++;
    for (size_t c = 0; others && c < sizeof class.has; c++)
        class.has[c] = !class.has[c];
    return step(w, from, &class);
}

static places take_alternatives(struct walk *w, places from);

/* Behind a "(". */
static places take_group(struct walk *w, places from)
{
    if (strncmp(w->at, "?:", 2) == 0)
        w->at += 2;
    if (w->depth == GROUPS_MOST)
        return refuse_walk(w);
    w->depth++;
    places to = take_alternatives(w, from);
    w->depth--;
    if (w->bad || *w->at != ')')
        return refuse_walk(w);
    w->at++;
    return to;
}

static places take_one(struct walk *w, places from)
{
    struct class class = {0};
    char c = *w->at++;
    if (c == '(')
        return take_group(w, from);
    if (c == '[')
        return take_brackets(w, from);
    if (c == '^')
        return from & 1;
    if (c == '$')
        return from & (places)1 << w->n;
    if (c == '.')
        add_range(&class, 0, 127);
    else if (is_literal(c))
        add_range(&class, c, c);
    else if (c != '\\' || take_escaped(w, &class) == 0)
        return refuse_walk(w);
    return step(w, from, &class);
}

static bool is_quantifier(char c)
{
    return c && strchr("*+?", c);
}

/* One, and how often. Whether a match is the longest or the shortest is all one here, so that a
 * quantifier's '?' says nothing. */
static places take_repeated(struct walk *w, places from)
{
    const char *one = w->at;
    places once = take_one(w, from);
    char q = *w->at;
    if (w->bad || !is_quantifier(q))
        return once;
    const char *behind = w->at + (w->at[1] == '?' ? 2 : 1);
    if (*one == '^' || *one == '$' || is_quantifier(*behind))
        return refuse_walk(w);
    places all = q == '+' ? once : from | once;
    places fresh = q == '+' ? once : once & ~from;
    while (q != '?' && fresh) {
        w->at = one;
        fresh = take_one(w, fresh) & ~all;
        all |= fresh;
    }
    w->at = behind;
    return all;
}

static places take_alternatives(struct walk *w, places from)
{
    places all = 0;
    for (;; w->at++) {
        places here = from;
        while (!w->bad && *w->at && !strchr("|)", *w->at))
            here = take_repeated(w, here);
        all |= here;
        if (w->bad || *w->at != '|')
            return all;
    }
}

/* 1: KEY means PATH; 0: it does not; -1: KEY is no expression of ours. */
static int walk(const char *key, const char *path)
{
    struct walk w = {.at = key, .path = path, .n = strlen(path)};
    places from = 1;
    assert(w.n <= PATH_MOST);
    for (size_t i = 0; i < w.n; i++)
        if (path[i] == '.')
            from |= (places)1 << (i + 1);
    places to = take_alternatives(&w, from);
    return w.bad || *w.at ? -1 : (int)(to >> w.n & 1);
}

/* -- whom a pattern means --------------------------------------------------------------------- */

static int check_pattern(const char *key, struct dt_err *err)
{
    bool is_ours = is_plain(key) || (*key && strlen(key) <= PATTERN_MOST && walk(key, "") >= 0);
    return is_ours ? 0 : refuse_pattern(key, err);
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

static bool means(const char *key, const char *path)
{
    return is_plain(key) ? ends_with(path, key) : walk(key, path) == 1;
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
static size_t give(struct giving *g, const char *key, double number)
{
    char path[DT_LORA_PATH_MOST];
    size_t meant = 0;
    for (size_t block = 0; block < g->shape->layers; block++)
        for (size_t i = 0; i < g->count; i++) {
            size_t at = block * IN_BLOCK + g->layers[i].which;
            dt_lora_path(&g->layers[i], block, path);
            if (!means(key, path))
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
        double number;
        if (++patterns > PATTERNS_MOST)
            return dt_err_set(err, DT_E_USAGE, "there are more than %d patterns", PATTERNS_MOST);
        if (read_number(c, g->alphas, &number, err) < 0 || check_pattern(c->string, err) < 0)
            return -1;
        size_t meant = give(g, c->string, number);
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
