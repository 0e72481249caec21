/* scratch_pages.c - memory behind a file without a name: pages that are given back come back.
 *
 * For what is large and not looked at for long, such as weights that are packed for a plan already.
 * The file is in $TMPDIR, or /tmp, and goes with the mapping.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "build.h"

#define LITTLE 65536 /* bytes that are not worth a file */

static int unnamed_file(struct pare_arena *a)
{
    const char *dir = getenv("TMPDIR");
    char *path = pare_sprintf(a, "%s/pare-XXXXXX", dir && *dir ? dir : "/tmp");
    int fd = path ? mkostemp(path, O_CLOEXEC) : -1;

    if (fd >= 0)
        unlink(path);
    return fd;
}

struct pare_pages *pare_scratch_pages(struct pare_arena *a, size_t bytes)
{
    struct pare_pages *p = bytes >= LITTLE ? pare_alloc(a, 1, sizeof(*p)) : NULL;
    int fd = p ? unnamed_file(a) : -1;

    if (fd < 0)
        return NULL;
    *p = (struct pare_pages){ .apart = true, .len = bytes };
    /* All of it is there before it is written, or a full disk would be a signal. */
    p->data = posix_fallocate(fd, 0, (off_t)bytes)
                  ? MAP_FAILED
                  : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return p->data == MAP_FAILED ? NULL : p;
}

void pare_pages_free(struct pare_pages *list)
{
    for (; list; list = list->next)
        if (list->data)
            munmap(list->data, list->len);
}

int pare_tensor_scratch(struct pare_arena *a, struct pare_tensor *t, struct pare_pages **list,
                        struct pare_err *err)
{
    struct pare_pages *p;
    size_t bytes;

    PARE_TRY(pare_tensor_size(t, NULL, &bytes, err));
    p = pare_scratch_pages(a, bytes);
    if (!p)
        return pare_tensor_alloc(a, t, err);
    p->next = *list;
    *list = p;
    t->data = p->data;
    return 0;
}
