/* half_choose.c - choose the nodes that compute in float16 or bfloat16; the others stay float32.
 *
 * A node stays float32 if its operator is flagged PARE_OP_FLOAT_ONLY (no half-precision form) or
 * PARE_OP_WIDE (sums, powers and exponentials, whose results overflow), if a constant such as an
 * epsilon would become 0, if a weight or a value seen on data exceeds the range, if it is cheap and
 * reads only float32 values, if it is part of a normalization that is written out or of a quantized
 * operator, or if its types are not known.
 */
#include "half_choose.h"

#include <math.h>
#include <string.h>

#include "../../base/arena.h"
#include "../../graph/pattern/pattern.h"
#include "../../onnx/edit.h"
#include "../../op/op.h"
#include "../../tensor/tensor.h"

#define FEW 16 /* constants with at most this many elements are settings, not weights */

bool pare_half_is_float(const struct pare_value *v)
{
    return v && v->t.dtype == PARE_F32;
}

bool pare_half_is_weight(const struct pare_half_scan *s, const struct pare_value *v)
{
    return pare_half_is_float(v) && v->flags & PARE_V_CONST && !v->maker &&
           v->id < s->g->n_values && s->g->value[v->id] == v;
}

/* The letter of input k in op->in. */
static char letter(const struct pare_op *op, int k)
{
    char c = 0;

    for (const char *p = op->in; *p; p++) {
        if (*p == '?')
            continue;
        if (*p == '*' || *p == '+')
            return c;
        c = *p;
        if (k-- == 0)
            return c;
    }
    return 0;
}

bool pare_half_input(const struct pare_node *n, int k)
{
    return pare_half_is_float(n->in[k]) && letter(n->op, k) != 'F';
}

static double largest(enum pare_dtype type)
{
    return type == PARE_F16 ? 65504 : 3.3895313892515355e38;
}

static double smallest(enum pare_dtype type)
{
    return type == PARE_F16 ? 2.98023223876953125e-08 : 0; /* half of the smallest subnormal */
}

int pare_half_loss(struct pare_half_scan *s, struct pare_value *v, struct pare_half_loss *loss,
                   struct pare_err *err)
{
    struct pare_value copy = *v;
    struct pare_mark mark = pare_mark(s->a);

    *loss = (struct pare_half_loss){ 0 };
    PARE_TRY(pare_value_load(s->a, &copy, err));
    for (int64_t i = 0; i < pare_numel(&copy.t); i++) {
        double x = fabs((double)pare_f32(&copy.t)[i]);

        if (!(x < (double)INFINITY))
            continue;
        loss->over += x > largest(s->h->type);
        loss->under += x > 0 && x <= smallest(s->h->type);
        loss->peak = x > loss->peak ? x : loss->peak;
    }
    pare_rewind(s->a, mark);
    return 0;
}

/* ---- reasons ------------------------------------------------------------------------------- */

static int keep(struct pare_half_scan *s, const struct pare_node *n, const char *why,
                struct pare_err *err)
{
    const char *text = pare_sprintf(s->a, "%s (%s): %s", *n->name ? n->name : n->out[0]->name,
                                    n->type, why);

    if (!text)
        return pare_no_memory(err, "for the layers");
    s->h->kept[s->h->n_kept++] = text;
    return 0;
}

static bool is_param(const struct pare_node *n, int k)
{
    return n->op->layer.params >> k & 1;
}

/* May elements of constant input k be clamped to the range?  Only those that are added to other
 * values, such as attention masks.  A clamped factor or variance gives other results. */
static bool may_clamp(const struct pare_node *n, int k)
{
    return n->op->flags & (PARE_OP_LINEAR | PARE_OP_COPIES) && !is_param(n, k);
}

/* Constants: weights beyond the range, and settings that would become 0. */
static int check_constants(struct pare_half_scan *s, int i, struct pare_err *err)
{
    const struct pare_node *n = s->g->node[i];

    for (int k = 0; k < n->n_in && k < 32 && s->half[i]; k++) {
        struct pare_half_loss loss;

        if (!pare_half_is_weight(s, n->in[k]) || !pare_half_input(n, k))
            continue;
        PARE_TRY(pare_half_loss(s, n->in[k], &loss, err));
        if (loss.over && !may_clamp(n, k)) {
            s->half[i] = false;
            PARE_TRY(keep(s, n,
                          pare_sprintf(s->a, "a constant is %g, beyond the range of %s", loss.peak,
                                       pare_dtype_name(s->h->type)),
                          err));
        } else if (loss.under && pare_numel(&n->in[k]->t) <= FEW && !is_param(n, k)) {
            s->half[i] = false;
        }
    }
    return 0;
}

/* Values that were seen on data. */
static int check_peaks(struct pare_half_scan *s, int i, struct pare_err *err)
{
    const struct pare_node *n = s->g->node[i];

    for (int k = 0; k < n->n_out && s->h->peaks && s->half[i]; k++) {
        const double *peak = n->out[k] ? pare_map_get(s->h->peaks, n->out[k]->name) : NULL;

        if (!peak || *peak <= largest(s->h->type))
            continue;
        s->half[i] = false;
        PARE_TRY(keep(s, n,
                      pare_sprintf(s->a, "its output is %g on the data, beyond the range of %s",
                                   *peak, pare_dtype_name(s->h->type)),
                      err));
    }
    return 0;
}

/* ---- nodes --------------------------------------------------------------------------------- */

/* Types are known, and the node computes a value that depends on the inputs from float32 values. */
static bool has_floats(const struct pare_node *n)
{
    bool reads = false, moves = false;

    for (int k = 0; k < n->n_in; k++) {
        if (n->in[k] && n->in[k]->t.dtype == PARE_NONE)
            return false;
        reads |= pare_half_input(n, k);
    }
    for (int k = 0; k < n->n_out; k++) {
        if (n->out[k] && n->out[k]->t.dtype == PARE_NONE)
            return false;
        moves |= n->out[k] && !(n->out[k]->flags & PARE_V_CONST);
    }
    return reads && moves;
}

/* Does the node read dequantized values?  Runtimes fuse both into an integer operator, and a
 * Cast between would prevent that. */
static bool reads_integers(const struct pare_node *n)
{
    for (int k = 0; k < n->n_in; k++) {
        const struct pare_node *from = n->in[k] ? n->in[k]->maker : NULL;

        if (from && from->op && from->op->flags & PARE_OP_LAZY)
            return true;
    }
    return false;
}

static bool is_eligible(const struct pare_half_scan *s, const struct pare_node *n)
{
    const unsigned no = PARE_OP_FLOAT_ONLY | PARE_OP_WIDE | PARE_OP_ALLOCS | PARE_OP_SHAPES;

    return n->op && !n->op->domain && !(n->op->flags & no) && !n->n_cap && n->n_out &&
           pare_model_has_node(s->m, n) && has_floats(n) && !reads_integers(n);
}

/* Does the node, cheap and without weights, read only float32 values?  Then it stays float32: the
 * Cast comes as late as possible, and image preprocessing keeps its precision. */
static bool continues_float(const struct pare_half_scan *s, const struct pare_node *n)
{
    if (n->op->layer.params || n->op->macs)
        return false;
    for (int k = 0; k < n->n_in; k++) {
        const struct pare_value *v = n->in[k];

        if (pare_half_is_float(v) && !(v->flags & PARE_V_CONST) && v->maker &&
            s->half[v->maker->id])
            return false;
    }
    return true;
}

/* Float32 nodes that may make finite values beyond the range, by constants such as the -3.4e38 of
 * attention masks. */
static int find_big(struct pare_half_scan *s, int i, struct pare_err *err)
{
    const struct pare_node *n = s->g->node[i];

    for (int k = 0; k < n->n_in && n->op && !s->half[i] && !s->big[i]; k++) {
        struct pare_value *v = n->in[k];
        struct pare_half_loss loss = { 0 };

        if (!pare_half_is_float(v))
            continue;
        if (v->flags & PARE_V_CONST && pare_numel(&v->t) <= FEW)
            PARE_TRY(pare_half_loss(s, v, &loss, err));
        s->big[i] = loss.over || (v->maker && s->big[v->maker->id]);
    }
    return 0;
}

static int choose_node(struct pare_half_scan *s, int i, struct pare_err *err)
{
    const struct pare_node *n = s->g->node[i];

    s->half[i] = s->h->compute && !s->part[i] && is_eligible(s, n);
    if (s->half[i] && continues_float(s, n))
        s->half[i] = false;
    PARE_TRY(check_constants(s, i, err));
    PARE_TRY(check_peaks(s, i, err));
    PARE_TRY(find_big(s, i, err));
    s->h->nodes += s->half[i];
    s->h->left += !s->half[i] && n->op && has_floats(n);
    return 0;
}

/* Free dimensions of the inputs; sizes that suit windows and those that suit broadcasts differ. */
static void bind(struct pare_graph *g, int64_t size)
{
    for (int i = 0; i < g->n_in; i++)
        for (int k = 0; k < g->in[i]->t.rank; k++)
            if (g->in[i]->t.dim[k] < 0)
                g->in[i]->t.dim[k] = k ? size : 1;
    pare_graph_bind(g, 1);
}

/* Element types.  A node that does not run at one size may run at another. */
static int find_types(struct pare_half_scan *s, struct pare_err *err)
{
    static const int64_t sizes[] = { 1, 64 };

    for (int i = 0; i < 2; i++) {
        struct pare_graph *g = pare_graph_clone(s->a, s->m->graph, err);

        if (!g)
            return err->code;
        bind(g, sizes[i]);
        PARE_TRY(pare_graph_infer(g, true, err));
        for (int k = 0; s->g && k < g->n_values; k++)
            if (s->g->value[k]->t.dtype == PARE_NONE)
                s->g->value[k]->t.dtype = g->value[k]->t.dtype;
        s->g = s->g ? s->g : g;
    }
    return 0;
}

int pare_half_choose(struct pare_half_scan *s, struct pare_err *err)
{
    size_t n;

    PARE_TRY(find_types(s, err));
    n = (size_t)s->g->n_nodes + 1;
    s->half = pare_alloc(s->a, n, sizeof(*s->half));
    s->big = pare_alloc(s->a, n, sizeof(*s->big));
    s->h->kept = pare_alloc(s->a, n, sizeof(*s->h->kept));
    s->part = pare_alloc(s->a, n, sizeof(*s->part));
    if (!s->half || !s->big || !s->part || !s->h->kept)
        return pare_no_memory(err, "for the layers");
    PARE_TRY(pare_graph_mark_patterns(s->g, PARE_PATTERN_ROWS, s->part, err));
    for (int i = 0; i < s->g->n_nodes; i++)
        PARE_TRY(choose_node(s, i, err));
    return 0;
}
