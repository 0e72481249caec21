/* upgrade.h - the node under rewrite while a model's opset is raised, and what a rewrite may do.
 *
 * The opset is raised one version at a time (opset_upgrade.c).  A rewrite gets a node in the form
 * of the version before, turns it into the form of u->version, and may add nodes, in the form of
 * u->version too: later versions rewrite these again.  It works in the main graph, in subgraphs and
 * in local functions.
 */
#ifndef PARE_ONNX_UPGRADE_UPGRADE_H
#define PARE_ONNX_UPGRADE_UPGRADE_H

#include "../edit_internal.h"

/* Where names are declared; NULL ends the chain.  A function has no declarations: g is NULL. */
struct pare_upgrade_scope {
    const Onnx__GraphProto *g;
    const struct pare_upgrade_scope *up;
    Onnx__NodeProto *const *node; /* nodes of a subgraph or function */
    size_t n_node;
    char *const *out; /* outputs of a function */
    size_t n_out;
};

struct pare_upgrade {
    struct pare_edit *e;
    int64_t to;                      /* the opset that the model gets */
    int version;                     /* the opset that the nodes get in this pass */
    struct pare_graph *shapes[2];    /* clones with inferred shapes, see pare_site_rank() */
    struct pare_arena *shapes_arena; /* freed when the upgrade ends */
    int floats;                      /* 0: not known yet; 1: all floats are float32; 2: others */
};

/* A node under rewrite. */
struct pare_site {
    struct pare_upgrade *u;
    const struct pare_upgrade_scope *scope;
    Onnx__NodeProto *p;      /* may be changed; its attributes are shared */
    const char *value;       /* its first output */
    struct pare_nodes *list; /* the new node list; NULL: the main graph */
    int slot;                /* in the main graph */
    bool placed;             /* p is in the list */
};

/* The growing node list of a subgraph or function. */
struct pare_nodes {
    Onnx__NodeProto **node;
    int n, cap;
};

typedef int pare_rewrite_fn(struct pare_site *s, struct pare_err *err);

/* ---- upgrade_site.c -------------------------------------------------------------------------- */

/* The node's attribute; NULL: it has none of this name. */
const Onnx__AttributeProto *pare_site_attr(const struct pare_site *s, const char *name);
bool pare_site_attr_is(const struct pare_site *s, const char *name, const char *value);
int64_t pare_site_int(const struct pare_site *s, const char *name, int64_t otherwise);
bool pare_site_refers(const Onnx__AttributeProto *at); /* to an attribute of its function */
int pare_site_drop_attr(struct pare_site *s, const char *name, struct pare_err *err);
int pare_site_set_int(struct pare_site *s, const char *name, int64_t v, struct pare_err *err);
int pare_site_set_text(struct pare_site *s, const char *name, const char *v, struct pare_err *err);

/* A new name for a value, from the node's first output; NULL: no memory. */
const char *pare_site_name(struct pare_site *s, const char *ending);

/* Add a node before the rewritten one, or after it once pare_site_place() was called.  n->name may
 * be NULL: the output's name. */
int pare_site_emit(struct pare_site *s, const struct pare_edit_node *n, struct pare_err *err);
int pare_site_place(struct pare_site *s, struct pare_err *err);

/* The node that pare_site_emit() added last, to set its attributes. */
void pare_site_last(const struct pare_site *s, struct pare_site *last);

/* Add a constant and return its name in *name.  `data` is copied. */
int pare_site_const(struct pare_site *s, const char *ending, const struct pare_tensor *t,
                    const char **name, struct pare_err *err);
int pare_site_ints(struct pare_site *s, const char *ending, const int64_t *v, size_t n,
                   const char **name, struct pare_err *err);

/* A number as a scalar constant of the element type of the value `like`. */
int pare_site_number(struct pare_site *s, const char *ending, double v, const char *like,
                     const char **name, struct pare_err *err);

/* The attribute, a list or a number, as a constant of rank 1, or of rank 0 if `scalar`; *name is
 * NULL if the node has no such attribute.  The attribute is dropped. */
int pare_site_take_ints(struct pare_site *s, const char *attr, bool scalar, const char **name,
                        struct pare_err *err);

/* The attribute, a float, as a scalar of the element type of input 0; otherwise the same. */
int pare_site_take_float(struct pare_site *s, const char *attr, const char **name,
                         struct pare_err *err);

/* Set input k; rename output k. */
int pare_site_input(struct pare_site *s, int k, const char *name, struct pare_err *err);
int pare_site_output(struct pare_site *s, int k, const char *name, struct pare_err *err);

/* Whether a node or an output uses the value in the node's graph, or in a subgraph of it. */
bool pare_site_used(const struct pare_site *s, const char *name);

int pare_site_refuse(const struct pare_site *s, const char *why, struct pare_err *err);

/* ---- upgrade_types.c ------------------------------------------------------------------------- */

/* The element type of a value; PARE_NONE: not known. */
int pare_site_dtype(struct pare_site *s, const char *name, enum pare_dtype *dtype,
                    struct pare_err *err);

/* The rank of a value, the same for all sizes of free dimensions; -1: not known. */
int pare_site_rank(struct pare_site *s, const char *name, int *rank, struct pare_err *err);

/* The contents of a constant of the main graph; NULL: not a constant, or not known. */
const struct pare_tensor *pare_site_known(const struct pare_site *s, const char *name);

#endif
