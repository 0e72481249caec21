/* rewrite_merge_transposes.c - merge Transposes that follow each other; inverse pairs vanish. */
#include "../../op/shape/movement.h"
#include "rewrite.h"

static int merge(struct pare_rewriter *r, struct pare_node *n, struct pare_err *err)
{
    struct pare_node *before = pare_node_is(n, &pare_op_transpose)
                                   ? pare_rewrite_maker(n->in[0], &pare_op_transpose)
                                   : NULL;
    int first[PARE_MAX_RANK], second[PARE_MAX_RANK];
    int64_t both[PARE_MAX_RANK];
    struct pare_setting set = { .name = "perm", .type = PARE_OPT_INTS };
    const int rank = n->n_in ? n->in[0]->t.rank : 0;
    bool same = true;

    if (!before)
        return 0;
    pare_transpose_perm(before, first);
    pare_transpose_perm(n, second);
    for (int i = 0; i < rank; i++) {
        both[i] = first[second[i]];
        same &= both[i] == i;
    }
    if (same) {
        pare_rewrite_replace(r, n->out[0], before->in[0]);
        return 0;
    }
    set.ints = pare_rewrite_list(r, both, rank);
    if (!set.ints.v)
        return pare_no_memory(err, "to rewrite the graph");
    PARE_TRY(pare_rewrite_become(r, n, &pare_op_transpose, &set, err));
    pare_rewrite_input(r, n, 0, before->in[0]);
    return 0;
}

const struct pare_rewrite pare_rewrite_merge_transposes = {
    .name = "merge_transposes",
    .doc = "merge Transposes in a row; inverse ones vanish",
    .any_shape = true,
    .node = merge,
};
