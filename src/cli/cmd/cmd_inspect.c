/* cmd_inspect.c - pare inspect: layers, shapes, parameters and MACs of a model; tensors of a file.
 *
 * Shapes are inferred and nothing is run.  Weights are not read without --weights, so a large model
 * takes no longer than a small one.
 */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "../job/model_intake.h"
#include "../cli.h"
#include "../print/group_print.h"
#include "../print/scale_print.h"
#include "../print/screen.h"
#include "../job/input.h"
#include "../print/state_print.h"
#include "../../base/arena.h"
#include "../../graph/free_dims.h"
#include "../../graph/layer.h"
#include "../../graph/pattern/pattern.h"
#include "../../io/tensor_file.h"
#include "../../onnx/body_model.h"
#include "../../onnx/metadata.h"
#include "../../plan/batch/free_batch.h"
#include "../../tensor/tensor.h"

struct inspect {
    bool all, groups, weights, json, verbose;
    int64_t batch;
    struct pare_strs shape;
};

static const struct pare_opt inspect_opts[] = {
    PARE_FLAG("all", offsetof(struct inspect, all), "list every node, not only layers", 0),
    PARE_FLAG("groups", offsetof(struct inspect, groups),
              "list layers whose channels must be removed together", 0),
    PARE_FLAG("weights", offsetof(struct inspect, weights),
              "read the weights and count their zeros", 0),
    PARE_INT("batch", offsetof(struct inspect, batch),
             "batch size, if the model leaves it free; 0 means 1", 0, 0, 1 << 20),
    PARE_TEXTS("shape", offsetof(struct inspect, shape), "NAME=N,N,...",
               "shape of an input, such as x=1,3,224,224, or size of a free dimension: batch=8"),
    PARE_FLAG("json", offsetof(struct inspect, json), "print the result as JSON", 0),
    PARE_FLAG("verbose", offsetof(struct inspect, verbose),
              "print what intake changed on load, and whether a batch of 1 can be freed", 0),
    PARE_OPT_END
};

/* Everything that is printed about a model. */
struct inspection {
    struct pare_cli *c;
    const struct inspect *o;
    struct pare_model *m;
    struct pare_metadata facts;
    struct pare_inputs in;
    struct pare_graph *g; /* shapes inferred */
    struct pare_layer_info *layer;
    int n_layers;
    struct pare_group *group;
    int n_groups;
    struct pare_body_graph *bodies; /* of which groups were found */
    struct pare_layer_scales *scales;
    int n_scales;
    double *zeros;         /* per layer: fraction of zeros in its weight; -1: not read */
    int64_t params, loose; /* number of parameters; of those that belong to no layer */
    double macs;
    struct trouble {
        const char *node, *type, *why;
    } * bad;                       /* nodes that cannot run */
    int n_bad, cap_bad, n_dynamic; /* n_dynamic: nodes whose shapes depend on data */
};

/* ---- collecting ------------------------------------------------------------ */

static int add_trouble(struct inspection *l, const struct pare_node *n, const char *why,
                       struct pare_err *err)
{
    struct trouble *list = pare_grow(l->c->arena, l->bad, l->n_bad, &l->cap_bad, sizeof(*list));
    char *copy = pare_strdup(l->c->arena, why);

    if (!list || !copy)
        return pare_no_memory(err, "to inspect the model");
    l->bad = list;
    l->bad[l->n_bad++] = (struct trouble){ n->name, n->type, copy };
    return 0;
}

/* Nodes in bodies may have no known shape; only unknown operators are reported. */
static int check_bodies(struct inspection *l, const struct pare_node *n, struct pare_err *err)
{
    const struct pare_opt *o = n->op ? n->op->attrs : NULL;

    for (; o && o->name; o++) {
        const struct pare_graph *g = NULL;

        if (o->type == PARE_OPT_GRAPH && n->attr)
            memcpy(&g, (const char *)n->attr + o->offset, sizeof(g));
        for (int i = 0; g && i < g->n_nodes; i++) {
            if (!g->node[i]->op)
                PARE_TRY(add_trouble(l, g->node[i],
                                     g->node[i]->why ? g->node[i]->why : "it cannot be run", err));
            PARE_TRY(check_bodies(l, g->node[i], err));
        }
    }
    return 0;
}

static bool all_known(struct pare_value **v, int n)
{
    for (int i = 0; i < n; i++)
        if (v[i] && v[i]->t.dtype == PARE_NONE)
            return false;
    return true;
}

/* Infer a node again whose inputs are known but whose outputs are not, to get the reason. */
static int check_node(struct inspection *l, struct pare_node *n, struct pare_err *err)
{
    struct pare_err why = { 0 };
    int rc;

    if (!n->op)
        return add_trouble(l, n, n->why ? n->why : "it cannot be run", err);
    PARE_TRY(check_bodies(l, n, err));
    if (all_known(n->out, n->n_out))
        return 0;
    rc = all_known(n->in, n->n_in) ? pare_node_infer(n, &why) : PARE_EDYNAMIC;
    if (!rc || rc == PARE_EDYNAMIC) {
        l->n_dynamic++;
        return 0;
    }
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i])
            n->out[i]->t = (struct pare_tensor){ .dtype = PARE_NONE, .rank = -1 };
    return add_trouble(l, n, why.msg, err);
}

/* Fraction of zeros; -1: the weight has no data. */
static int count_zeros(struct pare_arena *a, const struct pare_value *w, double *share,
                       struct pare_err *err)
{
    struct pare_mark m = pare_mark(a);
    struct pare_value v = *w;
    int64_t n = pare_numel(&v.t), zeros = 0;

    *share = -1;
    PARE_TRY(pare_value_load(a, &v, err));
    if (v.t.data && n && v.t.dtype != PARE_STR) {
        for (int64_t i = 0; i < n; i++)
            zeros += pare_get(&v.t, i) == 0;
        *share = (double)zeros / (double)n;
    }
    pare_reset(a, m);
    return 0;
}

/* For all sizes of free dimensions, as prune and speedup do. */
static int collect_groups(struct inspection *l, struct pare_err *err)
{
    bool given = l->o->batch || l->o->shape.n;
    struct pare_all_sizes all;

    PARE_TRY(pare_graph_all_sizes(l->c->arena, l->m->graph, l->in.io, given ? l->in.t : NULL, &all,
                                  err));
    PARE_TRY(pare_graph_canonical_axes(all.g, err));
    PARE_TRY(pare_body_graphs_new(l->c->arena, l->m, all.g, &l->bodies, err));
    PARE_TRY(pare_groups_find(l->c->arena, all.g, NULL, &l->group, &l->n_groups, err));
    for (const struct pare_body_graph *b = l->bodies; b; b = b->next)
        PARE_TRY(pare_groups_find(l->c->arena, b->g, b->path, &l->group, &l->n_groups, err));
    return 0;
}

static int collect_layers(struct inspection *l, struct pare_err *err)
{
    PARE_TRY(pare_layers(l->c->arena, l->g, &l->layer, &l->n_layers, err));
    PARE_TRY(pare_loose_params(l->g, l->layer, l->n_layers, &l->loose, err));
    l->params = l->loose;
    l->zeros = pare_alloc(l->c->arena, (size_t)l->n_layers, sizeof(*l->zeros));
    if (!l->zeros)
        return pare_no_memory(err, "to inspect the model");
    for (int i = 0; i < l->n_layers; i++) {
        l->params += l->layer[i].params;
        l->zeros[i] = -1;
        if (l->o->weights)
            PARE_TRY(count_zeros(l->c->arena, l->layer[i].weight, &l->zeros[i], err));
    }
    PARE_TRY(pare_model_scales(l->m, l->c->arena, &l->scales, &l->n_scales, err));
    if (l->o->groups)
        PARE_TRY(collect_groups(l, err));
    for (int i = 0; i < l->g->n_nodes; i++) {
        double macs = pare_node_macs(l->g->node[i]);

        l->macs += macs > 0 ? macs : 0;
    }
    return 0;
}

static int inspect(struct inspection *l, struct pare_err *err)
{
    struct pare_shape_args args = { l->o->batch, l->o->shape, true, false };

    PARE_TRY(pare_model_metadata(l->m, l->c->arena, &l->facts, err));
    PARE_TRY(pare_inputs_shape(l->c, l->m, &args, &l->in, err));
    l->g = pare_graph_clone(l->c->arena, l->m->graph, err);
    if (!l->g)
        return err->code;
    for (int i = 0; i < l->in.n; i++)
        l->g->in[i]->t = l->in.t[i];
    PARE_TRY(pare_graph_infer(l->g, true, err));
    for (int i = 0; i < l->g->n_nodes; i++)
        PARE_TRY(check_node(l, l->g->node[i], err));
    return collect_layers(l, err);
}

/* ---- text ------------------------------------------------------------------ */

static const char *shape_or_none(const struct pare_value *v, char *buf, size_t size)
{
    if (!v || v->t.dtype == PARE_NONE)
        return "?";
    return pare_shape_text(&v->t, buf, size);
}

static void print_head(const struct inspection *l)
{
    const struct pare_metadata *f = &l->facts;
    struct pare_arena *a = l->c->arena;
    char buf[PARE_NUM_TEXT];
    const char *s = pare_sprintf(a, "%s: %s", l->m->path,
                                 pare_bytes_text((double)f->bytes, buf, sizeof(buf)));

    for (int i = 0; i < f->n_opsets && s; i++)
        s = pare_sprintf(a, "%s, %s %lld", s, *f->opset[i].domain ? f->opset[i].domain : "opset",
                         (long long)f->opset[i].version);
    if (s && *f->producer)
        s = pare_sprintf(a, "%s, IR %lld, made by %s %s", s, (long long)f->ir, f->producer,
                         f->producer_version);
    else if (s)
        s = pare_sprintf(a, "%s, IR %lld", s, (long long)f->ir);
    if (s)
        pare_put_paragraph(stdout, s);
}

static void print_inputs_outputs(const struct inspection *l)
{
    struct pare_table *t = pare_table_new(l->c->arena, "lllll");
    char buf[PARE_SHAPE_TEXT];

    for (int i = 0; i < l->in.n; i++)
        pare_table_row(t, "input", l->in.io[i].name, pare_dtype_name(l->in.io[i].dtype),
                       shape_or_none(l->g->in[i], buf, sizeof(buf)),
                       l->m->in[i].layout == PARE_NHWC ? "layout NHWC" : "");
    for (int i = 0; i < l->g->n_out; i++)
        pare_table_row(t, "output", l->g->out[i]->name, pare_dtype_name(l->m->out[i].dtype),
                       shape_or_none(l->g->out[i], buf, sizeof(buf)), "");
    pare_table_plain(t, stdout);
    for (int i = 0; i < l->in.n_notes; i++) {
        pare_put_clean(stdout, l->in.note[i]);
        printf("\n");
    }
    printf("\n");
}

/* A percentage; "" for 0. */
static const char *share(double part, double whole, char *buf, size_t size)
{
    return part > 0 ? pare_percent_text(part, whole, buf, size) : "";
}

static void print_layers(const struct inspection *l)
{
    struct pare_table *t = pare_table_new(l->c->arena, l->o->weights ? "llLlrRrRr" : "llLlrRrR");
    char w[PARE_SHAPE_TEXT], out[PARE_SHAPE_TEXT], p[PARE_NUM_TEXT], ps[PARE_NUM_TEXT],
        m[PARE_NUM_TEXT], ms[PARE_NUM_TEXT], z[PARE_NUM_TEXT];

    pare_table_row(t, "layer", "type", "weight", "output", "params", "", "MACs", "", "zeros");
    for (int i = 0; i < l->n_layers; i++) {
        const struct pare_layer_info *y = &l->layer[i];
        const char *type = !strcmp(y->type, y->torch)
                               ? y->type
                               : pare_sprintf(l->c->arena, "%s (%s)", y->torch, y->type);

        pare_table_row(t, y->name, type, pare_shape_text(&y->weight->t, w, sizeof(w)),
                       shape_or_none(y->out, out, sizeof(out)),
                       y->shared && !y->params ? "shared"
                                               : pare_count_text((double)y->params, p, sizeof(p)),
                       share((double)y->params, (double)l->params, ps, sizeof(ps)),
                       pare_count_text(y->macs, m, sizeof(m)),
                       share(y->macs, l->macs, ms, sizeof(ms)),
                       pare_percent_text(l->zeros[i], 1, z, sizeof(z)));
    }
    if (!l->n_layers)
        return;
    pare_table_print(t, stdout);
    printf("\n");
}

static void print_nodes(const struct inspection *l)
{
    struct pare_table *t = pare_table_new(l->c->arena, "lllrl");
    char out[PARE_SHAPE_TEXT], m[PARE_NUM_TEXT];

    pare_table_row(t, "node", "type", "output", "MACs", "layer");
    for (int i = 0, k = 0; i < l->g->n_nodes; i++) {
        const struct pare_node *n = l->g->node[i];
        const struct pare_value *v = n->n_out ? n->out[0] : NULL;
        bool is_layer = k < l->n_layers && l->layer[k].node == n;

        pare_table_row(t, n->name, n->type, shape_or_none(v, out, sizeof(out)),
                       pare_count_text(pare_node_macs(n), m, sizeof(m)),
                       is_layer                       ? l->layer[k].name
                       : v && v->flags & PARE_V_CONST ? "(constant)"
                                                      : "");
        k += is_layer;
    }
    pare_table_print(t, stdout);
    printf("\n");
}

struct tally {
    const char *type;
    int n;
};

static int by_count(const void *a, const void *b)
{
    const struct tally *x = a, *y = b;

    return x->n != y->n ? (x->n < y->n) - (x->n > y->n) : strcmp(x->type, y->type);
}

/* How many nodes of each type, the most frequent first. */
static int tally_types(const struct inspection *l, struct tally **list, int *n,
                       struct pare_err *err)
{
    struct pare_map seen = { 0 };

    *n = 0;
    *list = pare_alloc(l->c->arena, (size_t)l->g->n_nodes, sizeof(**list));
    if (!*list)
        return pare_no_memory(err, "to inspect the model");
    for (int i = 0; i < l->g->n_nodes; i++) {
        const char *type = l->g->node[i]->type;
        struct tally *t = pare_map_get(&seen, type);

        if (!t) {
            t = *list + (*n)++;
            t->type = type;
            PARE_TRY(pare_map_set(&seen, l->c->arena, type, t, err));
        }
        t->n++;
    }
    qsort(*list, (size_t)*n, sizeof(**list), by_count);
    return 0;
}

/* Nodes that cannot run for the same reason are named once. */
static void print_trouble(const struct inspection *l)
{
    if (l->n_bad)
        printf("%d node%s cannot run:\n", l->n_bad, l->n_bad == 1 ? "" : "s");
    for (int i = 0; i < l->n_bad; i++) {
        int same = 0, first = 0;

        while (strcmp(l->bad[first].why, l->bad[i].why) != 0)
            first++;
        if (first < i)
            continue;
        for (int k = i; k < l->n_bad; k++)
            same += !strcmp(l->bad[k].why, l->bad[i].why);
        printf("  node '");
        pare_put_clean(stdout, l->bad[i].node);
        printf("' (");
        pare_put_clean(stdout, l->bad[i].type);
        if (same > 1)
            printf(") and %d more: ", same - 1);
        else
            printf("): ");
        pare_put_clean(stdout, l->bad[i].why);
        printf("\n");
    }
}

static int print_totals(const struct inspection *l, struct pare_err *err)
{
    char p[PARE_NUM_TEXT], q[PARE_NUM_TEXT], m[PARE_NUM_TEXT];
    struct tally *tally;
    const char *text;
    int n;

    printf("%d layer%s, %s parameters", l->n_layers, l->n_layers == 1 ? "" : "s",
           pare_whole_text(l->params, p, sizeof(p)));
    if (l->loose)
        printf(" (%s in no layer)", pare_whole_text(l->loose, q, sizeof(q)));
    printf(", %s multiply-accumulates", pare_count_text(l->macs, m, sizeof(m)));
    pare_half_weights_print(l->m, l->layer, l->n_layers);
    printf("\n");
    PARE_TRY(tally_types(l, &tally, &n, err));
    text = pare_sprintf(l->c->arena, "%d node%s:", l->g->n_nodes, l->g->n_nodes == 1 ? "" : "s");
    for (int i = 0; i < n && text; i++)
        text = pare_sprintf(l->c->arena, "%s%s %d %s", text, i ? "," : "", tally[i].n,
                            tally[i].type);
    if (!text)
        return pare_no_memory(err, "for the list of operators");
    pare_put_paragraph(stdout, text);
    if (l->n_dynamic)
        printf("%d node%s of unknown shape: %s\n", l->n_dynamic, l->n_dynamic == 1 ? "" : "s",
               l->n_bad ? "after one that cannot run, or dependent on the data"
                        : "it depends on the data");
    print_trouble(l);
    return 0;
}

/* ---- JSON ------------------------------------------------------------------ */

static json_t *json_value(const struct pare_value *v)
{
    return json_pack("{s:o, s:s, s:o}", "name", pare_json_text(v->name), "dtype",
                     pare_dtype_name(v->t.dtype), "shape", pare_json_dims(&v->t));
}

static json_t *json_values(struct pare_value **v, int n)
{
    json_t *a = json_array();

    for (int i = 0; i < n; i++)
        if (v[i])
            json_array_append_new(a, json_value(v[i]));
    return a;
}

static json_t *json_layer(const struct inspection *l, int i)
{
    const struct pare_layer_info *y = &l->layer[i];
    json_t *quant = pare_scales_json(l->scales, l->n_scales, y->name);
    json_t *j = json_pack("{s:o, s:s, s:s, s:o, s:o, s:o, s:o, s:I, s:o, s:b}", "name",
                          pare_json_text(y->name), "type", y->type, "torch_type", y->torch, "node",
                          pare_json_text(y->node->name), "weight", json_value(y->weight), "bias",
                          y->bias ? json_value(y->bias) : json_null(), "output",
                          y->out ? json_value(y->out) : json_null(), "parameters",
                          (json_int_t)y->params, "macs", pare_json_whole(y->macs), "shared",
                          (int)y->shared);

    if (j && quant)
        json_object_set_new(j, "quantization", quant);
    if (j && l->o->weights)
        json_object_set_new(j, "zeros", l->zeros[i] < 0 ? json_null() : json_real(l->zeros[i]));
    return j;
}

static json_t *json_nodes(const struct inspection *l)
{
    json_t *a = json_array();

    for (int i = 0; i < l->g->n_nodes; i++) {
        const struct pare_node *n = l->g->node[i];
        double macs = pare_node_macs(n);

        json_array_append_new(a, json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "name",
                                           pare_json_text(n->name), "type", pare_json_text(n->type),
                                           "domain", pare_json_text(n->domain), "inputs",
                                           json_values(n->in, n->n_in), "outputs",
                                           json_values(n->out, n->n_out), "macs",
                                           pare_json_whole(macs)));
    }
    return a;
}

static int print_json(const struct inspection *l, struct pare_err *err)
{
    const struct pare_metadata *f = &l->facts;
    json_t *opsets = json_object(), *layers = json_array(), *bad = json_array(),
           *notes = json_array(), *j;

    for (int i = 0; i < f->n_opsets; i++)
        json_object_set_new(opsets, *f->opset[i].domain ? f->opset[i].domain : "ai.onnx",
                            json_integer(f->opset[i].version));
    for (int i = 0; i < l->n_layers; i++)
        json_array_append_new(layers, json_layer(l, i));
    for (int i = 0; i < l->n_bad; i++)
        json_array_append_new(bad,
                              json_pack("{s:o, s:o, s:o}", "node", pare_json_text(l->bad[i].node),
                                        "type", pare_json_text(l->bad[i].type), "why",
                                        pare_json_text(l->bad[i].why)));
    for (int i = 0; i < l->in.n_notes; i++)
        json_array_append_new(notes, pare_json_text(l->in.note[i]));
    j = json_pack("{s:o, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "file",
                  pare_json_text(l->m->path), "bytes", (json_int_t)f->bytes, "ir_version",
                  (json_int_t)f->ir, "opsets", opsets, "producer", pare_json_text(f->producer),
                  "producer_version", pare_json_text(f->producer_version), "graph",
                  pare_json_text(f->graph), "inputs", json_values(l->g->in, l->g->n_in), "outputs",
                  json_values(l->g->out, l->g->n_out), "assumed", notes, "layers", layers);
    if (j)
        json_object_update_new(j, json_pack("{s:I, s:I, s:o, s:i, s:o}", "parameters",
                                            (json_int_t)l->params, "parameters_in_no_layer",
                                            (json_int_t)l->loose, "macs", pare_json_whole(l->macs),
                                            "node_count", l->g->n_nodes, "cannot_run", bad));
    for (int i = 0; j && i < l->m->n_in; i++)
        if (l->m->in[i].layout == PARE_NHWC)
            json_object_set_new(json_array_get(json_object_get(j, "inputs"), (size_t)i), "layout",
                                json_string("NHWC"));
    if (j)
        json_object_set_new(j, "intake", pare_intake_json(l->m));
    if (j && l->o->groups)
        json_object_set_new(j, "groups", pare_groups_json(l->group, l->n_groups));
    if (j && l->o->all)
        json_object_set_new(j, "nodes", json_nodes(l));
    return pare_json_result(l->c, j, err);
}

/* ---- the command ----------------------------------------------------------- */

/* What intake changed on load, and whether training could free a batch of 1, which is found by
 * running a copy of the model. */
static int print_intake(const struct inspection *l, struct pare_err *err)
{
    struct pare_model *copy = NULL;
    const struct pare_io *in;
    int rc;

    pare_intake_print(l->m, stdout);
    if (!pare_model_inputs(l->m, &in) || in[0].rank < 1 || in[0].dim[0] != 1)
        return 0;
    PARE_TRY(pare_model_duplicate(l->m, &copy, err));
    rc = pare_model_try_batch(copy, err);
    if (!rc && copy->any_batch)
        printf("intake fixed_batch: training frees the batch of 1\n");
    else if (!rc && copy->one_batch)
        printf("intake fixed_batch: %s\n", copy->one_batch);
    pare_model_free(copy);
    return rc;
}

static int cmd_inspect_run(struct pare_cli *c, struct pare_err *err)
{
    struct inspection l = { .c = c, .o = c->opts };
    struct pare_state_print_opts how = { l.o->weights, l.o->json };
    int rc;

    if (pare_tensor_file_looks(c->arg[0]))
        return pare_state_print(c, c->arg[0], how, err);
    rc = pare_cli_load(c, c->arg[0], &l.m, err);
    if (rc)
        return rc;
    rc = inspect(&l, err);
    if (rc && !c->usage)
        pare_at(err, rc, "%s", c->arg[0]);
    if (!rc && l.o->json) {
        rc = print_json(&l, err);
    } else if (!rc) {
        print_head(&l);
        print_inputs_outputs(&l);
        rc = l.o->verbose ? print_intake(&l, err) : 0;
        if (l.o->groups)
            pare_groups_print(c->arena, l.group, l.n_groups);
        else if (l.o->all)
            print_nodes(&l);
        else
            print_layers(&l);
        if (!l.o->groups && !l.o->all)
            pare_scales_print(c->arena, l.scales, l.n_scales);
        if (!rc)
            rc = print_totals(&l, err);
    }
    pare_body_graphs_free(l.bodies);
    pare_model_free(l.m);
    return rc;
}

const struct pare_command pare_command_inspect = {
    .name = "inspect",
    .doc = "Print the layers of a model: names, shapes, parameters, MACs.",
    .usage = "[options] MODEL",
    .more = "A layer is a node with weights; a config_list refers to it by the name printed\n"
            "here.  Multiply-accumulates (MACs) are for one run at the shapes shown.  Scales\n"
            "and zero points of a quantized model follow: x = scale (q - zero point).  For a\n"
            "file of named tensors (.pth, .npz, .safetensors), their names, types and shapes\n"
            "are printed.",
    .example = "pare inspect model.onnx\n"
               "pare inspect model.onnx --shape batch=8",
    .first = (const char *const[]){ "all", "groups", "weights", "shape", "json", NULL },
    .opts = inspect_opts,
    .size = sizeof(struct inspect),
    .min_args = 1,
    .max_args = 1,
    .run = cmd_inspect_run,
};
