/* upgrade_inputs.c - rewrites of operators whose attributes became inputs: Slice, Clip, Pad, TopK,
 * Split, Squeeze, Unsqueeze, Reduce*, Dropout, Upsample, DFT. */
#include "upgrade.h"
#include "upgrade_rewrites.h"

/* Attribute to input k; an absent attribute leaves the input absent. */
static int ints_to_input(struct pare_site *s, const char *attr, int k, struct pare_err *err)
{
    const char *name;

    PARE_TRY(pare_site_take_ints(s, attr, false, &name, err));
    return name ? pare_site_input(s, k, name, err) : 0;
}

static int float_to_input(struct pare_site *s, const char *attr, int k, struct pare_err *err)
{
    const char *name;

    PARE_TRY(pare_site_take_float(s, attr, &name, err));
    return name ? pare_site_input(s, k, name, err) : 0;
}

int pare_raise_axes_input(struct pare_site *s, struct pare_err *err)
{
    return ints_to_input(s, "axes", 1, err);
}

int pare_raise_split_input(struct pare_site *s, struct pare_err *err)
{
    return ints_to_input(s, "split", 1, err);
}

int pare_raise_slice(struct pare_site *s, struct pare_err *err)
{
    PARE_TRY(ints_to_input(s, "starts", 1, err));
    PARE_TRY(ints_to_input(s, "ends", 2, err));
    return ints_to_input(s, "axes", 3, err);
}

int pare_raise_top_k(struct pare_site *s, struct pare_err *err)
{
    const Onnx__AttributeProto *k = pare_site_attr(s, "k");

    if (pare_site_refers(k))
        return pare_site_refuse(s, "takes k from an attribute of its function", err);
    return ints_to_input(s, "k", 1, err);
}

int pare_raise_clip(struct pare_site *s, struct pare_err *err)
{
    PARE_TRY(float_to_input(s, "min", 1, err));
    return float_to_input(s, "max", 2, err);
}

/* A value of 0 is the default of the input, too; other modes ignore it. */
int pare_raise_pad(struct pare_site *s, struct pare_err *err)
{
    const Onnx__AttributeProto *value = pare_site_attr(s, "value");

    PARE_TRY(ints_to_input(s, "pads", 1, err));
    if (value && !pare_site_refers(value) && !(value->f < 0) && !(value->f > 0))
        return pare_site_drop_attr(s, "value", err);
    return float_to_input(s, "value", 2, err);
}

/* The ratio is float32 whatever the type of the data. */
int pare_raise_dropout_ratio(struct pare_site *s, struct pare_err *err)
{
    const Onnx__AttributeProto *ratio = pare_site_attr(s, "ratio");
    struct pare_tensor t = { .dtype = PARE_F32 };
    const char *name;

    if (!ratio)
        return 0;
    if (pare_site_refers(ratio))
        return float_to_input(s, "ratio", 1, err);
    t.data = (void *)(uintptr_t)&ratio->f;
    PARE_TRY(pare_site_const(s, "_ratio", &t, &name, err));
    PARE_TRY(pare_site_drop_attr(s, "ratio", err));
    return pare_site_input(s, 1, name, err);
}

int pare_raise_upsample_scales(struct pare_site *s, struct pare_err *err)
{
    const Onnx__AttributeProto *at = pare_site_attr(s, "scales");
    struct pare_tensor t = { .dtype = PARE_F32, .rank = 1 };
    const char *name;

    if (!at || pare_site_refers(at))
        return pare_site_refuse(s, "has no scales of its own", err);
    t.dim[0] = (int64_t)at->n_floats;
    t.data = at->floats;
    PARE_TRY(pare_site_const(s, "_scales", &t, &name, err));
    PARE_TRY(pare_site_drop_attr(s, "scales", err));
    return pare_site_input(s, 1, name, err);
}

/* The default was 1 and became -2. */
int pare_raise_dft_axis(struct pare_site *s, struct pare_err *err)
{
    static const int64_t one = 1;
    struct pare_tensor t = { .dtype = PARE_I64, .data = (void *)(uintptr_t)&one };
    const char *name;

    PARE_TRY(pare_site_take_ints(s, "axis", true, &name, err));
    if (!name)
        PARE_TRY(pare_site_const(s, "_axis", &t, &name, err));
    return pare_site_input(s, 2, name, err);
}
