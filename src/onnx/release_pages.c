/* release_pages.c - release mapped pages whose contents have been copied (madvise). */
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "model.h"

void pare_pages_release(const struct pare_pages *list, const void *data, size_t len)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = (uintptr_t)data, to = from + len;

    from = (from + page - 1) / page * page; /* only pages that lie entirely within the range */
    to = to / page * page;
    for (const struct pare_pages *p = list; p && from < to; p = p->next)
        if (p->data && from >= (uintptr_t)p->data && to <= (uintptr_t)p->data + p->len)
            madvise((void *)from, to - from, MADV_DONTNEED);
}

void pare_model_release(const struct pare_model *m, const void *data, size_t len)
{
    for (; m; m = m->base)
        pare_pages_release(m->pages, data, len);
}

void pare_model_release_all(const struct pare_model *m)
{
    for (; m; m = m->base)
        for (const struct pare_pages *p = m->pages; p; p = p->next)
            if (p->data)
                madvise(p->data, p->len, MADV_DONTNEED);
}
