/* elf.c - check that an ELF shared object is complete before dlopen(). */
#include "elf.h"

#include <link.h>
#include <string.h>

static int cut_off(struct pare_err *err)
{
    return pare_fail(err, PARE_EFORMAT, "the end of the shared object is missing");
}

int pare_elf_check(const void *data, size_t len, struct pare_err *err)
{
    const unsigned char word = sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32;
    const unsigned char *p = data;
    ElfW(Ehdr) head;

    if (len < SELFMAG || memcmp(p, ELFMAG, SELFMAG) != 0)
        return pare_fail(err, PARE_EFORMAT, "is not a shared object");
    if (len < sizeof(head))
        return cut_off(err);
    memcpy(&head, p, sizeof(head));
    if (head.e_ident[EI_CLASS] != word)
        return pare_fail(err, PARE_EFORMAT, "is a shared object of another kind of machine");
    for (size_t i = 0; i < head.e_phnum; i++) {
        ElfW(Phdr) part;

        if (head.e_phentsize != sizeof(part) || head.e_phoff > len ||
            len - head.e_phoff < (i + 1) * sizeof(part))
            return cut_off(err);
        memcpy(&part, p + head.e_phoff + i * sizeof(part), sizeof(part));
        if (part.p_offset > len || part.p_filesz > len - part.p_offset)
            return cut_off(err);
    }
    return 0;
}
