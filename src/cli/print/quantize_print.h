/* quantize_print.h - print the result of quantization. */
#ifndef PARE_CLI_PRINT_QUANTIZE_PRINT_H
#define PARE_CLI_PRINT_QUANTIZE_PRINT_H

#include "../job/compress_job.h"

struct pare_quantize_summary {
    struct pare_compression *compression;
    const struct pare_export *files;
    struct pare_metrics before, rounded, after; /* float, rounded floats, the file of integers */
    double bytes_before, bytes_after;           /* of the files */
    bool trained;
    const char *note; /* layers that are left as they are, and why; or NULL */
    int smoothed;     /* layers whose inputs option "smooth" scaled; -1: the option is off */
    const char *smoothed_choice; /* with or without, and why; NULL: there was no choice */
    struct json_t *history;      /* of the training, or NULL */
    double drop, least; /* points that may be lost, below 0: any; the accuracy that must stay */
    struct pare_budget_report budget;
    const struct pare_half *half; /* the conversion to half precision; NULL: quantization */
};

/* A line for what was tried. */
void pare_budget_print(const struct pare_quantize_summary *v, const struct pare_budget_step *s,
                       FILE *f);

int pare_quantize_print(const struct pare_quantize_summary *v, struct pare_arena *a, bool quiet,
                        struct pare_err *err);
/* The same for a conversion to half precision. */
int pare_half_print(const struct pare_quantize_summary *v, bool quiet);
int pare_half_json(struct pare_cli *c, const struct pare_quantize_summary *v, struct pare_err *err);

int pare_quantize_json(struct pare_cli *c, const struct pare_quantize_summary *v,
                       struct pare_err *err);

#endif
