/* half_print.c - print the result of a conversion to float16 or bfloat16. */
#include <jansson.h>

#include "../../quant/half/half_precision.h"
#include "../../tensor/tensor.h"
#include "quantize_print.h"

#define SHOWN 10 /* layers that stay float32, printed by name */

int pare_half_print(const struct pare_quantize_summary *v, bool quiet)
{
    const struct pare_half *h = v->half;
    char before[PARE_NUM_TEXT], after[PARE_NUM_TEXT], part[PARE_NUM_TEXT], n[PARE_NUM_TEXT];

    if (quiet)
        return 0;
    printf("%lld weights with %s elements are %s", (long long)h->weights,
           pare_whole_text(h->elements, n, sizeof(n)), pare_dtype_name(h->type));
    if (h->compute)
        printf("; %d nodes compute in it, %d in float32", h->nodes, h->left);
    printf("\n");
    if (h->clamped)
        printf("%d constants had elements beyond the range, which are clamped\n", h->clamped);
    for (int i = 0; i < h->n_kept && i < SHOWN; i++)
        printf("float32: %s\n", h->kept[i]);
    if (h->n_kept > SHOWN)
        printf("float32: %d more\n", h->n_kept - SHOWN);
    printf("%s instead of %s (%s)\n", pare_bytes_text(v->bytes_after, after, sizeof(after)),
           pare_bytes_text(v->bytes_before, before, sizeof(before)),
           pare_percent_text(v->bytes_after, v->bytes_before, part, sizeof(part)));
    pare_metrics_print("float:", &v->before);
    pare_metrics_print("converted file:", &v->after);
    printf("%s: converted model\n", v->files->onnx);
    return 0;
}

int pare_half_json(struct pare_cli *c, const struct pare_quantize_summary *v, struct pare_err *err)
{
    const struct pare_half *h = v->half;
    json_t *kept = json_array();

    for (int i = 0; i < h->n_kept; i++)
        json_array_append_new(kept, pare_json_text(h->kept[i]));
    return pare_json_result(
        c,
        json_pack("{s:s, s:I, s:I, s:i, s:i, s:i, s:o, s:o, s:o, s:o, s:o, s:o}", "type",
                  pare_dtype_name(h->type), "weights", (json_int_t)h->weights, "elements",
                  (json_int_t)h->elements, "half_nodes", h->nodes, "float_nodes", h->left,
                  "clamped", h->clamped, "float_layers", kept, "before",
                  pare_metrics_json(&v->before), "after", pare_metrics_json(&v->after),
                  "bytes_before", pare_json_whole(v->bytes_before), "bytes_after",
                  pare_json_whole(v->bytes_after), "output", pare_json_text(v->files->onnx)),
        err);
}
