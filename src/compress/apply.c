/* apply.c - masks of a file are multiplied into a model. */
#include <string.h>

#include "../base/arena.h"
#include "../io/state.h"
#include "../onnx/model.h"
#include "../tensor/tensor.h"
#include "export.h"
#include "wrap.h"

struct apply {
    struct pare_model *m;
    struct pare_arena *arena;
    struct pare_layer_info *layer;
    int n_layers;
    struct pare_named *mask;
};

/* Any number type, as floats between 0 and 1. */
static int mask_values(struct apply *a, const struct pare_named *mask, struct pare_tensor *f,
                       struct pare_err *err)
{
    PARE_TRY(pare_tensor_new(a->arena, f, PARE_F32, mask->t.rank, mask->t.dim, err));
    PARE_TRY(
        pare_at(err,
                pare_convert(PARE_F32, f->data, mask->t.dtype, mask->t.data, pare_numel(f), err),
                "mask '%s'", mask->name));
    for (int64_t i = 0, n = pare_numel(f); i < n; i++)
        if (!(pare_f32(f)[i] >= 0 && pare_f32(f)[i] <= 1))
            return pare_fail(err, PARE_EFORMAT,
                             "mask '%s' has %g at element %lld, masks are between 0 and 1",
                             mask->name, (double)pare_f32(f)[i], (long long)i);
    return 0;
}

/* The initializer that "LAYER.weight" or "LAYER.bias" masks. */
static int find_target(struct apply *a, const struct pare_named *mask, struct pare_applied *to,
                       struct pare_value **v, struct pare_err *err)
{
    const char *dot = strrchr(mask->name, '.');
    const struct pare_layer_info *l;
    const struct pare_value *from;

    to->layer = pare_strndup(a->arena, mask->name, dot ? (size_t)(dot - mask->name) : 0);
    if (!to->layer || !dot)
        return pare_fail(err, PARE_EFORMAT, "mask '%s' is not named after a layer", mask->name);
    to->what = dot + 1;
    PARE_TRY(pare_find_layer(a->layer, a->n_layers, to->layer, &l, err));
    from = strcmp(to->what, "bias") ? l->weight : l->bias;
    if (!from)
        return pare_fail(err, PARE_ESHAPE, "layer '%s' has no bias to mask", l->name);
    *v = pare_graph_find(a->m->graph, pare_value_root(from)->name);
    if (!*v || (*v)->t.dtype != PARE_F32)
        return pare_fail(err, PARE_EUNSUPPORTED, "the %s of layer '%s' is no float32 initializer",
                         to->what, l->name);
    return 0;
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

static void count(const struct pare_tensor *f, struct pare_applied *to)
{
    to->n = pare_numel(f);
    for (int64_t i = 0; i < to->n; i++)
        to->zeros += pare_f32(f)[i] == 0;
}

/* What is removed is 0, not -0. */
static float masked(float w, float mask)
{
    return mask == 0 ? 0 : w * mask;
}

static int apply(struct apply *a, struct pare_applied **list, int n, struct pare_err *err)
{
    const struct pare_named *mask = a->mask;
    struct pare_tensor *f;
    struct pare_value **v;

    if (!n)
        return pare_fail(err, PARE_EFORMAT, "there is no mask in it");
    *list = pare_alloc(a->arena, (size_t)n, sizeof(**list));
    f = pare_alloc(a->arena, (size_t)n, sizeof(*f));
    v = pare_alloc(a->arena, (size_t)n, sizeof(*v));
    if (!*list || !f || !v)
        return pare_fail(err, PARE_ENOMEM, "no memory for masks");
    for (int i = 0; i < n; i++) {
        PARE_TRY(find_target(a, &mask[i], &(*list)[i], &v[i], err));
        PARE_TRY(check_shape(&mask[i], v[i], err));
        PARE_TRY(mask_values(a, &mask[i], &f[i], err));
        count(&f[i], &(*list)[i]);
    }
    for (int i = 0; i < n; i++) {
        PARE_TRY(pare_model_own(a->m, v[i], err));
        for (int64_t k = 0; k < (*list)[i].n; k++)
            pare_f32(&v[i]->t)[k] = masked(pare_f32(&v[i]->t)[k], pare_f32(&f[i])[k]);
    }
    return 0;
}

int pare_apply_list(struct pare_model *m, const char *path, struct pare_arena *arena,
                    struct pare_applied **list, int *n, struct pare_err *err)
{
    struct apply a = { .m = m, .arena = arena };
    struct pare_graph *g;

    PARE_TRY(pare_model_layers(m, arena, &g, &a.layer, &a.n_layers, err));
    PARE_TRY(pare_masks_read(arena, path, &a.mask, n, err)); /* which says the file's name itself */
    return pare_at(err, apply(&a, list, *n, err), "%s", path);
}

int pare_apply_masks(struct pare_model *m, const char *path, struct pare_err *err)
{
    struct pare_arena *a = pare_arena_new(1 << 16);
    struct pare_applied *list;
    int n, rc;

    if (!a)
        return pare_fail(err, PARE_ENOMEM, "no memory for masks");
    rc = pare_apply_list(m, path, a, &list, &n, err);
    pare_arena_free(a);
    return rc;
}
