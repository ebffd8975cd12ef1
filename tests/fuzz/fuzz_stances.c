/* SPDX-License-Identifier: Apache-2.0 */
/* What an agent says its workers do: bounded, written again the same, and judged in a sentence that
 * can be shown. The first two bytes are the size of the world. */
#include "base/utf8.h"
#include "rendezvous/hang/judge.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

#define MOST (64u << 10)

static void check_text(const char *text, size_t size)
{
    size_t len = strnlen(text, size);
    FUZZ_CHECK(len < size);
    for (size_t i = 0, n; i < len; i += n) {
        n = dt_utf8_len((const uint8_t *)text + i, len - i);
        FUZZ_CHECK(n > 0 && !dt_utf8_steers((const uint8_t *)text + i, n));
    }
}

static void check_group(const struct dt_stance_group *g)
{
    const struct dt_stance *s = &g->stance;
    char words[64];
    int ranks = 0;
    FUZZ_CHECK(g->len > 0);
    for (size_t i = 0; i < g->len; i++) {
        FUZZ_CHECK(g->ranges[i].first <= g->ranges[i].last);
        FUZZ_CHECK(i == 0 || g->ranges[i - 1].last + 1 < g->ranges[i].first);
        ranks += g->ranges[i].last - g->ranges[i].first + 1;
    }
    FUZZ_CHECK(ranks == g->ranks);
    check_text(dt_stance_ranks(g, words, sizeof words), sizeof words);
    check_text(s->where, sizeof s->where);
    check_text(s->function, sizeof s->function);
    check_text(s->object, sizeof s->object);
    check_text(s->detail, sizeof s->detail);
}

static bool overlap(const struct dt_stance_group *a, const struct dt_stance_group *b)
{
    for (size_t i = 0; i < a->len; i++)
        for (size_t k = 0; k < b->len; k++)
            if (a->ranges[i].first <= b->ranges[k].last && b->ranges[k].first <= a->ranges[i].last)
                return true;
    return false;
}

static void check_stances(const struct dt_stances *s)
{
    FUZZ_CHECK(s->len <= DT_STANCES_ALL_MAX);
    for (size_t i = 0; i < s->len; i++) {
        check_group(&s->at[i]);
        FUZZ_CHECK(i == 0 || s->at[i - 1].ranges[0].first < s->at[i].ranges[0].first);
        for (size_t k = 0; k < i; k++)
            FUZZ_CHECK(!overlap(&s->at[i], &s->at[k]));
    }
}

static void put(const struct dt_stances *s, struct dt_buf *out)
{
    struct dt_json_writer w = {.out = out};
    dt_json_put_object(&w, NULL);
    dt_stances_put_json(s, "stances", &w);
    dt_json_put_end(&w);
}

/* -1: it is refused. */
static int get(struct dt_stances *s, const void *text, size_t len)
{
    struct dt_json doc;
    struct dt_err err = {0};
    const struct cJSON *at;
    int rc = dt_json_parse(&doc, text, len, MOST, &err);
    if (rc == 0)
        rc = dt_json_array(&doc, NULL, "stances", &at, &err);
    if (rc == 0)
        rc = dt_stances_get_json(s, &doc, at, &err);
    FUZZ_CHECK(rc == 0 || *err.text);
    dt_json_finish(&doc);
    return rc;
}

static void check_again(const struct dt_stances *s)
{
    struct dt_buf once = {0}, twice = {0};
    struct dt_stances again = {0};
    put(s, &once);
    if (once.len <= MOST) {
        FUZZ_CHECK(get(&again, once.at, once.len) == 0);
        put(&again, &twice);
        FUZZ_CHECK(once.len == twice.len && memcmp(once.at, twice.at, once.len) == 0);
    }
    dt_stances_finish(&again);
    dt_buf_finish(&once);
    dt_buf_finish(&twice);
}

static void check_finding(const struct dt_stances *s, int size)
{
    struct dt_hang_finding f;
    dt_hang_judge(s, size, 2000, &f);
    FUZZ_CHECK(f.class < DT_HANG_CLASSES);
    FUZZ_CHECK(f.culprit >= -1 && f.culprit < (int)s->len);
    FUZZ_CHECK(f.waiting >= -1 && f.waiting < (int)s->len);
    FUZZ_CHECK(!f.guilty || f.culprit >= 0);
    FUZZ_CHECK((f.class == DT_HANG_NONE) == (*f.sentence == '\0'));
    check_text(f.sentence, sizeof f.sentence);
    check_text(f.advice, sizeof f.advice);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dt_stances s = {0};
    if (size < 2)
        return 0;
    int rc = get(&s, data + 2, size - 2);
    check_stances(&s);
    if (rc == 0) {
        check_again(&s);
        check_finding(&s, data[0] | data[1] << 8);
    }
    dt_stances_finish(&s);
    return 0;
}
