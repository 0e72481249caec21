/* gram_file.c - Gram matrices and Fisher information of layers as a file: write, read, check. */
#include "gram_file.h"

#include <math.h>
#include <string.h>

#include "../base/arena.h"
#include "../io/safetensors.h"
#include "../tensor/tensor.h"

#define FORMAT "pare grams 1"
#define SYMMETRIC 1e-9 /* difference, relative to the diagonal */

/* ---- writing --------------------------------------------------------------------------------- */

static int add(struct pare_arena *a, struct pare_safetensors *st, const char *kind,
               const struct pare_gram *g, struct pare_tensor t, struct pare_err *err)
{
    char *name = pare_sprintf(a, "%s/%s", kind, g->layer->name);

    if (!name)
        return pare_no_memory(err, "for a file of Gram matrices");
    st->tensor[st->n_tensors++] = (struct pare_named){ .name = name, .t = t };
    return 0;
}

static int add_all(struct pare_arena *a, struct pare_safetensors *st, const struct pare_gram *g,
                   const struct pare_fisher *f, struct pare_err *err)
{
    struct pare_tensor matrix = { PARE_F64, 3, { g->groups, g->k, g->k }, g->g };
    struct pare_tensor vector = { PARE_F64, 2, { g->groups, g->k }, g->mean };
    struct pare_tensor one = { PARE_F64, 1, { 1 }, (void *)&g->n };

    PARE_TRY(add(a, st, "gram", g, matrix, err));
    PARE_TRY(add(a, st, "mean", g, vector, err));
    PARE_TRY(add(a, st, "count", g, one, err));
    if (g->cross && g->cross_mean) {
        matrix.data = g->cross;
        vector.data = g->cross_mean;
        PARE_TRY(add(a, st, "cross", g, matrix, err));
        PARE_TRY(add(a, st, "cross_mean", g, vector, err));
    }
    if (!f)
        return 0;
    return add(a, st, "fisher", g, (struct pare_tensor){ PARE_F64, 1, { f->n }, f->f }, err);
}

int pare_grams_write(const char *path, const struct pare_gram *g, const struct pare_fisher *f,
                     int n, struct pare_err *err)
{
    struct pare_arena *a = pare_arena_new(1 << 14);
    struct pare_meta meta = { "format", FORMAT };
    struct pare_safetensors st = { .meta = &meta, .n_meta = 1 };
    int rc = 0;

    st.tensor = a ? pare_alloc(a, 6 * (size_t)n + 1, sizeof(*st.tensor)) : NULL;
    if (!st.tensor)
        rc = pare_no_memory(err, "for a file of Gram matrices");
    for (int i = 0; i < n && !rc; i++)
        rc = add_all(a, &st, &g[i], f ? &f[i] : NULL, err);
    if (!rc)
        rc = pare_safetensors_write(path, &st, err);
    pare_arena_free(a);
    return rc;
}

/* ---- reading --------------------------------------------------------------------------------- */

static const struct pare_tensor *find(const struct pare_safetensors *st, const char *kind,
                                      const char *layer)
{
    size_t len = strlen(kind);

    for (int i = 0; i < st->n_tensors; i++)
        if (!strncmp(st->tensor[i].name, kind, len) && st->tensor[i].name[len] == '/' &&
            !strcmp(st->tensor[i].name + len + 1, layer))
            return &st->tensor[i].t;
    return NULL;
}

/* A tensor of the layer with these sizes and finite numbers; *to NULL: it is optional and missing.
 */
static int take(const struct pare_safetensors *st, const char *kind, const char *layer,
                const struct pare_tensor *like, double **to, struct pare_err *err)
{
    const struct pare_tensor *t = find(st, kind, layer);
    double *v;

    *to = NULL;
    if (!t)
        return 0;
    if (t->dtype != PARE_F64 || !pare_same_shape(t, like))
        return pare_fail(err, PARE_ESHAPE,
                         "'%s/%.200s' has another type or shape than this model's layer: collect "
                         "the statistics of this model",
                         kind, layer);
    v = t->data;
    for (int64_t i = 0; i < pare_numel(t); i++)
        if (!isfinite(v[i]))
            return pare_fail(err, PARE_EFORMAT, "'%s/%.200s' has a number that is not finite", kind,
                             layer);
    *to = v;
    return 0;
}

static int missing(const char *kind, const char *layer, struct pare_err *err)
{
    return pare_fail(err, PARE_EFORMAT, "'%s/%.200s' is missing: the file is of another model",
                     kind, layer);
}

static int check_symmetric(const struct pare_gram *g, struct pare_err *err)
{
    for (int64_t i = 0; i < g->groups; i++)
        for (int64_t r = 0; r < g->k; r++)
            for (int64_t c = 0; c <= r; c++) {
                const double *m = g->g + i * g->k * g->k;
                double scale = sqrt(fabs(m[r * g->k + r]) * fabs(m[c * g->k + c]));

                if (m[r * g->k + r] < 0 ||
                    fabs(m[r * g->k + c] - m[c * g->k + r]) > SYMMETRIC * scale ||
                    fabs(m[r * g->k + c]) > (1 + SYMMETRIC) * scale)
                    return pare_fail(err, PARE_EFORMAT,
                                     "'gram/%.200s' is not a matrix of second moments",
                                     g->layer->name);
            }
    return 0;
}

static int take_gram(const struct pare_safetensors *st, struct pare_gram *g, struct pare_err *err)
{
    struct pare_tensor matrix = { PARE_F64, 3, { g->groups, g->k, g->k }, NULL };
    struct pare_tensor vector = { PARE_F64, 2, { g->groups, g->k }, NULL };
    struct pare_tensor one = { PARE_F64, 1, { 1 }, NULL };
    const char *name = g->layer->name;
    double *count;

    PARE_TRY(take(st, "gram", name, &matrix, &g->g, err));
    PARE_TRY(take(st, "mean", name, &vector, &g->mean, err));
    PARE_TRY(take(st, "count", name, &one, &count, err));
    PARE_TRY(take(st, "cross", name, &matrix, &g->cross, err));
    PARE_TRY(take(st, "cross_mean", name, &vector, &g->cross_mean, err));
    if (!g->g || !g->mean || !count)
        return missing(!g->g ? "gram" : !g->mean ? "mean" : "count", name, err);
    if (!g->cross != !g->cross_mean)
        return missing(g->cross ? "cross_mean" : "cross", name, err);
    if (!(*count > 0))
        return pare_fail(err, PARE_EFORMAT, "'count/%.200s' is not above 0", name);
    g->n = *count;
    return check_symmetric(g, err);
}

static int take_fisher(const struct pare_safetensors *st, const struct pare_gram *g,
                       struct pare_fisher *f, struct pare_err *err)
{
    struct pare_tensor vector = { PARE_F64, 1, { g->groups * g->rows }, NULL };

    f->layer = g->layer;
    f->n = vector.dim[0];
    f->count = g->n;
    PARE_TRY(take(st, "fisher", g->layer->name, &vector, &f->f, err));
    if (!f->f)
        return missing("fisher", g->layer->name, err);
    for (int64_t i = 0; i < f->n; i++)
        if (f->f[i] < 0)
            return pare_fail(err, PARE_EFORMAT, "'fisher/%.200s' has a number below 0",
                             g->layer->name);
    return 0;
}

static int take_all(const struct pare_safetensors *st, struct pare_gram *g, struct pare_fisher *f,
                    int n, struct pare_err *err)
{
    bool known = false;

    for (int i = 0; i < st->n_meta; i++)
        known |= !strcmp(st->meta[i].key, "format") && !strcmp(st->meta[i].value, FORMAT);
    if (!known)
        return pare_fail(err, PARE_EFORMAT,
                         "the file has no Gram matrices: its metadata has no "
                         "format '" FORMAT "'");
    for (int i = 0; i < n; i++) {
        PARE_TRY(take_gram(st, &g[i], err));
        if (f)
            PARE_TRY(take_fisher(st, &g[i], &f[i], err));
    }
    return 0;
}

int pare_grams_parse(struct pare_arena *a, const void *bytes, size_t len, struct pare_gram *g,
                     struct pare_fisher *f, int n, struct pare_err *err)
{
    struct pare_safetensors st;

    PARE_TRY(pare_safetensors_parse(a, bytes, len, &st, err));
    return take_all(&st, g, f, n, err);
}

int pare_grams_read(struct pare_arena *a, const char *path, struct pare_gram *g,
                    struct pare_fisher *f, int n, struct pare_err *err)
{
    struct pare_safetensors st;

    PARE_TRY(pare_safetensors_read(a, path, &st, err));
    return pare_at(err, take_all(&st, g, f, n, err), "%s", path);
}
