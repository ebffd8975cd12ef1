/* SPDX-License-Identifier: Apache-2.0 */
/* Where CPython keeps what a stack is made of, as offsets into its structs. They differ by version:
 * those of 3.8 to 3.12 are tables of ours, which a test compares with CPython's headers where they
 * are; from 3.13 on the interpreter has a table of them (_Py_DebugOffsets), at the start of
 * _PyRuntime, and ours say where in it each one stands. */
#ifndef DT_AGENT_LOOK_PYTHON_LAYOUT_H
#define DT_AGENT_LOOK_PYTHON_LAYOUT_H

#include "agent/look/line_table.h"
#include "agent/look/memory.h"
#include "base/err.h"

#include <stdbool.h>

/* No field of a frame, a code object or a text that we need is behind these. */
#define DT_PYTHON_FRAME_BYTES 256
#define DT_PYTHON_CODE_BYTES 512
#define DT_PYTHON_TEXT_HEAD 64

#define DT_PYTHON_NO_FIELD UINT32_MAX

/* Up to TEXT_KIND nothing but offsets, so that these can be read as an array. */
struct dt_python_layout {
    uint32_t runtime_interpreters; /* the first */
    uint32_t interpreter_next, interpreter_threads;
    uint32_t interpreter_gc; /* the state of its garbage collector; DT_PYTHON_NO_FIELD: elsewhere */
    uint32_t thread_next, thread_interpreter;
    uint32_t thread_native_id; /* from 3.11 on, else ... */
    uint32_t thread_pthread;   /* ... what pthread_self(3) tells the thread */
    uint32_t thread_frame;     /* the innermost, or the struct that points to it ... */
    uint32_t cframe_frame;     /* ... there; DT_PYTHON_NO_FIELD: it is the frame itself */
    uint32_t frame_previous, frame_code, frame_instruction;
    uint32_t frame_references; /* 0 there: it has been freed; DT_PYTHON_NO_FIELD: is no object */
    uint32_t frame_owner;      /* DT_PYTHON_NO_FIELD: all frames are a script's */
    uint32_t frame_copy;       /* which of the code's copies runs, if ... */
    uint32_t code_copies;      /* ... each thread may have its own; else DT_PYTHON_NO_FIELD */
    uint32_t code_filename;
    uint32_t code_name; /* from 3.11 on with the names of what it is defined in */
    uint32_t code_linetable, code_firstlineno;
    uint32_t code_instructions;
    uint32_t bytes_size, bytes_data;
    uint32_t text_length, text_state;
    uint32_t text_ascii, text_wide; /* the characters of ASCII text, and of other text */
    uint32_t text_kind;             /* the first bit of a text's kind in its state */
    uint32_t gc_collecting;    /* in that state: not 0 while it collects; or DT_PYTHON_NO_FIELD */
    uint32_t instruction_unit; /* frame_instruction counts so many bytes; 0: it is an address */
    enum dt_line_format lines;
};

/* VERSION is PY_VERSION_HEX without its lower half, 0x030b for 3.11. */
const struct dt_python_layout *dt_python_layout_fixed(uint32_t version);
/* Positions of the offsets in _Py_DebugOffsets. Those of a build that is FREE_THREADED differ. */
const struct dt_python_layout *dt_python_layout_positions(uint32_t version, bool free_threaded);

/* The layout of a CPython whose PY_VERSION_HEX is HEX and whose _PyRuntime is at RUNTIME. -1 and
 * *err: the version is not known, or its table makes no sense. */
int dt_python_layout_read(struct dt_python_layout *layout, struct dt_memory *m, uint32_t hex,
                          uint64_t runtime, struct dt_err *err);

#endif
