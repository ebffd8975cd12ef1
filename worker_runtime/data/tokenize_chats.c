/* SPDX-License-Identifier: Apache-2.0 */
/* Whole exchanges are left out of a conversation that is too long, so that each answer that is
 * there has its end: a model that never sees the end of an answer never stops. */
#include "worker_runtime/data/tokenize_chats.h"

#include "base/draft.h"
#include "worker_runtime/data/chat/coder.h"
#include "worker_runtime/data/chat/lines.h"
#include "worker_runtime/data/chat/surrogates.h"
#include "worker_runtime/data/token_writer.h"
#include "worker_runtime/data/tokenize.h"
#include "worker_runtime/data/tokenizer/bpe.h"
#include "worker_runtime/data/tokenizer/tokenizer.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#define PROGRESS_EVERY 256 /* lines */

struct chats {
    const struct dt_tokenizer *tokenizer; /* NULL: a byte is a token */
    const struct dt_chat_options *options;
    struct dt_chat_counts *counts;
    const char *out;
    struct dt_token_writer *writer, *validation; /* VALIDATION may be NULL */
    double share;                                /* of lines, for VALIDATION */
    uint64_t kept;                               /* lines of which something is written */
    struct dt_buf mended;                        /* the line at hand, where it has to be */
    const struct dt_chat_source *source;         /* of the file at hand; NULL: it says itself */
    struct dt_chat_coder *coder;                 /* of conversations */
    struct dt_rendered rendered;
    struct dt_encoder *encoder; /* of texts */
    struct dt_ids ids;
    bool *all; /* true, as many as ids were so far */
    size_t all_len;
};

/* Where the line at hand goes: to validation, where its share has grown by a whole line. */
static struct dt_token_writer *writer_of(const struct chats *z)
{
    double share = z->share, lines = (double)z->kept;
    bool aside = z->validation && floor((lines + 1) * share) > floor(lines * share);
    return aside ? z->validation : z->writer;
}

static int put_into(struct chats *z, struct dt_token_writer *w, const uint32_t *ids,
                    const bool *trained, size_t count, struct dt_err *err)
{
    if (w == z->writer)
        z->counts->documents++;
    else
        z->counts->validation_documents++;
    return dt_token_writer_document(w, ids, trained, count, err);
}

static int put_document(struct chats *z, const uint32_t *ids, const bool *trained, size_t count,
                        struct dt_err *err)
{
    return put_into(z, writer_of(z), ids, trained, count, err);
}

/* -- conversations ---------------------------------------------------------------------------- */

/* COUNT exchanges: the first ones, or the last ones where only the last answer is trained on. */
static int encode(struct chats *z, const struct dt_conversation *c, size_t count,
                  struct dt_chat_tokens *out, struct dt_err *err)
{
    const struct dt_chat_options *o = z->options;
    size_t first = o->trains.last_answer_only ? c->count - count : 0;
    if (dt_template_render(o->template, &o->trains, c, first, count, &z->rendered, err) < 0)
        return -1;
    return dt_chat_coder_encode(z->coder, &z->rendered, out, err);
}

static bool fits(const struct chats *z, const struct dt_chat_tokens *t)
{
    return z->options->max_tokens == 0 || t->count <= z->options->max_tokens;
}

/* As many exchanges as fit, by halving: *COUNT of them, 0 where one is too long. */
static int fit(struct chats *z, const struct dt_conversation *c, size_t *count,
               struct dt_chat_tokens *out, struct dt_err *err)
{
    size_t most = c->count, least = 0; /* LEAST fit, MOST do not */
    while (most - least > 1) {
        size_t middle = least + (most - least) / 2;
        if (encode(z, c, middle, out, err) < 0)
            return -1;
        if (fits(z, out))
            least = middle;
        else
            most = middle;
    }
    *count = least;
    return least ? encode(z, c, least, out, err) : 0;
}

static int put_conversation(struct chats *z, const struct dt_conversation *c, struct dt_err *err)
{
    struct dt_chat_tokens tokens;
    size_t count = c->count;
    if (encode(z, c, count, &tokens, err) < 0)
        return -1;
    if (!fits(z, &tokens) && fit(z, c, &count, &tokens, err) < 0)
        return -1;
    if (count == 0) {
        z->counts->too_long++;
        return 0;
    }
    z->counts->cut += count < c->count;
    int rc = put_document(z, tokens.ids, tokens.trained, tokens.count, err);
    z->kept++;
    return rc;
}

static void note_unfit(struct chats *z, const struct dt_lines *lines, const char *why)
{
    struct dt_chat_counts *n = z->counts;
    char where[120];
    if (n->unfit++ == 0)
        snprintf(n->first_unfit, sizeof n->first_unfit, "%s: %s",
                 dt_lines_where(lines, where, sizeof where), why);
}

static int take_conversation(struct chats *z, const struct dt_lines *lines, struct dt_bytes line,
                             struct dt_err *err)
{
    struct dt_conversation c = {0};
    const char *why;
    int rc = z->source ? dt_conversation_read_as(&c, line, &z->source->columns, &why, err)
                       : dt_conversation_read(&c, line, &why, err);
    if (rc == 0)
        note_unfit(z, lines, why);
    else if (rc > 0)
        rc = put_conversation(z, &c, err);
    dt_conversation_finish(&c);
    return rc;
}

/* -- preferences ------------------------------------------------------------------------------ */

/* How many of the last exchanges fit with either answer behind them; 0: not even one. */
static int fit_both(struct chats *z, const struct dt_preference *p, size_t *count,
                    struct dt_err *err)
{
    const struct dt_conversation *both[] = {&p->chosen, &p->rejected};
    struct dt_chat_tokens tokens;
    *count = p->chosen.count;
    for (size_t i = 0; i < 2; i++) {
        if (*count == 0 || encode(z, both[i], *count, &tokens, err) < 0)
            return *count ? -1 : 0;
        struct dt_conversation last = *both[i];
        last.exchanges += last.count - *count;
        last.count = *count;
        if (!fits(z, &tokens) && fit(z, &last, count, &tokens, err) < 0)
            return -1;
    }
    return 0;
}

static int put_preference(struct chats *z, const struct dt_preference *p, struct dt_err *err)
{
    const struct dt_conversation *both[] = {&p->chosen, &p->rejected};
    struct dt_token_writer *w = writer_of(z);
    struct dt_chat_tokens tokens;
    size_t count;
    if (fit_both(z, p, &count, err) < 0)
        return -1;
    if (count == 0) {
        z->counts->too_long++;
        return 0;
    }
    z->counts->cut += count < p->chosen.count;
    for (size_t i = 0; i < 2; i++)
        if (encode(z, both[i], count, &tokens, err) < 0 ||
            put_into(z, w, tokens.ids, tokens.trained, tokens.count, err) < 0)
            return -1;
    z->kept++;
    return 0;
}

static int take_preference(struct chats *z, const struct dt_lines *lines, struct dt_bytes line,
                           struct dt_err *err)
{
    struct dt_preference p = {0};
    const char *why;
    int rc = z->source ? dt_preference_read_as(&p, line, &z->source->columns, &why, err)
                       : dt_preference_read(&p, line, &why, err);
    if (rc == 0)
        note_unfit(z, lines, why);
    else if (rc > 0)
        rc = put_preference(z, &p, err);
    dt_preference_finish(&p);
    return rc;
}

/* -- texts ------------------------------------------------------------------------------------ */

static int take_ids(void *arg, const uint32_t *ids, size_t count, struct dt_err *err)
{
    struct chats *z = arg;
    (void)err;
    dt_ids_put(&z->ids, ids, count);
    return 0;
}

static int encode_text(struct chats *z, const char *text, struct dt_err *err)
{
    z->ids.len = 0;
    if (!z->encoder) {
        for (const uint8_t *p = (const uint8_t *)text; *p; p++)
            dt_ids_put(&z->ids, &(uint32_t){*p}, 1);
        dt_ids_put(&z->ids, &(uint32_t){DT_BYTE_END}, 1);
        return 0;
    }
    if (dt_encoder_put(z->encoder, dt_bytes_of(text), err) < 0 ||
        dt_encoder_end(z->encoder, dt_tokenizer_end(z->tokenizer), err) < 0)
        return -1;
    return dt_encoder_drain(z->encoder, err);
}

static int make_room(struct chats *z, struct dt_err *err)
{
    if (z->ids.len > z->all_len) {
        bool *all = realloc(z->all, z->ids.len);
        z->ids.bad = z->ids.bad || !all;
        if (all) {
            memset(all, true, z->ids.len);
            z->all = all;
            z->all_len = z->ids.len;
        }
    }
    return z->ids.bad ? dt_err_set(err, DT_E_MEMORY, "no memory for the tokens of a text") : 0;
}

/* A document of one token teaches nothing. */
static int put_text(struct chats *z, const char *text, struct dt_err *err)
{
    if (encode_text(z, text, err) < 0 || make_room(z, err) < 0)
        return -1;
    size_t len = z->ids.len, most = z->options->max_tokens ? z->options->max_tokens : len;
    z->counts->cut += len > most;
    for (size_t i = 0, n; i + 1 < len; i += n) {
        n = len - i < most ? len - i : most;
        if (put_document(z, z->ids.at + i, z->all, n, err) < 0)
            return -1;
    }
    z->kept++;
    return 0;
}

static int take_text(struct chats *z, const struct dt_lines *lines, struct dt_bytes line,
                     struct dt_err *err)
{
    char *text = dt_conversation_read_text(line, z->options->key, err);
    int rc = text ? 0 : -1;
    if (text && !*text)
        note_unfit(z, lines, "the text is empty");
    else if (text)
        rc = put_text(z, text, err);
    free(text);
    return rc;
}

/* -- files ------------------------------------------------------------------------------------ */

static bool is_blank(struct dt_bytes line)
{
    for (size_t i = 0; i < line.len; i++)
        if (!strchr(" \t\r", line.at[i]) || !line.at[i])
            return false;
    return true;
}

/* A byte order mark, blanks, and a bracket; of an array more is said by who reads it. */
static bool begins_object(struct dt_bytes line)
{
    static const char mark[] = "\xef\xbb\xbf";
    size_t at = line.len >= 3 && memcmp(line.at, mark, 3) == 0 ? 3 : 0;
    while (at < line.len && line.at[at] && strchr(" \t\r", line.at[at]))
        at++;
    return at < line.len && (line.at[at] == '{' || line.at[at] == '[');
}

/* What people have in place of JSON Lines most often. */
static int check_first_line(const struct dt_lines *lines, struct dt_bytes line, struct dt_err *err)
{
    static const struct {
        const char *begin, *words;
    } others[] = {
        {"PAR1", "it is a Parquet file, which is not read here; write its rows as JSON Lines"},
        {"\x1f\x8b", "it is compressed by gzip; unpack it, and name - to read what zcat prints"},
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        size_t len = strlen(others[i].begin);
        if (line.len >= len && memcmp(line.at, others[i].begin, len) == 0)
            return dt_err_set(err, DT_E_USAGE, "%s", others[i].words);
    }
    if (lines->array || begins_object(line))
        return 0;
    return dt_err_set(
        err, DT_E_USAGE,
        "it is no JSON Lines, where each line is an object, as {\"text\": \"...\"}; of a table "
        "(CSV) or a plain text make that first");
}

/* *LINE is read on where half a character is in it: data from the web has some, and nobody wants to
 * look for them. */
static int mend(struct chats *z, const struct dt_lines *lines, struct dt_bytes *line,
                struct dt_err *err)
{
    struct dt_chat_counts *n = z->counts;
    if (!dt_surrogates_are_in(*line))
        return 0;
    dt_buf_clear(&z->mended);
    dt_buf_put(&z->mended, line->at, line->len);
    if (z->mended.bad)
        return dt_err_set(err, DT_E_MEMORY, "no memory for a line");
    dt_surrogates_replace(z->mended.at, z->mended.len);
    *line = (struct dt_bytes){z->mended.at, z->mended.len};
    if (n->mended++ == 0)
        dt_lines_where(lines, n->first_mended, sizeof n->first_mended);
    return 0;
}

static int take_line(struct chats *z, const struct dt_lines *lines, struct dt_bytes line,
                     struct dt_err *err)
{
    char where[PATH_MAX];
    if (is_blank(line))
        return 0;
    z->counts->lines++;
    if (z->options->progress && z->counts->lines % PROGRESS_EVERY == 0)
        z->options->progress(z->options->progress_arg, z->counts->lines);
    if (lines->number == 1 && check_first_line(lines, line, err) < 0)
        return dt_err_wrap(err, "%s", lines->name);
    int rc = mend(z, lines, &line, err);
    if (rc == 0)
        rc = z->options->preferences ? take_preference(z, lines, line, err)
             : z->coder              ? take_conversation(z, lines, line, err)
                                     : take_text(z, lines, line, err);
    return rc < 0 ? dt_err_wrap(err, "%s", dt_lines_where(lines, where, sizeof where)) : 0;
}

static bool is_same(const struct stat *a, const char *path)
{
    struct stat b;
    return path && stat(path, &b) == 0 && a->st_dev == b.st_dev && a->st_ino == b.st_ino;
}

static int check_file(const struct chats *z, const struct dt_lines *lines, struct dt_err *err)
{
    struct stat in;
    if (fstat(lines->fd, &in) == 0 &&
        (is_same(&in, z->out) || is_same(&in, z->options->validation)))
        return dt_err_set(err, DT_E_USAGE,
                          "%s is a text to read and the file to write; name another file to write",
                          lines->name);
    return 0;
}

/* Of several files that people name by a pattern one may be empty; a dataset is none then. */
static int has_none(const char *path, struct dt_err *err)
{
    return dt_err_set(err, DT_E_RUNTIME, "%s: there are no examples in it", path);
}

static int take_file(struct chats *z, const char *path, struct dt_err *err)
{
    struct dt_lines lines;
    struct dt_bytes line;
    uint64_t before = z->counts->lines, most = z->source ? z->source->most : 0;
    int rc = dt_lines_open(&lines, path, err);
    if (rc == 0)
        rc = check_file(z, &lines, err);
    while (rc == 0 && (most == 0 || z->counts->lines - before < most) &&
           (rc = dt_lines_next(&lines, &line, err)) > 0)
        rc = take_line(z, &lines, line, err);
    dt_lines_close(&lines);
    if (rc == 0 && z->source && z->counts->lines == before)
        rc = has_none(path, err);
    return rc;
}

/* Adds to *COUNT the lines that take_file() takes. */
static int count_file(const char *path, uint64_t most, uint64_t *count, struct dt_err *err)
{
    struct dt_lines lines;
    struct dt_bytes line;
    uint64_t n = 0;
    int rc = dt_lines_open(&lines, path, err);
    while (rc == 0 && (most == 0 || n < most) && (rc = dt_lines_next(&lines, &line, err)) > 0) {
        n += !is_blank(line);
        rc = 0;
    }
    dt_lines_close(&lines);
    *count += n;
    return rc < 0 ? -1 : 0;
}

/* A number of lines is a share of all that there are. */
static int settle_share(struct chats *z, const char *const *files, int count, struct dt_err *err)
{
    const struct dt_chat_options *o = z->options;
    uint64_t all = 0;
    z->share = o->share;
    if (!o->validation || o->set_aside == 0)
        return 0;
    for (int i = 0; i < count; i++)
        if (count_file(files[i], o->sources ? o->sources[i].most : 0, &all, err) < 0)
            return -1;
    if (all == 0) /* who reads the files says which one is empty */
        return 0;
    if (o->set_aside >= all)
        return dt_err_set(err, DT_E_USAGE,
                          "%llu of %llu examples are to be set aside for validation, and "
                          "none is left to train on",
                          (unsigned long long)o->set_aside, (unsigned long long)all);
    z->share = ((double)o->set_aside + 0.5) / (double)all; /* the half: no rounding loses one */
    return 0;
}

static int begin(struct chats *z, struct dt_err *err)
{
    const struct dt_tokenizer *t = z->tokenizer;
    struct dt_token_kind kind = {
        .tokenizer = t ? 0 : 1,
        .vocabulary = t ? dt_tokenizer_vocabulary(t) : DT_BYTE_VOCABULARY,
        .documents = true,
        .pairs = z->options->preferences,
    };
    const char *validation = z->options->validation;
    if (validation && dt_draft_is_same(validation, z->out))
        return dt_err_set(err, DT_E_USAGE, "%s is the file to write and that for validation",
                          validation);
    z->writer = dt_token_writer_open(z->out, &kind, err);
    if (!z->writer)
        return -1;
    if (validation && !(z->validation = dt_token_writer_open(validation, &kind, err)))
        return -1;
    if (z->options->template) {
        z->coder = dt_chat_coder_create(t, z->options->template, err);
        return z->coder ? 0 : -1;
    }
    if (t)
        z->encoder = dt_encoder_create(t, 0, take_ids, z, err);
    return t && !z->encoder ? -1 : 0;
}

static int nothing_left(const struct chats *z, struct dt_err *err)
{
    const struct dt_chat_counts *n = z->counts;
    struct dt_buf why = {0};
    if (n->too_long)
        dt_buf_printf(&why,
                      "%llu are longer than %llu tokens; try a greater --max-tokens (cutoff_len in "
                      "a file of LLaMA-Factory's)",
                      (unsigned long long)n->too_long, (unsigned long long)z->options->max_tokens);
    if (n->unfit)
        dt_buf_printf(&why, "%s%llu have nothing to train on, as %s", n->too_long ? "; " : "",
                      (unsigned long long)n->unfit, n->first_unfit);
    dt_err_set(err, DT_E_RUNTIME, "nothing is left to train on of %llu examples: %s",
               (unsigned long long)n->lines, dt_buf_cstr(&why));
    dt_buf_finish(&why);
    return -1;
}

static int finish(struct chats *z, struct dt_err *err)
{
    struct dt_chat_counts *n = z->counts;
    n->tokens = dt_token_writer_count(z->writer);
    n->trained = dt_token_writer_trained(z->writer);
    if (n->documents == 0)
        return nothing_left(z, err);
    if (z->validation && n->validation_documents == 0)
        return dt_err_set(err, DT_E_RUNTIME,
                          "%llu lines are too few for a share of %g for validation",
                          (unsigned long long)z->kept, z->share);
    if (z->validation)
        n->validation_tokens = dt_token_writer_count(z->validation);
    if (z->validation && dt_token_writer_commit(z->validation, err) < 0)
        return -1;
    return dt_token_writer_commit(z->writer, err);
}

int dt_tokenize_chats(const struct dt_tokenizer *t, const struct dt_chat_options *o,
                      const char *const *files, int count, const char *out,
                      struct dt_chat_counts *counts, struct dt_err *err)
{
    struct chats z = {.tokenizer = t, .options = o, .counts = counts, .out = out};
    *counts = (struct dt_chat_counts){0};
    int rc = settle_share(&z, files, count, err);
    if (rc == 0)
        rc = begin(&z, err);
    for (int i = 0; i < count && rc == 0; i++) {
        z.source = o->sources ? &o->sources[i] : NULL;
        rc = take_file(&z, files[i], err);
    }
    if (rc == 0 && counts->lines == 0)
        rc = has_none(files[0], err);
    if (rc == 0)
        rc = finish(&z, err);
    dt_chat_coder_destroy(z.coder);
    dt_rendered_finish(&z.rendered);
    dt_encoder_destroy(z.encoder);
    dt_token_writer_close(z.writer);
    dt_token_writer_close(z.validation);
    dt_ids_finish(&z.ids);
    dt_buf_finish(&z.mended);
    free(z.all);
    return rc;
}
