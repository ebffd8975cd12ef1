/* SPDX-License-Identifier: Apache-2.0 */
/* A program or library as the loader has mapped it into a process: where the symbols are that it
 * shows to others. All is read from the process's memory, so it does not matter whether the file
 * is in another root, was replaced, or is deleted. Pure but for the reads. */
#ifndef DT_AGENT_LOOK_ELF_IMAGE_H
#define DT_AGENT_LOOK_ELF_IMAGE_H

#include "agent/look/memory.h"

struct dt_elf_image {
    uint64_t base, bias; /* where it begins; what is to be added to an address in the file */
    uint64_t symbols, names, hashes;
};

/* The image that begins at BASE. -1: there is none, or none with a table of hashes (DT_GNU_HASH).
 */
int dt_elf_image_open(struct dt_elf_image *image, struct dt_memory *m, uint64_t base);

/* The address of the symbol NAME, which has fewer than 32 bytes. -1: there is none. */
int dt_elf_image_find(const struct dt_elf_image *image, struct dt_memory *m, const char *name,
                      uint64_t *address);

#endif
