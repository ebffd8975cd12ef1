/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/pickle/pickle.h"

#include "base/str.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* No opcode puts more than one thing anywhere, so arrays for as many as there may be opcodes are
 * never full. */
struct machine {
    struct dt_pickle *p;
    struct dt_reader r;
    const char *const *classes;
    struct dt_pickle_value **stack, **memo;
    size_t *marks; /* depths of the stack */
    size_t room;   /* of each array; the opcode that would need more is refused */
    size_t opcodes, values, items, depth, memos, marked;
    struct dt_pickle_value nothing; /* what is found where a value is missing; all is bad by then */
    bool stopped, bad;
    struct dt_err *err;
};

/* Of several complaints the first counts. */
__attribute__((format(printf, 2, 3))) static void refuse(struct machine *m, const char *fmt, ...)
{
    char text[200];
    va_list ap;
    if (m->bad)
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    m->bad = true;
    dt_err_set(m->err, DT_E_PROTOCOL, "the pickle %s", text);
}

/* -- the stack -------------------------------------------------------------------------------- */

static struct dt_pickle_value *push(struct machine *m, enum dt_pickle_type type)
{
    struct dt_pickle_value *v = &m->p->values[m->values++];
    v->type = type;
    m->stack[m->depth++] = v;
    return v;
}

/* Nothing is taken from beneath a mark. */
static struct dt_pickle_value *pop(struct machine *m)
{
    size_t floor = m->marked ? m->marks[m->marked - 1] : 0;
    if (m->depth > floor)
        return m->stack[--m->depth];
    refuse(m, "takes what was not given");
    return &m->nothing;
}

static struct dt_pickle_value *pop_a(struct machine *m, enum dt_pickle_type type)
{
    struct dt_pickle_value *v = pop(m);
    if (v->type == type)
        return v;
    refuse(m, "has a value of kind %d where %d is wanted", v->type, type);
    return &m->nothing;
}

/* The place of the first thing over the last mark; the mark is gone. */
static size_t unmark(struct machine *m)
{
    if (m->marked > 0)
        return m->marks[--m->marked];
    refuse(m, "takes back a mark that it did not set");
    return m->depth;
}

/* The same, with the container under it. */
static struct dt_pickle_value *unmark_a(struct machine *m, enum dt_pickle_type type, size_t *first)
{
    *first = unmark(m);
    if (m->bad)
        return &m->nothing;
    if (*first > 0 && m->stack[*first - 1]->type == type)
        return m->stack[*first - 1];
    refuse(m, "puts items into what does not take them");
    return &m->nothing;
}

static void append(struct machine *m, struct dt_pickle_value *to, struct dt_pickle_value *key,
                   struct dt_pickle_value *item)
{
    if (m->bad)
        return;
    struct dt_pickle_item *i = &m->p->items[m->items++];
    *i = (struct dt_pickle_item){.key = key, .value = item};
    *(to->last ? &to->last->next : &to->first) = i;
    to->last = i;
    to->count++;
}

/* -- opcodes ---------------------------------------------------------------------------------- */

static void on_none(struct machine *m)
{
    push(m, DT_PICKLE_NONE);
}

static void on_true(struct machine *m)
{
    push(m, DT_PICKLE_BOOL)->number = 1;
}

static void on_false(struct machine *m)
{
    push(m, DT_PICKLE_BOOL);
}

/* N bytes, the lowest first, of a number with a sign or without one. */
static void push_int(struct machine *m, uint8_t n, bool is_signed)
{
    const uint8_t *at = dt_read_bytes(&m->r, n);
    uint64_t v = 0;
    if (n > 8)
        refuse(m, "has a number of %d bytes", n);
    else if (at && n > 0) {
        v = is_signed && at[n - 1] & 0x80 ? UINT64_MAX : 0;
        for (size_t i = n; i-- > 0;)
            v = v << 8 | at[i];
    }
    push(m, DT_PICKLE_INT)->number = (int64_t)v;
}

static void on_int1(struct machine *m)
{
    push_int(m, 1, false);
}

static void on_int2(struct machine *m)
{
    push_int(m, 2, false);
}

/* The one number that has its highest byte first. */
static void on_float(struct machine *m)
{
    const uint8_t *at = dt_read_bytes(&m->r, 8);
    uint64_t bits = 0;
    for (size_t i = 0; at && i < 8; i++)
        bits = bits << 8 | at[i];
    memcpy(&push(m, DT_PICKLE_FLOAT)->real, &bits, sizeof bits);
}

static void on_int4(struct machine *m)
{
    push_int(m, 4, true);
}

static void on_long1(struct machine *m)
{
    push_int(m, dt_read_u8(&m->r), true);
}

static void push_bytes(struct machine *m, enum dt_pickle_type type, uint64_t n)
{
    const uint8_t *at = dt_read_bytes(&m->r, n);
    if (at)
        push(m, type)->bytes = (struct dt_bytes){at, (size_t)n};
}

static void on_short_text(struct machine *m)
{
    push_bytes(m, DT_PICKLE_TEXT, dt_read_u8(&m->r));
}

static void on_text(struct machine *m)
{
    push_bytes(m, DT_PICKLE_TEXT, dt_read_u32(&m->r));
}

static void on_short_bytes(struct machine *m)
{
    push_bytes(m, DT_PICKLE_BYTES, dt_read_u8(&m->r));
}

static void on_bytes(struct machine *m)
{
    push_bytes(m, DT_PICKLE_BYTES, dt_read_u32(&m->r));
}

static void on_long_text(struct machine *m)
{
    push_bytes(m, DT_PICKLE_TEXT, dt_read_u64(&m->r));
}

static void on_long_bytes(struct machine *m)
{
    push_bytes(m, DT_PICKLE_BYTES, dt_read_u64(&m->r));
}

static void on_empty_tuple(struct machine *m)
{
    push(m, DT_PICKLE_TUPLE);
}

static void on_empty_list(struct machine *m)
{
    push(m, DT_PICKLE_LIST);
}

static void on_empty_dict(struct machine *m)
{
    push(m, DT_PICKLE_DICT);
}

static void on_empty_set(struct machine *m)
{
    push(m, DT_PICKLE_SET);
}

static void make_tuple(struct machine *m, size_t count)
{
    struct dt_pickle_value *of[3] = {0};
    for (size_t i = count; i-- > 0;)
        of[i] = pop(m);
    struct dt_pickle_value *tuple = push(m, DT_PICKLE_TUPLE);
    for (size_t i = 0; i < count; i++)
        append(m, tuple, of[i], NULL);
}

static void on_tuple1(struct machine *m)
{
    make_tuple(m, 1);
}

static void on_tuple2(struct machine *m)
{
    make_tuple(m, 2);
}

static void on_tuple3(struct machine *m)
{
    make_tuple(m, 3);
}

static void on_tuple_of_mark(struct machine *m)
{
    size_t first = unmark(m), end = m->depth;
    struct dt_pickle_value *tuple = &m->p->values[m->values++];
    tuple->type = DT_PICKLE_TUPLE;
    for (size_t i = first; i < end; i++)
        append(m, tuple, m->stack[i], NULL);
    m->depth = first;
    m->stack[m->depth++] = tuple;
}

static void on_append(struct machine *m)
{
    struct dt_pickle_value *item = pop(m), *list = pop_a(m, DT_PICKLE_LIST);
    append(m, list, item, NULL);
    m->stack[m->depth++] = list;
}

static void on_mark(struct machine *m)
{
    m->marks[m->marked++] = m->depth;
}

static void on_set_item(struct machine *m)
{
    struct dt_pickle_value *item = pop(m), *key = pop(m), *dict = pop_a(m, DT_PICKLE_DICT);
    append(m, dict, key, item);
    m->stack[m->depth++] = dict;
}

static void on_set_items(struct machine *m)
{
    size_t first;
    struct dt_pickle_value *dict = unmark_a(m, DT_PICKLE_DICT, &first);
    if ((m->depth - first) % 2)
        refuse(m, "has a key without a value");
    for (size_t i = first; i + 1 < m->depth; i += 2)
        append(m, dict, m->stack[i], m->stack[i + 1]);
    m->depth = first;
}

static void add_items(struct machine *m, enum dt_pickle_type type)
{
    size_t first;
    struct dt_pickle_value *to = unmark_a(m, type, &first);
    for (size_t i = first; i < m->depth; i++)
        append(m, to, m->stack[i], NULL);
    m->depth = first;
}

static void on_add_items(struct machine *m)
{
    add_items(m, DT_PICKLE_SET);
}

static void on_appends(struct machine *m)
{
    add_items(m, DT_PICKLE_LIST);
}

/* Whether TEXT is MODULE, a dot and NAME. */
static bool is_class(const char *text, struct dt_bytes module, struct dt_bytes name)
{
    size_t len = strlen(text);
    return len == module.len + 1 + name.len && memcmp(text, module.at, module.len) == 0 &&
           text[module.len] == '.' && memcmp(text + module.len + 1, name.at, name.len) == 0;
}

static void push_class(struct machine *m, struct dt_bytes module, struct dt_bytes name)
{
    char module_text[80], name_text[80];
    struct dt_pickle_value *class = push(m, DT_PICKLE_CLASS);
    if (m->bad || m->r.bad)
        return;
    for (; m->classes && m->classes[class->number]; class->number++)
        if (is_class(m->classes[class->number], module, name))
            return;
    refuse(m, "names %s.%s, which does not belong there",
           dt_str_printable(module, module_text, sizeof module_text),
           dt_str_printable(name, name_text, sizeof name_text));
}

static void on_stack_global(struct machine *m)
{
    struct dt_bytes name = pop_a(m, DT_PICKLE_TEXT)->bytes;
    push_class(m, pop_a(m, DT_PICKLE_TEXT)->bytes, name);
}

/* Up to the end of a line, which is not part of it. */
static struct dt_bytes read_line(struct dt_reader *r)
{
    size_t left = dt_reader_left(r);
    const uint8_t *end = left ? memchr(r->at, '\n', left) : NULL;
    size_t len = end ? (size_t)(end - r->at) : left;
    struct dt_bytes line = {dt_read_bytes(r, len), len};
    dt_read_u8(r);
    return line;
}

static void on_global(struct machine *m)
{
    struct dt_bytes module = read_line(&m->r);
    push_class(m, module, read_line(&m->r));
}

/* NEWOBJ and REDUCE: nothing is called, it is noted what would be. */
static void on_object(struct machine *m)
{
    struct dt_pickle_value *args = pop_a(m, DT_PICKLE_TUPLE), *class = pop_a(m, DT_PICKLE_CLASS);
    struct dt_pickle_value *object = push(m, DT_PICKLE_OBJECT);
    object->number = class->number;
    object->args = args;
}

static void on_build(struct machine *m)
{
    struct dt_pickle_value *fields = pop_a(m, DT_PICKLE_DICT), *object = pop_a(m, DT_PICKLE_OBJECT);
    if (object->fields)
        refuse(m, "gives an object its attributes twice");
    if (m->bad)
        return;
    object->fields = fields;
    m->stack[m->depth++] = object;
}

/* Notes what is on top of the stack under a number, which it keeps. */
static void note(struct machine *m, size_t at)
{
    struct dt_pickle_value *v = pop(m);
    m->stack[m->depth++] = v;
    if (at >= m->room) {
        refuse(m, "notes number %zu, where %zu is the last", at, m->room - 1);
        return;
    }
    m->memo[at] = v;
    m->memos++;
}

static void on_memoize(struct machine *m)
{
    note(m, m->memos);
}

static void on_put(struct machine *m)
{
    note(m, dt_read_u8(&m->r));
}

static void on_long_put(struct machine *m)
{
    note(m, dt_read_u32(&m->r));
}

static void recall(struct machine *m, uint32_t at)
{
    if (at < m->room && m->memo[at])
        m->stack[m->depth++] = m->memo[at];
    else
        refuse(m, "recalls number %u of %zu", at, m->memos);
}

static void on_get(struct machine *m)
{
    recall(m, dt_read_u8(&m->r));
}

static void on_long_get(struct machine *m)
{
    recall(m, dt_read_u32(&m->r));
}

/* How far one could read ahead in a stream. */
static void on_frame(struct machine *m)
{
    dt_read_u64(&m->r);
}

static void on_stop(struct machine *m)
{
    m->stopped = true;
}

static void (*const opcodes[256])(struct machine *) = {
    [DT_PICKLE_MARK] = on_mark,
    [DT_PICKLE_EMPTY_TUPLE] = on_empty_tuple,
    [DT_PICKLE_STOP] = on_stop,
    [DT_PICKLE_BINBYTES] = on_bytes,
    [DT_PICKLE_SHORT_BINBYTES] = on_short_bytes,
    [DT_PICKLE_BINFLOAT] = on_float,
    [DT_PICKLE_BININT] = on_int4,
    [DT_PICKLE_BININT1] = on_int1,
    [DT_PICKLE_BININT2] = on_int2,
    [DT_PICKLE_PUSH_NONE] = on_none,
    [DT_PICKLE_REDUCE] = on_object,
    [DT_PICKLE_BINUNICODE] = on_text,
    [DT_PICKLE_EMPTY_LIST] = on_empty_list,
    [DT_PICKLE_APPEND] = on_append,
    [DT_PICKLE_BUILD] = on_build,
    [DT_PICKLE_GLOBAL] = on_global,
    [DT_PICKLE_APPENDS] = on_appends,
    [DT_PICKLE_BINGET] = on_get,
    [DT_PICKLE_LONG_BINGET] = on_long_get,
    [DT_PICKLE_BINPUT] = on_put,
    [DT_PICKLE_LONG_BINPUT] = on_long_put,
    [DT_PICKLE_SETITEM] = on_set_item,
    [DT_PICKLE_TUPLE_OF_MARK] = on_tuple_of_mark,
    [DT_PICKLE_SETITEMS] = on_set_items,
    [DT_PICKLE_EMPTY_DICT] = on_empty_dict,
    [DT_PICKLE_NEWOBJ] = on_object,
    [DT_PICKLE_TUPLE1] = on_tuple1,
    [DT_PICKLE_TUPLE2] = on_tuple2,
    [DT_PICKLE_TUPLE3] = on_tuple3,
    [DT_PICKLE_TRUE] = on_true,
    [DT_PICKLE_FALSE] = on_false,
    [DT_PICKLE_LONG1] = on_long1,
    [DT_PICKLE_SHORT_BINUNICODE] = on_short_text,
    [DT_PICKLE_BINUNICODE8] = on_long_text,
    [DT_PICKLE_BINBYTES8] = on_long_bytes,
    [DT_PICKLE_EMPTY_SET] = on_empty_set,
    [DT_PICKLE_ADDITEMS] = on_add_items,
    [DT_PICKLE_STACK_GLOBAL] = on_stack_global,
    [DT_PICKLE_MEMOIZE] = on_memoize,
    [DT_PICKLE_FRAME] = on_frame,
};

/* -- all of it -------------------------------------------------------------------------------- */

static void run(struct machine *m)
{
    uint8_t op = dt_read_u8(&m->r), version = dt_read_u8(&m->r);
    if (op != DT_PICKLE_PROTO || version < 2 || version > 5)
        refuse(m, "is not one of protocol 2 to 5");
    while (!m->bad && !m->stopped) {
        op = dt_read_u8(&m->r);
        if (m->r.bad)
            break;
        if (++m->opcodes >= m->room)
            refuse(m, "has more than %zu opcodes", m->room - 1);
        else if (opcodes[op])
            opcodes[op](m);
        else
            refuse(m, "has opcode 0x%02x, which plain values do not need", op);
    }
    if (m->r.bad)
        refuse(m, "ends early");
    m->p->root = pop(m);
    if (m->depth || m->marked || dt_reader_left(&m->r))
        refuse(m, "has more than one thing in it");
}

int dt_pickle_read(struct dt_pickle *p, struct dt_bytes bytes,
                   const struct dt_pickle_limits *limits, const char *const *classes,
                   struct dt_err *err)
{
    /* An opcode is a byte at least; one more for the root of a pickle that is none. */
    size_t n = (bytes.len < limits->opcodes ? bytes.len : limits->opcodes) + 1;
    struct machine m = {.p = p, .room = n, .classes = classes, .err = err};
    if (bytes.len > limits->bytes)
        return dt_err_set(err, DT_E_LIMIT, "the pickle has %zu bytes; at most %zu are taken",
                          bytes.len, limits->bytes);
    m.r = dt_reader_over(bytes.at, bytes.len);
    *p = (struct dt_pickle){.values = calloc(n, sizeof *p->values),
                            .items = calloc(n, sizeof *p->items)};
    m.stack = calloc(n, sizeof *m.stack);
    m.memo = calloc(n, sizeof *m.memo);
    m.marks = calloc(n, sizeof *m.marks);
    if (p->values && p->items && m.stack && m.memo && m.marks) {
        run(&m);
    } else {
        m.bad = true;
        dt_err_set(err, DT_E_MEMORY, "no memory to read a pickle of %zu bytes", bytes.len);
    }
    free(m.stack);
    free(m.memo);
    free(m.marks);
    if (m.bad)
        dt_pickle_finish(p);
    return m.bad ? -1 : 0;
}

void dt_pickle_finish(struct dt_pickle *p)
{
    free(p->values);
    free(p->items);
    *p = (struct dt_pickle){0};
}

const struct dt_pickle_value *dt_pickle_get(const struct dt_pickle_value *dict, const char *name,
                                            enum dt_pickle_type type)
{
    struct dt_bytes wanted = dt_bytes_of(name);
    for (const struct dt_pickle_item *i = dict->first; i; i = i->next)
        if (i->key->type == DT_PICKLE_TEXT && dt_bytes_equal(i->key->bytes, wanted))
            return i->value && i->value->type == type ? i->value : NULL;
    return NULL;
}
