/* SPDX-License-Identifier: Apache-2.0 */
#include "base/transfer/xml.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct walk {
    struct dt_reader r;
    dt_xml_fn *on_element;
    void *arg;
    char path[DT_XML_PATH];
    size_t path_len;
    int depth;
    size_t begins[DT_XML_DEPTH]; /* where the name of each open element stands in path */
    /* The text of each open element lies in TEXT from its mark on: an inner one's is cut off as it
     * ends. */
    char text[DT_XML_TEXT + 1];
    size_t text_len, marks[DT_XML_DEPTH];
    bool has_root;
};

static int broken(const char *why, struct dt_err *err)
{
    return dt_err_set(err, DT_E_PROTOCOL, "that is not the XML of a store: %s", why);
}

static bool at_end(const struct walk *w)
{
    return w->r.at == w->r.end;
}

/* How far it is to the next C; all that is left if there is none. */
static size_t up_to(const struct walk *w, char c)
{
    size_t left = dt_reader_left(&w->r);
    const uint8_t *found = left ? memchr(w->r.at, c, left) : NULL;
    return found ? (size_t)(found - w->r.at) : left;
}

static int put_text(struct walk *w, const char *bytes, size_t n, struct dt_err *err)
{
    if (n > DT_XML_TEXT - w->text_len)
        return broken("a text is too long", err);
    memcpy(w->text + w->text_len, bytes, n);
    w->text_len += n;
    return 0;
}

static int put_character(struct walk *w, unsigned long c, struct dt_err *err)
{
    char out[4];
    size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const unsigned char leads[] = {0, 0, 0xc0, 0xe0, 0xf0};
    if (c == 0 || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
        return broken("a number stands for no character", err);
    for (size_t i = n; i > 1; i--, c >>= 6)
        out[i - 1] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)(leads[n] | c);
    return put_text(w, out, n, err);
}

/* "#10", "#xA", "amp". */
static int put_entity(struct walk *w, const char *name, struct dt_err *err)
{
    static const struct {
        const char *name, *text;
    } known[] = {{"amp", "&"}, {"lt", "<"}, {"gt", ">"}, {"quot", "\""}, {"apos", "'"}};
    if (name[0] == '#') {
        bool hex = name[1] == 'x';
        const char *digits = name + (hex ? 2 : 1);
        if (!*digits || digits[strspn(digits, hex ? "0123456789abcdefABCDEF" : "0123456789")])
            return broken("an entity is no number", err);
        return put_character(w, strtoul(digits, NULL, hex ? 16 : 10), err);
    }
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(name, known[i].name) == 0)
            return put_text(w, known[i].text, 1, err);
    return broken("it has an entity of its own", err);
}

static int take_entity(struct walk *w, struct dt_err *err)
{
    char name[10];
    dt_read_u8(&w->r); /* & */
    size_t n = up_to(w, ';');
    if (n == 0 || n >= sizeof name || n == dt_reader_left(&w->r))
        return broken("an entity does not end", err);
    memcpy(name, dt_read_bytes(&w->r, n), n);
    name[n] = '\0';
    dt_read_u8(&w->r); /* ; */
    return put_entity(w, name, err);
}

static int take_text(struct walk *w, struct dt_err *err)
{
    size_t n = up_to(w, '<');
    const uint8_t *entity = memchr(w->r.at, '&', n);
    if (entity == w->r.at && w->depth > 0)
        return take_entity(w, err);
    if (entity > w->r.at)
        n = (size_t)(entity - w->r.at);
    const char *text = (const char *)dt_read_bytes(&w->r, n);
    if (memchr(text, '\0', n))
        return broken("it has a NUL", err);
    if (w->depth > 0)
        return put_text(w, text, n, err);
    for (size_t i = 0; i < n; i++)
        if (!strchr(" \t\r\n", text[i]))
            return broken("a text stands outside of all elements", err);
    return 0;
}

static int open_element(struct walk *w, const char *name, size_t n, struct dt_err *err)
{
    size_t slash = w->depth > 0;
    if (w->depth == DT_XML_DEPTH || n + slash >= DT_XML_PATH - w->path_len)
        return broken("its elements are too deep", err);
    if (w->depth == 0 && w->has_root)
        return broken("it has two roots", err);
    w->has_root = true;
    w->begins[w->depth] = w->path_len;
    w->marks[w->depth] = w->text_len;
    if (slash)
        w->path[w->path_len] = '/';
    memcpy(w->path + w->path_len + slash, name, n);
    w->path_len += slash + n;
    w->path[w->path_len] = '\0';
    w->depth++;
    return 0;
}

static int close_element(struct walk *w, const char *name, size_t n, struct dt_err *err)
{
    if (w->depth == 0)
        return broken("an element ends that did not begin", err);
    size_t slash = w->depth > 1;
    size_t begin = w->begins[w->depth - 1], mark = w->marks[w->depth - 1];
    if (w->path_len - begin - slash != n || memcmp(w->path + begin + slash, name, n) != 0)
        return broken("an element ends as another one", err);
    w->text[w->text_len] = '\0';
    int rc = w->on_element(w->arg, w->path, w->text + mark, err);
    w->depth--;
    w->text_len = mark;
    w->path_len = begin;
    w->path[begin] = '\0';
    return rc;
}

/* What stands between < and >, of LEN bytes; attributes mean nothing to us. */
static int take_tag(struct walk *w, const char *tag, size_t len, struct dt_err *err)
{
    bool closes = len > 0 && tag[0] == '/';
    bool is_empty = !closes && len > 0 && tag[len - 1] == '/';
    const char *name = tag + closes;
    size_t n = 0, most = len - closes - is_empty;
    while (n < most && !strchr(" \t\r\n", name[n]))
        n++;
    const char *colon = NULL;
    for (size_t i = 0; i < n; i++)
        colon = name[i] == ':' ? name + i : colon;
    if (colon) {
        n -= (size_t)(colon + 1 - name);
        name = colon + 1;
    }
    if (n == 0 || memchr(name, '/', n))
        return broken("an element has no name", err);
    if (closes)
        return close_element(w, name, n, err);
    if (open_element(w, name, n, err) < 0)
        return -1;
    return is_empty ? close_element(w, name, n, err) : 0;
}

static int take_markup(struct walk *w, struct dt_err *err)
{
    dt_read_u8(&w->r); /* < */
    size_t n = up_to(w, '>');
    if (n == dt_reader_left(&w->r))
        return broken("it ends within an element", err);
    const char *tag = (const char *)dt_read_bytes(&w->r, n);
    dt_read_u8(&w->r); /* > */
    if (n == 0 || memchr(tag, '\0', n))
        return broken("an element has no name", err);
    if (tag[0] == '?') /* the first line; nothing else of that kind means anything to us */
        return 0;
    if (tag[0] == '!')
        return broken("it has a document type, a comment or raw text", err);
    return take_tag(w, tag, n, err);
}

int dt_xml_walk(struct dt_bytes document, dt_xml_fn *on_element, void *arg, struct dt_err *err)
{
    struct walk w = {
        .r = dt_reader_over(document.at, document.len), .on_element = on_element, .arg = arg};
    while (!at_end(&w))
        if ((*w.r.at == '<' ? take_markup(&w, err) : take_text(&w, err)) < 0)
            return -1;
    if (w.depth > 0 || !w.has_root)
        return broken("it is not whole", err);
    return 0;
}
