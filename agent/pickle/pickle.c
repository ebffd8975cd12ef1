/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/pickle/pickle.h"

#include "base/str.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* No opcode makes more than one of anything, and each is a byte at least: arrays as long as the
 * input are never full. */
struct machine {
    struct dt_pickle *p;
    struct dt_reader r;
    const char *const *classes;
    struct dt_pickle_value **stack, **memo;
    size_t *marks; /* depths of the stack */
    size_t values, items, depth, memos, marked;
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

/* The container under the last mark, with the first of what is over it; the mark is gone. */
static struct dt_pickle_value *unmark(struct machine *m, enum dt_pickle_type type, size_t *first)
{
    *first = m->depth;
    if (m->marked == 0) {
        refuse(m, "takes back a mark that it did not set");
        return &m->nothing;
    }
    *first = m->marks[--m->marked];
    if (*first > 0 && m->stack[*first - 1]->type == type)
        return m->stack[*first - 1];
    refuse(m, "puts items into what does not take them");
    return &m->nothing;
}

static void append(struct machine *m, struct dt_pickle_value *to, struct dt_pickle_value *key,
                   struct dt_pickle_value *item)
{
    struct dt_pickle_item *i = &m->p->items[m->items++];
    if (m->bad)
        return;
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

static void on_empty_tuple(struct machine *m)
{
    push(m, DT_PICKLE_TUPLE);
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
    struct dt_pickle_value *dict = unmark(m, DT_PICKLE_DICT, &first);
    if ((m->depth - first) % 2)
        refuse(m, "has a key without a value");
    for (size_t i = first; i + 1 < m->depth; i += 2)
        append(m, dict, m->stack[i], m->stack[i + 1]);
    m->depth = first;
}

static void on_add_items(struct machine *m)
{
    size_t first;
    struct dt_pickle_value *set = unmark(m, DT_PICKLE_SET, &first);
    for (size_t i = first; i < m->depth; i++)
        append(m, set, m->stack[i], NULL);
    m->depth = first;
}

/* Whether TEXT is MODULE, a dot and NAME. */
static bool is_class(const char *text, struct dt_bytes module, struct dt_bytes name)
{
    size_t len = strlen(text);
    return len == module.len + 1 + name.len && memcmp(text, module.at, module.len) == 0 &&
           text[module.len] == '.' && memcmp(text + module.len + 1, name.at, name.len) == 0;
}

static void on_global(struct machine *m)
{
    char module_text[80], name_text[80];
    struct dt_bytes name = pop_a(m, DT_PICKLE_TEXT)->bytes;
    struct dt_bytes module = pop_a(m, DT_PICKLE_TEXT)->bytes;
    struct dt_pickle_value *class = push(m, DT_PICKLE_CLASS);
    if (m->bad)
        return;
    for (; m->classes[class->number]; class->number++)
        if (is_class(m->classes[class->number], module, name))
            return;
    refuse(m, "names %s.%s, which does not belong there",
           dt_str_printable(module, module_text, sizeof module_text),
           dt_str_printable(name, name_text, sizeof name_text));
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

static void on_memoize(struct machine *m)
{
    struct dt_pickle_value *v = pop(m);
    m->memo[m->memos++] = v;
    m->stack[m->depth++] = v;
}

static void recall(struct machine *m, uint32_t at)
{
    if (at < m->memos)
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
    [DT_PICKLE_BININT] = on_int4,
    [DT_PICKLE_BININT1] = on_int1,
    [DT_PICKLE_BININT2] = on_int2,
    [DT_PICKLE_PUSH_NONE] = on_none,
    [DT_PICKLE_REDUCE] = on_object,
    [DT_PICKLE_BINUNICODE] = on_text,
    [DT_PICKLE_BUILD] = on_build,
    [DT_PICKLE_BINGET] = on_get,
    [DT_PICKLE_LONG_BINGET] = on_long_get,
    [DT_PICKLE_SETITEM] = on_set_item,
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
    [DT_PICKLE_EMPTY_SET] = on_empty_set,
    [DT_PICKLE_ADDITEMS] = on_add_items,
    [DT_PICKLE_STACK_GLOBAL] = on_global,
    [DT_PICKLE_MEMOIZE] = on_memoize,
    [DT_PICKLE_FRAME] = on_frame,
};

/* -- all of it -------------------------------------------------------------------------------- */

static void run(struct machine *m)
{
    uint8_t op = dt_read_u8(&m->r), version = dt_read_u8(&m->r);
    if (op != DT_PICKLE_PROTO || version < 4 || version > 5)
        refuse(m, "is not one of protocol 4 or 5");
    while (!m->bad && !m->stopped) {
        op = dt_read_u8(&m->r);
        if (m->r.bad)
            break;
        if (opcodes[op])
            opcodes[op](m);
        else
            refuse(m, "has opcode 0x%02x, which the state of a rendezvous does not need", op);
    }
    if (m->r.bad)
        refuse(m, "ends early");
    m->p->root = pop(m);
    if (m->depth || m->marked || dt_reader_left(&m->r))
        refuse(m, "has more than one thing in it");
}

int dt_pickle_read(struct dt_pickle *p, struct dt_bytes bytes, const char *const *classes,
                   struct dt_err *err)
{
    size_t n = bytes.len + 1; /* one for the root of a pickle that is none */
    struct machine m = {.p = p, .classes = classes, .err = err};
    if (bytes.len > DT_PICKLE_MAX)
        return dt_err_set(err, DT_E_LIMIT, "the pickle has %zu bytes; at most %u are taken",
                          bytes.len, DT_PICKLE_MAX);
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
