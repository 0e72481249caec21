/* registry.c - the table of pruners, and plugins that add to it. */
#include "registry.h"

#include <dlfcn.h>
#include <string.h>

#include "../base/arena.h"
#include "../io/elf.h"
#include "../io/file.h"
#include "../train/lookup.h"

#define PRUNER(name) extern const struct pare_pruner pare_pruner_##name;
#include "../prune/pruners.def"
#undef PRUNER

const struct pare_pruner *const pare_pruners[] = {
#define PRUNER(name) &pare_pruner_##name,
#include "../prune/pruners.def"
#undef PRUNER
    NULL
};

#define QUANTIZER(name) extern const struct pare_quantizer pare_quantizer_##name;
#include "../quant/quantizers.def"
#undef QUANTIZER

const struct pare_quantizer *const pare_quantizers[] = {
#define QUANTIZER(name) &pare_quantizer_##name,
#include "../quant/quantizers.def"
#undef QUANTIZER
    NULL
};

struct pare_registry {
    struct pare_arena *arena;
    const struct pare_pruner **pruner;
    int n, cap;
    const struct pare_quantizer **quantizer;
    int n_quantizers, cap_quantizers;
};

struct pare_registry *pare_registry_new(struct pare_err *err)
{
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

const struct pare_pruner *pare_pruner_at(const struct pare_registry *g, int i)
{
    const int built_in = (int)(sizeof(pare_pruners) / sizeof(*pare_pruners)) - 1;

    if (i < built_in)
        return pare_pruners[i];
    return g && i - built_in < g->n ? g->pruner[i - built_in] : NULL;
}

int pare_find_pruner(const struct pare_registry *g, const char *name, const struct pare_pruner **p,
                     struct pare_err *err)
{
    const char *names[PARE_LOOKUP_MAX];
    int n = 0, i;

    for (; n < PARE_LOOKUP_MAX && pare_pruner_at(g, n); n++)
        names[n] = pare_pruner_at(g, n)->name;
    PARE_TRY(pare_lookup("pruner", name, names, n, &i, err));
    *p = pare_pruner_at(g, i);
    return 0;
}

const struct pare_quantizer *pare_quantizer_at(const struct pare_registry *g, int i)
{
    const int built_in = (int)(sizeof(pare_quantizers) / sizeof(*pare_quantizers)) - 1;

    if (i < built_in)
        return pare_quantizers[i];
    return g && i - built_in < g->n_quantizers ? g->quantizer[i - built_in] : NULL;
}

int pare_find_quantizer(const struct pare_registry *g, const char *name,
                        const struct pare_quantizer **q, struct pare_err *err)
{
    const char *names[PARE_LOOKUP_MAX];
    int n = 0, i;

    for (; n < PARE_LOOKUP_MAX && pare_quantizer_at(g, n); n++)
        names[n] = pare_quantizer_at(g, n)->base.name;
    PARE_TRY(pare_lookup("quantizer", name, names, n, &i, err));
    *q = pare_quantizer_at(g, i);
    return 0;
}

/* ---- plugins ---------------------------------------------------------------------------- */

static bool is_name(const char *s)
{
    size_t n = s ? strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789_") : 0;

    return n && n < 64 && !s[n];
}

int pare_add_pruner(struct pare_registry *g, const struct pare_pruner *p, struct pare_err *err)
{
    void *list;

    if (p->abi != PARE_ABI)
        return pare_fail(
            err, PARE_EUNSUPPORTED,
            "a pruner was built for interface %u of plugins, this is %u: build it again",
            (unsigned)p->abi, (unsigned)PARE_ABI);
    if (!is_name(p->name))
        return pare_fail(
            err, PARE_ECONFIG,
            "a pruner has no usable name: it must be of the letters a-z, digits and _");
    for (int i = 0; pare_pruner_at(g, i); i++)
        if (!strcmp(pare_pruner_at(g, i)->name, p->name))
            return pare_fail(err, PARE_ECONFIG, "a pruner '%s' is there already", p->name);
    if (!p->calc_mask && !p->score && !(p->flags & PARE_USES_BASE))
        return pare_fail(err, PARE_ECONFIG, "pruner '%s' has neither calc_mask nor score", p->name);
    if (pare_pruner_at(g, PARE_LOOKUP_MAX - 1))
        return pare_fail(err, PARE_ELIMIT, "there are %d pruners already", PARE_LOOKUP_MAX);
    list = pare_grow(g->arena, g->pruner, g->n, &g->cap, sizeof(const struct pare_pruner *));
    if (!list)
        return pare_no_memory(err, "for plugins");
    g->pruner = list;
    g->pruner[g->n++] = p;
    return 0;
}

int pare_add_quantizer(struct pare_registry *g, const struct pare_quantizer *q,
                       struct pare_err *err)
{
    void *list;

    if (q->base.abi != PARE_ABI)
        return pare_fail(err, PARE_EUNSUPPORTED,
                         "a quantizer was built for interface %u of plugins, this is %u: build it "
                         "again",
                         (unsigned)q->base.abi, (unsigned)PARE_ABI);
    if (!is_name(q->base.name))
        return pare_fail(err, PARE_ECONFIG,
                         "a quantizer has no usable name: it must be of the letters a-z, digits "
                         "and _");
    for (int i = 0; pare_quantizer_at(g, i); i++)
        if (!strcmp(pare_quantizer_at(g, i)->base.name, q->base.name))
            return pare_fail(err, PARE_ECONFIG, "a quantizer '%s' is there already", q->base.name);
    if (!q->weight && !q->input && !q->output)
        return pare_fail(err, PARE_ECONFIG, "quantizer '%s' quantizes nothing", q->base.name);
    if (pare_quantizer_at(g, PARE_LOOKUP_MAX - 1))
        return pare_fail(err, PARE_ELIMIT, "there are %d quantizers already", PARE_LOOKUP_MAX);
    list = pare_grow(g->arena, g->quantizer, g->n_quantizers, &g->cap_quantizers,
                     sizeof(const struct pare_quantizer *));
    if (!list)
        return pare_no_memory(err, "for plugins");
    g->quantizer = list;
    g->quantizer[g->n_quantizers++] = q;
    return 0;
}

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
    int (*init)(struct pare_registry *, struct pare_err *);
    char *name = pare_sprintf(g->arena, "%s%s", strchr(path, '/') ? "" : "./", path);
    int before = g->n, quantizers = g->n_quantizers, rc;
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
        return pare_fail(err, PARE_EFORMAT, "%s: is no plugin of Pare, it has no function %s", path,
                         PARE_PLUGIN_INIT);
    }
    memcpy(&init, &symbol, sizeof(init)); /* ISO C has no conversion between the two */
    err->msg[0] = '\0';
    rc = init(g, err);
    if (rc && !err->msg[0])
        rc = pare_fail(err, PARE_ECONFIG, "the plugin refuses to start and does not say why");
    rc = pare_at(err, rc, "%s", path);
    if (!rc && g->n == before && g->n_quantizers == quantizers)
        rc = pare_fail(err, PARE_ECONFIG, "%s: the plugin adds nothing", path);
    if (rc) {
        g->n = before;
        g->n_quantizers = quantizers;
    }
    return rc;
}
