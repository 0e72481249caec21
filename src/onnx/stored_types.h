/* stored_types.h - element types that weights had in the file before intake made them float32. */
#ifndef PARE_ONNX_STORED_TYPES_H
#define PARE_ONNX_STORED_TYPES_H

#include "build.h"

/* Note that the initializer `name` was stored as `type`, followed by a Cast to float32. */
int pare_stored_note(struct pare_model *m, const char *name, enum pare_dtype type,
                     struct pare_err *err);

/* Whether a weight was stored in 16 bits. */
bool pare_stored_half(const struct pare_model *m);

/* Copy the notes to a copy of the model. */
int pare_stored_copy(const struct pare_model *from, struct pare_model *to, struct pare_err *err);

/* *out: the message with noted initializers in their types again, each with a Cast to float32; p
 * itself if there are none.  Copies are in the arena.  A tensor with values that its type cannot
 * represent, which training may have made, stays float32. */
int pare_stored_restore(const struct pare_model *m, const Onnx__ModelProto *p, struct pare_arena *a,
                        const Onnx__ModelProto **out, struct pare_err *err);

#endif
