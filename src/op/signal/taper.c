/* taper.c - windows for the analysis of signals, sums of cosines. */
#include "taper.h"

#include <math.h>

#define AT(field) offsetof(struct pare_taper, field)
const struct pare_opt pare_taper_attrs[] = {
    PARE_INT("output_datatype", AT(output_datatype), "element type of the window", 1, 1, 64),
    PARE_INT("periodic", AT(periodic), "1: one period of a periodic window, 0: symmetric", 1, 0, 1),
    PARE_OPT_END
};

int pare_signal_type(int64_t type, struct pare_err *err)
{
    enum pare_dtype d = (enum pare_dtype)type;

    if (!pare_dtype_size(d) || d == PARE_STR || d == PARE_BOOL || pare_is_4bit(d))
        return pare_fail(err, PARE_EUNSUPPORTED, "output_datatype is %lld, must be a numeric type",
                         (long long)type);
    return 0;
}

int pare_taper_infer(struct pare_node *n, struct pare_err *err)
{
    const struct pare_taper *a = n->attr;
    int64_t size;

    PARE_TRY(pare_signal_type(a->output_datatype, err));
    PARE_TRY(pare_signal_number(n, 0, "size", 0, &size, err));
    if (size < 0)
        return pare_fail(err, PARE_ESHAPE, "the size of the window is %lld", (long long)size);
    return pare_shape_set(&n->out[0]->t, (enum pare_dtype)a->output_datatype, 1, &size, err);
}

int pare_taper_forward(struct pare_node *n, const double a[3], struct pare_err *err)
{
    const struct pare_taper *attr = n->attr;
    const struct pare_tensor *y = &n->out[0]->t;
    int64_t size = y->dim[0], N = attr->periodic ? size : size - 1;
    size_t bytes = pare_dtype_size(y->dtype);

    for (int64_t k = 0; k < size; k++) {
        double angle = N ? 2 * 3.14159265358979323846 * (double)k / (double)N : 0;
        double v = N ? a[0] - a[1] * cos(angle) + a[2] * cos(2 * angle) : 1;

        v = y->dtype == PARE_F64 ? v : (double)(float)v; /* 0.99... is 1, also as an integer */
        PARE_TRY(pare_convert(y->dtype, (char *)y->data + (size_t)k * bytes, PARE_F64, &v, 1, err));
    }
    return 0;
}
