/* externalize.h - the model as it is to be written: weights moved in or out of the file. */
#ifndef PARE_ONNX_EXTERNALIZE_H
#define PARE_ONNX_EXTERNALIZE_H

#include "build.h"

/* One tensor's bytes in the file beside the model. */
struct pare_outside {
    const void *data;
    size_t len;
    uint64_t offset;
    struct pare_outside *next;
};

struct pare_externalize {
    const struct pare_model *m;
    struct pare_arena *arena;
    const char *location; /* name of the file beside; NULL: everything goes inside */
    size_t above;         /* initializers of at least this many bytes go outside */
    struct pare_outside *first, **last;
    uint64_t end; /* bytes outside so far */
};

/* The message, or a copy that shares all that did not change.  The original is not touched. */
int pare_externalize(struct pare_externalize *w, ProtobufCMessage *m, ProtobufCMessage **out,
                     struct pare_err *err);

#endif
