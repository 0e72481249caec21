/* quantize_view.h - what people see of a quantization. */
#ifndef PARE_CLI_QUANTIZE_VIEW_H
#define PARE_CLI_QUANTIZE_VIEW_H

#include "compressing.h"

struct pare_quantize_view {
    struct pare_run *run;
    const struct pare_export *files;
    struct pare_judged before, rounded, after; /* float, rounded floats, the file of integers */
    double bytes_before, bytes_after;          /* of the files */
    bool trained;
    struct json_t *history; /* of the training, or NULL */
};

int pare_quantize_print(const struct pare_quantize_view *v, struct pare_arena *a, bool quiet,
                        struct pare_err *err);
int pare_quantize_json(struct pare_cli *c, const struct pare_quantize_view *v,
                       struct pare_err *err);

#endif
