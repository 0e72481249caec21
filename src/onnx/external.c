/* external.c - external data: tensors stored in separate files.
 *
 * The model names the file, so a malicious model could try to read other files of the user.  The
 * name is therefore resolved strictly beneath the model's folder: no absolute path, no "..", no
 * symbolic link in the path, and no file with a second hard link.
 */
#include "build.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../base/limits.h"
#include "wire.h"

struct extent {
    const char *location;
    uint64_t offset, length;
    bool has_length; /* false: the length follows from the shape */
};

int pare_pages_map(struct pare_model *m, int fd, const char *name, struct pare_pages **pages,
                   struct pare_err *err)
{
    struct pare_pages *p = pare_alloc(m->arena, 1, sizeof(*p));
    struct stat st;

    if (!p)
        return pare_no_memory(err, "to read it");
    if (name && m->n_external == PARE_MAX_EXTERNAL_FILES)
        return pare_fail(err, PARE_ELIMIT, "is one of more than %d files of external data",
                         PARE_MAX_EXTERNAL_FILES);
    if (fstat(fd, &st))
        return pare_fail(err, PARE_EIO, "cannot be read: %s", strerror(errno));
    if (!S_ISREG(st.st_mode))
        return pare_fail(err, PARE_EIO, "is %s, not a file",
                         S_ISDIR(st.st_mode) ? "a directory" : "a device or pipe");
    if (name && st.st_nlink != 1)
        return pare_fail(err, PARE_EIO, "has %llu names (hard links), must have one",
                         (unsigned long long)st.st_nlink);
    if ((uint64_t)st.st_size > PARE_MAX_MODEL)
        return pare_fail(err, PARE_ELIMIT, "has %lld bytes, at most %llu are handled",
                         (long long)st.st_size, (unsigned long long)PARE_MAX_MODEL);
    *p = (struct pare_pages){ .name = name,
                              .len = (size_t)st.st_size,
                              .dev = st.st_dev,
                              .ino = st.st_ino,
                              .next = m->pages };
    if (p->len) {
        p->data = mmap(NULL, p->len, PROT_READ, MAP_PRIVATE, fd, 0);
        if (p->data == MAP_FAILED)
            return pare_fail(err, PARE_EIO, "cannot be mapped: %s", strerror(errno));
    }
    m->pages = p;
    m->n_external += name != NULL;
    *pages = p;
    return 0;
}

/* Kernels before 5.6 have no openat2(): walk down the path, refusing links at each step. */
static int open_steps(int dir, const char *location)
{
    char part[256];
    struct stat st;
    int fd = dir, rc;

    for (const char *p = location; *p;) {
        size_t n = strcspn(p, "/");
        bool last = p[n] == '\0';
        int next;

        if (n >= sizeof(part)) {
            next = -1;
            errno = ENAMETOOLONG;
        } else {
            memcpy(part, p, n);
            part[n] = '\0';
            next = openat(fd, n ? part : ".",
                          O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK |
                              (last ? 0 : O_DIRECTORY));
        }
        if (next < 0 && errno == ENOTDIR && !fstatat(fd, part, &st, AT_SYMLINK_NOFOLLOW) &&
            S_ISLNK(st.st_mode))
            errno = ELOOP; /* like openat2() */
        rc = errno;
        if (fd != dir)
            close(fd);
        errno = rc;
        if (next < 0)
            return -1;
        fd = next;
        p += n + !last;
    }
    return fd;
}

static int open_beneath(int dir, const char *location)
{
    struct open_how how = {
        .flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
    };
    long fd = syscall(SYS_openat2, dir, location, &how, sizeof(how));

    if (fd < 0 && (errno == ENOSYS || errno == EPERM || errno == E2BIG || errno == EINVAL))
        return open_steps(dir, location);
    return (int)fd;
}

static int check_location(const char *s, struct pare_err *err)
{
    if (!s || !*s)
        return pare_fail(err, PARE_EFORMAT, "external data without a location");
    if (*s == '/')
        return pare_fail(err, PARE_EFORMAT,
                         "external data at '%s', must be beneath the model's folder", s);
    for (const char *p = s; *p;) {
        size_t n = strcspn(p, "/");

        if (n == 2 && p[0] == '.' && p[1] == '.')
            return pare_fail(err, PARE_EFORMAT,
                             "external data at '%s', must be beneath the model's folder", s);
        p += n + (p[n] == '/');
    }
    return 0;
}

static struct pare_pages *find_pages(const struct pare_model *m, const char *location)
{
    for (; m; m = m->base)
        for (struct pare_pages *p = m->pages; p; p = p->next)
            if (p->name && !strcmp(p->name, location))
                return p;
    return NULL;
}

static int map_location(struct pare_model *m, const char *location, struct pare_err *err)
{
    struct pare_pages *pages;
    int dir, fd, rc;

    if (find_pages(m, location))
        return 0;
    if (!m->dir)
        return pare_fail(err, PARE_EIO, "its data is in file '%s', but the model has no folder",
                         location);
    dir = open(m->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return pare_fail(err, PARE_EIO, "folder '%s' cannot be read: %s", m->dir, strerror(errno));
    fd = open_beneath(dir, location);
    rc = fd < 0 ? errno : 0;
    close(dir);
    if (fd < 0)
        return pare_fail(err, PARE_EIO, "external data file '%s' cannot be opened: %s", location,
                         rc == ELOOP || rc == EXDEV ? "it is or leads through a link"
                                                    : strerror(rc));
    rc = pare_pages_map(m, fd, location, &pages, err);
    close(fd);
    return pare_at(err, rc, "external data file '%s'", location);
}

static int parse_number(const char *key, const char *text, uint64_t *v, struct pare_err *err)
{
    char *end = NULL;

    errno = 0;
    *v = strtoull(text, &end, 10);
    if (*text >= '0' && *text <= '9' && !*end && !errno)
        return 0;
    return pare_fail(err, PARE_EFORMAT, "external data %s is '%s', must be a whole number", key,
                     text);
}

/* Other keys, for example a checksum, are ignored.  Duplicate keys are refused, because readers
 * could disagree about which one counts. */
static int read_extent(const Onnx__TensorProto *p, struct extent *at, struct pare_err *err)
{
    static const char *const keys[] = { "location", "offset", "length" };
    const char *found[3] = { NULL, NULL, NULL };

    memset(at, 0, sizeof(*at));
    for (size_t i = 0; i < p->n_external_data; i++) {
        const char *key = p->external_data[i]->key, *value = p->external_data[i]->value;

        for (int k = 0; k < 3 && key; k++) {
            if (strcmp(key, keys[k]) != 0)
                continue;
            if (found[k])
                return pare_fail(err, PARE_EFORMAT, "external data has the key '%s' twice", key);
            found[k] = value ? value : "";
        }
    }
    at->location = found[0];
    at->has_length = found[2] != NULL;
    if (found[1])
        PARE_TRY(parse_number(keys[1], found[1], &at->offset, err));
    if (found[2])
        PARE_TRY(parse_number(keys[2], found[2], &at->length, err));
    return check_location(at->location, err);
}

int pare_external_known(const struct pare_model *m, const Onnx__TensorProto *p, const void **bytes,
                        size_t *len, struct pare_err *err)
{
    const struct pare_pages *pages;
    struct extent at;

    PARE_TRY(read_extent(p, &at, err));
    pages = find_pages(m, at.location);
    if (!pages)
        return pare_fail(err, PARE_EIO, "external data file '%s' is not open", at.location);
    if (!at.has_length && !pare_raw_size(p, &at.length))
        at.length = at.offset > pages->len ? 0 : pages->len - at.offset;
    if (at.offset > pages->len || at.length > pages->len - at.offset)
        return pare_fail(err, PARE_EFORMAT,
                         "needs %llu bytes at %llu of external data file '%s', which has %zu",
                         (unsigned long long)at.length, (unsigned long long)at.offset, at.location,
                         pages->len);
    *len = (size_t)at.length;
    *bytes = pages->data ? (const char *)pages->data + at.offset : "";
    return 0;
}

int pare_external_bytes(struct pare_model *m, const Onnx__TensorProto *p, const void **bytes,
                        size_t *len, struct pare_err *err)
{
    struct extent at;

    PARE_TRY(read_extent(p, &at, err));
    PARE_TRY(map_location(m, at.location, err));
    return pare_external_known(m, p, bytes, len, err);
}

/* The recursion depth is that of the loaded file, which wire.c has checked. */
int pare_external_open(struct pare_model *m, const ProtobufCMessage *msg, struct pare_err *err)
{
    const ProtobufCMessageDescriptor *d = msg->descriptor;
    const Onnx__TensorProto *t = (const Onnx__TensorProto *)msg;
    const void *bytes;
    size_t len;

    if (d == &onnx__tensor_proto__descriptor && pare_is_external(t))
        return pare_at(err, pare_external_bytes(m, t, &bytes, &len, err), "tensor '%s'",
                       t->name ? t->name : "");
    for (unsigned i = 0; i < d->n_fields; i++) {
        ProtobufCMessage *const *child;
        size_t n = pare_wire_children(msg, &d->fields[i], &child);

        for (size_t k = 0; k < n; k++)
            PARE_TRY(pare_external_open(m, child[k], err));
    }
    return 0;
}
