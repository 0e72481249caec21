/* test_op_hostile.c - every operator with random attributes, shapes and contents.
 *
 * Most combinations are invalid and must be refused with an error.  Accepted ones must run, and
 * their ties must fit the shapes.  The sanitizers detect other errors.
 *
 * The second test uses empty tensors: axes of billions of elements together with an axis of 0.
 * They have no elements and take no space in a file, so they must not cost time or memory.
 * Operators with bodies are in test_body_hostile.c.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/options.h"
#include "base/rng.h"
#include "graph/graph.h"
#include "graph/ties.h"
#include "op/op.h"

#define ROUNDS 400     /* for each operator */
#define LARGEST 100000 /* bytes of a result that is computed */

#define HOLLOW_ROUNDS 3000         /* for each operator */
#define HOLLOW_BYTES (4 * LARGEST) /* memory that one operator may use */
#define HOLLOW_SECONDS 1

struct round {
    uint64_t state;
    struct pare_arena *arena, *scratch;
    struct pare_node node;
    struct pare_value value[10], *in[6], *out[4];
    int64_t base[PARE_MAX_RANK]; /* the shape of most inputs */
    int base_rank;
    bool hollow;
    enum pare_dtype type;
    struct pare_err err;
};

/* Marsaglia's xorshift. */
static uint64_t random_below(struct round *r, uint64_t below)
{
    r->state ^= r->state << 13;
    r->state ^= r->state >> 7;
    r->state ^= r->state << 17;
    return r->state % below;
}

static int64_t random_int(struct round *r)
{
    static const int64_t bad[] = { INT64_MIN,        INT64_MIN + 1,       INT64_MAX,
                                   INT64_MAX - 1,    INT64_C(1) << 62,    INT64_C(1) << 40,
                                   INT64_C(1) << 31, -(INT64_C(1) << 31), 1000000 };

    return random_below(r, 5) ? (int64_t)random_below(r, 9) - 3 : bad[random_below(r, 9)];
}

static double random_real(struct round *r)
{
    static const double bad[] = { 0, -1, 1e30, -1e30, 1e-30, NAN, INFINITY, -INFINITY };

    return random_below(r, 4) ? (double)random_below(r, 100) / 25 : bad[random_below(r, 8)];
}

/* ---- attributes -------------------------------------------------------------------- */

static const char *random_choice(struct round *r, const char *choices)
{
    int n = 1;

    if (!choices)
        return "text";
    for (const char *p = choices; *p; p++)
        n += *p == '|';
    n = (int)random_below(r, (uint64_t)n);
    while (n--)
        choices = strchr(choices, '|') + 1;
    return pare_strndup(r->arena, choices, strcspn(choices, "|"));
}

static void random_setting(struct round *r, const struct pare_opt *o, struct pare_setting *s)
{
    int64_t *v = pare_alloc(r->arena, 8, sizeof(*v)), one = 1;
    double *f = pare_alloc(r->arena, 8, sizeof(*f));
    struct pare_tensor *t = pare_alloc(r->arena, 1, sizeof(*t));

    assert_true(v && f && t);
    assert_int_equal(pare_tensor_new(r->arena, t, PARE_I32, 1, &one, &r->err), 0);
    for (int i = 0; i < 8; i++) {
        v[i] = random_int(r);
        f[i] = random_real(r);
    }
    *s = (struct pare_setting){ .name = o->name, .type = o->type };
    s->num = random_real(r);
    s->whole = random_int(r);
    s->str = o->type == PARE_OPT_STR ? random_choice(r, o->choices) : NULL;
    s->ints = (struct pare_ints){ v, (int)random_below(r, 5) };
    s->floats = (struct pare_floats){ f, (int)random_below(r, 5) };
    s->tensor = t;
}

static int random_attributes(struct round *r)
{
    void *a = pare_alloc(r->arena, 1, r->node.op->attr_size + 1);
    struct pare_setting set[16];
    int n = 0;

    assert_non_null(a);
    for (const struct pare_opt *o = r->node.op->attrs; o && o->name && n < 16; o++)
        if ((o->required || random_below(r, 2)) && o->type != PARE_OPT_STRS)
            random_setting(r, o, &set[n++]);
    r->node.attr = a;
    return pare_opts_apply(r->node.op->attrs, set, n, a, r->arena, &r->err);
}

/* ---- inputs ------------------------------------------------------------------------ */

static enum pare_dtype random_type(struct round *r, char letter)
{
    static const enum pare_dtype any[] = { PARE_F32,  PARE_I64, PARE_U8,  PARE_F16,
                                           PARE_BOOL, PARE_F64, PARE_STR, PARE_I32 };

    switch (letter) {
    case 'T': return r->type;
    case 'I': return random_below(r, 2) ? PARE_I32 : PARE_I64;
    case 'L': return PARE_I64;
    case 'B': return PARE_BOOL;
    case 'F': return PARE_F32;
    default: return random_below(r, 2) ? r->type : any[random_below(r, 8)];
    }
}

static int random_shape(struct round *r, bool first, int64_t *dim)
{
    int rank = r->base_rank;

    memcpy(dim, r->base, sizeof(r->base));
    switch (first ? 0 : random_below(r, 4)) {
    case 0: return rank;
    case 1: dim[random_below(r, PARE_MAX_RANK)] = (int64_t)random_below(r, 5); return rank;
    case 2: dim[0] = random_below(r, 2) ? rank : 2 * rank; return 1;
    default:
        for (int i = 0; i < PARE_MAX_RANK; i++)
            dim[i] = (int64_t)random_below(r, 4);
        return (int)random_below(r, 4);
    }
}

static void hollow_out(struct round *r, int rank, int64_t *dim)
{
    static const int64_t huge[] = { 1 << 20, 1 << 24, INT64_C(1) << 31, INT64_C(1) << 35 };
    int64_t n = 1;

    if (rank && random_below(r, 2))
        dim[random_below(r, (uint64_t)rank)] = huge[random_below(r, 4)];
    for (int i = 0; i < rank; i++)
        n *= dim[i] > LARGEST ? LARGEST : dim[i];
    if (n >= LARGEST)
        dim[random_below(r, (uint64_t)rank)] = 0;
}

/* Shapes beyond PARE_MAX_ELEMENTS even without their axis of 0 are replaced by zeros. */
static void allocate(struct round *r, struct pare_tensor *t, enum pare_dtype type, int rank,
                     int64_t *dim)
{
    int rc = pare_tensor_new(r->arena, t, type, rank, dim, &r->err);

    if (rc == PARE_ELIMIT && r->hollow) {
        memset(dim, 0, PARE_MAX_RANK * sizeof(*dim));
        rc = pare_tensor_new(r->arena, t, type, rank, dim, &r->err);
    }
    assert_int_equal(rc, 0);
}

static void fill_random(struct round *r, const struct pare_tensor *t)
{
    int64_t n = pare_numel(t);

    for (int64_t i = 0; i < n; i++) {
        char *p = (char *)t->data + (size_t)i * pare_dtype_size(t->dtype);
        double f = random_real(r);
        int64_t v = t->dtype == PARE_BOOL ? (int64_t)random_below(r, 2) : random_int(r);

        if (t->dtype == PARE_STR)
            ((struct pare_str *)t->data)[i] = (struct pare_str){ "text",
                                                                 (size_t)random_below(r, 5) };
        else if (t->dtype == PARE_F32 || t->dtype == PARE_F64 || t->dtype == PARE_F16)
            assert_int_equal(pare_convert(t->dtype, p, PARE_F64, &f, 1, &r->err), 0);
        else
            assert_int_equal(pare_convert(t->dtype, p, PARE_I64, &v, 1, &r->err), 0);
    }
}

/* A sequence of up to three tensors, which may differ in type and shape. */
static void random_sequence(struct round *r, struct pare_tensor *t)
{
    int64_t n = (int64_t)random_below(r, 4);
    struct pare_tensor *e;

    assert_int_equal(pare_sequence_new(r->arena, t, n, &r->err), 0);
    e = t->data;
    for (int64_t i = 0; i < n; i++) {
        int64_t dim[PARE_MAX_RANK];
        int rank = random_shape(r, random_below(r, 2), dim);

        if (r->hollow)
            hollow_out(r, rank, dim);
        allocate(r, &e[i], random_below(r, 3) ? r->type : random_type(r, 'A'), rank, dim);
        fill_random(r, &e[i]);
    }
}

/* Whether an input of this letter is a sequence or an optional without a value now. */
static bool random_other(struct round *r, char letter, struct pare_tensor *t)
{
    uint64_t percent = letter == 'S' ? 90 : letter == 'V' ? 50 : 1;

    if (random_below(r, 100) >= percent)
        return false;
    if (random_below(r, 8))
        random_sequence(r, t);
    else
        pare_set_absent(t);
    return true;
}

static void random_inputs(struct round *r)
{
    struct pare_node *n = &r->node;

    r->type = PARE_F32;
    r->type = random_below(r, 3) ? r->type : random_type(r, 'A');
    r->base_rank = (int)random_below(r, 5);
    for (int i = 0; i < PARE_MAX_RANK; i++)
        r->base[i] = (int64_t)random_below(r, r->hollow ? 4 : 6);
    if (r->hollow)
        hollow_out(r, r->base_rank, r->base);
    for (const char *p = n->op->in; *p && n->n_in < 6; p++) {
        struct pare_value *v = &r->value[n->n_in];
        int64_t dim[PARE_MAX_RANK];
        int rank = random_shape(r, !n->n_in, dim);
        bool many = p[1] == '+' || p[1] == '*', may_miss = p[1] == '?' || p[1] == '*';

        if (r->hollow)
            hollow_out(r, rank, dim);
        r->in[n->n_in++] = may_miss && !random_below(r, 3) ? NULL : v;
        if (!random_other(r, *p, &v->t)) {
            allocate(r, &v->t, random_type(r, *p), rank, dim);
            fill_random(r, &v->t);
        }
        if (many && random_below(r, 2))
            p--; /* the same letter again */
        else if (many || may_miss)
            p++;
    }
}

/* ---- the test ---------------------------------------------------------------------- */

static bool is_small(const struct pare_node *n)
{
    for (int i = 0; i < n->n_out; i++) {
        struct pare_err err;
        size_t bytes;

        if (n->out[i] && (pare_tensor_size(&n->out[i]->t, NULL, &bytes, &err) || bytes > LARGEST))
            return false;
    }
    return true;
}

static void check_ties(struct round *r)
{
    struct pare_ties t = { .arena = r->arena };

    r->node.op->ties(&r->node, &t);
    for (int i = 0; i < t.n; i++) {
        const struct pare_tied *p = &t.tie[i];

        if (p->ax < 0 || p->ax >= p->a->t.rank)
            fail_msg("%s ties axis %d, which does not exist", r->node.type, p->ax);
        if (p->b && (p->bx < 0 || p->bx >= p->b->t.rank))
            fail_msg("%s ties axis %d, which does not exist", r->node.type, p->bx);
        if (p->kind == PARE_TIE_SAME && p->a->t.dim[p->ax] != p->b->t.dim[p->bx])
            fail_msg("%s ties axes %d and %d, which differ", r->node.type, p->ax, p->bx);
        if (p->kind == PARE_TIE_PART &&
            (p->from < 0 || p->from > p->a->t.dim[p->ax] - p->b->t.dim[p->bx]))
            fail_msg("%s ties axis %d to a range outside it", r->node.type, p->ax);
    }
}

/* Gradients are float32 only. */
static bool can_train(const struct pare_node *n)
{
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && (n->in[i]->t.dtype == PARE_F16 || n->in[i]->t.dtype == PARE_F64))
            return false;
    return n->op->backward && n->out[0] && n->out[0]->t.dtype == PARE_F32;
}

static void add_grad(struct round *r, struct pare_value *v)
{
    struct pare_tensor *g = &v->grad;

    if (v->t.dtype == PARE_F32 && random_below(r, 4)) {
        assert_int_equal(pare_tensor_new(r->arena, g, PARE_F32, v->t.rank, v->t.dim, &r->err), 0);
        fill_random(r, g);
    }
}

/* A forward pass in training mode and a backward pass. */
static int run_training(struct round *r, struct pare_ctx *c)
{
    struct pare_node *n = &r->node;
    struct pare_rng rng;

    pare_rng_init(&rng, r->state);
    c->train = true;
    c->rng = &rng;
    if (n->op->save) {
        n->save = pare_alloc(r->arena, n->op->save(n) + 1, 1);
        assert_non_null(n->save);
    }
    PARE_TRY(pare_node_forward(n, c, &r->err));
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i])
            add_grad(r, n->in[i]);
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i])
            add_grad(r, n->out[i]);
    return n->op->backward(n, c, &r->err);
}

static void run_round(struct round *r, const struct pare_op *op)
{
    struct pare_ctx c = { .scratch = r->scratch, .results = r->arena, .threads = 1 };
    int rc;

    memset(r->value, 0, sizeof(r->value));
    r->node = (struct pare_node){ .op = op,
                                  .name = "",
                                  .type = op->type,
                                  .domain = "",
                                  .in = r->in,
                                  .out = r->out };
    r->node.version = 7 + (int)random_below(r, 15);
    for (int i = 0; i < 10; i++)
        r->value[i].name = "v";
    r->err.msg[0] = '\0';
    rc = random_attributes(r);
    if (!rc) {
        random_inputs(r);
        r->node.n_out = op->max_out == 1 ? 1 : 1 + (int)random_below(r, 3);
        for (int i = 0; i < r->node.n_out; i++)
            r->out[i] = i && !random_below(r, 4) ? NULL : &r->value[6 + i];
        rc = pare_node_infer(&r->node, &r->err);
    }
    if (!rc && !(op->flags & PARE_OP_ALLOCS) && !is_small(&r->node))
        return;
    if (!rc)
        rc = pare_node_eval(&r->node, &c, &r->err);
    if (!rc && can_train(&r->node))
        rc = run_training(r, &c);
    if (rc && (!r->err.msg[0] || r->err.msg[strlen(r->err.msg) - 1] == '.'))
        fail_msg("%s fails with '%s'", op->type, r->err.msg);
    if (!rc && op->ties)
        check_ties(r);
}

static bool has_graphs(const struct pare_op *op)
{
    for (const struct pare_opt *o = op->attrs; o && o->name; o++)
        if (o->type == PARE_OPT_GRAPH)
            return true;
    return false;
}

static void test_random_nodes_run_or_give_an_error(void **state)
{
    struct round r = { .state = UINT64_C(88172645463325252) };

    (void)state;
    for (const struct pare_op *const *op = pare_ops; *op; op++)
        for (int i = 0; i < ROUNDS && !has_graphs(*op); i++) {
            r.arena = pare_arena_new(1 << 16);
            r.scratch = pare_arena_new(1 << 16);
            assert_true(r.arena && r.scratch);
            run_round(&r, *op);
            pare_arena_free(r.arena);
            pare_arena_free(r.scratch);
        }
}

static void test_empty_tensors_of_huge_shape_cost_nothing(void **state)
{
    struct round r = { .state = UINT64_C(88172645463325252), .hollow = true };

    (void)state;
    for (const struct pare_op *const *op = pare_ops; *op; op++)
        for (int i = 0; i < HOLLOW_ROUNDS && !has_graphs(*op); i++) {
            clock_t start = clock();
            char shape[PARE_SHAPE_TEXT];

            r.arena = pare_arena_new(1 << 16);
            r.scratch = pare_arena_new(1 << 16);
            assert_true(r.arena && r.scratch);
            pare_arena_limit(r.arena, HOLLOW_BYTES * 10);
            pare_arena_limit(r.scratch, HOLLOW_BYTES);
            run_round(&r, *op);
            if (r.node.n_in && r.in[0])
                pare_shape_text(&r.in[0]->t, shape, sizeof(shape));
            /* The size of results that the operator allocates itself is not known before. */
            if ((!pare_arena_limit(r.arena, 0) && !((*op)->flags & PARE_OP_ALLOCS)) ||
                !pare_arena_limit(r.scratch, 0))
                fail_msg("%s of %s takes memory: %s", (*op)->type, shape, r.err.msg);
            if (clock() - start > HOLLOW_SECONDS * CLOCKS_PER_SEC)
                fail_msg("%s of %s takes %g s", (*op)->type, shape,
                         (double)(clock() - start) / CLOCKS_PER_SEC);
            pare_arena_free(r.arena);
            pare_arena_free(r.scratch);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_random_nodes_run_or_give_an_error),
                                        cmocka_unit_test(
                                            test_empty_tensors_of_huge_shape_cost_nothing) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
