/* list.c - pruners, quantizers and sizes of public structs as data, for bindings. */
#include <string.h>

#include <pare/analyze.h>
#include <pare/budget.h>
#include <pare/command.h>
#include <pare/compress.h>

#include "../compress/method.h"
#include "../compress/registry.h"

static bool describe(const struct pare_registry *g, const struct pare_method *m, int i,
                     struct pare_algorithm_info *a)
{
    const struct pare_algorithm *d = i >= 0 ? pare_algorithm_at(g, m, i) : NULL;

    if (!d)
        return false;
    *a = (struct pare_algorithm_info){ .name = d->name,
                                       .doc = d->doc,
                                       .types = d->types,
                                       .keys = d->keys,
                                       .opts = d->opts,
                                       .common_keys = m->keys,
                                       .common_opts = m->settings,
                                       .needs_data = (d->flags & PARE_NEEDS_DATA) != 0,
                                       .needs_training = (d->flags & PARE_NEEDS_STEPS) != 0 };
    return true;
}

bool pare_list_pruner(const struct pare_registry *g, int i, struct pare_algorithm_info *a)
{
    return describe(g, &pare_method_prune, i, a);
}

bool pare_list_quantizer(const struct pare_registry *g, int i, struct pare_algorithm_info *a)
{
    return describe(g, &pare_method_quant, i, a);
}

/* clang-format off */
#define STRUCTS(X) \
    X(pare_err) X(pare_progress) X(pare_mark) X(pare_str) X(pare_tensor) X(pare_save_opts) \
    X(pare_io) X(pare_model_layer) X(pare_model_quant) X(pare_plan_opts) X(pare_ints) \
    X(pare_floats) X(pare_strs) X(pare_given) X(pare_opt) X(pare_data_opts) X(pare_input) \
    X(pare_arrays) X(pare_agreement_opts) X(pare_agreement) X(pare_evaluate_opts) \
    X(pare_metrics) X(pare_training_opts) X(pare_epoch_result) X(pare_rule) \
    X(pare_compression_opts) X(pare_budget_step) X(pare_budget) X(pare_budget_layer) \
    X(pare_budget_report) X(pare_export) X(pare_algorithm_info) X(pare_algorithm) X(pare_pruner) \
    X(pare_quantizer) X(pare_quant) X(pare_speedup_opts) X(pare_speedup_layer) \
    X(pare_speedup_report) X(pare_tuning) X(pare_prune_opts) X(pare_prune_report) \
    X(pare_quantize_opts) X(pare_quantize_report) X(pare_compress_opts) X(pare_compress_report) \
    X(pare_reconstruct_opts) X(pare_pruned_layer) X(pare_quantized_tensor) X(pare_count_opts) \
    X(pare_count_layer) X(pare_count_report) X(pare_sensitivity_opts) X(pare_sensitivity_report) \
    X(pare_quant_error_opts) X(pare_quant_error) X(pare_quant_error_report) X(pare_load_opts) \
    X(pare_intake_count) X(pare_units) X(pare_worst_tensor) X(pare_quantize_check) \
    X(pare_class_metrics) X(pare_metric_value) X(pare_paired_opts) X(pare_paired) \
    X(pare_certificate) X(pare_compress_budget_opts) X(pare_budget_cost) \
    X(pare_compressed_layer) X(pare_compress_budget_report) X(pare_host)
/* clang-format on */

size_t pare_struct_size(const char *name)
{
    static const struct {
        const char *name;
        size_t size;
    } list[] = {
#define X(s) { #s, sizeof(struct s) },
        STRUCTS(X)
#undef X
    };

    for (size_t i = 0; i < sizeof(list) / sizeof(*list); i++)
        if (!strcmp(list[i].name, name))
            return list[i].size;
    return 0;
}
