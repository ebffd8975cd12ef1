/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/look/elf_image.h"

#include <elf.h>
#include <stdbool.h>
#include <string.h>

#define PROGRAM_HEADERS_MAX 64
#define DYNAMIC_MAX 256
#define CHAIN_MAX 1024 /* symbols whose hashes share a bucket */
#define NAME_MAX_BYTES 32

/* Where the first segment and the dynamic section are, as addresses in the file. */
static int find_dynamic(struct dt_memory *m, uint64_t base, const Elf64_Ehdr *header,
                        uint64_t *first, uint64_t *dynamic)
{
    *first = UINT64_MAX;
    *dynamic = 0;
    if (header->e_phnum > PROGRAM_HEADERS_MAX || header->e_phentsize != sizeof(Elf64_Phdr))
        return -1;
    for (unsigned i = 0; i < header->e_phnum; i++) {
        Elf64_Phdr p;
        if (dt_memory_read(m, base + header->e_phoff + i * sizeof p, &p, sizeof p) < 0)
            return -1;
        if (p.p_type == PT_LOAD && p.p_vaddr < *first)
            *first = p.p_vaddr;
        if (p.p_type == PT_DYNAMIC)
            *dynamic = p.p_vaddr;
    }
    return *first != UINT64_MAX && *dynamic ? 0 : -1;
}

/* Some loaders have made addresses of the process out of those in the file, others have not. */
static uint64_t in_process(const struct dt_elf_image *image, uint64_t address)
{
    return address < image->base ? image->bias + address : address;
}

static int read_dynamic(struct dt_elf_image *image, struct dt_memory *m, uint64_t at)
{
    for (int i = 0; i < DYNAMIC_MAX; i++) {
        Elf64_Dyn d;
        if (dt_memory_read(m, at + (uint64_t)i * sizeof d, &d, sizeof d) < 0)
            return -1;
        if (d.d_tag == DT_NULL)
            break;
        if (d.d_tag == DT_SYMTAB)
            image->symbols = in_process(image, d.d_un.d_ptr);
        if (d.d_tag == DT_STRTAB)
            image->names = in_process(image, d.d_un.d_ptr);
        if (d.d_tag == DT_GNU_HASH)
            image->hashes = in_process(image, d.d_un.d_ptr);
    }
    return image->symbols && image->names && image->hashes ? 0 : -1;
}

int dt_elf_image_open(struct dt_elf_image *image, struct dt_memory *m, uint64_t base)
{
    Elf64_Ehdr header;
    uint64_t first, dynamic;
    *image = (struct dt_elf_image){.base = base};
    if (dt_memory_read(m, base, &header, sizeof header) < 0 ||
        memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
        find_dynamic(m, base, &header, &first, &dynamic) < 0)
        return -1;
    image->bias = base - (first & ~UINT64_C(4095));
    return read_dynamic(image, m, image->bias + dynamic);
}

static uint32_t gnu_hash(const char *name)
{
    uint32_t h = 5381;
    for (; *name; name++)
        h = h * 33 + (unsigned char)*name;
    return h;
}

static bool is_named(const struct dt_elf_image *image, struct dt_memory *m, uint64_t at,
                     const char *name, Elf64_Sym *symbol)
{
    char there[NAME_MAX_BYTES];
    size_t len = strlen(name) + 1;
    return dt_memory_read(m, at, symbol, sizeof *symbol) == 0 &&
           dt_memory_read(m, image->names + symbol->st_name, there, len) == 0 &&
           memcmp(there, name, len) == 0 && symbol->st_shndx != SHN_UNDEF;
}

int dt_elf_image_find(const struct dt_elf_image *image, struct dt_memory *m, const char *name,
                      uint64_t *address)
{
    struct {
        uint32_t buckets, first, words, shift;
    } table;
    uint32_t hash = gnu_hash(name), at, there;
    if (strlen(name) >= NAME_MAX_BYTES ||
        dt_memory_read(m, image->hashes, &table, sizeof table) < 0 || table.buckets == 0)
        return -1;
    uint64_t buckets = image->hashes + sizeof table + table.words * UINT64_C(8);
    uint64_t chains = buckets + table.buckets * UINT64_C(4);
    if (dt_memory_read(m, buckets + hash % table.buckets * UINT64_C(4), &at, sizeof at) < 0 ||
        at < table.first)
        return -1;
    for (int i = 0; i < CHAIN_MAX; i++, at++) {
        Elf64_Sym symbol;
        if (dt_memory_read(m, chains + (at - table.first) * UINT64_C(4), &there, sizeof there) < 0)
            return -1;
        if ((there | 1) == (hash | 1) &&
            is_named(image, m, image->symbols + at * sizeof symbol, name, &symbol)) {
            *address = image->bias + symbol.st_value;
            return 0;
        }
        if (there & 1) /* the last of its bucket */
            return -1;
    }
    return -1;
}
