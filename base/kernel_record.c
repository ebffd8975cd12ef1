/* SPDX-License-Identifier: Apache-2.0 */
/* "3,1042,8122740011,-;Out of memory: Killed process 812 (python) total-vm:...": a priority, a
 * number, a time, flags; then the words up to the end of the line. */
#include "base/kernel_record.h"

#include "base/str.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>

#define KERNEL_PRIORITIES 8 /* those from here on are other programs' */
#define XID_MOST 9999

/* What the number of an Xid says, by NVIDIA's list. */
static const struct {
    int first, last;
    enum dt_kernel_event event;
} xids[] = {
    {13, 13, DT_KERNEL_GPU_FAULT},    /* exception of a kernel */
    {31, 31, DT_KERNEL_GPU_FAULT},    /* page fault */
    {43, 43, DT_KERNEL_GPU_FAULT},    /* reset for a program's mistake */
    {45, 45, DT_KERNEL_OTHER},        /* cleans up behind any process that dies */
    {48, 48, DT_KERNEL_GPU_BROKEN},   /* two bits of its memory */
    {62, 62, DT_KERNEL_GPU_BROKEN},   /* a controller of its own has halted */
    {63, 63, DT_KERNEL_OTHER},        /* has replaced a bad row */
    {64, 64, DT_KERNEL_GPU_BROKEN},   /* ... and could not */
    {69, 69, DT_KERNEL_GPU_FAULT},    /* exception of a class */
    {74, 74, DT_KERNEL_GPU_BROKEN},   /* NVLink */
    {79, 79, DT_KERNEL_GPU_BROKEN},   /* fallen off the bus */
    {94, 95, DT_KERNEL_GPU_BROKEN},   /* memory, within one program or not */
    {119, 121, DT_KERNEL_GPU_BROKEN}, /* its system processor; the link to the CPU */
    {140, 140, DT_KERNEL_GPU_BROKEN}, /* memory */
    {144, 150, DT_KERNEL_GPU_BROKEN}, /* NVLink */
};

static bool take_word(struct dt_bytes *b, const char *word)
{
    size_t len = strlen(word);
    if (b->len < len || memcmp(b->at, word, len) != 0)
        return false;
    b->at += len;
    b->len -= len;
    return true;
}

/* -1: no number stands there, or one above MOST. */
static int64_t take_number(struct dt_bytes *b, int64_t most)
{
    int64_t n = -1;
    for (; b->len && *b->at >= '0' && *b->at <= '9'; b->at++, b->len--) {
        int digit = *b->at - '0';
        n = n < 0 ? digit : n > (most - digit) / 10 ? most + 1 : n * 10 + digit;
    }
    return n <= most ? n : -1;
}

/* What stands behind the first WORD in B; empty: it does not stand there. */
static struct dt_bytes behind(struct dt_bytes b, const char *word)
{
    const uint8_t *at = memmem(b.at, b.len, word, strlen(word));
    if (!at)
        return (struct dt_bytes){0};
    at += strlen(word);
    return (struct dt_bytes){at, b.len - (size_t)(at - b.at)};
}

/* The words of a record of the kernel itself; empty: it is another program's, or none. */
static struct dt_bytes words_of(struct dt_bytes record)
{
    const uint8_t *semicolon = memchr(record.at, ';', record.len);
    int64_t priority = take_number(&record, INT_MAX);
    if (!semicolon || priority < 0 || priority >= KERNEL_PRIORITIES)
        return (struct dt_bytes){0};
    struct dt_bytes words = {semicolon + 1, record.len - (size_t)(semicolon + 1 - record.at)};
    const uint8_t *end =
        memchr(words.at, '\n', words.len); /* behind it: what the record is about */
    if (end)
        words.len = (size_t)(end - words.at);
    return words;
}

static pid_t take_pid(struct dt_bytes at)
{
    int64_t pid = take_number(&at, INT_MAX);
    return pid > 0 ? (pid_t)pid : 0;
}

/* Its parts are told one by one, in kB; older kernels have no part of shared memory. */
static int64_t resident_of(struct dt_bytes words)
{
    static const char *const parts[] = {"anon-rss:", "file-rss:", "shmem-rss:"};
    int64_t sum = -1;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        struct dt_bytes at = behind(words, parts[i]);
        int64_t kb = take_number(&at, INT64_MAX / 4096);
        if (kb >= 0)
            sum = (sum < 0 ? 0 : sum) + kb * 1024;
    }
    return sum;
}

/* "Out of memory: Killed process 812 (python) ...", or "Memory cgroup out of memory: ..."; before
 * 5.1 it was "Kill process", and "Killed process" in a line of its own. */
static bool read_kill(struct dt_bytes words, struct dt_kernel_record *out)
{
    bool group = take_word(&words, "Memory cgroup out of memory: ");
    if (!group && !take_word(&words, "Out of memory: "))
        return false;
    struct dt_bytes at = words;
    if (!take_word(&at, "Killed process ") && !take_word(&at, "Kill process "))
        return false;
    *out = (struct dt_kernel_record){.event = DT_KERNEL_KILLED,
                                     .pid = take_pid(at),
                                     .group = group,
                                     .resident = resident_of(words)};
    return out->pid > 0;
}

/* A number that stands in no row may mean anything. */
static enum dt_kernel_event event_of(int64_t xid)
{
    for (size_t i = 0; i < sizeof xids / sizeof *xids; i++)
        if (xids[i].first <= xid && xid <= xids[i].last)
            return xids[i].event;
    return DT_KERNEL_GPU_TOLD;
}

/* "NVRM: Xid (PCI:0000:17:00): 79, pid=812, name=python, GPU has fallen off the bus." Older drivers
 * tell no process. */
static bool read_xid(struct dt_bytes words, struct dt_kernel_record *out)
{
    struct dt_bytes at = words;
    if (!take_word(&at, "NVRM: Xid ("))
        return false;
    at = behind(at, "): ");
    int64_t xid = take_number(&at, XID_MOST);
    if (xid < 0)
        return false;
    *out = (struct dt_kernel_record){.event = event_of(xid), .resident = -1};
    out->pid = take_pid(behind(at, "pid="));
    dt_str_printable(words, out->text, sizeof out->text);
    return out->event != DT_KERNEL_OTHER;
}

void dt_kernel_record_read(struct dt_bytes record, struct dt_kernel_record *out)
{
    struct dt_bytes words = words_of(record);
    if (!read_kill(words, out) && !read_xid(words, out))
        *out = (struct dt_kernel_record){.event = DT_KERNEL_OTHER, .resident = -1};
}
