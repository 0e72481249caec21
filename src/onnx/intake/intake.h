/* intake.h - intake: what loading changes in a model so that exporters' habits do not matter.
 *
 * A step is one file with one descriptor, and one line in intake.def.  Steps change a copy of the
 * protobuf, of which only changed messages are copied; weights never are.  The graph is built from
 * the copy.  model->file is the protobuf as it was read: saving writes it while nothing else has
 * changed the model, so loading and saving gives the same bytes.
 */
#ifndef PARE_ONNX_INTAKE_INTAKE_H
#define PARE_ONNX_INTAKE_INTAKE_H

#include <string.h>

#include "../build.h"

/* A graph under change: the main graph or a body of If, Loop or Scan. */
struct pare_intake_graph {
    struct pare_model *m;
    const struct pare_load_opts *opts;
    Onnx__GraphProto *p; /* the original until pare_intake_change(), then a copy */
    bool changed;        /* p is a copy with node and initializer lists of its own */
    bool main;
    bool patched;     /* m->graph was changed as p was: pare_intake_patch() */
    int cap_constant; /* of p->initializer, if changed */
    int64_t *count;   /* what the step has changed so far */
};

struct pare_intake_step {
    const char *name;
    const char *what; /* what one count is, in the plural: "weights of Constant nodes" */
    const char *note; /* sentence that commands print if the step changed something; or NULL */
    bool keeps_names; /* only types change: initializers and nodes have their names */

    /* Before the graph is built: change one graph.  NULL: none. */
    int (*graph)(struct pare_intake_graph *g, void *state, struct pare_err *err);

    /* With `graph`: whether the model needs the step; *state is passed on.  NULL: always. */
    int (*wanted)(const struct pare_model *m, const struct pare_load_opts *opts, bool *yes,
                  void **state, struct pare_err *err);

    /* With `graph`, if it changed something: change the rest of the model.  NULL: nothing. */
    void (*model)(Onnx__ModelProto *m, void *state);

    /* After the graph was built from m->proto: change the main graph's protobuf.  If it changed,
     * the graph is built again, unless the step changed both (pare_intake_patch).  NULL: none. */
    int (*built)(struct pare_intake_graph *g, struct pare_err *err);
};

/* Run the steps and build the graph of m, whose proto was just read. */
int pare_intake(struct pare_model *m, const struct pare_load_opts *opts, struct pare_err *err);

/* ---- for steps ------------------------------------------------------------------------------- */

/* Make g->p a copy that can be changed.  Nodes and initializers are shared with the original. */
int pare_intake_change(struct pare_intake_graph *g, struct pare_err *err);

/* Make node i of g->p a copy with lists of its own; attributes are shared. */
int pare_intake_own_node(struct pare_intake_graph *g, size_t i, Onnx__NodeProto **node,
                         struct pare_err *err);

/* Add a copy of the initializer `t` under this name; elements are shared.  *copy may be NULL. */
int pare_intake_add_constant(struct pare_intake_graph *g, const Onnx__TensorProto *t,
                             const char *name, Onnx__TensorProto **copy, struct pare_err *err);

/* Drop the nodes of g->p that are set to NULL. */
void pare_intake_drop_nodes(struct pare_intake_graph *g);

/* Drop initializers and Constant nodes of these names, and nodes set to NULL. */
int pare_intake_drop_dead(struct pare_intake_graph *g, const struct pare_map *dead,
                          struct pare_err *err);

/* Drop the graph inputs of initializers: files before IR version 4 list initializers there. */
int pare_intake_drop_inputs(struct pare_intake_graph *g, const struct pare_map *names,
                            struct pare_err *err);

/* pare_intake_drop_dead() for `built` steps that also changed the inputs and constants of m->graph:
 * drops the same nodes and values of m->graph, which then matches g->p and is not built again.  If
 * names of nodes would differ from those of a file without the dropped nodes, only g->p is
 * changed. */
int pare_intake_patch(struct pare_intake_graph *g, const struct pare_map *dead,
                      struct pare_err *err);

/* Operators of node types that were looked up; a zeroed one is empty. */
struct pare_op_memo {
    const char *type[64];
    const struct pare_op *op[64];
};

/* The node's operator, NULL: none; the list of all operators is searched once for each type. */
const struct pare_op *pare_intake_op(struct pare_op_memo *m, const Onnx__NodeProto *n);

/* The position in g->p->node of a node of m->graph; -1: it is in a function. */
int pare_intake_index(const struct pare_intake_graph *g, const struct pare_node *n);

/* The opset of the standard operators. */
int64_t pare_intake_version(const Onnx__ModelProto *p);

/* Call `see` for the graph and all graphs inside its nodes. */
int pare_intake_each(const Onnx__GraphProto *g,
                     int (*see)(const Onnx__GraphProto *g, void *state, struct pare_err *err),
                     void *state, struct pare_err *err);

/* The standard operator of this type?  Steps ask it of every node. */
static inline bool pare_intake_is(const Onnx__NodeProto *n, const char *type)
{
    return n->op_type && *n->op_type == *type && !strcmp(n->op_type, type) &&
           (!n->domain || !*n->domain || !strcmp(n->domain, "ai.onnx"));
}

#endif
