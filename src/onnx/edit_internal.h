/* edit_internal.h - the state of an edit, for the files that implement edits. */
#ifndef PARE_ONNX_EDIT_INTERNAL_H
#define PARE_ONNX_EDIT_INTERNAL_H

#include "build.h"
#include "edit.h"
#include "wire.h"

struct pare_edit {
    const struct pare_model *from;
    struct pare_model *to; /* the new model, without a graph until pare_edit_model() */
    struct pare_arena *a;  /* to->arena; the edit itself is in it */
    Onnx__ModelProto model;
    Onnx__GraphProto graph; /* its node list is set when the edit ends, from `slot` */
    int n_file;             /* slots of the file's nodes; inserted nodes follow */
    struct pare_edit_slot {
        Onnx__NodeProto *p; /* NULL: removed */
        bool own;           /* p is a copy that may be changed */
        int after;          /* inserted nodes: the file's node that they follow; -1: none */
    } * slot;
    int n, cap;                /* slots */
    int cap_constant;          /* of graph.initializer */
    struct pare_map maker;     /* name of a value to its slot + 1 */
    struct pare_map constants; /* name of an initializer to its TensorProto */
    struct pare_map names;     /* names that are taken, see edit.c */
    struct pare_map stale;     /* names of values whose declared shape is dropped */
    int64_t numbered;          /* numbers given out by pare_edit_add_constant() */

    struct pare_edit *root;   /* the edit of the main graph, which has names and constants */
    struct pare_edit *bodies; /* edits of bodies of this graph's nodes, a list by `next` */
    struct pare_edit *next;
    int owner;        /* of a body: the slot of its node in the edit around it */
    const char *attr; /* of a body: the attribute of that node */
};

/* protobuf-c structs have no const; nothing is written through these pointers. */
static inline char *pare_edit_text(const char *s)
{
    return (char *)(uintptr_t)s;
}

int pare_edit_no_memory(struct pare_err *err);

/* Fill the slots from the graph's nodes; and the other way, in the order of the file, each node
 * followed by the nodes that were inserted after it. */
int pare_edit_copy_nodes(struct pare_edit *e, struct pare_err *err);
int pare_edit_list_nodes(struct pare_edit *e, struct pare_err *err);

/* Set the bodies that were edited as attributes of their nodes. */
int pare_edit_close_bodies(struct pare_edit *e, struct pare_err *err);

/* A name for a value: `base`, or base + ".1", ... if it is taken; reserved.  NULL: no memory. */
const char *pare_edit_value_name(struct pare_edit *e, const char *base);

/* Reserve a value's name. */
int pare_edit_reserve(struct pare_edit *e, const char *name, struct pare_err *err);

/* Record that slot `slot` makes `value`. */
int pare_edit_set_maker(struct pare_edit *e, const char *value, int slot, struct pare_err *err);

/* The slot that makes a value; NULL: an input, an initializer, or unknown. */
struct pare_edit_slot *pare_edit_maker(const struct pare_edit *e, const char *value);

/* The same, with a NodeProto that may be changed; attributes stay shared.  No such slot: error. */
int pare_edit_own(struct pare_edit *e, const char *value, struct pare_edit_slot **slot,
                  struct pare_err *err);

/* Make the node of a slot one that may be changed. */
int pare_edit_own_slot(struct pare_edit *e, struct pare_edit_slot *s, struct pare_err *err);

/* Set input k of an owned node; inputs between its last one and k become absent. */
int pare_edit_put_input(struct pare_edit *e, Onnx__NodeProto *p, int k, const char *name,
                        struct pare_err *err);

/* A new node that is not in the graph; NULL: no memory. */
Onnx__NodeProto *pare_edit_make(struct pare_edit *e, const struct pare_edit_node *n);

/* A new TensorProto that refers to the elements of t. */
int pare_edit_tensor(struct pare_edit *e, const char *name, const struct pare_tensor *t,
                     Onnx__TensorProto **tensor, struct pare_err *err);

/* A new list of the n pointers at p, with room for one more; NULL: no memory. */
void *pare_edit_copy_list(struct pare_edit *e, const void *p, size_t n);

/* A new attribute, the first without a value; NULL: no memory. */
Onnx__AttributeProto *pare_edit_attr(struct pare_edit *e, const char *name, int type);
Onnx__AttributeProto *pare_edit_int(struct pare_edit *e, const char *name, int64_t v);
Onnx__AttributeProto *pare_edit_string(struct pare_edit *e, const char *name, const char *v);

/* Replace the attribute of the same name in an owned node, or add it.  attr NULL: no memory. */
int pare_edit_set_attr(struct pare_edit *e, Onnx__NodeProto *p, Onnx__AttributeProto *attr,
                       struct pare_err *err);
int pare_edit_drop_attr(struct pare_edit *e, Onnx__NodeProto *p, const char *name,
                        struct pare_err *err);

/* Drop the graph input of an initializer: files before IR version 4 list initializers as inputs. */
void pare_edit_drop_graph_input(struct pare_edit *e, const char *name);

#endif
