/* nth_element.h - select the n-th smallest of a few integers without sorting. */
#ifndef PARE_PRUNE_NTH_ELEMENT_H
#define PARE_PRUNE_NTH_ELEMENT_H

#include <stdint.h>

struct pare_nth_element {
    int32_t key;
    int64_t before, equal; /* number of equal keys ranked before this one, and of all equal keys */
};

/* The key with `rank` keys before it, 0 <= rank < n.  tmp has room for n keys. */
struct pare_nth_element pare_nth_element(const int32_t *key, int64_t n, int64_t rank, int32_t *tmp);

/* Returns the bin that holds the key of this rank; *rank becomes the rank within the bin. */
uint32_t pare_find_bin(const int64_t *count, int64_t *rank);

#endif
