/* SPDX-License-Identifier: Apache-2.0 */
/* What the probes share. */
#ifndef DT_PREFLIGHT_PROBES_INSIDE_H
#define DT_PREFLIGHT_PROBES_INSIDE_H

#include "preflight/probe.h"

#include <stdint.h>
#include <sys/types.h>

/* The text of the file ROOT PATH without white space around it, cut to SIZE. False and "": it
 * cannot be read. */
bool dt_probe_read(const char *root, const char *path, char *out, size_t size);
/* FALLBACK: there is no number. */
int64_t dt_probe_read_number(const char *root, const char *path, int64_t fallback);

#define DT_PROBE_NAME 64

/* Names in the folder ROOT PATH, sorted: up to MAX of them, the number of which is returned. */
size_t dt_probe_list(const char *root, const char *path, char names[][DT_PROBE_NAME], size_t max);

/* Starts the program ARGV[0], a path. What it prints can be read from *OUTPUT, which closes at
 * exec; it reads nothing, its standard error is lost, and it does not outlive this process. Where
 * it cannot be run it prints "!" and the errno value. The caller waits for it. -1 and errno: no
 * process. */
pid_t dt_probe_start(const char *const *argv, int *output);

/* The choice of a file of words as "always [madvise] never": what stands in brackets, else all. */
void dt_probe_chosen(char *text);

#endif
