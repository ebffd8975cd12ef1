/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/data/tokenizer/pattern.h"

#include "worker_runtime/data/tokenizer/onig.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>

/* A pattern of a file must neither run for ever nor take all memory. Real ones need some dozens of
 * steps a match; a match of a million characters needs as many. */
#define STEPS_MAX 100000000u
#define MATCH_KIB_MAX (256u << 10)
#define STACK_FIRST ((size_t)32 << 10)
#define STACK_MAX ((size_t)1 << 20)

/* PCRE2's types are named pcre2_code, and of a struct that its width decides. */
struct dt_pattern {
    pcre2_code *code;
};

struct dt_matcher {
    const pcre2_code *code;
    pcre2_match_data *data;
    pcre2_match_context *limits;
    pcre2_jit_stack *stack;
};

/* The compiler of PCRE2 says where and why. Without JIT, as on a kernel that forbids to write
 * instructions, the pattern still matches, at a quarter of the speed. */
static struct dt_pattern *compile(struct dt_bytes text, uint32_t options, struct dt_err *err)
{
    int code;
    size_t at;
    struct dt_pattern *p = calloc(1, sizeof *p);
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    if (!p || !context) {
        pcre2_compile_context_free(context);
        free(p);
        dt_err_set(err, DT_E_MEMORY, "no memory for a pattern");
        return NULL;
    }
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    p->code = pcre2_compile(text.at, text.len, options | PCRE2_UTF, &code, &at, context);
    pcre2_compile_context_free(context);
    if (!p->code) {
        PCRE2_UCHAR why[128] = "";
        pcre2_get_error_message(code, why, sizeof why);
        dt_err_set(err, DT_E_USAGE, "its pattern cannot be read: %s, behind %zu bytes",
                   (const char *)why, at);
        dt_pattern_destroy(p);
        return NULL;
    }
    pcre2_jit_compile(p->code, PCRE2_JIT_COMPLETE | PCRE2_JIT_PARTIAL_HARD);
    return p;
}

struct dt_pattern *dt_pattern_regex(const char *text, struct dt_err *err)
{
    struct dt_buf ours = {0};
    struct dt_pattern *p = NULL;
    uint32_t matches_nothing = 0;
    if (dt_onig_translate(text, &ours, err) == 0)
        p = compile((struct dt_bytes){ours.at, ours.len}, PCRE2_UCP, err);
    dt_buf_finish(&ours);
    if (p)
        pcre2_pattern_info(p->code, PCRE2_INFO_MATCHEMPTY, &matches_nothing);
    if (matches_nothing) {
        dt_pattern_destroy(p);
        dt_err_set(err, DT_E_USAGE, "its pattern also matches where nothing is: %.200s", text);
        return NULL;
    }
    return p;
}

struct dt_pattern *dt_pattern_literal(const char *text, struct dt_err *err)
{
    return compile(dt_bytes_of(text), PCRE2_LITERAL, err);
}

void dt_pattern_destroy(struct dt_pattern *p)
{
    if (p)
        pcre2_code_free(p->code);
    free(p);
}

struct dt_matcher *dt_matcher_create(const struct dt_pattern *p, struct dt_err *err)
{
    struct dt_matcher *m = calloc(1, sizeof *m);
    if (m) {
        m->code = p->code;
        m->data = pcre2_match_data_create(1, NULL);
        m->limits = pcre2_match_context_create(NULL);
        m->stack = pcre2_jit_stack_create(STACK_FIRST, STACK_MAX, NULL);
    }
    if (!m || !m->data || !m->limits) {
        dt_matcher_destroy(m);
        dt_err_set(err, DT_E_MEMORY, "no memory for a pattern");
        return NULL;
    }
    pcre2_set_match_limit(m->limits, STEPS_MAX);
    pcre2_set_depth_limit(m->limits, STEPS_MAX);
    pcre2_set_heap_limit(m->limits, MATCH_KIB_MAX);
    if (m->stack) /* none where JIT is not there */
        pcre2_jit_stack_assign(m->limits, NULL, m->stack);
    return m;
}

void dt_matcher_destroy(struct dt_matcher *m)
{
    if (!m)
        return;
    pcre2_jit_stack_free(m->stack);
    pcre2_match_context_free(m->limits);
    pcre2_match_data_free(m->data);
    free(m);
}

enum dt_match dt_matcher_find(struct dt_matcher *m, struct dt_bytes text, size_t from, bool end,
                              size_t *first, size_t *behind, struct dt_err *err)
{
    uint32_t options = PCRE2_NO_UTF_CHECK | (end ? 0 : PCRE2_PARTIAL_HARD);
    int rc = pcre2_match(m->code, text.at, text.len, from, options, m->data, m->limits);
    const size_t *at = pcre2_get_ovector_pointer(m->data);
    *first = at[0];
    *behind = at[1];
    if (rc >= 0)
        return DT_MATCH_FOUND;
    if (rc == PCRE2_ERROR_NOMATCH)
        return DT_MATCH_NONE;
    if (rc == PCRE2_ERROR_PARTIAL)
        return DT_MATCH_MORE;
    PCRE2_UCHAR why[128] = "";
    pcre2_get_error_message(rc, why, sizeof why);
    dt_err_set(err, DT_E_RUNTIME, "the pattern that cuts the text gave up: %s", (const char *)why);
    return DT_MATCH_FAILED;
}
