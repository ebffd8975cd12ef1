/* SPDX-License-Identifier: Apache-2.0 */
/* Stacks of a tiny CPython that is made by hand: what recorded ones show seldom or never. */
#include "agent/look/python_stack.h"
#include "tests/lib/check.h"

#include <errno.h>

struct text {
    uint64_t length;
    uint32_t state;
    char characters[20];
};

struct table {
    uint64_t size;
    uint8_t entries[8];
};

/* One thread, of which "inner" called by "outer" of "a.py" runs. */
struct tiny {
    uint64_t interpreters;
    struct {
        uint64_t next, threads;
    } interpreter;
    struct {
        uint64_t next, interpreter, id, pthread, frame;
    } thread;
    struct {
        uint64_t references, previous, code, instruction;
        uint32_t copy;
        uint32_t owner;
    } frame[2];
    struct {
        uint64_t file, name, lines, first, copies, instructions[4];
    } code[2];
    struct {
        uint64_t count, at[3];
    } copies;
    uint64_t own_instructions[4];
    struct text file, name[2];
    struct table lines;
};

static const struct dt_python_layout layout_of_tiny = {
    .runtime_interpreters = offsetof(struct tiny, interpreters),
    .interpreter_next = 0,
    .interpreter_threads = 8,
    .interpreter_gc = DT_PYTHON_NO_FIELD,
    .gc_collecting = DT_PYTHON_NO_FIELD,
    .thread_next = 0,
    .thread_interpreter = 8,
    .thread_native_id = 16,
    .thread_pthread = 24,
    .thread_frame = 32,
    .cframe_frame = DT_PYTHON_NO_FIELD,
    .frame_references = 0,
    .frame_previous = 8,
    .frame_code = 16,
    .frame_instruction = 24,
    .frame_copy = 32,
    .frame_owner = 36,
    .code_filename = 0,
    .code_name = 8,
    .code_linetable = 16,
    .code_firstlineno = 24,
    .code_copies = 32,
    .code_instructions = 40,
    .bytes_size = 0,
    .bytes_data = 8,
    .text_length = 0,
    .text_state = 8,
    .text_ascii = 12,
    .text_wide = 12,
    .lines = DT_LINES_LOCATIONS,
};

static int read_tiny(void *arg, uint64_t address, void *out, size_t len)
{
    uint64_t from = address - (uint64_t)(uintptr_t)arg;
    if (from > sizeof(struct tiny) || len > sizeof(struct tiny) - from)
        return EFAULT;
    memcpy(out, (uint8_t *)arg + from, len);
    return 0;
}

static uint64_t address_of(const void *at)
{
    return (uint64_t)(uintptr_t)at;
}

static void set_text(struct text *t, const char *s)
{
    t->length = strlen(s);
    t->state = 1 | 8 | 16; /* a byte each, in place, ASCII */
    memcpy(t->characters, s, strlen(s));
}

/* The first instruction is at line 10, the second at line 11, and so on. */
static void make_tiny(struct tiny *t)
{
    *t = (struct tiny){.interpreters = address_of(&t->interpreter)};
    t->interpreter.threads = address_of(&t->thread);
    t->thread.interpreter = address_of(&t->interpreter);
    t->thread.id = 812;
    t->thread.frame = address_of(&t->frame[0]);
    t->frame[0].previous = address_of(&t->frame[1]);
    set_text(&t->file, "a.py");
    set_text(&t->name[0], "inner");
    set_text(&t->name[1], "outer");
    t->lines = (struct table){8, {0xe8, 0, 0xe8, 2, 0xe8, 2, 0xe8, 2}};
    for (int i = 0; i < 2; i++) {
        t->frame[i].references = 1;
        t->frame[i].code = address_of(&t->code[i]);
        t->frame[i].instruction = address_of(&t->code[i].instructions) + 2;
        t->code[i].file = address_of(&t->file);
        t->code[i].name = address_of(&t->name[i]);
        t->code[i].lines = address_of(&t->lines);
        t->code[i].first = 10;
        t->code[i].copies = address_of(&t->copies);
    }
    t->copies.count = 2;
    t->copies.at[1] = address_of(&t->own_instructions);
}

/* "inner:11 < outer:11", or why there is no stack. */
static const char *look_at(struct tiny *t, const struct dt_python_layout *layout, uint64_t *id)
{
    static char text[256];
    struct dt_memory m = {.read = read_tiny, .arg = t};
    struct dt_python_stacks stacks;
    struct dt_err err = {0};
    size_t n = 0;
    CHECK_OK(dt_python_stacks_read(&stacks, &m, layout, address_of(t), &err), err);
    CHECK_EQ(stacks.len, 1);
    snprintf(text, sizeof text, "%s", stacks.at[0].unreadable);
    for (size_t i = 0; i < stacks.at[0].depth; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s:%d", i ? " < " : "",
                              stacks.at[0].frames[i].function, stacks.at[0].frames[i].line);
    *id = stacks.at[0].native_id;
    dt_python_stacks_finish(&stacks);
    return text;
}

static void check_look(struct tiny *t, const char *stack)
{
    uint64_t id;
    CHECK_STR(look_at(t, &layout_of_tiny, &id), stack);
    CHECK_EQ(id, 812);
}

#define NO_SENSE "the memory of its frames makes no sense"

TEST(a_stack_is_read)
{
    struct tiny t;
    make_tiny(&t);
    check_look(&t, "inner:11 < outer:11");
    t.frame[1].instruction = address_of(&t.code[1].instructions) - 2;
    check_look(&t, "inner:11 < outer:10");
}

TEST(a_tag_at_the_address_of_code_does_not_count)
{
    struct tiny t;
    make_tiny(&t);
    t.frame[0].code |= 1;
    t.frame[1].code |= 3;
    check_look(&t, "inner:11 < outer:11");
}

TEST(a_thread_may_run_its_own_copy_of_the_code)
{
    struct tiny t;
    make_tiny(&t);
    t.frame[0].copy = 1;
    t.frame[0].instruction = address_of(&t.own_instructions) + 6;
    check_look(&t, "inner:13 < outer:11");
    t.frame[0].copy = 2;
    check_look(&t, NO_SENSE);
    t.copies.count = UINT64_MAX;
    t.frame[0].copy = UINT32_MAX;
    check_look(&t, NO_SENSE);
}

TEST(a_frame_that_was_freed_ends_no_stack)
{
    struct tiny t;
    make_tiny(&t);
    t.frame[0].references = 0;
    t.frame[0].previous = 0;
    check_look(&t, NO_SENSE);
}

TEST(frames_of_c_code_are_left_out)
{
    struct tiny t;
    make_tiny(&t);
    t.frame[0].owner = 3;
    check_look(&t, "outer:11");
}

TEST(instructions_may_be_counted)
{
    struct dt_python_layout layout = layout_of_tiny;
    struct tiny t;
    uint64_t id;
    make_tiny(&t);
    layout.instruction_unit = 2;
    t.frame[0].instruction = 2 | (uint64_t)0xffffffff << 32; /* half of the word is another's */
    t.frame[1].instruction = UINT32_MAX;
    CHECK_STR(look_at(&t, &layout, &id), "inner:12 < outer:10");
    layout.instruction_unit = 1;
    CHECK_STR(look_at(&t, &layout, &id), "inner:11 < outer:10");
}

TEST(a_thread_without_a_number_has_a_stack)
{
    struct dt_python_layout layout = layout_of_tiny;
    struct tiny t;
    uint64_t id;
    make_tiny(&t);
    layout.thread_native_id = DT_PYTHON_NO_FIELD;
    t.thread.pthread = address_of(&t.file);
    CHECK_STR(look_at(&t, &layout, &id), "inner:11 < outer:11");
    CHECK_EQ(id, 0);
}

/* How many stacks of WANTED there are. */
static size_t read_one(struct tiny *t, struct dt_python_wanted *wanted)
{
    struct dt_memory m = {.read = read_tiny, .arg = t};
    struct dt_python_stacks stacks;
    struct dt_err err = {0};
    CHECK_OK(dt_python_stacks_read_one(&stacks, &m, &layout_of_tiny, address_of(t), wanted, &err),
             err);
    size_t len = stacks.len;
    CHECK(len == 0 || stacks.at[0].depth == 2);
    CHECK_EQ(stacks.more, t->thread.next != 0 && len == 0);
    dt_python_stacks_finish(&stacks);
    return len;
}

TEST(one_thread_can_be_read_alone)
{
    struct tiny t;
    struct dt_python_wanted wanted = {.native_id = 812}, none = {.native_id = 813};
    make_tiny(&t);
    CHECK_EQ(read_one(&t, &wanted), 1);
    CHECK_EQ(wanted.state, address_of(&t.thread));
    CHECK_EQ(read_one(&t, &none), 0);
    CHECK_EQ(none.state, 0);
    t.thread.next = address_of(&t.thread); /* without an end */
    CHECK_EQ(read_one(&t, &none), 0);
    CHECK_EQ(read_one(&t, &wanted), 1);
}

TEST(a_thread_that_was_found_is_read_without_the_list)
{
    struct tiny t;
    struct dt_python_wanted wanted = {.native_id = 812, .state = 1};
    make_tiny(&t);
    CHECK_EQ(read_one(&t, &wanted), 1); /* not at 1 */
    CHECK_EQ(wanted.state, address_of(&t.thread));
    t.interpreter.threads = 1; /* where nothing can be read */
    CHECK_EQ(read_one(&t, &wanted), 1);
    t.interpreter.threads = 0;
    t.thread.id = 813;
    CHECK_EQ(read_one(&t, &wanted), 0);
    t.thread.id = 812;
    t.thread.interpreter = 1;
    CHECK_EQ(read_one(&t, &wanted), 0);
}

/* A page of memory, in which the outer frame alone is left from read number CHANGES on. */
struct page {
    _Alignas(4096) uint8_t bytes[4096];
    int reads, changes;
};

static int read_page(void *arg, uint64_t address, void *out, size_t len)
{
    struct page *p = arg;
    struct tiny *t = (struct tiny *)p->bytes;
    if (++p->reads == p->changes)
        t->thread.frame = address_of(&t->frame[1]);
    if (address != address_of(p) || len > sizeof p->bytes)
        return EFAULT;
    memcpy(out, p->bytes, len);
    return 0;
}

/* Reads ahead in P, where the list is read with the first look. */
static void look_at_page(struct page *p, struct dt_python_stacks *stacks)
{
    struct dt_memory m = {.read = read_page, .arg = p};
    struct dt_err err = {0};
    make_tiny((struct tiny *)p->bytes);
    dt_memory_read_ahead(&m);
    CHECK_OK(dt_python_stacks_read(stacks, &m, &layout_of_tiny, address_of(p), &err), err);
    dt_memory_finish(&m);
    CHECK_EQ(stacks->len, 1);
    CHECK_STR(stacks->at[0].unreadable, "");
}

TEST(each_look_reads_memory_anew)
{
    static const struct {
        int changes, reads;
        size_t depth;
    } rows[] = {{0, 3, 2}, {1, 3, 1}, {2, 6, 1}, {3, 6, 1}, {4, 3, 2}};
    static struct page p;
    struct dt_python_stacks stacks;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("changed by read %d", rows[i].changes);
        p = (struct page){.changes = rows[i].changes};
        look_at_page(&p, &stacks);
        CHECK_EQ(p.reads, rows[i].reads);
        CHECK_EQ(stacks.at[0].depth, rows[i].depth);
        CHECK(!stacks.at[0].changing);
        dt_python_stacks_finish(&stacks);
    }
}

TEST(an_unknown_version_is_named)
{
    struct dt_python_layout layout;
    struct dt_memory m = {.read = read_tiny};
    struct dt_err err = {0};
    CHECK_FAIL(dt_python_layout_read(&layout, &m, 0x030700f0, 0, &err), err,
               "CPython 3.7 is not known: stacks of 3.8 to 3.14 can be read");
    CHECK_FAIL(dt_python_layout_read(&layout, &m, 0x030f00f0, 0, &err), err,
               "CPython 3.15 is not known: stacks of 3.8 to 3.14 can be read");
    CHECK_FAIL(dt_python_layout_read(&layout, &m, 0x03000000, 0, &err), err,
               "before 3.11 only the name of its file, such as python3.9, tells it");
}
