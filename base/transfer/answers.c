/* SPDX-License-Identifier: Apache-2.0 */
#include "base/transfer/answers.h"

#include "base/str.h"
#include "base/transfer/date.h"
#include "base/transfer/xml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The part of PATH behind "ROOT/", or NULL. */
static const char *below(const char *path, const char *root)
{
    size_t n = strlen(root);
    return strncmp(path, root, n) == 0 && path[n] == '/' ? path + n + 1 : NULL;
}

static int not_it(const char *what, const char *text, struct dt_err *err)
{
    char shown[60];
    return dt_err_set(err, DT_E_PROTOCOL, "the store wrote %s \"%s\"", what,
                      dt_str_printable(dt_bytes_of(text), shown, sizeof shown));
}

static int copy(char *to, size_t size, const char *what, const char *text, struct dt_err *err)
{
    size_t n = strlen(text);
    if (n >= size)
        return not_it(what, text, err);
    memcpy(to, text, n + 1);
    return 0;
}

static int copy_tag(char tag[DT_TAG_MAX], const char *text, struct dt_err *err)
{
    return copy(tag, DT_TAG_MAX, "a tag", text, err);
}

static int copy_size(uint64_t *size, const char *text, struct dt_err *err)
{
    int64_t n;
    if (dt_str_to_int(text, 0, INT64_MAX, &n, NULL) < 0)
        return not_it("a size", text, err);
    *size = (uint64_t)n;
    return 0;
}

static int hex(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* "a%2Fb+c" to "a/b c", in place. False: that is no such text, or has a NUL. */
static bool unescape(char *text)
{
    char *to = text;
    for (const char *at = text; *at; at++) {
        char c = *at == '+' ? ' ' : *at;
        if (*at == '%') {
            int high = hex(at[1]), low = high < 0 ? -1 : hex(at[2]);
            if (low < 0 || high + low == 0)
                return false;
            c = (char)(high << 4 | low);
            at += 2;
        }
        *to++ = c;
    }
    *to = '\0';
    return true;
}

/* -- errors ----------------------------------------------------------------------------------- */

struct error_walk {
    struct dt_answer_error *e;
    bool is_error;
};

/* What is too long for its place is cut: it is for people. */
static int on_error_element(void *arg, const char *path, const char *text, struct dt_err *err)
{
    struct error_walk *w = arg;
    const char *name = below(path, "Error");
    (void)err;
    if (strcmp(path, "Error") == 0)
        w->is_error = true;
    else if (!name)
        /* Amazon's STS wraps it. */
        name = below(path, "ErrorResponse/Error");
    if (strcmp(path, "ErrorResponse") == 0)
        w->is_error = true;
    if (name && strcmp(name, "Code") == 0)
        snprintf(w->e->code, sizeof w->e->code, "%s", text);
    else if (name && strcmp(name, "Message") == 0)
        dt_str_printable(dt_bytes_of(text), w->e->message, sizeof w->e->message);
    else if (name && strcmp(name, "Region") == 0 && strlen(text) < sizeof w->e->region)
        snprintf(w->e->region, sizeof w->e->region, "%s", text);
    return 0;
}

bool dt_answer_error(struct dt_bytes document, struct dt_answer_error *e)
{
    struct error_walk w = {.e = e};
    memset(e, 0, sizeof *e);
    if (dt_xml_walk(document, on_error_element, &w, NULL) == 0 && w.is_error)
        return true;
    memset(e, 0, sizeof *e);
    return false;
}

/* -- a page of objects ------------------------------------------------------------------------ */

struct page_walk {
    struct dt_page *page;
    struct dt_listed now; /* whose end has not come yet; its key is the walk's */
    bool is_encoded;      /* keys are: the server's own word for it */
};

static int set_key(struct dt_listed *o, const char *text, struct dt_err *err)
{
    free(o->key);
    o->key = NULL;
    if (strlen(text) > (size_t)DT_KEY_MAX * 3)
        return not_it("a key", text, err);
    o->key = strdup(text);
    return o->key ? 0 : dt_err_set(err, DT_E_MEMORY, "no memory for a listing");
}

static int push(struct page_walk *w, bool is_group, struct dt_err *err)
{
    struct dt_page *p = w->page;
    if (!w->now.key || !*w->now.key)
        return not_it("an object without a key", "", err);
    if (p->len == DT_ANSWER_ROWS)
        return dt_err_set(err, DT_E_PROTOCOL, "the store wrote more than %d rows into one answer",
                          DT_ANSWER_ROWS);
    if (!p->at && !(p->at = calloc(DT_ANSWER_ROWS, sizeof *p->at)))
        return dt_err_set(err, DT_E_MEMORY, "no memory for a listing");
    w->now.is_group = is_group;
    p->at[p->len++] = w->now;
    memset(&w->now, 0, sizeof w->now);
    return 0;
}

static int on_object_element(struct page_walk *w, const char *name, const char *text,
                             struct dt_err *err)
{
    if (strcmp(name, "Key") == 0)
        return set_key(&w->now, text, err);
    if (strcmp(name, "Size") == 0)
        return copy_size(&w->now.size, text, err);
    if (strcmp(name, "ETag") == 0)
        return copy_tag(w->now.tag, text, err);
    if (strcmp(name, "LastModified") == 0 && !dt_date_of_iso(text, &w->now.changed))
        return not_it("a date", text, err);
    return 0;
}

static int on_page_element(void *arg, const char *path, const char *text, struct dt_err *err)
{
    struct page_walk *w = arg;
    const char *name = below(path, "ListBucketResult");
    if (!name)
        return strcmp(path, "ListBucketResult") == 0 ? 0 : not_it("another answer,", path, err);
    const char *of_object = below(name, "Contents");
    if (of_object)
        return on_object_element(w, of_object, text, err);
    if (strcmp(name, "Contents") == 0)
        return push(w, false, err);
    if (strcmp(name, "CommonPrefixes/Prefix") == 0)
        return set_key(&w->now, text, err);
    if (strcmp(name, "CommonPrefixes") == 0)
        return push(w, true, err);
    if (strcmp(name, "IsTruncated") == 0)
        w->page->is_cut = strcmp(text, "true") == 0;
    else if (strcmp(name, "EncodingType") == 0)
        w->is_encoded = strcmp(text, "url") == 0;
    else if (strcmp(name, "NextContinuationToken") == 0)
        return copy(w->page->next, sizeof w->page->next, "a token", text, err);
    return 0;
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const struct dt_listed *)a)->key, ((const struct dt_listed *)b)->key);
}

/* Objects and groups come in two rows of the document. */
static int settle(struct page_walk *w, struct dt_err *err)
{
    struct dt_page *p = w->page;
    for (size_t i = 0; i < p->len; i++) {
        char *key = p->at[i].key;
        if ((w->is_encoded && !unescape(key)) || strlen(key) > DT_KEY_MAX)
            return not_it("a key", key, err);
        if (p->at[i].is_group && key[strlen(key) - 1] != '/')
            return not_it("a prefix", key, err);
    }
    if (p->len)
        qsort(p->at, p->len, sizeof *p->at, by_key);
    for (size_t i = 1; i < p->len; i++)
        if (by_key(&p->at[i - 1], &p->at[i]) == 0)
            return not_it("twice the key", p->at[i].key, err);
    if (p->is_cut && !*p->next)
        return not_it("no token of a next page", "", err);
    return 0;
}

int dt_answer_page(struct dt_bytes document, struct dt_page *page, struct dt_err *err)
{
    struct page_walk w = {.page = page};
    memset(page, 0, sizeof *page);
    int rc = dt_xml_walk(document, on_page_element, &w, err);
    free(w.now.key);
    return rc < 0 ? -1 : settle(&w, err);
}

void dt_page_finish(struct dt_page *page)
{
    for (size_t i = 0; i < page->len; i++)
        free(page->at[i].key);
    free(page->at);
    memset(page, 0, sizeof *page);
}

/* -- uploads in parts ------------------------------------------------------------------------- */

struct upload_walk {
    const char *key;
    char *upload;
    char id[DT_TOKEN_TEXT]; /* of the one whose end has not come yet */
    bool is_key;
    int64_t begun, youngest;
};

static int on_upload_element(void *arg, const char *path, const char *text, struct dt_err *err)
{
    struct upload_walk *w = arg;
    const char *name = below(path, "ListMultipartUploadsResult");
    if (!name)
        return strcmp(path, "ListMultipartUploadsResult") == 0
                   ? 0
                   : not_it("another answer,", path, err);
    if (strcmp(name, "Upload/Key") == 0) {
        w->is_key = strcmp(text, w->key) == 0;
    } else if (strcmp(name, "Upload/UploadId") == 0) {
        return copy(w->id, sizeof w->id, "an upload", text, err);
    } else if (strcmp(name, "Upload/Initiated") == 0 && !dt_date_of_iso(text, &w->begun)) {
        return not_it("a date", text, err);
    } else if (strcmp(name, "Upload") == 0) {
        if (w->is_key && *w->id && w->begun >= w->youngest) {
            strcpy(w->upload, w->id);
            w->youngest = w->begun;
        }
        w->is_key = false;
        w->id[0] = '\0';
        w->begun = 0;
    }
    return 0;
}

int dt_answer_upload_of(struct dt_bytes document, const char *key, char upload[DT_TOKEN_TEXT],
                        struct dt_err *err)
{
    struct upload_walk w = {.key = key, .upload = upload};
    upload[0] = '\0';
    return dt_xml_walk(document, on_upload_element, &w, err);
}

struct parts_walk {
    struct dt_part *parts;
    size_t count;
    struct dt_part now;
    int64_t number, next;
    bool is_cut;
};

static int on_part_element(void *arg, const char *path, const char *text, struct dt_err *err)
{
    struct parts_walk *w = arg;
    const char *name = below(path, "ListPartsResult");
    if (!name)
        return strcmp(path, "ListPartsResult") == 0 ? 0 : not_it("another answer,", path, err);
    if (strcmp(name, "Part/Size") == 0)
        return copy_size(&w->now.size, text, err);
    if (strcmp(name, "Part/ETag") == 0)
        return copy_tag(w->now.tag, text, err);
    if (strcmp(name, "Part/PartNumber") == 0)
        return dt_str_to_int(text, 1, DT_PARTS_MAX, &w->number, NULL) < 0
                   ? not_it("a part", text, err)
                   : 0;
    if (strcmp(name, "NextPartNumberMarker") == 0)
        return dt_str_to_int(text, 0, DT_PARTS_MAX, &w->next, NULL) < 0
                   ? not_it("a part", text, err)
                   : 0;
    if (strcmp(name, "IsTruncated") == 0)
        w->is_cut = strcmp(text, "true") == 0;
    if (strcmp(name, "Part") != 0)
        return 0;
    if (w->number >= 1 && (uint64_t)w->number <= w->count)
        w->parts[w->number - 1] = w->now;
    w->now = (struct dt_part){0};
    w->number = 0;
    return 0;
}

int dt_answer_parts(struct dt_bytes document, struct dt_part *parts, size_t count, int *next,
                    struct dt_err *err)
{
    struct parts_walk w = {.parts = parts, .count = count};
    if (dt_xml_walk(document, on_part_element, &w, err) < 0)
        return -1;
    *next = w.is_cut ? (int)w.next : 0;
    return 0;
}

static int on_begun_element(void *arg, const char *path, const char *text, struct dt_err *err)
{
    if (strcmp(path, "InitiateMultipartUploadResult/UploadId") != 0)
        return 0;
    return copy(arg, DT_TOKEN_TEXT, "an upload", text, err);
}

int dt_answer_upload(struct dt_bytes document, char upload[DT_TOKEN_TEXT], struct dt_err *err)
{
    upload[0] = '\0';
    if (dt_xml_walk(document, on_begun_element, upload, err) < 0)
        return -1;
    return *upload ? 0 : not_it("no name of an upload", "", err);
}

/* -- keys ------------------------------------------------------------------------------------- */

/* No text of it may come into a message. */
static int keep(char *to, size_t size, const char *text, struct dt_err *err)
{
    size_t n = strlen(text);
    if (n == 0 || n >= size)
        return dt_err_set(err, DT_E_PROTOCOL, "the answer has a credential of %zu bytes", n);
    memcpy(to, text, n + 1);
    return 0;
}

static int on_keys_element(void *arg, const char *path, const char *text, struct dt_err *err)
{
    struct dt_keys *k = arg;
    const char *name = below(path, "AssumeRoleWithWebIdentityResponse/"
                                   "AssumeRoleWithWebIdentityResult/Credentials");
    if (!name)
        return 0;
    if (strcmp(name, "AccessKeyId") == 0)
        return keep(k->id, sizeof k->id, text, err);
    if (strcmp(name, "SecretAccessKey") == 0)
        return keep(k->secret, sizeof k->secret, text, err);
    if (strcmp(name, "SessionToken") == 0)
        return keep(k->token, sizeof k->token, text, err);
    if (strcmp(name, "Expiration") == 0 && !dt_date_of_iso(text, &k->expires))
        return not_it("a date", text, err);
    return 0;
}

int dt_answer_keys(struct dt_bytes document, struct dt_keys *keys, struct dt_err *err)
{
    memset(keys, 0, sizeof *keys);
    if (dt_xml_walk(document, on_keys_element, keys, err) < 0)
        return -1;
    if (!*keys->id || !*keys->secret || !*keys->token)
        return dt_err_set(err, DT_E_PROTOCOL, "the answer has no credentials");
    return 0;
}
