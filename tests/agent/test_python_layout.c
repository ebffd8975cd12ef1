/* SPDX-License-Identifier: Apache-2.0 */
/* Our table of offsets against CPython's own headers, those that this is compiled with. */
#define Py_BUILD_CORE 1
#include <Python.h>
#include <frameobject.h>
#if PY_VERSION_HEX < 0x03090000
#include <internal/pycore_pystate.h>
#else
#include <internal/pycore_interp.h>
#include <internal/pycore_runtime.h>
#endif
#if PY_VERSION_HEX >= 0x030b0000
#include <internal/pycore_frame.h>
#endif

#include "agent/look/python_layout.h"
#include "tests/lib/check.h"

#define VERSION (PY_VERSION_HEX >> 16)

/* A text's state that is zero but for its kind. */
static uint32_t state_of_kind(unsigned kind)
{
    PyASCIIObject text;
    uint32_t state;
    memset(&text, 0, sizeof text);
    text.state.kind = kind & 7;
    memcpy(&state, &text.state, sizeof state);
    return state;
}

static void check_text_state(const struct dt_python_layout *l)
{
    PyASCIIObject text;
    uint32_t state;
    memset(&text, 0, sizeof text);
    text.state.compact = 1;
    memcpy(&state, &text.state, sizeof state);
    CHECK_EQ(state, 8u << l->text_kind);
    text.state.ascii = 1;
    memcpy(&state, &text.state, sizeof state);
    CHECK_EQ(state, 24u << l->text_kind);
    CHECK_EQ(state_of_kind(1), 1u << l->text_kind);
    CHECK_EQ(state_of_kind(4), 4u << l->text_kind);
}

#if PY_VERSION_HEX >= 0x03080000 && PY_VERSION_HEX < 0x030d0000

static void check_objects(const struct dt_python_layout *l)
{
    CHECK_EQ(l->code_filename, offsetof(PyCodeObject, co_filename));
    CHECK_EQ(l->code_firstlineno, offsetof(PyCodeObject, co_firstlineno));
    CHECK_EQ(l->bytes_size, offsetof(PyVarObject, ob_size));
    CHECK_EQ(l->bytes_data, offsetof(PyBytesObject, ob_sval));
    CHECK_EQ(l->text_length, offsetof(PyASCIIObject, length));
    CHECK_EQ(l->text_state, offsetof(PyASCIIObject, state));
    CHECK_EQ(l->text_ascii, sizeof(PyASCIIObject));
    CHECK_EQ(l->text_wide, sizeof(PyCompactUnicodeObject));
    check_text_state(l);
}

/* To 3.10 a frame is an object. */
#if PY_VERSION_HEX < 0x030b0000
#if PY_VERSION_HEX < 0x030a0000
#define LINES DT_LINES_NUMBERS
#define LINE_TABLE co_lnotab
#define INSTRUCTION_UNIT 1
#else
#define LINES DT_LINES_RANGES
#define LINE_TABLE co_linetable
#define INSTRUCTION_UNIT 2
#endif

static void check_frames(const struct dt_python_layout *l)
{
    CHECK_EQ(l->interpreter_threads, offsetof(PyInterpreterState, tstate_head));
    CHECK_EQ(l->thread_native_id, DT_PYTHON_NO_FIELD);
    CHECK_EQ(l->thread_pthread, offsetof(PyThreadState, thread_id));
    CHECK_EQ(l->thread_frame, offsetof(PyThreadState, frame));
    CHECK_EQ(l->cframe_frame, DT_PYTHON_NO_FIELD);
    CHECK_EQ(l->frame_previous, offsetof(PyFrameObject, f_back));
    CHECK_EQ(l->frame_code, offsetof(PyFrameObject, f_code));
    CHECK_EQ(l->frame_instruction, offsetof(PyFrameObject, f_lasti));
    CHECK_EQ(l->frame_references, offsetof(PyObject, ob_refcnt));
    CHECK_EQ(l->frame_owner, DT_PYTHON_NO_FIELD);
    CHECK_EQ(l->code_name, offsetof(PyCodeObject, co_name));
    CHECK_EQ(l->code_linetable, offsetof(PyCodeObject, LINE_TABLE));
    CHECK_EQ(l->instruction_unit, INSTRUCTION_UNIT);
    CHECK_EQ(l->lines, LINES);
}

#else

static void check_frames(const struct dt_python_layout *l)
{
    CHECK_EQ(l->interpreter_threads, offsetof(PyInterpreterState, threads.head));
    CHECK_EQ(l->thread_native_id, offsetof(PyThreadState, native_thread_id));
    CHECK_EQ(l->thread_frame, offsetof(PyThreadState, cframe));
    CHECK_EQ(l->cframe_frame, offsetof(_PyCFrame, current_frame));
    CHECK_EQ(l->frame_previous, offsetof(_PyInterpreterFrame, previous));
    CHECK_EQ(l->frame_code, offsetof(_PyInterpreterFrame, f_code));
    CHECK_EQ(l->frame_instruction, offsetof(_PyInterpreterFrame, prev_instr));
    CHECK_EQ(l->frame_owner, offsetof(_PyInterpreterFrame, owner));
    CHECK_EQ(l->code_name, offsetof(PyCodeObject, co_qualname));
    CHECK_EQ(l->code_linetable, offsetof(PyCodeObject, co_linetable));
    CHECK_EQ(l->code_instructions, offsetof(PyCodeObject, co_code_adaptive));
    CHECK_EQ(l->instruction_unit, 0);
    CHECK_EQ(l->lines, DT_LINES_LOCATIONS);
}

#endif

TEST(our_offsets_are_those_of_the_headers)
{
    const struct dt_python_layout *l = dt_python_layout_fixed(VERSION);
    CHECK(l != NULL);
    CHECK_EQ(l->runtime_interpreters, offsetof(_PyRuntimeState, interpreters.head));
    CHECK_EQ(l->interpreter_next, offsetof(PyInterpreterState, next));
    CHECK_EQ(l->thread_next, offsetof(PyThreadState, next));
    CHECK_EQ(l->thread_interpreter, offsetof(PyThreadState, interp));
    CHECK_EQ(l->frame_copy, DT_PYTHON_NO_FIELD);
#if PY_VERSION_HEX < 0x03090000
    CHECK_EQ(l->interpreter_gc, DT_PYTHON_NO_FIELD);
#else
    CHECK_EQ(l->interpreter_gc, offsetof(PyInterpreterState, gc));
    CHECK_EQ(l->gc_collecting, offsetof(struct _gc_runtime_state, collecting));
#endif
    check_frames(l);
    check_objects(l);
}

#elif PY_VERSION_HEX >= 0x030d0000 && PY_VERSION_HEX < 0x030f0000

/* A build without the lock of all Python; tests/agent/meson.build says so for a second program. */
#ifdef Py_GIL_DISABLED
#define FREE_THREADED true
#else
#define FREE_THREADED false
#endif

TEST(our_positions_are_those_of_the_headers)
{
    const struct dt_python_layout *l = dt_python_layout_positions(VERSION, FREE_THREADED);
    CHECK(l != NULL);
    CHECK_EQ(l->runtime_interpreters, offsetof(_Py_DebugOffsets, runtime_state.interpreters_head));
    CHECK_EQ(l->interpreter_next, offsetof(_Py_DebugOffsets, interpreter_state.next));
    CHECK_EQ(l->interpreter_threads, offsetof(_Py_DebugOffsets, interpreter_state.threads_head));
    CHECK_EQ(l->interpreter_gc, offsetof(_Py_DebugOffsets, interpreter_state.gc));
    CHECK_EQ(l->gc_collecting, offsetof(_Py_DebugOffsets, gc.collecting));
    CHECK_EQ(l->thread_next, offsetof(_Py_DebugOffsets, thread_state.next));
    CHECK_EQ(l->thread_interpreter, offsetof(_Py_DebugOffsets, thread_state.interp));
    CHECK_EQ(l->thread_native_id, offsetof(_Py_DebugOffsets, thread_state.native_thread_id));
    CHECK_EQ(l->thread_frame, offsetof(_Py_DebugOffsets, thread_state.current_frame));
    CHECK_EQ(l->frame_previous, offsetof(_Py_DebugOffsets, interpreter_frame.previous));
    CHECK_EQ(l->frame_code, offsetof(_Py_DebugOffsets, interpreter_frame.executable));
    CHECK_EQ(l->frame_instruction, offsetof(_Py_DebugOffsets, interpreter_frame.instr_ptr));
    CHECK_EQ(l->frame_owner, offsetof(_Py_DebugOffsets, interpreter_frame.owner));
    CHECK_EQ(l->code_filename, offsetof(_Py_DebugOffsets, code_object.filename));
    CHECK_EQ(l->code_name, offsetof(_Py_DebugOffsets, code_object.qualname));
    CHECK_EQ(l->code_linetable, offsetof(_Py_DebugOffsets, code_object.linetable));
    CHECK_EQ(l->code_firstlineno, offsetof(_Py_DebugOffsets, code_object.firstlineno));
    CHECK_EQ(l->code_instructions, offsetof(_Py_DebugOffsets, code_object.co_code_adaptive));
    CHECK_EQ(l->bytes_size, offsetof(_Py_DebugOffsets, bytes_object.ob_size));
    CHECK_EQ(l->bytes_data, offsetof(_Py_DebugOffsets, bytes_object.ob_sval));
    CHECK_EQ(l->text_length, offsetof(_Py_DebugOffsets, unicode_object.length));
    CHECK_EQ(l->text_state, offsetof(_Py_DebugOffsets, unicode_object.state));
    CHECK_EQ(l->text_ascii, offsetof(_Py_DebugOffsets, unicode_object.asciiobject_size));
    CHECK_EQ(sizeof(PyCompactUnicodeObject), sizeof(PyASCIIObject) + 16);
    CHECK_EQ(l->instruction_unit, 0);
    CHECK_EQ(l->lines, DT_LINES_LOCATIONS);
#if PY_VERSION_HEX >= 0x030e0000 && defined(Py_GIL_DISABLED)
    CHECK_EQ(l->frame_copy, offsetof(_Py_DebugOffsets, interpreter_frame.tlbc_index));
    CHECK_EQ(l->code_copies, offsetof(_Py_DebugOffsets, code_object.co_tlbc));
#endif
    check_text_state(l);
}

#else

BEFORE_ALL
{
    SKIP("the headers are those of CPython " PY_VERSION ", and it is not known");
}

#endif
