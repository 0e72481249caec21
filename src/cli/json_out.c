/* json_out.c - results as JSON, for scripts. */
#include <math.h>

#include <jansson.h>

#include "cli.h"

int pare_json_print(json_t *j, struct pare_err *err)
{
    int rc = j ? json_dumpf(j, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) : -1;

    json_decref(j);
    if (rc)
        return pare_fail(err, PARE_ENOMEM, "cannot write the result as JSON");
    fputc('\n', stdout);
    return 0;
}

json_t *pare_json_dims(const struct pare_tensor *t)
{
    json_t *a;

    if (t->dtype == PARE_NONE || t->rank < 0)
        return json_null();
    a = json_array();
    for (int i = 0; i < t->rank; i++)
        json_array_append_new(a, json_integer(t->dim[i]));
    return a;
}

json_t *pare_json_real(double v)
{
    return isfinite(v) ? json_real(v) : json_null();
}
