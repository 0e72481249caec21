/* rewrite_product_nets.h - networks from x (2, 4, 6, 6) with Einsum, and with scales and shifts
 * before layers, for test_rewrites.c. */
#ifndef PARE_TEST_REWRITE_PRODUCT_NETS_H
#define PARE_TEST_REWRITE_PRODUCT_NETS_H

#include "small_net.h"

enum { C = 4, S = 6 };

static const char *conv(struct net *n, const char *x, int64_t out, int64_t in, struct bin attrs)
{
    return NODE("Conv",
                NAMES(x, random_weight(n, INTS(out, in, 3, 3)), random_weight(n, INTS(out))),
                attrs);
}

/* ---- Einsum --------------------------------------------------------------------------------- */

static const char *einsum(struct net *n, const char *equation, const char *a, const char *b)
{
    return b ? NODE("Einsum", NAMES(a, b), at_text("equation", equation))
             : NODE("Einsum", NAMES(a), at_text("equation", equation));
}

static const char *tanh_of(struct net *n, const char *x)
{
    return NODE("Tanh", NAMES(x), NOTHING);
}

NETWORK(einsum_heads)
{
    return einsum(n, "bhid, bhjd -> bhij", n->x, tanh_of(n, n->x));
}

NETWORK(einsum_heads_inside)
{
    return einsum(n, "bihd,bjhd->bhij", n->x, tanh_of(n, n->x));
}

/* The weights are transposed once, not in every run. */
NETWORK(einsum_weight)
{
    return einsum(n, "bchw,ow->bcho", n->x, random_weight(n, INTS(5, S)));
}

NETWORK(einsum_weight_first)
{
    return einsum(n, "ow,bchw->bcho", random_weight(n, INTS(5, S)), n->x);
}

NETWORK(einsum_dots)
{
    return einsum(n, "...w,wo", n->x, random_weight(n, INTS(S, 5)));
}

NETWORK(einsum_two_sums)
{
    return einsum(n, "bchw,hwo->bco", n->x, random_weight(n, INTS(S, S, 5)));
}

NETWORK(einsum_two_columns)
{
    return einsum(n, "bchw,wde->bchde", n->x, random_weight(n, INTS(S, 3, 2)));
}

NETWORK(einsum_alone)
{
    return einsum(n, "bchw,bwk->bck", n->x, random_weight(n, INTS(2, S, 5)));
}

NETWORK(einsum_dot)
{
    return einsum(n, "bchw,bchw->bc", n->x, tanh_of(n, n->x));
}

NETWORK(einsum_vector)
{
    return einsum(n, "w,bchw->bch", random_weight(n, INTS(S)), n->x);
}

NETWORK(einsum_outer)
{
    return einsum(n, "bchw,o->bohcw", n->x, random_weight(n, INTS(3)));
}

NETWORK(einsum_gate)
{
    return einsum(n, "bchw,bc->bchw", n->x,
                  NODE("ReduceMax", NAMES(n->x),
                       CAT(at_ints("axes", INTS(2, 3)), at_int("keepdims", 0))));
}

/* Axes of one element are broadcast, but not where a sum runs over them. */
NETWORK(einsum_broadcast)
{
    return einsum(n, "bchw,bcwk->bchk", n->x, random_weight(n, INTS(1, C, S, 3)));
}

NETWORK(einsum_broadcast_sum)
{
    return einsum(n, "bchw,bcwk->bchk", n->x, random_weight(n, INTS(2, C, 1, 3)));
}

NETWORK(einsum_diagonal)
{
    return einsum(n, "bcii->bci", n->x, NULL);
}

NETWORK(einsum_transpose)
{
    return einsum(n, "bchw->bwhc", n->x, NULL);
}

NETWORK(einsum_sum)
{
    return einsum(n, "bchw->wb", n->x, NULL);
}

NETWORK(einsum_all)
{
    return einsum(n, "bchw->", n->x, NULL);
}

NETWORK(einsum_copy)
{
    return tanh_of(n, einsum(n, "bchw->bchw", n->x, NULL));
}

NETWORK(einsum_three)
{
    return NODE("Einsum", NAMES(n->x, random_weight(n, INTS(S)), random_weight(n, INTS(C))),
                at_text("equation", "bchw,w,c->bh"));
}

NETWORK(einsum_both_extra)
{
    return einsum(n, "abcd,bdef->aecbf", n->x, random_weight(n, INTS(C, S, 3, 2)));
}

/* ---- scales and shifts before layers --------------------------------------------------------- */

static const char *before(struct net *n, const char *type, const char *x)
{
    return NODE(type, NAMES(x, random_weight(n, INTS(1, C, 1, 1))), NOTHING);
}

NETWORK(next_conv)
{
    const char *y = NODE("Relu", NAMES(n->x), NOTHING), *p[4];

    y = before(n, "Add", before(n, "Mul", y));
    for (int i = 0; i < 4; i++)
        p[i] = build_floats(&n->b, INTS(C), (float[]){ 1, 2, 3, 0.5f });
    y = NODE("BatchNormalization", NAMES(y, p[0], p[1], p[2], p[3]), NOTHING);
    return conv(n, y, 6, C, NOTHING);
}

/* Padding is not shifted. */
NETWORK(next_padded_conv)
{
    const char *y = before(n, "Mul", before(n, "Add", NODE("Relu", NAMES(n->x), NOTHING)));

    return conv(n, y, 6, C, at_ints("pads", INTS(1, 1, 1, 1)));
}

NETWORK(next_groups)
{
    const char *y = before(n, "Sub", before(n, "Mul", NODE("Relu", NAMES(n->x), NOTHING)));

    return conv(n, y, 6, C / 2, at_int("group", 2));
}

NETWORK(next_transposed)
{
    const char *y = before(n, "Mul", NODE("Relu", NAMES(n->x), NOTHING));

    y = NODE("ConvTranspose", NAMES(y, random_weight(n, INTS(C, 3, 2, 2))), at_int("group", 2));
    y = NODE("Mul", NAMES(y, random_weight(n, INTS(6, 1, 1))), NOTHING);
    return NODE("Add", NAMES(y, random_weight(n, INTS(6, 1, 1))), NOTHING);
}

NETWORK(next_product)
{
    const char *y = NODE("Reshape", NAMES(n->x, LIST(2, -1)), NOTHING);

    y = NODE("Add", NAMES(y, random_weight(n, INTS(C * S * S))), NOTHING);
    y = NODE("Mul", NAMES(y, build_scalar(&n->b, 0.1f)), NOTHING);
    return NODE("Gemm", NAMES(y, random_weight(n, INTS(5, C * S * S)), random_weight(n, INTS(5))),
                at_int("transB", 1));
}

/* Only the scale: a product of more than two axes has no bias. */
NETWORK(next_products)
{
    const char *y = NODE("Relu", NAMES(n->x), NOTHING);

    y = NODE("Add", NAMES(y, random_weight(n, INTS(S))), NOTHING);
    y = NODE("Mul", NAMES(y, random_weight(n, INTS(S))), NOTHING);
    return NODE("MatMul", NAMES(y, random_weight(n, INTS(S, 5))), NOTHING);
}

/* Along another axis, read elsewhere, an output, weights that are shared. */
NETWORK(next_other)
{
    const char *w = random_weight(n, INTS(S, S)), *y = NODE("Relu", NAMES(n->x), NOTHING), *z;

    y = NODE("MatMul", NAMES(before(n, "Mul", y), w), NOTHING);
    y = NODE("Relu", NAMES(y), NOTHING);
    z = NODE("Mul", NAMES(y, random_weight(n, INTS(S))), NOTHING);
    y = NODE("MatMul", NAMES(z, random_weight(n, INTS(S, S))), NOTHING);
    y = NODE("Relu", NAMES(NODE("Add", NAMES(y, z), NOTHING)), NOTHING);
    y = NODE("Mul", NAMES(y, random_weight(n, INTS(S))), NOTHING);
    build_output(&n->b, y);
    y = NODE("Relu", NAMES(NODE("MatMul", NAMES(y, random_weight(n, INTS(S, S))), NOTHING)),
             NOTHING);
    y = NODE("Mul", NAMES(y, random_weight(n, INTS(S))), NOTHING);
    return NODE("MatMul", NAMES(y, w), NOTHING);
}

#endif
