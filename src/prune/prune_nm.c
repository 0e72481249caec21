/* prune_nm.c - N:M pruner: keep the n largest of every m consecutive weights, for example the 2:4
 * pattern of sparse tensor cores.  Mishra et al., "Accelerating sparse deep neural networks", 2021.
 *
 * The m weights are consecutive input channels, the direction in which the product sums; where
 * there are fewer than m input channels, as in depthwise convolutions, the last axis is used.  A
 * remainder of fewer than m weights at the end of a row keeps at most n.
 */
#include <math.h>
#include <stddef.h>

#include <pare/plugin.h>

struct keys {
    int64_t n, m;
};

#define MOST 1024

/* clang-format off */
static const struct pare_opt keys[] = {
    PARE_INT("n", offsetof(struct keys, n), "number of weights to keep out of every m", 2, 1, MOST),
    PARE_INT("m", offsetof(struct keys, m),
             "number of consecutive weights of which n are kept", 4, 1, MOST),
    PARE_OPT_END
};
/* clang-format on */

static int axis_of(const struct pare_layer *l, int64_t m)
{
    const struct pare_tensor *w = pare_layer_weight(l);
    int in = pare_layer_in_axis(l);

    return in >= 0 && w->dim[in] >= m ? in : w->rank - 1;
}

/* Keep the n largest of `len` weights with distance `stride`; among equal weights remove the
 * first. */
static void keep_largest(const float *w, uint8_t *mask, int64_t stride, int64_t len, int64_t n)
{
    for (int64_t i = 0; i < len; i++) {
        float x = fabsf(w[i * stride]);
        int64_t larger = 0;

        for (int64_t j = 0; j < len; j++) {
            float y = fabsf(w[j * stride]);

            larger += y > x || (y == x && j > i);
        }
        mask[i * stride] = larger < n;
    }
}

static int calc_mask(struct pare_compression *r, struct pare_layer *l, struct pare_err *err)
{
    const struct pare_tensor *w = pare_layer_weight(l);
    const struct keys *k = pare_layer_conf(l);
    uint8_t *mask = pare_layer_mask(l)->data;
    int64_t outer = 1, inner = 1;
    int axis = axis_of(l, k->m);

    (void)r;
    if (k->n > k->m)
        return pare_fail(err, PARE_ECONFIG, "layer '%s': n is %lld, expected at most m (%lld)",
                         pare_layer_name(l), (long long)k->n, (long long)k->m);
    for (int i = 0; i < w->rank; i++)
        *(i < axis ? &outer : &inner) *= i == axis ? 1 : w->dim[i];
    for (int64_t o = 0; o < outer; o++)
        for (int64_t at = 0; at < w->dim[axis]; at += k->m)
            for (int64_t i = 0; i < inner; i++) {
                int64_t first = (o * w->dim[axis] + at) * inner + i, rest = w->dim[axis] - at;

                keep_largest(pare_f32(w) + first, mask + first, inner, rest < k->m ? rest : k->m,
                             k->n);
            }
    return 0;
}

const struct pare_algorithm pare_pruner_nm = {
    .abi = PARE_ABI,
    .size = sizeof(struct pare_algorithm),
    .name = "nm",
    .doc = "Keep the n largest of every m weights along the input channels.",
    .keys = keys,
    .conf_size = sizeof(struct keys),
    .flags = PARE_ONE_SHOT,
    .types = "Conv1d|Conv2d|Conv3d|ConvTranspose1d|ConvTranspose2d|ConvTranspose3d|Linear",
    .pruner =
        &(const struct pare_pruner){
            .size = sizeof(struct pare_pruner),
            .granularity = "element",
            .calc_mask = calc_mask,
        },
};
