/* SPDX-License-Identifier: Apache-2.0 */
/* The part of Python's pickle format that plain values are written in: numbers, strings, bytes,
 * tuples, lists, dicts, sets, and objects of classes that the reader names. Protocols 2 to 5: what
 * torchrun's agents share has the fourth or fifth, PyTorch's own pickler writes the second.
 *
 * In Python a pickle is a program that imports and calls what it likes. Here it is data: reading
 * makes a tree of it and carries nothing out, an opcode that plain values do not need is refused by
 * its number and a class by its name. Pure. */
#ifndef DT_AGENT_PICKLE_PICKLE_H
#define DT_AGENT_PICKLE_PICKLE_H

#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>

enum dt_pickle_type {
    DT_PICKLE_NONE,
    DT_PICKLE_BOOL,
    DT_PICKLE_INT,
    DT_PICKLE_FLOAT,
    DT_PICKLE_TEXT,
    DT_PICKLE_BYTES,
    DT_PICKLE_CLASS,
    DT_PICKLE_TUPLE,
    DT_PICKLE_LIST,
    DT_PICKLE_DICT,
    DT_PICKLE_SET,
    DT_PICKLE_OBJECT,
};

/* What is taken of one. An opcode makes at most one value, so OPCODES bounds memory and time, and
 * how deep it is nested. */
struct dt_pickle_limits {
    size_t bytes, opcodes;
};

struct dt_pickle_item;

struct dt_pickle_value {
    enum dt_pickle_type type;
    int64_t number;               /* BOOL, INT; CLASS, OBJECT: which class of those allowed */
    double real;                  /* FLOAT */
    struct dt_bytes bytes;        /* TEXT (unchecked UTF-8), BYTES: in what was read */
    struct dt_pickle_item *first; /* TUPLE, LIST, DICT, SET: in order ... */
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

/* CLASSES: "module.name" of those allowed, NULL-ended; NULL: none. BYTES outlives what is made of
 * it. -1: P is not to be finished. */
int dt_pickle_read(struct dt_pickle *p, struct dt_bytes bytes,
                   const struct dt_pickle_limits *limits, const char *const *classes,
                   struct dt_err *err);
void dt_pickle_finish(struct dt_pickle *p);

/* What DICT has under NAME, if that is a TYPE; NULL: it has not. */
const struct dt_pickle_value *dt_pickle_get(const struct dt_pickle_value *dict, const char *name,
                                            enum dt_pickle_type type);

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
    DT_PICKLE_BINFLOAT = 'G',
    DT_PICKLE_BININT = 'J',
    DT_PICKLE_BININT1 = 'K',
    DT_PICKLE_BININT2 = 'M',
    DT_PICKLE_PUSH_NONE = 'N',
    DT_PICKLE_REDUCE = 'R',
    DT_PICKLE_BINUNICODE = 'X',
    DT_PICKLE_EMPTY_LIST = ']',
    DT_PICKLE_APPEND = 'a',
    DT_PICKLE_BUILD = 'b',
    DT_PICKLE_GLOBAL = 'c',
    DT_PICKLE_APPENDS = 'e',
    DT_PICKLE_BINGET = 'h',
    DT_PICKLE_LONG_BINGET = 'j',
    DT_PICKLE_BINPUT = 'q',
    DT_PICKLE_LONG_BINPUT = 'r',
    DT_PICKLE_SETITEM = 's',
    DT_PICKLE_TUPLE_OF_MARK = 't',
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
    DT_PICKLE_BINUNICODE8 = 0x8d,
    DT_PICKLE_BINBYTES8 = 0x8e,
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
