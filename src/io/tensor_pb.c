/* tensor_pb.c - .pb files: a single TensorProto, as in ONNX test data sets. */
#include "tensor_pb.h"

#include "file.h"
#include "../onnx/model.h"

int pare_pb_read(struct pare_arena *a, const char *path, struct pare_tensor *t, const char **name,
                 struct pare_err *err)
{
    const void *data;
    size_t len;
    int rc = pare_file_read(a, path, &data, &len, err);

    if (!rc)
        rc = pare_tensor_parse(data, len, a, t, name, err);
    return pare_at(err, rc, "%s", path);
}

int pare_pb_write(const char *path, const struct pare_tensor *t, const char *name,
                  struct pare_err *err)
{
    struct pare_arena *a = pare_arena_new(1 << 12);
    void *bytes;
    size_t len;
    int rc = a ? pare_tensor_pack(t, name, a, &bytes, &len, err)
               : pare_no_memory(err, "for a tensor");

    if (!rc)
        rc = pare_file_write(path, bytes, len, err);
    pare_arena_free(a);
    return pare_at(err, rc, "%s", path);
}
