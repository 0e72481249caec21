/* einsum.c - Einsum: products of the inputs' elements, summed over labels that the output lacks.
 *
 * The equation "ij,jk->ik" gives every axis a label; "..." stands for any number of broadcast axes.
 * Without "->" the output is "..." and every label that occurs once, in alphabetical order.  The
 * kernel is a loop over the output's labels around a loop over the other labels.
 */
#include <ctype.h>

#include "matrix.h"

enum { LETTERS = 52, LABELS = PARE_EINSUM_LABELS, MAX_IN = 16 };

_Static_assert(LABELS == LETTERS + PARE_MAX_RANK, "one label for each letter and axis of '...'");

struct einsum {
    const char *equation;
};

static const struct pare_opt einsum_attrs[] = {
    { "equation", "labels of the axes, for example 'ij,jk->ik'", PARE_OPT_STR,
      offsetof(struct einsum, equation), 0, PARE_NO_MIN, PARE_NO_MAX, NULL, NULL, true, NULL },
    PARE_OPT_END
};

struct plan {
    const struct pare_node *n;
    int dots;                         /* axes that "..." stands for */
    int64_t size[LABELS];             /* 0-based by label; -1: it does not occur */
    int seen[LABELS];                 /* number of occurrences in the inputs */
    int label[MAX_IN][PARE_MAX_RANK]; /* per axis of each input */
    int64_t stride[MAX_IN][LABELS];
    int rank, n_sum;
    int out[PARE_MAX_RANK], sum[LABELS]; /* labels of the output; labels that are summed over */
};

static int label_of(char c)
{
    return c >= 'a' && c <= 'z' ? c - 'a' : c >= 'A' && c <= 'Z' ? c - 'A' + 26 : -1;
}

/* One term of the equation, up to ',', '-' or the end. */
struct term {
    char label[64]; /* letters; '.' for an ellipsis */
    int n, letters;
    bool dots;
};

static int read_term(const char **at, struct term *t, struct pare_err *err)
{
    const char *p = *at;

    *t = (struct term){ .n = 0 };
    for (; *p && *p != ',' && *p != '-'; p++) {
        if (isspace((unsigned char)*p))
            continue;
        if (t->n == (int)sizeof(t->label))
            return pare_fail(err, PARE_ELIMIT, "a term of the equation is too long");
        if (label_of(*p) >= 0) {
            t->letters++;
            t->label[t->n++] = *p;
        } else if (!strncmp(p, "...", 3) && !t->dots) {
            t->dots = true;
            t->label[t->n++] = '.';
            p += 2;
        } else {
            return pare_fail(err, PARE_EFORMAT, "the equation has an unexpected '%c'", *p);
        }
    }
    *at = p;
    return 0;
}

/* Assign labels to the axes of input k.  The axes of "..." are counted from the last. */
static int read_input(struct plan *p, int k, const struct term *t, struct pare_err *err)
{
    const struct pare_tensor *x = &p->n->in[k]->t;
    int dots = x->rank - t->letters, axis = 0;
    char buf[PARE_SHAPE_TEXT];

    if (dots < 0 || (dots && !t->dots))
        return pare_fail(err, PARE_ESHAPE, "input %d is %s but the equation gives it %d labels", k,
                         pare_shape_text(x, buf, sizeof(buf)), t->letters);
    p->dots = dots > p->dots ? dots : p->dots;
    for (int i = 0; i < t->n; i++) {
        if (t->label[i] != '.')
            p->label[k][axis++] = label_of(t->label[i]);
        for (int j = 0; t->label[i] == '.' && j < dots; j++)
            p->label[k][axis++] = LABELS - dots + j;
    }
    return 0;
}

/* Sizes of the labels; size 1 is broadcast. */
static int size_labels(struct plan *p, struct pare_err *err)
{
    for (int i = 0; i < LABELS; i++)
        p->size[i] = -1;
    for (int k = 0; k < p->n->n_in; k++)
        for (int i = 0; i < p->n->in[k]->t.rank; i++) {
            int64_t d = p->n->in[k]->t.dim[i], *size = &p->size[p->label[k][i]];

            if (*size >= 0 && *size != d && *size != 1 && d != 1)
                return pare_fail(err, PARE_ESHAPE,
                                 "axis %d of input %d has %lld elements where its label has %lld",
                                 i, k, (long long)d, (long long)*size);
            *size = *size < 0 || *size == 1 ? d : *size;
            p->seen[p->label[k][i]]++;
        }
    for (int k = 0; k < p->n->n_in; k++) {
        int64_t own[PARE_MAX_RANK] = { 0 };

        pare_strides(&p->n->in[k]->t, own);
        for (int i = 0; i < p->n->in[k]->t.rank; i++)
            if (p->n->in[k]->t.dim[i] != 1)
                p->stride[k][p->label[k][i]] += own[i];
    }
    return 0;
}

static int add_out(struct plan *p, int label, struct pare_err *err)
{
    if (p->rank == PARE_MAX_RANK)
        return pare_fail(err, PARE_ELIMIT, "the result has more than %d dimensions", PARE_MAX_RANK);
    for (int i = 0; i < p->rank; i++)
        if (p->out[i] == label)
            return pare_fail(err, PARE_EFORMAT, "a label occurs twice in the equation's result");
    if (p->size[label] < 0)
        return pare_fail(err, PARE_EFORMAT, "the equation's result has a label that no input has");
    p->out[p->rank++] = label;
    return 0;
}

static int read_output(struct plan *p, const char *at, struct pare_err *err)
{
    struct term t = { .n = 0 };

    if (*at) {
        at++;
        if (*at++ != '>')
            return pare_fail(err, PARE_EFORMAT, "the equation has a '-' that is not an arrow");
        PARE_TRY(read_term(&at, &t, err));
        if (*at)
            return pare_fail(err, PARE_EFORMAT, "the equation has more text after its result: '%s'",
                             at);
    } else {
        t.label[t.n++] = '.';
        for (int c = 'A'; c <= 'z'; c++) /* capitals sort first */
            if (label_of((char)c) >= 0 && p->seen[label_of((char)c)] == 1)
                t.label[t.n++] = (char)c;
    }
    for (int i = 0; i < t.n; i++) {
        if (t.label[i] != '.')
            PARE_TRY(add_out(p, label_of(t.label[i]), err));
        for (int j = 0; t.label[i] == '.' && j < p->dots; j++)
            PARE_TRY(add_out(p, LABELS - p->dots + j, err));
    }
    for (int i = 0; i < LABELS; i++) {
        bool kept = p->size[i] < 0;

        for (int k = 0; k < p->rank; k++)
            kept |= p->out[k] == i;
        if (!kept)
            p->sum[p->n_sum++] = i;
    }
    return 0;
}

static int make_plan(const struct pare_node *n, struct plan *p, struct pare_err *err)
{
    const char *at = ((const struct einsum *)n->attr)->equation;
    struct term t;

    memset(p, 0, sizeof(*p));
    p->n = n;
    if (n->n_in > MAX_IN)
        return pare_fail(err, PARE_ELIMIT, "it has %d inputs, at most %d are handled", n->n_in,
                         MAX_IN);
    for (int k = 0; k < n->n_in; k++) {
        if (!n->in[k])
            return pare_fail(err, PARE_EFORMAT, "input %d is absent", k);
        PARE_TRY(read_term(&at, &t, err));
        PARE_TRY(read_input(p, k, &t, err));
        if ((k + 1 < n->n_in) != (*at == ','))
            return pare_fail(err, PARE_EFORMAT, "the equation '%s' does not have %d inputs",
                             ((const struct einsum *)n->attr)->equation, n->n_in);
        at += *at == ',';
    }
    PARE_TRY(size_labels(p, err));
    return read_output(p, at, err);
}

static int infer(struct pare_node *n, struct pare_err *err)
{
    int64_t dim[PARE_MAX_RANK];
    struct plan p;

    PARE_TRY(make_plan(n, &p, err));
    for (int i = 0; i < p.rank; i++)
        dim[i] = p.size[p.out[i]];
    return pare_shape_set(&n->out[0]->t, n->in[0]->t.dtype, p.rank, dim, err);
}

int pare_einsum_read(const struct pare_node *n, struct pare_einsum *e, struct pare_err *err)
{
    struct plan p;

    if (n->n_in > 2)
        return pare_fail(err, PARE_EUNSUPPORTED, "it has more than two operands");
    PARE_TRY(make_plan(n, &p, err));
    memcpy(e->in, p.label, sizeof(e->in));
    memcpy(e->out, p.out, sizeof(e->out));
    return 0;
}

/* Advance the offsets to the next value of the labels; false after the last value, with the offsets
 * reset. */
static bool next(const struct plan *p, const int *label, int n, int64_t *idx, int64_t *at)
{
    for (int i = n - 1; i >= 0; i--) {
        int l = label[i];
        bool more = ++idx[i] < p->size[l];

        for (int k = 0; k < p->n->n_in; k++)
            at[k] += more ? p->stride[k][l] : -p->stride[k][l] * (p->size[l] - 1);
        if (more)
            return true;
        idx[i] = 0;
    }
    return false;
}

/* One element of the output: loop over all summed labels, the last one innermost.  Floats are
 * summed in float64, integers wrap around in uint64. */
#define ELEMENT(d, type, sum_type)                                                        \
    case d: {                                                                             \
        sum_type sum = 0;                                                                 \
                                                                                          \
        do {                                                                              \
            for (int64_t i = 0; i < len; i++) {                                           \
                sum_type v = 1;                                                           \
                                                                                          \
                for (int k = 0; k < n->n_in; k++)                                         \
                    v *= (sum_type)((const type *)n->in[k]->t.data)[at[k] + i * step[k]]; \
                sum += v;                                                                 \
            }                                                                             \
        } while (len && next(p, p->sum, p->n_sum - 1, idx, at));                          \
        ((type *)n->out[0]->t.data)[to] = (type)sum;                                      \
        break;                                                                            \
    }
#define FLOAT_ELEMENT(d, type) ELEMENT(d, type, double)
#define INT_ELEMENT(d, type) ELEMENT(d, type, uint64_t)

static void element(const struct plan *p, int64_t to, const int64_t *from)
{
    const struct pare_node *n = p->n;
    int64_t idx[LABELS] = { 0 }, at[MAX_IN], step[MAX_IN], len = 1;

    for (int k = 0; k < n->n_in; k++) {
        at[k] = from[k];
        step[k] = p->n_sum ? p->stride[k][p->sum[p->n_sum - 1]] : 0;
    }
    for (int i = 0; i < p->n_sum; i++)
        len = p->size[p->sum[i]] && len ? p->size[p->sum[i]]
                                        : 0; /* an empty label makes the sum empty */
    switch ((int)n->out[0]->t.dtype) {
        PARE_FLOAT_TYPES(FLOAT_ELEMENT)
        PARE_INT_TYPES(INT_ELEMENT)
    default: break;
    }
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    int64_t idx[PARE_MAX_RANK] = { 0 }, at[MAX_IN] = { 0 }, to = 0;
    struct plan p;

    (void)c;
    PARE_TRY(make_plan(n, &p, err));
    if (!pare_numel(&n->out[0]->t))
        return 0;
    do
        element(&p, to++, at);
    while (next(&p, p.out, p.rank, idx, at));
    return 0;
}

/* For one element of the output and the last summed label, add to every input's gradient gy times
 * the product of the other inputs. */
static void backward_row(const struct pare_node *n, float gy, const int64_t *at,
                         const int64_t *step, int64_t len)
{
    for (int k = 0; k < n->n_in; k++) {
        float *g = pare_f32_mut(&n->in[k]->grad);
        double sum = 0;

        for (int64_t i = 0; g && i < len; i++) {
            float v = gy;

            for (int j = 0; j < n->n_in; j++)
                v *= j == k ? 1 : pare_f32(&n->in[j]->t)[at[j] + i * step[j]];
            if (step[k])
                g[at[k] + i * step[k]] += v;
            else
                sum += (double)v;
        }
        if (g && !step[k])
            g[at[k]] += (float)sum;
    }
}

static int backward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    int64_t idx[PARE_MAX_RANK] = { 0 }, inner[LABELS] = { 0 }, at[MAX_IN] = { 0 };
    int64_t step[MAX_IN] = { 0 }, len = 1, to = 0;
    const float *gy = pare_f32(&n->out[0]->grad);
    struct plan p;

    (void)c;
    PARE_TRY(make_plan(n, &p, err));
    for (int l = 0; l < LABELS; l++)
        if (!gy || !p.size[l])
            return 0;
    for (int k = 0; p.n_sum && k < n->n_in; k++)
        step[k] = p.stride[k][p.sum[p.n_sum - 1]];
    if (p.n_sum)
        len = p.size[p.sum[p.n_sum - 1]];
    do {
        do
            backward_row(n, gy[to], at, step, len);
        while (next(&p, p.sum, p.n_sum - 1, inner, at));
        to++;
    } while (next(&p, p.out, p.rank, idx, at));
    return 0;
}

/* Axes with the same label have the same channels. */
static void ties(const struct pare_node *n, struct pare_ties *t)
{
    struct pare_err err;
    struct plan p;

    if (make_plan(n, &p, &err))
        return;
    for (int l = 0; l < LABELS; l++) {
        const struct pare_value *first = NULL;
        int axis = 0;

        for (int i = 0; i < p.rank; i++)
            if (p.out[i] == l) {
                first = n->out[0];
                axis = i;
            }
        for (int k = 0; k < n->n_in; k++)
            for (int i = 0; i < n->in[k]->t.rank; i++) {
                if (p.label[k][i] != l || n->in[k]->t.dim[i] != p.size[l])
                    continue;
                if (first) {
                    pare_tie(t, first, axis, n->in[k], i);
                } else {
                    first = n->in[k];
                    axis = i;
                    pare_tie_sum(t, first, axis);
                }
            }
    }
}

/* The number of axes of input k, or (k < 0) of the output, with a label, and the last such axis. */
static int times(const struct plan *p, int k, int label, int *axis)
{
    int rank = k < 0 ? p->rank : p->n->in[k]->t.rank, count = 0;

    for (int i = 0; i < rank; i++)
        if ((k < 0 ? p->out[i] : p->label[k][i]) == label) {
            count++;
            *axis = i;
        }
    return count;
}

/* A constant matrix times the other operand, all of whose other axes are in the output: as MatMul.
 */
static bool linear(const struct pare_node *n, struct pare_linear *l)
{
    bool left = n->in[0]->flags & PARE_V_CONST;
    int w = !left, ignored, axis;
    struct pare_err err;
    struct plan p;

    *l = (struct pare_linear){ .x = left, .w = w, .bias = -1, .w_in = -1, .groups = 1, .scale = 1 };
    l->outer = 1;
    if (n->n_in != 2 || n->in[w]->t.rank != 2 || make_plan(n, &p, &err))
        return false;
    for (int i = 0; i < 2; i++) {
        int label = p.label[w][i];

        if (times(&p, left, label, &l->x_axis) == 1 && !times(&p, -1, label, &ignored))
            l->w_in = i;
    }
    if (l->w_in < 0)
        return false;
    l->w_out = !l->w_in;
    times(&p, left, p.label[w][l->w_in], &l->x_axis);
    if (times(&p, left, p.label[w][l->w_out], &ignored) ||
        times(&p, -1, p.label[w][l->w_out], &l->y_axis) != 1)
        return false;
    for (int i = 0; i < n->in[left]->t.rank; i++) {
        int label = p.label[left][i];

        if (n->in[left]->t.dim[i] != p.size[label] || times(&p, left, label, &axis) != 1 ||
            (i != l->x_axis && times(&p, -1, label, &axis) != 1))
            return false;
    }
    return n->in[w]->t.dim[0] == p.size[p.label[w][0]] &&
           n->in[w]->t.dim[1] == p.size[p.label[w][1]];
}

/* The weight's axes of output and input channels. */
static void axes(const struct pare_node *n, int *out, int *in)
{
    struct pare_linear l;
    bool known = n->n_in == 2 && linear(n, &l) && l.w == 1;

    *out = known ? l.w_out : -1;
    *in = known ? l.w_in : -1;
}

static double macs(const struct pare_node *n)
{
    struct pare_err err;
    struct plan p;
    double total = 1;

    if (make_plan(n, &p, &err) || !p.n_sum || n->n_in < 2)
        return 0;
    for (int i = 0; i < LABELS; i++)
        total *= p.size[i] < 0 ? 1 : (double)p.size[i];
    return total;
}

const struct pare_op pare_op_einsum = {
    .type = "Einsum",
    .doc = "Sums of products over labeled axes.",
    .since = 12,
    .in = "T+",
    .types = PARE_T_NUMERIC,
    .min_out = 1,
    .max_out = 1,
    .flags = PARE_OP_PRODUCT,
    .attrs = einsum_attrs,
    .attr_size = sizeof(struct einsum),
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .ties = ties,
    .macs = macs,
    .axes = axes,
    .linear = linear,
};
