/* pad.c - Pad: add (or, if negative, remove) elements at both ends of axes.
 *
 * Amounts are attributes before opset 11, inputs since.  Removal comes before reflecting, repeating
 * the edge or wrapping around.
 */
#include <math.h>

#include "movement.h"

/* Beyond any tensor, and far enough from the limits of int64_t to add and subtract safely. */
#define FAR (INT64_MAX / 4)

struct pad {
    const char *mode;
    struct pare_ints pads;
    double value;
};

static const struct pare_opt pad_attrs[] = {
    PARE_CHOICE("mode", offsetof(struct pad, mode), "source of new elements", "constant",
                "constant|reflect|edge|wrap"),
    PARE_INTS("pads", offsetof(struct pad, pads),
              "elements to add before each axis, then after each", PARE_NO_MIN, PARE_NO_MAX),
    PARE_FLOAT("value", offsetof(struct pad, value), "value of constant padding", 0, -INFINITY,
               INFINITY),
    PARE_OPT_END
};

/* There may be twice as many amounts as dimensions of a tensor, so they are read here. */
static int64_t amount(const struct pare_node *n, int i)
{
    const struct pad *a = n->attr;
    const struct pare_tensor *given = pare_given(n, 1);

    return given ? pare_get_int(given, i) : a->pads.v[i];
}

int pare_pad_amounts(const struct pare_node *n, int64_t *before, int64_t *after,
                     struct pare_err *err)
{
    static const struct pare_ints none = { NULL, 0 };
    const struct pad *a = n->attr;
    const struct pare_tensor *given = pare_given(n, 1);
    int64_t count = given ? pare_numel(given) : a->pads.n;
    int rank = n->in[0]->t.rank;
    struct pare_list axes;

    PARE_TRY(pare_need(n, 1, err));
    PARE_TRY(pare_axes_read(n, 3, none, rank, &axes, err));
    if (axes.n < 0) {
        axes.n = rank;
        for (int i = 0; i < rank; i++)
            axes.v[i] = i;
    }
    if (count != 2 * axes.n)
        return pare_fail(err, PARE_ESHAPE, "%lld pads are given for %d axes, expected 2 per axis",
                         (long long)count, axes.n);
    for (int i = 0; i < rank; i++)
        before[i] = after[i] = 0;
    for (int k = 0; k < axes.n; k++) {
        before[axes.v[k]] = amount(n, k);
        after[axes.v[k]] = amount(n, k + axes.n);
    }
    for (int i = 0; i < rank; i++)
        if (before[i] < -FAR || before[i] > FAR || after[i] < -FAR || after[i] > FAR)
            return pare_fail(err, PARE_ELIMIT, "pads %lld and %lld of axis %d are out of range",
                             (long long)before[i], (long long)after[i], i);
    return 0;
}

/* The number of `dim` elements that are not removed; may be negative. */
static int64_t kept(int64_t dim, int64_t before, int64_t after)
{
    return dim + (before < 0 ? before : 0) + (after < 0 ? after : 0);
}

static int infer(struct pare_node *n, struct pare_err *err)
{
    const struct pad *a = n->attr;
    const struct pare_tensor *x = &n->in[0]->t, *value = pare_given(n, 2);
    int64_t before[PARE_MAX_RANK], after[PARE_MAX_RANK], dim[PARE_MAX_RANK];
    char buf[PARE_SHAPE_TEXT];

    PARE_TRY(pare_pad_amounts(n, before, after, err));
    if (value && pare_numel(value) != 1)
        return pare_fail(err, PARE_ESHAPE, "the value to pad with has shape %s, expected a scalar",
                         pare_shape_text(value, buf, sizeof(buf)));
    for (int i = 0; i < x->rank; i++) {
        int64_t left = kept(x->dim[i], before[i], after[i]);

        PARE_TRY(pare_add_size(x->dim[i], before[i], &dim[i], err));
        PARE_TRY(pare_add_size(dim[i], after[i], &dim[i], err));
        if (dim[i] < 0)
            return pare_fail(err, PARE_ESHAPE,
                             "pads %lld and %lld leave nothing of a dimension "
                             "of %lld",
                             (long long)before[i], (long long)after[i], (long long)x->dim[i]);
        if (left <= 0 && dim[i] > 0 && strcmp(a->mode, "constant"))
            return pare_fail(err, PARE_ESHAPE, "axis %d has no element to pad with", i);
    }
    return pare_shape_set(&n->out[0]->t, x->dtype, x->rank, dim, err);
}

/* The element to pad with, at `value`: 16 bytes, enough for any. */
static int constant(const struct pare_node *n, void *value, struct pare_err *err)
{
    const struct pad *a = n->attr;
    const struct pare_tensor *given = pare_given(n, 2);
    enum pare_dtype d = n->in[0]->t.dtype;

    if (given)
        pare_copy_one(value, given->data, pare_dtype_size(d));
    else if (d == PARE_STR)
        memcpy(value, &(struct pare_str){ "", 0 }, sizeof(struct pare_str));
    else
        return pare_convert(d, value, PARE_F64, &a->value, 1, err);
    return 0;
}

/* The source of element k of a padded axis: k counts from the first of the `len` kept elements, and
 * so does the result. */
static int64_t source(const char *mode, int64_t k, int64_t len)
{
    int64_t period = 2 * (len - 1);

    if (!strcmp(mode, "edge") || len == 1)
        return k < 0 ? 0 : k >= len ? len - 1 : k;
    if (!strcmp(mode, "wrap"))
        return k % len + (k % len < 0 ? len : 0);
    k = k % period + (k % period < 0 ? period : 0); /* reflect: 0 1 2 3 2 1 0 1 ... */
    return k < len ? k : period - k;
}

static int tables(const struct pare_node *n, struct pare_arena *scratch, int64_t **at,
                  struct pare_err *err)
{
    const struct pad *a = n->attr;
    const struct pare_tensor *x = &n->in[0]->t, *y = &n->out[0]->t;
    int64_t before[PARE_MAX_RANK], after[PARE_MAX_RANK];

    PARE_TRY(pare_pad_amounts(n, before, after, err));
    for (int i = 0; i < x->rank; i++) {
        int64_t cut = before[i] < 0 ? -before[i] : 0;
        int64_t len = kept(x->dim[i], before[i], after[i]);

        at[i] = NULL;
        if (!before[i] && !after[i])
            continue;
        at[i] = pare_alloc_raw(scratch, (size_t)y->dim[i], sizeof(**at));
        if (!at[i])
            return pare_no_memory(err, "to pad");
        for (int64_t k = 0; k < y->dim[i]; k++) {
            int64_t from = k - before[i] - cut;

            if (!strcmp(a->mode, "constant"))
                at[i][k] = from < 0 || from >= len ? -1 : cut + from;
            else
                at[i][k] = cut + source(a->mode, from, len);
        }
    }
    return 0;
}

/* With constant padding, fill the whole output, then copy the kept input over it. */
static int constant_moves(const struct pare_node *n, const struct pare_flow *f,
                          struct pare_err *err)
{
    const struct pare_tensor *x = &n->in[0]->t, *y = &n->out[0]->t;
    int64_t before[PARE_MAX_RANK], after[PARE_MAX_RANK], from[PARE_MAX_RANK], to[PARE_MAX_RANK];
    int64_t src = 0, dst = 0, value[2];
    struct pare_move m = { .rank = 0 };

    PARE_TRY(pare_pad_amounts(n, before, after, err));
    if (!f->gx) {
        PARE_TRY(constant(n, value, err));
        pare_fill(f->y, pare_numel(y), value, f->size);
    }
    pare_strides(x, from);
    pare_strides(y, to);
    for (int i = 0; i < x->rank; i++) {
        int64_t cut = before[i] < 0 ? -before[i] : 0;
        int64_t len = kept(x->dim[i], before[i], after[i]);

        if (len <= 0)
            return 0;
        src += cut * from[i];
        dst += (before[i] > 0 ? before[i] : 0) * to[i];
        pare_move_axis(&m, len, from[i], to[i]);
    }
    pare_flow_box(f, src, dst, &m);
    return 0;
}

static int move_pad(const struct pare_node *n, const struct pare_flow *f,
                    struct pare_arena *scratch, struct pare_err *err)
{
    const struct pad *a = n->attr;
    struct pare_pick p = { .x = &n->in[0]->t, .y = &n->out[0]->t };

    if (!strcmp(a->mode, "constant"))
        return constant_moves(n, f, err);
    PARE_TRY(tables(n, scratch, p.at, err));
    pare_flow_pick(f, &p);
    return 0;
}

static bool pick(const struct pare_node *n, struct pare_arena *arena, struct pare_pick *p)
{
    const struct pad *a = n->attr;
    void *value = pare_alloc(arena, 2, sizeof(int64_t));
    struct pare_err err;

    if (!value || tables(n, arena, p->at, &err) || constant(n, value, &err))
        return false;
    p->fill = strcmp(a->mode, "constant") ? NULL : value;
    return true;
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    struct pare_flow f;

    return pare_flow(&f, n->in[0], n->out[0], false) ? move_pad(n, &f, c->scratch, err) : 0;
}

/* The constant gets the gradients of the whole border. */
static int back_to_constant(const struct pare_node *n, float *grad, struct pare_err *err)
{
    const struct pare_tensor *x = &n->in[0]->t, *gy = &n->out[0]->grad;
    int64_t before[PARE_MAX_RANK], after[PARE_MAX_RANK], count = pare_numel(gy);
    struct pare_walk w;
    double sum = 0;

    PARE_TRY(pare_pad_amounts(n, before, after, err));
    pare_walk_start(&w, gy, NULL, 0);
    for (int64_t i = 0; i < count; i++, pare_walk_next(&w)) {
        bool border = false;

        for (int k = 0; k < gy->rank; k++)
            border |= w.idx[k] < before[k] || w.idx[k] - before[k] >= x->dim[k];
        sum += border ? (double)pare_f32(gy)[i] : 0;
    }
    *grad += (float)sum;
    return 0;
}

static int backward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct pad *a = n->attr;
    float *grad = pare_given(n, 2) ? pare_f32_mut(&n->in[2]->grad) : NULL;
    struct pare_flow f;

    if (grad && n->out[0]->grad.data && !strcmp(a->mode, "constant"))
        PARE_TRY(back_to_constant(n, grad, err));
    return pare_flow(&f, n->in[0], n->out[0], true) ? move_pad(n, &f, c->scratch, err) : 0;
}

static void ties(const struct pare_node *n, struct pare_ties *t)
{
    int64_t before[PARE_MAX_RANK], after[PARE_MAX_RANK];
    bool changed[PARE_MAX_RANK];
    struct pare_err err;

    if (pare_pad_amounts(n, before, after, &err))
        return;
    for (int i = 0; i < n->in[0]->t.rank; i++)
        changed[i] = before[i] || after[i];
    pare_ties_kept(n, t, changed);
}

/* Does it add nothing, whatever the size of the input?  Amounts that the model computes may. */
static bool adds_nothing(const struct pare_node *n)
{
    const struct pare_value *given = n->n_in > 1 ? n->in[1] : NULL;
    int64_t before[PARE_MAX_RANK], after[PARE_MAX_RANK];
    struct pare_err err;

    if ((given && given->maker && given->maker->n_in) || pare_pad_amounts(n, before, after, &err))
        return false;
    for (int i = 0; i < n->in[0]->t.rank; i++)
        if (before[i] > 0 || after[i] > 0)
            return false;
    return true;
}

/* Copies of a constant are the constant; a different value at the ends is not. */
static float constant_channel(const struct pare_node *n, int axis, int64_t channel, float x)
{
    const struct pad *a = n->attr;
    const struct pare_tensor *given = pare_given(n, 2);

    (void)axis;
    (void)channel;
    if (strcmp(a->mode, "constant") != 0 || adds_nothing(n))
        return x;
    if (given && !given->data)
        return NAN;
    return (double)x == (given ? pare_get(given, 0) : a->value) ? x : NAN;
}

const struct pare_op pare_op_pad = {
    .type = "Pad",
    .doc = "Add elements at the ends of axes.",
    .since = 2,
    .in = "TL?T?I?",
    .min_out = 1,
    .max_out = 1,
    .attrs = pad_attrs,
    .attr_size = sizeof(struct pad),
    .flags = PARE_OP_KEEPS_AXES,
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .pick = pick,
    .ties = ties,
    .constant_channel = constant_channel,
    .settings = 0x4,
};
