/* prune_print.c - print the result of pruning: sparsity of layers, accuracy, files. */
#include "prune_print.h"

#include <jansson.h>

#include "../../base/arena.h"
#include "../../prune/prune_state.h"
#include "../../tensor/tensor.h"

/* Number of parameters of a layer, weight and bias, before and after. */
static void count_params(const struct pare_layer *l, int64_t *all, int64_t *left)
{
    *all = pare_numel(&l->w) + (l->bias ? pare_numel(&l->b) : 0);
    *left = *all - pare_mask_zeros(&l->mask) - (l->bias ? pare_mask_zeros(&l->bias_mask) : 0);
}

static double sparsity_of(const struct pare_layer *l)
{
    return (double)pare_mask_zeros(&l->mask) / (double)pare_numel(&l->w);
}

/* ---- text -------------------------------------------------------------------------- */

static void layer_row(struct pare_table *t, const struct pare_layer *l)
{
    char shape[PARE_SHAPE_TEXT], before[PARE_NUM_TEXT], after[PARE_NUM_TEXT];
    char target[PARE_NUM_TEXT] = "-", got[PARE_NUM_TEXT];
    int64_t all, left;

    count_params(l, &all, &left);
    if (l->prune->config_sparsity >= 0)
        pare_percent_text(l->prune->config_sparsity, 1, target, sizeof(target));
    pare_table_row(t, l->info.name, l->info.torch, pare_shape_text(&l->w, shape, sizeof(shape)),
                   target, pare_percent_text(sparsity_of(l), 1, got, sizeof(got)),
                   pare_whole_text(all, before, sizeof(before)),
                   pare_whole_text(left, after, sizeof(after)));
}

int pare_prune_print(const struct pare_prune_summary *v, struct pare_arena *a, bool quiet,
                     struct pare_err *err)
{
    struct pare_table *t = pare_table_new(a, "lllrrrr");
    char before[PARE_NUM_TEXT], after[PARE_NUM_TEXT], part[PARE_NUM_TEXT];
    int64_t all = 0, left = 0;

    if (!t)
        return pare_no_memory(err, "for a table");
    pare_table_row(t, "layer", "type", "weight", "target", "sparsity", "params", "left");
    for (int i = 0; i < v->run->n_layers; i++) {
        int64_t n, k;

        layer_row(t, &v->run->layer[i]);
        count_params(&v->run->layer[i], &n, &k);
        all += n;
        left += k;
    }
    if (!quiet) {
        pare_table_print(t, stdout);
        printf("\n%d layers, %s of %s parameters left (%s)\n", v->run->n_layers,
               pare_whole_text(left, after, sizeof(after)),
               pare_whole_text(all, before, sizeof(before)),
               pare_percent_text((double)left, (double)all, part, sizeof(part)));
        pare_metrics_print("before:", &v->before);
        pare_metrics_print(v->trained ? "initial masks:" : "with masks:", &v->masked);
        pare_metrics_print("after training:", &v->after);
    }
    for (int i = 0; i < 3 && !quiet; i++) {
        const char *path = i == 0 ? v->files->onnx : i == 1 ? v->files->model : v->files->masks;
        static const char *const what[] = { "pruned model", "parameters", "masks" };

        if (path)
            printf("%s: %s\n", path, what[i]);
    }
    return 0;
}

/* ---- JSON -------------------------------------------------------------------------- */

static json_t *layer_json(const struct pare_layer *l)
{
    int64_t all, left;

    count_params(l, &all, &left);
    return json_pack("{s:o, s:s, s:o, s:o, s:o, s:I, s:I}", "name", pare_json_text(l->info.name),
                     "type", l->info.torch, "shape", pare_json_dims(&l->w), "asked",
                     l->prune->config_sparsity >= 0 ? pare_json_real(l->prune->config_sparsity)
                                                    : json_null(),
                     "sparsity", pare_json_real(sparsity_of(l)), "params", (json_int_t)all, "left",
                     (json_int_t)left);
}

int pare_prune_json(struct pare_cli *c, const struct pare_prune_summary *v, struct pare_err *err)
{
    json_t *layers = json_array(), *all;

    for (int i = 0; i < v->run->n_layers; i++)
        json_array_append_new(layers, layer_json(&v->run->layer[i]));
    all = json_pack("{s:s, s:o, s:o, s:o, s:o, s:o?, s:s?, s:s?}", "pruner",
                    v->run->algorithm[0]->name, "layers", layers, "before",
                    pare_metrics_json(&v->before), "masked", pare_metrics_json(&v->masked), "after",
                    pare_metrics_json(&v->after), "output",
                    pare_json_text(v->speedup ? v->speedup->output : v->files->onnx), "model_out",
                    v->files->model, "masks", v->files->masks);
    if (all && v->speedup)
        json_object_set_new(all, "speedup", pare_speedup_job_json(v->speedup));
    if (all && v->history)
        json_object_set(all, "history", v->history);
    return pare_json_result(c, all, err);
}
