/* opset_upgrade.c - raise the opset of a model and rewrite operators that changed in between.
 *
 * A node whose operator changed between the file's opset and the new one is rewritten if it can be
 * expressed in the new form.  Otherwise the upgrade fails with the operator's name.
 */
#include <string.h>

#include "edit.h"
#include "edit_internal.h"

#define text pare_edit_text

/* ---- rewrites -------------------------------------------------------------------------------- */

static const Onnx__AttributeProto *attr_of(const Onnx__NodeProto *p, const char *name)
{
    for (size_t i = 0; i < p->n_attribute; i++)
        if (p->attribute[i]->name && !strcmp(p->attribute[i]->name, name))
            return p->attribute[i];
    return NULL;
}

static bool attr_is(const Onnx__NodeProto *p, const char *name, const char *value)
{
    const Onnx__AttributeProto *at = attr_of(p, name);

    return at && at->s.len == strlen(value) && !memcmp(at->s.data, value, at->s.len);
}

static int set_string(struct pare_edit *e, Onnx__NodeProto *p, const char *name, const char *value,
                      struct pare_err *err)
{
    return pare_edit_set_attr(e, p, pare_edit_string(e, name, value), err);
}

/* The attribute axes becomes an input. */
static int axes_to_input(struct pare_edit *e, Onnx__NodeProto *p, const char *value,
                         struct pare_err *err)
{
    const Onnx__AttributeProto *at = attr_of(p, "axes");
    struct pare_tensor t = { .dtype = PARE_I64, .rank = 1 };
    const char *name;

    if (!at)
        return 0;
    name = pare_edit_name(e, value, "_axes");
    t.dim[0] = (int64_t)at->n_ints;
    t.data = at->ints;
    if (!name)
        return pare_edit_no_memory(err);
    PARE_TRY(pare_edit_constant(e, name, &t, err));
    PARE_TRY(pare_edit_drop_attr(e, p, "axes", err));
    return pare_edit_rewire(e, value, 1, name, err);
}

/* Without a list of sizes, opset 18 needs the number of outputs. */
static int split_outputs(struct pare_edit *e, Onnx__NodeProto *p, const char *value,
                         struct pare_err *err)
{
    (void)value;
    if (p->n_input > 1 && *p->input[1])
        return 0;
    return pare_edit_set_attr(e, p, pare_edit_int(e, "num_outputs", (int64_t)p->n_output), err);
}

static int roi_mode(struct pare_edit *e, Onnx__NodeProto *p, const char *value,
                    struct pare_err *err)
{
    (void)value;
    return set_string(e, p, "coordinate_transformation_mode", "output_half_pixel", err);
}

static int grid_mode(struct pare_edit *e, Onnx__NodeProto *p, const char *value,
                     struct pare_err *err)
{
    (void)value;
    if (attr_is(p, "mode", "bilinear"))
        return set_string(e, p, "mode", "linear", err);
    return attr_is(p, "mode", "bicubic") ? set_string(e, p, "mode", "cubic", err) : 0;
}

/* Only outputs that are used in training changed. */
static int no_training_outputs(struct pare_edit *e, Onnx__NodeProto *p, const char *value,
                               struct pare_err *err)
{
    (void)e;
    for (size_t i = 1; i < p->n_output; i++)
        if (*p->output[i])
            return pare_fail(err, PARE_EUNSUPPORTED, "the %s that makes '%s' has training outputs",
                             p->op_type, value);
    return 0;
}

static int resize_mode(struct pare_edit *e, Onnx__NodeProto *p, const char *value,
                       struct pare_err *err)
{
    (void)e;
    if (attr_is(p, "coordinate_transformation_mode", "tf_half_pixel_for_nn"))
        return pare_fail(err, PARE_EUNSUPPORTED,
                         "the Resize that makes '%s' has the mode tf_half_pixel_for_nn", value);
    return 0;
}

/* ---- changed operators ----------------------------------------------------------------------- */

/* Operators whose attributes, inputs or meaning changed in this opset. */
static const struct change {
    const char *type;
    int version;
    int (*fix)(struct pare_edit *e, Onnx__NodeProto *p, const char *value,
               struct pare_err *err); /* NULL: cannot be rewritten */
} changes[] = {
    { "BatchNormalization", 9, NULL },
    { "Upsample", 10, NULL },
    { "Dropout", 12, NULL },
    { "Slice", 10, NULL },
    { "TopK", 11, NULL },
    { "Resize", 11, NULL },
    { "Clip", 11, NULL },
    { "Pad", 11, NULL },
    { "Softmax", 13, NULL },
    { "LogSoftmax", 13, NULL },
    { "Hardmax", 13, NULL },
    { "Squeeze", 13, NULL },
    { "Unsqueeze", 13, NULL },
    { "Split", 13, NULL },
    { "ReduceSum", 13, NULL },
    { "Scatter", 11, NULL },
    { "Loop", 11, NULL },
    { "Scan", 9, NULL },
    { "ArgMax", 12, NULL },
    { "ArgMin", 12, NULL },
    { "OneHot", 11, NULL },
    { "Gather", 11, NULL },
    { "AveragePool", 10, NULL },
    { "Resize", 13, resize_mode },
    { "BatchNormalization", 14, no_training_outputs },
    { "RoiAlign", 16, roi_mode },
    { "ReduceL1", 18, axes_to_input },
    { "ReduceL2", 18, axes_to_input },
    { "ReduceLogSum", 18, axes_to_input },
    { "ReduceLogSumExp", 18, axes_to_input },
    { "ReduceMax", 18, axes_to_input },
    { "ReduceMean", 18, axes_to_input },
    { "ReduceMin", 18, axes_to_input },
    { "ReduceProd", 18, axes_to_input },
    { "ReduceSumSquare", 18, axes_to_input },
    { "Split", 18, split_outputs },
    { "DFT", 20, NULL },
    { "GridSample", 20, grid_mode },
    { "GroupNormalization", 21, NULL },
};

#define N_CHANGES (sizeof(changes) / sizeof(*changes))

static bool is_own(const char *domain)
{
    return !domain || !*domain || !strcmp(domain, "ai.onnx");
}

static Onnx__OperatorSetIdProto **own_set(const struct pare_edit *e)
{
    for (size_t i = 0; i < e->model.n_opset_import; i++)
        if (is_own(e->model.opset_import[i]->domain))
            return &e->model.opset_import[i];
    return NULL;
}

int64_t pare_edit_version(const struct pare_edit *e)
{
    Onnx__OperatorSetIdProto **set = own_set(e);

    return set && (*set)->has_version ? (*set)->version : 1;
}

/* ---- the upgrade ----------------------------------------------------------------------------- */

struct upgrade {
    struct pare_edit *e;
    int64_t from, to;
};

static bool applies(const struct upgrade *r, const struct change *c, const Onnx__NodeProto *p)
{
    return c->version > r->from && c->version <= r->to && is_own(p->domain) && p->op_type &&
           !strcmp(c->type, p->op_type);
}

static int refuse(const struct upgrade *r, const struct change *c, const char *where,
                  struct pare_err *err)
{
    return pare_fail(err, PARE_EUNSUPPORTED,
                     "the model has opset %lld, its quantized types need %lld, and %s%s changed in "
                     "%d; export the model again with opset %lld",
                     (long long)r->from, (long long)r->to, c->type, where, c->version,
                     (long long)r->to);
}

/* Nodes of subgraphs are not rewritten. */
static int check_inside(const struct upgrade *r, const Onnx__GraphProto *g, struct pare_err *err);

static int check_graphs(const struct upgrade *r, const Onnx__NodeProto *p, struct pare_err *err)
{
    for (size_t i = 0; i < p->n_attribute; i++) {
        const Onnx__AttributeProto *at = p->attribute[i];

        if (at->g)
            PARE_TRY(check_inside(r, at->g, err));
        for (size_t k = 0; k < at->n_graphs; k++)
            PARE_TRY(check_inside(r, at->graphs[k], err));
    }
    return 0;
}

static int check_inside(const struct upgrade *r, const Onnx__GraphProto *g, struct pare_err *err)
{
    for (size_t i = 0; i < g->n_node; i++) {
        for (size_t k = 0; k < N_CHANGES; k++)
            if (applies(r, &changes[k], g->node[i]))
                return refuse(r, &changes[k], " (in a subgraph)", err);
        PARE_TRY(check_graphs(r, g->node[i], err));
    }
    return 0;
}

/* Refuse before anything is changed. */
static int check(const struct upgrade *r, struct pare_err *err)
{
    for (int i = 0; i < r->e->n_file; i++) {
        const Onnx__NodeProto *p = r->e->slot[i].p;

        for (size_t k = 0; p && k < N_CHANGES; k++)
            if (applies(r, &changes[k], p) && !changes[k].fix)
                return refuse(r, &changes[k], "", err);
        if (p)
            PARE_TRY(check_graphs(r, p, err));
    }
    if (r->to > 13 && r->e->model.n_functions)
        return pare_fail(err, PARE_EUNSUPPORTED,
                         "the model has opset %lld and local functions, its quantized types need "
                         "%lld; export the model again",
                         (long long)r->from, (long long)r->to);
    return 0;
}

static const char *output_of(const Onnx__NodeProto *p)
{
    for (size_t i = 0; i < p->n_output; i++)
        if (*p->output[i])
            return p->output[i];
    return NULL;
}

static int rewrite(const struct upgrade *r, struct pare_err *err)
{
    for (int i = 0; i < r->e->n_file; i++) {
        const Onnx__NodeProto *p = r->e->slot[i].p;
        const char *value = p ? output_of(p) : NULL;
        struct pare_edit_slot *slot;

        for (size_t k = 0; value && k < N_CHANGES; k++)
            if (applies(r, &changes[k], p)) {
                PARE_TRY(pare_edit_own(r->e, value, &slot, err));
                PARE_TRY(changes[k].fix(r->e, slot->p, value, err));
                p = slot->p;
            }
    }
    return 0;
}

int pare_edit_opset(struct pare_edit *e, int64_t version, struct pare_err *err)
{
    Onnx__OperatorSetIdProto **set = own_set(e), *copy;
    int ir = version >= 21 ? 10 : 7; /* the IR versions of opsets 21 and 13 */
    struct upgrade r = { e, pare_edit_version(e), version };

    if (e->model.ir_version < ir)
        e->model.ir_version = ir;
    e->model.has_ir_version = true;
    if (r.from >= version)
        return 0;
    if (!set || version > 21 || r.from < 7)
        return pare_fail(err, PARE_EUNSUPPORTED,
                         "the model has opset %lld, its quantized types need %lld; export it again",
                         (long long)r.from, (long long)version);
    PARE_TRY(check(&r, err));
    PARE_TRY(rewrite(&r, err));
    copy = pare_alloc(e->a, 1, sizeof(*copy));
    if (!copy)
        return pare_edit_no_memory(err);
    *copy = **set;
    copy->version = version;
    *set = copy;
    return 0;
}

int pare_edit_import(struct pare_edit *e, const char *domain, int64_t version, struct pare_err *err)
{
    Onnx__OperatorSetIdProto *set, **list;

    for (size_t i = 0; i < e->model.n_opset_import; i++)
        if (e->model.opset_import[i]->domain && !strcmp(e->model.opset_import[i]->domain, domain))
            return 0;
    set = pare_alloc(e->a, 1, sizeof(*set));
    list = pare_alloc(e->a, e->model.n_opset_import + 1, sizeof(*list));
    if (!set || !list)
        return pare_edit_no_memory(err);
    onnx__operator_set_id_proto__init(set);
    set->domain = text(domain);
    set->has_version = true;
    set->version = version;
    for (size_t i = 0; i < e->model.n_opset_import; i++)
        list[i] = e->model.opset_import[i];
    list[e->model.n_opset_import] = set;
    e->model.opset_import = list;
    e->model.n_opset_import++;
    return 0;
}
