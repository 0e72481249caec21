/* sha256.c - SHA-256 (FIPS 180-4, section 6.2), to compare files. */
#include "sha256.h"

#include <stdio.h>
#include <string.h>

/* The first 32 bits of the fractions of the cube roots of the first 64 primes. */
static const uint32_t k[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotr(uint32_t x, int n)
{
    return x >> n | x << (32 - n);
}

static void process_block(uint32_t h[8], const uint8_t *p)
{
    uint32_t w[64], v[8];

    for (int i = 0; i < 16; i++, p += 4)
        w[i] = (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
    for (int i = 16; i < 64; i++)
        w[i] = w[i - 16] + w[i - 7] + (rotr(w[i - 15], 7) ^ rotr(w[i - 15], 18) ^ w[i - 15] >> 3) +
               (rotr(w[i - 2], 17) ^ rotr(w[i - 2], 19) ^ w[i - 2] >> 10);
    memcpy(v, h, sizeof(v));
    for (int i = 0; i < 64; i++) {
        uint32_t choose = (v[4] & v[5]) ^ (~v[4] & v[6]);
        uint32_t most = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
        uint32_t a = v[7] + (rotr(v[4], 6) ^ rotr(v[4], 11) ^ rotr(v[4], 25)) + choose + k[i] +
                     w[i];
        uint32_t b = (rotr(v[0], 2) ^ rotr(v[0], 13) ^ rotr(v[0], 22)) + most;

        memmove(v + 1, v, 7 * sizeof(*v));
        v[4] += a;
        v[0] = a + b;
    }
    for (int i = 0; i < 8; i++)
        h[i] += v[i];
}

void pare_sha256_init(struct pare_sha256 *s)
{
    /* The first 32 bits of the fractions of the square roots of the first 8 primes. */
    static const uint32_t start[8] = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                       0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19 };

    *s = (struct pare_sha256){ .bytes = 0 };
    memcpy(s->h, start, sizeof(start));
}

void pare_sha256_add(struct pare_sha256 *s, const void *data, size_t len)
{
    const uint8_t *p = data;

    s->bytes += len;
    while (len) {
        size_t room = sizeof(s->block) - s->in_block, n = len < room ? len : room;

        if (n == sizeof(s->block)) {
            process_block(s->h, p);
        } else {
            memcpy(s->block + s->in_block, p, n);
            s->in_block += n;
            if (s->in_block == sizeof(s->block)) {
                process_block(s->h, s->block);
                s->in_block = 0;
            }
        }
        p += n;
        len -= n;
    }
}

/* A bit, zeros up to 8 bytes before the end of a block, and the length in bits. */
void pare_sha256_text(struct pare_sha256 *s, char text[PARE_SHA256_TEXT])
{
    uint64_t bits = 8 * s->bytes;
    uint8_t end[72] = { 0x80 };
    size_t pad = (s->in_block < 56 ? 56 : 120) - s->in_block;

    for (size_t i = 0; i < 8; i++)
        end[pad + i] = (uint8_t)(bits >> (56 - 8 * i));
    pare_sha256_add(s, end, pad + 8);
    for (size_t i = 0; i < 8; i++)
        snprintf(text + 8 * i, 9, "%08x", s->h[i]);
}
