/* SPDX-License-Identifier: Apache-2.0 */
/* Looks at the memory of a CPython that goes away, or is damaged. */
#include "tests/agent/look_script.h"
#include "tests/lib/recorded_memory.h"

/* Kills the process before the read number AT. */
struct killer {
    struct dt_memory live;
    struct script *script;
    int at;
};

static int killer_read(void *arg, uint64_t address, void *out, size_t len)
{
    struct killer *k = arg;
    if (k->at-- == 0) {
        siginfo_t info;
        kill(k->script->pid, SIGKILL);
        waitid(P_PID, (id_t)k->script->pid, &info, WEXITED | WNOWAIT);
    }
    return k->live.read(k->live.arg, address, out, len);
}

TEST(a_process_that_ends_while_it_is_read_costs_its_own_entry)
{
    for (int at = 0; at < 60; at += 7) {
        CHECK_ROW("before read %d", at);
        struct script s;
        struct dt_look_image images[DT_LOOK_IMAGES_MAX];
        struct dt_python_stacks stacks = {0};
        struct dt_err err = {0};
        uint32_t version;
        start(&s, SLEEPER);
        int count = dt_look_images(s.pid, images);
        CHECK(count > 0);
        struct killer k = {dt_memory_of(&s.pid), &s, at};
        struct dt_memory m = {.read = killer_read, .arg = &k};
        if (dt_look_read_python(&m, images, count, &version, &stacks, &err) < 0)
            CHECK(err.text[0] != '\0');
        for (size_t i = 0; i < stacks.len; i++)
            CHECK(stacks.at[i].unreadable[0] != '\0' || stacks.at[i].depth > 0);
        dt_python_stacks_finish(&stacks);
        end(&s);
    }
}

/* Looks at memory M of the process whose record is RECORD. */
static int read_as_recorded(struct dt_memory m, const struct dt_buf *record,
                            struct dt_python_stacks *stacks, struct dt_err *err)
{
    struct dt_look_image image = recorded_image((struct dt_bytes){record->at, record->len});
    uint32_t version;
    return dt_look_read_python(&m, &image, 1, &version, stacks, err);
}

static int read_record(const struct dt_buf *record, struct dt_python_stacks *stacks,
                       struct dt_err *err)
{
    struct dt_bytes bytes = {record->at, record->len};
    struct dt_memory m = {.read = recorded_read, .arg = &bytes};
    return read_as_recorded(m, record, stacks, err);
}

/* Two records of one process. Each walk along a stack begins with the thread's number, which is a
 * word of CPython's or ends what the C library knows of a thread, and from there on the other
 * record is read. */
struct flipping {
    struct dt_bytes record[2];
    int which;
    uint32_t thread;
};

static bool is_number(const struct flipping *f, const uint8_t *bytes, size_t len)
{
    size_t at = len == sizeof(uint64_t) ? 0 : len - sizeof f->thread;
    return (at == 0 || len > 256) && memcmp(bytes + at, &f->thread, sizeof f->thread) == 0;
}

static int flipping_read(void *arg, uint64_t address, void *out, size_t len)
{
    struct flipping *f = arg;
    int error = recorded_read(&f->record[f->which], address, out, len);
    if (!error && is_number(f, out, len))
        f->which = !f->which;
    return error;
}

TEST(two_looks_that_differ_show_what_they_have_in_common)
{
    struct script s;
    struct dt_buf first = {0}, second = {0};
    struct dt_python_stacks stacks = {0};
    struct dt_err err = {0};
    char byte = 'x';
    start(&s, "import os\n"
              "def first():\n"
              "    os.write(1, b'x'), os.read(0, 1)\n"
              "def second():\n"
              "    os.write(1, b'x'), os.read(0, 1)\n"
              "first(); second()\n");
    CHECK_OK(record_look(s.pid, &first, &err), err);
    CHECK(write(s.in, &byte, 1) == 1 && read(s.out, &byte, 1) == 1);
    CHECK_OK(record_look(s.pid, &second, &err), err);
    struct flipping f = {{{first.at, first.len}, {second.at, second.len}}, 0, (uint32_t)s.pid};
    struct dt_memory m = {.read = flipping_read, .arg = &f};
    CHECK_OK(read_as_recorded(m, &first, &stacks, &err), err);
    CHECK_EQ(stacks.len, 1);
    CHECK(stacks.at[0].changing);
    CHECK_EQ(stacks.at[0].depth, 1);
    CHECK_STR(stacks.at[0].frames[0].function, "<module>");
    CHECK_EQ(stacks.at[0].frames[0].line, 6);
    dt_python_stacks_finish(&stacks);
    dt_buf_finish(&first);
    dt_buf_finish(&second);
    end(&s);
}

TEST(damaged_memory_is_no_crash)
{
    struct script s;
    struct dt_buf record = {0};
    struct dt_python_stacks stacks = {0};
    struct dt_err err = {0};
    start(&s, SLEEPER);
    CHECK_OK(record_look(s.pid, &record, &err), err);
    end(&s);
    CHECK_OK(read_record(&record, &stacks, &err), err);
    CHECK_EQ(stacks.len, 1);
    CHECK_EQ(stacks.at[0].depth, 2);
    CHECK_STR(stacks.at[0].frames[0].function, "inner");
    dt_python_stacks_finish(&stacks);
    for (size_t i = 12; i < record.len; i++) {
        uint8_t was = record.at[i];
        record.at[i] = (uint8_t)(was ^ 0x55);
        stacks = (struct dt_python_stacks){0};
        read_record(&record, &stacks, &err);
        dt_python_stacks_finish(&stacks);
        record.at[i] = was;
    }
    dt_buf_finish(&record);
}
