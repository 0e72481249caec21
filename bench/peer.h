/* peer.h - input of Pare's benchmark peers: shapes and raw tensor files. */
#ifndef PARE_BENCH_PEER_H
#define PARE_BENCH_PEER_H

#include <stdio.h>
#include <stdlib.h>

#include <pare/pare.h>

/* "8,3,224,224" */
static inline int parse_shape(const char *text, struct pare_tensor *t)
{
    char *end;

    t->dtype = PARE_F32;
    for (t->rank = 0; t->rank < PARE_MAX_RANK; text = end + 1) {
        t->dim[t->rank++] = strtol(text, &end, 10);
        if (*end != ',')
            return *end == '\0';
    }
    return 0;
}

/* Read a file of raw values into t. */
static inline int read_file(struct pare_arena *a, const char *path, struct pare_tensor *t)
{
    size_t n = (size_t)pare_numel(t), size = pare_dtype_size(t->dtype);
    FILE *f = fopen(path, "rb");
    int ok;

    t->data = pare_alloc(a, n, size);
    ok = f && t->data && fread(t->data, size, n, f) == n;
    if (f)
        fclose(f);
    return ok;
}

#endif
