/* SPDX-License-Identifier: Apache-2.0 */
/* Reads of memory that is read ahead. */
#include "agent/look/memory.h"
#include "tests/lib/check.h"

#include <errno.h>

#define PAGE 4096

/* Three pages; of the second only what stands before END can be read. */
struct pages {
    _Alignas(PAGE) uint8_t at[3 * PAGE];
    size_t end;
    int reads;
};

static struct pages p;

static int read_pages(void *arg, uint64_t address, void *out, size_t len)
{
    uint64_t from = address - (uint64_t)(uintptr_t)arg, hole = PAGE + p.end;
    p.reads++;
    if (from > sizeof p.at || len > sizeof p.at - from)
        return EFAULT;
    if (from < 2 * PAGE && from + len > hole && hole < 2 * PAGE)
        return EFAULT;
    memcpy(out, p.at + from, len);
    return 0;
}

static struct dt_memory open_pages(size_t end)
{
    struct dt_memory m = {.read = read_pages, .arg = p.at};
    p.end = end;
    p.reads = 0;
    for (size_t i = 0; i < sizeof p.at; i++)
        p.at[i] = (uint8_t)(i / 7);
    dt_memory_read_ahead(&m);
    return m;
}

static uint64_t address_of(size_t at)
{
    return (uint64_t)(uintptr_t)p.at + at;
}

/* That LEN bytes at AT are read well, when COUNT reads were made altogether. */
static void check_read(struct dt_memory *m, size_t at, size_t len, int count)
{
    static uint8_t out[sizeof p.at];
    memset(out, 0xff, sizeof out);
    CHECK_EQ(dt_memory_read(m, address_of(at), out, len), 0);
    CHECK(memcmp(out, p.at + at, len) == 0);
    CHECK_EQ(out[len], 0xff);
    CHECK_EQ(p.reads, count);
}

TEST(a_block_answers_what_follows)
{
    struct dt_memory m = open_pages(PAGE);
    check_read(&m, 8, 100, 1);
    check_read(&m, 0, PAGE, 1);
    check_read(&m, PAGE - 1, 2, 2); /* one byte of each block */
    check_read(&m, 2 * PAGE - 8, 8, 2);
    check_read(&m, 0, 2 * PAGE, 3); /* more than a block is read for itself */
    CHECK_EQ(m.reads, 5);
    CHECK_EQ(m.bytes, 100 + PAGE + 2 + 8 + 2 * PAGE);
    dt_memory_finish(&m);
}

TEST(what_was_forgotten_is_read_anew)
{
    struct dt_memory m = open_pages(PAGE);
    check_read(&m, 0, 8, 1);
    p.at[3] = 77;
    dt_memory_forget(&m);
    check_read(&m, 0, 8, 2);
    dt_memory_finish(&m);
}

TEST(a_part_of_a_block_can_be_read)
{
    struct dt_memory m = open_pages(100);
    uint64_t word;
    check_read(&m, PAGE + 8, 8, 2);  /* the block fails, then what is wanted */
    check_read(&m, PAGE - 8, 16, 5); /* the first block, the second one, both for themselves */
    CHECK_EQ(dt_memory_word(&m, address_of(PAGE + 96), &word), -1);
    CHECK_EQ(m.error, EFAULT);
    check_read(&m, PAGE - 8, 8, 7); /* known still */
    dt_memory_finish(&m);
}

TEST(the_last_address_is_no_crash)
{
    struct dt_memory m = open_pages(PAGE);
    uint64_t word;
    CHECK_EQ(dt_memory_word(&m, UINT64_MAX - 7, &word), -1);
    CHECK_EQ(dt_memory_word(&m, UINT64_MAX, &word), -1);
    CHECK_EQ(m.error, EFAULT);
    dt_memory_finish(&m);
}
