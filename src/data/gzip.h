/* gzip.h - sequential reader of plain or gzip-compressed bytes. */
#ifndef PARE_DATA_GZIP_H
#define PARE_DATA_GZIP_H

#include <zlib.h>

#include <pare/pare.h>

struct pare_gzip {
    const unsigned char *p; /* the remaining input */
    size_t left;
    bool packed, done; /* compressed; the end was reached */
    z_stream z;
};

int pare_gzip_start(struct pare_gzip *g, const void *bytes, size_t len, struct pare_err *err);
int pare_gzip_take(struct pare_gzip *g, void *dst, size_t len, struct pare_err *err);
int pare_gzip_end(struct pare_gzip *g, struct pare_err *err); /* fail if data follows */
void pare_gzip_stop(struct pare_gzip *g);

#endif
