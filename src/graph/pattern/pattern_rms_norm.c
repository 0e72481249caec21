/* pattern_rms_norm.c - RMSNormalization written as Pow, ReduceMean, Add, Sqrt, Div, Mul.
 *
 *     y = x / sqrt(mean(x^2) + epsilon) * scale
 *
 * The scale may also be a factor of x or of the inverse root.
 */
#include "../../op/op.h"
#include "pattern.h"

/* scale * (x / root), or without a scale */
static bool is_scaled_last(struct pare_found *f, struct pare_node *last)
{
    struct pare_node *n;
    int k;

    if (pare_node_is(last, &pare_op_mul) && (f->scale = pare_row_operand(last, &k))) {
        n = last->in[1 - k]->maker;
        if (n && n->op && pare_found_normalized(f, n, &f->x))
            return true;
    }
    f->scale = NULL;
    f->n = 1;
    return pare_found_normalized(f, last, &f->x);
}

/* (scale * x) * inverse root, or x * (scale * inverse root); `scaled`: the input of `last` that has
 * the scale. */
static bool is_scaled_first(struct pare_found *f, struct pare_node *last, int scaled)
{
    struct pare_value *other = last->in[1 - scaled], *d;
    struct pare_node *n = pare_found_maker(f, last->in[scaled], &pare_op_mul);
    int k;

    f->scale = n ? pare_row_operand(n, &k) : NULL;
    if (!f->scale)
        return false;
    f->x = n->in[1 - k];
    if (pare_found_inverse_root(f, other, &d) && d == f->x)
        return true;
    f->n = 2;
    f->x = other;
    return pare_found_inverse_root(f, n->in[1 - k], &d) && d == other;
}

static bool match_rms_norm(struct pare_graph *g, struct pare_node *last, struct pare_found *f)
{
    (void)g;
    if (is_scaled_last(f, last))
        return true;
    for (int i = 0; i < 2 && pare_node_is(last, &pare_op_mul); i++) {
        f->n = 1;
        if (is_scaled_first(f, last, i))
            return true;
    }
    return false;
}

const struct pare_pattern pare_pattern_rms_norm = {
    .name = "rms_norm",
    .kind = PARE_PATTERN_ROWS,
    .op = &pare_op_rms_normalization,
    .version = 23,
    .match = match_rms_norm,
};
