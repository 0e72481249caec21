/* prune_print.c - print the result of pruning: sparsity of layers, accuracy, files. */
#include "prune_print.h"

#include <jansson.h>
#include <math.h>

#include "screen.h"
#include "../../base/arena.h"
#include "../../tensor/tensor.h"

void pare_skipped_print(const struct pare_compression *c)
{
    const char *name, *why;

    for (int i = 0; (name = pare_compression_skipped(c, i, &why)); i++) {
        fprintf(stderr, "layer '");
        pare_put_clean(stderr, name);
        fprintf(stderr, "' is skipped: ");
        pare_put_clean(stderr, why);
        fprintf(stderr, "\n");
    }
}

/* ---- repair ------------------------------------------------------------------------ */

int pare_repair_print(const struct pare_repair_choice *r, struct pare_arena *a,
                      struct pare_err *err)
{
    const char *text = pare_repair_choice_text(r, a);

    if (text && r->fitted)
        text = pare_sprintf(a, "%s, %d layer%s", text, r->fitted, r->fitted == 1 ? "" : "s");
    if (text && r->steps)
        text = pare_sprintf(a, "%s, %lld steps", text, (long long)r->steps);
    if (!text)
        return pare_no_memory(err, "for a line");
    pare_put_paragraph(stdout, text);
    return 0;
}

json_t *pare_repair_json(const struct pare_repair_choice *r)
{
    json_t *db = json_object(), *kl = json_object(), *loss = json_object();

    for (int i = 0; i < PARE_REPAIR_WAYS && db && kl && loss; i++) {
        const char *name = pare_repair_way_name((enum pare_repair_way)i);

        if (!isnan(r->db[i]))
            json_object_set_new(db, name, pare_json_real(r->db[i]));
        if (!isnan(r->divergence[i]))
            json_object_set_new(kl, name, pare_json_real(r->divergence[i]));
        if (!isnan(r->loss[i]))
            json_object_set_new(loss, name, pare_json_real(r->loss[i]));
    }
    return json_pack("{s:s, s:o, s:o, s:o, s:I, s:i, s:i, s:I, s:b}", "kept",
                     pare_repair_way_name(r->kept), "db", db, "divergence", kl, "loss", loss,
                     "items", (json_int_t)r->items, "layers", r->fitted, "corrected", r->corrected,
                     "steps", (json_int_t)r->steps, "recalibrated", r->estimated);
}

/* ---- text -------------------------------------------------------------------------- */

static void layer_row(struct pare_table *t, const struct pare_layer *l,
                      const struct pare_pruned_layer *p)
{
    char shape[PARE_SHAPE_TEXT], before[PARE_NUM_TEXT], after[PARE_NUM_TEXT];
    char target[PARE_NUM_TEXT] = "-", got[PARE_NUM_TEXT];

    if (p->target >= 0)
        pare_percent_text(p->target, 1, target, sizeof(target));
    pare_table_row(t, pare_layer_name(l), pare_layer_type(l),
                   pare_shape_text(pare_layer_weight(l), shape, sizeof(shape)), target,
                   pare_percent_text(p->sparsity, 1, got, sizeof(got)),
                   pare_whole_text(p->params, before, sizeof(before)),
                   pare_whole_text(p->params_left, after, sizeof(after)));
}

static const char *after_what(const struct pare_prune_summary *v)
{
    if (v->tuned)
        return "after training:";
    if (v->repair && v->repair->kept == PARE_WAY_RECONSTRUCTION)
        return "reconstructed:";
    if (v->repair && v->repair->kept > PARE_WAY_STATISTICS)
        return "repaired:";
    return v->recalibrated ? "recalibrated:" : "after pruning:";
}

int pare_prune_print(const struct pare_prune_summary *v, struct pare_arena *a, bool quiet,
                     struct pare_err *err)
{
    struct pare_table *t = pare_table_new(a, "llLRrrr");
    char before[PARE_NUM_TEXT], after[PARE_NUM_TEXT], part[PARE_NUM_TEXT];
    int n_layers = pare_compression_layers(v->compression);
    int64_t all = 0, left = 0;

    if (!t)
        return pare_no_memory(err, "for a table");
    pare_table_row(t, "layer", "type", "weight", "target", "sparsity", "params", "left");
    for (int i = 0; i < n_layers; i++) {
        const struct pare_layer *l = pare_compression_layer(v->compression, i);
        struct pare_pruned_layer p;

        pare_layer_pruned(l, &p);
        layer_row(t, l, &p);
        all += p.params;
        left += p.params_left;
    }
    if (!quiet) {
        pare_table_print(t, stdout);
        printf("\n%d layer%s, %s of %s parameters left (%s)\n", n_layers, n_layers == 1 ? "" : "s",
               pare_whole_text(left, after, sizeof(after)),
               pare_whole_text(all, before, sizeof(before)),
               pare_percent_text((double)left, (double)all, part, sizeof(part)));
        pare_metrics_print("before:", &v->before);
        pare_metrics_print(v->trained ? "initial masks:" : "with masks:", &v->masked);
        if (v->repair)
            PARE_TRY(pare_repair_print(v->repair, a, err));
        pare_metrics_print(after_what(v), &v->after);
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
    struct pare_pruned_layer p;

    pare_layer_pruned(l, &p);
    return json_pack("{s:o, s:s, s:o, s:o, s:o, s:I, s:I}", "name",
                     pare_json_text(pare_layer_name(l)), "type", pare_layer_type(l), "shape",
                     pare_json_dims(pare_layer_weight(l)), "asked",
                     p.target >= 0 ? pare_json_real(p.target) : json_null(), "sparsity",
                     pare_json_real(p.sparsity), "params", (json_int_t)p.params, "left",
                     (json_int_t)p.params_left);
}

int pare_prune_json(struct pare_cli *c, const struct pare_prune_summary *v, struct pare_err *err)
{
    json_t *layers = json_array(), *all;

    for (int i = 0; i < pare_compression_layers(v->compression); i++)
        json_array_append_new(layers, layer_json(pare_compression_layer(v->compression, i)));
    all = json_pack("{s:s, s:o, s:o, s:o, s:o, s:o?, s:s?, s:s?}", "pruner",
                    pare_compression_algorithm(v->compression), "layers", layers, "before",
                    pare_metrics_json(&v->before), "masked", pare_metrics_json(&v->masked), "after",
                    pare_metrics_json(&v->after), "output",
                    pare_json_text(v->speedup ? v->speedup->output : v->files->onnx), "model_out",
                    v->files->model, "masks", v->files->masks);
    if (all && v->speedup)
        json_object_set_new(all, "speedup", pare_speedup_job_json(v->speedup));
    if (all && v->repair)
        json_object_set_new(all, "repair", pare_repair_json(v->repair));
    if (all && v->history)
        json_object_set(all, "history", v->history);
    return pare_json_result(c, all, err);
}
