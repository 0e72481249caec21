/* elf.h - is a shared object whole?  dlopen() does not look, and dies where a part is missing. */
#ifndef PARE_IO_ELF_H
#define PARE_IO_ELF_H

#include <pare/pare.h>

/* An ELF file of this machine's word size, all of whose segments are there.  What else can be wrong
 * with it, dlopen() says. */
int pare_elf_check(const void *data, size_t len, struct pare_err *err);

#endif
