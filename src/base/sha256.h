/* sha256.h - SHA-256, to compare files. */
#ifndef PARE_BASE_SHA256_H
#define PARE_BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>

#define PARE_SHA256_TEXT 65 /* 64 hexadecimal digits and the terminating zero */

struct pare_sha256 {
    uint32_t h[8];
    uint8_t block[64];
    size_t in_block;
    uint64_t bytes;
};

void pare_sha256_init(struct pare_sha256 *s);
void pare_sha256_add(struct pare_sha256 *s, const void *data, size_t len);
void pare_sha256_text(struct pare_sha256 *s,
                      char text[PARE_SHA256_TEXT]); /* s cannot be used afterward */

#endif
