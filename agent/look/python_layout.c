/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/look/python_layout.h"

#include <stdbool.h>
#include <string.h>

#define OFFSETS (offsetof(struct dt_python_layout, text_kind) / sizeof(uint32_t))

/* No struct of CPython is larger; a table with a larger offset is damaged. */
#define OFFSET_MAX (1u << 20)

/* In _Py_DebugOffsets. */
#define TABLE_COOKIE "xdebugpy"
#define TABLE_VERSION 8
#define TABLE_FREE_THREADED 16
#define TABLE_BYTES_MAX 648
/* Text that is not ASCII begins that far behind where ASCII would: behind utf8_length and utf8. */
#define WIDE_BEHIND_ASCII 16

/* A frame is an object, and a thread has no number. Equal in these versions, but for what a frame
 * has behind its code. */
#define LAYOUT_TO_3_10                                                                             \
    .runtime_interpreters = 32, .interpreter_next = 0, .interpreter_threads = 8, .thread_next = 8, \
    .thread_interpreter = 16, .thread_native_id = DT_PYTHON_NO_FIELD, .thread_pthread = 176,       \
    .thread_frame = 24, .cframe_frame = DT_PYTHON_NO_FIELD, .frame_previous = 24,                  \
    .frame_code = 32, .frame_references = 0, .frame_owner = DT_PYTHON_NO_FIELD,                    \
    .frame_copy = DT_PYTHON_NO_FIELD, .code_copies = DT_PYTHON_NO_FIELD, .code_filename = 104,     \
    .code_name = 112, .code_linetable = 120, .code_firstlineno = 40,                               \
    .code_instructions = DT_PYTHON_NO_FIELD, .bytes_size = 16, .bytes_data = 32,                   \
    .text_length = 16, .text_state = 32, .text_ascii = 48, .text_wide = 72, .text_kind = 2

/* All interpreters of 3.8 have one collector. */
static const struct dt_python_layout layout_3_8 = {
    LAYOUT_TO_3_10,
    .interpreter_gc = DT_PYTHON_NO_FIELD,
    .gc_collecting = DT_PYTHON_NO_FIELD,
    .frame_instruction = 104,
    .instruction_unit = 1,
    .lines = DT_LINES_NUMBERS,
};

static const struct dt_python_layout layout_3_9 = {
    LAYOUT_TO_3_10,           .interpreter_gc = 616, .gc_collecting = 200,
    .frame_instruction = 104, .instruction_unit = 1, .lines = DT_LINES_NUMBERS,
};

static const struct dt_python_layout layout_3_10 = {
    LAYOUT_TO_3_10,          .interpreter_gc = 616, .gc_collecting = 200,
    .frame_instruction = 96, .instruction_unit = 2, .lines = DT_LINES_RANGES,
};

static const struct dt_python_layout layout_3_11 = {
    .runtime_interpreters = 40,
    .interpreter_next = 0,
    .interpreter_threads = 16,
    .interpreter_gc = 648,
    .gc_collecting = 200,
    .thread_next = 8,
    .thread_interpreter = 16,
    .thread_native_id = 160,
    .thread_pthread = DT_PYTHON_NO_FIELD,
    .thread_frame = 56,
    .cframe_frame = 8,
    .frame_previous = 48,
    .frame_code = 32,
    .frame_instruction = 56,
    .frame_references = DT_PYTHON_NO_FIELD,
    .frame_owner = 69,
    .frame_copy = DT_PYTHON_NO_FIELD,
    .code_copies = DT_PYTHON_NO_FIELD,
    .code_filename = 112,
    .code_name = 128,
    .code_linetable = 136,
    .code_firstlineno = 72,
    .code_instructions = 184,
    .bytes_size = 16,
    .bytes_data = 32,
    .text_length = 16,
    .text_state = 32,
    .text_ascii = 48,
    .text_wide = 72,
    .text_kind = 2,
    .lines = DT_LINES_LOCATIONS,
};

static const struct dt_python_layout layout_3_12 = {
    .runtime_interpreters = 40,
    .interpreter_next = 0,
    .interpreter_threads = 72,
    .interpreter_gc = 112,
    .gc_collecting = 200,
    .thread_next = 8,
    .thread_interpreter = 16,
    .thread_native_id = 144,
    .thread_pthread = DT_PYTHON_NO_FIELD,
    .thread_frame = 56,
    .cframe_frame = 0,
    .frame_previous = 8,
    .frame_code = 0,
    .frame_instruction = 56,
    .frame_references = DT_PYTHON_NO_FIELD,
    .frame_owner = 70,
    .frame_copy = DT_PYTHON_NO_FIELD,
    .code_copies = DT_PYTHON_NO_FIELD,
    .code_filename = 112,
    .code_name = 128,
    .code_linetable = 136,
    .code_firstlineno = 68,
    .code_instructions = 192,
    .bytes_size = 16,
    .bytes_data = 32,
    .text_length = 16,
    .text_state = 32,
    .text_ascii = 40,
    .text_wide = 56,
    .text_kind = 2,
    .lines = DT_LINES_LOCATIONS,
};

static const struct dt_python_layout positions_3_13 = {
    .runtime_interpreters = 40,
    .interpreter_next = 64,
    .interpreter_threads = 72,
    .interpreter_gc = 80,
    .gc_collecting = 576,
    .thread_next = 168,
    .thread_interpreter = 176,
    .thread_native_id = 200,
    .thread_pthread = DT_PYTHON_NO_FIELD,
    .thread_frame = 184,
    .cframe_frame = DT_PYTHON_NO_FIELD,
    .frame_previous = 232,
    .frame_code = 240,
    .frame_instruction = 248,
    .frame_references = DT_PYTHON_NO_FIELD,
    .frame_owner = 264,
    .frame_copy = DT_PYTHON_NO_FIELD,
    .code_copies = DT_PYTHON_NO_FIELD,
    .code_filename = 280,
    .code_name = 296,
    .code_linetable = 304,
    .code_firstlineno = 312,
    .code_instructions = 344,
    .bytes_size = 520,
    .bytes_data = 528,
    .text_length = 552,
    .text_state = 544,
    .text_ascii = 560,
    .text_wide = DT_PYTHON_NO_FIELD, /* follows from text_ascii */
    .text_kind = 2,
    .lines = DT_LINES_LOCATIONS,
};

#define POSITIONS_3_14                                                                             \
    .runtime_interpreters = 40, .interpreter_next = 64, .interpreter_threads = 72,                 \
    .interpreter_gc = 88, .gc_collecting = 656, .thread_next = 192, .thread_interpreter = 200,     \
    .thread_native_id = 224, .thread_pthread = DT_PYTHON_NO_FIELD, .thread_frame = 208,            \
    .cframe_frame = DT_PYTHON_NO_FIELD, .frame_previous = 256, .frame_code = 264,                  \
    .frame_instruction = 272, .frame_references = DT_PYTHON_NO_FIELD, .frame_owner = 288,          \
    .code_filename = 320, .code_name = 336, .code_linetable = 344, .code_firstlineno = 352,        \
    .code_instructions = 384, .bytes_size = 600, .bytes_data = 608, .text_length = 632,            \
    .text_state = 624, .text_ascii = 640, .text_wide = DT_PYTHON_NO_FIELD,                         \
    .lines = DT_LINES_LOCATIONS

static const struct dt_python_layout positions_3_14 = {
    POSITIONS_3_14,
    .frame_copy = DT_PYTHON_NO_FIELD,
    .code_copies = DT_PYTHON_NO_FIELD,
    .text_kind = 2,
};

/* Each thread may run its own copy of the code, and a text's state begins with a whole byte. */
static const struct dt_python_layout positions_3_14_free_threaded = {
    POSITIONS_3_14,
    .frame_copy = 304,
    .code_copies = 392,
    .text_kind = 8,
};

const struct dt_python_layout *dt_python_layout_fixed(uint32_t version)
{
    switch (version) {
    case 0x0308:
        return &layout_3_8;
    case 0x0309:
        return &layout_3_9;
    case 0x030a:
        return &layout_3_10;
    case 0x030b:
        return &layout_3_11;
    case 0x030c:
        return &layout_3_12;
    default:
        return NULL;
    }
}

const struct dt_python_layout *dt_python_layout_positions(uint32_t version, bool free_threaded)
{
    if (version == 0x030d)
        return &positions_3_13;
    if (version == 0x030e)
        return free_threaded ? &positions_3_14_free_threaded : &positions_3_14;
    return NULL;
}

static uint64_t word_at(const uint8_t *table, uint32_t at)
{
    uint64_t word;
    memcpy(&word, table + at, sizeof word);
    return word;
}

static bool fits(uint32_t offset, size_t size, size_t bytes)
{
    return offset <= bytes - size;
}

/* Whether what is read of a frame, a code object or a text at once holds all that is wanted of it.
 */
static bool makes_sense(const struct dt_python_layout *l)
{
    return fits(l->frame_previous, 8, DT_PYTHON_FRAME_BYTES) &&
           fits(l->frame_code, 8, DT_PYTHON_FRAME_BYTES) &&
           fits(l->frame_instruction, 8, DT_PYTHON_FRAME_BYTES) &&
           fits(l->frame_owner, 1, DT_PYTHON_FRAME_BYTES) &&
           (l->frame_copy == DT_PYTHON_NO_FIELD || fits(l->frame_copy, 4, DT_PYTHON_FRAME_BYTES)) &&
           fits(l->code_filename, 8, DT_PYTHON_CODE_BYTES) &&
           fits(l->code_name, 8, DT_PYTHON_CODE_BYTES) &&
           fits(l->code_linetable, 8, DT_PYTHON_CODE_BYTES) &&
           fits(l->code_firstlineno, 4, DT_PYTHON_CODE_BYTES) &&
           fits(l->text_length, 8, DT_PYTHON_TEXT_HEAD) &&
           fits(l->text_state, 4, DT_PYTHON_TEXT_HEAD);
}

/* Whatever of a table POSITIONS wants is before this. */
static size_t table_bytes(const struct dt_python_layout *positions)
{
    return positions->text_ascii + sizeof(uint64_t);
}

static int take_table(struct dt_python_layout *layout, const struct dt_python_layout *positions,
                      const uint8_t *table)
{
    uint32_t at[OFFSETS], offset[OFFSETS];
    memcpy(at, positions, sizeof at);
    for (size_t i = 0; i < OFFSETS; i++) {
        uint64_t word = at[i] == DT_PYTHON_NO_FIELD ? 0 : word_at(table, at[i]);
        if (word > OFFSET_MAX)
            return -1;
        offset[i] = at[i] == DT_PYTHON_NO_FIELD ? DT_PYTHON_NO_FIELD : (uint32_t)word;
    }
    *layout = *positions;
    memcpy(layout, offset, sizeof offset);
    layout->gc_collecting = DT_PYTHON_NO_FIELD;
    layout->text_wide = layout->text_ascii + WIDE_BEHIND_ASCII;
    return makes_sense(layout) ? 0 : -1;
}

/* Stands apart, at the end of the table; a stack needs none of it. */
static void take_collecting(struct dt_python_layout *layout, struct dt_memory *m, uint64_t at)
{
    uint64_t offset;
    if (dt_memory_word(m, at, &offset) == 0 && offset < OFFSET_MAX)
        layout->gc_collecting = (uint32_t)offset;
    m->error = 0;
}

static int read_table(struct dt_python_layout *layout, struct dt_memory *m, uint32_t hex,
                      uint64_t runtime, struct dt_err *err)
{
    uint32_t version = hex >> 16;
    const struct dt_python_layout *positions = dt_python_layout_positions(version, false);
    uint8_t table[TABLE_BYTES_MAX];
    if (!positions && (version & 255) == 0)
        return dt_err_set(err, DT_E_RUNTIME,
                          "which CPython it is, is not known: before 3.11 only the name of its "
                          "file, such as python3.9, tells it");
    if (!positions)
        return dt_err_set(err, DT_E_RUNTIME,
                          "CPython %u.%u is not known: stacks of 3.8 to 3.14 can be read",
                          version >> 8, version & 255);
    if (dt_memory_read(m, runtime, table, table_bytes(positions)) < 0)
        return dt_err_errno(err, DT_E_RUNTIME, m->error, "the table of offsets");
    if (word_at(table, TABLE_FREE_THREADED))
        positions = dt_python_layout_positions(version, true);
    if (memcmp(table, TABLE_COOKIE, 8) != 0 || word_at(table, TABLE_VERSION) != hex ||
        take_table(layout, positions, table) < 0)
        return dt_err_set(err, DT_E_RUNTIME, "the table of offsets is damaged");
    take_collecting(layout, m, runtime + positions->gc_collecting);
    return 0;
}

int dt_python_layout_read(struct dt_python_layout *layout, struct dt_memory *m, uint32_t hex,
                          uint64_t runtime, struct dt_err *err)
{
    const struct dt_python_layout *fixed = dt_python_layout_fixed(hex >> 16);
    if (!fixed)
        return read_table(layout, m, hex, runtime, err);
    *layout = *fixed;
    return 0;
}
