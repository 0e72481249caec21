/* fold_into_bias.c - fold removed constant channels into biases; gather the kept weights. */
#include <string.h>

#include "../base/arena.h"
#include "../tensor/tensor.h"
#include "speedup.h"

/* ---- gathering ------------------------------------------------------------------------------- */

bool pare_shrink_is_smaller(const struct pare_speedup *s, const struct pare_value *v)
{
    for (int i = 0; i < v->t.rank; i++)
        if (pare_keep_sets_count(s->kept, v, i) != v->t.dim[i])
            return true;
    return false;
}

/* The kept indices of each axis up to the last one that loses any. */
struct picks {
    int axes;                   /* all indices of later axes are kept */
    int64_t *at[PARE_MAX_RANK]; /* offsets in bytes */
    int64_t n[PARE_MAX_RANK];
    size_t run; /* consecutive bytes that are copied at once */
};

static int pick(struct pare_shrink *k, const struct pare_value *v, size_t step, struct picks *p,
                struct pare_err *err)
{
    struct pare_arena *a = k->s->arena;

    p->axes = 0;
    for (int i = 0; i < v->t.rank; i++)
        if (pare_keep_sets_count(k->s->kept, v, i) != v->t.dim[i])
            p->axes = i + 1;
    for (int i = v->t.rank - 1; i >= 0; i--) {
        const uint8_t *keep = pare_keep_axis(k->s->kept, v, i);

        if (i == p->axes - 1)
            p->run = step;
        if (i < p->axes) {
            p->at[i] = pare_alloc(a, (size_t)v->t.dim[i] + 1, sizeof(int64_t));
            if (!p->at[i])
                return pare_no_memory(err, "for smaller weights");
            p->n[i] = 0;
            for (int64_t c = 0; c < v->t.dim[i]; c++)
                if (!keep || keep[c])
                    p->at[i][p->n[i]++] = c * (int64_t)step;
        }
        step *= (size_t)v->t.dim[i];
    }
    return 0;
}

static void gather(const struct picks *p, int axis, const char *from, char **to)
{
    for (int64_t i = 0; i < p->n[axis]; i++) {
        const char *at = from + p->at[axis][i];

        if (axis + 1 < p->axes) {
            gather(p, axis + 1, at, to);
            continue;
        }
        memcpy(*to, at, p->run);
        *to += p->run;
    }
}

/* The tie of grouped weights, in which each group keeps other channels (pare_tie_groups). */
static const struct pare_tied *groups_of(const struct pare_speedup *s, const struct pare_value *v)
{
    const struct pare_ties *ties = pare_keep_sets_ties(s->kept);

    for (int i = 0; i < ties->n; i++)
        if (ties->tie[i].kind == PARE_TIE_GROUPS && ties->tie[i].digit[1].v == v)
            return &ties->tie[i];
    return NULL;
}

/* Copy the kept rows of each group, and of each row the kept channels of the group. */
static void gather_groups(struct pare_shrink *k, const struct pare_tied *g,
                          const struct pare_tensor *t, struct pare_tensor *to)
{
    const struct pare_value *v = g->digit[1].v;
    const uint8_t *rows = pare_keep_axis(k->s->kept, v, 0);
    const uint8_t *all = pare_keep_axis(k->s->kept, g->a, g->ax);
    int64_t each = t->dim[1], of = t->dim[0] / g->digit[0].size;
    size_t run = pare_dtype_size(t->dtype);
    char *out = to->data, *end;

    for (int i = 2; i < t->rank; i++)
        run *= (size_t)t->dim[i];
    end = out + (size_t)(to->dim[0] * to->dim[1]) * run;
    for (int64_t r = 0; r < t->dim[0]; r++)
        for (int64_t i = 0; rows[r] && i < each; i++) {
            if (!all[r / of * each + i] || out == end)
                continue;
            memcpy(out, (const char *)t->data + (size_t)(r * each + i) * run, run);
            out += run;
        }
}

int pare_shrink_gather(struct pare_shrink *k, const struct pare_value *v,
                       const struct pare_tensor *t, struct pare_tensor *to, struct pare_err *err)
{
    const struct pare_tied *groups = groups_of(k->s, v);
    struct picks p = { 0 };
    char *out;

    *to = *t;
    if (!pare_shrink_is_smaller(k->s, v))
        return 0;
    for (int i = 0; i < t->rank; i++)
        to->dim[i] = pare_keep_sets_count(k->s->kept, v, i);
    PARE_TRY(pare_tensor_alloc(k->arena, to, err));
    if (groups && v->t.rank > 1) {
        gather_groups(k, groups, t, to);
        return 0;
    }
    PARE_TRY(pick(k, v, pare_dtype_size(t->dtype), &p, err));
    out = to->data;
    gather(&p, 0, t->data, &out);
    return 0;
}

/* ---- carriers -------------------------------------------------------------------------------- */

/* The value's replacement, a writable copy of its contents. */
static int own_contents(struct pare_shrink *k, const struct pare_value *v, float **data,
                        struct pare_err *err)
{
    struct pare_tensor *t = &k->replacement[v->id];

    if (!t->data) {
        *t = v->t;
        PARE_TRY(pare_tensor_alloc(k->writing, t, err));
        memcpy(t->data, v->t.data, (size_t)pare_numel(t) * sizeof(float));
    }
    *data = t->data;
    return 0;
}

/* w[o, carrier] += c_i / c w[o, i]. */
static int carry(struct pare_shrink *k, const struct pare_linear_node *m, int64_t i,
                 struct pare_err *err)
{
    int64_t group = i / m->Ig, to = pare_speedup_carrier(k->s, m, group);
    float ratio, *w;

    if (to < 0)
        return pare_fail(err, PARE_EUNSUPPORTED,
                         "node '%s': no channel can carry the constant of channel %lld", m->n->name,
                         (long long)i);
    PARE_TRY(own_contents(k, m->w, &w, err));
    ratio = pare_constant_channel(k->s, m->x, m->l.x_axis, i) /
            pare_constant_channel(k->s, m->x, m->l.x_axis, to);
    for (int64_t o = group * m->Og; o < (group + 1) * m->Og; o++) {
        const float *from = m->data + pare_linear_node_at(m, o, i);
        float *sum = w + pare_linear_node_at(m, o, to);

        for (int64_t t = 0; t < m->taps; t++)
            sum[t] += ratio * from[t];
    }
    return 0;
}

/* ---- biases ---------------------------------------------------------------------------------- */

/* "conv1.bias" for "conv1.weight"; else the output's name + ".bias". */
static const char *bias_name(struct pare_arena *a, const struct pare_linear_node *m)
{
    const char *name = m->w->name;
    size_t n = strlen(name);

    if (n > 7 && !strcmp(name + n - 7, ".weight"))
        return pare_sprintf(a, "%.*s.bias", (int)n - 7, name);
    return pare_sprintf(a, "%s.bias", m->y->name);
}

/* Add an initializer with the kept elements of a list of all output channels. */
static int add_bias(struct pare_shrink *k, const struct pare_linear_node *m, const float *all,
                    int ones, const char **name, struct pare_err *err)
{
    const uint8_t *keep = pare_keep_axis(k->s->kept, m->y, m->l.y_axis);
    struct pare_tensor t = { .dtype = PARE_F32, .rank = 1 + ones };
    const char *base = bias_name(k->s->arena, m);
    int64_t n = 0;

    t.dim[0] = pare_keep_sets_count(k->s->kept, m->y, m->l.y_axis);
    for (int i = 1; i < t.rank; i++)
        t.dim[i] = 1;
    PARE_TRY(pare_tensor_alloc(k->arena, &t, err));
    for (int64_t o = 0; o < m->O; o++)
        if (keep[o])
            pare_f32_mut(&t)[n++] = all[o];
    PARE_TRY(pare_speedup_narrow(k->arena, k->s, m->y, &t, err));
    return base ? pare_edit_add_constant(k->e, base, &t, name, err)
                : pare_no_memory(err, "for smaller weights");
}

static int add_to_bias(struct pare_shrink *k, const struct pare_linear_node *m, float *add,
                       struct pare_err *err)
{
    const struct pare_value *b;
    enum pare_bias_kind kind = pare_linear_node_bias(k->s, m, &b);
    int64_t n = b ? pare_numel(&b->t) : 0;
    const char *name;
    float *own_b;

    if (b && (kind == PARE_BIAS_ADD || (n == m->O && k->s->uses[b->id] == 1))) {
        PARE_TRY(own_contents(k, b, &own_b, err));
        for (int64_t o = 0; o < m->O; o++)
            own_b[o] += add[o];
        return 0;
    }
    if (kind == PARE_BIAS_AFTER) {
        PARE_TRY(add_bias(k, m, add, m->y->t.rank - 1 - m->l.y_axis, &name, err));
        return pare_edit_append(k->e, m->n, "Add", name, err);
    }
    for (int64_t o = 0; b && o < m->O; o++)
        add[o] += pare_f32(&b->t)[n == 1 ? 0 : o];
    PARE_TRY(add_bias(k, m, add, 0, &name, err));
    return pare_edit_set_input(k->e, m->n, m->l.bias, name, err);
}

/* add[o] = scale * sum over k of c[k] * sum(weights between channels list[k] and o). */
static void sum_constants(const struct pare_linear_node *m, const int64_t *list, const double *c,
                          int64_t n, float *add)
{
    bool one = m->l.groups == 1;

    for (int64_t o = 0; o < m->O; o++) {
        double sum = 0;

        for (int64_t k = 0; k < n; k++)
            if (one || list[k] / m->Ig == o / m->Og)
                sum += c[k] * pare_linear_node_sum(m, o, list[k]);
        add[o] = (float)((double)m->l.scale * sum);
    }
}

int pare_shrink_fold(struct pare_shrink *k, const struct pare_linear_node *m, struct pare_err *err)
{
    int64_t *list = pare_alloc(k->s->arena, (size_t)m->C + 1, sizeof(*list)), n = 0;
    double *c = pare_alloc(k->s->arena, (size_t)m->C + 1, sizeof(*c));
    float *add = pare_alloc(k->s->arena, (size_t)m->O + 1, sizeof(*add));

    if (!list || !c || !add)
        return pare_no_memory(err, "for smaller weights");
    for (int64_t i = 0; i < m->C; i++) {
        if (!pare_speedup_is_folded(k->s, m, i))
            continue;
        if (m->l.borders) {
            PARE_TRY(carry(k, m, i, err));
            continue;
        }
        list[n] = i;
        c[n++] = (double)pare_constant_channel(k->s, m->x, m->l.x_axis, i);
    }
    if (!n)
        return 0;
    sum_constants(m, list, c, n, add);
    return add_to_bias(k, m, add, err);
}
