/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/rendezvous/process.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

int process_cpu(pid_t pid, double *seconds, struct dt_err *err)
{
    clockid_t clock;
    struct timespec t;
    int rc = clock_getcpuclockid(pid, &clock);
    if (rc != 0 || clock_gettime(clock, &t) < 0)
        return dt_err_set(err, DT_E_RUNTIME, "process %d: its processor time cannot be read",
                          (int)pid);
    *seconds = (double)t.tv_sec + (double)t.tv_nsec / 1e9;
    return 0;
}

int process_peak(pid_t pid, unsigned long *kib, struct dt_err *err)
{
    char path[64], line[256];
    int rc = -1;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "re");
    while (file && rc < 0 && fgets(line, sizeof line, file))
        if (sscanf(line, "VmHWM: %lu", kib) == 1)
            rc = 0;
    if (file)
        fclose(file);
    return rc < 0 ? dt_err_set(err, DT_E_RUNTIME, "process %d: no VmHWM in %s", (int)pid, path) : 0;
}
