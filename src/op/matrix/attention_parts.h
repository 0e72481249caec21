/* attention_parts.h - the nodes of scaled dot-product attention that is written out.
 *
 *     y = softmax(scale Q K' + masks) V
 *
 * graph/pattern/pattern_attention.c finds them; plans, presets and pruners read them.  They remain
 * nodes of the graph: each has its own kernels, gradient and ties, which a fused kernel replaces
 * only for the shapes and layouts that it knows.
 */
#ifndef PARE_OP_MATRIX_ATTENTION_PARTS_H
#define PARE_OP_MATRIX_ATTENTION_PARTS_H

#include "../operator.h"

enum { PARE_ATTENTION_MASKS = 2, PARE_ATTENTION_NODES = 16 };

enum pare_mask_kind {
    PARE_MASK_NONE,
    PARE_MASK_ADD,  /* scores + mask */
    PARE_MASK_KEEP, /* mask ? score : fill */
    PARE_MASK_FILL, /* mask ? fill : score */
};

struct pare_attention_masking {
    enum pare_mask_kind kind;
    float fill;              /* of PARE_MASK_KEEP and PARE_MASK_FILL */
    struct pare_value *mask; /* broadcast to the node's result */
    struct pare_node *node;  /* Add or Where; its result has the scores' matrices in their order */
    double factor;           /* product of the constant factors after it */
};

struct pare_attention_parts {
    struct pare_node *scores;  /* the product of queries and keys */
    struct pare_node *softmax; /* along the keys, which are the last axis */
    struct pare_node *mix;     /* the product with the values */
    int weights;               /* the input of `mix` that is the result of `softmax` */
    struct pare_node *dropout; /* between both, drops in training only; NULL: none */
    double scale;              /* product of the constant factors between scores and softmax */
    struct pare_attention_masking mask[PARE_ATTENTION_MASKS]; /* in the order of computation */
    int n_masks;
    struct pare_node *node[PARE_ATTENTION_NODES]; /* all from `mix` to `scores` */
    int n;
};

#endif
