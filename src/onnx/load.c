/* load.c - load a model: map the file, unpack the protobuf, build the graph. */
#include "build.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "intake/intake.h"
#include "wire.h"

struct pare_model *pare_model_empty(struct pare_err *err)
{
    struct pare_arena *a = pare_arena_new(1 << 16);
    struct pare_model *m = a ? pare_alloc(a, 1, sizeof(*m)) : NULL;

    if (!m) {
        pare_arena_free(a);
        pare_no_memory(err, "for a model");
        return NULL;
    }
    m->arena = a;
    atomic_init(&m->references, 1);
    return m;
}

void pare_model_retain(struct pare_model *m)
{
    atomic_fetch_add(&m->references, 1);
}

void pare_model_free(struct pare_model *m)
{
    struct pare_model *base;

    if (!m || atomic_fetch_sub(&m->references, 1) > 1)
        return;
    base = m->base;
    pare_model_free(m->adopted);
    pare_pages_free(m->pages);
    pare_arena_free(m->shared);
    pare_arena_free(m->arena);
    pare_model_free(base);
}

void pare_model_borrow(struct pare_model *m, const struct pare_model *base)
{
    m->base = (struct pare_model *)(uintptr_t)base;
    pare_model_retain(m->base);
}

void pare_model_adopt(struct pare_model *m, struct pare_model *edited)
{
    if (!m->file)
        m->file = m->proto;
    m->proto = edited->proto;
    m->graph = edited->graph;
    m->in = edited->in;
    m->out = edited->out;
    m->n_in = edited->n_in;
    m->n_out = edited->n_out;
    m->any_batch = edited->any_batch;
    edited->base = m->adopted; /* instead of a reference to m */
    m->adopted = edited;
    atomic_fetch_sub(&m->references, 1);
}

/* A hint for files of other formats that users confuse with ONNX. */
static const char *format_hint(const unsigned char *p, size_t len)
{
    if (len >= 4 && !memcmp(p, "PK\3\4", 4))
        return "; it looks like a zip archive, such as PyTorch saves: export the model to ONNX";
    if (len >= 4 && !memcmp(p + (len > 8 ? 4 : 0), "TFL3", 4))
        return "; it looks like a TensorFlow Lite model: convert it to ONNX";
    if (len >= 4 && (!memcmp(p, "\x89HDF", 4) || !memcmp(p, "\x80\x02", 2)))
        return "; it looks like saved weights of another framework: export the model to ONNX";
    if (len >= 7 && !memcmp(p, "version", 7))
        return "; it looks like a Git LFS pointer: fetch the file itself";
    return "";
}

static int read_model(struct pare_model *m, const void *data, size_t len,
                      const struct pare_load_opts *opts, struct pare_err *err)
{
    ProtobufCMessage *msg;
    int rc;

    if (!len)
        return pare_fail(err, PARE_EFORMAT, "is empty, not an ONNX model");
    rc = pare_wire_unpack(&onnx__model_proto__descriptor, data, len, m->arena, &msg, err);
    if (!rc) {
        m->proto = msg;
        if (!((Onnx__ModelProto *)m->proto)->graph)
            rc = pare_fail(err, PARE_EFORMAT, "has no graph");
    }
    if (rc) {
        size_t n = strlen(err->msg);

        strncpy(err->msg + n, format_hint(data, len), sizeof(err->msg) - n - 1);
        return pare_at(err, rc, "is not an ONNX model");
    }
    PARE_TRY(pare_intake(m, opts, err));
    if (pare_arena_failed(m->arena)) /* else nodes without memory would look unsupported */
        return pare_no_memory(err, "for its graph");
    return pare_external_open(m, msg, err);
}

/* Names come from the file: mask control characters before they reach a terminal or log. */
static int fail_load(struct pare_model *m, const char *path, int rc, struct pare_err *err)
{
    pare_model_free(m);
    rc = pare_at(err, rc, "%s", path);
    for (char *p = err->msg; *p; p++)
        if ((unsigned char)*p < ' ' || *p == 127)
            *p = '?';
    return rc;
}

int pare_model_parse_with(const void *data, size_t len, const char *dir,
                          const struct pare_load_opts *opts, struct pare_model **model,
                          struct pare_err *err)
{
    struct pare_model *m = pare_model_empty(err);
    int rc;

    *model = NULL;
    if (!m)
        return err->code;
    m->path = "model";
    m->dir = dir ? pare_strdup(m->arena, dir) : NULL;
    rc = read_model(m, data, len, opts, err);
    if (rc)
        return fail_load(m, "model", rc, err);
    *model = m;
    return 0;
}

int pare_model_parse(const void *data, size_t len, const char *dir, struct pare_model **model,
                     struct pare_err *err)
{
    PARE_ERR(err);
    return pare_model_parse_with(data, len, dir, NULL, model, err);
}

static int set_path(struct pare_model *m, const char *path, struct pare_err *err)
{
    const char *slash = strrchr(path, '/');

    m->path = pare_strdup(m->arena, path);
    m->dir = slash == path ? "/"
             : slash       ? pare_strndup(m->arena, path, (size_t)(slash - path))
                           : ".";
    return m->path && m->dir ? 0 : pare_no_memory(err, "for a path");
}

int pare_model_load(const char *path, struct pare_model **model, struct pare_err *err)
{
    PARE_ERR(err);
    return pare_model_load_with(path, NULL, model, err);
}

int pare_model_load_with(const char *path, const struct pare_load_opts *opts,
                         struct pare_model **model, struct pare_err *err)
{
    PARE_ERR(err);
    struct pare_model *m = pare_model_empty(err);
    struct pare_pages *pages = NULL;
    int fd, rc;

    *model = NULL;
    if (!m)
        return err->code;
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        rc = pare_fail(err, PARE_EIO, "cannot be opened: %s", strerror(errno));
        return fail_load(m, path, rc, err);
    }
    rc = set_path(m, path, err);
    if (!rc)
        rc = pare_pages_map(m, fd, NULL, &pages, err);
    close(fd);
    if (!rc)
        rc = read_model(m, pages->data, pages->len, opts, err);
    if (rc)
        return fail_load(m, path, rc, err);
    *model = m;
    return 0;
}

int pare_model_inputs(const struct pare_model *m, const struct pare_io **io)
{
    *io = m->in;
    return m->n_in;
}

int pare_model_outputs(const struct pare_model *m, const struct pare_io **io)
{
    *io = m->out;
    return m->n_out;
}
