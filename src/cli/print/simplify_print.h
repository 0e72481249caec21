/* simplify_print.h - print what pare export --simplify changed. */
#ifndef PARE_CLI_PRINT_SIMPLIFY_PRINT_H
#define PARE_CLI_PRINT_SIMPLIFY_PRINT_H

#include <jansson.h>

#include "../cli.h"
#include "../../onnx/simplify.h"

/* Nodes by operator and sizes of the files, before and after. */
struct pare_simplify_result {
    struct pare_simplified nodes;
    double bytes, bytes_left;
    double max_abs, max_rel; /* largest difference of outputs */
    const char *shapes[2];   /* input shapes of the comparisons; NULL or "": no free dimension */
};

int pare_simplify_print(struct pare_cli *c, const struct pare_simplify_result *r,
                        struct pare_err *err);
json_t *pare_simplify_json(const struct pare_simplify_result *r);

#endif
