/* map.c - hash map from names to pointers: open addressing, at most half full. */
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

static uint64_t rotl(uint64_t v, int by)
{
    return v << by | v >> (64 - by);
}

static void sip_rounds(uint64_t v[4], int n)
{
    for (; n; n--) {
        v[0] += v[1], v[2] += v[3];
        v[1] = rotl(v[1], 13) ^ v[0], v[3] = rotl(v[3], 16) ^ v[2];
        v[0] = rotl(v[0], 32);
        v[2] += v[1], v[0] += v[3];
        v[1] = rotl(v[1], 17) ^ v[2], v[3] = rotl(v[3], 21) ^ v[0];
        v[2] = rotl(v[2], 32);
    }
}

/* SipHash-1-3.  Names come from files, and an attacker could choose names that all collide if
 * the hash were known; so its key is the address of the table, which differs from run to run.
 * Only the slots depend on it. */
static uint64_t secret_hash(const char *key, uint64_t secret)
{
    uint64_t v[4] = { secret ^ 0x736f6d6570736575u, ~secret ^ 0x646f72616e646f6du,
                      secret ^ 0x6c7967656e657261u, ~secret ^ 0x7465646279746573u };
    size_t len = strlen(key);
    uint64_t word = 0;

    for (size_t at = 0; at <= len; at += 8) {
        size_t n = len - at < 8 ? len - at : 8;

        word = 0;
        memcpy(&word, key + at, n);
        word |= n < 8 ? (uint64_t)len << 56 : 0;
        v[3] ^= word;
        sip_rounds(v, 1);
        v[0] ^= word;
    }
    v[2] ^= 0xff;
    sip_rounds(v, 3);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

static struct pare_map_slot *find_slot(const struct pare_map *m, const char *key)
{
    size_t i = (size_t)secret_hash(key, (uintptr_t)m->slot) & (m->cap - 1);

    while (m->slot[i].key && strcmp(m->slot[i].key, key))
        i = (i + 1) & (m->cap - 1);
    return &m->slot[i];
}

void *pare_map_get(const struct pare_map *m, const char *key)
{
    return m->cap ? find_slot(m, key)->val : NULL;
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
            return pare_no_memory(err, "for a table of %zu names", 2 * old.cap);
        }
        for (size_t i = 0; i < old.cap; i++)
            if (old.slot[i].key)
                *find_slot(m, old.slot[i].key) = old.slot[i];
    }
    s = find_slot(m, key);
    m->n += !s->key;
    s->key = key;
    s->val = val;
    return 0;
}
