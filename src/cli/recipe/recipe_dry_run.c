/* recipe_dry_run.c - pare compress --dry-run: print the steps and the estimated model sizes. */
#include <string.h>

#include "../job/input.h"
#include "../print/compress_print.h"
#include "../../base/arena.h"
#include "../../graph/layer.h"
#include "../../onnx/metadata.h"

/* Parameters, and multiply-accumulates for the first item of the data set. */
static int measure_model(struct pare_cli *c, const struct pare_recipe *r,
                         const struct pare_model *m, double *params, double *macs,
                         struct pare_err *err)
{
    struct pare_shape_args args = { .shape = r->shape, .lenient = true };
    struct pare_inputs in = { 0 };
    struct pare_arena *a = c->arena;
    struct pare_graph *g = pare_graph_clone(a, m->graph, err);
    struct pare_layer_info *layer;
    int64_t loose;
    int n;

    if (!g)
        return err->code;
    PARE_TRY(pare_inputs_shape(c, m, &args, &in, err));
    for (int i = 0; i < in.n; i++)
        g->in[i]->t = in.t[i];
    PARE_TRY(pare_graph_infer(g, true, err));
    PARE_TRY(pare_layers(a, g, &layer, &n, err));
    PARE_TRY(pare_loose_params(g, layer, n, &loose, err));
    *params = (double)loose;
    *macs = 0;
    for (int i = 0; i < n; i++)
        *params += (double)layer[i].params;
    for (int i = 0; i < g->n_nodes; i++) {
        double k = pare_node_macs(g->node[i]);

        *macs += k > 0 ? k : 0;
    }
    return 0;
}

static const char *keys(struct pare_arena *a, const struct pare_recipe_step *s)
{
    const char *text = "";

    for (int i = 0; i < s->n_given && text; i++)
        text = pare_sprintf(a, "%s%s%s=%s", text, i ? " " : "", s->given[i].name, s->given[i].text);
    return text ? text : "";
}

struct plan {
    struct pare_cli *c;
    const struct pare_recipe *r;
    struct pare_arena *arena;
    struct pare_table *table;
    struct pare_estimate g;
    bool unknown; /* a step could not be estimated, so the following cannot, either */
};

static int add_row(struct plan *p, const char *name, const char *options, struct pare_err *err)
{
    char params[PARE_NUM_TEXT] = "?", macs[PARE_NUM_TEXT] = "?", bytes[PARE_NUM_TEXT] = "?";
    double n = 0, work = 0;

    if (!p->unknown) {
        PARE_TRY(measure_model(p->c, p->r, p->g.model, &n, &work, err));
        pare_count_text(n, params, sizeof(params));
        pare_count_text(work, macs, sizeof(macs));
        pare_bytes_text(p->g.bytes, bytes, sizeof(bytes));
    }
    pare_table_row(p->table, name, params, macs, bytes, options);
    return 0;
}

/* A step that cannot be estimated is not an error. */
static void estimate_step(struct plan *p, const struct pare_recipe *r, int i)
{
    struct pare_step_files f = { .model = r->model };
    struct pare_cli c = { .in_recipe = true, .arena = p->arena, .host = p->c->host };
    struct pare_err err = { 0 };

    if (p->unknown || !r->step[i].cmd->estimate)
        return;
    p->unknown = pare_recipe_bind(r, i, &f, &c, &err) || r->step[i].cmd->estimate(&c, &p->g, &err);
    if (p->unknown)
        fprintf(stderr, "step %d (%s) cannot be estimated: %s\n", i + 1, r->step[i].name, err.msg);
}

static int fill_table(struct plan *p, const struct pare_recipe *r, struct pare_err *err)
{
    struct pare_metadata facts;

    PARE_TRY(pare_model_load(r->model, &p->g.model, err));
    PARE_TRY(pare_model_metadata(p->g.model, p->arena, &facts, err));
    p->g.bytes = (double)facts.bytes;
    pare_table_row(p->table, "step", "parameters", "MACs", "file", "keys");
    PARE_TRY(add_row(p, "", r->model, err));
    for (int i = 0; i < r->n_steps; i++) {
        estimate_step(p, r, i);
        PARE_TRY(add_row(p, r->step[i].name, keys(p->arena, &r->step[i]), err));
    }
    return 0;
}

int pare_compress_plan(struct pare_cli *c, const struct pare_recipe *r, struct pare_err *err)
{
    struct plan p = { .c = c,
                      .r = r,
                      .arena = c->arena,
                      .table = pare_table_new(c->arena, "lrrrl") };
    int rc;

    p.g.arena = c->arena;
    if (!p.table)
        return pare_no_memory(err, "for a table");
    rc = fill_table(&p, r, err);
    if (!rc) {
        pare_table_print(p.table, stdout);
        printf("\nestimates; would write the model to %s and the run record to %s\n", r->output,
               r->run);
    }
    pare_model_free(p.g.model);
    return rc;
}
