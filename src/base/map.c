/* map.c - names to pointers: open addressing, at most half full. */
#include "map.h"

#include <string.h>

uint64_t pare_hash(const void *data, size_t len)
{
    const unsigned char *p = data;
    uint64_t h = 0xcbf29ce484222325u;

    for (size_t i = 0; i < len; i++)
        h = (h ^ p[i]) * 0x100000001b3u;
    return h;
}

static struct pare_map_slot *find(const struct pare_map *m, const char *key)
{
    size_t i = (size_t)pare_hash(key, strlen(key)) & (m->cap - 1);

    while (m->slot[i].key && strcmp(m->slot[i].key, key))
        i = (i + 1) & (m->cap - 1);
    return &m->slot[i];
}

void *pare_map_get(const struct pare_map *m, const char *key)
{
    return m->cap ? find(m, key)->val : NULL;
}

int pare_map_set(struct pare_map *m, struct pare_arena *a, const char *key, void *val,
                 struct pare_err *err)
{
    struct pare_map_slot *s;

    if (2 * (m->n + 1) > m->cap) {
        struct pare_map old = *m;

        m->cap = m->cap ? 2 * m->cap : 32;
        m->slot = pare_alloc(a, m->cap, sizeof(*m->slot));
        if (!m->slot) {
            *m = old;
            return pare_fail(err, PARE_ENOMEM, "no memory for a table of %zu names", 2 * old.cap);
        }
        for (size_t i = 0; i < old.cap; i++)
            if (old.slot[i].key)
                *find(m, old.slot[i].key) = old.slot[i];
    }
    s = find(m, key);
    m->n += !s->key;
    s->key = key;
    s->val = val;
    return 0;
}
