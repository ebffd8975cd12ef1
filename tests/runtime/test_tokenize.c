/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/fs.h"
#include "tests/lib/folder.h"
#include "worker_runtime/data/detokenize.h"
#include "worker_runtime/data/tokenize.h"
#include "worker_runtime/data/tokenizer/tokenizer.h"
#include "worker_runtime/data/tokens.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

BEFORE_ALL
{
    folder_make();
}

static const char *text_file(const char *name, const char *bytes, size_t len)
{
    struct dt_err err;
    const char *path = at(name);
    CHECK_OK(dt_fs_replace(path, bytes, len, 0644, &err), err);
    return path;
}

/* How many names of the folder begin with PREFIX. */
static int names_with(const char *prefix)
{
    int n = 0;
    DIR *d = opendir(dir);
    CHECK(d != NULL);
    for (struct dirent *e; (e = readdir(d));)
        n += strncmp(e->d_name, prefix, strlen(prefix)) == 0;
    closedir(d);
    return n;
}

TEST(each_text_is_its_bytes_and_an_end)
{
    struct dt_err err;
    uint64_t tokens;
    int32_t ids[6], targets[6];
    const char *texts[] = {text_file("a", "\xff\0z", 3), text_file("b", "", 0),
                           text_file("c", "q", 1)};
    static const int32_t want[] = {255, 0, 'z', DT_BYTE_END, DT_BYTE_END, 'q', DT_BYTE_END};
    CHECK_OK(dt_tokenize_files(NULL, texts, 3, at("out"), &tokens, &err), err);
    CHECK_EQ(tokens, 7);
    struct dt_tokens *t = dt_tokens_open(at("out"), 0, DT_BYTE_VOCABULARY, &err);
    CHECK(t != NULL);
    CHECK_EQ(dt_tokens_count(t), 7);
    CHECK_OK(dt_tokens_sample(t, 0, 6, ids, targets, &err), err);
    CHECK_BYTES(ids, sizeof ids, want, sizeof ids);
    CHECK_BYTES(targets, sizeof targets, want + 1, sizeof targets);
    dt_tokens_close(t);
    CHECK_EQ(names_with("out"), 1);
}

TEST(a_text_of_many_chunks_comes_out_whole)
{
    size_t len = ((size_t)1 << 20) + 17;
    struct dt_err err;
    uint64_t tokens;
    struct dt_buf out = {0};
    char *text = malloc(len);
    CHECK(text != NULL);
    for (size_t i = 0; i < len; i++)
        text[i] = (char)(i * 7 >> 3);
    const char *path = text_file("long", text, len);
    CHECK_OK(dt_tokenize_files(NULL, &path, 1, at("long.bin"), &tokens, &err), err);
    CHECK_EQ(tokens, len + 1);
    CHECK_OK(dt_fs_read(at("long.bin"), len * 3, &out, &err), err);
    CHECK_EQ(out.len, 32 + 2 * (len + 1));
    CHECK_OK(dt_tokens_check((struct dt_bytes){out.at, out.len}, 0, &err), err);
    size_t wrong = 0;
    for (size_t i = 0; i < len; i++)
        wrong += out.at[32 + 2 * i] != (uint8_t)text[i] || out.at[33 + 2 * i] != 0;
    CHECK_EQ(wrong, 0);
    dt_buf_finish(&out);
    free(text);
}

TEST(a_dash_is_standard_input)
{
    struct dt_err err;
    uint64_t tokens;
    const char *dash = "-";
    int fd = open(text_file("in", "hello", 5), O_RDONLY), before = dup(STDIN_FILENO);
    CHECK(fd >= 0);
    CHECK_EQ(dup2(fd, STDIN_FILENO), STDIN_FILENO);
    CHECK_OK(dt_tokenize_files(NULL, &dash, 1, at("from-stdin"), &tokens, &err), err);
    CHECK_EQ(tokens, 6);
    if (before >= 0)
        dup2(before, STDIN_FILENO);
    close(before);
    close(fd);
}

TEST(the_file_may_be_read_by_who_may_read_others)
{
    struct dt_err err;
    struct stat st;
    const char *text = text_file("t", "x", 1);
    mode_t mask = umask(027);
    CHECK_OK(dt_tokenize_files(NULL, &text, 1, at("mode"), NULL, &err), err);
    umask(mask);
    CHECK_EQ(stat(at("mode"), &st), 0);
    CHECK_EQ(st.st_mode & 0777, 0640);
}

TEST(a_text_that_cannot_be_read_leaves_the_old_file)
{
    struct dt_err err;
    struct dt_buf old = {0};
    const char *texts[] = {text_file("t", "x", 1), at("missing")};
    text_file("kept", "old", 3);
    CHECK_FAIL(dt_tokenize_files(NULL, texts, 2, at("kept"), NULL, &err), err, "cannot open");
    CHECK(strstr(err.text, "/missing: No such file") != NULL);
    const char *folder = dir;
    CHECK_FAIL(dt_tokenize_files(NULL, &folder, 1, at("kept"), NULL, &err), err, "cannot read");
    CHECK_OK(dt_fs_read(at("kept"), 100, &old, &err), err);
    CHECK_STR(dt_buf_cstr(&old), "old");
    CHECK_EQ(names_with("kept"), 1);
    dt_buf_finish(&old);
}

TEST(a_text_is_not_overwritten_by_its_own_tokens)
{
    struct dt_err err;
    const char *text = text_file("same", "precious", 8);
    CHECK_FAIL(dt_tokenize_files(NULL, &text, 1, text, NULL, &err), err,
               "is a text to read and the file to write");
    CHECK_EQ(names_with("same"), 1);
}

TEST(a_device_is_not_replaced_by_a_file)
{
    struct dt_err err;
    const char *text = text_file("t", "x", 1);
    CHECK_FAIL(dt_tokenize_files(NULL, &text, 1, "/dev/null", NULL, &err), err, "no ordinary file");
    CHECK_FAIL(dt_tokenize_files(NULL, &text, 1, dir, NULL, &err), err, "no ordinary file");
    CHECK_FAIL(dt_tokenize_files(NULL, &text, 1, at("no/such/folder"), NULL, &err), err,
               "cannot make a file beside");
}

/* A limit on the size of files stands in for a full disk: write() fails the same way. */
TEST(a_full_disk_is_one_sentence_and_leaves_no_file)
{
    static char text[200000];
    const char *path = text_file("big", text, sizeof text);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        struct rlimit small = {100000, 100000};
        struct dt_err err = {0};
        signal(SIGXFSZ, SIG_IGN);
        int rc = setrlimit(RLIMIT_FSIZE, &small);
        if (rc == 0)
            rc = dt_tokenize_files(NULL, &path, 1, at("full"), NULL, &err) == 0 ||
                 !strstr(err.text, "cannot write") || !strstr(err.text, "/full: File too large");
        _exit(rc);
    }
    int status;
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK_EQ(status, 0);
    CHECK_EQ(names_with("full"), 0);
}

/* -- with a tokenizer of a model -------------------------------------------------------------- */

#define MODEL                                                                                      \
    "\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1, \"\xc4\xa0\": 2, \"ab\": 3}, " \
    "\"merges\": [\"a b\"]}"

static struct dt_tokenizer *small_tokenizer(void)
{
    struct dt_err err = {0};
    static const char text[] =
        "{\"version\": \"1.0\", " MODEL ", \"added_tokens\": ["
        "{\"content\": \"<s>\", \"special\": true}, {\"content\": \"</s>\", \"special\": true}], "
        "\"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false}, "
        "\"decoder\": {\"type\": \"ByteLevel\"}, "
        "\"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": "
        "[{\"SpecialToken\": {\"id\": \"<s>\"}}, {\"Sequence\": {\"id\": \"A\"}}], "
        "\"special_tokens\": {\"<s>\": {\"ids\": [4]}}}}";
    CHECK_OK(dt_fs_replace(at("tokenizer.json"), text, strlen(text), 0644, &err), err);
    text_file("tokenizer_config.json", "{\"eos_token\": \"</s>\"}", 21);
    struct dt_tokenizer *t = dt_tokenizer_open(dir, &err);
    CHECK_STR(err.text, "");
    CHECK(t != NULL);
    return t;
}

TEST(each_text_is_its_tokens_between_those_of_the_tokenizer)
{
    struct dt_err err;
    uint64_t count;
    int32_t ids[9];
    struct dt_tokenizer *t = small_tokenizer();
    const char *texts[] = {text_file("a", "ab b", 4), text_file("b", "", 0),
                           text_file("c", "a<s>", 4)};
    static const int32_t want[] = {4, 3, 2, 1, 5, 4, 5, 4, 0};
    CHECK_OK(dt_tokenize_files(t, texts, 3, at("ids.bin"), &count, &err), err);
    CHECK_EQ(count, 11);
    struct dt_tokens *tokens = dt_tokens_open(at("ids.bin"), 0, 6, &err);
    CHECK(tokens != NULL);
    CHECK_OK(dt_tokens_read(tokens, 0, 9, ids, &err), err);
    CHECK_BYTES(ids, sizeof ids, want, sizeof want);
    dt_tokens_close(tokens);
    CHECK(dt_tokens_open(at("ids.bin"), 0, 5, &err) == NULL);
    CHECK(strstr(err.text, "made for a vocabulary of 6, and that of the model is 5") != NULL);
    dt_tokenizer_close(t);
}

TEST(tokens_are_shown_by_the_tokenizer_that_made_them)
{
    static const char head[] = "DTRTOKEN\1\0\0\0\2\0\0\0\0\0\0\0\0\x7d\0\0\1\0\0\0\0\0\0\0\5";
    struct dt_err err;
    const char *path = text_file("of-32000.bin", head, sizeof head); /* its \0 is of the token */
    CHECK(!dt_tokenized_open(NULL, path, &err));
    CHECK(strstr(err.text, "its tokens are of a tokenizer; name its folder by --tokenizer"));
    struct dt_tokenizer *t = small_tokenizer();
    CHECK(!dt_tokenized_open(t, path, &err));
    CHECK(strstr(err.text, "of 32000, and that of --tokenizer is 6; name the folder of the "));
    dt_tokenizer_close(t);
}

TEST(a_token_that_the_model_has_no_word_for_may_stand_in_no_text)
{
    struct dt_err err;
    dt_tokenizer_close(small_tokenizer());
    text_file("config.json", "{\"vocab_size\": 5}", 17);
    text_file("tokenizer_config.json", "{}", 2);
    struct dt_tokenizer *t = dt_tokenizer_open(dir, &err);
    CHECK(t != NULL);
    unlink(at("config.json"));
    const char *few = text_file("few", "ab b", 4), *more = text_file("more", "a</s>", 5);
    CHECK_OK(dt_tokenize_files(t, &few, 1, at("few.bin"), NULL, &err), err);
    struct dt_tokens *tokens = dt_tokens_open(at("few.bin"), 0, 5, &err);
    CHECK(tokens != NULL);
    dt_tokens_close(tokens);
    CHECK_FAIL(dt_tokenize_files(t, &more, 1, at("few.bin"), NULL, &err), err,
               "has token 5, which was added to the tokenizer, and the model has 5 words");
    dt_tokenizer_close(t);
}

static void check_text_of(const struct dt_tokenizer *t, const char *tokens, const char *want)
{
    struct dt_err err;
    struct dt_buf got = {0};
    CHECK_OK(dt_detokenize_file(t, at(tokens), at("text"), &err), err);
    CHECK_OK(dt_fs_read(at("text"), 1 << 20, &got, &err), err);
    CHECK_STR(dt_buf_cstr(&got), want);
    dt_buf_finish(&got);
}

TEST(tokens_become_the_texts_that_they_were_made_of)
{
    struct dt_err err;
    struct dt_tokenizer *t = small_tokenizer();
    text_file("text", "something longer than what comes", 32);
    const char *texts[] = {text_file("a", "ab b", 4), text_file("b", "<s>a", 4)};
    CHECK_OK(dt_tokenize_files(t, texts, 2, at("ids.bin"), NULL, &err), err);
    check_text_of(t, "ids.bin", "ab b<s>a");
    texts[0] = at("a"), texts[1] = at("b");
    CHECK_OK(dt_tokenize_files(NULL, texts, 2, at("bytes.bin"), NULL, &err), err);
    check_text_of(NULL, "bytes.bin", "ab b<s>a");
    CHECK_FAIL(dt_detokenize_file(NULL, at("ids.bin"), NULL, &err), err, "by --tokenizer");
    CHECK_FAIL(dt_detokenize_file(t, at("ids.bin"), at("ids.bin"), &err), err,
               "is the file of tokens and the file to write");
    check_text_of(t, "ids.bin", "ab b<s>a");
    dt_tokenizer_close(t);
}
