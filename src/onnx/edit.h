/* edit.h - another file from a loaded model's: nodes and constants added, inputs rewired.
 *
 * An edit is a copy that shares all that did not change; the model stays as it is.
 *
 *     pare_edit_new(model, arena, &e, err);
 *     pare_edit_constant(e, "w_quantized", &q, err);      ... scale and zero point too ...
 *     pare_edit_drop_constant(e, "w", err);               its name is free now ...
 *     pare_edit_insert(e, &(struct pare_edit_node){ ... .out = "w" }, err);   ... for the new one
 *     pare_edit_save(e, "new.onnx", err);
 */
#ifndef PARE_ONNX_EDIT_H
#define PARE_ONNX_EDIT_H

#include "model.h"

#define PARE_EDIT_INPUTS 9

struct pare_edit;

/* All of it lives in the arena; the model must outlive it. */
int pare_edit_new(const struct pare_model *m, struct pare_arena *a, struct pare_edit **edit,
                  struct pare_err *err);

/* The file's version of ONNX's operators is at least this (opset_upgrade.c).  Operators whose form has
 * changed since theirs get the new one; what cannot be said in it is refused. */
int pare_edit_opset(struct pare_edit *e, int64_t version, struct pare_err *err);
int64_t pare_edit_version(const struct pare_edit *e);

/* The file has operators of another domain. */
int pare_edit_import(struct pare_edit *e, const char *domain, int64_t version,
                     struct pare_err *err);

/* base + ending, with a number behind when that is taken; nobody else gets it.  NULL: no memory. */
const char *pare_edit_name(struct pare_edit *e, const char *base, const char *ending);

/* An initializer; its elements are not copied and must live as long as the edit. */
int pare_edit_constant(struct pare_edit *e, const char *name, const struct pare_tensor *t,
                       struct pare_err *err);
int pare_edit_drop_constant(struct pare_edit *e, const char *name, struct pare_err *err);

#define PARE_EDIT_ATTRS 4

struct pare_edit_node {
    const char *type, *name;
    const char *domain;               /* NULL: ONNX's own */
    const char *in[PARE_EDIT_INPUTS]; /* "": left out; NULL ends them */
    const char *out;
    int axis; /* -1: no such attribute */
    struct {
        const char *name; /* NULL ends them */
        int64_t v;
    } attr[PARE_EDIT_ATTRS]; /* more of them */
};

/* Behind the nodes that make its inputs. */
int pare_edit_insert(struct pare_edit *e, const struct pare_edit_node *n, struct pare_err *err);

/* The node of the main graph that makes `value` makes `name` instead.  Whoever uses `value` waits
 * for somebody else to make it. */
int pare_edit_rename(struct pare_edit *e, const char *value, const char *name,
                     struct pare_err *err);

/* Input k of the node that makes `value`; one behind the last is added. */
int pare_edit_rewire(struct pare_edit *e, const char *value, int k, const char *name,
                     struct pare_err *err);

/* The node that makes `value` is gone. */
int pare_edit_remove(struct pare_edit *e, const char *value, struct pare_err *err);

/* Operators between integers become those of integers, where the pattern is there (qoperator.c).
 * *n: how many. */
int pare_edit_qoperator(struct pare_edit *e, int *n, struct pare_err *err);

/* What save() would write, loaded; it refers to memory in the edit's arena. */
int pare_edit_model(struct pare_edit *e, struct pare_model **model, struct pare_err *err);

int pare_edit_save(struct pare_edit *e, const char *path, struct pare_err *err);

#endif
