/* SPDX-License-Identifier: Apache-2.0 */
/* What a probe says, and a folder that stands for "/" of a host. */
#ifndef DT_TESTS_PREFLIGHT_JUDGED_H
#define DT_TESTS_PREFLIGHT_JUDGED_H

#include "base/fs.h"
#include "preflight/probe.h"
#include "tests/lib/check.h"
#include "tests/lib/folder.h"

/* "warn: sentence|fail: sentence": all that SHEET says; good until the next call. */
static inline const char *said(const struct dt_sheet *sheet)
{
    static char text[8192];
    size_t n = 0;
    *text = '\0';
    for (size_t i = 0; i < sheet->remark_count && n < sizeof text; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s: %s", n ? "|" : "",
                              dt_grade_name(sheet->remarks[i].grade), sheet->remarks[i].sentence);
    return text;
}

/* Whatever is no "ok" says what to try. */
static inline void check_advice(const struct dt_sheet *sheet)
{
    for (size_t i = 0; i < sheet->remark_count; i++)
        CHECK(sheet->remarks[i].grade == DT_GRADE_OK || *sheet->remarks[i].advice);
}

/* SHEET says WORDS somewhere, and nothing is cut off. */
static inline void check_said(const struct dt_sheet *sheet, const char *words)
{
    if (!strstr(said(sheet), words))
        CHECK_STR(said(sheet), words); /* fails, and shows both */
    check_advice(sheet);
    CHECK(sheet->remark_count > 0);
}

/* A file of the host NAME, with its folders. */
static inline void put(const char *host, const char *path, const char *text)
{
    struct dt_err err;
    char full[512], *slash;
    snprintf(full, sizeof full, "%s/%s%s", dir, host, path);
    slash = strrchr(full, '/');
    *slash = '\0';
    CHECK_OK(dt_fs_mkdir_p(full, 0700, &err), err);
    *slash = '/';
    CHECK_OK(dt_fs_replace(full, text, strlen(text), 0600, &err), err);
}

/* Room for a sheet, which is too large for a stack with others. */
static inline struct dt_sheet *fresh_sheet(void)
{
    static struct dt_sheet sheet;
    memset(&sheet, 0, sizeof sheet);
    return &sheet;
}

#endif
