/* pattern_layer_norm.c - LayerNormalization written as ReduceMean, Sub, Pow, ReduceMean, Add, Sqrt,
 * Div, with or without Mul and Add of a scale and a bias.
 *
 *     d = x - mean(x)    y = d / sqrt(mean(d^2) + epsilon) * scale + bias
 */
#include "../../op/op.h"
#include "pattern.h"

/* Is d = x - mean(x)? */
static bool is_centered(struct pare_found *f, const struct pare_value *d)
{
    const struct pare_node *n = pare_found_maker(f, d, &pare_op_sub);

    if (!n || !pare_found_row_mean(f, n->in[1], n->in[0]))
        return false;
    f->x = n->in[0];
    return true;
}

static bool is_core(struct pare_found *f, struct pare_node *n)
{
    struct pare_value *d;

    return n && pare_found_normalized(f, n, &d) && is_centered(f, d);
}

static struct pare_node *maker(const struct pare_value *v)
{
    return v && !(v->flags & PARE_V_CONST) && v->maker && v->maker->op ? v->maker : NULL;
}

/* scale * core, or core. */
static bool is_scaled(struct pare_found *f, struct pare_node *n)
{
    int k, from = f->n;

    if (!n)
        return false;
    if (pare_node_is(n, &pare_op_mul) && (f->scale = pare_row_operand(n, &k)) &&
        pare_found_add(f, n) && is_core(f, maker(n->in[1 - k])))
        return true;
    f->scale = NULL;
    f->n = from;
    return is_core(f, n);
}

static bool match_layer_norm(struct pare_graph *g, struct pare_node *last, struct pare_found *f)
{
    int k;

    (void)g;
    if (pare_node_is(last, &pare_op_add) && (f->bias = pare_row_operand(last, &k)))
        return is_scaled(f, maker(last->in[1 - k]));
    return is_scaled(f, last);
}

const struct pare_pattern pare_pattern_layer_norm = {
    .name = "layer_norm",
    .kind = PARE_PATTERN_ROWS,
    .op = &pare_op_layer_normalization,
    .version = 17,
    .match = match_layer_norm,
};
