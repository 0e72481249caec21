/* pattern_layer_norm_scaled.c - LayerNormalization as TensorFlow writes it, with one factor per
 * element: Rsqrt, Mul, Mul, Mul, Sub, Add.
 *
 *     s = scale / sqrt(mean((x - mean)^2) + epsilon)    y = x * s + (bias - mean * s)
 */
#include "../../op/op.h"
#include "pattern.h"

/* The products x * s and mean * s: the factor that they share. */
static struct pare_value *shared_factor(const struct pare_node *a, const struct pare_node *b,
                                        struct pare_value **x, struct pare_value **mean)
{
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 2; k++)
            if (a->in[i] == b->in[k] && a->in[1 - i] != b->in[1 - k]) {
                *x = a->in[1 - i];
                *mean = b->in[1 - k];
                return a->in[i];
            }
    return NULL;
}

/* Is s = scale * r, or r, with r = 1 / sqrt(mean(d^2) + epsilon) and d = x - mean? */
static bool is_factor(struct pare_found *f, struct pare_value *s, const struct pare_value *x,
                      const struct pare_value *mean)
{
    const struct pare_node *n = pare_found_maker(f, s, &pare_op_mul), *sub;
    struct pare_value *d;
    int k;

    if (n && (f->scale = pare_row_operand(n, &k)))
        s = n->in[1 - k];
    if (!pare_found_inverse_root(f, s, &d))
        return false;
    sub = pare_found_maker(f, d, &pare_op_sub);
    return sub && sub->in[0] == x && sub->in[1] == mean && pare_found_row_mean(f, mean, x);
}

static bool match_scaled(struct pare_graph *g, struct pare_node *last, struct pare_found *f)
{
    (void)g;
    for (int i = 0; i < 2 && pare_node_is(last, &pare_op_add); i++) {
        const struct pare_node *product, *sub, *other;
        struct pare_value *s, *mean;
        int k;

        f->n = 1;
        f->scale = NULL;
        product = pare_found_maker(f, last->in[i], &pare_op_mul);
        sub = pare_found_maker(f, last->in[1 - i], &pare_op_sub);
        other = sub ? pare_found_maker(f, sub->in[1], &pare_op_mul) : NULL;
        s = product && other ? shared_factor(product, other, &f->x, &mean) : NULL;
        if (s && (f->bias = pare_row_operand(sub, &k)) && !k && is_factor(f, s, f->x, mean))
            return true;
    }
    return false;
}

const struct pare_pattern pare_pattern_layer_norm_scaled = {
    .name = "layer_norm_scaled",
    .kind = PARE_PATTERN_ROWS,
    .op = &pare_op_layer_normalization,
    .version = 17,
    .match = match_scaled,
};
