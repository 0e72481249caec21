/* save.c - write a model file, and its external data file if the weights do not fit inside.
 *
 * Everything is written to temporary files that are renamed at the end, so that a reader sees
 * either the old file or the new one.  Weights are copied from the mapped pages of the loaded file
 * to the new one piece by piece.
 */
#include "externalize.h"
#include "stored_types.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../base/sized.h"
#include "../base/temp_file.h"

#define MAX_INSIDE 2000000000u /* readers refuse messages from 2^31 bytes on */
#define EXTERNAL_ABOVE 1024    /* default of pare_save_opts.external_above */
#define BUFFER 65536
#define PIECE (16u << 20) /* after this many bytes, pages of the loaded file are released */

/* A file with a temporary name until it is complete. */
struct output {
    ProtobufCBuffer base; /* first: protobuf-c appends to it */
    const struct pare_model *m;
    int dir, fd, error; /* error: the errno of the first failure */
    int held;           /* keeps the temporary file locked until it is renamed, see io/file.c */
    const char *name;
    char tmp[64];
    size_t n;
    uint64_t total;
    uint8_t *buf;
};

struct save {
    const struct pare_model *m;
    struct pare_arena *arena;
    const char *path, *data_path;
    const Onnx__ModelProto *from; /* what is written */
    ProtobufCMessage *msg;        /* `from`, with weights inside or outside of the file */
    struct pare_externalize w;
};

/* A serialized model. */
struct packed {
    bool scratch; /* in: prefer scratch pages */
    struct pare_pages *pages;
    void *bytes;
    size_t len;
};

/* ---- buffered writing ------------------------------------------------------------------------ */

static void write_all(struct output *o, const uint8_t *p, size_t n)
{
    while (n && !o->error) {
        ssize_t k = write(o->fd, p, n);

        if (k < 0 && errno != EINTR)
            o->error = errno;
        if (k > 0) {
            p += k;
            n -= (size_t)k;
        }
    }
}

static void flush(struct output *o)
{
    write_all(o, o->buf, o->n);
    o->n = 0;
}

static void append(ProtobufCBuffer *base, size_t len, const uint8_t *data)
{
    struct output *o = (struct output *)base;

    o->total += len;
    if (len > BUFFER - o->n)
        flush(o);
    if (len < BUFFER) {
        if (len)
            memcpy(o->buf + o->n, data, len);
        o->n += len;
        return;
    }
    while (len && !o->error) {
        size_t n = len < PIECE ? len : PIECE;

        write_all(o, data, n);
        pare_model_release(o->m, data, n);
        data += n;
        len -= n;
    }
}

/* ---- temporary files ------------------------------------------------------------------------- */

static int output_open(struct output *o, const struct save *s, const char *path,
                       struct pare_err *err)
{
    const char *slash = strrchr(path, '/');
    const char *dir = slash == path ? "/"
                      : slash       ? pare_strndup(s->arena, path, (size_t)(slash - path))
                                    : ".";

    *o = (struct output){ .base = { append },
                          .m = s->m,
                          .dir = -1,
                          .fd = -1,
                          .held = -1,
                          .name = slash ? slash + 1 : path,
                          .buf = pare_alloc_raw(s->arena, BUFFER, 1) };
    if (!dir || !o->buf)
        return pare_no_memory(err, "to write it");
    o->dir = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (o->dir < 0)
        return pare_fail(err, PARE_EIO, "folder '%s' cannot be opened: %s", dir, strerror(errno));
    pare_temp_sweep(o->dir, ".pare-");
    for (int i = 0; i < 100 && o->fd < 0; i++) {
        snprintf(o->tmp, sizeof(o->tmp), ".pare-%ld-%d.tmp", (long)getpid(), i);
        o->fd = openat(o->dir, o->tmp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
        if (o->fd < 0 && errno != EEXIST)
            break;
    }
    if (o->fd >= 0) {
        pare_temp_hold(o->fd);
        o->held = dup(o->fd);
        return 0;
    }
    o->tmp[0] = '\0';
    return pare_fail(err, PARE_EIO, "cannot be written: %s", strerror(errno));
}

/* Flush all bytes to the disk and close. */
static int output_sync(struct output *o, struct pare_err *err)
{
    int fd = o->fd;

    flush(o);
    if (!o->error && fsync(fd))
        o->error = errno;
    o->fd = -1;
    if (close(fd) && !o->error)
        o->error = errno;
    return o->error ? pare_fail(err, PARE_EIO, "cannot be written: %s", strerror(o->error)) : 0;
}

static int output_publish(struct output *o, struct pare_err *err)
{
    if (renameat(o->dir, o->tmp, o->dir, o->name))
        return pare_fail(err, PARE_EIO, "cannot be renamed to its final name: %s", strerror(errno));
    o->tmp[0] = '\0';
    fsync(o->dir);
    return 0;
}

/* Close the file, and remove it if it was not published. */
static void output_close(struct output *o)
{
    if (o->fd >= 0)
        close(o->fd);
    if (o->held >= 0)
        close(o->held);
    if (o->tmp[0])
        unlinkat(o->dir, o->tmp, 0);
    if (o->dir >= 0)
        close(o->dir);
}

/* ---- what to write --------------------------------------------------------------------------- */

int pare_model_target(const struct pare_model *m, const char *path, struct pare_err *err)
{
    size_t n = strlen(path);
    struct stat st;

    if (!n || path[n - 1] == '/')
        return pare_fail(err, PARE_EIO, "names a folder, not a file");
    if (stat(path, &st))
        return 0;
    if (!S_ISREG(st.st_mode))
        return pare_fail(err, PARE_EIO, "exists and is not a regular file");
    for (; m; m = m->base)
        for (const struct pare_pages *p = m->pages; p; p = p->next)
            if (!p->scratch && p->dev == st.st_dev && p->ino == st.st_ino)
                return pare_fail(err, PARE_EIO, "holds %s that is being saved: choose another name",
                                 p->name ? "weights of the model" : "the model");
    return 0;
}

static int prepare(struct save *s, bool external, size_t above, struct pare_err *err)
{
    const char *slash = strrchr(s->data_path, '/');

    s->w = (struct pare_externalize){ .m = s->m,
                                      .arena = s->arena,
                                      .above = above,
                                      .location = !external ? NULL
                                                  : slash   ? slash + 1
                                                            : s->data_path };
    s->w.last = &s->w.first;
    return pare_externalize(&s->w, (void *)(uintptr_t)s->from, &s->msg, err);
}

static int plan_save(struct save *s, const struct pare_save_opts *opts, struct pare_err *err)
{
    bool external = opts && opts->external;
    size_t above = opts && opts->external_above ? opts->external_above : EXTERNAL_ABOVE;

    PARE_TRY(pare_model_target(s->m, s->path, err));
    if (!s->m->file)
        PARE_TRY(pare_stored_restore(s->m, s->from, s->arena, &s->from, err));
    PARE_TRY(prepare(s, external, above, err));
    if (!external && protobuf_c_message_get_packed_size(s->msg) > MAX_INSIDE)
        PARE_TRY(prepare(s, true, above, err));
    if (s->w.first)
        PARE_TRY(pare_at(err, pare_model_target(s->m, s->data_path, err), "%s", s->data_path));
    if (protobuf_c_message_get_packed_size(s->msg) > MAX_INSIDE)
        return pare_fail(err, PARE_ELIMIT, "would have more than %u bytes without its weights",
                         MAX_INSIDE);
    return 0;
}

static void write_weights(struct output *o, const struct pare_outside *first)
{
    static const uint8_t zeros[64];

    for (const struct pare_outside *t = first; t; t = t->next) {
        append(&o->base, (size_t)(t->offset - o->total), zeros);
        append(&o->base, t->len, t->data);
    }
}

static int write_files(struct save *s, struct pare_err *err)
{
    struct output data = { .dir = -1, .fd = -1, .held = -1 }, model = data;
    int rc = output_open(&model, s, s->path, err);

    if (!rc && s->w.first) {
        rc = output_open(&data, s, s->data_path, err);
        if (!rc) {
            write_weights(&data, s->w.first);
            rc = output_sync(&data, err);
        }
        pare_at(err, rc, "%s", s->data_path);
    }
    if (!rc) {
        protobuf_c_message_pack_to_buffer(s->msg, &model.base);
        rc = output_sync(&model, err);
    }
    if (!rc && s->w.first)
        rc = output_publish(&data, err);
    if (!rc)
        rc = output_publish(&model, err);
    output_close(&data);
    output_close(&model);
    return rc;
}

int pare_model_save(const struct pare_model *m, const char *path, const struct pare_save_opts *opts,
                    struct pare_err *err)
{
    PARE_ERR(err);
    struct save s = { .m = m, .path = path, .from = m->file ? m->file : m->proto };
    struct pare_save_opts o;
    int rc;

    PARE_TRY(pare_sized_copy(&o, sizeof(o), opts, err));
    s.arena = pare_arena_new(1 << 16);
    s.data_path = s.arena ? pare_sprintf(s.arena, "%s.data", path) : NULL;
    if (!s.data_path) {
        rc = pare_no_memory(err, "to write it");
    } else {
        rc = plan_save(&s, &o, err);
        if (!rc)
            rc = write_files(&s, err);
    }
    pare_arena_free(s.arena);
    return pare_at(err, rc, "%s", path);
}

static int pack(const struct pare_model *m, struct pare_arena *a, struct packed *to,
                struct pare_err *err)
{
    struct save s = { .m = m,
                      .arena = a,
                      .path = "",
                      .data_path = "",
                      .from = m->file ? m->file : m->proto };
    size_t len;

    PARE_TRY(prepare(&s, false, 0, err));
    len = protobuf_c_message_get_packed_size(s.msg);
    if (len > MAX_INSIDE)
        return pare_fail(err, PARE_ELIMIT,
                         "the model has %zu bytes, at most %u are possible in memory", len,
                         MAX_INSIDE);
    to->pages = to->scratch ? pare_scratch_pages(a, len) : NULL;
    to->bytes = to->pages ? to->pages->data : pare_alloc_raw(a, len, 1);
    to->len = len;
    if (!to->bytes)
        return pare_no_memory(err, "for %zu bytes", len);
    protobuf_c_message_pack(s.msg, to->bytes);
    return 0;
}

int pare_model_pack(const struct pare_model *m, struct pare_arena *a, void **bytes, size_t *len,
                    struct pare_err *err)
{
    PARE_ERR(err);
    struct packed p = { .scratch = false };

    PARE_TRY(pack(m, a, &p, err));
    *bytes = p.bytes;
    *len = p.len;
    return 0;
}

static int duplicate(const struct pare_model *m, struct pare_arena *a, struct pare_model **copy,
                     struct pare_err *err)
{
    struct packed p = { .scratch = true };
    int rc;

    PARE_TRY(pack(m, a, &p, err));
    rc = pare_model_parse_with(p.bytes, p.len, NULL, &m->how, copy, err);
    if (!rc && !m->file) {
        rc = pare_stored_copy(m, *copy, err);
        (*copy)->any_batch = m->any_batch;
        if (!rc && m->any_batch)
            rc = pare_model_build(*copy, err);
        if (rc)
            pare_model_free(*copy);
    }
    if (rc || !p.pages) {
        pare_pages_free(p.pages);
        return rc;
    }
    pare_pages_release(p.pages, p.bytes, p.len);
    p.pages->next = (*copy)->pages;
    (*copy)->pages = p.pages;
    return 0;
}

int pare_model_duplicate(const struct pare_model *m, struct pare_model **copy, struct pare_err *err)
{
    struct pare_arena *a = pare_arena_new(1 << 16);
    int rc = a ? duplicate(m, a, copy, err) : pare_no_memory(err, "for a copy of the model");

    if (rc)
        pare_arena_free(a);
    else
        (*copy)->shared = a;
    return rc;
}
