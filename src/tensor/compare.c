/* compare.c - compare two tensors and report the first difference. */
#include "compare.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "tensor.h"

static bool is_float(enum pare_dtype d)
{
    return d == PARE_F32 || d == PARE_F64 || d == PARE_F16 || d == PARE_BF16;
}

static bool close_enough(double got, double want, struct pare_tolerance tol)
{
    if (isnan(got) || isnan(want))
        return isnan(got) && isnan(want);
    if (isinf(got) || isinf(want))
        return got == want;
    return fabs(got - want) <= tol.atol + tol.rtol * fabs(want);
}

static bool same_text(const struct pare_str *a, const struct pare_str *b)
{
    return a->len == b->len && (!a->len || !memcmp(a->s, b->s, a->len));
}

static bool same_element(const struct pare_tensor *got, const struct pare_tensor *want, int64_t i,
                         struct pare_tolerance tol)
{
    if (is_float(want->dtype))
        return close_enough(pare_get(got, i), pare_get(want, i), tol);
    if (want->dtype == PARE_STR)
        return same_text((const struct pare_str *)got->data + i,
                         (const struct pare_str *)want->data + i);
    return pare_get_int(got, i) == pare_get_int(want, i);
}

static const char *element_text(const struct pare_tensor *t, int64_t i, char *buf, size_t size)
{
    if (is_float(t->dtype)) {
        snprintf(buf, size, "%.7g", pare_get(t, i));
    } else if (t->dtype == PARE_STR) {
        const struct pare_str *s = (const struct pare_str *)t->data + i;

        snprintf(buf, size, "'%.*s'", s->len > 40 ? 40 : (int)s->len, s->len ? s->s : "");
    } else {
        snprintf(buf, size, "%" PRId64, pare_get_int(t, i));
    }
    return buf;
}

/* The indices of element i: "(0, 2, 5)". */
static const char *place_text(const struct pare_tensor *t, int64_t i, char *buf, size_t size)
{
    struct pare_tensor at = { .rank = t->rank };

    for (int k = t->rank - 1; k >= 0; k--) {
        at.dim[k] = i % t->dim[k];
        i /= t->dim[k];
    }
    return pare_shape_text(&at, buf, size);
}

int pare_tensor_compare(const struct pare_tensor *got, const struct pare_tensor *want,
                        struct pare_tolerance tol, struct pare_err *err)
{
    char a[PARE_SHAPE_TEXT], b[PARE_SHAPE_TEXT], c[PARE_SHAPE_TEXT];
    int64_t n, bad = 0, first = 0;

    if (got->dtype != want->dtype)
        return pare_fail(err, PARE_ESHAPE, "is %s, expected %s", pare_dtype_name(got->dtype),
                         pare_dtype_name(want->dtype));
    if (!pare_same_shape(got, want))
        return pare_fail(err, PARE_ESHAPE, "has shape %s, expected %s",
                         pare_shape_text(got, a, sizeof(a)), pare_shape_text(want, b, sizeof(b)));
    n = pare_numel(want);
    for (int64_t i = n - 1; i >= 0; i--)
        if (!same_element(got, want, i, tol)) {
            bad++;
            first = i;
        }
    if (!bad)
        return 0;
    return pare_fail(err, PARE_EFORMAT,
                     "element %s is %s, expected %s; %" PRId64 " of %" PRId64 " differ",
                     place_text(want, first, c, sizeof(c)), element_text(got, first, a, sizeof(a)),
                     element_text(want, first, b, sizeof(b)), bad, n);
}
