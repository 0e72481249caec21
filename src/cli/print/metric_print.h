/* metric_print.h - values of metrics as text and JSON. */
#ifndef PARE_CLI_PRINT_METRIC_PRINT_H
#define PARE_CLI_PRINT_METRIC_PRINT_H

#include <pare/train.h>

struct json_t;

/* "97.50%", "0.01234"; "undefined" if the labels do not define it. */
const char *pare_metric_text(const struct pare_metric_value *v, char *buf, size_t size);

/* [{"name": "mse", "value": 0.01, "percent": false, "better": "lower"}, ...] */
struct json_t *pare_metric_list_json(const struct pare_metrics *m);

#endif
