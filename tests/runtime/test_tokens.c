/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/folder.h"
#include "worker_runtime/data/token_writer.h"
#include "worker_runtime/data/tokens.h"

#include <sys/stat.h>

BEFORE_ALL
{
    folder_make();
}

static void put_header(struct dt_buf *b, uint32_t version, uint32_t width, uint32_t tokenizer,
                       uint32_t vocabulary, uint64_t count)
{
    dt_buf_put_str(b, "DTRTOKEN");
    dt_buf_put_u32(b, version);
    dt_buf_put_u32(b, width);
    dt_buf_put_u32(b, tokenizer);
    dt_buf_put_u32(b, vocabulary);
    dt_buf_put_u64(b, count);
}

static void put_tokens(struct dt_buf *b, size_t count, size_t width)
{
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < width; k++)
            dt_buf_put_u8(b, (uint8_t)(k < 2 ? (i + 1) >> 8 * k : 0));
}

static const char *keep(const char *name, struct dt_buf *b)
{
    const char *path = at(name);
    FILE *f = fopen(path, "wb");
    CHECK(f != NULL);
    if (b->len)
        CHECK_EQ(fwrite(b->at, 1, b->len, f), b->len);
    CHECK_EQ(fclose(f), 0);
    dt_buf_finish(b);
    return path;
}

TEST(samples_are_inputs_and_the_token_behind_each)
{
    for (uint32_t width = 2; width <= 4; width += 2) {
        CHECK_ROW("%u bytes a token", width);
        struct dt_buf b = {0};
        struct dt_err err;
        int32_t ids[4], targets[4];
        put_header(&b, 1, width, 1, 320, 11);
        put_tokens(&b, 11, width);
        struct dt_tokens *t = dt_tokens_open(keep("good", &b), 0, 320, &err);
        CHECK(t != NULL);
        CHECK_EQ(dt_tokens_count(t), 11);
        CHECK_EQ(dt_tokens_samples(t, 4), 2); /* 5 + 4 of 11 */
        CHECK_EQ(dt_tokens_samples(t, 5), 2); /* 6 + 5: all of them */
        CHECK_EQ(dt_tokens_samples(t, 10), 1);
        CHECK_EQ(dt_tokens_samples(t, 11), 0);
        CHECK_EQ(dt_tokens_samples(t, 0), 0);
        CHECK_OK(dt_tokens_sample(t, 1, 4, ids, targets, &err), err);
        for (int i = 0; i < 4; i++) {
            CHECK_EQ(ids[i], 5 + i);
            CHECK_EQ(targets[i], 6 + i);
        }
        CHECK_FAIL(dt_tokens_sample(t, 2, 4, ids, targets, &err), err,
                   "there is no sample 2; there are 2");
        CHECK_FAIL(dt_tokens_sample(t, 0, 128, ids, targets, &err), err,
                   "holds 11 tokens, too few for one sample of sequence length 128");
        dt_tokens_close(t);
    }
}

TEST(wide_tokens_keep_all_their_bytes)
{
    struct dt_buf b = {0};
    struct dt_err err;
    int32_t id, target;
    put_header(&b, 1, 4, 0, 0, 2);
    dt_buf_put_u32(&b, 0x12345);
    dt_buf_put_u32(&b, 0x7ffffffe);
    struct dt_tokens *t = dt_tokens_open(keep("wide", &b), 0, 0, &err);
    CHECK(t != NULL);
    CHECK_OK(dt_tokens_sample(t, 0, 1, &id, &target, &err), err);
    CHECK_EQ(id, 0x12345);
    CHECK_EQ(target, 0x7ffffffe);
    dt_tokens_close(t);
}

TEST(a_token_beyond_the_vocabulary_is_named_with_file_and_place)
{
    struct dt_buf b = {0};
    struct dt_err err;
    int32_t ids[4], targets[4];
    put_tokens(&b, 9, 2);
    struct dt_tokens *t = dt_tokens_open(keep("strange", &b), 2, 7, &err);
    CHECK(t != NULL);
    CHECK_OK(dt_tokens_sample(t, 0, 4, ids, targets, &err), err);
    CHECK_FAIL(dt_tokens_sample(t, 1, 4, ids, targets, &err), err, "strange: token 6 is 7");
    CHECK(strstr(err.text, "the vocabulary ends at 6") != NULL);
    dt_tokens_close(t);
}

TEST(the_header_s_own_vocabulary_holds_too)
{
    struct dt_buf b = {0};
    struct dt_err err;
    int32_t id, target;
    put_header(&b, 1, 2, 0, 2, 2);
    put_tokens(&b, 2, 2);
    struct dt_tokens *t = dt_tokens_open(keep("own", &b), 0, 50257, &err);
    CHECK(t != NULL);
    CHECK_FAIL(dt_tokens_sample(t, 0, 1, &id, &target, &err), err, "token 1 is 2");
    dt_tokens_close(t);
}

TEST(a_vocabulary_whose_tokens_would_be_negative_is_refused)
{
    struct dt_buf b = {0};
    struct dt_err err;
    put_header(&b, 1, 4, 0, (uint32_t)INT32_MAX + 1, 2);
    dt_buf_put_u32(&b, 1);
    dt_buf_put_u32(&b, (uint32_t)INT32_MAX);
    CHECK_FAIL(dt_tokens_check((struct dt_bytes){b.at, b.len}, 0, &err), err,
               "a vocabulary of 2147483648; at most 2147483647 is possible");
    CHECK(dt_tokens_open(keep("negative", &b), 0, 0, &err) == NULL);
}

TEST(a_header_that_does_not_fit_its_file_is_refused)
{
    /* clang-format off */
    static const struct row {
        const char *name, *words;
        uint32_t version, width, tokenizer;
        uint64_t count;
        size_t there;
    } rows[] = {
        {"newer",          "version is 4",              4, 2, 1, 4, 4},
        {"odd width",      "3 bytes a token",           1, 3, 1, 4, 4},
        {"no width",       "0 bytes a token",           1, 0, 1, 4, 4},
        {"tokenizer",      "names tokenizer 9",         1, 2, 9, 4, 4},
        {"cut",            "says 5 tokens of 2 bytes, and 8 bytes are there", 1, 2, 1, 5, 4},
        {"added to",       "says 3 tokens of 2 bytes, and 8 bytes are there", 1, 2, 1, 3, 4},
        {"overflow",       "cut short, or added to",    1, 2, 1, (UINT64_MAX >> 1) + 5, 4},
        {"overflow wide",  "cut short, or added to",    1, 4, 1, ((uint64_t)1 << 62) + 1, 1},
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct row *r = &rows[i];
        CHECK_ROW("%s", r->name);
        struct dt_buf b = {0};
        struct dt_err err;
        put_header(&b, r->version, r->width, r->tokenizer, 0, r->count);
        put_tokens(&b, r->there, r->width == 4 ? 4 : 2);
        CHECK_FAIL(dt_tokens_check((struct dt_bytes){b.at, b.len}, 0, &err), err, r->words);
        CHECK(dt_tokens_open(keep("bad", &b), 0, 0, &err) == NULL);
        CHECK(strstr(err.text, r->words) != NULL);
        CHECK(strstr(err.text, "/bad: ") != NULL);
    }
}

TEST(a_header_cut_anywhere_is_refused)
{
    struct dt_buf b = {0};
    struct dt_err err;
    put_header(&b, 1, 2, 1, 320, 0);
    CHECK_OK(dt_tokens_check((struct dt_bytes){b.at, b.len}, 0, &err), err);
    for (size_t len = 8; len < b.len; len++)
        CHECK_FAIL(dt_tokens_check((struct dt_bytes){b.at, len}, 0, &err), err, "cut short");
    dt_buf_finish(&b);
}

TEST(raw_files_want_to_be_told_their_width)
{
    struct dt_err err;
    struct dt_bytes six = dt_bytes_of("abcdef");
    CHECK_FAIL(dt_tokens_check(six, 0, &err), err, "data.raw_width");
    CHECK_OK(dt_tokens_check(six, 2, &err), err);
    CHECK_FAIL(dt_tokens_check(six, 4, &err), err, "6 bytes are no whole number of tokens");
}

static void put_llmc(struct dt_buf *b, uint32_t magic, uint32_t version, uint32_t count)
{
    dt_buf_put_u32(b, magic);
    dt_buf_put_u32(b, version);
    dt_buf_put_u32(b, count);
    for (int i = 3; i < 256; i++)
        dt_buf_put_u32(b, 0);
}

TEST(files_of_llm_c_are_known_by_their_header)
{
    static const struct {
        uint32_t magic, version;
        size_t width;
    } kinds[] = {{20240520, 1, 2}, {20240801, 7, 4}};
    for (size_t i = 0; i < 2; i++) {
        CHECK_ROW("%u", kinds[i].magic);
        struct dt_buf b = {0};
        struct dt_err err;
        int32_t ids[4], targets[4];
        put_llmc(&b, kinds[i].magic, kinds[i].version, 9);
        put_tokens(&b, 9, kinds[i].width);
        struct dt_tokens *t = dt_tokens_open(keep("llmc", &b), 2, 50257, &err);
        CHECK(t != NULL);
        CHECK_EQ(dt_tokens_count(t), 9);
        CHECK_OK(dt_tokens_sample(t, 0, 4, ids, targets, &err), err);
        CHECK_EQ(ids[0], 1);
        CHECK_EQ(targets[3], 5);
        dt_tokens_close(t);

        put_llmc(&b, kinds[i].magic, kinds[i].version, 10);
        put_tokens(&b, 9, kinds[i].width);
        CHECK_FAIL(dt_tokens_check((struct dt_bytes){b.at, b.len}, 0, &err), err, "says 10 tokens");
        CHECK_FAIL(dt_tokens_check((struct dt_bytes){b.at, 1023}, 0, &err), err,
                   "cut short: 1023 bytes of 1024");
        dt_buf_clear(&b);
        put_llmc(&b, kinds[i].magic, 99, 0);
        CHECK_FAIL(dt_tokens_check((struct dt_bytes){b.at, b.len}, 0, &err), err,
                   "a file of llm.c of version 99");
        dt_buf_finish(&b);
    }
}

TEST(headers_of_others_are_no_tokens)
{
    struct dt_err err;
    CHECK_FAIL(dt_tokens_check(dt_bytes_of("\x93NUMPY\x01 {'descr': '<u2'}"), 2, &err), err,
               "it is a NumPy file");
    CHECK_FAIL(dt_tokens_check(dt_bytes_of("version https://git-lfs.github.com/spec/v1\noid x\n "),
                               2, &err),
               err, "a pointer of git-lfs");
}

TEST(a_file_for_a_greater_vocabulary_is_refused_at_once)
{
    struct dt_buf b = {0};
    struct dt_err err;
    put_header(&b, 1, 2, 1, 320, 11);
    put_tokens(&b, 11, 2);
    const char *path = keep("greater", &b);
    CHECK(dt_tokens_open(path, 0, 200, &err) == NULL);
    CHECK(strstr(err.text, "made for a vocabulary of 320, and that of the model is 200") != NULL);
    struct dt_tokens *t = dt_tokens_open(path, 0, 320, &err);
    CHECK(t != NULL);
    dt_tokens_close(t);
}

TEST(a_sample_longer_than_what_is_read_at_once_is_whole)
{
    struct dt_buf b = {0};
    struct dt_err err;
    static int32_t ids[9000], targets[9000];
    put_header(&b, 1, 4, 0, 0, 30001);
    put_tokens(&b, 30001, 4);
    struct dt_tokens *t = dt_tokens_open(keep("long", &b), 0, 0, &err);
    CHECK(t != NULL);
    CHECK_OK(dt_tokens_sample(t, 2, 9000, ids, targets, &err), err);
    for (int i = 0; i < 9000; i++) {
        CHECK_EQ(ids[i], 18001 + i);
        CHECK_EQ(targets[i], 18002 + i);
    }
    dt_tokens_close(t);
}

TEST(a_file_that_is_cut_short_in_use_is_an_error_with_its_name)
{
    struct dt_buf b = {0};
    struct dt_err err;
    int32_t ids[4], targets[4];
    put_header(&b, 1, 2, 0, 0, 100000);
    put_tokens(&b, 100000, 2);
    const char *path = keep("shrinking", &b);
    struct dt_tokens *t = dt_tokens_open(path, 0, 0, &err);
    CHECK(t != NULL);
    CHECK_OK(dt_tokens_sample(t, 9000, 4, ids, targets, &err), err);
    CHECK_EQ(truncate(path, 4096), 0);
    CHECK_FAIL(dt_tokens_sample(t, 9000, 4, ids, targets, &err), err, "shrinking: it ends at byte");
    CHECK(strstr(err.text, "cut short while it is in use") != NULL);
    CHECK_OK(dt_tokens_sample(t, 7, 4, ids, targets, &err), err);
    dt_tokens_close(t);
}

TEST(what_is_no_file_of_tokens_is_refused_by_name)
{
    struct dt_buf none = {0};
    struct dt_err err;
    CHECK(dt_tokens_open(at("missing"), 0, 0, &err) == NULL);
    CHECK(strstr(err.text, "/missing: cannot open: No such file") != NULL);
    CHECK(dt_tokens_open(keep("empty", &none), 2, 0, &err) == NULL);
    CHECK(strstr(err.text, "/empty: it is empty") != NULL);
    CHECK(dt_tokens_open(dir, 2, 0, &err) == NULL);
    CHECK(strstr(err.text, "no ordinary file") != NULL);
    CHECK_EQ(mkfifo(at("pipe"), 0600), 0);
    CHECK(dt_tokens_open(at("pipe"), 2, 0, &err) == NULL); /* at once: nobody writes to it */
    CHECK(strstr(err.text, "no ordinary file") != NULL);
    dt_tokens_close(NULL);
}

/* -- documents -------------------------------------------------------------------------------- */

/* Ten tokens of 2 bytes in three documents, of which 2, 3, 6 and 9 are trained on. */
static void put_documents(struct dt_buf *b)
{
    put_header(b, 2, 2, 0, 100, 10);
    dt_buf_put_u64(b, 3);
    dt_buf_put_u64(b, 4);
    put_tokens(b, 10, 2);
    dt_buf_put_u8(b, 0x4c);
    dt_buf_put_u8(b, 0x02);
    for (uint64_t begin = 0; begin < 9; begin += 4)
        dt_buf_put_u64(b, begin);
}

/* The first 8 of them as two pairs, with FLAGS. */
static void put_pairs(struct dt_buf *b, uint64_t documents, uint64_t flags)
{
    put_header(b, 3, 2, 0, 100, 8);
    dt_buf_put_u64(b, documents);
    dt_buf_put_u64(b, 4);
    dt_buf_put_u64(b, flags);
    put_tokens(b, 8, 2);
    dt_buf_put_u8(b, 0xaa);
    for (uint64_t i = 0; i < documents; i++)
        dt_buf_put_u64(b, 2 * i);
}

TEST(a_file_tells_that_its_documents_are_pairs)
{
    struct dt_buf b = {0};
    struct dt_err err = {0};
    int32_t ids[3], targets[3];
    uint64_t begins[4];
    put_pairs(&b, 4, 1);
    CHECK_OK(dt_tokens_check((struct dt_bytes){b.at, b.len}, 0, &err), err);
    for (size_t len = 8; len < b.len; len++) {
        CHECK_ROW("%zu bytes of it", len);
        CHECK_FAIL(dt_tokens_check((struct dt_bytes){b.at, len}, 0, &err), err, "cut short");
    }
    struct dt_tokens *t = dt_tokens_open(keep("pairs", &b), 0, 0, &err);
    CHECK_STR(t ? "" : err.text, "");
    CHECK(dt_tokens_are_pairs(t));
    CHECK_EQ(dt_tokens_documents(t), 4);
    CHECK_OK(dt_tokens_begins(t, 0, 4, begins, &err), err);
    CHECK_EQ(begins[3], 6);
    CHECK_OK(dt_tokens_read(t, 5, 3, ids, &err), err);
    CHECK_EQ(ids[2], 8);
    CHECK_FAIL(dt_tokens_sample(t, 0, 3, ids, targets, &err), err, "pairs holds pairs of answers");
    dt_tokens_close(t);
    put_pairs(&b, 4, 0); /* version 2 with another header */
    t = dt_tokens_open(keep("no_pairs", &b), 0, 0, &err);
    CHECK(t && !dt_tokens_are_pairs(t));
    dt_tokens_close(t);
}

TEST(pairs_that_are_none_are_refused)
{
    static const struct {
        uint64_t documents, flags;
        const char *words;
    } rows[] = {
        {3, 1, "its header says 3 documents, which come in pairs: one is missing"},
        {4, 2, "its header has the flags 0x2, of which this program knows 0x1"},
        {4, (uint64_t)1 << 63 | 1, "its header has the flags 0x8000000000000001"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_buf b = {0};
        struct dt_err err = {0};
        put_pairs(&b, rows[i].documents, rows[i].flags);
        CHECK_ROW("row %zu", i);
        CHECK_FAIL(dt_tokens_check((struct dt_bytes){b.at, b.len}, 0, &err), err, rows[i].words);
        dt_buf_finish(&b);
    }
}

TEST(a_file_tells_its_documents_and_what_is_trained_on)
{
    struct dt_buf b = {0};
    struct dt_err err = {0};
    int32_t ids[4], targets[4];
    uint64_t begins[3];
    bool trained[10], wanted[10] = {[2] = true, [3] = true, [6] = true, [9] = true};
    put_documents(&b);
    CHECK_OK(dt_tokens_check((struct dt_bytes){b.at, b.len}, 0, &err), err);
    struct dt_tokens *t = dt_tokens_open(keep("documents", &b), 0, 0, &err);
    CHECK_STR(t ? "" : err.text, "");
    CHECK_EQ(dt_tokens_documents(t), 3);
    CHECK_OK(dt_tokens_begins(t, 0, 3, begins, &err), err);
    CHECK_EQ(begins[0], 0);
    CHECK_EQ(begins[2], 8);
    CHECK_OK(dt_tokens_begins(t, 1, 2, begins, &err), err);
    CHECK_EQ(begins[0], 4);
    CHECK_EQ(begins[1], 8);
    CHECK_OK(dt_tokens_trained(t, 0, 10, trained, &err), err);
    CHECK_BYTES(trained, sizeof trained, wanted, sizeof wanted);
    CHECK_OK(dt_tokens_trained(t, 3, 7, trained, &err), err);
    CHECK_BYTES(trained, 7, wanted + 3, 7);
    CHECK_OK(dt_tokens_sample(t, 1, 4, ids, targets, &err), err); /* targets are tokens 5 to 8 */
    static const int32_t some[] = {-1, 7, -1, -1};
    CHECK_EQ(ids[0], 5);
    CHECK_BYTES(targets, sizeof targets, some, sizeof some);
    dt_tokens_close(t);
}

TEST(damage_of_documents_is_named)
{
    static const struct {
        const char *name;
        size_t at; /* byte that becomes VALUE */
        uint8_t value;
        const char *words;
    } rows[] = {
        {"more documents", 32, 4, "10 tokens of 2 bytes in 4 documents, and 46 bytes are there"},
        {"many documents", 39, 0x80, "documents, and 46 bytes are there"},
        {"no documents", 32, 0, "in 0 documents"},
        {"more trained", 40, 11, "says that 11 of 10 tokens are trained"},
        {"other trained", 40, 3, "says that 3 tokens are trained on, and 4 are marked"},
        {"a mark behind the end", 69, 0x0a, "marks tokens behind its last one"},
        {"a first token", 68, 0x4d, "the first token of document 0 is trained on"},
        {"not at the beginning", 70, 1, "document 0 begins at token 1"},
        {"not rising", 78, 0, "document 1 begins at token 0"},
        {"beyond the end", 86, 10, "document 2 begins at token 10"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s", rows[i].name);
        struct dt_buf b = {0};
        struct dt_err err = {0};
        put_documents(&b);
        b.at[rows[i].at] = rows[i].value;
        CHECK_FAIL(dt_tokens_check((struct dt_bytes){b.at, b.len}, 0, &err), err, rows[i].words);
        dt_buf_finish(&b);
    }
}

TEST(begins_and_marks_are_read_in_pieces)
{
    enum { MANY = 3000, EACH = 5 };
    static bool trained[MANY * EACH];
    static uint64_t begins[MANY];
    struct dt_err err = {0};
    const struct dt_token_kind kind = {.vocabulary = 10, .documents = true};
    struct dt_token_writer *w = dt_token_writer_open(at("many"), &kind, &err);
    CHECK(w != NULL);
    static const uint32_t ids[EACH] = {1, 2, 3, 4, 5};
    for (int i = 0; i < MANY; i++) {
        bool marks[EACH] = {true, i % 2, true, false, i % 3 == 0};
        CHECK_OK(dt_token_writer_document(w, ids, marks, EACH, &err), err);
    }
    CHECK_OK(dt_token_writer_commit(w, &err), err);
    dt_token_writer_close(w);
    struct dt_tokens *t = dt_tokens_open(at("many"), 0, 0, &err);
    CHECK_STR(t ? "" : err.text, "");
    CHECK_OK(dt_tokens_begins(t, 0, MANY, begins, &err), err);
    CHECK_OK(dt_tokens_trained(t, 0, (size_t)MANY * EACH, trained, &err), err);
    for (size_t i = 0; i < MANY; i++) {
        CHECK_ROW("document %zu", i);
        CHECK_EQ(begins[i], i * EACH);
        const bool *got = trained + i * EACH;
        CHECK(!got[0] && got[1] == i % 2 && got[2] && !got[3] && got[4] == (i % 3 == 0));
    }
    dt_tokens_close(t);
}
