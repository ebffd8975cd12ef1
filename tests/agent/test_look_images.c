/* SPDX-License-Identifier: Apache-2.0 */
/* Looks at memory that look/record recorded of look/train.py under each version of CPython. */
#include "tests/lib/check.h"
#include "tests/lib/recorded_memory.h"

#define THREADS 4

/* From 3.11 on functions have the names of what they are defined in. */
static const struct {
    const char *name;
    uint32_t version;
    bool qualified;
} images[] = {
    {"3.8", 0x0308, false}, {"3.9", 0x0309, false}, {"3.10", 0x030a, false}, {"3.11", 0x030b, true},
    {"3.12", 0x030c, true}, {"3.13", 0x030d, true}, {"3.13t", 0x030d, true}, {"3.14", 0x030e, true},
};

/* The newest thread first. */
static const char *const stacks_of_train[THREADS] = {
    ("stay train.py:11 < Läufer.schritte train.py:28 < Läufer.schritt train.py:23 < "
     "Läufer.größe.<locals>.長さ.<locals>.𐐨 train.py:18 < Läufer.größe.<locals>.長さ train.py:19 < "
     "Läufer.größe train.py:20"),
    ("stay train.py:11 < deep train.py:35 < deep train.py:37 < deep train.py:37 < "
     "deep train.py:37 < <lambda> train.py:44"),
    "stay train.py:11 < far far.py:303 < <lambda> train.py:42",
    "<module> train.py:49",
};

static uint8_t digit_of(int c)
{
    return (uint8_t)(c <= '9' ? c - '0' : c - 'a' + 10);
}

/* Makes a record of the text of an image. */
static void read_image(const char *version, struct dt_buf *record)
{
    char path[512];
    unsigned long long address;
    snprintf(path, sizeof path, "%s/%s.txt", DT_TEST_IMAGES, version);
    FILE *f = fopen(path, "re");
    CHECK(f != NULL);
    while (fscanf(f, "%llx ", &address) == 1) {
        struct dt_buf bytes = {0};
        for (int high; (high = fgetc(f)) != '\n';) {
            int low = fgetc(f);
            CHECK(low != EOF);
            dt_buf_put_u8(&bytes, (uint8_t)(digit_of(high) << 4 | digit_of(low)));
        }
        dt_buf_put_u64(record, address);
        dt_buf_put_u32(record, (uint32_t)bytes.len);
        dt_buf_put(record, bytes.at, bytes.len);
        dt_buf_finish(&bytes);
    }
    CHECK(feof(f));
    fclose(f);
}

static int look_at(const struct dt_buf *record, uint32_t *python, struct dt_python_stacks *stacks,
                   struct dt_err *err)
{
    struct dt_bytes bytes = {record->at, record->len};
    struct dt_memory m = {.read = recorded_read, .arg = &bytes};
    struct dt_look_image image = recorded_image(bytes);
    return dt_look_read_python(&m, &image, 1, python, stacks, err);
}

/* STACK as a version tells it. */
static void put_expected(struct dt_buf *out, const char *stack, bool qualified)
{
    for (const char *at = stack, *end; at; at = end ? end + strlen(" < ") : NULL) {
        end = strstr(at, " < ");
        const char *name = at;
        for (const char *c = at; !qualified && *c != ' '; c++)
            if (*c == '.')
                name = c + 1;
        dt_buf_printf(out, "%.*s%s", (int)(end ? end - name : (ptrdiff_t)strlen(name)), name,
                      end ? " < " : "");
    }
}

static void put_found(struct dt_buf *out, const struct dt_python_thread *t)
{
    for (size_t i = 0; i < t->depth; i++) {
        const struct dt_python_frame *f = &t->frames[i];
        CHECK(strncmp(f->file, "/srv/", 5) == 0);
        dt_buf_printf(out, "%s%s %s:%d", i ? " < " : "", f->function, f->file + 5, f->line);
    }
}

static void check_stack(const struct dt_python_thread *t, const char *stack, bool qualified)
{
    struct dt_buf expected = {0}, found = {0};
    CHECK_STR(t->unreadable, "");
    CHECK(!t->deeper && !t->changing);
    put_expected(&expected, stack, qualified);
    put_found(&found, t);
    CHECK_STR(dt_buf_cstr(&found), dt_buf_cstr(&expected));
    dt_buf_finish(&expected);
    dt_buf_finish(&found);
}

TEST(each_version_has_the_stacks_of_the_script)
{
    for (size_t i = 0; i < sizeof images / sizeof *images; i++) {
        CHECK_ROW("CPython %s", images[i].name);
        struct dt_buf record = {0};
        struct dt_python_stacks stacks = {0};
        struct dt_err err = {0};
        uint32_t python;
        read_image(images[i].name, &record);
        CHECK_OK(look_at(&record, &python, &stacks, &err), err);
        CHECK_EQ(python >> 16, images[i].version);
        CHECK_EQ(stacks.len, THREADS);
        for (size_t k = 0; k < THREADS; k++) {
            CHECK_ROW("thread %zu", k);
            CHECK(stacks.at[k].native_id > 0);
            CHECK(k == 0 || stacks.at[k].native_id < stacks.at[k - 1].native_id);
            check_stack(&stacks.at[k], stacks_of_train[k], images[i].qualified);
        }
        dt_python_stacks_finish(&stacks);
        dt_buf_finish(&record);
    }
}
