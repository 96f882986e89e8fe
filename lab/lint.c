// SPDX-License-Identifier: Apache-2.0
//
// Sections and symbols of a relocatable ELF64 file. Every offset is checked against the file's size.
#include "lab/lint.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct elf_view {
    const unsigned char *bytes;
    size_t size;
    const Elf64_Ehdr *header;
    const Elf64_Shdr *sections;
    int count;
} elf_view;

static bool inside(const elf_view *e, uint64_t offset, uint64_t size) {
    return offset <= e->size && size <= e->size - offset;
}

// Whether there are sections, and all of their headers are inside.
static bool open_sections(elf_view *e) {
    if (e->size < sizeof(Elf64_Ehdr) || memcmp(e->bytes, ELFMAG, SELFMAG) != 0 || e->bytes[EI_CLASS] != ELFCLASS64)
        return false;
    e->header = (const Elf64_Ehdr *)(const void *)e->bytes; // malloc aligns it
    e->count = e->header->e_shnum;
    if (e->header->e_shentsize != sizeof(Elf64_Shdr) || e->header->e_shoff % 8 ||
        !inside(e, e->header->e_shoff, (uint64_t)e->count * sizeof(Elf64_Shdr)) || e->header->e_shstrndx >= e->count)
        return false;
    e->sections = (const Elf64_Shdr *)(const void *)(e->bytes + e->header->e_shoff);
    return true;
}

static bool open_view(elf_view *e, const lab_text *text) {
    *e = (elf_view){.bytes = (const unsigned char *)text->bytes, .size = text->size};
    return open_sections(e) && e->header->e_type == ET_REL;
}

// A name in a table of strings; "" where it is not inside.
static const char *string_at(const elf_view *e, uint32_t table, uint32_t at) {
    if (table >= (uint32_t)e->count)
        return "";
    const Elf64_Shdr *s = &e->sections[table];
    if (!inside(e, s->sh_offset, s->sh_size) || at >= s->sh_size ||
        !memchr(e->bytes + s->sh_offset + at, '\0', s->sh_size - at))
        return "";
    return (const char *)e->bytes + s->sh_offset + at;
}

static bool lint_sections(const elf_view *e, const char *name, bench_error *error) {
    for (int i = 0; i < e->count; i++) {
        const Elf64_Shdr *s = &e->sections[i];
        const char *section = string_at(e, e->header->e_shstrndx, s->sh_name);
        if (!(s->sh_flags & SHF_ALLOC) || s->sh_size == 0)
            continue;
        if (s->sh_type == SHT_INIT_ARRAY || s->sh_type == SHT_FINI_ARRAY || s->sh_type == SHT_PREINIT_ARRAY ||
            strncmp(section, ".ctors", 6) == 0 || strncmp(section, ".dtors", 6) == 0 || strcmp(section, ".init") == 0 ||
            strcmp(section, ".fini") == 0)
            return bench_fail(error, "%s: runs code when it is loaded (%s)", name, section);
        if (s->sh_flags & SHF_TLS)
            return bench_fail(error, "%s: has thread-local data (%s, %llu bytes)", name, section,
                              (unsigned long long)s->sh_size);
        // Tables of constants with addresses in them are written by the loader and read-only from then on.
        if (s->sh_flags & SHF_WRITE && strncmp(section, ".data.rel.ro", 12) != 0)
            return bench_fail(error, "%s: has writable data (%s, %llu bytes)", name, section,
                              (unsigned long long)s->sh_size);
    }
    return true;
}

static bool in_list(const char *name, const char *const *list, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (strcmp(list[i], name) == 0)
            return true;
    return false;
}

static bool take_import(lab_object *object, const char *symbol, const char *name, bool lint, bench_error *error) {
    static const char *const allowed[] = {"memcpy",
                                          "memmove",
                                          "memset",
                                          "memcmp",
                                          "sqrt",
                                          "sqrtf",
                                          "fma",
                                          "fmaf",
                                          "rint",
                                          "rintf",
                                          "_GLOBAL_OFFSET_TABLE_"};
    if (strncmp(symbol, "qsa_", 4) == 0) {
        if (object->n_needs == 8)
            return bench_fail(error, "%s: calls more than 8 other kernels", name);
        snprintf(object->needs[object->n_needs++], sizeof object->needs[0], "%s", symbol);
        return true;
    }
    if (lint && !in_list(symbol, allowed, sizeof allowed / sizeof allowed[0]))
        return bench_fail(error, "%s: imports %s, which a kernel may not", name, symbol);
    return true;
}

static bool read_symbols(const elf_view *e, const Elf64_Shdr *table, lab_object *object, const char *name, bool lint,
                         bench_error *error) {
    if (!inside(e, table->sh_offset, table->sh_size) || table->sh_offset % 8 || table->sh_entsize != sizeof(Elf64_Sym))
        return bench_fail(error, "%s: its symbols cannot be read", name);
    const Elf64_Sym *symbols = (const Elf64_Sym *)(const void *)(e->bytes + table->sh_offset);
    for (uint64_t i = 1; i < table->sh_size / sizeof(Elf64_Sym); i++) {
        const Elf64_Sym *s = &symbols[i];
        const char *symbol = string_at(e, table->sh_link, s->st_name);
        if (ELF64_ST_BIND(s->st_info) == STB_LOCAL && ELF64_ST_TYPE(s->st_info) != STT_GNU_IFUNC)
            continue;
        if (s->st_shndx == SHN_UNDEF) {
            if (!take_import(object, symbol, name, lint, error))
                return false;
            continue;
        }
        if (ELF64_ST_TYPE(s->st_info) == STT_GNU_IFUNC || (lint && ELF64_ST_TYPE(s->st_info) != STT_FUNC))
            return bench_fail(error, "%s: defines the global symbol %s, which is no plain function", name, symbol);
        if (object->entry[0])
            return bench_fail(error, "%s: defines two global functions, %s and %s", name, object->entry, symbol);
        snprintf(object->entry, sizeof object->entry, "%s", symbol);
    }
    return true;
}

bool lab_object_read(lab_object *object, const char *path, const char *name, bool lint, bench_error *error) {
    lab_text text;
    elf_view e;
    memset(object, 0, sizeof *object);
    if (!lab_read(path, &text, error))
        return false;
    bool right = open_view(&e, &text) || bench_fail(error, "%s: is no object file of 64 bits", path);
    right = right && (!lint || lint_sections(&e, name, error));
    for (int i = 0; right && i < e.count; i++)
        if (e.sections[i].sh_type == SHT_SYMTAB)
            right = read_symbols(&e, &e.sections[i], object, name, lint, error);
    free(text.bytes);
    if (right && !object->entry[0])
        return bench_fail(error, "%s: defines no global function", name);
    return right;
}

bool lab_cubin_lint(const char *path, const char *name, bench_error *error) {
    lab_text text;
    if (!lab_read(path, &text, error))
        return false;
    elf_view e = {.bytes = (const unsigned char *)text.bytes, .size = text.size};
    bool right = open_sections(&e) || bench_fail(error, "%s: is no machine code of 64 bits", path);
    for (int i = 0; right && i < e.count; i++) {
        const char *section = string_at(&e, e.header->e_shstrndx, e.sections[i].sh_name);
        if (strncmp(section, ".nv.global", 10) == 0 && e.sections[i].sh_size > 0)
            right = bench_fail(error, "%s: has variables in device memory (%s, %llu bytes); tables are __constant__",
                               name, section, (unsigned long long)e.sections[i].sh_size);
    }
    free(text.bytes);
    return right;
}
