/* free_dims.c - choose sizes for free input dimensions, by trying until shape inference succeeds.
 *
 * Windows, strides, tables of positions and reshapes limit which sizes a model accepts, and no
 * declaration says how.  Inference is cheap, so sizes are tried: first those of most models.
 */
#include "free_dims_search.h"

#include <string.h>

#include "../base/arena.h"
#include "../tensor/tensor.h"

#define CHEAP 16     /* size of free dimensions in models whose shapes depend on data */
#define FAR 8        /* larger sizes differ from the first by this multiple of the others */
#define FARTHEST 512 /* and by this one, */
#define LARGEST 4e6  /* for inputs of at most this many elements, if windows hide differences */

/* ---- the free dimensions --------------------------------------------------------------------- */

static int find_name(const struct pare_free_search *s, const char *name, size_t len)
{
    for (int i = 0; i < s->n; i++)
        if (s->dim[i].name && strlen(s->dim[i].name) == len && !strncmp(s->dim[i].name, name, len))
            return i;
    return -1;
}

static void add_dim(struct pare_free_search *s, int input, int axis)
{
    const char *name = s->io[input].sym[axis];
    const struct pare_tensor *t = s->given ? &s->given[input] : NULL;
    int d = name ? find_name(s, name, strlen(name)) : -1;

    if (d < 0 && s->n < PARE_FREE_DIMS) {
        d = s->n++;
        s->dim[d] = (struct pare_free_dim){ .name = name, .given = -1, .sum = { -1, -1 } };
    }
    if (d < 0)
        d = PARE_FREE_DIMS - 1;
    for (int k = 0; k < axis; k++)
        s->dim[d].square |= s->of[input][k] == d;
    s->of[input][axis] = d;
    s->dim[d].batch |= !axis && s->io[input].rank > 1;
    if (t && t->rank == s->io[input].rank && t->dim[axis] >= 0)
        s->dim[d].given = t->dim[axis];
}

/* Exporters write "past + length" where a length is a sum. */
static void find_sums(struct pare_free_search *s)
{
    for (int i = 0; i < s->n; i++) {
        const char *plus = s->dim[i].name ? strstr(s->dim[i].name, " + ") : NULL;
        int a, b;

        if (!plus)
            continue;
        a = find_name(s, s->dim[i].name, (size_t)(plus - s->dim[i].name));
        b = find_name(s, plus + 3, strlen(plus + 3));
        if (a >= 0 && b >= 0 && a != i && b != i) {
            s->dim[i].sum[0] = a;
            s->dim[i].sum[1] = b;
        }
    }
}

static int find_dims(struct pare_free_search *s, struct pare_err *err)
{
    s->of = pare_alloc(s->arena, (size_t)s->from->n_in + 1, sizeof(*s->of));
    if (!s->of)
        return pare_no_memory(err, "to infer shapes");
    for (int i = 0; i < s->from->n_in; i++)
        for (int k = 0; k < PARE_MAX_RANK; k++) {
            s->of[i][k] = -1;
            if (k < s->io[i].rank && s->io[i].dim[k] < 0)
                add_dim(s, i, k);
        }
    for (int i = 0; i < s->n; i++)
        s->dim[i].batch &= !s->dim[i].square;
    find_sums(s);
    return 0;
}

/* ---- one attempt ----------------------------------------------------------------------------- */

int pare_free_infer(const struct pare_free_search *s, const int64_t *size, struct pare_graph **out,
                    struct pare_err *err)
{
    struct pare_graph *g = *out = pare_graph_clone(s->arena, s->from, err);

    if (!g)
        return err->code;
    for (int i = 0; i < g->n_in; i++) {
        struct pare_tensor *t = &g->in[i]->t;

        if (t->rank < 0 && s->given && s->given[i].rank >= 0)
            *t = s->given[i];
        for (int k = 0; k < t->rank; k++) {
            int d = s->of[i][k];

            if (d >= 0 && s->dim[d].sum[0] >= 0)
                t->dim[k] = size[s->dim[d].sum[0]] + size[s->dim[d].sum[1]];
            else if (d >= 0)
                t->dim[k] = size[d];
        }
        t->data = NULL;
    }
    return pare_graph_infer(g, true, err);
}

/* Whether g has a shape for every value that has one in `as`. */
static bool knows_all_of(const struct pare_graph *g, const struct pare_graph *as)
{
    for (int i = 0; i < g->n_values; i++)
        if (g->value[i]->t.dtype == PARE_NONE && as->value[i]->t.dtype != PARE_NONE)
            return false;
    return true;
}

/* Infer with these sizes; replace *out if fewer nodes fail than there. */
static int try_sizes(const struct pare_free_search *s, const int64_t *size, struct pare_graph **out,
                     int64_t *best, struct pare_err *err)
{
    struct pare_mark m = pare_mark(s->arena);
    struct pare_graph *g;
    int rc = pare_free_infer(s, size, &g, err);

    if (rc == PARE_ENOMEM || (rc && !*out))
        return rc;
    if (rc || (*out && g->failed >= (*out)->failed)) {
        pare_reset(s->arena, m);
        return 0;
    }
    *out = g;
    memcpy(best, size, PARE_FREE_DIMS * sizeof(*best));
    return 0;
}

/* ---- the first sizes ------------------------------------------------------------------------- */

bool pare_graph_depends_on_data(const struct pare_graph *g)
{
    for (int i = 0; i < g->n_values; i++)
        if (g->value[i]->t.dtype == PARE_NONE)
            return true;
    return false;
}

/* If shapes depend on data, a few items may compute very much: take a small size instead. */
static int find_cheap(const struct pare_free_search *s, struct pare_graph **out, int64_t *size,
                      struct pare_err *err)
{
    struct pare_mark m = pare_mark(s->arena);
    struct pare_graph *g;
    int64_t now[PARE_FREE_DIMS];
    bool other = false;
    int rc;

    for (int d = 0; d < PARE_FREE_DIMS; d++) {
        bool free_size = d < s->n && s->dim[d].given < 0 && !s->dim[d].batch && size[d] > CHEAP;

        now[d] = free_size ? CHEAP : size[d];
        other |= free_size;
    }
    if (!other || !pare_graph_depends_on_data(*out))
        return 0;
    rc = pare_free_infer(s, now, &g, err);
    if (rc == PARE_ENOMEM)
        return rc;
    if (rc || g->failed > (*out)->failed || !knows_all_of(g, *out)) {
        pare_reset(s->arena, m);
        return 0;
    }
    *out = g;
    memcpy(size, now, sizeof(now));
    return 0;
}

static int find_first(const struct pare_free_search *s, struct pare_graph **out, int64_t *size,
                      struct pare_err *err)
{
    static const int64_t base[] = { 64, 256, 512, 1024, 4096, 16384, 32, 16, 8, 4, 2, 1, 3 };

    *out = NULL;
    for (size_t i = 0; i < sizeof(base) / sizeof(*base); i++) {
        int64_t now[PARE_FREE_DIMS];

        for (int d = 0; d < PARE_FREE_DIMS; d++)
            now[d] = s->dim[d].given >= 0 ? s->dim[d].given : s->dim[d].batch ? 1 : base[i];
        PARE_TRY(try_sizes(s, now, out, size, err));
        if (!(*out)->failed || !s->n)
            break;
    }
    PARE_TRY(pare_free_fit(s, out, size, err));
    return find_cheap(s, out, size, err);
}

int pare_graph_infer_ones(struct pare_arena *a, const struct pare_graph *from,
                          const struct pare_io *io, struct pare_graph **out, struct pare_err *err)
{
    struct pare_free_search s = { .arena = a, .from = from, .io = io };
    int64_t size[PARE_FREE_DIMS] = { 0 };
    struct pare_graph *g;

    *out = pare_graph_clone(a, from, err);
    if (!*out)
        return err->code;
    pare_graph_bind(*out, 1);
    PARE_TRY(pare_graph_infer(*out, true, err));
    if (!(*out)->failed)
        return 0;
    PARE_TRY(find_dims(&s, err));
    if (!s.n)
        return 0;
    PARE_TRY(find_first(&s, &g, size, err));
    if (g->failed < (*out)->failed)
        *out = g;
    return 0;
}

/* ---- other sizes ----------------------------------------------------------------------------- */

/* Of a dimension that has size a, the one that rule number `rule` proposes; i: its number. */
static int64_t other_size(int rule, int i, int64_t a)
{
    switch (rule) {
    case 0: return a + 33 + 4 * i; /* odd, all different */
    case 1: return a + 33;
    case 2: return 2 * a + 32 * (1 + 2 * i); /* multiples of 32, all different */
    case 3: return 2 * a + 32;
    case 4: return 2 * a;
    case 5: return a + 1;
    case 6: return a > 1 ? a / 2 : 3;
    default: return 0;
    }
}

#define RULES 7

static bool is_good(const struct pare_graph *g, const struct pare_graph *first)
{
    return g->failed <= first->failed && knows_all_of(g, first);
}

/* Infer with these sizes; *out remains NULL if nodes do not accept them. */
static int accept_sizes(const struct pare_free_search *s, const int64_t *size,
                        const struct pare_graph *first, struct pare_graph **out,
                        struct pare_err *err)
{
    struct pare_mark m = pare_mark(s->arena);
    int rc = pare_free_infer(s, size, out, err);

    if (!rc && is_good(*out, first))
        return 0;
    *out = NULL;
    pare_reset(s->arena, m);
    return rc == PARE_ENOMEM ? rc : 0;
}

/* Change every dimension that can be changed alone. */
static int change_each(const struct pare_free_search *s, const struct pare_graph *first,
                       int64_t *size, struct pare_graph **out, struct pare_err *err)
{
    for (int d = 0; d < s->n; d++) {
        int64_t was = size[d];
        struct pare_graph *g = NULL;

        for (int rule = s->dim[d].batch ? 4 : 0; rule < RULES && !g; rule++) {
            size[d] = other_size(rule, d, was);
            PARE_TRY(accept_sizes(s, size, first, &g, err));
        }
        if (g)
            *out = g;
        else
            size[d] = was;
    }
    return 0;
}

/* Change all dimensions; if nodes do not accept it, as many as they accept. */
static int find_other(const struct pare_free_search *s, const struct pare_graph *first,
                      const int64_t *a, int64_t *size, struct pare_graph **out,
                      struct pare_err *err)
{
    *out = NULL;
    for (int batch = 1; batch >= 0 && s->n; batch--)
        for (int rule = 0; rule < RULES; rule++) {
            for (int d = 0; d < s->n; d++)
                size[d] = !s->dim[d].batch ? other_size(rule, d, a[d]) : batch ? a[d] + 2 : a[d];
            PARE_TRY(accept_sizes(s, size, first, out, err));
            if (*out)
                return 0;
        }
    memcpy(size, a, PARE_FREE_DIMS * sizeof(*size));
    return change_each(s, first, size, out, err);
}

/* Has the axis of v, a value of g[0], another size in g[1] or g[2]? */
static bool differs(struct pare_graph *const *g, const struct pare_value *v, int axis)
{
    for (int i = 1; i < 3; i++)
        if (g[i] && g[i]->value[v->id]->t.rank > axis &&
            g[i]->value[v->id]->t.dim[axis] != v->t.dim[axis])
            return true;
    return false;
}

/* Does a window or its stride reduce an axis that follows a free dimension to one size, in all
 * three graphs?  With larger inputs the size differs: what holds for it holds by coincidence. */
static bool hides_axis(struct pare_graph *const *g)
{
    for (int i = 0; i < g[0]->n_nodes; i++) {
        const struct pare_node *n = g[0]->node[i];
        const bool pool = n->op && n->op->flags & PARE_OP_POOL && !(n->op->flags & PARE_OP_GLOBAL);

        if (!(pool || (n->op && n->op->layer.kind == PARE_LAYER_CONV)) || !n->in[0] || !n->out[0])
            continue;
        for (int k = 2; k < n->in[0]->t.rank && k < n->out[0]->t.rank; k++)
            if (differs(g, n->in[0], k) && !differs(g, n->out[0], k))
                return true;
    }
    return false;
}

/* Elements of all inputs. */
static double elements(const struct pare_free_search *s, const int64_t *size)
{
    double sum = 0;

    for (int i = 0; i < s->from->n_in; i++) {
        double n = 1;

        for (int k = 0; k < s->io[i].rank; k++)
            n *= (double)(s->of[i][k] >= 0 ? size[s->of[i][k]] : s->io[i].dim[k]);
        sum += n;
    }
    return sum;
}

/* Sizes on the line through the two known ones, which keeps sums and multiples. */
static int try_far(const struct pare_free_search *s, const int64_t *a, const int64_t *b,
                   int64_t far, const struct pare_graph *first, struct pare_graph **out,
                   struct pare_err *err)
{
    const bool farther = far > FAR;
    int64_t size[PARE_FREE_DIMS];

    *out = NULL;
    for (int d = 0; d < s->n; d++) {
        size[d] = a[d] + (farther && s->dim[d].batch ? 2 : far) * (b[d] - a[d]);
        if (size[d] < a[d])
            return 0;
    }
    return farther && elements(s, size) > LARGEST ? 0 : accept_sizes(s, size, first, out, err);
}

/* g[2]: larger sizes than those of g[0], a, and g[1], b. */
static int find_larger(const struct pare_free_search *s, const int64_t *a, const int64_t *b,
                       struct pare_graph **g, struct pare_err *err)
{
    static const int64_t far[] = { FAR, 3, 2 };

    for (size_t i = 0; i < sizeof(far) / sizeof(*far) && !g[2]; i++)
        PARE_TRY(try_far(s, a, b, far[i], g[0], &g[2], err));
    for (int64_t f = 2 * FAR; f <= FARTHEST && g[2] && hides_axis(g); f *= 4) {
        struct pare_graph *before = g[2];

        PARE_TRY(try_far(s, a, b, f, g[0], &g[2], err));
        if (!g[2])
            g[2] = before;
    }
    return 0;
}

int pare_graph_infer_sizes(const struct pare_size_arenas *a, const struct pare_graph *from,
                           const struct pare_io *io, const struct pare_tensor *given,
                           struct pare_graph **out, struct pare_err *err)
{
    struct pare_free_search s = { .arena = a->first, .from = from, .io = io, .given = given };
    int64_t size[PARE_FREE_DIMS] = { 0 }, other[PARE_FREE_DIMS] = { 0 };
    struct pare_graph *g[3] = { NULL };

    PARE_TRY(find_dims(&s, err));
    PARE_TRY(find_first(&s, &g[0], size, err));
    s.arena = a->other;
    PARE_TRY(find_other(&s, g[0], size, other, &g[1], err));
    s.arena = a->larger;
    if (g[1])
        PARE_TRY(find_larger(&s, size, other, g, err));
    for (int i = 0; i < 3; i++)
        if (g[i]) {
            g[i]->other[0] = g[i ? 0 : 1];
            g[i]->other[1] = g[i == 2 ? 1 : 2];
        }
    *out = g[0];
    return 0;
}

int pare_graph_infer_free(struct pare_arena *a, const struct pare_graph *from,
                          const struct pare_io *io, const struct pare_tensor *given,
                          struct pare_graph **out, struct pare_err *err)
{
    const struct pare_size_arenas same = { a, a, a, a };

    return pare_graph_infer_sizes(&same, from, io, given, out, err);
}

/* A size below `was` of dimension d: odd, a multiple of 8 if `was` is one of 32, or half of it. */
static int64_t small_size(int rule, int d, int64_t was)
{
    switch (rule) {
    case 0: return was / 4 + 3 + 2 * d;
    case 1: return was / 4 + was / 8 * (d % 4);
    default: return was / 2;
    }
}

#define SMALL_RULES 3

int pare_graph_infer_small(struct pare_arena *a, const struct pare_graph *from,
                           const struct pare_io *io, const struct pare_graph *first,
                           struct pare_graph **out, struct pare_err *err)
{
    struct pare_free_search s = { .arena = a, .from = from, .io = io };
    int64_t size[PARE_FREE_DIMS] = { 0 };

    *out = NULL;
    PARE_TRY(find_dims(&s, err));
    for (int rule = 0; rule < SMALL_RULES && s.n && !*out; rule++) {
        for (int i = 0; i < from->n_in; i++)
            for (int k = 0; k < io[i].rank; k++) {
                int d = s.of[i][k];
                int64_t was = d >= 0 ? first->in[i]->t.dim[k] : 0;

                if (d >= 0)
                    size[d] = s.dim[d].batch ? was + 1 : small_size(rule, d, was);
            }
        PARE_TRY(accept_sizes(&s, size, first, out, err));
    }
    return 0;
}

int pare_graph_free_sizes(struct pare_arena *a, const struct pare_graph *from,
                          const struct pare_io *io, const struct pare_tensor *given, int64_t size,
                          bool all, struct pare_tensor **out, bool *any, struct pare_err *err)
{
    struct pare_free_search s = { .arena = a, .from = from, .io = io, .given = given };
    int first = -1;

    *any = false;
    *out = pare_alloc(a, (size_t)from->n_in + 1, sizeof(**out));
    if (!*out)
        return pare_no_memory(err, "to infer shapes");
    PARE_TRY(find_dims(&s, err));
    for (int i = 0; i < from->n_in; i++) {
        struct pare_tensor *t = &(*out)[i];

        *t = given && given[i].rank >= 0 ? given[i] : from->in[i]->t;
        t->data = given ? given[i].data : NULL;
        for (int k = 0; k < t->rank; k++) {
            int d = t->dim[k] < 0 ? s.of[i][k] : -1;

            if (d < 0 || s.dim[d].batch || !(all || first < 0 || d == first))
                continue;
            first = first < 0 ? d : first;
            t->dim[k] = size;
        }
    }
    *any = first >= 0;
    return 0;
}

/* ---- queries --------------------------------------------------------------------------------- */

struct pare_graph *pare_graph_to_analyze(struct pare_graph *g)
{
    return g->other[0] ? (struct pare_graph *)g->other[0] : g;
}

const struct pare_value *pare_value_at(const struct pare_graph *g, const struct pare_value *v,
                                       int i)
{
    const struct pare_graph *o = g->other[i];

    if (!o)
        return NULL;
    return v->id < o->n_values ? o->value[v->id] : pare_map_get(&o->names, v->name);
}

bool pare_axis_is_free(const struct pare_graph *g, const struct pare_value *v, int axis)
{
    for (int i = 0; i < PARE_OTHER_SIZES; i++) {
        const struct pare_value *o = pare_value_at(g, v, i);

        if (o && (o->t.rank != v->t.rank || o->t.dim[axis] != v->t.dim[axis]))
            return true;
    }
    return false;
}

bool pare_axis_has_one_size(const struct pare_graph *first, const struct pare_io *io, int i,
                            int axis)
{
    return axis < io[i].rank && io[i].dim[axis] < 0 &&
           !pare_axis_is_free(first, first->in[i], axis);
}
