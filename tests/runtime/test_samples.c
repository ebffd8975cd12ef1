/* SPDX-License-Identifier: Apache-2.0 */
/* Documents packed into samples, what is read of them, and files that are mixed. */
#include "tests/lib/folder.h"
#include "worker_runtime/data/mixture.h"
#include "worker_runtime/data/pack.h"
#include "worker_runtime/data/sampler.h"
#include "worker_runtime/data/samples.h"
#include "worker_runtime/data/token_writer.h"

#define COUNT(t) (sizeof(t) / sizeof *(t))

BEFORE_ALL
{
    folder_make();
}

/* "2+0 1": the documents of each sample. */
static const char *shown(const struct dt_pack *p)
{
    static char out[400];
    size_t n = 0;
    out[0] = '\0';
    for (size_t i = 0; i < p->samples; i++)
        for (size_t k = p->first[i]; k < p->first[i + 1]; k++)
            n += (size_t)snprintf(out + n, sizeof out - n, "%s%u",
                                  k > p->first[i] ? "+"
                                  : i             ? " "
                                                  : "",
                                  p->order[k]);
    return out;
}

TEST(the_longest_document_that_fits_is_next)
{
    static const struct {
        uint32_t lengths[8];
        size_t count, positions, left_out;
        const char *samples;
    } rows[] = {
        {{5}, 1, 5, 0, "0"},
        {{0}, 0, 5, 0, ""},
        {{2, 3, 4, 1}, 4, 5, 0, "2+3 1+0"},
        {{3, 3, 3}, 3, 6, 0, "0+1 2"},
        {{1, 1, 1, 1, 1}, 5, 2, 0, "0+1 2+3 4"},
        {{6, 2, 7, 2}, 4, 6, 1, "0 1+3"},
        {{0, 2, 0}, 3, 2, 0, "1"},
        {{9, 9}, 2, 8, 2, ""},
        {{1, 8, 3, 3, 2, 2, 5}, 7, 8, 0, "1 6+2 3+4+5+0"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct dt_pack p;
        struct dt_err err = {0};
        CHECK_ROW("row %zu", i);
        CHECK_OK(dt_pack_make(&p, rows[i].lengths, rows[i].count, rows[i].positions, &err), err);
        CHECK_STR(shown(&p), rows[i].samples);
        CHECK_EQ(p.left_out, rows[i].left_out);
        dt_pack_finish(&p);
    }
}

TEST(each_document_is_in_one_sample_and_none_is_too_full)
{
    enum { DOCUMENTS = 5000, POSITIONS = 100 };
    static uint32_t lengths[DOCUMENTS];
    static int seen[DOCUMENTS];
    struct dt_pack p;
    struct dt_err err = {0};
    uint64_t all = 0;
    for (uint32_t i = 0; i < DOCUMENTS; i++)
        all += lengths[i] = 1 + i * 7919u % 61 + (i % 10 == 0) * 30;
    CHECK_OK(dt_pack_make(&p, lengths, DOCUMENTS, POSITIONS, &err), err);
    for (size_t i = 0; i < p.samples; i++) {
        uint64_t full = 0;
        for (size_t k = p.first[i]; k < p.first[i + 1]; k++) {
            seen[p.order[k]]++;
            full += lengths[p.order[k]];
        }
        CHECK(full > 0 && full <= POSITIONS);
    }
    for (size_t i = 0; i < DOCUMENTS; i++)
        CHECK_EQ(seen[i], 1);
    CHECK(all > p.samples * POSITIONS * 99 / 100); /* less than a hundredth stays empty */
    dt_pack_finish(&p);
}

/* Documents of 3, 5 and 2 tokens, 7 alone, and 9. Every second token is trained on. */
static struct dt_tokens *documents(const size_t *sizes, size_t count)
{
    struct dt_err err = {0};
    const struct dt_token_kind kind = {.vocabulary = 1000, .documents = true};
    struct dt_token_writer *w = dt_token_writer_open(at("documents"), &kind, &err);
    CHECK_STR(err.text, "");
    for (size_t i = 0; i < count; i++) {
        uint32_t ids[16];
        bool trained[16];
        for (size_t k = 0; k < sizes[i]; k++) {
            ids[k] = (uint32_t)(100 * (i + 1) + k);
            trained[k] = k % 2;
        }
        CHECK_OK(dt_token_writer_document(w, ids, trained, sizes[i], &err), err);
    }
    CHECK_OK(dt_token_writer_commit(w, &err), err);
    dt_token_writer_close(w);
    struct dt_tokens *t = dt_tokens_open(at("documents"), 0, 1000, &err);
    CHECK_STR(t ? "" : err.text, "");
    return t;
}

TEST(a_sample_holds_whole_documents_and_their_targets)
{
    static const size_t sizes[] = {3, 5, 2, 1, 9};
    static const int32_t want_ids[] = {200, 201, 202, 203, 100, 101, 300};
    static const int32_t want_targets[] = {201, -1, 203, -1, 101, -1, 301};
    static const int32_t want_documents[] = {0, 0, 0, 0, 4, 4, 6};
    struct dt_err err = {0};
    int32_t ids[7], targets[7], begins[7];
    struct dt_tokens *t = documents(sizes, COUNT(sizes));
    struct dt_samples *s = dt_samples_open(t, 7, false, &err);
    CHECK_STR(s ? "" : err.text, "");
    CHECK(dt_samples_packed(s));
    CHECK_EQ(dt_samples_count(s), 1);
    CHECK_EQ(dt_samples_targets(s, 0), 4);
    struct dt_samples_packing p = dt_samples_packing(s);
    CHECK_EQ(p.documents, 5);
    CHECK_EQ(p.left_out, 1);
    CHECK_EQ(p.filled, 7);
    CHECK_EQ(p.targets, 4);
    CHECK_OK(dt_samples_read(s, 0, ids, targets, begins, &err), err);
    CHECK_BYTES(ids, sizeof ids, want_ids, sizeof want_ids);
    CHECK_BYTES(targets, sizeof targets, want_targets, sizeof want_targets);
    CHECK_BYTES(begins, sizeof begins, want_documents, sizeof want_documents);
    dt_samples_close(s);
    dt_tokens_close(t);
}

TEST(a_document_may_have_a_sample_to_itself)
{
    static const size_t sizes[] = {3, 5, 2, 1, 9};
    static const int32_t want_ids[][4] = {{100, 101, 0, 0}, {200, 201, 202, 203}, {300, 0, 0, 0}};
    struct dt_err err = {0};
    int32_t ids[4], targets[4], begins[4];
    struct dt_tokens *t = documents(sizes, COUNT(sizes));
    struct dt_samples *s = dt_samples_open(t, 4, true, &err);
    CHECK_STR(s ? "" : err.text, "");
    CHECK_EQ(dt_samples_count(s), COUNT(want_ids));
    for (size_t i = 0; i < COUNT(want_ids); i++) {
        CHECK_ROW("sample %zu", i);
        CHECK_OK(dt_samples_read(s, i, ids, targets, begins, &err), err);
        CHECK_BYTES(ids, sizeof ids, want_ids[i], sizeof ids);
    }
    struct dt_samples_packing p = dt_samples_packing(s);
    CHECK_EQ(p.left_out, 1);
    CHECK_EQ(p.filled, 7);
    CHECK_EQ(p.targets, 4);
    dt_samples_close(s);
    dt_tokens_close(t);
}

TEST(what_stays_empty_teaches_nothing)
{
    static const size_t sizes[] = {3};
    static const int32_t want_ids[] = {100, 101, 0, 0}, want_targets[] = {101, -1, -1, -1};
    static const int32_t want_documents[] = {0, 0, 2, 3};
    struct dt_err err = {0};
    int32_t ids[4], targets[4], begins[4];
    struct dt_tokens *t = documents(sizes, COUNT(sizes));
    struct dt_samples *s = dt_samples_open(t, 4, false, &err);
    CHECK_STR(s ? "" : err.text, "");
    CHECK_OK(dt_samples_read(s, 0, ids, targets, begins, &err), err);
    CHECK_BYTES(ids, sizeof ids, want_ids, sizeof want_ids);
    CHECK_BYTES(targets, sizeof targets, want_targets, sizeof want_targets);
    CHECK_BYTES(begins, sizeof begins, want_documents, sizeof want_documents);
    dt_samples_close(s);
    CHECK(dt_samples_open(t, 1, false, &err) == NULL);
    CHECK(strstr(err.text, "none of its 1 documents has 2 to 2 tokens") != NULL);
    dt_tokens_close(t);
}

/* Documents of SIZES, whose tokens from the second on are trained on but for those of UNTRAINED. */
static struct dt_tokens *pairs_of(const size_t *sizes, size_t count, size_t untrained)
{
    struct dt_err err = {0};
    const struct dt_token_kind kind = {.vocabulary = 1000, .pairs = true};
    struct dt_token_writer *w = dt_token_writer_open(at("pairs"), &kind, &err);
    CHECK_STR(err.text, "");
    for (size_t i = 0; i < count; i++) {
        uint32_t ids[16];
        bool trained[16];
        for (size_t k = 0; k < sizes[i]; k++) {
            ids[k] = (uint32_t)(100 * i + k);
            trained[k] = k > 0 && i != untrained;
        }
        CHECK_OK(dt_token_writer_document(w, ids, trained, sizes[i], &err), err);
    }
    CHECK_OK(dt_token_writer_commit(w, &err), err);
    dt_token_writer_close(w);
    struct dt_tokens *t = dt_tokens_open(at("pairs"), 0, 1000, &err);
    CHECK_STR(t ? "" : err.text, "");
    return t;
}

TEST(a_sample_is_a_pair_and_nothing_beside_it)
{
    static const size_t sizes[] = {3, 3, 2, 9, 4, 2, 2, 2};
    static const int32_t want_ids[][6] = {
        {0, 1, 100, 101, 0, 0}, {400, 401, 402, 500, 0, 0}, {600, 700, 0, 0, 0, 0}};
    static const int32_t want_documents[][6] = {
        {0, 0, 2, 2, 4, 5}, {0, 0, 0, 3, 4, 5}, {0, 1, 2, 3, 4, 5}};
    struct dt_err err = {0};
    int32_t ids[6], targets[6], begins[6];
    struct dt_tokens *t = pairs_of(sizes, COUNT(sizes), 99);
    struct dt_samples *s = dt_samples_open(t, 6, false, &err);
    CHECK_STR(s ? "" : err.text, "");
    CHECK(dt_samples_packed(s) && dt_samples_paired(s));
    CHECK_EQ(dt_samples_count(s), 3);
    CHECK_EQ(dt_samples_packing(s).left_out, 2);
    CHECK_EQ(dt_samples_targets(s, 0), 4);
    for (size_t i = 0; i < 3; i++) {
        CHECK_ROW("sample %zu", i);
        CHECK_OK(dt_samples_read(s, i, ids, targets, begins, &err), err);
        CHECK_BYTES(ids, sizeof ids, want_ids[i], sizeof want_ids[i]);
        CHECK_BYTES(begins, sizeof begins, want_documents[i], sizeof want_documents[i]);
    }
    CHECK_EQ(targets[0], 601);
    CHECK_EQ(targets[2], -1);
    dt_samples_close(s);
    CHECK(dt_samples_open(t, 1, false, &err) == NULL);
    CHECK(strstr(err.text, "none of its 4 pairs has at most 3 tokens in both answers") != NULL);
    dt_tokens_close(t);
}

TEST(a_pair_with_an_answer_of_nothing_is_refused)
{
    static const size_t sizes[] = {3, 3, 4, 4};
    struct dt_err err = {0};
    struct dt_tokens *t = pairs_of(sizes, COUNT(sizes), 3);
    CHECK(dt_samples_open(t, 8, false, &err) == NULL);
    CHECK(strstr(err.text, "document 3, the rejected answer of pair 1, marks no token") != NULL);
    dt_tokens_close(t);
}

TEST(some_samples_of_a_packed_file_are_not_those_of_the_longest_documents)
{
    static const size_t sizes[] = {10, 9, 8, 7, 6, 5, 4}; /* 0, 1, 2+6, 3+5, 4 */
    static const struct {
        size_t count, picked[5];
    } rows[] = {{1, {2}}, {2, {1, 3}}, {3, {0, 2, 4}}, {4, {0, 1, 3, 4}}, {5, {0, 1, 2, 3, 4}}};
    struct dt_err err = {0};
    struct dt_tokens *t = documents(sizes, COUNT(sizes));
    struct dt_samples *s = dt_samples_open(t, 10, false, &err);
    CHECK_STR(s ? "" : err.text, "");
    CHECK_EQ(dt_samples_count(s), 5);
    for (size_t i = 0; i < COUNT(rows); i++)
        for (size_t k = 0; k < rows[i].count; k++) {
            CHECK_ROW("number %zu of %zu", k, rows[i].count);
            CHECK_EQ(dt_samples_pick(s, k, rows[i].count), rows[i].picked[k]);
        }
    dt_samples_close(s);
    dt_tokens_close(t);
}

TEST(a_file_that_trains_on_nothing_is_refused)
{
    static const uint32_t ids[] = {1, 2, 3, 4, 5, 6};
    static const bool none[6], some[6] = {false, true};
    struct dt_err err = {0};
    const struct dt_token_kind kind = {.vocabulary = 10, .documents = true};
    struct dt_token_writer *w = dt_token_writer_open(at("nothing"), &kind, &err);
    CHECK_STR(err.text, "");
    CHECK_OK(dt_token_writer_document(w, ids, none, 3, &err), err);
    CHECK_OK(dt_token_writer_document(w, ids, some, 6, &err), err);
    CHECK_OK(dt_token_writer_commit(w, &err), err);
    dt_token_writer_close(w);
    struct dt_tokens *t = dt_tokens_open(at("nothing"), 0, 10, &err);
    struct dt_samples *s = dt_samples_open(t, 5, false, &err);
    CHECK_STR(s ? "" : err.text, "");
    dt_samples_close(s);
    CHECK(dt_samples_open(t, 4, false, &err) == NULL); /* the second one is too long */
    CHECK(strstr(err.text, "it marks no token of the 1 documents that fit") != NULL);
    dt_tokens_close(t);
}

TEST(a_file_without_documents_is_cut)
{
    struct dt_err err = {0};
    int32_t ids[3], targets[3], begins[3] = {9, 9, 9};
    const struct dt_token_kind kind = {.vocabulary = 100};
    struct dt_token_writer *w = dt_token_writer_open(at("plain"), &kind, &err);
    CHECK_OK(dt_token_writer_put(w, (const uint32_t[]){1, 2, 3, 4, 5, 6, 7}, 7, &err), err);
    CHECK_OK(dt_token_writer_commit(w, &err), err);
    dt_token_writer_close(w);
    struct dt_tokens *t = dt_tokens_open(at("plain"), 0, 0, &err);
    struct dt_samples *s = dt_samples_open(t, 3, false, &err);
    CHECK_STR(s ? "" : err.text, "");
    CHECK(!dt_samples_packed(s));
    CHECK_EQ(dt_samples_count(s), 2);
    CHECK_EQ(dt_samples_targets(s, 1), 3);
    CHECK_EQ(dt_samples_pick(s, 0, 1), 0);
    CHECK_OK(dt_samples_read(s, 1, ids, targets, begins, &err), err);
    CHECK_EQ(ids[0], 4);
    CHECK_EQ(targets[2], 7);
    CHECK_EQ(begins[0] + begins[1] + begins[2], 0);
    dt_samples_close(s);
    CHECK(dt_samples_open(t, 7, false, &err) == NULL);
    CHECK(strstr(err.text, "it holds 7 tokens, fewer than one sample of 7") != NULL);
    dt_tokens_close(t);
}

/* -- several files ---------------------------------------------------------------------------- */

enum { FILES = 3, LONGEST = 40 };
static const size_t file_samples[FILES] = {40, 10, 7};

/* Token K of file I is 100 * I + K, and a sample is one position. */
static struct dt_mixture *mixed(const double *weights, size_t count, bool shuffle)
{
    struct dt_err err = {0};
    struct dt_mixture_file files[FILES];
    char names[FILES][200];
    for (size_t i = 0; i < count; i++) {
        snprintf(names[i], sizeof names[i], "%s%zu", at("file"), i);
        FILE *f = fopen(names[i], "wb");
        CHECK(f != NULL);
        for (size_t k = 0; k <= file_samples[i]; k++) {
            uint16_t token = (uint16_t)(100 * i + k);
            CHECK_EQ(fwrite(&token, sizeof token, 1, f), 1);
        }
        CHECK_EQ(fclose(f), 0);
        files[i] = (struct dt_mixture_file){names[i], weights[i]};
    }
    const struct dt_mixture_options o = {
        .files = files, .count = count, .raw_width = 2, .positions = 1, .shuffle = shuffle};
    struct dt_mixture *m = dt_mixture_open(&o, &err);
    CHECK_STR(m ? "" : err.text, "");
    return m;
}

static size_t token_at(const struct dt_mixture *m, uint64_t position)
{
    struct dt_err err = {0};
    int32_t id, target;
    CHECK_OK(dt_mixture_read(m, 4, position, &id, &target, NULL, &err), err);
    CHECK_EQ(dt_mixture_targets(m, 4, position), 1);
    CHECK_EQ(target, id + 1);
    return (size_t)id;
}

/* In two epochs file 0 comes up twice, file 1 five times, and file 2 once. */
TEST(each_file_comes_up_as_often_as_it_weighs)
{
    static const double weights[FILES] = {1, 2.5, 0.5};
    for (int shuffle = 0; shuffle < 2; shuffle++) {
        CHECK_ROW("shuffle %d", shuffle);
        int seen[FILES][LONGEST] = {{0}};
        struct dt_mixture *m = mixed(weights, FILES, shuffle);
        CHECK_EQ(dt_mixture_samples(m), 40 + 25 + 4); /* 3.5 is 4 */
        for (uint64_t i = 0; i < 2 * 69; i++) {
            size_t token = token_at(m, i);
            seen[token / 100][token % 100]++;
            CHECK(shuffle || i >= 40 || token == i);
        }
        int twice = 0;
        for (size_t k = 0; k < LONGEST; k++)
            CHECK_EQ(seen[0][k], 2);
        for (size_t k = 0; k < file_samples[1]; k++)
            CHECK_EQ(seen[1][k], 5);
        for (size_t k = 0; k < file_samples[2]; k++) {
            CHECK(seen[2][k] == 1 || seen[2][k] == 2);
            twice += seen[2][k] == 2;
        }
        CHECK_EQ(twice, 1); /* eight places for seven samples */
        dt_mixture_close(m);
    }
}

TEST(one_file_keeps_the_order_of_the_sampler)
{
    static const double one[] = {1};
    const struct dt_sampler order = {.samples = 40, .seed = 4, .shuffle = true};
    struct dt_mixture *m = mixed(one, 1, true);
    for (uint64_t i = 0; i < 100; i++)
        CHECK_EQ(token_at(m, i), dt_sampler_at(&order, i));
    dt_mixture_close(m);
}

TEST(a_mixture_is_known_again_by_all_of_its_files)
{
    static const double weights[] = {1, 1, 1};
    struct dt_mixture *all = mixed(weights, 3, true), *two = mixed(weights, 2, true);
    CHECK_EQ(dt_mixture_tokens(all), 41 + 11 + 8);
    CHECK(dt_mixture_mark(all) != dt_mixture_mark(two));
    static const double others[] = {1, 2, 1};
    struct dt_mixture *heavier = mixed(others, 3, true);
    CHECK(dt_mixture_mark(all) != dt_mixture_mark(heavier));
    dt_mixture_close(heavier);
    struct dt_err err = {0};
    const struct dt_mixture_file same[] = {
        {at("file0"), 1}, {at("file1"), 1}, {at("file2"), 1}, {at("file0"), 2}};
    struct dt_mixture_options o = {.files = same, .count = 3, .raw_width = 2, .positions = 3};
    struct dt_mixture *longer = dt_mixture_open(&o, &err); /* samples of the same data */
    CHECK_EQ(dt_mixture_mark(longer), dt_mixture_mark(all));
    dt_mixture_close(longer);
    o.count = 1;
    struct dt_mixture *once = dt_mixture_open(&o, &err);
    o.files = &same[3];
    struct dt_mixture *twice = dt_mixture_open(&o, &err);
    CHECK(dt_mixture_mark(once) != dt_mixture_mark(twice));
    struct dt_tokens *alone = dt_tokens_open(at("file0"), 2, 0, &err);
    CHECK_EQ(dt_mixture_mark(once), dt_tokens_mark(alone)); /* as earlier checkpoints have it */
    dt_tokens_close(alone);
    dt_mixture_close(once);
    dt_mixture_close(twice);
    CHECK(!dt_mixture_packed(all) && !dt_mixture_are_bytes(all));
    dt_mixture_close(all);
    dt_mixture_close(two);
    const struct dt_mixture_file files[] = {{at("file0"), 1}, {at("missing"), 1}};
    o = (struct dt_mixture_options){.files = files, .count = 2, .raw_width = 2, .positions = 1};
    CHECK(dt_mixture_open(&o, &err) == NULL);
    CHECK(strstr(err.text, "missing: cannot open") != NULL);
}
