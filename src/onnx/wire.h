/* wire.h - protobuf bytes to protobuf-c structs, without copying weights. */
#ifndef PARE_ONNX_WIRE_H
#define PARE_ONNX_WIRE_H

#include <protobuf-c/protobuf-c.h>

#include <pare/pare.h>

/* Unpack `len` bytes as a message of type d.  The structs are taken from the arena; `bytes`
 * fields of PARE_REFERENCE and more point into `data`, which must outlive them. */
int pare_wire_unpack(const ProtobufCMessageDescriptor *d, const void *data, size_t len,
                     struct pare_arena *a, ProtobufCMessage **out, struct pare_err *err);

/* The messages in a field: how many, and where they are.  0 when it holds none. */
size_t pare_wire_children(const ProtobufCMessage *m, const ProtobufCFieldDescriptor *f,
                          ProtobufCMessage *const **child);

#endif
