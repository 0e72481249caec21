/* build.h - internals of src/onnx/: read tensors and external data, build graphs. */
#ifndef PARE_ONNX_BUILD_H
#define PARE_ONNX_BUILD_H

#include "onnx.pb-c.h"

#include "../base/arena.h"
#include "../base/options.h"
#include "../op/op.h"
#include "model.h"

/* ---- tensors and files ----------------------------------------------------------------------- */

/* A constant read from a TensorProto.  Either t.data is set, or raw is: bytes of the mapped file
 * that are not aligned.  If the tensor is valid but not supported (complex numbers, nine
 * dimensions), both are NULL and `why` is the reason. */
struct pare_const {
    struct pare_tensor t;
    const void *raw;
    const char *why;
};
int pare_const_read(struct pare_model *m, const Onnx__TensorProto *p, struct pare_const *c,
                    struct pare_err *err);

/* The bytes that the elements take in raw_data; false: unknown element type. */
bool pare_raw_size(const Onnx__TensorProto *p, uint64_t *bytes);

/* Make these bytes the tensor's only contents; they are not copied. */
void pare_set_raw_data(Onnx__TensorProto *p, void *data, size_t bytes);

/* The tensor's elements are external data: in a separate file. */
static inline bool pare_is_external(const Onnx__TensorProto *p)
{
    return p->has_data_location && p->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
}

/* The bytes of an external tensor.  The first maps the file if it is not mapped yet; for the
 * second that is an error. */
int pare_external_bytes(struct pare_model *m, const Onnx__TensorProto *p, const void **bytes,
                        size_t *len, struct pare_err *err);
int pare_external_known(const struct pare_model *m, const Onnx__TensorProto *p, const void **bytes,
                        size_t *len, struct pare_err *err);

/* Map the files of all external tensors in msg, also of those that the graph does not use. */
int pare_external_open(struct pare_model *m, const ProtobufCMessage *msg, struct pare_err *err);

/* Map a regular file into m->pages; name NULL: the model file itself. */
int pare_pages_map(struct pare_model *m, int fd, const char *name, struct pare_pages **pages,
                   struct pare_err *err);

/* An empty model; NULL on error. */
struct pare_model *pare_model_empty(struct pare_err *err);

/* Build m->graph, m->in and m->out from m->proto. */
int pare_model_build(struct pare_model *m, struct pare_err *err);

/* ---- building graphs ------------------------------------------------------------------------- */

/* State of building one file. */
struct pare_build {
    struct pare_model *m;
    struct pare_map nodes;     /* display names in use */
    struct pare_map odd;       /* initializers that cannot be read: name to reason */
    struct pare_map functions; /* struct pare_function by domain, name and overload */
    struct pare_value absent;  /* stands for an input that a function call omits */
    int64_t inlined;           /* nodes inlined from functions */
    int64_t renamed;           /* nodes renamed to be unique */
    size_t expanded;           /* bytes of functions, counted once for every call */
    size_t sparse;             /* bytes of sparse tensors converted to dense ones */
    struct pare_err *err;
};

struct pare_function;
struct pare_call;

/* The scope of names: one graph, or one call of a function inside a graph. */
struct pare_scope {
    struct pare_build *b;
    struct pare_graph *g;
    struct pare_scope *up;        /* the enclosing scope; NULL: main graph or function */
    const struct pare_map *alias; /* in a function: its names to values of g; else NULL */
    const struct pare_call *call; /* the innermost function call; NULL: none */
    const char *prefix;           /* of names in a function: "call/"; else "" */
    size_t n_imports;             /* operator sets imported here */
    Onnx__OperatorSetIdProto **imports;
    struct pare_value **cap; /* values of enclosing graphs that this graph uses */
    struct pare_map captured;
    int n_cap, cap_cap;
};

/* A call of a model function. */
struct pare_call {
    const Onnx__NodeProto *site;
    const struct pare_function *f;
    struct pare_scope *from; /* the scope of the call and of its attributes */
    struct pare_value **out;
    int depth;
};

/* Build a graph into sc->g; the other members of sc are set. */
int pare_build_graph(struct pare_scope *sc, const Onnx__GraphProto *p);

/* Add the node *at, or the nodes of the function that it calls, to sc->g; inputs are looked up in
 * sc.  `at` points into the node list of a graph or function: it becomes node->proto. */
int pare_build_any(struct pare_scope *sc, Onnx__NodeProto *const *at, struct pare_value **out);

/* The value of this name in sc or an enclosing scope; then it is recorded as captured. */
int pare_scope_find(struct pare_scope *sc, const char *name, struct pare_value **v);
int pare_scope_note(struct pare_scope *sc, struct pare_value *v);

/* Parse the attributes into n->attr, build attribute graphs, collect their captures in n->cap.
 * Attributes that do not fit the operator set n->op to NULL and n->why; only an invalid file is an
 * error. */
int pare_build_attrs(struct pare_scope *sc, const Onnx__NodeProto *p, struct pare_node *n);

/* Resolve an attribute that refers to an attribute of the function call: *p becomes that one, or
 * NULL if the call omits it, and *sc its scope. */
void pare_attr_follow(const Onnx__AttributeProto **p, struct pare_scope **sc);

/* Build a Constant node, whose output is known at once.  Whichever attribute it uses, the operator
 * gets a tensor; its data is NULL if the constant is large and still in the file. */
int pare_build_constant(struct pare_scope *sc, const Onnx__NodeProto *p, struct pare_node *n);
int pare_constant_attr(struct pare_build *b, struct pare_node *n, const struct pare_tensor *t);

/* The function that p calls, or NULL. */
const struct pare_function *pare_find_function(const struct pare_build *b,
                                               const Onnx__NodeProto *p);
int pare_build_functions(struct pare_build *b);
const Onnx__FunctionProto *pare_function_proto(const struct pare_function *f);

/* The attribute of the call, or the function's default; NULL: neither. */
const Onnx__AttributeProto *pare_call_attr(const struct pare_call *call, const char *name);

/* Inline the function's nodes in place of the call; out[] are the call's outputs. */
int pare_build_call(struct pare_scope *sc, const Onnx__NodeProto *p, const struct pare_function *f,
                    struct pare_value **out);

/* Set a value to a constant. */
int pare_build_const(struct pare_build *b, struct pare_value *v, const Onnx__TensorProto *p);
int pare_build_sparse(struct pare_build *b, struct pare_value *v, const Onnx__SparseTensorProto *p);

#endif
