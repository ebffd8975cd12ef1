/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/look/python_layout.h"

#include <stdbool.h>
#include <string.h>

#define FIELDS (sizeof(struct dt_python_layout) / sizeof(uint32_t))

/* No struct of CPython is larger; a table with a larger offset is damaged. */
#define OFFSET_MAX (1u << 20)

/* In _Py_DebugOffsets. */
#define TABLE_COOKIE "xdebugpy"
#define TABLE_VERSION 8
#define TABLE_FREE_THREADED 16
#define TABLE_BYTES 568 /* as far as we need it */

/* Text that is not ASCII begins that far behind where ASCII would: behind utf8_length and utf8. */
#define WIDE_BEHIND_ASCII 16

static const struct dt_python_layout layout_3_11 = {
    .runtime_interpreters = 40,
    .interpreter_next = 0,
    .interpreter_threads = 16,
    .thread_next = 8,
    .thread_native_id = 160,
    .thread_frame = 56,
    .cframe_frame = 8,
    .frame_previous = 48,
    .frame_code = 32,
    .frame_instruction = 56,
    .frame_owner = 69,
    .code_filename = 112,
    .code_qualname = 128,
    .code_linetable = 136,
    .code_firstlineno = 72,
    .code_instructions = 184,
    .bytes_size = 16,
    .bytes_data = 32,
    .text_length = 16,
    .text_state = 32,
    .text_ascii = 48,
    .text_wide = 72,
};

static const struct dt_python_layout positions_3_13 = {
    .runtime_interpreters = 40,
    .interpreter_next = 64,
    .interpreter_threads = 72,
    .thread_next = 168,
    .thread_native_id = 200,
    .thread_frame = 184,
    .cframe_frame = DT_PYTHON_NO_FIELD,
    .frame_previous = 232,
    .frame_code = 240,
    .frame_instruction = 248,
    .frame_owner = 264,
    .code_filename = 280,
    .code_qualname = 296,
    .code_linetable = 304,
    .code_firstlineno = 312,
    .code_instructions = 344,
    .bytes_size = 520,
    .bytes_data = 528,
    .text_length = 552,
    .text_state = 544,
    .text_ascii = 560,
    .text_wide = DT_PYTHON_NO_FIELD, /* follows from text_ascii */
};

const struct dt_python_layout *dt_python_layout_fixed(uint32_t version)
{
    return version == 0x030b ? &layout_3_11 : NULL;
}

const struct dt_python_layout *dt_python_layout_positions(uint32_t version)
{
    return version == 0x030d ? &positions_3_13 : NULL;
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
           fits(l->code_filename, 8, DT_PYTHON_CODE_BYTES) &&
           fits(l->code_qualname, 8, DT_PYTHON_CODE_BYTES) &&
           fits(l->code_linetable, 8, DT_PYTHON_CODE_BYTES) &&
           fits(l->code_firstlineno, 4, DT_PYTHON_CODE_BYTES) &&
           fits(l->text_length, 8, DT_PYTHON_TEXT_HEAD) &&
           fits(l->text_state, 4, DT_PYTHON_TEXT_HEAD);
}

static int read_table(struct dt_python_layout *layout, const struct dt_python_layout *positions,
                      const uint8_t *table)
{
    uint32_t at[FIELDS], offset[FIELDS];
    memcpy(at, positions, sizeof at);
    for (size_t i = 0; i < FIELDS; i++) {
        uint64_t word = at[i] == DT_PYTHON_NO_FIELD ? 0 : word_at(table, at[i]);
        if (word > OFFSET_MAX)
            return -1;
        offset[i] = at[i] == DT_PYTHON_NO_FIELD ? DT_PYTHON_NO_FIELD : (uint32_t)word;
    }
    memcpy(layout, offset, sizeof offset);
    layout->text_wide = layout->text_ascii + WIDE_BEHIND_ASCII;
    return makes_sense(layout) ? 0 : -1;
}

int dt_python_layout_read(struct dt_python_layout *layout, struct dt_memory *m, uint32_t hex,
                          uint64_t runtime, struct dt_err *err)
{
    uint32_t version = hex >> 16;
    const struct dt_python_layout *fixed = dt_python_layout_fixed(version);
    const struct dt_python_layout *positions = dt_python_layout_positions(version);
    uint8_t table[TABLE_BYTES];
    if (fixed) {
        *layout = *fixed;
        return 0;
    }
    if (!positions)
        return dt_err_set(err, DT_E_RUNTIME,
                          "CPython %u.%u is not known: stacks of 3.11 and 3.13 can be read",
                          version >> 8, version & 255);
    if (dt_memory_read(m, runtime, table, sizeof table) < 0)
        return dt_err_errno(err, DT_E_RUNTIME, m->error, "the table of offsets");
    if (memcmp(table, TABLE_COOKIE, 8) != 0 || word_at(table, TABLE_VERSION) != hex)
        return dt_err_set(err, DT_E_RUNTIME, "the table of offsets is damaged");
    if (word_at(table, TABLE_FREE_THREADED))
        return dt_err_set(err, DT_E_RUNTIME, "free-threaded CPython %u.%u is not known",
                          version >> 8, version & 255);
    if (read_table(layout, positions, table) < 0)
        return dt_err_set(err, DT_E_RUNTIME, "the table of offsets is damaged");
    return 0;
}
