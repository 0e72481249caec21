/* shrink_select.c - select channels of an operand that keeps more of them than the other one.
 *
 *     keys (all)  ->  Gather (those of the queries)  ->  MatMul
 *
 * The operand is frozen, for example because it is an input of the model.
 */
#include "../base/arena.h"
#include "../tensor/tensor.h"
#include "speedup.h"

/* Insert Gather before input k, with these indices. */
static int insert_gather(struct pare_shrunk *s, int k, int axis, const struct pare_tensor *index)
{
    struct pare_edit *e = s->k->e;
    struct pare_edit_node n = { .type = "Gather", .axis = axis };

    n.name = pare_edit_name(e, s->n->name, "_selected");
    n.out = pare_edit_name(e, s->n->in[k]->name, "_selected");
    if (!n.name || !n.out)
        return pare_no_memory(s->err, "for a smaller model");
    n.in[0] = s->n->in[k]->name;
    PARE_TRY(pare_edit_add_constant(e, n.name, index, &n.in[1], s->err));
    PARE_TRY(pare_edit_insert(e, &n, s->err));
    return pare_edit_set_input(e, s->n, k, n.out, s->err);
}

void pare_shrunk_select(struct pare_shrunk *s, int k, int axis, const struct pare_value *like,
                        int like_axis)
{
    const struct pare_value *v = s->n->in[k];
    const uint8_t *keep = pare_shrunk_keep(s, like, like_axis);
    struct pare_tensor index = { .dtype = PARE_I64, .rank = 1 };
    int64_t n = 0;

    if (s->rc || s->why)
        return;
    if (pare_shrunk_dim(s, v, axis) != like->t.dim[like_axis]) {
        pare_shrunk_fail(s, "its operands keep different channels");
        return;
    }
    index.dim[0] = pare_shrunk_dim(s, like, like_axis);
    s->rc = pare_tensor_alloc(s->k->arena, &index, s->err);
    for (int64_t i = 0; !s->rc && i < like->t.dim[like_axis]; i++)
        if (keep[i])
            ((int64_t *)index.data)[n++] = i;
    if (!s->rc)
        s->rc = insert_gather(s, k, axis, &index);
}
