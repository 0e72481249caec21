/* prune_nm.c - keep n of every m weights in a row, the largest: the 2:4 pattern that sparse tensor
 * cores run, and any other.  Mishra et al., "Accelerating sparse deep neural networks", 2021.
 *
 * The row goes along the input channels, which is the direction of the product's sum; along the
 * last axis where there are fewer than m of them, as in depthwise convolutions.  At the end of a
 * row, a rest of fewer than m weights keeps at most n.
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
    PARE_INT("n", offsetof(struct keys, n), "how many of m weights stay", 2, 1, MOST),
    PARE_INT("m", offsetof(struct keys, m), "weights in a row of which n stay", 4, 1, MOST),
    PARE_OPT_END
};
/* clang-format on */

static int axis_of(const struct pare_layer *l, int64_t m)
{
    const struct pare_tensor *w = pare_layer_weight(l);
    int in = pare_layer_in_axis(l);

    return in >= 0 && w->dim[in] >= m ? in : w->rank - 1;
}

/* Of `len` weights, `stride` apart, all but the n largest go; among equal ones the first go. */
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
        return pare_fail(err, PARE_ECONFIG, "layer '%s': n is %lld, but at most m, which is %lld",
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
