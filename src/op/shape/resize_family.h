/* resize_family.h - resampling, shared by Resize and Upsample. */
#ifndef PARE_OP_SHAPE_RESIZE_FAMILY_H
#define PARE_OP_SHAPE_RESIZE_FAMILY_H

#include "movement.h"

/* Names as in ONNX, in this order. */
#define PARE_RESIZE_MODES "nearest|linear|cubic"
enum { PARE_NEAREST, PARE_LINEAR, PARE_CUBIC };

#define PARE_RESIZE_COORDS                                                         \
    "half_pixel|pytorch_half_pixel|align_corners|asymmetric|tf_half_pixel_for_nn|" \
    "tf_crop_and_resize|half_pixel_symmetric"
enum {
    PARE_HALF_PIXEL,
    PARE_PYTORCH_HALF_PIXEL,
    PARE_ALIGN_CORNERS,
    PARE_ASYMMETRIC,
    PARE_TF_HALF_PIXEL_FOR_NN,
    PARE_TF_CROP_AND_RESIZE,
    PARE_HALF_PIXEL_SYMMETRIC,
};

#define PARE_RESIZE_ROUNDINGS "round_prefer_floor|round_prefer_ceil|floor|ceil"
enum {
    PARE_ROUND_PREFER_FLOOR,
    PARE_ROUND_PREFER_CEIL,
    PARE_FLOOR,
    PARE_CEIL,
    PARE_SIMPLE, /* before opset 11: up if the axis shrinks, else down */
};

struct pare_resize_axis {
    int64_t in, out;
    double scale;
    bool whole;        /* the size was given, and scale is out / in */
    double start, end; /* tf_crop_and_resize: the part to sample, as a fraction */
};

struct pare_resize {
    int mode, coord, rounding, rank;
    bool exclude_outside, antialias;
    double cubic_a, extrapolation;
    struct pare_resize_axis axis[PARE_MAX_RANK];
};

/* Scale an axis, or set its size: sets out and scale.  `axis` is only for messages. */
int pare_resize_by(struct pare_resize_axis *a, double scale, int axis, struct pare_err *err);
int pare_resize_to(struct pare_resize_axis *a, int64_t size, int axis, struct pare_err *err);

/* Initialize all axes as unchanged. */
void pare_resize_start(struct pare_resize *r, const struct pare_tensor *x);

/* Set the shape of output 0; checks that the mode supports the input's type. */
int pare_resize_infer(struct pare_node *n, const struct pare_resize *r, struct pare_err *err);
int pare_resize_forward(struct pare_node *n, struct pare_ctx *c, const struct pare_resize *r,
                        struct pare_err *err);
int pare_resize_backward(struct pare_node *n, struct pare_ctx *c, const struct pare_resize *r,
                         struct pare_err *err);

/* pick(): only if each result is one element. */
bool pare_resize_pick(const struct pare_node *n, const struct pare_resize *r, struct pare_arena *a,
                      struct pare_pick *p);

/* Sums of n elements for each position along an axis. */
struct pare_taps {
    int64_t n;   /* per position */
    int64_t *at; /* out * n of them */
    double *w;
    bool *outside; /* per position */
    bool moves;    /* false: the axis is unchanged */
};

/* taps(): only if results are weighted means, without a value for positions outside the input. */
bool pare_resize_taps(const struct pare_resize *r, struct pare_arena *a, struct pare_taps *axis);

double pare_resize_nni_ops(const struct pare_node *n); /* nni_ops() */

/* ties(): batch and channels, if they are unchanged. */
void pare_resize_ties(const struct pare_node *n, struct pare_ties *t);

#endif
