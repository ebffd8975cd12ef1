/* SPDX-License-Identifier: Apache-2.0 */
/* The small part of Python's pickle format that the state of torchrun's agents is written in:
 * numbers, strings, tuples, dicts, sets, and objects of a few classes. Protocols 4 and 5.
 *
 * In Python a pickle is a program that imports and calls what it likes. Here it is data: reading
 * makes a tree of it and carries nothing out, an opcode that the state does not need is refused by
 * its number and a class by its name. Pure. */
#ifndef DT_AGENT_PICKLE_PICKLE_H
#define DT_AGENT_PICKLE_PICKLE_H

#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>

#define DT_PICKLE_MAX (1u << 20) /* bytes of one that is read */

enum dt_pickle_type {
    DT_PICKLE_NONE,
    DT_PICKLE_BOOL,
    DT_PICKLE_INT,
    DT_PICKLE_TEXT,
    DT_PICKLE_BYTES,
    DT_PICKLE_CLASS,
    DT_PICKLE_TUPLE,
    DT_PICKLE_DICT,
    DT_PICKLE_SET,
    DT_PICKLE_OBJECT,
};

struct dt_pickle_item;

struct dt_pickle_value {
    enum dt_pickle_type type;
    int64_t number;               /* BOOL, INT; CLASS, OBJECT: which class of those allowed */
    struct dt_bytes bytes;        /* TEXT (unchecked UTF-8), BYTES: in what was read */
    struct dt_pickle_item *first; /* TUPLE, DICT, SET: in order ... */
    struct dt_pickle_item *last;
    size_t count;                         /* ... so many */
    const struct dt_pickle_value *args;   /* OBJECT: what it was made with, a TUPLE ... */
    const struct dt_pickle_value *fields; /* ... and its attributes, a DICT; may be NULL */
};

struct dt_pickle_item {
    const struct dt_pickle_value *key, *value; /* no value but in a DICT */
    struct dt_pickle_item *next;
};

/* What was read: values may hold each other, in circles too. Ended with dt_pickle_finish(). */
struct dt_pickle {
    struct dt_pickle_value *values;
    struct dt_pickle_item *items;
    const struct dt_pickle_value *root;
};

/* CLASSES: "module.name" of those allowed, NULL-ended. BYTES outlives what is made of it. -1: P is
 * not to be finished. */
int dt_pickle_read(struct dt_pickle *p, struct dt_bytes bytes, const char *const *classes,
                   struct dt_err *err);
void dt_pickle_finish(struct dt_pickle *p);

/* -- writing: protocol 4, in the same bytes as CPython's pickler when told the same ----------- */

struct dt_pickle_writer {
    struct dt_buf *out; /* sticky */
    size_t frame;       /* where it begins */
    uint32_t memos;     /* so far */
};

enum dt_pickle_op {
    DT_PICKLE_MARK = '(',
    DT_PICKLE_EMPTY_TUPLE = ')',
    DT_PICKLE_STOP = '.',
    DT_PICKLE_BINBYTES = 'B',
    DT_PICKLE_SHORT_BINBYTES = 'C',
    DT_PICKLE_BININT = 'J',
    DT_PICKLE_BININT1 = 'K',
    DT_PICKLE_BININT2 = 'M',
    DT_PICKLE_PUSH_NONE = 'N',
    DT_PICKLE_REDUCE = 'R',
    DT_PICKLE_BINUNICODE = 'X',
    DT_PICKLE_BUILD = 'b',
    DT_PICKLE_BINGET = 'h',
    DT_PICKLE_LONG_BINGET = 'j',
    DT_PICKLE_SETITEM = 's',
    DT_PICKLE_SETITEMS = 'u',
    DT_PICKLE_EMPTY_DICT = '}',
    DT_PICKLE_PROTO = 0x80,
    DT_PICKLE_NEWOBJ = 0x81,
    DT_PICKLE_TUPLE1 = 0x85,
    DT_PICKLE_TUPLE2 = 0x86,
    DT_PICKLE_TUPLE3 = 0x87,
    DT_PICKLE_TRUE = 0x88,
    DT_PICKLE_FALSE = 0x89,
    DT_PICKLE_LONG1 = 0x8a,
    DT_PICKLE_SHORT_BINUNICODE = 0x8c,
    DT_PICKLE_EMPTY_SET = 0x8f,
    DT_PICKLE_ADDITEMS = 0x90,
    DT_PICKLE_STACK_GLOBAL = 0x93,
    DT_PICKLE_MEMOIZE = 0x94,
    DT_PICKLE_FRAME = 0x95,
};

void dt_pickle_begin(struct dt_pickle_writer *w, struct dt_buf *out);
void dt_pickle_end(struct dt_pickle_writer *w);

void dt_pickle_put(struct dt_pickle_writer *w, enum dt_pickle_op op); /* one without operands */
void dt_pickle_put_int(struct dt_pickle_writer *w, int64_t v);
void dt_pickle_put_text(struct dt_pickle_writer *w, const char *s);
void dt_pickle_put_bytes(struct dt_pickle_writer *w, const void *bytes, uint8_t n);

/* Notes what was put last; dt_pickle_again() puts it once more. */
uint32_t dt_pickle_memoize(struct dt_pickle_writer *w);
void dt_pickle_again(struct dt_pickle_writer *w, uint32_t memo);

#endif
