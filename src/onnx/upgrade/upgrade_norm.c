/* upgrade_norm.c - rewrites of normalization and softmax: BatchNormalization's spatial and training
 * outputs, GroupNormalization per channel, Softmax over one axis. */
#include "upgrade.h"
#include "upgrade_rewrites.h"

/* A node of one output with a new name, which is returned in *out. */
static int add(struct pare_site *s, const char *type, const char *a, const char *b,
               const char *ending, const char **out, struct pare_err *err)
{
    struct pare_edit_node n = { .type = type, .in = { a, b }, .axis = -1 };

    n.out = *out = pare_site_name(s, ending);
    return pare_site_emit(s, &n, err);
}

/* ---- BatchNormalization ---------------------------------------------------------------------- */

/* With spatial = 0 the moments have the shape of X without the batch: plain arithmetic. */
static int per_element(struct pare_site *s, struct pare_err *err)
{
    const Onnx__AttributeProto *at = pare_site_attr(s, "epsilon");
    char *const *in = s->p->input;
    const char *scale = in[1], *b = in[2], *eps, *centered, *var, *dev, *unit, *scaled;

    if (s->p->n_output > 1 || pare_site_refers(at))
        return pare_site_refuse(s, "has spatial = 0 and training outputs", err);
    PARE_TRY(pare_site_number(s, "_epsilon", at ? (double)at->f : 1e-5, in[0], &eps, err));
    PARE_TRY(add(s, "Sub", in[0], in[3], "_centered", &centered, err));
    PARE_TRY(add(s, "Add", in[4], eps, "_variance", &var, err));
    PARE_TRY(add(s, "Sqrt", var, NULL, "_deviation", &dev, err));
    PARE_TRY(add(s, "Div", centered, dev, "_normalized", &unit, err));
    PARE_TRY(add(s, "Mul", unit, scale, "_scaled", &scaled, err));
    s->p->op_type = pare_edit_text("Add");
    s->p->n_attribute = 0;
    s->p->n_input = 2;
    PARE_TRY(pare_site_input(s, 0, scaled, err));
    return pare_site_input(s, 1, b, err);
}

int pare_raise_batch_norm_spatial(struct pare_site *s, struct pare_err *err)
{
    if (s->p->n_input < 5)
        return pare_site_refuse(s, "has less than 5 inputs", err);
    if (!pare_site_int(s, "spatial", 1))
        return per_element(s, err);
    return pare_site_drop_attr(s, "spatial", err);
}

/* The moments of the batch, which were outputs 3 and 4, from the running ones:
 * running = input * momentum + batch * (1 - momentum). */
static int batch_moment(struct pare_site *s, int k, const char *name, double momentum,
                        struct pare_err *err)
{
    const char *input = s->p->input[k], *keep, *rest, *old, *change;
    struct pare_edit_node div = { .type = "Div", .out = name, .axis = -1 };

    if (!(momentum < 1))
        return pare_site_refuse(s, "has a momentum of 1 and outputs the moments of the batch", err);
    PARE_TRY(pare_site_number(s, "_momentum", momentum, input, &keep, err));
    PARE_TRY(pare_site_number(s, "_rest", 1 - momentum, input, &rest, err));
    PARE_TRY(add(s, "Mul", input, keep, "_old", &old, err));
    PARE_TRY(add(s, "Sub", s->p->output[k - 2], old, "_change", &change, err));
    div.in[0] = change;
    div.in[1] = rest;
    return pare_site_emit(s, &div, err);
}

/* A node with further outputs normalizes with the moments of the batch: this became an
 * attribute, and outputs 3 and 4 are gone. */
int pare_raise_batch_norm_training(struct pare_site *s, struct pare_err *err)
{
    const Onnx__AttributeProto *at = pare_site_attr(s, "momentum");
    double momentum = at ? (double)at->f : 0.9;
    const char *name[5];
    char **out = pare_alloc(s->u->e->a, 3, sizeof(*out));
    bool trains = false;

    for (size_t i = 0; i < 5; i++) {
        name[i] = i < s->p->n_output ? s->p->output[i] : "";
        trains = trains || (i && *name[i]);
    }
    if (!trains) {
        s->p->n_output = 1;
        return 0;
    }
    if (!out)
        return pare_edit_no_memory(err);
    PARE_TRY(pare_site_set_int(s, "training_mode", 1, err));
    out[0] = s->p->output[0];
    s->p->output = out;
    s->p->n_output = 3;
    for (int k = 1; k < 3; k++)
        PARE_TRY(pare_site_output(s, k, *name[k] ? name[k] : pare_site_name(s, "_moment"), err));
    PARE_TRY(pare_site_place(s, err));
    for (int k = 3; k < 5; k++)
        if (*name[k] && pare_site_used(s, name[k]))
            PARE_TRY(batch_moment(s, k, name[k], momentum, err));
    return 0;
}

/* ---- GroupNormalization ---------------------------------------------------------------------- */

/* Repeat each element of input k as often as a group has channels. */
static int per_channel(struct pare_site *s, int k, const char *shape, struct pare_err *err)
{
    static const int64_t column[] = { -1, 1 }, flat[] = { -1 };
    const char *as_column, *as_flat, *rows, *wide, *all;

    PARE_TRY(pare_site_ints(s, "_column", column, 2, &as_column, err));
    PARE_TRY(pare_site_ints(s, "_flat", flat, 1, &as_flat, err));
    PARE_TRY(add(s, "Reshape", s->p->input[k], as_column, "_rows", &rows, err));
    PARE_TRY(add(s, "Expand", rows, shape, "_wide", &wide, err));
    PARE_TRY(add(s, "Reshape", wide, as_flat, "_channels", &all, err));
    return pare_site_input(s, k, all, err);
}

/* Scale and bias were per group, and are per channel. */
int pare_raise_group_norm(struct pare_site *s, struct pare_err *err)
{
    const Onnx__AttributeProto *at = pare_site_attr(s, "num_groups");
    static const int64_t one = 1;
    const char *index, *groups, *dims, *channels, *size;
    struct pare_edit_node shape = { .type = "Concat" };

    if (!at || pare_site_refers(at) || s->p->n_input < 3)
        return pare_site_refuse(s, "has no num_groups of its own", err);
    PARE_TRY(pare_site_ints(s, "_channel_axis", &one, 1, &index, err));
    PARE_TRY(pare_site_ints(s, "_groups", &at->i, 1, &groups, err));
    PARE_TRY(add(s, "Shape", s->p->input[0], NULL, "_shape", &dims, err));
    PARE_TRY(add(s, "Gather", dims, index, "_count", &channels, err));
    PARE_TRY(add(s, "Div", channels, groups, "_per_group", &size, err));
    shape.in[0] = groups;
    shape.in[1] = size;
    shape.out = pare_site_name(s, "_grid");
    PARE_TRY(pare_site_emit(s, &shape, err));
    PARE_TRY(per_channel(s, 1, shape.out, err));
    return per_channel(s, 2, shape.out, err);
}

/* ---- Softmax, LogSoftmax, Hardmax ------------------------------------------------------------ */

/* Before opset 13 the axis and all following ones were one.  That is the same for the last axis;
 * else flatten, normalize the rows and restore the shape. */
int pare_raise_softmax(struct pare_site *s, struct pare_err *err)
{
    int64_t axis = pare_site_int(s, "axis", 1);
    const char *x = s->p->n_input ? s->p->input[0] : "", *rows, *shape;
    struct pare_edit_node flatten = { .type = "Flatten", .in = { x }, .axis = -1 },
                          back = { .type = "Reshape", .out = s->value, .axis = -1 };
    int rank;

    if (pare_site_refers(pare_site_attr(s, "axis")))
        return pare_site_refuse(s, "takes its axis from an attribute of its function", err);
    PARE_TRY(pare_site_rank(s, x, &rank, err));
    PARE_TRY(pare_site_set_int(s, "axis", -1, err));
    if (axis == -1 || axis == rank - 1)
        return 0;
    flatten.out = rows = pare_site_name(s, "_rows");
    flatten.attr[0].name = "axis";
    flatten.attr[0].v = axis;
    PARE_TRY(pare_site_emit(s, &flatten, err));
    PARE_TRY(add(s, "Shape", x, NULL, "_shape", &shape, err));
    PARE_TRY(pare_site_input(s, 0, rows, err));
    back.in[0] = pare_site_name(s, "_flat");
    back.in[1] = shape;
    PARE_TRY(pare_site_output(s, 0, back.in[0], err));
    PARE_TRY(pare_site_place(s, err));
    return pare_site_emit(s, &back, err);
}
