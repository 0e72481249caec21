/* pattern_rms_norm.c - RMSNormalization written as Pow, ReduceMean, Add, Sqrt, Div, Mul.
 *
 *     y = x / sqrt(mean(x^2) + epsilon) * scale
 */
#include "../../op/op.h"
#include "pattern.h"

static bool match_rms_norm(struct pare_graph *g, struct pare_node *last, struct pare_found *f)
{
    struct pare_node *n;
    int k;

    (void)g;
    if (pare_node_is(last, &pare_op_mul) && (f->scale = pare_row_operand(last, &k))) {
        n = last->in[1 - k]->maker;
        if (n && n->op && pare_found_normalized(f, n, &f->x))
            return true;
    }
    f->scale = NULL;
    f->n = 1;
    return pare_found_normalized(f, last, &f->x);
}

const struct pare_pattern pare_pattern_rms_norm = {
    .name = "rms_norm",
    .kind = PARE_PATTERN_ROWS,
    .op = &pare_op_rms_normalization,
    .version = 23,
    .match = match_rms_norm,
};
