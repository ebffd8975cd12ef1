/* SPDX-License-Identifier: Apache-2.0 */
/* What was found at one host: remarks for people, and what nodes compare: traits that are the same
 * or not, and speeds. Fixed in size and without pointers, so that it can lie in memory that
 * processes share. Zeroed memory is an empty one. */
#ifndef DT_PREFLIGHT_SHEET_H
#define DT_PREFLIGHT_SHEET_H

#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A job can fail over what is DT_GRADE_FAIL, and go badly over what is DT_GRADE_WARN. */
enum dt_grade { DT_GRADE_OK, DT_GRADE_NOTE, DT_GRADE_WARN, DT_GRADE_FAIL };

const char *dt_grade_name(enum dt_grade g); /* "ok", "note", "warn", "fail" */

struct dt_remark {
    enum dt_grade grade;
    char probe[24];
    char sentence[288];
    char advice[224]; /* what to try; "": nothing has to be done */
};

struct dt_trait {
    char name[112]; /* "torch", "file /data/train.bin" */
    char value[96];
};

#define DT_SPEED_CPU "CPU" /* the device that stands for all processors */

/* How fast one device of the host is. 0: not measured. */
struct dt_speed {
    char device[16];       /* "GPU 3" */
    char id[48];           /* its UUID; "": it has none */
    char kind[64];         /* "NVIDIA H100": those of one kind ought to be alike */
    uint64_t flops;        /* operations a second, multiplying matrices */
    uint64_t written, got; /* bytes a second to its memory, and from there */
};

#define DT_SHEET_REMARKS 96
#define DT_SHEET_TRAITS 48
#define DT_SHEET_SPEEDS 64

struct dt_sheet {
    char doing[160]; /* what a probe looks at just now, in case that hangs; "": not said */
    size_t remark_count, trait_count, speed_count;
    struct dt_remark remarks[DT_SHEET_REMARKS];
    struct dt_trait traits[DT_SHEET_TRAITS];
    struct dt_speed speeds[DT_SHEET_SPEEDS];
};

/* What has no room is left out. ADVICE: NULL is "". */
void dt_sheet_remark(struct dt_sheet *s, const char *probe, enum dt_grade grade, const char *advice,
                     const char *fmt, ...) __attribute__((format(printf, 5, 6)));
void dt_sheet_set(struct dt_sheet *s, const char *name, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

void dt_sheet_add_speed(struct dt_sheet *s, const struct dt_speed *speed);

/* NULL: the sheet does not tell. */
const char *dt_sheet_trait(const struct dt_sheet *s, const char *name);

/* Appends what FROM holds. */
void dt_sheet_add(struct dt_sheet *s, const struct dt_sheet *from);

enum dt_grade dt_sheet_worst(const struct dt_sheet *s);
#define DT_SHEET_WARNED 3
/* The exit status of a program that prints it: 1 for what is DT_GRADE_FAIL, DT_SHEET_WARNED for
 * what is DT_GRADE_WARN, else 0. */
int dt_sheet_status(const struct dt_sheet *s);

/* Traits and speeds as a message for other nodes, and back. False: BYTES are no such message. */
void dt_sheet_put_compared(const struct dt_sheet *s, struct dt_buf *out);
bool dt_sheet_read_compared(struct dt_sheet *s, struct dt_bytes bytes);

#endif
