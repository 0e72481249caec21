/* metric_print.c - values of metrics as text and JSON. */
#include "metric_print.h"

#include <math.h>
#include <stdio.h>

#include <jansson.h>

#include "../cli.h"

const char *pare_metric_text(const struct pare_metric_value *v, char *buf, size_t size)
{
    if (isnan(v->value))
        snprintf(buf, size, "undefined");
    else if (v->percent)
        snprintf(buf, size, "%.2f%%", 100 * v->value);
    else
        snprintf(buf, size, "%.5g", v->value);
    return buf;
}

json_t *pare_metric_list_json(const struct pare_metrics *m)
{
    json_t *list = json_array();

    for (int i = 0; i < m->n_values; i++) {
        const struct pare_metric_value *v = &m->value[i];

        json_array_append_new(list, json_pack("{s:s, s:o, s:b, s:s}", "name", v->name, "value",
                                              pare_json_real(v->value), "percent", v->percent,
                                              "better", v->lower_is_better ? "lower" : "higher"));
    }
    return list;
}
