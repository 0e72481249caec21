/* embedded.h - the files of data/digits, embedded as C arrays by the build. */
#ifndef PARE_DATA_EMBEDDED_H
#define PARE_DATA_EMBEDDED_H

#include <stddef.h>

/* In this order: train images, train labels, test images, test labels; IDX, compressed. */
struct pare_embedded {
    const unsigned char *data;
    size_t len;
};
extern const struct pare_embedded pare_digits_files[4];

#endif
