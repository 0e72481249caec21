/* pattern.c - the canonical pass: find patterns and replace them, in a clone. */
#include "pattern.h"

#include <math.h>
#include <string.h>

#include "../../base/arena.h"
#include "../../op/op.h"
#include "../../tensor/tensor.h"

#define PATTERN(name) extern const struct pare_pattern pare_pattern_##name;
#include "patterns.def"
#undef PATTERN

static const struct pare_pattern *const patterns[] = {
#define PATTERN(name) &pare_pattern_##name,
#include "patterns.def"
#undef PATTERN
};

/* Of constants that exporters round, such as 1.4142 for the root of 2. */
#define TOLERANCE 2e-5

/* ---- for patterns -------------------------------------------------------------------------- */

bool pare_value_scalar(const struct pare_value *v, double *x)
{
    if (!v || !(v->flags & PARE_V_CONST) || v->t.dtype != PARE_F32 || !v->t.data ||
        pare_numel(&v->t) != 1)
        return false;
    *x = (double)pare_f32(&v->t)[0];
    return true;
}

bool pare_value_near(const struct pare_value *v, double want)
{
    double x;

    return pare_value_scalar(v, &x) && fabs(x / want - 1) < TOLERANCE;
}

bool pare_found_add(struct pare_found *f, struct pare_node *n)
{
    for (int i = 0; i < f->n; i++)
        if (f->node[i] == n)
            return true;
    if (f->n == PARE_PATTERN_NODES)
        return false;
    f->node[f->n++] = n;
    return true;
}

struct pare_node *pare_found_maker(struct pare_found *f, const struct pare_value *v,
                                   const struct pare_op *op)
{
    struct pare_node *n = v && !(v->flags & PARE_V_CONST) ? v->maker : NULL;

    return pare_node_is(n, op) && n->out[0] == v && pare_found_add(f, n) ? n : NULL;
}

/* ---- matches ------------------------------------------------------------------------------- */

struct scan {
    struct pare_graph *g;
    int *uses;   /* per value: how often it is read; the model's outputs count */
    bool *taken; /* per node: it is part of a match */
};

static bool is_own(const struct pare_graph *g, const struct pare_value *v)
{
    return v && v->id >= 0 && v->id < g->n_values && g->value[v->id] == v;
}

static int scan_new(struct scan *s, struct pare_err *err)
{
    const struct pare_graph *g = s->g;

    s->uses = pare_alloc(g->arena, (size_t)g->n_values + 1, sizeof(*s->uses));
    s->taken = pare_alloc(g->arena, (size_t)g->n_nodes + 1, sizeof(*s->taken));
    if (!s->uses || !s->taken)
        return pare_no_memory(err, "to find patterns");
    for (int i = 0; i < g->n_values; i++)
        s->uses[i] = (g->value[i]->flags & PARE_V_OUTPUT) != 0;
    for (int i = 0; i < g->n_nodes; i++) {
        const struct pare_node *n = g->node[i];

        for (int k = 0; k < n->n_in + n->n_cap; k++) {
            const struct pare_value *v = k < n->n_in ? n->in[k] : n->cap[k - n->n_in];

            if (is_own(g, v))
                s->uses[v->id]++;
        }
    }
    return 0;
}

/* Is every result but the last one read by nodes of the match only, and is none of these part of
 * another match? */
static bool is_closed(const struct scan *s, const struct pare_found *f)
{
    for (int i = 0; i < f->n; i++) {
        const struct pare_node *n = f->node[i];
        const struct pare_value *y = n->out[0];
        int inside = 0;

        if (s->taken[n->id] || n->n_cap)
            return false;
        for (int k = 1; k < n->n_out; k++)
            if (n->out[k])
                return false;
        for (int j = 0; j < f->n; j++)
            for (int k = 0; k < f->node[j]->n_in; k++)
                inside += f->node[j]->in[k] == y;
        if (i && inside != s->uses[y->id])
            return false;
    }
    return true;
}

static bool find(const struct scan *s, enum pare_pattern_kind kind, struct pare_node *last,
                 struct pare_found *f)
{
    for (size_t i = 0; i < sizeof(patterns) / sizeof(*patterns); i++) {
        *f = (struct pare_found){ .pattern = patterns[i], .node = { last }, .n = 1 };
        if (patterns[i]->kind == kind &&
            (patterns[i]->match ? patterns[i]->match(s->g, last, f)
                                : pare_found_pointwise(f, last)) &&
            (kind == PARE_PATTERN_ATTENTION ||
             (pare_same_shape(&f->x->t, &last->out[0]->t) && is_closed(s, f))))
            return true;
    }
    return false;
}

/* ---- replacing ----------------------------------------------------------------------------- */

/* A list of one number per channel, as the operator takes it: v, v as a list, or ones. */
static struct pare_value *make_row(struct pare_graph *g, const struct pare_found *f,
                                   struct pare_value *v, struct pare_err *err)
{
    int64_t n = f->x->t.dim[f->x->t.rank - 1];
    struct pare_value *row;
    char *name;

    if (v && v->t.rank == 1)
        return v;
    name = pare_sprintf(g->arena, "%s of %d", v ? v->name : "ones", f->node[0]->id);
    row = name ? pare_graph_value(g, name, err) : NULL;
    if (!row) {
        pare_no_memory(err, "for a pattern");
        return NULL;
    }
    row->flags = PARE_V_CONST;
    row->t = (struct pare_tensor){ .dtype = PARE_F32, .rank = 1, .dim = { n } };
    if (v) {
        row->t.data = v->t.data;
        row->raw = v->raw;
        return row;
    }
    if (pare_tensor_alloc(g->arena, &row->t, err))
        return NULL;
    for (int64_t i = 0; i < n; i++)
        pare_f32_mut(&row->t)[i] = 1;
    return row;
}

/* The indices of a shuffle, a constant. */
static struct pare_value *make_order(struct pare_graph *g, const struct pare_found *f,
                                     struct pare_err *err)
{
    char *name = pare_sprintf(g->arena, "order of %d", f->node[0]->id);
    struct pare_value *v;

    for (int i = 2; name && pare_map_get(&g->names, name); i++)
        name = pare_sprintf(g->arena, "order of %d, %d", f->node[0]->id, i);
    v = name ? pare_graph_value(g, name, err) : NULL;
    if (!v) {
        pare_no_memory(err, "for a pattern");
        return NULL;
    }
    v->flags = PARE_V_CONST;
    v->t = (struct pare_tensor){ .dtype = PARE_I64,
                                 .rank = 1,
                                 .dim = { f->x->t.dim[f->setting.whole] } };
    if (pare_tensor_alloc(g->arena, &v->t, err))
        return NULL;
    pare_found_order(f, v->t.data);
    return v;
}

static int set_inputs(struct pare_graph *g, const struct pare_found *f, struct pare_node *n,
                      struct pare_err *err)
{
    bool rows = f->pattern->kind == PARE_PATTERN_ROWS;
    bool shuffle = f->pattern->kind == PARE_PATTERN_SHUFFLE;

    n->n_in = rows ? 2 + (f->bias != NULL) : 1 + shuffle;
    n->in = pare_alloc(g->arena, (size_t)n->n_in, sizeof(*n->in));
    if (!n->in)
        return pare_no_memory(err, "for a pattern");
    n->in[0] = f->x;
    if (shuffle && !(n->in[1] = make_order(g, f, err)))
        return err->code;
    if (rows && !(n->in[1] = make_row(g, f, f->scale, err)))
        return err->code;
    if (f->bias && !(n->in[2] = make_row(g, f, f->bias, err)))
        return err->code;
    return 0;
}

static int set_attributes(struct pare_graph *g, const struct pare_found *f, struct pare_node *n,
                          struct pare_err *err)
{
    struct pare_setting epsilon = { .name = "epsilon", .type = PARE_OPT_FLOAT, .num = f->epsilon };
    const struct pare_setting *set = f->pattern->kind == PARE_PATTERN_ROWS ? &epsilon : &f->setting;
    void *attr = pare_alloc(g->arena, 1, n->op->attr_size + 1);

    if (!attr)
        return pare_no_memory(err, "for a pattern");
    n->attr = attr;
    if (!n->op->attrs)
        return 0;
    return pare_opts_apply(n->op->attrs, set, set->name != NULL, attr, g->arena, err);
}

static int replace(struct scan *s, const struct pare_found *f, struct pare_err *err)
{
    struct pare_node *n = f->node[0], *was = pare_alloc(s->g->arena, 1, sizeof(*was));
    struct pare_node **parts = pare_alloc(s->g->arena, (size_t)f->n, sizeof(*parts));

    if (!was || !parts)
        return pare_no_memory(err, "for a pattern");
    *was = *n;
    for (int i = 0; i < f->n; i++)
        parts[i] = i ? f->node[i] : was;
    n->op = f->pattern->op;
    n->type = n->op->type;
    n->domain = "";
    n->version = f->pattern->version;
    n->parts = parts;
    n->n_parts = f->n;
    for (int i = 0; i < f->n; i++) {
        s->taken[f->node[i]->id] = true;
        f->node[i]->replaced = i > 0;
    }
    PARE_TRY(set_inputs(s->g, f, n, err));
    return set_attributes(s->g, f, n, err);
}

/* Can the node be the last one of a match? */
static bool is_candidate(const struct scan *s, const struct pare_node *n)
{
    return !s->taken[n->id] && n->op && n->n_out && n->out[0] && n->out[0]->t.dtype == PARE_F32 &&
           !(n->out[0]->flags & PARE_V_CONST);
}

int pare_graph_canonical(struct pare_graph *g, enum pare_pattern_kind kind, struct pare_err *err)
{
    struct scan s = { .g = g };
    struct pare_found f;

    PARE_TRY(scan_new(&s, err));
    for (int i = g->n_nodes - 1; i >= 0; i--)
        if (is_candidate(&s, g->node[i]) && find(&s, kind, g->node[i], &f))
            PARE_TRY(replace(&s, &f, err));
    return 0;
}

int pare_graph_attention(const struct pare_graph *g, const struct pare_attention_parts ***part_of,
                         struct pare_err *err)
{
    struct scan s = { .g = (struct pare_graph *)g };
    struct pare_found f;

    PARE_TRY(scan_new(&s, err));
    *part_of = pare_alloc(g->arena, (size_t)g->n_nodes + 1, sizeof(**part_of));
    if (!*part_of)
        return pare_no_memory(err, "to find patterns");
    for (int i = g->n_nodes - 1; i >= 0; i--) {
        struct pare_attention_parts *p;

        if (!is_candidate(&s, g->node[i]) || !find(&s, PARE_PATTERN_ATTENTION, g->node[i], &f))
            continue;
        p = pare_alloc(g->arena, 1, sizeof(*p));
        if (!p)
            return pare_no_memory(err, "to find patterns");
        *p = f.attention;
        for (int k = 0; k < p->n; k++)
            (*part_of)[p->node[k]->id] = p;
    }
    return 0;
}

int pare_graph_canonical_axes(struct pare_graph *g, struct pare_err *err)
{
    PARE_TRY(pare_graph_canonical(g, PARE_PATTERN_ROWS, err));
    return pare_graph_canonical(g, PARE_PATTERN_SHUFFLE, err);
}

void pare_graph_drop_replaced(struct pare_graph *g)
{
    int kept = 0;

    for (int i = 0; i < g->n_nodes; i++)
        if (!g->node[i]->replaced) {
            g->node[i]->id = kept;
            g->node[kept++] = g->node[i];
        }
    g->n_nodes = kept;
}

int pare_graph_mark_patterns(const struct pare_graph *g, enum pare_pattern_kind kind, bool *part,
                             struct pare_err *err)
{
    const struct pare_attention_parts **attention;
    struct pare_graph *clone;

    if (kind == PARE_PATTERN_ATTENTION) {
        PARE_TRY(pare_graph_attention(g, &attention, err));
        for (int i = 0; i < g->n_nodes; i++)
            part[i] |= attention[i] != NULL;
        return 0;
    }
    clone = pare_graph_clone(g->arena, g, err);
    if (!clone)
        return err->code;
    PARE_TRY(pare_graph_canonical(clone, kind, err));
    for (int i = 0; i < clone->n_nodes; i++)
        part[i] |= clone->node[i]->replaced || clone->node[i]->n_parts;
    return 0;
}

int pare_graph_has_pattern(const struct pare_graph *g, enum pare_pattern_kind kind, bool *has,
                           struct pare_err *err)
{
    struct pare_graph *clone = pare_graph_clone(g->arena, g, err);

    *has = false;
    if (!clone)
        return err->code;
    PARE_TRY(pare_graph_canonical(clone, kind, err));
    for (int i = 0; i < clone->n_nodes; i++)
        for (size_t k = 0; k < sizeof(patterns) / sizeof(*patterns); k++)
            *has |= patterns[k]->kind == kind && clone->node[i]->op &&
                    clone->node[i]->op == patterns[k]->op;
    return 0;
}

int pare_graph_inner_values(const struct pare_graph *g, bool *inner, struct pare_err *err)
{
    struct pare_graph *clone = pare_graph_clone(g->arena, g, err);
    const struct pare_attention_parts **attention;

    if (!clone)
        return err->code;
    PARE_TRY(pare_graph_canonical(clone, PARE_PATTERN_ROWS, err));
    PARE_TRY(pare_graph_canonical(clone, PARE_PATTERN_POINTWISE, err));
    PARE_TRY(pare_graph_attention(g, &attention, err));
    for (int i = 0; i < g->n_nodes; i++) {
        const struct pare_node *n = g->node[i];
        bool inside = clone->node[i]->replaced || (attention[i] && attention[i]->mix != n);

        for (int k = 0; inside && k < n->n_out; k++)
            if (is_own(g, n->out[k]))
                inner[n->out[k]->id] = true;
    }
    return 0;
}
