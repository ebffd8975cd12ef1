/* SPDX-License-Identifier: Apache-2.0 */
/* Everything the header says is compared with the size of the file before a token is looked at;
 * tokens are looked at one by one as they are used, as going through a file of many gigabytes at
 * the start would take minutes.
 *
 * The file is read and not mapped: a file that somebody cuts short, and a disk that fails, are then
 * an error with a name, where a mapping ends the process by SIGBUS without a word. */
#include "worker_runtime/data/tokens.h"

#include "base/auto.h"
#include "base/crc32c.h"
#include "worker_runtime/lfs_pointer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define HEADER_SIZE 32
#define DOCUMENTS_HEADER_SIZE 48  /* of version 2 */
#define FLAGS_HEADER_SIZE 56      /* of version 3 */
#define PAIRS 1                   /* of its flags, of which there are no others */
#define MARKED ((size_t)64 << 10) /* bytes of each end */
#define MAGIC "DTRTOKEN"
#define MAGIC_SIZE 8
#define TOKENIZERS 2
#define BYTE_TOKENIZER 1
#define NUMPY_MAGIC "\x93NUMPY"
#define LLMC_HEADER_SIZE 1024
#define HEAD_MAX LLMC_HEADER_SIZE /* of any file that is known */
#define CHUNK ((size_t)8 << 10)   /* tokens are read in such pieces */
#define MASKED ((size_t)1 << 10)

/* Where the tokens are, and what may stand there. */
struct view {
    uint64_t first; /* byte of the file */
    size_t count, width;
    uint64_t limit;        /* tokens are below it */
    bool bytes;            /* of our byte tokenizer */
    size_t documents;      /* 0: it tells of none */
    uint64_t bits, begins; /* bytes of the file where those of version 2 are */
    uint64_t trained;      /* what its header says */
    bool pairs;            /* documents are answers, the better one and the worse in turn */
};

struct dt_tokens {
    int fd;
    struct view view;
    char path[];
};

/* -- headers ---------------------------------------------------------------------------------- */

/* HEADER bytes, and then COUNT tokens of WIDTH that end where the file does. */
static int set_view(struct view *v, size_t header, uint64_t count, size_t width, uint64_t size,
                    struct dt_err *err)
{
    uint64_t there = size - header;
    if (count > there / width || count * width != there)
        return dt_err_set(
            err, DT_E_RUNTIME,
            "its header says %llu tokens of %zu bytes, and %llu bytes are there: it was "
            "cut short, or added to",
            (unsigned long long)count, width, (unsigned long long)there);
    *v = (struct view){
        .first = header, .count = (size_t)count, .width = width, .limit = (uint64_t)INT32_MAX};
    return 0;
}

static int cut_short(uint64_t size, size_t header, struct dt_err *err)
{
    return dt_err_set(err, DT_E_RUNTIME, "its header is cut short: %llu bytes of %zu",
                      (unsigned long long)size, header);
}

/* Version 2 and 3: bits and begins stand behind the tokens. All sizes are at most that of the file
 * before they are multiplied. */
static int set_documents_view(struct view *v, size_t header, uint64_t count, size_t width,
                              uint64_t documents, uint64_t size, struct dt_err *err)
{
    uint64_t there = size - header, bits = count / 8 + (count % 8 > 0);
    if (count > there / width || documents > there / 8 ||
        count * width + bits + documents * 8 != there)
        return dt_err_set(err, DT_E_RUNTIME,
                          "its header says %llu tokens of %zu bytes in %llu documents, and %llu "
                          "bytes are there: it was cut short, or added to",
                          (unsigned long long)count, width, (unsigned long long)documents,
                          (unsigned long long)there);
    if ((documents == 0) != (count == 0) || documents > count)
        return dt_err_set(err, DT_E_RUNTIME, "its header says %llu documents of %llu tokens",
                          (unsigned long long)documents, (unsigned long long)count);
    *v = (struct view){.first = header,
                       .count = (size_t)count,
                       .width = width,
                       .limit = (uint64_t)INT32_MAX,
                       .documents = (size_t)documents,
                       .bits = header + count * width};
    v->begins = v->bits + bits;
    return 0;
}

static int check_flags(uint64_t flags, uint64_t documents, struct dt_err *err)
{
    if (flags & ~(uint64_t)PAIRS)
        return dt_err_set(
            err, DT_E_RUNTIME,
            "its header has the flags %#llx, of which this program knows %#x: a newer "
            "one made it",
            (unsigned long long)flags, (unsigned)PAIRS);
    if (flags & PAIRS && documents % 2)
        return dt_err_set(err, DT_E_RUNTIME,
                          "its header says %llu documents, which come in pairs: one is missing",
                          (unsigned long long)documents);
    return 0;
}

static int read_documents_header(struct view *v, struct dt_reader *r, uint32_t version,
                                 uint64_t count, size_t width, uint64_t size, struct dt_err *err)
{
    size_t header = version == 2 ? DOCUMENTS_HEADER_SIZE : FLAGS_HEADER_SIZE;
    uint64_t documents = dt_read_u64(r), trained = dt_read_u64(r);
    uint64_t flags = version == 2 ? 0 : dt_read_u64(r);
    if (r->bad)
        return cut_short(size, header, err);
    if (set_documents_view(v, header, count, width, documents, size, err) < 0 ||
        check_flags(flags, documents, err) < 0)
        return -1;
    v->pairs = flags & PAIRS;
    if (trained > count)
        return dt_err_set(err, DT_E_RUNTIME, "its header says that %llu of %llu tokens are trained",
                          (unsigned long long)trained, (unsigned long long)count);
    v->trained = trained;
    return 0;
}

static int read_header(struct view *v, struct dt_bytes head, uint64_t size, struct dt_err *err)
{
    struct dt_reader r = dt_reader_over(head.at, head.len);
    dt_read_bytes(&r, MAGIC_SIZE);
    uint32_t version = dt_read_u32(&r), width = dt_read_u32(&r);
    uint32_t tokenizer = dt_read_u32(&r), vocabulary = dt_read_u32(&r);
    uint64_t count = dt_read_u64(&r);
    if (r.bad)
        return cut_short(size, HEADER_SIZE, err);
    if (version < 1 || version > 3)
        return dt_err_set(err, DT_E_RUNTIME,
                          "its version is %u; this program reads versions 1 to 3", version);
    if (width != 2 && width != 4)
        return dt_err_set(err, DT_E_RUNTIME, "its header says %u bytes a token; 2 and 4 are known",
                          width);
    if (tokenizer >= TOKENIZERS)
        return dt_err_set(err, DT_E_RUNTIME, "its header names tokenizer %u; 0 and 1 are known",
                          tokenizer);
    if (vocabulary > INT32_MAX)
        return dt_err_set(err, DT_E_RUNTIME,
                          "its header says a vocabulary of %u; at most %d is possible", vocabulary,
                          INT32_MAX);
    int rc = version == 1 ? set_view(v, HEADER_SIZE, count, width, size, err)
                          : read_documents_header(v, &r, version, count, width, size, err);
    if (rc < 0)
        return -1;
    if (vocabulary)
        v->limit = vocabulary;
    v->bytes = tokenizer == BYTE_TOKENIZER;
    return 0;
}

/* The files of llm.c: 256 numbers of 32 bits, of which three say something, and then the tokens. */
static const struct llmc {
    uint32_t magic, version;
    size_t width;
} llmc_kinds[] = {{20240520, 1, 2}, {20240801, 7, 4}};

static const struct llmc *llmc_kind(struct dt_bytes head)
{
    struct dt_reader r = dt_reader_over(head.at, head.len);
    uint32_t magic = dt_read_u32(&r);
    for (size_t i = 0; i < sizeof llmc_kinds / sizeof *llmc_kinds; i++)
        if (!r.bad && magic == llmc_kinds[i].magic)
            return &llmc_kinds[i];
    return NULL;
}

static int read_llmc(struct view *v, const struct llmc *kind, struct dt_bytes head, uint64_t size,
                     struct dt_err *err)
{
    struct dt_reader r = dt_reader_over(head.at, head.len);
    dt_read_u32(&r);
    uint32_t version = dt_read_u32(&r), count = dt_read_u32(&r);
    if (size < LLMC_HEADER_SIZE)
        return cut_short(size, LLMC_HEADER_SIZE, err);
    if (version != kind->version)
        return dt_err_set(err, DT_E_RUNTIME,
                          "it is a file of llm.c of version %u; this program reads version %u",
                          version, kind->version);
    return set_view(v, LLMC_HEADER_SIZE, count, kind->width, size, err);
}

static int read_raw(struct view *v, uint64_t size, int raw_width, struct dt_err *err)
{
    if (raw_width != 2 && raw_width != 4)
        return dt_err_set(err, DT_E_USAGE,
                          "it has no header of ours; if it is raw little-endian tokens, say how "
                          "wide they are with data.raw_width, 2 or 4, and of a text make tokens "
                          "by dtrun-train tokenize");
    size_t width = (size_t)raw_width;
    if (size % width)
        return dt_err_set(err, DT_E_RUNTIME,
                          "%llu bytes are no whole number of tokens of %zu bytes (data.raw_width)",
                          (unsigned long long)size, width);
    return set_view(v, 0, size / width, width, size, err);
}

static bool begins_with(struct dt_bytes head, const char *magic)
{
    return head.len >= strlen(magic) && memcmp(head.at, magic, strlen(magic)) == 0;
}

/* HEAD: the first HEAD_MAX bytes of a file of SIZE, or all of it. */
static int read_any(struct view *v, struct dt_bytes head, uint64_t size, int raw_width,
                    struct dt_err *err)
{
    const struct llmc *llmc = llmc_kind(head);
    if (size == 0)
        return dt_err_set(err, DT_E_RUNTIME, "it is empty");
    if (begins_with(head, MAGIC))
        return read_header(v, head, size, err);
    if (llmc)
        return read_llmc(v, llmc, head, size, err);
    if (begins_with(head, NUMPY_MAGIC))
        return dt_err_set(
            err, DT_E_USAGE,
            "it is a NumPy file (.npy), whose header would be taken for tokens; write "
            "the tokens alone, with array.tofile(), and set data.raw_width");
    if (dt_is_lfs_pointer(head))
        return dt_err_set(err, DT_E_USAGE, DT_LFS_POINTER_TEXT);
    return read_raw(v, size, raw_width, err);
}

static bool says_vocabulary(const struct view *v)
{
    return v->limit != (uint64_t)INT32_MAX;
}

static void narrow(struct view *v, uint64_t vocabulary)
{
    v->limit = vocabulary < v->limit ? vocabulary : v->limit;
}

/* VOCABULARY: of the model, 0: not known. A header that promises greater tokens is not waited for
 * until one comes. */
static int view_init(struct view *v, struct dt_bytes head, uint64_t size, int raw_width,
                     size_t vocabulary, struct dt_err *err)
{
    if (read_any(v, head, size, raw_width, err) < 0)
        return -1;
    if (vocabulary && vocabulary < v->limit && says_vocabulary(v))
        return dt_err_set(err, DT_E_RUNTIME,
                          "it was made for a vocabulary of %llu, and that of the model is %zu; "
                          "tokenize the text for this model, or give the model that vocabulary",
                          (unsigned long long)v->limit, vocabulary);
    if (vocabulary)
        narrow(v, vocabulary);
    return 0;
}

/* -- tokens ----------------------------------------------------------------------------------- */

/* Token number I, whose bytes are at P. */
static int take(const struct view *v, size_t i, const uint8_t *p, int32_t *out, struct dt_err *err)
{
    uint32_t low = p[0] | (uint32_t)p[1] << 8;
    uint32_t token = v->width == 2 ? low : low | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
    if (token >= v->limit)
        return dt_err_set(err, DT_E_RUNTIME,
                          "token %zu is %u, and the vocabulary ends at %llu: the file was made for "
                          "another vocabulary, or with another width",
                          i, token, (unsigned long long)v->limit - 1);
    *out = (int32_t)token;
    return 0;
}

/* Document number I begins at token *OUT, which the 8 bytes at P say; the one before it at BEFORE.
 */
static int take_begin(const struct view *v, size_t i, const uint8_t *p, uint64_t before,
                      uint64_t *out, struct dt_err *err)
{
    struct dt_reader r = dt_reader_over(p, 8);
    uint64_t begin = dt_read_u64(&r);
    if (i == 0 ? begin != 0 : begin <= before || begin >= v->count)
        return dt_err_set(err, DT_E_RUNTIME,
                          "document %zu begins at token %llu, and the one before it at %llu: the "
                          "file is damaged",
                          i, (unsigned long long)begin, (unsigned long long)before);
    *out = begin;
    return 0;
}

/* LEN bytes from AT on, all of them. */
static int read_at(const struct dt_tokens *t, uint8_t *to, size_t len, uint64_t at,
                   struct dt_err *err)
{
    while (len) {
        ssize_t n = pread(t->fd, to, len, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot read");
        if (n == 0)
            return dt_err_set(err, DT_E_RUNTIME,
                              "it ends at byte %llu now: it was cut short while it is in use",
                              (unsigned long long)at);
        to += n;
        at += (uint64_t)n;
        len -= (size_t)n;
    }
    return 0;
}

static int open_file(struct dt_tokens *t, int raw_width, size_t vocabulary, struct dt_err *err)
{
    struct stat st;
    uint8_t head[HEAD_MAX];
    t->fd = open(t->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe would be waited for */
    if (t->fd < 0 || fstat(t->fd, &st) < 0)
        return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot open");
    if (!S_ISREG(st.st_mode))
        return dt_err_set(err, DT_E_RUNTIME, "it is no ordinary file");
    uint64_t size = (uint64_t)st.st_size;
    size_t len = size < sizeof head ? (size_t)size : sizeof head;
    if (read_at(t, head, len, 0, err) < 0)
        return -1;
    return view_init(&t->view, (struct dt_bytes){head, len}, size, raw_width, vocabulary, err);
}

struct dt_tokens *dt_tokens_open(const char *path, int raw_width, size_t vocabulary,
                                 struct dt_err *err)
{
    size_t path_size = strlen(path) + 1;
    struct dt_tokens *t = calloc(1, sizeof *t + path_size);
    if (!t) {
        dt_err_set(err, DT_E_MEMORY, "no memory to open %s", path);
        return NULL;
    }
    memcpy(t->path, path, path_size);
    if (open_file(t, raw_width, vocabulary, err) == 0)
        return t;
    dt_err_wrap(err, "%s", path);
    dt_tokens_close(t);
    return NULL;
}

void dt_tokens_close(struct dt_tokens *t)
{
    if (!t)
        return;
    if (t->fd >= 0)
        close(t->fd);
    free(t);
}

size_t dt_tokens_count(const struct dt_tokens *t)
{
    return t->view.count;
}

uint64_t dt_tokens_vocabulary(const struct dt_tokens *t)
{
    return says_vocabulary(&t->view) ? t->view.limit : 0;
}

void dt_tokens_narrow(struct dt_tokens *t, uint64_t vocabulary)
{
    narrow(&t->view, vocabulary);
}

bool dt_tokens_are_bytes(const struct dt_tokens *t)
{
    return t->view.bytes;
}

/* Of LEN bytes from AT on, behind CRC. What cannot be read does not count; whoever trains with it
 * is told. */
static uint32_t mark(const struct dt_tokens *t, uint32_t crc, uint64_t at, size_t len)
{
    uint8_t bytes[CHUNK];
    for (size_t n; len > 0; at += n, len -= n) {
        n = len < sizeof bytes ? len : sizeof bytes;
        if (read_at(t, bytes, n, at, NULL) < 0)
            break;
        crc = dt_crc32c(crc, (struct dt_bytes){bytes, n});
    }
    return crc;
}

uint32_t dt_tokens_mark(const struct dt_tokens *t)
{
    const struct view *v = &t->view;
    uint64_t size = v->documents ? v->begins + (uint64_t)v->documents * 8
                                 : v->first + (uint64_t)v->count * v->width;
    size_t n = size < MARKED ? (size_t)size : MARKED;
    return mark(t, mark(t, 0, 0, n), size - n, n);
}

size_t dt_tokens_documents(const struct dt_tokens *t)
{
    return t->view.documents;
}

bool dt_tokens_are_pairs(const struct dt_tokens *t)
{
    return t->view.pairs;
}

static int read_begins(const struct dt_tokens *t, size_t first, size_t count, uint64_t *begins,
                       struct dt_err *err)
{
    const struct view *v = &t->view;
    uint8_t bytes[CHUNK];
    uint64_t before = 0;
    size_t skip = first > 0; /* the one before it is read too */
    for (size_t k = 0; k < count + skip; k++) {
        size_t i = first - skip + k, at = k % (sizeof bytes / 8) * 8, left = (count + skip - k) * 8;
        if (at == 0 && read_at(t, bytes, left < sizeof bytes ? left : sizeof bytes,
                               v->begins + (uint64_t)i * 8, err) < 0)
            return -1;
        if (k < skip) {
            struct dt_reader r = dt_reader_over(bytes, 8);
            before = dt_read_u64(&r);
            continue;
        }
        if (take_begin(v, i, bytes + at, before, &before, err) < 0)
            return -1;
        begins[k - skip] = before;
    }
    return 0;
}

int dt_tokens_begins(const struct dt_tokens *t, size_t first, size_t count, uint64_t *begins,
                     struct dt_err *err)
{
    return read_begins(t, first, count, begins, err) < 0 ? dt_err_wrap(err, "%s", t->path) : 0;
}

static int read_trained(const struct dt_tokens *t, size_t first, size_t count, bool *trained,
                        struct dt_err *err)
{
    uint8_t bytes[CHUNK];
    for (size_t k = 0, n; k < count; k += n) {
        size_t from = (first + k) / 8, skip = (first + k) % 8;
        n = count - k < sizeof bytes * 8 - skip ? count - k : sizeof bytes * 8 - skip;
        if (t->view.documents == 0)
            memset(bytes, 0xff, sizeof bytes);
        else if (read_at(t, bytes, (skip + n + 7) / 8, t->view.bits + from, err) < 0)
            return -1;
        for (size_t i = 0; i < n; i++)
            trained[k + i] = bytes[(skip + i) / 8] >> (skip + i) % 8 & 1;
    }
    return 0;
}

int dt_tokens_trained(const struct dt_tokens *t, size_t first, size_t count, bool *trained,
                      struct dt_err *err)
{
    return read_trained(t, first, count, trained, err) < 0 ? dt_err_wrap(err, "%s", t->path) : 0;
}

size_t dt_tokens_samples(const struct dt_tokens *t, size_t positions)
{
    return t->view.count && positions ? (t->view.count - 1) / positions : 0;
}

static int read_tokens(const struct dt_tokens *t, size_t first, size_t count, int32_t *ids,
                       struct dt_err *err)
{
    const struct view *v = &t->view;
    const size_t most = CHUNK / v->width;
    uint8_t bytes[CHUNK];
    for (size_t k = 0; k < count; k++) {
        size_t left = count - k, i = first + k;
        if (k % most == 0 && read_at(t, bytes, (left < most ? left : most) * v->width,
                                     v->first + i * v->width, err) < 0)
            return -1;
        if (take(v, i, bytes + k % most * v->width, &ids[k], err) < 0)
            return -1;
    }
    return 0;
}

int dt_tokens_read(const struct dt_tokens *t, size_t first, size_t count, int32_t *ids,
                   struct dt_err *err)
{
    return read_tokens(t, first, count, ids, err) < 0 ? dt_err_wrap(err, "%s", t->path) : 0;
}

/* Of TARGETS, which are tokens FIRST to FIRST + COUNT - 1, those that are not trained on. */
static int leave_out(const struct dt_tokens *t, size_t first, size_t count, int32_t *targets,
                     struct dt_err *err)
{
    bool trained[MASKED];
    for (size_t k = 0, n; k < count; k += n) {
        n = count - k < MASKED ? count - k : MASKED;
        if (read_trained(t, first + k, n, trained, err) < 0)
            return -1;
        for (size_t i = 0; i < n; i++)
            if (!trained[i])
                targets[k + i] = -1;
    }
    return 0;
}

/* Tokens FIRST to FIRST + POSITIONS: all but the last are inputs, all but the first are targets. */
static int read_sample(const struct dt_tokens *t, size_t first, size_t positions, int32_t *ids,
                       int32_t *targets, struct dt_err *err)
{
    if (read_tokens(t, first, positions, ids, err) < 0)
        return -1;
    memcpy(targets, ids + 1, (positions - 1) * sizeof *ids);
    if (read_tokens(t, first + positions, 1, targets + positions - 1, err) < 0)
        return -1;
    return t->view.documents ? leave_out(t, first + 1, positions, targets, err) : 0;
}

int dt_tokens_sample(const struct dt_tokens *t, size_t i, size_t positions, int32_t *ids,
                     int32_t *targets, struct dt_err *err)
{
    size_t samples = dt_tokens_samples(t, positions);
    if (samples == 0)
        return dt_err_set(err, DT_E_RUNTIME,
                          "%s holds %zu tokens, too few for one sample of sequence length %zu and "
                          "the token behind it; give a longer file or a smaller "
                          "data.sequence_length",
                          t->path, t->view.count, positions);
    if (t->view.pairs)
        return dt_err_set(
            err, DT_E_USAGE,
            "%s holds pairs of answers, of which half are the worse ones: samples cut "
            "out of it would teach both",
            t->path);
    if (i >= samples)
        return dt_err_set(err, DT_E_RUNTIME, "%s: there is no sample %zu; there are %zu", t->path,
                          i, samples);
    return read_sample(t, i * positions, positions, ids, targets, err) < 0
               ? dt_err_wrap(err, "%s", t->path)
               : 0;
}

static bool bit_of(struct dt_bytes file, const struct view *v, uint64_t i)
{
    return file.at[v->bits + i / 8] >> i % 8 & 1;
}

/* Bits behind the last token are 0, the first token of a document is not trained on, and the header
 * counts what is. */
static int check_documents(const struct view *v, struct dt_bytes file, struct dt_err *err)
{
    uint64_t begin = 0, trained = 0;
    for (uint64_t i = 0; i < (v->count + 7) / 8 * 8; i++) {
        trained += bit_of(file, v, i);
        if (i >= v->count && bit_of(file, v, i))
            return dt_err_set(err, DT_E_RUNTIME, "it marks tokens behind its last one");
    }
    for (size_t i = 0; i < v->documents; i++) {
        if (take_begin(v, i, file.at + v->begins + i * 8, begin, &begin, err) < 0)
            return -1;
        if (bit_of(file, v, begin))
            return dt_err_set(err, DT_E_RUNTIME,
                              "the first token of document %zu is trained on, and nothing stands "
                              "before it",
                              i);
    }
    if (trained != v->trained)
        return dt_err_set(err, DT_E_RUNTIME,
                          "its header says that %llu tokens are trained on, and %llu are marked",
                          (unsigned long long)v->trained, (unsigned long long)trained);
    return 0;
}

int dt_tokens_check(struct dt_bytes file, int raw_width, struct dt_err *err)
{
    struct view v;
    int32_t token;
    struct dt_bytes head = {file.at, file.len < HEAD_MAX ? file.len : HEAD_MAX};
    if (view_init(&v, head, file.len, raw_width, 0, err) < 0)
        return -1;
    for (size_t i = 0; i < v.count; i++)
        if (take(&v, i, file.at + v.first + i * v.width, &token, err) < 0)
            return -1;
    return v.documents ? check_documents(&v, file, err) : 0;
}
