/* SPDX-License-Identifier: Apache-2.0 */
#include "base/transfer/s3.h"

#include <string.h>

struct listing {
    struct dt_transfer *t;
    dt_transfer_each_fn *each;
    void *arg;
    const char *prefix;        /* that all keys begin with */
    size_t root;               /* bytes of each key in front of what the caller sees */
    char last[DT_KEY_MAX + 1]; /* the key that came last; "" before the first */
    char next[DT_TOKEN_TEXT];  /* where to go on; "" for the first page */
};

/* Keys must ascend: so a server that repeats itself cannot keep us for ever. */
static int hand_out(struct listing *l, const struct dt_listed *row, struct dt_err *err)
{
    if (strcmp(row->key, l->last) <= 0)
        return dt_err_set(err, DT_E_PROTOCOL,
                          "listing it: the store tells keys twice, or not in their order");
    if (strncmp(row->key, l->prefix, strlen(l->prefix)) != 0)
        return dt_err_set(err, DT_E_PROTOCOL,
                          "listing it: the store tells keys that are elsewhere");
    strcpy(l->last, row->key);
    size_t len = strlen(row->key);
    char *key = row->key;
    if (len <= l->root)
        return 0; /* an object that is called as the folder */
    struct dt_object o = {
        .key = key + l->root,
        .size = row->size,
        .changed_us = row->changed * 1000000,
        .folder = row->is_group,
    };
    memcpy(o.tag, row->tag, sizeof o.tag);
    if (row->is_group)
        key[len - 1] = '\0';
    bool is_file_key = dt_url_is_file_key(o.key);
    if (row->is_group)
        key[len - 1] = '/';
    return is_file_key && l->each(l->arg, &o, err) < 0 ? -1 : 0;
}

/* Takes what the server has answered. 1: another page follows. */
static int take_page(struct listing *l, struct dt_err *err)
{
    struct dt_page page;
    const struct dt_buf *body = &l->t->s3->answer.body;
    int rc = dt_answer_page((struct dt_bytes){body->at, body->len}, &page, err);
    if (rc < 0)
        dt_err_wrap(err, "listing it");
    for (size_t i = 0; i < page.len && rc == 0; i++)
        rc = hand_out(l, &page.at[i], err);
    /* A page of nothing, and more to come: that has no end either. */
    if (rc == 0 && page.is_cut && (page.len == 0 || strcmp(l->next, page.next) == 0))
        rc = dt_err_set(err, DT_E_PROTOCOL, "listing it: the store does not come to an end");
    if (rc == 0 && page.is_cut) {
        strcpy(l->next, page.next);
        rc = 1;
    }
    dt_page_finish(&page);
    return rc;
}

int dt_s3_list(struct dt_transfer *t, const char *prefix, bool deep, dt_transfer_each_fn *each,
               void *arg, struct dt_err *err)
{
    char whole[DT_KEY_MAX + 1];
    struct listing l = {.t = t, .each = each, .arg = arg};
    l.root = strlen(t->url.path) + (*t->url.path ? 1 : 0);
    l.prefix = dt_s3_key(t, prefix, whole);
    for (int rc = 1; rc == 1;) {
        struct dt_s3_call c = {.what = "listing it", .method = "GET", .key = ""};
        struct dt_sigv4_pair *q = c.query;
        *q++ = (struct dt_sigv4_pair){"list-type", "2"};
        *q++ = (struct dt_sigv4_pair){"encoding-type", "url"};
        *q++ = (struct dt_sigv4_pair){"prefix", whole};
        if (!deep)
            *q++ = (struct dt_sigv4_pair){"delimiter", "/"};
        if (*l.next)
            *q++ = (struct dt_sigv4_pair){"continuation-token", l.next};
        rc = dt_s3_do(t, &c, err);
        if (rc == 0)
            return dt_err_set(err, DT_E_RUNTIME, "listing it: there is no bucket %s",
                              t->url.bucket);
        if (rc == 1)
            rc = take_page(&l, err);
        if (rc <= 0)
            return rc;
    }
    return 0;
}
