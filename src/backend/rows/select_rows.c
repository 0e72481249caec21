/* select_rows.c - comparisons, logic, Where and Cast as vector loops in threads.
 *
 * Rows are those of the broadcast result (op/math/elementwise.h).  An operand that is constant
 * along a row is repeated in a buffer, so that all loops run over contiguous memory.
 */
#include "../backend.h"

#include "../../base/simd.h"
#include "../../op/math/elementwise.h"
#include "../../op/shape/movement.h"
#include "../../base/team.h"

#define PIECE 1024 /* elements at a time */
#define MOST_IN 3

/* y[i] = f(in[0][i], in[1][i], in[2][i]) for n elements. */
typedef void piece_fn(const void *const *in, void *y, int64_t n);

struct rows {
    piece_fn *run;
    size_t size[MOST_IN + 1]; /* bytes of an element of each input; then of the result */
};

#define LOOP(name, in_type, out_type, formula)                              \
    PARE_SIMD static void name(const void *const *in, void *out, int64_t n) \
    {                                                                       \
        const in_type *a = in[0], *b = in[1];                               \
        out_type *y = out;                                                  \
                                                                            \
        (void)b;                                                            \
        _Pragma("omp simd") for (int64_t i = 0; i < n; i++) y[i] = formula; \
    }

#define COMPARISONS(type, t)                     \
    LOOP(equal_##t, type, uint8_t, a[i] == b[i]) \
    LOOP(more_##t, type, uint8_t, a[i] > b[i])   \
    LOOP(less_##t, type, uint8_t, a[i] < b[i])   \
    LOOP(least_##t, type, uint8_t, a[i] >= b[i]) \
    LOOP(most_##t, type, uint8_t, a[i] <= b[i])
COMPARISONS(float, f32)
COMPARISONS(int32_t, i32)
COMPARISONS(int64_t, i64)

LOOP(both, uint8_t, uint8_t, (a[i] != 0) & (b[i] != 0))
LOOP(either, uint8_t, uint8_t, (a[i] != 0) | (b[i] != 0))
LOOP(differ, uint8_t, uint8_t, (a[i] != 0) ^ (b[i] != 0))
LOOP(negate, uint8_t, uint8_t, a[i] == 0)

LOOP(bool_f32, uint8_t, float, a[i] ? 1.0f : 0.0f)
LOOP(bool_i64, uint8_t, int64_t, a[i] != 0)
LOOP(i64_f32, int64_t, float, (float)a[i])
LOOP(i32_f32, int32_t, float, (float)a[i])
LOOP(i64_bool, int64_t, uint8_t, a[i] != 0)
LOOP(i32_bool, int32_t, uint8_t, a[i] != 0)
LOOP(f32_bool, float, uint8_t, a[i] != 0)
LOOP(i32_i64, int32_t, int64_t, a[i])

#define WHERE(name, type)                                                              \
    PARE_SIMD static void name(const void *const *in, void *out, int64_t n)            \
    {                                                                                  \
        const uint8_t *c = in[0];                                                      \
        const type *a = in[1], *b = in[2];                                             \
        type *y = out;                                                                 \
                                                                                       \
        _Pragma("omp simd") for (int64_t i = 0; i < n; i++) y[i] = c[i] ? a[i] : b[i]; \
    }
WHERE(where_32, uint32_t)
WHERE(where_64, uint64_t)

struct choice {
    const struct pare_op *op;
    enum pare_dtype from, to; /* of the last input and of the result */
    piece_fn *run;
};

static const struct choice choices[] = {
    { &pare_op_equal, PARE_F32, PARE_BOOL, equal_f32 },
    { &pare_op_equal, PARE_I32, PARE_BOOL, equal_i32 },
    { &pare_op_equal, PARE_I64, PARE_BOOL, equal_i64 },
    { &pare_op_greater, PARE_F32, PARE_BOOL, more_f32 },
    { &pare_op_greater, PARE_I32, PARE_BOOL, more_i32 },
    { &pare_op_greater, PARE_I64, PARE_BOOL, more_i64 },
    { &pare_op_less, PARE_F32, PARE_BOOL, less_f32 },
    { &pare_op_less, PARE_I32, PARE_BOOL, less_i32 },
    { &pare_op_less, PARE_I64, PARE_BOOL, less_i64 },
    { &pare_op_greater_or_equal, PARE_F32, PARE_BOOL, least_f32 },
    { &pare_op_greater_or_equal, PARE_I32, PARE_BOOL, least_i32 },
    { &pare_op_greater_or_equal, PARE_I64, PARE_BOOL, least_i64 },
    { &pare_op_less_or_equal, PARE_F32, PARE_BOOL, most_f32 },
    { &pare_op_less_or_equal, PARE_I32, PARE_BOOL, most_i32 },
    { &pare_op_less_or_equal, PARE_I64, PARE_BOOL, most_i64 },
    { &pare_op_and, PARE_BOOL, PARE_BOOL, both },
    { &pare_op_or, PARE_BOOL, PARE_BOOL, either },
    { &pare_op_xor, PARE_BOOL, PARE_BOOL, differ },
    { &pare_op_not, PARE_BOOL, PARE_BOOL, negate },
    { &pare_op_cast, PARE_BOOL, PARE_F32, bool_f32 },
    { &pare_op_cast, PARE_BOOL, PARE_I64, bool_i64 },
    { &pare_op_cast, PARE_I64, PARE_F32, i64_f32 },
    { &pare_op_cast, PARE_I32, PARE_F32, i32_f32 },
    { &pare_op_cast, PARE_I64, PARE_BOOL, i64_bool },
    { &pare_op_cast, PARE_I32, PARE_BOOL, i32_bool },
    { &pare_op_cast, PARE_F32, PARE_BOOL, f32_bool },
    { &pare_op_cast, PARE_I32, PARE_I64, i32_i64 },
    { &pare_op_where, PARE_F32, PARE_F32, where_32 },
    { &pare_op_where, PARE_I32, PARE_I32, where_32 },
    { &pare_op_where, PARE_I64, PARE_I64, where_64 },
};

static piece_fn *find_loop(const struct pare_node *n)
{
    for (size_t i = 0; i < sizeof(choices) / sizeof(*choices); i++)
        if (pare_node_is(n, choices[i].op) && n->in[n->n_in - 1]->t.dtype == choices[i].from &&
            n->out[0]->t.dtype == choices[i].to)
            return choices[i].run;
    return NULL;
}

static bool select_rows_match(const struct pare_match *v, struct pare_node *n, struct pare_step *s)
{
    struct rows *c;

    if (n->n_in < 1 || n->n_in > MOST_IN || n->n_out < 1 || !n->out[0] || n->op->domain ||
        n->version < 7)
        return false;
    for (int i = 0; i < n->n_in; i++)
        if (!n->in[i] || n->in[i]->t.dtype == PARE_NONE || n->in[i]->t.rank < 0)
            return false;
    if (!find_loop(n) || !pare_numel(&n->out[0]->t))
        return false;
    c = pare_alloc(v->backend->arena, 1, sizeof(*c));
    if (!c || !pare_step_lists(s, v, n->n_in, 1, 0))
        return false;
    c->run = find_loop(n);
    for (int i = 0; i < n->n_in; i++) {
        c->size[i] = pare_dtype_size(n->in[i]->t.dtype);
        s->in[i] = n->in[i];
    }
    c->size[MOST_IN] = pare_dtype_size(n->out[0]->t.dtype);
    s->out[0] = n->out[0];
    s->state = c;
    return true;
}

/* The elements [from, to) of a row that begins at `at` in the inputs and at y in the result. */
static void run_row(const struct pare_step *s, const struct pare_rows *r, char *y, int64_t from,
                    int64_t to)
{
    const struct rows *c = s->state;
    uint64_t same[MOST_IN][PIECE];
    const void *in[MOST_IN] = { NULL };

    for (int k = 0; k < s->n_in; k++) {
        const char *x = (const char *)s->in_buf[k]->t.data + (size_t)r->w.at[k] * c->size[k];

        in[k] = x;
        if (!r->step[k]) {
            pare_fill(same[k], to - from < PIECE ? to - from : PIECE, x, c->size[k]);
            in[k] = same[k];
        }
    }
    for (int64_t i = from; i < to; i += PIECE) {
        const void *at[MOST_IN] = { NULL };

        for (int k = 0; k < s->n_in; k++)
            at[k] = r->step[k] ? (const char *)in[k] + (size_t)i * c->size[k] : in[k];
        c->run(at, y + (size_t)i * c->size[MOST_IN], to - i < PIECE ? to - i : PIECE);
    }
}

/* Shares of the rows, or of the only one. */
struct shares {
    struct pare_step *s;
    int64_t n;
};

static void run_shares(void *arg, int64_t first, int64_t end, int thread)
{
    const struct shares *j = arg;
    struct pare_step *s = j->s;
    const struct rows *c = s->state;
    const struct pare_tensor *y = &s->out_buf[0]->t, *in[MOST_IN] = { NULL };

    (void)thread;
    for (int k = 0; k < s->n_in; k++)
        in[k] = &s->in_buf[k]->t;
    for (int64_t t = first; t < end; t++) {
        struct pare_rows r;

        pare_rows_start(&r, y, in, s->n_in);
        for (int64_t i = 0; i < r.n; i++, pare_walk_next(&r.w)) {
            char *to = (char *)y->data + (size_t)(i * r.len) * c->size[MOST_IN];

            if (r.n == 1)
                run_row(s, &r, to, r.len * t / j->n, r.len * (t + 1) / j->n);
            else if (i * j->n / r.n == t)
                run_row(s, &r, to, 0, r.len);
        }
    }
}

static int select_rows_run(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    struct shares j = { s, pare_numel(&s->out_buf[0]->t) > 16384 ? b->threads : 1 };

    (void)err;
    pare_parallel((int)j.n, j.n, run_shares, &j);
    return 0;
}

const struct pare_kernel pare_kernel_select_rows = {
    .name = "select_rows",
    .doc = "Comparisons, logic, Where and Cast as vector loops.",
    .match = select_rows_match,
    .run = select_rows_run,
};
