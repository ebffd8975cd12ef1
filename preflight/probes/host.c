/* SPDX-License-Identifier: Apache-2.0 */
#include "preflight/probes/host.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue ..." and, of the open one,
 * "... Open Kernel Module for x86_64  580.65.06  Release Build ...": the first word that is a
 * number with a dot, behind the word Module. */
void dt_host_read_driver(const char *root, char out[32])
{
    char text[512], *rest, *word;
    *out = '\0';
    dt_probe_read(root, "/proc/driver/nvidia/version", text, sizeof text);
    rest = strstr(text, "Module");
    while (rest && (word = strsep(&rest, " \t\n"))) {
        if (!isdigit((unsigned char)*word) || !strchr(word, '.'))
            continue;
        snprintf(out, 32, "%.31s", word);
        return;
    }
}

void dt_host_probe(const struct dt_checkup *c, struct dt_sheet *sheet)
{
    char kernel[80], driver[32];
    dt_probe_read(c->root, "/proc/sys/kernel/osrelease", kernel, sizeof kernel);
    dt_host_read_driver(c->root, driver);
    dt_sheet_remark(sheet, "host", DT_GRADE_OK, NULL, "dtrun " DT_VERSION ", Linux %s%s%s", kernel,
                    *driver ? ", NVIDIA driver " : "", driver);
    dt_sheet_set(sheet, "dtrun", "%s", DT_VERSION);
    dt_sheet_set(sheet, "kernel", "%s", kernel);
    if (*driver)
        dt_sheet_set(sheet, "NVIDIA driver", "%s", driver);
}
