/* cpu_cache.h - the processor's caches, for measurements. */
#ifndef PARE_BASE_CPU_CACHE_H
#define PARE_BASE_CPU_CACHE_H

#include <stddef.h>

/* Bytes of the largest cache; a guess where the system does not say. */
size_t pare_cache_bytes(void);

/* Take this memory out of all caches, so that who reads it next waits for it.  Where programs
 * cannot do that, nothing happens. */
void pare_cache_drop(const void *data, size_t bytes);

#endif
