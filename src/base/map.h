/* map.h - hash map from names to pointers. */
#ifndef PARE_BASE_MAP_H
#define PARE_BASE_MAP_H

#include <pare/pare.h>

/* A zeroed map is empty.  Keys are not copied and must outlive the map; memory comes from the given
 * arena. */
struct pare_map {
    struct pare_map_slot {
        const char *key;
        void *val;
    } * slot;
    size_t n, cap;
};

void *pare_map_get(const struct pare_map *m, const char *key); /* NULL when absent */
int pare_map_set(struct pare_map *m, struct pare_arena *a, const char *key, void *val,
                 struct pare_err *err);

uint64_t pare_hash(const void *data, size_t len); /* FNV-1a */

#endif
