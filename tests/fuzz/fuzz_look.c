/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of a CPython that is damaged, or lies: the stacks that are read of it are bounded, and
 * their text can be shown. */
#include "agent/look/look.h"
#include "base/utf8.h"
#include "tests/fuzz/fuzz.h"
#include "tests/lib/recorded_memory.h"

static void check_text(const char *text, size_t size)
{
    size_t len = strnlen(text, size);
    FUZZ_CHECK(len < size);
    for (size_t i = 0, n; i < len; i += n) {
        n = dt_utf8_len((const uint8_t *)text + i, len - i);
        FUZZ_CHECK(n > 0);
    }
}

static void check_thread(const struct dt_python_thread *t)
{
    FUZZ_CHECK(t->depth <= DT_PYTHON_DEPTH_MAX);
    FUZZ_CHECK(t->depth == 0 || t->unreadable[0] == '\0');
    check_text(t->unreadable, sizeof t->unreadable);
    for (size_t i = 0; i < t->depth; i++) {
        check_text(t->frames[i].file, sizeof t->frames[i].file);
        check_text(t->frames[i].function, sizeof t->frames[i].function);
        FUZZ_CHECK(t->frames[i].line >= 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dt_bytes record = {data, size};
    struct dt_memory m = {.read = recorded_read, .arg = &record};
    struct dt_look_image image = recorded_image(record);
    struct dt_python_stacks stacks = {0};
    struct dt_err err = {0};
    uint32_t python;
    if (dt_look_read_python(&m, &image, 1, &python, &stacks, &err) < 0)
        FUZZ_CHECK(err.text[0] != '\0');
    FUZZ_CHECK(stacks.len <= DT_PYTHON_THREADS_MAX);
    FUZZ_CHECK(m.reads <= DT_MEMORY_READS_MAX && m.bytes <= DT_MEMORY_BYTES_MAX);
    for (size_t i = 0; i < stacks.len; i++)
        check_thread(&stacks.at[i]);
    dt_python_stacks_finish(&stacks);
    return 0;
}
