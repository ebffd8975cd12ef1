/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/look/python_stack.h"

#include "agent/look/line_table.h"
#include "agent/look/native_id.h"
#include "agent/look/python_text.h"
#include "base/utf8.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How often a stack that changes is looked at. */
#define LOOKS_MAX 8

/* Frames of these owners and above are none of a script: C code that called back. */
#define OWNER_C_STACK 3

/* C code frames that a walk passes over, at most. */
#define STUBS_MAX DT_PYTHON_DEPTH_MAX

/* What an address of code in a frame has in its lowest bits from 3.14 on: who counts references. */
#define REFERENCE_TAG UINT64_C(3)

/* A frame before anything is known of its code. */
struct raw_frame {
    uint64_t address, code, instruction;
    uint32_t copy; /* of the code, that it runs */
};

struct raw_stack {
    uint64_t native_id;
    struct raw_frame at[DT_PYTHON_DEPTH_MAX];
    size_t depth;
    bool deeper;
};

/* The reader, and room that one stack after the other uses. */
struct look {
    struct dt_memory *m;
    const struct dt_python_layout *layout;
    struct dt_python_wanted *wanted; /* NULL: all threads are */
    size_t threads;                  /* so far */
    struct dt_buf text;
    struct dt_buf lines; /* the location table of the code at hand ... */
    int32_t first_line;  /* ... and its first line */
    struct raw_stack before, after;
    struct dt_python_frame *frames; /* DT_PYTHON_DEPTH_MAX; not zeroed, as few are used */
};

static uint64_t word_at(const uint8_t *bytes, uint32_t offset)
{
    uint64_t word;
    memcpy(&word, bytes + offset, sizeof word);
    return word;
}

static uint32_t half_at(const uint8_t *bytes, uint32_t offset)
{
    uint32_t half;
    memcpy(&half, bytes + offset, sizeof half);
    return half;
}

/* Makes *END large enough for FIELD, if there is such a field. */
static void include_field(size_t *end, uint32_t field, size_t size)
{
    if (field != DT_PYTHON_NO_FIELD && *end < field + size)
        *end = field + size;
}

/* How much of a frame has to be read. */
static size_t frame_bytes(const struct dt_python_layout *l)
{
    size_t end = 0;
    include_field(&end, l->frame_previous, sizeof(uint64_t));
    include_field(&end, l->frame_code, sizeof(uint64_t));
    include_field(&end, l->frame_instruction, sizeof(uint64_t));
    include_field(&end, l->frame_references, sizeof(uint64_t));
    include_field(&end, l->frame_owner, 1);
    include_field(&end, l->frame_copy, sizeof(uint32_t));
    return end;
}

static size_t code_bytes(const struct dt_python_layout *l)
{
    size_t end = l->code_firstlineno + sizeof(int32_t);
    include_field(&end, l->code_filename, sizeof(uint64_t));
    include_field(&end, l->code_name, sizeof(uint64_t));
    include_field(&end, l->code_linetable, sizeof(uint64_t));
    return end;
}

/* The number of a thread; 0: it is not known. */
static int read_native_id(struct look *k, uint64_t thread, uint64_t *id)
{
    const struct dt_python_layout *l = k->layout;
    uint64_t pthread;
    if (l->thread_native_id != DT_PYTHON_NO_FIELD)
        return dt_memory_word(k->m, thread + l->thread_native_id, id);
    if (dt_memory_word(k->m, thread + l->thread_pthread, &pthread) < 0)
        return -1;
    *id = dt_native_id_read(k->m, pthread);
    return 0;
}

/* The innermost frame of a thread; 0: it runs no Python now. */
static int read_innermost(struct look *k, uint64_t thread, uint64_t *frame)
{
    const struct dt_python_layout *l = k->layout;
    if (dt_memory_word(k->m, thread + l->thread_frame, frame) < 0)
        return -1;
    if (l->cframe_frame == DT_PYTHON_NO_FIELD)
        return 0;
    return dt_memory_word(k->m, *frame + l->cframe_frame, frame);
}

static bool has_frame(const struct raw_stack *s, uint64_t address)
{
    for (size_t i = 0; i < s->depth; i++)
        if (s->at[i].address == address)
            return true;
    return false;
}

/* Whether the frame in BYTES is none of a script. */
static bool is_stub(const struct dt_python_layout *l, const uint8_t *bytes)
{
    return l->frame_owner != DT_PYTHON_NO_FIELD && bytes[l->frame_owner] >= OWNER_C_STACK;
}

/* Whether the frame in BYTES was freed: what it leads to is no frame that called it. */
static bool is_freed(const struct dt_python_layout *l, const uint8_t *bytes)
{
    return l->frame_references != DT_PYTHON_NO_FIELD && word_at(bytes, l->frame_references) == 0;
}

static struct raw_frame take_frame(const struct dt_python_layout *l, uint64_t address,
                                   const uint8_t *bytes)
{
    return (struct raw_frame){
        .address = address,
        .code = word_at(bytes, l->frame_code) & ~REFERENCE_TAG,
        .instruction = word_at(bytes, l->frame_instruction),
        .copy = l->frame_copy != DT_PYTHON_NO_FIELD ? half_at(bytes, l->frame_copy) : 0,
    };
}

/* Follows the frames of THREAD outwards. -1 with an errno value in the memory's error: EFAULT for a
 * frame that leads to itself or was freed, too. */
static int walk(struct look *k, uint64_t thread, struct raw_stack *s)
{
    const struct dt_python_layout *l = k->layout;
    uint8_t bytes[DT_PYTHON_FRAME_BYTES];
    size_t size = frame_bytes(l), stubs = 0;
    uint64_t frame;
    s->depth = 0;
    s->deeper = false;
    if (read_native_id(k, thread, &s->native_id) < 0 || read_innermost(k, thread, &frame) < 0)
        return -1;
    for (; frame; frame = word_at(bytes, l->frame_previous)) {
        if (s->depth == DT_PYTHON_DEPTH_MAX) {
            s->deeper = true;
            return 0;
        }
        if (dt_memory_read(k->m, frame, bytes, size) < 0)
            return -1;
        bool stub = is_stub(l, bytes);
        if ((stub && ++stubs > STUBS_MAX) || is_freed(l, bytes) || has_frame(s, frame)) {
            k->m->error = EFAULT;
            return -1;
        }
        if (!stub)
            s->at[s->depth++] = take_frame(l, frame, bytes);
    }
    return 0;
}

/* Copies TEXT from FROM on, without a part of a character at the end. */
static void copy_text(char *out, size_t size, const struct dt_buf *text, size_t from)
{
    size_t n = 0;
    while (from + n < text->len) {
        size_t len = dt_utf8_len(text->at + from + n, text->len - from - n);
        if (len == 0 || n + len >= size)
            break;
        n += len;
    }
    if (n > 0)
        memcpy(out, text->at + from, n);
    out[n] = '\0';
}

static int describe_text(struct look *k, uint64_t address, char *out, size_t size, bool keep_end)
{
    dt_buf_clear(&k->text);
    if (dt_python_text_read(k->m, k->layout, address, &k->text) < 0)
        return -1;
    size_t from = keep_end && k->text.len >= size ? k->text.len - size + 1 : 0;
    while (from > 0 && from < k->text.len && (k->text.at[from] & 0xc0) == 0x80)
        from++; /* not in the middle of a character */
    copy_text(out, size, &k->text, from);
    return 0;
}

/* Fills in the names of RAW's code; its lines go to K. *FILE is the address of the name that
 * FRAME->file has already: neighbours on a stack often share a file. */
static int describe_code(struct look *k, const struct raw_frame *raw, uint64_t *file,
                         struct dt_python_frame *frame)
{
    const struct dt_python_layout *l = k->layout;
    uint8_t code[DT_PYTHON_CODE_BYTES];
    if (dt_memory_read(k->m, raw->code, code, code_bytes(l)) < 0)
        return -1;
    memcpy(&k->first_line, code + l->code_firstlineno, sizeof k->first_line);
    uint64_t its_file = word_at(code, l->code_filename);
    if ((its_file == 0 || its_file != *file) &&
        describe_text(k, its_file, frame->file, sizeof frame->file, true) < 0)
        return -1;
    *file = its_file;
    dt_buf_clear(&k->lines);
    if (describe_text(k, word_at(code, l->code_name), frame->function, sizeof frame->function,
                      false) < 0)
        return -1;
    return dt_python_bytes_read(k->m, l, word_at(code, l->code_linetable), &k->lines);
}

/* Where the instructions begin that RAW runs: in its code, or in a copy. */
static int find_instructions(struct look *k, const struct raw_frame *raw, uint64_t *first)
{
    uint64_t copies, count;
    *first = raw->code + k->layout->code_instructions;
    if (raw->copy == 0)
        return 0;
    if (dt_memory_word(k->m, raw->code + k->layout->code_copies, &copies) < 0 ||
        dt_memory_word(k->m, copies, &count) < 0)
        return -1;
    if (raw->copy >= count) {
        k->m->error = EFAULT;
        return -1;
    }
    return dt_memory_word(k->m, copies + sizeof count + raw->copy * sizeof *first, first);
}

static int describe_line(struct look *k, const struct raw_frame *raw, int *line)
{
    const struct dt_python_layout *l = k->layout;
    uint64_t first;
    int64_t at = (int64_t)(int32_t)(uint32_t)raw->instruction * l->instruction_unit;
    if (l->instruction_unit == 0) {
        if (find_instructions(k, raw, &first) < 0)
            return -1;
        at = (int64_t)(raw->instruction - first);
    }
    *line = dt_line_table_at(l->lines, k->lines.at, k->lines.len, k->first_line, at);
    return 0;
}

static int describe_all(struct look *k, const struct raw_stack *s, struct dt_python_frame *frames)
{
    uint64_t code = 0, file = 0;
    for (size_t i = 0; i < s->depth; i++) {
        const struct raw_frame *raw = &s->at[i];
        if (i > 0)
            frames[i] = frames[i - 1];
        if ((i == 0 || raw->code != code) && describe_code(k, raw, &file, &frames[i]) < 0)
            return -1;
        code = raw->code;
        if (describe_line(k, raw, &frames[i].line) < 0)
            return -1;
    }
    return 0;
}

/* How many of the outer frames are the same in A and B. The instruction may differ: each of both is
 * right, and what has run on within a line, or a loop, has not moved away. */
static size_t common(const struct raw_stack *a, const struct raw_stack *b)
{
    size_t n = 0;
    if (a->native_id != b->native_id || a->deeper || b->deeper) {
        bool same = a->native_id == b->native_id && a->depth == b->depth;
        for (size_t i = 0; same && i < a->depth; i++)
            same = a->at[i].address == b->at[i].address && a->at[i].code == b->at[i].code;
        return same ? a->depth : 0;
    }
    while (n < a->depth && n < b->depth &&
           a->at[a->depth - 1 - n].address == b->at[b->depth - 1 - n].address &&
           a->at[a->depth - 1 - n].code == b->at[b->depth - 1 - n].code)
        n++;
    return n;
}

/* Keeps the KEPT outer of the DEPTH frames in FRAMES. */
static int keep_frames(struct dt_python_thread *t, const struct dt_python_frame *frames,
                       size_t depth, size_t kept)
{
    struct dt_python_frame *at = kept > 0 ? calloc(kept, sizeof *at) : NULL;
    if (kept > 0 && !at)
        return -1;
    if (at)
        memcpy(at, frames + depth - kept, kept * sizeof *at);
    free(t->frames);
    t->frames = at;
    t->depth = kept;
    return 0;
}

/* Looks twice, and reads the names between. 1: both looks agree; 0: they do not, and T has what
 * they have in common if that is more than before; -1: unreadable. */
static int look_twice(struct look *k, uint64_t thread, struct dt_python_thread *t)
{
    const struct raw_stack *before = &k->before, *after = &k->after;
    if (walk(k, thread, &k->before) < 0)
        return -1;
    dt_memory_forget(k->m);
    if (describe_all(k, before, k->frames) < 0)
        return -1;
    dt_memory_forget(k->m);
    if (walk(k, thread, &k->after) < 0)
        return -1;
    size_t same = common(before, after);
    bool agree = same == before->depth && same == after->depth;
    t->native_id = before->native_id;
    if (agree || same > t->depth) {
        t->deeper = before->deeper;
        if (keep_frames(t, k->frames, before->depth, same) < 0)
            return -1;
    }
    return agree;
}

static void read_thread(struct look *k, uint64_t thread, struct dt_python_thread *t)
{
    int answer = 0;
    for (int i = 0; i < LOOKS_MAX && answer <= 0; i++) {
        if (i > 0)
            dt_memory_forget(k->m);
        answer = look_twice(k, thread, t);
        if (answer < 0 && k->m->error && k->m->error != EFAULT)
            break; /* it is gone, or may not be read */
    }
    t->changing = answer <= 0 && t->depth > 0;
    if (answer == 0 && t->depth == 0)
        snprintf(t->unreadable, sizeof t->unreadable,
                 "the stack changes faster than it can be read");
    else if (answer < 0 && t->depth == 0)
        snprintf(t->unreadable, sizeof t->unreadable, "%s",
                 k->m->error == E2BIG   ? "too much to read"
                 : k->m->error == 0     ? "a name in it makes no sense"
                 : k->m->error == ESRCH ? "it has ended"
                                        : "the memory of its frames makes no sense");
}

static void append_thread(struct look *k, uint64_t thread, uint64_t id,
                          struct dt_python_stacks *out)
{
    struct dt_python_thread *t = &out->at[out->len++];
    t->native_id = id;
    read_thread(k, thread, t);
}

/* Appends the thread that is wanted, if its state is where it was. */
static bool read_again(struct look *k, uint64_t interpreter, struct dt_python_stacks *out)
{
    uint64_t state = k->wanted ? k->wanted->state : 0, its, id;
    if (!state || dt_memory_word(k->m, state + k->layout->thread_interpreter, &its) < 0 ||
        its != interpreter || read_native_id(k, state, &id) < 0 || id != k->wanted->native_id)
        return false;
    append_thread(k, state, id, out);
    return true;
}

/* Appends the threads of one interpreter, or the one that is wanted. */
static int read_threads(struct look *k, uint64_t interpreter, struct dt_python_stacks *out)
{
    const struct dt_python_layout *l = k->layout;
    uint64_t thread, id;
    if (read_again(k, interpreter, out))
        return 0;
    if (dt_memory_word(k->m, interpreter + l->interpreter_threads, &thread) < 0)
        return -1;
    while (thread) {
        if (k->threads++ == DT_PYTHON_THREADS_MAX) {
            out->more = true;
            return 0;
        }
        if (read_native_id(k, thread, &id) < 0)
            return -1;
        if (!k->wanted || id == k->wanted->native_id)
            append_thread(k, thread, id, out);
        if (k->wanted && out->len > 0) {
            k->wanted->state = thread;
            return 0;
        }
        if (dt_memory_word(k->m, thread + l->thread_next, &thread) < 0)
            return -1;
    }
    return 0;
}

/* It is not known where the version does not tell, or its memory lies. */
static bool is_collecting(struct dt_memory *m, const struct dt_python_layout *l,
                          uint64_t interpreter)
{
    uint32_t collecting = 0;
    if (l->interpreter_gc == DT_PYTHON_NO_FIELD || l->gc_collecting == DT_PYTHON_NO_FIELD)
        return false;
    uint64_t at = interpreter + l->interpreter_gc + l->gc_collecting;
    return dt_memory_read(m, at, &collecting, sizeof collecting) == 0 && collecting == 1;
}

int dt_python_stacks_read(struct dt_python_stacks *stacks, struct dt_memory *m,
                          const struct dt_python_layout *layout, uint64_t runtime,
                          struct dt_err *err)
{
    return dt_python_stacks_read_one(stacks, m, layout, runtime, NULL, err);
}

int dt_python_stacks_read_one(struct dt_python_stacks *stacks, struct dt_memory *m,
                              const struct dt_python_layout *layout, uint64_t runtime,
                              struct dt_python_wanted *wanted, struct dt_err *err)
{
    struct look *k = calloc(1, sizeof *k);
    uint64_t interpreter = 0;
    size_t room = wanted ? 1 : DT_PYTHON_THREADS_MAX;
    int rc = 0;
    *stacks = (struct dt_python_stacks){.at = calloc(room, sizeof *stacks->at)};
    if (k)
        k->frames = malloc(DT_PYTHON_DEPTH_MAX * sizeof *k->frames);
    if (!k || !k->frames || !stacks->at) {
        if (k)
            free(k->frames);
        free(k);
        return dt_err_set(err, DT_E_MEMORY, "no memory for stacks");
    }
    k->m = m;
    k->layout = layout;
    k->wanted = wanted;
    rc = dt_memory_word(m, runtime + layout->runtime_interpreters, &interpreter);
    for (int i = 0; rc == 0 && interpreter && i < DT_PYTHON_INTERPRETERS_MAX; i++) {
        stacks->collecting = stacks->collecting || is_collecting(m, layout, interpreter);
        if (!wanted || stacks->len == 0)
            rc = read_threads(k, interpreter, stacks);
        if (rc == 0)
            rc = dt_memory_word(m, interpreter + layout->interpreter_next, &interpreter);
    }
    dt_buf_finish(&k->text);
    dt_buf_finish(&k->lines);
    free(k->frames);
    free(k);
    /* A list that breaks off is still worth what stands before. */
    if (rc < 0 && stacks->len == 0)
        return dt_err_errno(err, DT_E_RUNTIME, m->error, "the list of its threads");
    return 0;
}

void dt_python_stacks_finish(struct dt_python_stacks *stacks)
{
    for (size_t i = 0; stacks->at && i < stacks->len; i++)
        free(stacks->at[i].frames);
    free(stacks->at);
    *stacks = (struct dt_python_stacks){0};
}
