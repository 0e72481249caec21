/* nth_element.h - the n-th of a few integers, without sorting them. */
#ifndef PARE_PRUNE_NTH_ELEMENT_H
#define PARE_PRUNE_NTH_ELEMENT_H

#include <stdint.h>

struct pare_nth_element {
    int32_t key;
    int64_t before, equal; /* how many equal ones are before it, and how many there are */
};

/* The key with `rank` others before it, 0 <= rank < n.  tmp has room for n keys. */
struct pare_nth_element pare_nth_element(const int32_t *key, int64_t n, int64_t rank, int32_t *tmp);

/* The bin in which the number of this rank is; the rank becomes that within it. */
uint32_t pare_find_bin(const int64_t *count, int64_t *rank);

#endif
