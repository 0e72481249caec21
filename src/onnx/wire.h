/* wire.h - unpack protobuf bytes into protobuf-c structs without copying weights. */
#ifndef PARE_ONNX_WIRE_H
#define PARE_ONNX_WIRE_H

#include <protobuf-c/protobuf-c.h>

#include <pare/pare.h>

/* Unpack `len` bytes as a message of type d.  The structs are allocated in the arena; `bytes`
 * fields of at least PARE_REFERENCE bytes point into `data`, which must outlive them. */
int pare_wire_unpack(const ProtobufCMessageDescriptor *d, const void *data, size_t len,
                     struct pare_arena *a, ProtobufCMessage **out, struct pare_err *err);

/* The messages in a field: returns their number and sets *child to them. */
size_t pare_wire_children(const ProtobufCMessage *m, const ProtobufCFieldDescriptor *f,
                          ProtobufCMessage *const **child);

#endif
