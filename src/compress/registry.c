/* registry.c - algorithms by name, and plugins that add to them. */
#include "registry.h"

#include <dlfcn.h>
#include <string.h>

#include "../base/arena.h"
#include "../io/elf.h"
#include "../io/file.h"
#include "../train/lookup.h"
#include "method.h"

struct added {
    const struct pare_method *method;
    const struct pare_algorithm *algorithm;
};

struct pare_registry {
    struct pare_arena *arena;
    struct added *list;
    int n, cap;
};

struct pare_registry *pare_registry_new(struct pare_err *err)
{
    PARE_ERR(err);
    struct pare_arena *a = pare_arena_new(1 << 12);
    struct pare_registry *g = a ? pare_alloc(a, 1, sizeof(*g)) : NULL;

    if (g) {
        g->arena = a;
        return g;
    }
    pare_arena_free(a);
    pare_no_memory(err, "for plugins");
    return NULL;
}

void pare_registry_free(struct pare_registry *g)
{
    if (g)
        pare_arena_free(g->arena);
}

const struct pare_algorithm *pare_algorithm_at(const struct pare_registry *g,
                                               const struct pare_method *m, int i)
{
    for (int k = 0; m->builtin[k]; k++)
        if (!i--)
            return m->builtin[k];
    for (int k = 0; m->searches && m->searches[k]; k++)
        if (!i--)
            return m->searches[k];
    for (int k = 0; g && k < g->n; k++)
        if (g->list[k].method == m && !i--)
            return g->list[k].algorithm;
    return NULL;
}

int pare_find_algorithm(const struct pare_registry *g, const struct pare_method *m,
                        const char *name, const struct pare_algorithm **a, struct pare_err *err)
{
    const char *names[PARE_LOOKUP_MAX];
    int n = 0, i;

    for (; n < PARE_LOOKUP_MAX && pare_algorithm_at(g, m, n); n++)
        names[n] = pare_algorithm_at(g, m, n)->name;
    PARE_TRY(pare_lookup(m->name, name, names, n, &i, err));
    *a = pare_algorithm_at(g, m, i);
    return 0;
}

/* ---- plugins ---------------------------------------------------------------------------- */

static bool is_name(const char *s)
{
    size_t n = s ? strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789_") : 0;

    return n && n < 64 && !s[n];
}

void *pare_descriptor_copy(struct pare_registry *g, const void *d, uint32_t size, size_t full,
                           const char *what, struct pare_err *err)
{
    void *copy = pare_alloc(g->arena, 1, full);

    if (!size || size > full)
        pare_fail(err, PARE_EUNSUPPORTED,
                  "a descriptor has size %u, struct %s has %zu here: set it to the sizeof of the "
                  "struct, and build it with the headers of this version",
                  (unsigned)size, what, full);
    else if (!copy)
        pare_no_memory(err, "for plugins");
    else
        return memcpy(copy, d, size);
    return NULL;
}

static int check(struct pare_registry *g, const struct pare_method *m,
                 const struct pare_algorithm *a, struct pare_err *err)
{
    if (!is_name(a->name))
        return pare_fail(err, PARE_ECONFIG,
                         "a %s has no usable name: it must be of the letters a-z, digits and _",
                         m->name);
    for (int i = 0; pare_algorithm_at(g, m, i); i++)
        if (!strcmp(pare_algorithm_at(g, m, i)->name, a->name))
            return pare_fail(err, PARE_ECONFIG, "a %s '%s' exists already", m->name, a->name);
    if (pare_algorithm_at(g, m, PARE_LOOKUP_MAX - 1))
        return pare_fail(err, PARE_ELIMIT, "there are %d %ss already", PARE_LOOKUP_MAX, m->name);
    return 0;
}

int pare_registry_add(struct pare_registry *g, const struct pare_method *m,
                      const struct pare_algorithm *a, struct pare_err *err)
{
    struct pare_algorithm *own;
    void *list;

    if (a->abi != PARE_ABI)
        return pare_fail(err, PARE_EUNSUPPORTED,
                         "a %s was built for interface %u of plugins, this is %u: build it again",
                         m->name, (unsigned)a->abi, (unsigned)PARE_ABI);
    own = pare_descriptor_copy(g, a, a->size, sizeof(*a), "pare_algorithm", err);
    if (!own)
        return err->code;
    PARE_TRY(check(g, m, own, err));
    PARE_TRY(m->check(g, own, err));
    list = pare_grow(g->arena, g->list, g->n, &g->cap, sizeof(*g->list));
    if (!list)
        return pare_no_memory(err, "for plugins");
    g->list = list;
    g->list[g->n++] = (struct added){ m, own };
    return 0;
}

#ifdef PARE_STATIC
int pare_plugin_load(struct pare_registry *g, const char *path, struct pare_err *err)
{
    PARE_ERR(err);
    (void)g;
    return pare_fail(err, PARE_EUNSUPPORTED,
                     "%s: this program is linked statically and cannot load plugins; use a pare "
                     "that is linked with shared libraries",
                     path);
}
#else
static int check_file(struct pare_registry *g, const char *path, struct pare_err *err)
{
    struct pare_mark m = pare_mark(g->arena);
    const void *data;
    size_t len;
    int rc = pare_file_read(g->arena, path, &data, &len, err);

    if (!rc)
        rc = pare_elf_check(data, len, err);
    pare_reset(g->arena, m);
    return pare_at(err, rc, "%s", path);
}

int pare_plugin_load(struct pare_registry *g, const char *path, struct pare_err *err)
{
    PARE_ERR(err);
    int (*init)(struct pare_registry *, struct pare_err *);
    char *name = pare_sprintf(g->arena, "%s%s", strchr(path, '/') ? "" : "./", path);
    int before = g->n, rc;
    void *handle, *symbol;

    if (!name)
        return pare_no_memory(err, "for plugins");
    PARE_TRY(check_file(g, name, err));
    handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return pare_fail(err, PARE_EIO, "%s", dlerror());
    symbol = dlsym(handle, PARE_PLUGIN_INIT);
    if (!symbol) {
        dlclose(handle);
        return pare_fail(err, PARE_EFORMAT, "%s: is not a plugin of Pare, it has no function %s",
                         path, PARE_PLUGIN_INIT);
    }
    memcpy(&init, &symbol,
           sizeof(init)); /* ISO C does not convert an object pointer to a function pointer */
    err->msg[0] = '\0';
    rc = init(g, err);
    if (rc && !err->msg[0])
        rc = pare_fail(err, PARE_ECONFIG, "the plugin refuses to start and does not say why");
    rc = pare_at(err, rc, "%s", path);
    if (!rc && g->n == before)
        rc = pare_fail(err, PARE_ECONFIG, "%s: the plugin adds nothing", path);
    if (rc)
        g->n = before;
    return rc;
}
#endif
