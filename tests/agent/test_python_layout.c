/* SPDX-License-Identifier: Apache-2.0 */
/* Our table of offsets against CPython's own headers, those that this is compiled with. */
#define Py_BUILD_CORE 1
#include <Python.h>
#include <internal/pycore_frame.h>
#include <internal/pycore_interp.h>
#include <internal/pycore_runtime.h>

#include "agent/look/python_layout.h"
#include "tests/lib/check.h"

#if PY_VERSION_HEX >> 16 == 0x030b

TEST(our_offsets_are_those_of_the_headers)
{
    const struct dt_python_layout *l = dt_python_layout_fixed(PY_VERSION_HEX >> 16);
    CHECK(l != NULL);
    CHECK_EQ(l->runtime_interpreters, offsetof(_PyRuntimeState, interpreters.head));
    CHECK_EQ(l->interpreter_next, offsetof(PyInterpreterState, next));
    CHECK_EQ(l->interpreter_threads, offsetof(PyInterpreterState, threads.head));
    CHECK_EQ(l->thread_next, offsetof(PyThreadState, next));
    CHECK_EQ(l->thread_native_id, offsetof(PyThreadState, native_thread_id));
    CHECK_EQ(l->thread_frame, offsetof(PyThreadState, cframe));
    CHECK_EQ(l->cframe_frame, offsetof(_PyCFrame, current_frame));
    CHECK_EQ(l->frame_previous, offsetof(_PyInterpreterFrame, previous));
    CHECK_EQ(l->frame_code, offsetof(_PyInterpreterFrame, f_code));
    CHECK_EQ(l->frame_instruction, offsetof(_PyInterpreterFrame, prev_instr));
    CHECK_EQ(l->frame_owner, offsetof(_PyInterpreterFrame, owner));
    CHECK_EQ(l->code_filename, offsetof(PyCodeObject, co_filename));
    CHECK_EQ(l->code_qualname, offsetof(PyCodeObject, co_qualname));
    CHECK_EQ(l->code_linetable, offsetof(PyCodeObject, co_linetable));
    CHECK_EQ(l->code_firstlineno, offsetof(PyCodeObject, co_firstlineno));
    CHECK_EQ(l->code_instructions, offsetof(PyCodeObject, co_code_adaptive));
    CHECK_EQ(l->bytes_size, offsetof(PyVarObject, ob_size));
    CHECK_EQ(l->bytes_data, offsetof(PyBytesObject, ob_sval));
    CHECK_EQ(l->text_length, offsetof(PyASCIIObject, length));
    CHECK_EQ(l->text_state, offsetof(PyASCIIObject, state));
    CHECK_EQ(l->text_ascii, sizeof(PyASCIIObject));
    CHECK_EQ(l->text_wide, sizeof(PyCompactUnicodeObject));
}

#elif PY_VERSION_HEX >> 16 == 0x030d

TEST(our_positions_are_those_of_the_headers)
{
    const struct dt_python_layout *l = dt_python_layout_positions(PY_VERSION_HEX >> 16);
    CHECK(l != NULL);
    CHECK_EQ(l->runtime_interpreters, offsetof(_Py_DebugOffsets, runtime_state.interpreters_head));
    CHECK_EQ(l->interpreter_next, offsetof(_Py_DebugOffsets, interpreter_state.next));
    CHECK_EQ(l->interpreter_threads, offsetof(_Py_DebugOffsets, interpreter_state.threads_head));
    CHECK_EQ(l->thread_next, offsetof(_Py_DebugOffsets, thread_state.next));
    CHECK_EQ(l->thread_native_id, offsetof(_Py_DebugOffsets, thread_state.native_thread_id));
    CHECK_EQ(l->thread_frame, offsetof(_Py_DebugOffsets, thread_state.current_frame));
    CHECK_EQ(l->frame_previous, offsetof(_Py_DebugOffsets, interpreter_frame.previous));
    CHECK_EQ(l->frame_code, offsetof(_Py_DebugOffsets, interpreter_frame.executable));
    CHECK_EQ(l->frame_instruction, offsetof(_Py_DebugOffsets, interpreter_frame.instr_ptr));
    CHECK_EQ(l->frame_owner, offsetof(_Py_DebugOffsets, interpreter_frame.owner));
    CHECK_EQ(l->code_filename, offsetof(_Py_DebugOffsets, code_object.filename));
    CHECK_EQ(l->code_qualname, offsetof(_Py_DebugOffsets, code_object.qualname));
    CHECK_EQ(l->code_linetable, offsetof(_Py_DebugOffsets, code_object.linetable));
    CHECK_EQ(l->code_firstlineno, offsetof(_Py_DebugOffsets, code_object.firstlineno));
    CHECK_EQ(l->code_instructions, offsetof(_Py_DebugOffsets, code_object.co_code_adaptive));
    CHECK_EQ(l->bytes_size, offsetof(_Py_DebugOffsets, bytes_object.ob_size));
    CHECK_EQ(l->bytes_data, offsetof(_Py_DebugOffsets, bytes_object.ob_sval));
    CHECK_EQ(l->text_length, offsetof(_Py_DebugOffsets, unicode_object.length));
    CHECK_EQ(l->text_state, offsetof(_Py_DebugOffsets, unicode_object.state));
    CHECK_EQ(l->text_ascii, offsetof(_Py_DebugOffsets, unicode_object.asciiobject_size));
    CHECK_EQ(sizeof(PyCompactUnicodeObject), sizeof(PyASCIIObject) + 16);
}

#else

BEFORE_ALL
{
    SKIP("the headers are those of CPython " PY_VERSION ", and it is not known");
}

#endif
