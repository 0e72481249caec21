/* budget_print.h - the result of a compression to a budget as text and JSON; fronts. */
#ifndef PARE_CLI_PRINT_BUDGET_PRINT_H
#define PARE_CLI_PRINT_BUDGET_PRINT_H

#include <pare/budget.h>

#include "../cli.h"

struct pare_budget_result {
    struct pare_arena *arena;
    const char *output; /* file of the model */
    const char *runner; /* NULL: latency is of this engine */
    bool dry_run;       /* the model was not built */
    const struct pare_compress_budget_report *r;
};

int pare_budget_print_model(const struct pare_budget_result *w, struct pare_err *err);
struct json_t *pare_budget_json(const struct pare_budget_result *w);

/* A table of the original and n models. */
int pare_budget_print_front(const struct pare_budget_result *w, int n, struct pare_err *err);

#endif
