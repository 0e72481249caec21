/* externalize.h - move weights into or out of the model file before it is written. */
#ifndef PARE_ONNX_EXTERNALIZE_H
#define PARE_ONNX_EXTERNALIZE_H

#include "build.h"

/* One tensor's bytes in the external data file. */
struct pare_outside {
    const void *data;
    size_t len;
    uint64_t offset;
    struct pare_outside *next;
};

struct pare_externalize {
    const struct pare_model *m;
    struct pare_arena *arena;
    const char
        *location; /* name of the external data file; NULL: all weights go inside the model */
    size_t above;  /* initializers of at least this many bytes become external */
    struct pare_outside *first, **last;
    uint64_t end; /* bytes of the external file so far */
};

/* *out: the message, or a copy that shares everything that did not change.  m is not modified. */
int pare_externalize(struct pare_externalize *w, ProtobufCMessage *m, ProtobufCMessage **out,
                     struct pare_err *err);

#endif
