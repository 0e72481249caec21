/* build.h - what the files of this folder share: reading a file's parts, building its graphs. */
#ifndef PARE_ONNX_BUILD_H
#define PARE_ONNX_BUILD_H

#include "onnx.pb-c.h"

#include "../base/arena.h"
#include "../base/options.h"
#include "../op/op.h"
#include "model.h"

/* ---- parts of the file ------------------------------------------------------- */

/* A constant as a TensorProto says it.  Either t.data is set, or raw is: bytes in the file that
 * are not aligned.  When it is sound but not something we handle (complex numbers, nine
 * dimensions), *why says so and both are NULL. */
struct pare_const {
    struct pare_tensor t;
    const void *raw;
    const char *why;
};
int pare_const_read(struct pare_model *m, const Onnx__TensorProto *p, struct pare_const *c,
                    struct pare_err *err);

/* How many bytes the elements take in raw_data; false when we do not know the element type. */
bool pare_raw_size(const Onnx__TensorProto *p, uint64_t *bytes);

/* Point the tensor to these elements; forget where it had them. */
void pare_set_raw_data(Onnx__TensorProto *p, void *data, size_t bytes);

/* The tensor's elements are in a file beside the model. */
static inline bool pare_is_external(const Onnx__TensorProto *p)
{
    return p->has_data_location && p->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
}

/* The bytes of such a tensor; the second wants the file to be mapped already. */
int pare_external_bytes(struct pare_model *m, const Onnx__TensorProto *p, const void **bytes,
                        size_t *len, struct pare_err *err);
int pare_external_known(const struct pare_model *m, const Onnx__TensorProto *p, const void **bytes,
                        size_t *len, struct pare_err *err);

/* Map the files of all such tensors in msg, also those that the graph does not use. */
int pare_external_open(struct pare_model *m, const ProtobufCMessage *msg, struct pare_err *err);

/* Map a regular file; err names `name`. */
int pare_pages_map(struct pare_model *m, int fd, const char *name, struct pare_pages **pages,
                   struct pare_err *err);

/* A model with nothing in it yet; NULL on error. */
struct pare_model *pare_model_empty(struct pare_err *err);

/* Build m->graph, m->in and m->out from m->proto. */
int pare_model_build(struct pare_model *m, struct pare_err *err);

/* ---- building graphs ---------------------------------------------------------- */

/* What holds for the whole file. */
struct pare_build {
    struct pare_model *m;
    struct pare_map nodes;     /* display names that are taken */
    struct pare_map odd;       /* names of initializers we cannot read, to the reason */
    struct pare_map functions; /* struct pare_function by domain, name and overload */
    struct pare_value absent;  /* stands for an input that a call leaves out */
    int64_t inlined, renamed;  /* nodes that came from functions; that got a number */
    size_t expanded;           /* bytes of functions, once for every call */
    size_t sparse;             /* bytes of sparse tensors written out */
    struct pare_err *err;
};

struct pare_function;
struct pare_call;

/* Where names are looked up: one graph, or one call of a function inside a graph. */
struct pare_scope {
    struct pare_build *b;
    struct pare_graph *g;
    struct pare_scope *up;        /* the scope around; NULL for the main graph and functions */
    const struct pare_map *alias; /* in a function: its names to values of g; else NULL */
    const struct pare_call *call; /* the innermost call of a function; NULL outside */
    const char *prefix;           /* of names in a function: "call/"; else "" */
    size_t n_imports;             /* versions of operator sets that hold here */
    Onnx__OperatorSetIdProto **imports;
    struct pare_value **cap; /* values of graphs around that this graph uses */
    struct pare_map captured;
    int n_cap, cap_cap;
};

/* A call of a model function. */
struct pare_call {
    const Onnx__NodeProto *site;
    const struct pare_function *f;
    struct pare_scope *from; /* where the call stands; its attributes belong there */
    struct pare_value **out;
    int depth;
};

/* Build a graph as sc->g; the rest of sc is set. */
int pare_build_graph(struct pare_scope *sc, const Onnx__GraphProto *p);

/* Add the node, or the function that it calls, to sc->g; inputs are looked up in sc. */
int pare_build_any(struct pare_scope *sc, Onnx__NodeProto *const *at, struct pare_value **out);

/* The value of that name in sc or around it, noted as captured when it is from around. */
int pare_scope_find(struct pare_scope *sc, const char *name, struct pare_value **v);
int pare_scope_note(struct pare_scope *sc, struct pare_value *v);

/* Attributes to settings, to n->attr.  Sets n->op to NULL and n->why when they do not fit;
 * an error is only what makes the file unsound.  Graphs are built and their captures collected
 * in n->cap. */
int pare_build_attrs(struct pare_scope *sc, const Onnx__NodeProto *p, struct pare_node *n);

/* Inside a function, an attribute may stand for one of the call's.  *p becomes NULL when the
 * call does not give it, and *sc the scope that it was written in. */
void pare_attr_follow(const Onnx__AttributeProto **p, struct pare_scope **sc);

/* A Constant node: its output is known now.  Whatever form its attribute has, the operator is
 * given a tensor, which has no data when the constant is large and still in the file. */
int pare_build_constant(struct pare_scope *sc, const Onnx__NodeProto *p, struct pare_node *n);
int pare_constant_attr(struct pare_build *b, struct pare_node *n, const struct pare_tensor *t);

/* The function that p calls, or NULL. */
const struct pare_function *pare_find_function(const struct pare_build *b,
                                               const Onnx__NodeProto *p);
int pare_build_functions(struct pare_build *b);

/* The attribute that the call gives, or the function's own default; NULL when there is none. */
const Onnx__AttributeProto *pare_call_attr(const struct pare_call *call, const char *name);

/* Put the function's nodes in the place of the call; out[] are the call's outputs. */
int pare_build_call(struct pare_scope *sc, const Onnx__NodeProto *p, const struct pare_function *f,
                    struct pare_value **out);

/* Constants into values. */
int pare_build_const(struct pare_build *b, struct pare_value *v, const Onnx__TensorProto *p);
int pare_build_sparse(struct pare_build *b, struct pare_value *v, const Onnx__SparseTensorProto *p);

#endif
