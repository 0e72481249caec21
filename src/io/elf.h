/* elf.h - check that an ELF shared object is complete: dlopen() crashes on truncated files. */
#ifndef PARE_IO_ELF_H
#define PARE_IO_ELF_H

#include <pare/pare.h>

/* Check for an ELF file of this machine's word size with all of its segments; dlopen() reports
 * other errors. */
int pare_elf_check(const void *data, size_t len, struct pare_err *err);

#endif
