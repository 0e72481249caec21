/* own_weights.c - make weights of a loaded model writable; fix the shape of its input.
 *
 * The protobuf remains the backing store: an owned initializer's raw_data and its value share one
 * block of memory, so a change of the value is what will be saved.
 */
#include <string.h>

#include "build.h"

#define PIECE ((size_t)4 << 20)

static Onnx__TensorProto *find(const struct pare_model *m, const char *name)
{
    const Onnx__GraphProto *g = ((const Onnx__ModelProto *)m->proto)->graph;

    for (size_t i = 0; i < g->n_initializer; i++)
        if (g->initializer[i]->name && !strcmp(g->initializer[i]->name, name))
            return g->initializer[i];
    return NULL;
}

/* Copy in pieces and release the file's pages of each, so that memory holds the weights once. */
static void copy_out(const struct pare_model *m, char *to, const struct pare_value *v, size_t bytes)
{
    const char *from = v->t.data ? v->t.data : v->raw, *file = v->raw ? v->raw : from;
    bool mapped = v->raw || !(v->flags & PARE_V_OWNED);

    for (size_t at = 0; at < bytes; at += PIECE) {
        size_t n = bytes - at < PIECE ? bytes - at : PIECE;

        memcpy(to + at, from + at, n);
        if (mapped)
            pare_model_release(m, file + at, n);
    }
}

static int own(struct pare_model *m, struct pare_value *v, bool scratch, struct pare_err *err)
{
    Onnx__TensorProto *p = find(m, v->name);
    struct pare_tensor t = v->t;
    size_t bytes;

    if (!p)
        return pare_fail(err, PARE_EUNSUPPORTED,
                         "'%s' is not an initializer of the main graph; only those can be changed",
                         v->name);
    PARE_TRY(pare_tensor_size(&t, NULL, &bytes, err));
    if (p->has_raw_data && p->raw_data.data == v->t.data && v->flags & PARE_V_OWNED)
        return 0;
    if (t.dtype == PARE_I4 || t.dtype == PARE_U4 || t.dtype == PARE_STR)
        return pare_fail(err, PARE_EUNSUPPORTED, "'%s' is %s, which cannot be changed in place",
                         v->name, pare_dtype_name(t.dtype));
    if (!v->t.data && !v->raw && bytes)
        return pare_fail(err, PARE_EUNSUPPORTED, "'%s' has no contents to change", v->name);
    PARE_TRY(scratch ? pare_tensor_scratch(m->arena, &t, &m->pages, err)
                     : pare_tensor_alloc(m->arena, &t, err));
    copy_out(m, t.data, v, bytes);
    pare_model_touch(m);
    pare_set_raw_data(p, t.data, bytes);
    v->t = t;
    v->raw = NULL;
    v->flags |= PARE_V_OWNED;
    return 0;
}

int pare_model_own(struct pare_model *m, struct pare_value *v, struct pare_err *err)
{
    return own(m, v, false, err);
}

int pare_model_own_scratch(struct pare_model *m, struct pare_value *v, struct pare_err *err)
{
    return own(m, v, true, err);
}

/* ---- shapes ---------------------------------------------------------------------------------- */

static Onnx__ValueInfoProto *find_info(Onnx__ValueInfoProto **list, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (list[i]->name && !strcmp(list[i]->name, name))
            return list[i];
    return NULL;
}

/* A declared shape: the ValueInfoProto's, and the model's pare_io. */
struct declared {
    Onnx__TensorShapeProto *shape; /* NULL: none, or of another rank */
    Onnx__TensorShapeProto__Dimension *dim[PARE_MAX_RANK];
    struct pare_io *io, old;
};

struct pare_declared_shapes {
    int64_t in[PARE_MAX_RANK]; /* of the first input in the graph */
    struct declared *value;    /* the first input, then all outputs */
    int n;
};

static struct declared declared_shape(Onnx__ValueInfoProto *v, struct pare_io *io)
{
    struct declared d = { .io = io, .old = *io };

    if (!v || !v->type || v->type->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE ||
        !v->type->tensor_type->shape ||
        v->type->tensor_type->shape->n_dim != (size_t)(io->rank < 0 ? 0 : io->rank))
        return d;
    d.shape = v->type->tensor_type->shape;
    for (int i = 0; i < io->rank; i++)
        d.dim[i] = d.shape->dim[i];
    return d;
}

/* The shapes as they are now.  NULL: no memory. */
static struct pare_declared_shapes *remember_shapes(struct pare_model *m, struct pare_arena *a)
{
    Onnx__GraphProto *p = ((Onnx__ModelProto *)m->proto)->graph;
    const struct pare_value *in = pare_graph_find(m->graph, m->in[0].name);
    struct pare_declared_shapes *s = pare_alloc(a, 1, sizeof(*s));

    if (!s)
        return NULL;
    s->n = 1 + m->n_out;
    s->value = pare_alloc(a, (size_t)s->n, sizeof(*s->value));
    if (!s->value)
        return NULL;
    memcpy(s->in, in->t.dim, sizeof(s->in));
    s->value[0] = declared_shape(find_info(p->input, p->n_input, m->in[0].name), &m->in[0]);
    for (int i = 0; i < m->n_out; i++)
        s->value[1 + i] = declared_shape(find_info(p->output, p->n_output, m->out[i].name),
                                         &m->out[i]);
    return s;
}

void pare_model_restore_shapes(struct pare_model *m, const struct pare_declared_shapes *before)
{
    memcpy(pare_graph_find(m->graph, m->in[0].name)->t.dim, before->in, sizeof(before->in));
    for (int k = 0; k < before->n; k++) {
        const struct declared *d = &before->value[k];

        *d->io = d->old;
        for (int i = 0; d->shape && i < d->old.rank; i++)
            d->shape->dim[i] = d->dim[i];
    }
}

static int declare(struct pare_model *m, const struct declared *d, const struct pare_tensor *t,
                   struct pare_err *err)
{
    if (!d->shape)
        return pare_fail(err, PARE_ESHAPE, "'%s' does not declare %d dimensions", d->io->name,
                         t->rank);
    for (int i = 0; i < t->rank; i++) {
        Onnx__TensorShapeProto__Dimension *x = pare_alloc(m->arena, 1, sizeof(*x));

        if (!x)
            return pare_no_memory(err, "for a shape");
        onnx__tensor_shape_proto__dimension__init(x);
        x->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
        x->dim_value = t->dim[i];
        d->shape->dim[i] = x;
        d->io->dim[i] = t->dim[i];
        d->io->sym[i] = NULL;
    }
    return 0;
}

/* Declare the shapes of a graph that is inferred. */
static int declare_shapes(struct pare_model *m, const struct pare_declared_shapes *s,
                          const struct pare_graph *g, struct pare_err *err)
{
    const struct pare_value *in = pare_graph_find(g, m->in[0].name);

    pare_model_touch(m);
    PARE_TRY(declare(m, &s->value[0], &in->t, err));
    memcpy(pare_graph_find(m->graph, m->in[0].name)->t.dim, in->t.dim, sizeof(in->t.dim));
    for (int i = 0; i < m->n_out; i++) {
        const struct pare_value *v = pare_graph_find(g, m->out[i].name);

        if (v && v->t.dtype != PARE_NONE && m->out[i].rank == v->t.rank)
            PARE_TRY(declare(m, &s->value[1 + i], &v->t, err));
    }
    return 0;
}

/* A clone of the graph with the shapes that follow from the input's. */
static int infer_with(const struct pare_model *m, const int64_t *dim, int rank,
                      struct pare_arena *a, struct pare_graph **graph, struct pare_err *err)
{
    struct pare_graph *g = pare_graph_clone(a, m->graph, err);
    struct pare_value *in;

    if (!g)
        return err->code;
    in = pare_graph_find(g, m->in[0].name);
    in->t.rank = rank;
    memcpy(in->t.dim, dim, (size_t)rank * sizeof(*dim));
    pare_graph_bind(g, dim[0]);
    *graph = g;
    return pare_graph_infer(g, false, err);
}

static int fix_input(struct pare_model *m, const int64_t *dim, int rank, struct pare_arena *keep,
                     struct pare_declared_shapes **before, struct pare_err *err)
{
    struct pare_arena *a = pare_arena_new(1 << 16);
    struct pare_graph *g = NULL;
    int rc = a ? infer_with(m, dim, rank, a, &g, err) : pare_no_memory(err, "for shapes");

    *before = rc ? NULL : remember_shapes(m, keep);
    if (!rc && !*before)
        rc = pare_no_memory(err, "for shapes");
    if (!rc) {
        rc = declare_shapes(m, *before, g, err);
        if (rc)
            pare_model_restore_shapes(m, *before);
    }
    pare_arena_free(a);
    return rc;
}

int pare_model_fix_input(struct pare_model *m, const int64_t *dim, int rank, struct pare_arena *a,
                         struct pare_declared_shapes **before, struct pare_err *err)
{
    struct pare_declared_shapes *ignored;

    if (!m->n_in || m->in[0].rank != rank)
        return pare_fail(err, PARE_ESHAPE, "the input shape has %d dimensions, '%s' has %d", rank,
                         m->n_in ? m->in[0].name : "", m->n_in ? m->in[0].rank : 0);
    for (int i = 0; i < rank; i++)
        if (dim[i] < 1 || (m->in[0].dim[i] >= 0 && m->in[0].dim[i] != dim[i]))
            return pare_fail(err, PARE_ESHAPE,
                             "dimension %d of the input shape is %lld, the model's input has %lld",
                             i, (long long)dim[i], (long long)m->in[0].dim[i]);
    return pare_at(err, fix_input(m, dim, rank, a, before ? before : &ignored, err),
                   "fixing the input shape");
}
