/* apply_masks.c - multiply the masks of a file into a model's weights. */
#include <string.h>

#include "../base/arena.h"
#include "../io/tensor_file.h"
#include "../graph/free_dims.h"
#include "../graph/pattern/pattern.h"
#include "../onnx/model.h"
#include "../tensor/tensor.h"
#include "export.h"
#include "wrap.h"

#define PIECE 4096 /* elements */

struct apply {
    struct pare_model *m;
    struct pare_arena *arena;
    struct pare_layer_info *layer;
    int n_layers;
    struct pare_layer_info *norm; /* the same with normalizations that are written out; NULL: not
                                   * listed */
    int n_norms;
    struct pare_named *mask;
};

/* Convert a piece to floats.  Masks may be as large as the model, so they are not copied whole. */
static int piece_of(const struct pare_tensor *t, int64_t from, int64_t n, float *to,
                    struct pare_err *err)
{
    const char *at = (const char *)t->data + (size_t)from * pare_dtype_size(t->dtype);

    if (t->dtype == PARE_BOOL || t->dtype == PARE_U8) { /* the usual types */
        for (int64_t i = 0; i < n; i++)
            to[i] = t->dtype == PARE_U8 ? (float)(uint8_t)at[i] : (float)(at[i] != 0);
        return 0;
    }
    return pare_convert(PARE_F32, to, t->dtype, at, n, err);
}

static int64_t piece_size(int64_t n, int64_t from)
{
    return n - from < PIECE ? n - from : PIECE;
}

/* An error if a value is not between 0 and 1; count the zeros. */
static int check_values(const struct pare_named *mask, struct pare_applied *to,
                        struct pare_err *err)
{
    float m[PIECE];

    to->n = pare_numel(&mask->t);
    for (int64_t from = 0; from < to->n; from += PIECE) {
        int64_t n = piece_size(to->n, from), zeros = 0, good = 0;

        PARE_TRY(pare_at(err, piece_of(&mask->t, from, n, m, err), "mask '%s'", mask->name));
        for (int64_t i = 0; i < n; i++) {
            zeros += m[i] == 0;
            good += m[i] >= 0 && m[i] <= 1;
        }
        to->zeros += zeros;
        for (int64_t i = 0; i < n && good < n; i++)
            if (!(m[i] >= 0 && m[i] <= 1))
                return pare_fail(err, PARE_EFORMAT,
                                 "mask '%s' has %g at element %lld, masks are between 0 and 1",
                                 mask->name, (double)m[i], (long long)from + i);
    }
    return 0;
}

/* An initializer by its own name, for weights that are not the "weight" or "bias" of a layer, for
 * example the recurrent weights of an LSTM. */
static struct pare_value *by_name(const struct apply *a, const char *name)
{
    struct pare_value *v = pare_graph_find(a->m->graph, name);

    return v && v->flags & PARE_V_CONST && !v->maker ? v : NULL;
}

static bool is_real(const struct pare_value *v)
{
    return v->t.dtype == PARE_F32 || v->t.dtype == PARE_F16 || v->t.dtype == PARE_BF16;
}

/* Layers of the graph in which a normalization is one node, for sizes that the model accepts. */
static int find_norms(struct apply *a, struct pare_err *err)
{
    struct pare_all_sizes all;
    const struct pare_io *io;

    pare_model_inputs(a->m, &io);
    PARE_TRY(pare_graph_all_sizes(a->arena, a->m->graph, io, NULL, &all, err));
    PARE_TRY(pare_graph_canonical(all.g, PARE_PATTERN_ROWS, err));
    return pare_layers(a->arena, all.g, &a->norm, &a->n_norms, err);
}

static int find_layer(struct apply *a, const char *name, const struct pare_layer_info **l,
                      struct pare_err *err)
{
    struct pare_err other = { 0 };
    int rc = pare_find_layer(a->layer, a->n_layers, name, l, err);
    int norms = rc && !a->norm ? find_norms(a, &other) : 0;

    if (norms == PARE_ENOMEM)
        *err = other;
    if (norms)
        return norms == PARE_ENOMEM ? norms : rc;
    for (int i = 0; i < a->n_norms && rc; i++)
        if (!strcmp(a->norm[i].name, name)) {
            *l = &a->norm[i];
            return 0;
        }
    return rc;
}

static int take_target(struct apply *a, const struct pare_value *from,
                       const struct pare_applied *to, struct pare_value **v, struct pare_err *err)
{
    *v = pare_graph_find(a->m->graph, pare_value_root(from)->name);
    if (!*v || !is_real(*v))
        return pare_fail(err, PARE_EUNSUPPORTED,
                         "the %s of layer '%s' is not a float32 initializer", to->what, to->layer);
    return 0;
}

/* The second weight of a recurrent layer, which a compression names "LAYER.R"; NULL: the name is
 * not of that form. */
static const struct pare_value *second_weight(const struct apply *a, const char *name)
{
    size_t n = strlen(name);

    for (int i = 0; i < a->n_layers && n > 2 && !strcmp(name + n - 2, ".R"); i++) {
        const struct pare_layer_info *l = &a->layer[i];
        int k = l->node->op->layer.second;

        if (k && k < l->node->n_in && strlen(l->name) == n - 2 && !strncmp(l->name, name, n - 2))
            return l->node->in[k];
    }
    return NULL;
}

/* The initializer of a layer that "LAYER.weight" or "LAYER.bias" masks. */
static int by_layer(struct apply *a, struct pare_applied *to, struct pare_value **v,
                    struct pare_err *err)
{
    const struct pare_layer_info *l;
    const struct pare_value *from;

    from = second_weight(a, to->layer);
    if (from && !strcmp(to->what, "weight"))
        return take_target(a, from, to, v, err);
    PARE_TRY(find_layer(a, to->layer, &l, err));
    from = strcmp(to->what, "bias") ? l->weight : l->bias;
    if (!from)
        return pare_fail(err, PARE_ESHAPE, "layer '%s' has no bias to mask", l->name);
    return take_target(a, from, to, v, err);
}

static int find_target(struct apply *a, const struct pare_named *mask, struct pare_applied *to,
                       struct pare_value **v, struct pare_err *err)
{
    const char *dot = strrchr(mask->name, '.');

    to->layer = dot ? pare_strndup(a->arena, mask->name, (size_t)(dot - mask->name)) : mask->name;
    to->what = dot ? dot + 1 : mask->name;
    if (!to->layer)
        return pare_no_memory(err, "for masks");
    *v = by_name(a, mask->name);
    if (!*v) /* a table that does not belong to a layer */
        *v = by_name(a, to->layer);
    if (*v && is_real(*v))
        return 0;
    if (!dot || (strcmp(dot, ".weight") != 0 && strcmp(dot, ".bias") != 0))
        return pare_fail(err, PARE_EFORMAT,
                         "the mask '%.128s' is named neither LAYER.weight nor LAYER.bias",
                         mask->name);
    return by_layer(a, to, v, err);
}

static int check_shape(const struct pare_named *mask, const struct pare_value *v,
                       struct pare_err *err)
{
    char x[PARE_SHAPE_TEXT], y[PARE_SHAPE_TEXT];

    if (pare_same_shape(&mask->t, &v->t))
        return 0;
    return pare_fail(err, PARE_ESHAPE, "mask '%s' is %s, '%s' is %s", mask->name,
                     pare_shape_text(&mask->t, x, sizeof(x)), v->name,
                     pare_shape_text(&v->t, y, sizeof(y)));
}

/* A removed weight becomes 0, never -0. */
static int apply_one(struct apply *a, const struct pare_named *mask, struct pare_value *v,
                     struct pare_err *err)
{
    int64_t all = pare_numel(&mask->t);
    float m[PIECE], w[PIECE];

    PARE_TRY(pare_model_own(a->m, v, err));
    for (int64_t from = 0; from < all; from += PIECE) {
        int64_t n = piece_size(all, from);
        char *at = (char *)v->t.data + (size_t)from * pare_dtype_size(v->t.dtype);

        PARE_TRY(piece_of(&mask->t, from, n, m, err));
        PARE_TRY(piece_of(&v->t, from, n, w, err));
        for (int64_t i = 0; i < n; i++)
            w[i] = m[i] == 0 ? 0 : w[i] * m[i];
        PARE_TRY(pare_convert(v->t.dtype, at, PARE_F32, w, n, err));
    }
    return 0;
}

static int apply(struct apply *a, struct pare_applied **list, int n, struct pare_err *err)
{
    const struct pare_named *mask = a->mask;
    struct pare_value **v;

    if (!n)
        return pare_fail(err, PARE_EFORMAT, "the file contains no masks");
    *list = pare_alloc(a->arena, (size_t)n, sizeof(**list));
    v = pare_alloc(a->arena, (size_t)n, sizeof(*v));
    if (!*list || !v)
        return pare_no_memory(err, "for masks");
    for (int i = 0; i < n; i++) {
        PARE_TRY(find_target(a, &mask[i], &(*list)[i], &v[i], err));
        PARE_TRY(check_shape(&mask[i], v[i], err));
        PARE_TRY(check_values(&mask[i], &(*list)[i], err));
    }
    for (int i = 0; i < n; i++)
        PARE_TRY(apply_one(a, &mask[i], v[i], err));
    return 0;
}

int pare_apply_list(struct pare_model *m, const char *path, struct pare_arena *arena,
                    struct pare_applied **list, int *n, struct pare_err *err)
{
    struct apply a = { .m = m, .arena = arena };
    struct pare_graph *g;

    PARE_TRY(pare_model_layers(m, arena, &g, &a.layer, &a.n_layers, err));
    PARE_TRY(
        pare_tensor_file_read(arena, path, &a.mask, n, err)); /* its errors contain the file name */
    return pare_at(err, apply(&a, list, *n, err), "%s", path);
}

int pare_apply_masks(struct pare_model *m, const char *path, struct pare_err *err)
{
    PARE_ERR(err);
    struct pare_arena *a = pare_arena_new(1 << 16);
    struct pare_applied *list;
    int n, rc;

    if (!a)
        return pare_no_memory(err, "for masks");
    rc = pare_apply_list(m, path, a, &list, &n, err);
    pare_arena_free(a);
    return rc;
}
