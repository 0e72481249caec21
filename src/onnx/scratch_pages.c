/* scratch_pages.c - scratch memory backed by an unlinked file, whose pages can be dropped.
 *
 * For large data that is not needed for some time, for example weights that a plan has packed.  The
 * file is created in $TMPDIR, or /tmp, and disappears with the mapping.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "build.h"

#define MIN_BYTES 65536 /* smaller blocks are not worth a file */

static int open_unlinked(struct pare_arena *a)
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
    struct pare_pages *p = bytes >= MIN_BYTES ? pare_alloc(a, 1, sizeof(*p)) : NULL;
    int fd = p ? open_unlinked(a) : -1;

    if (fd < 0)
        return NULL;
    *p = (struct pare_pages){ .scratch = true, .len = bytes };
    /* Allocate the blocks now: on a full disk, writing to a sparse mapping raises SIGBUS. */
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
