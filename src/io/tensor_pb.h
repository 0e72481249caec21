/* tensor_pb.h - .pb files: a single TensorProto, as in ONNX test data sets. */
#ifndef PARE_IO_TENSOR_PB_H
#define PARE_IO_TENSOR_PB_H

#include <pare/pare.h>

/* Read a TensorProto.  `name` is its name in the file, possibly "". */
int pare_pb_read(struct pare_arena *a, const char *path, struct pare_tensor *t, const char **name,
                 struct pare_err *err);

int pare_pb_write(const char *path, const struct pare_tensor *t, const char *name,
                  struct pare_err *err);

#endif
