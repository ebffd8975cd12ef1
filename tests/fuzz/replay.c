/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a fuzz entry over every input of the corpus named in argv[1], as TAP. A line of a corpus is
 * a name and the input's bytes in base64, see corpus.py. A crash ends the run, and so fails it. */
#include "base/base64.h"
#include "base/buf.h"
#include "base/fs.h"
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <string.h>

#define CORPUS_MAX (64u << 20)

static void replay(int number, struct dt_bytes line)
{
    const uint8_t *blank = memchr(line.at, ' ', line.len);
    size_t name = blank ? (size_t)(blank - line.at) : line.len;
    struct dt_bytes text = {line.at + name + (blank != NULL), line.len - name - (blank != NULL)};
    struct dt_buf input = {0};
    struct dt_err err;
    if (dt_base64_read(text, &input, &err) < 0) {
        printf("not ok %d - %.*s: %s\n", number, (int)name, (const char *)line.at, err.text);
    } else {
        LLVMFuzzerTestOneInput(input.at, input.len);
        printf("ok %d - %.*s\n", number, (int)name, (const char *)line.at);
    }
    fflush(stdout);
    dt_buf_finish(&input);
}

static int count_lines(const struct dt_buf *corpus)
{
    int n = 0;
    for (size_t i = 0; i < corpus->len; i++)
        n += corpus->at[i] == '\n';
    return n;
}

int main(int argc, char **argv)
{
    struct dt_buf corpus = {0};
    struct dt_err err = {0};
    int read = argc == 2 ? dt_fs_read(argv[1], CORPUS_MAX, &corpus, &err) : -1;
    int count = read < 0 ? 0 : count_lines(&corpus);
    if (count == 0) {
        printf("1..1\nnot ok 1 - there is a corpus to replay: %s\n", err.text);
        dt_buf_finish(&corpus);
        return 1;
    }
    printf("1..%d\n", count);
    const uint8_t *at = corpus.at;
    for (int i = 0; i < count; i++) {
        const uint8_t *end = memchr(at, '\n', (size_t)(corpus.at + corpus.len - at));
        replay(i + 1, (struct dt_bytes){at, (size_t)(end - at)});
        at = end + 1;
    }
    dt_buf_finish(&corpus);
    return 0;
}
