/* edit_internal.h - what an edit is made of, for those who look for patterns in it. */
#ifndef PARE_ONNX_EDIT_INTERNAL_H
#define PARE_ONNX_EDIT_INTERNAL_H

#include "build.h"
#include "edit.h"

struct pare_edit {
    const struct pare_model *m;
    struct pare_arena *a;
    Onnx__ModelProto model;
    Onnx__GraphProto graph;
    int n_old; /* nodes of the file */
    struct pare_edit_slot {
        Onnx__NodeProto *p; /* NULL: it is gone */
        bool own;           /* a copy, open to change */
        int after;          /* of inserted nodes: the file's node that it follows; -1: none */
    } * slot;               /* the file's, then the inserted ones */
    int n, cap, cap_const;
    struct pare_map maker; /* names of values to their slots */
    struct pare_map names; /* all that are taken */
};

/* The structs of protobuf-c have no const; nothing is written through these. */
static inline char *pare_edit_text(const char *s)
{
    return (char *)(uintptr_t)s;
}

/* An attribute; NULL: no memory. */
Onnx__AttributeProto *pare_edit_int(struct pare_edit *e, const char *name, int64_t v);

/* The node that makes a value, open to change; its attributes are still shared. */
int pare_edit_own(struct pare_edit *e, const char *value, struct pare_edit_slot **slot,
                  struct pare_err *err);

/* The slot that makes a value; NULL: an input, an initializer, or nobody. */
struct pare_edit_slot *pare_edit_maker(const struct pare_edit *e, const char *value);

#endif
