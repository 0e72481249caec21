/* random_family.c - shared by operators that generate random numbers. */
#include "random_family.h"

#include <math.h>

#include "../../base/map.h"

int pare_random_infer(struct pare_node *n, struct pare_err *err)
{
    const struct pare_random *a = n->attr;
    const struct pare_tensor *x = pare_given(n, 0);
    enum pare_dtype d = a->dtype || !x ? (enum pare_dtype)a->dtype : x->dtype;
    struct pare_list shape;

    if (!pare_dtype_size(d) || d == PARE_STR)
        return pare_fail(err, PARE_EUNSUPPORTED, "random numbers of type %s are not supported",
                         pare_dtype_name(d));
    if (x)
        return pare_shape_set(&n->out[0]->t, d, x->rank, x->dim, err);
    PARE_TRY(pare_list_read(n, 0, a->shape, &shape, err));
    return pare_shape_set(&n->out[0]->t, d, shape.n < 0 ? 0 : shape.n, shape.v, err);
}

uint64_t pare_random_start(const struct pare_node *n)
{
    const struct pare_random *a = n->attr;
    const char *name = n->name && *n->name ? n->name : n->out[0]->name;

    if (a->seed < PARE_NO_SEED)
        return pare_hash(&a->seed, sizeof(a->seed));
    return name ? pare_hash(name, strlen(name)) : 0;
}

/* Steele, Lea and Flood's splitmix64. */
static uint64_t next(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

double pare_random_uniform(uint64_t *state)
{
    return ((double)(next(state) >> 11) + 0.5) * 0x1p-53;
}

/* Box and Muller's transform, first of its two numbers. */
double pare_random_normal(uint64_t *state)
{
    double r = sqrt(-2 * log(pare_random_uniform(state)));

    return r * cos(6.283185307179586 * pare_random_uniform(state));
}

static int fill(struct pare_node *n, bool normal, struct pare_err *err)
{
    const struct pare_random *a = n->attr;
    const struct pare_tensor *y = &n->out[0]->t;
    int64_t count = pare_numel(y);
    size_t size = pare_dtype_size(y->dtype);
    uint64_t state = pare_random_start(n);

    for (int64_t i = 0; i < count; i++) {
        double v = normal ? a->low + a->high * pare_random_normal(&state)
                          : a->low + (a->high - a->low) * pare_random_uniform(&state);

        PARE_TRY(pare_convert(y->dtype, (char *)y->data + (size_t)i * size, PARE_F64, &v, 1, err));
    }
    return 0;
}

int pare_forward_uniform(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    (void)c;
    return fill(n, false, err);
}

int pare_forward_normal(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    (void)c;
    return fill(n, true, err);
}
