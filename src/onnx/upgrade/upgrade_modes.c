/* upgrade_modes.c - rewrites of operators whose name, modes or outputs changed: Upsample, Resize,
 * Scatter, RoiAlign, GridSample, Split, Dropout. */
#include "upgrade.h"
#include "upgrade_rewrites.h"

#include "../../tensor/tensor.h"

int pare_raise_scatter_name(struct pare_site *s, struct pare_err *err)
{
    (void)err;
    s->p->op_type = pare_edit_text("ScatterElements");
    return 0;
}

int pare_raise_roi_mode(struct pare_site *s, struct pare_err *err)
{
    return pare_site_set_text(s, "coordinate_transformation_mode", "output_half_pixel", err);
}

int pare_raise_grid_mode(struct pare_site *s, struct pare_err *err)
{
    if (pare_site_attr_is(s, "mode", "bilinear"))
        return pare_site_set_text(s, "mode", "linear", err);
    if (pare_site_attr_is(s, "mode", "bicubic"))
        return pare_site_set_text(s, "mode", "cubic", err);
    if (pare_site_refers(pare_site_attr(s, "mode")))
        return pare_site_refuse(s, "takes its mode from an attribute of its function", err);
    return 0;
}

/* Without a list of sizes, the number of outputs is required. */
int pare_raise_split_outputs(struct pare_site *s, struct pare_err *err)
{
    if (s->p->n_input > 1 && *s->p->input[1])
        return 0;
    return pare_site_set_int(s, "num_outputs", (int64_t)s->p->n_output, err);
}

/* The mask became bool. */
int pare_raise_dropout_mask(struct pare_site *s, struct pare_err *err)
{
    struct pare_edit_node cast = { .type = "Cast", .axis = -1 };
    enum pare_dtype dtype;

    if (s->p->n_output < 2 || !*s->p->output[1])
        return 0;
    cast.out = s->p->output[1];
    if (!pare_site_used(s, cast.out)) {
        s->p->n_output = 1;
        return 0;
    }
    PARE_TRY(pare_site_dtype(s, s->p->input[0], &dtype, err));
    if (dtype == PARE_NONE)
        return pare_site_refuse(s, "has a mask of an element type that is not declared", err);
    cast.in[0] = pare_site_name(s, "_kept");
    cast.attr[0].name = "to";
    cast.attr[0].v = (int64_t)dtype;
    PARE_TRY(pare_site_output(s, 1, cast.in[0], err));
    PARE_TRY(pare_site_place(s, err));
    return pare_site_emit(s, &cast, err);
}

/* ---- Upsample and Resize --------------------------------------------------------------------- */

int pare_raise_upsample_name(struct pare_site *s, struct pare_err *err)
{
    (void)err;
    s->p->op_type = pare_edit_text("Resize");
    return 0;
}

/* Whether constant scales enlarge or keep all axes (1), shrink or keep all (-1), both, or are not
 * known (0). */
static int direction(const struct pare_site *s, const char *scales)
{
    const struct pare_tensor *t = pare_site_known(s, scales);
    bool grows = true, shrinks = true;

    for (int64_t i = 0; t && i < pare_numel(t); i++) {
        grows = grows && pare_get(t, i) >= 1;
        shrinks = shrinks && pare_get(t, i) <= 1;
    }
    return !t ? 0 : grows ? 1 : shrinks ? -1 : 0;
}

/* Opset 10 rounds coordinates down where an axis grows and up where it shrinks.  If that is not
 * known, one Resize does the axes that grow and a second one those that shrink. */
static int resize_twice(struct pare_site *s, const char *roi, const char *scales,
                        struct pare_err *err)
{
    static const float unit = 1;
    struct pare_tensor t = { .dtype = PARE_F32, .data = (void *)(uintptr_t)&unit };
    const char *one, *up = pare_site_name(s, "_up"), *down = pare_site_name(s, "_down");
    const char *large = pare_site_name(s, "_enlarged");
    struct pare_edit_node max = { .type = "Max", .axis = -1, .out = up },
                          min = { .type = "Min", .axis = -1, .out = down };
    struct pare_site first = *s;

    PARE_TRY(pare_site_const(s, "_one", &t, &one, err));
    max.in[0] = min.in[0] = scales;
    max.in[1] = min.in[1] = one;
    PARE_TRY(pare_site_emit(s, &max, err));
    PARE_TRY(pare_site_emit(s, &min, err));
    PARE_TRY(pare_site_emit(s,
                            &(struct pare_edit_node){ .type = "Resize",
                                                      .in = { s->p->input[0], roi, up },
                                                      .out = large,
                                                      .axis = -1 },
                            err));
    pare_site_last(s, &first);
    PARE_TRY(pare_site_set_text(&first, "coordinate_transformation_mode", "asymmetric", err));
    PARE_TRY(pare_site_set_text(&first, "nearest_mode", "floor", err));
    PARE_TRY(pare_site_input(s, 0, large, err));
    PARE_TRY(pare_site_input(s, 2, down, err));
    return pare_site_set_text(s, "nearest_mode", "ceil", err);
}

/* (X, scales) becomes (X, roi, scales); coordinates are asymmetric. */
int pare_raise_resize_modes(struct pare_site *s, struct pare_err *err)
{
    const char *scales, *roi;
    struct pare_tensor none = { .dtype = PARE_F32, .rank = 1 };
    bool linear = pare_site_attr_is(s, "mode", "linear");
    int dir;

    if (s->p->n_input < 2)
        return pare_site_refuse(s, "has no scales", err);
    scales = s->p->input[1];
    dir = direction(s, scales);
    PARE_TRY(pare_site_const(s, "_roi", &none, &roi, err));
    PARE_TRY(pare_site_input(s, 1, roi, err));
    PARE_TRY(pare_site_input(s, 2, scales, err));
    PARE_TRY(pare_site_set_text(s, "coordinate_transformation_mode", "asymmetric", err));
    if (linear)
        return 0;
    if (!dir)
        return resize_twice(s, roi, scales, err);
    return pare_site_set_text(s, "nearest_mode", dir > 0 ? "floor" : "ceil", err);
}

/* tf_half_pixel_for_nn, (x + 0.5) / scale, is half_pixel without its - 0.5, which another rounding
 * makes up for: floor(v + 0.5) is round_prefer_ceil(v), and round_prefer_floor(v + 0.5) is
 * ceil(v). */
int pare_raise_resize_tf_nearest(struct pare_site *s, struct pare_err *err)
{
    const char *rounding = NULL;

    if (!pare_site_attr_is(s, "coordinate_transformation_mode", "tf_half_pixel_for_nn"))
        return 0;
    if (pare_site_attr_is(s, "nearest_mode", "floor"))
        rounding = "round_prefer_ceil";
    else if (!pare_site_attr(s, "nearest_mode") ||
             pare_site_attr_is(s, "nearest_mode", "round_prefer_floor"))
        rounding = "ceil";
    if (!rounding || (pare_site_attr(s, "mode") && !pare_site_attr_is(s, "mode", "nearest")))
        return pare_site_refuse(s, "has the mode tf_half_pixel_for_nn, which later opsets lack",
                                err);
    PARE_TRY(pare_site_set_text(s, "nearest_mode", rounding, err));
    return pare_site_set_text(s, "coordinate_transformation_mode", "half_pixel", err);
}
