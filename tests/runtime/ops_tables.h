/* SPDX-License-Identifier: Apache-2.0 */
/* The fast ops say what the reference says: each op, for each set of instructions this processor
 * has, over shapes that are 1, odd, and no multiple of any block. */
#ifndef DT_TESTS_RUNTIME_OPS_TABLES_H
#define DT_TESTS_RUNTIME_OPS_TABLES_H

#include "tests/lib/sanitized.h"
#include "tests/runtime/ops_kit.h"
#include "worker_runtime/device/device.h"
#include "worker_runtime/ops/cpu/cpu_level.h"
#include "worker_runtime/ops/ops.h"

/* Runs FN(ops, stream, kit) for each table, on a pool of 3 threads. They are compiled of the same
 * source: a sanitizer, under which all loops stay scalar, sees in the last what is in all. */
typedef void (*story_fn)(const struct dt_ops *ops, struct dt_stream *s, struct kit *k);

static inline void on_each_table(story_fn story)
{
    static const char *const names[] = {"x86-64", "x86-64-v3", "x86-64-v4"};
    int most = (int)dt_cpu_level();
    for (int level = SANITIZED ? most : 0; level <= most; level++) {
        struct dt_err err;
        struct kit k = {.state = 7};
        setenv("DTRUN_CPU_ISA", names[level], 1);
        struct dt_device *d = dt_device_open_cpu(3, &err);
        CHECK_ROW("%s", d ? d->description : err.text);
        CHECK(d != NULL);
        CHECK(dt_cpu_level() == DT_CPU_BASE || strcmp(d->ops->name, names[level]) == 0);
        story(d->ops, d->stream, &k);
        kit_free(&k);
        dt_device_close(d);
    }
    unsetenv("DTRUN_CPU_ISA");
}

static const struct dt_ops *const ref = &dt_ops_reference;

#endif
