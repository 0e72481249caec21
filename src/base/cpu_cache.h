/* cpu_cache.h - size of the processor's caches, and flushing memory from them. */
#ifndef PARE_BASE_CPU_CACHE_H
#define PARE_BASE_CPU_CACHE_H

#include <stddef.h>

/* Bytes of the largest cache; a guess if the system does not report it. */
size_t pare_cache_bytes(void);

/* Flush this memory from all caches, so that the next read comes from memory.  Does nothing on
 * machines without a flush instruction. */
void pare_cache_drop(const void *data, size_t bytes);

#endif
