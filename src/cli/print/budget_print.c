/* budget_print.c - the result of a compression to a budget as text and JSON; fronts. */
#include "budget_print.h"

#include <math.h>
#include <string.h>

#include <jansson.h>

#include "../../base/arena.h"
#include "latency.h"

static const char *const cost_names[PARE_BUDGET_KINDS] = { "latency", "size", "MACs" };
static const char *const cost_keys[PARE_BUDGET_KINDS] = { "latency_us", "bytes", "macs" };

static const char *amount(struct pare_arena *a, int kind, double x)
{
    if (!isfinite(x))
        return "";
    if (kind == PARE_BUDGET_LATENCY)
        return pare_sprintf(a, x < 1e3 ? "%.1f us" : "%.3f ms", x < 1e3 ? x : x / 1e3);
    if (kind == PARE_BUDGET_SIZE)
        return pare_sprintf(a, x < 1e6 ? "%.1f KB" : "%.2f MB", x < 1e6 ? x / 1e3 : x / 1e6);
    return pare_sprintf(a, x < 1e9 ? "%.2fM" : "%.2fG", x < 1e9 ? x / 1e6 : x / 1e9);
}

static int print_costs(const struct pare_budget_result *w, struct pare_err *err)
{
    struct pare_arena *a = w->arena;
    struct pare_table *t = pare_table_new(a, "lrrrrr");

    if (!t)
        return pare_no_memory(err, "for a table");
    pare_table_row(t, w->runner ? "in the runner" : "", "before", w->dry_run ? "expected" : "after",
                   "part", "predicted", "limit", NULL);
    for (int k = 0; k < PARE_BUDGET_KINDS; k++) {
        const struct pare_budget_cost *x = &w->r->cost[k];

        pare_table_row(t, cost_names[k], amount(a, k, x->before), amount(a, k, x->after),
                       pare_sprintf(a, "%.3f", x->after / x->before),
                       pare_sprintf(a, "%.3f", x->predicted / x->before),
                       isfinite(x->limit) ? pare_sprintf(a, "%.3f", x->limit / x->before) : "",
                       NULL);
    }
    pare_table_print(t, stdout);
    return 0;
}

static int print_layers(const struct pare_budget_result *w, struct pare_err *err)
{
    struct pare_arena *a = w->arena;
    struct pare_table *t = pare_table_new(a, "lrrl");

    if (!t)
        return pare_no_memory(err, "for a table");
    pare_table_row(t, "layer", "in", "out", "format", NULL);
    for (int i = 0; i < w->r->n_layers; i++) {
        const struct pare_compressed_layer *l = &w->r->layer[i];

        pare_table_row(t, l->name,
                       pare_sprintf(a, "%lld of %lld", (long long)l->in_left, (long long)l->in),
                       pare_sprintf(a, "%lld of %lld", (long long)l->out_left, (long long)l->out),
                       l->format, NULL);
    }
    pare_table_print(t, stdout);
    return 0;
}

int pare_budget_print_model(const struct pare_budget_result *w, struct pare_err *err)
{
    const struct pare_compress_budget_report *r = w->r;

    PARE_TRY(print_layers(w, err));
    printf("\n");
    PARE_TRY(print_costs(w, err));
    printf("\n");
    if (w->dry_run) {
        printf("would write %s: %s\n", w->output,
               r->budget_met ? "within the budget"
                             : "the nearest model; the budget would be missed");
        return 0;
    }
    if (r->cpu_share > 0)
        pare_busy_print(r->cpu_share);
    if (r->held_before >= 0)
        printf("accuracy on %lld held-out items: %.2f%% before, %.2f%% after\n", (long long)r->held,
               100 * r->held_before, 100 * r->held_after);
    if (r->paired.n)
        printf("drop: %.2f points, standard error %.2f; of class %lld, which loses most, %.2f\n",
               100 * r->paired.drop, 100 * r->paired.error, (long long)r->paired.worst,
               100 * r->paired.worst_drop);
    printf("outputs on them: %.1f dB", r->snr);
    if (!isnan(r->divergence))
        printf(", Kullback-Leibler divergence %.4g nats", r->divergence);
    printf("\n");
    if (r->before.n && r->before.top1 >= 0)
        printf("accuracy on the validation set: %.2f%% before, %.2f%% after\n",
               100 * r->before.top1, 100 * r->after.top1);
    if (r->final.n)
        printf("certificate: drop %.2f points on %lld items, at most %.2f with confidence 95%%\n",
               100 * r->final.drop, (long long)r->final.n, 100 * r->final.bound);
    printf("%s: %s\n", w->output,
           !r->budget_met ? "the nearest model; the budget is missed"
           : !r->drop_met ? "the nearest model; a bound of the accuracy is missed"
                          : "within the budget");
    return 0;
}

/* What predictions lose against the original's, item by item. */
static void add_drop(json_t *all, const char *name, const struct pare_paired *p)
{
    if (p->n)
        json_object_set_new(all, name,
                            json_pack("{s:I, s:I, s:I, s:f, s:f, s:f, s:I, s:f, s:f}", "items",
                                      (json_int_t)p->n, "b", (json_int_t)p->b, "d",
                                      (json_int_t)p->d, "drop", p->drop, "error", p->error, "bound",
                                      p->bound, "worst_class", (json_int_t)p->worst,
                                      "worst_class_drop", p->worst_drop, "class_bound",
                                      p->class_bound));
}

json_t *pare_budget_json(const struct pare_budget_result *w)
{
    const struct pare_compress_budget_report *r = w->r;
    json_t *all = json_object(), *costs = json_object(), *layers = json_array();

    for (int k = 0; k < PARE_BUDGET_KINDS; k++) {
        json_t *x = json_pack("{s:f, s:f, s:f}", "before", r->cost[k].before, "after",
                              r->cost[k].after, "predicted", r->cost[k].predicted);

        if (isfinite(r->cost[k].limit))
            json_object_set_new(x, "limit", json_real(r->cost[k].limit));
        json_object_set_new(costs, cost_keys[k], x);
    }
    for (int i = 0; i < r->n_layers; i++) {
        const struct pare_compressed_layer *l = &r->layer[i];

        json_array_append_new(layers,
                              json_pack("{s:o, s:s, s:I, s:I, s:I, s:I}", "name",
                                        pare_json_text(l->name), "format", l->format, "in",
                                        (json_int_t)l->in, "in_left", (json_int_t)l->in_left, "out",
                                        (json_int_t)l->out, "out_left", (json_int_t)l->out_left));
    }
    json_object_set_new(all, "output", pare_json_text(w->output));
    json_object_set_new(all, "met", json_boolean(r->budget_met && r->drop_met));
    json_object_set_new(all, "costs", costs);
    json_object_set_new(all, "layers", layers);
    json_object_set_new(all, "held_out_items", json_integer(r->held));
    json_object_set_new(all, "dry_run", json_boolean(w->dry_run));
    if (r->held_before >= 0)
        json_object_set_new(all, "held_out_before", json_real(r->held_before));
    if (r->held_after >= 0)
        json_object_set_new(all, "held_out_after", json_real(r->held_after));
    if (isfinite(r->snr))
        json_object_set_new(all, "snr_db", json_real(r->snr));
    if (isfinite(r->divergence))
        json_object_set_new(all, "divergence_nats", json_real(r->divergence));
    if (r->before.n && r->before.top1 >= 0) {
        json_object_set_new(all, "accuracy_before", json_real(r->before.top1));
        json_object_set_new(all, "accuracy_after", json_real(r->after.top1));
    }
    if (r->cpu_share > 0)
        json_object_set_new(all, "cpu_share", json_real(r->cpu_share));
    add_drop(all, "held_out_drop", &r->paired);
    add_drop(all, "final_drop", &r->final);
    return all;
}

int pare_budget_print_front(const struct pare_budget_result *w, int n, struct pare_err *err)
{
    struct pare_arena *a = w->arena;
    struct pare_table *t = pare_table_new(a, "lrrrrrr");

    if (!t)
        return pare_no_memory(err, "for a table");
    pare_table_row(t, "model", "latency", "part", "size", "MACs",
                   w->r->held_before >= 0 ? "accuracy" : "", "outputs");
    for (int i = -1; i < n; i++) {
        const struct pare_compress_budget_report *r = w[i < 0 ? 0 : i].r;
        double x[PARE_BUDGET_KINDS], top1 = i < 0 ? r->held_before : r->held_after;

        for (int k = 0; k < PARE_BUDGET_KINDS; k++)
            x[k] = i < 0 ? r->cost[k].before : r->cost[k].after;
        pare_table_row(t, i < 0 ? "the original" : w[i].output, amount(a, 0, x[0]),
                       pare_sprintf(a, "%.3f", x[0] / r->cost[0].before), amount(a, 1, x[1]),
                       amount(a, 2, x[2]), top1 >= 0 ? pare_sprintf(a, "%.2f%%", 100 * top1) : "",
                       i < 0 ? "" : pare_sprintf(a, "%.1f dB", r->snr));
    }
    pare_table_print(t, stdout);
    if (w->r->held_before >= 0)
        printf("\naccuracy and outputs on %lld held-out items\n", (long long)w->r->held);
    return 0;
}
