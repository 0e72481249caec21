/* arena.c - arena allocator; the only file that calls malloc().
 *
 * An arena is a stack of blocks.  Small requests share a block; a request larger than block_bytes
 * gets its own block, so big tensors waste nothing.  Large blocks, and blocks of large arenas, are
 * mapped, so that freeing them returns their memory to the system.
 */
#include "arena.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define ALIGN 64 /* one cache line; also the alignment of the SIMD kernels */

/* With the address sanitizer, only requested bytes of a block are accessible: the rest, and a gap
 * after each request, are poisoned. */
#ifdef PARE_ASAN
#include <sanitizer/asan_interface.h>
#define MAP_ABOVE SIZE_MAX
#define MAP_IN_LARGE SIZE_MAX
#define GAP ALIGN
#define hide(p, n) __asan_poison_memory_region(p, n)
#define show(p, n) __asan_unpoison_memory_region(p, n)
#else
#define MAP_ABOVE ((size_t)1 << 20)
#define MAP_IN_LARGE ((size_t)1 << 16) /* in arenas that hold more than MAP_ABOVE */
#define GAP 0
#define hide(p, n) ((void)(p), (void)(n))
#define show(p, n) ((void)(p), (void)(n))
#endif

struct block {
    struct block *next; /* the block allocated before this one, or NULL */
    size_t cap, used;
    unsigned char *data; /* inside this allocation, aligned */
    bool mapped;
};

struct pare_arena {
    struct block *top;
    struct block *spare; /* kept by pare_rewind */
    size_t block_bytes;
    size_t bytes; /* of all blocks except `spare` */
    size_t left;  /* bytes that may still be requested from the system; 0: no limit */
    bool failed, over;
};

int pare_oom_countdown;

/* Total of all arenas, and its limit. */
static _Atomic size_t held, most;
static atomic_bool refused;

void pare_memory_limit(size_t bytes)
{
    most = bytes;
    refused = false;
}

size_t pare_memory_used(void)
{
    return held;
}

bool pare_memory_refused(void)
{
    return refused;
}

static void *system_alloc(size_t n, bool mapped)
{
    void *p;

    if (!mapped)
        return malloc(n);
    p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

static void *block_malloc(size_t n, bool mapped)
{
    size_t may = most, before;
    void *p;

    if (pare_oom_countdown > 0 && --pare_oom_countdown == 0)
        return NULL;
    before = atomic_fetch_add(&held, n);
    if (may && (n > may || before > may - n)) {
        held -= n;
        refused = true;
        return NULL;
    }
    p = system_alloc(n, mapped);
    held -= p ? 0 : n;
    return p;
}

static void block_free(struct block *b)
{
    size_t n = b ? sizeof(*b) + ALIGN + b->cap : 0;

    if (b)
        show(b->data, b->cap);
    held -= n;
    if (b && b->mapped)
        munmap(b, n);
    else
        free(b);
}

static struct block *new_block(const struct pare_arena *a, size_t need)
{
    size_t cap = need > a->block_bytes ? need : a->block_bytes, n = sizeof(struct block) + ALIGN;
    bool mapped = cap >= (a->bytes > MAP_ABOVE ? MAP_IN_LARGE : MAP_ABOVE);
    struct block *b;

    if (cap > SIZE_MAX - n)
        return NULL;
    b = block_malloc(n + cap, mapped);
    if (!b)
        return NULL;
    b->mapped = mapped;
    b->data = (unsigned char *)(((uintptr_t)(b + 1) + ALIGN - 1) & ~(uintptr_t)(ALIGN - 1));
    b->cap = cap;
    return b;
}

/* Check whether the arena's limit allows a block for `need` bytes, and count it. */
static bool may_grow(struct pare_arena *a, size_t need)
{
    size_t cap = need > a->block_bytes ? need : a->block_bytes;

    if (!a->left)
        return true;
    if (cap >= a->left) {
        a->over = true;
        return false;
    }
    a->left -= cap;
    return true;
}

static int push_block(struct pare_arena *a, size_t need)
{
    struct block *b = a->spare;

    if (b && b->cap >= need)
        a->spare = NULL;
    else
        b = may_grow(a, need) ? new_block(a, need) : NULL;
    if (!b) {
        a->failed = true;
        return PARE_ENOMEM;
    }
    b->used = 0;
    hide(b->data, b->cap);
    b->next = a->top;
    a->top = b;
    a->bytes += b->cap;
    return 0;
}

struct pare_arena *pare_arena_new(size_t block_bytes)
{
    struct pare_arena *a = block_malloc(sizeof(*a), false);

    if (!a)
        return NULL;
    a->top = a->spare = NULL;
    a->block_bytes = block_bytes;
    a->bytes = 0;
    a->left = 0;
    a->failed = a->over = false;
    return a;
}

static void pop_block(struct pare_arena *a, bool keep)
{
    struct block *b = a->top;

    a->top = b->next;
    a->bytes -= b->cap;
    if (keep && (!a->spare || a->spare->cap < b->cap)) {
        block_free(a->spare);
        a->spare = b;
    } else {
        block_free(b);
    }
}

static void cut_top(struct pare_arena *a, size_t used)
{
    if (!a->top)
        return;
    a->top->used = used;
    hide(a->top->data + used, a->top->cap - used);
}

void pare_reset(struct pare_arena *a, struct pare_mark m)
{
    while (a->top && a->top != m.block)
        pop_block(a, false);
    cut_top(a, m.used);
}

void pare_rewind(struct pare_arena *a, struct pare_mark m)
{
    size_t used = 0;

    for (; a->top && a->top != m.block; pop_block(a, true))
        used += a->top->used;
    cut_top(a, m.used);
    if (a->spare && a->spare->cap < used) { /* replace several blocks by one of their total size */
        block_free(a->spare);
        a->spare = new_block(a, used);
    }
}

struct pare_mark pare_mark(const struct pare_arena *a)
{
    return (struct pare_mark){ a->top, a->top ? a->top->used : 0 };
}

void pare_arena_free(struct pare_arena *a)
{
    if (!a)
        return;
    pare_reset(a, (struct pare_mark){ NULL, 0 });
    block_free(a->spare);
    held -= sizeof(*a);
    free(a);
}

bool pare_arena_failed(const struct pare_arena *a)
{
    return a->failed;
}

size_t pare_arena_limit(struct pare_arena *a, size_t bytes)
{
    size_t left = a->over ? 0 : a->left;

    a->left = bytes;
    a->over = false;
    return left;
}

size_t pare_arena_bytes(const struct pare_arena *a)
{
    return a->bytes + (a->spare ? a->spare->cap : 0);
}

void pare_arena_visit(const struct pare_arena *a, void (*see)(const void *data, size_t bytes))
{
    for (const struct block *b = a->top; b; b = b->next)
        see(b->data, b->used);
}

void *pare_alloc_raw(struct pare_arena *a, size_t n, size_t size)
{
    size_t bytes;
    void *p;

    if (size && n > (SIZE_MAX - ALIGN - GAP) / size)
        return NULL;
    bytes = ((n * size + ALIGN - 1) & ~(size_t)(ALIGN - 1)) + GAP;
    if (!bytes)
        bytes = ALIGN;
    if (pare_oom_countdown < 0 && ++pare_oom_countdown == 0) {
        a->failed = true;
        return NULL;
    }
    if (!a->top || a->top->cap - a->top->used < bytes)
        if (push_block(a, bytes))
            return NULL;
    p = a->top->data + a->top->used;
    a->top->used += bytes;
    show(p, n * size);
    return p;
}

void *pare_alloc(struct pare_arena *a, size_t n, size_t size)
{
    void *p = pare_alloc_raw(a, n, size);

    return p ? memset(p, 0, n * size) : NULL;
}

char *pare_strndup(struct pare_arena *a, const char *s, size_t n)
{
    char *p = pare_alloc_raw(a, n + 1, 1);

    if (!p)
        return NULL;
    if (n)
        memcpy(p, s, n);
    p[n] = '\0';
    return p;
}

char *pare_strdup(struct pare_arena *a, const char *s)
{
    return pare_strndup(a, s, strlen(s));
}

char *pare_sprintf(struct pare_arena *a, const char *fmt, ...)
{
    va_list ap;
    char *p;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0)
        return NULL;
    p = pare_alloc_raw(a, (size_t)n + 1, 1);
    if (!p)
        return NULL;
    va_start(ap, fmt);
    vsnprintf(p, (size_t)n + 1, fmt, ap);
    va_end(ap);
    return p;
}

char *pare_join(struct pare_arena *a, const char *const *text, int n, const char *between)
{
    size_t len = 1, gap = strlen(between);
    char *to, *p;

    for (int i = 0; i < n; i++)
        len += strlen(text[i]) + (i ? gap : 0);
    to = p = pare_alloc_raw(a, len, 1);
    for (int i = 0; i < n && to; i++) {
        size_t k = strlen(text[i]);

        if (i)
            memcpy(p, between, gap);
        p += i ? gap : 0;
        memcpy(p, text[i], k);
        p += k;
    }
    if (to)
        *p = '\0';
    return to;
}

void *pare_grow(struct pare_arena *a, void *array, int n, int *cap, size_t size)
{
    int more = *cap ? *cap * 2 : 8;
    void *p;

    if (n < *cap)
        return array;
    p = pare_alloc(a, (size_t)more, size);
    if (!p)
        return NULL;
    if (n)
        memcpy(p, array, (size_t)n * size);
    *cap = more;
    return p;
}
