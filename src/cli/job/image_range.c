/* image_range.c - warn if a model seems to scale its images itself, but gets them normalized. */
#include <math.h>

#include "model_intake.h"
#include "../../data/source.h"
#include "../../dist/dist.h"
#include "../../onnx/model.h"
#include "../../tensor/tensor.h"

#define MOST_STEPS 6 /* nodes between the input and the first layer */

/* The only node that reads the value; NULL: none, or several. */
static const struct pare_node *reader(const struct pare_graph *g, const struct pare_value *v)
{
    const struct pare_node *found = NULL;

    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < g->node[i]->n_in; k++)
            if (g->node[i]->in[k] == v) {
                if (found && found != g->node[i])
                    return NULL;
                found = g->node[i];
            }
    return found;
}

/* The constant operand of an elementwise node of two inputs, or NULL. */
static const struct pare_value *constant_of(const struct pare_node *n, const struct pare_value *v)
{
    const struct pare_value *other = n->n_in == 2 ? n->in[n->in[0] == v] : NULL;

    return n->op && n->op->map2 && other && other->flags & PARE_V_CONST && other->t.data &&
                   pare_numel(&other->t) <= 16
               ? other
               : NULL;
}

/* Magnitudes of the constants that change the input before the first layer; false: there are none.
 */
static bool find_constants(const struct pare_graph *g, double *least, double *most)
{
    const struct pare_value *v = g->n_in ? g->in[0] : NULL;
    bool any = false;

    *least = INFINITY;
    *most = 0;
    for (int i = 0; i < MOST_STEPS && v; i++) {
        const struct pare_node *n = reader(g, v);
        const struct pare_value *c = n ? constant_of(n, v) : NULL;
        unsigned moves = PARE_OP_VIEW | PARE_OP_STORAGE | PARE_OP_MOVES | PARE_OP_PASSES;

        if (!n || !n->op || !n->n_out || (!c && !(n->op->flags & moves)))
            break;
        for (int64_t k = 0; c && k < pare_numel(&c->t); k++) {
            double x = fabs(pare_get(&c->t, k));

            *least = x < *least ? x : *least;
            *most = x > *most ? x : *most;
        }
        any |= c != NULL;
        v = n->out[0];
    }
    return any;
}

void pare_image_range_note(const struct pare_cli *c, const struct pare_model *m,
                           const struct pare_data *d)
{
    const struct pare_data_parts *p = d ? d->parts : NULL;
    double least, most;
    bool changed = false, bytes;

    if (!p || !p->is_image || d->dtype != PARE_U8 || !p->mean || c->in_recipe ||
        pare_dist_rank(c->dist) || !find_constants(m->graph, &least, &most))
        return;
    bytes = most > 2 || least < 0.02; /* means of bytes, or a division by 255 */
    for (int i = 0; i < p->n_norm; i++)
        changed |= p->mean[i] != 0 || p->std[i] != 1;
    if (bytes ? p->scale == 1 && !changed : !changed)
        return;
    pare_put_clean(stderr, m->path);
    fprintf(stderr,
            ": seems to normalize images itself and to expect %s, but gets %s; see --pixels and "
            "--norm\n",
            bytes ? "0..255" : "0..1",
            changed        ? "them normalized already"
            : p->scale > 1 ? "0..1"
                           : "0..255");
}
