/* SPDX-License-Identifier: Apache-2.0 */
#include "preflight/probes/xids.h"

#include "base/auto.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#define RECORD_MAX 8192 /* of /dev/kmsg, which gives one for each read */

void dt_xids_take(struct dt_xids *x, const char *text)
{
    while (*text) {
        size_t n = strcspn(text, "\n");
        struct dt_kernel_record r;
        dt_kernel_record_read((struct dt_bytes){(const uint8_t *)text, n}, &r);
        if (r.event == DT_KERNEL_GPU_BROKEN) {
            x->broken++;
            x->last = r;
        }
        text += n + (text[n] == '\n');
    }
}

void dt_xids_judge(const struct dt_xids *x, struct dt_sheet *sheet)
{
    if (x->broken > 0)
        dt_sheet_remark(sheet, "xids", DT_GRADE_WARN,
                        "unless it was reset since: nvidia-smi --gpu-reset, or drain this host",
                        "a GPU has failed since this host was started: %s%s", x->last.text,
                        x->broken > 1 ? ", the last of several" : "");
    else
        dt_sheet_remark(sheet, "xids", DT_GRADE_OK, NULL,
                        x->readable ? "the kernel's log tells of no GPU that has failed"
                                    : "this user may not read the kernel's log");
}

void dt_xids_probe(const struct dt_checkup *c, struct dt_sheet *sheet)
{
    char path[PATH_MAX], record[RECORD_MAX + 1];
    struct dt_xids x = {0};
    ssize_t n = 0;
    snprintf(path, sizeof path, "%s/dev/kmsg", c->root);
    DT_AUTO_FD fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    x.readable = fd >= 0;
    /* EPIPE: older records were overwritten meanwhile, and the next one is there. */
    while (x.readable && ((n = read(fd, record, RECORD_MAX)) > 0 || (n < 0 && errno == EPIPE))) {
        record[n > 0 ? n : 0] = '\0';
        dt_xids_take(&x, record);
    }
    dt_xids_judge(&x, sheet);
}
