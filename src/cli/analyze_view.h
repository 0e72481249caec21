/* analyze_view.h - what people see of an analysis: tables, CSV, JSON. */
#ifndef PARE_CLI_ANALYZE_VIEW_H
#define PARE_CLI_ANALYZE_VIEW_H

#include "cli.h"
#include "../compress/quant_error.h"
#include "../compress/sensitivity.h"
#include "../graph/count.h"

void pare_count_print(const struct pare_count *n, struct pare_arena *a);
struct json_t *pare_count_json(const struct pare_count *n, bool full);

/* `loss`: the metric is a loss, else a part of 1. */
void pare_sense_print(const struct pare_sense *s, struct pare_arena *a, bool loss);
struct json_t *pare_sense_json(const struct pare_sense *s, const char *metric);
int pare_sense_csv(const struct pare_sense *s, const char *path, struct pare_err *err);

void pare_qerror_print(const struct pare_qerror *q, struct pare_arena *a);
struct json_t *pare_qerror_json(const struct pare_qerror *q);
int pare_qerror_csv(const struct pare_qerror *q, const char *path, struct pare_err *err);

#endif
