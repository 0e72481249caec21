/* inference_mode.c - intake: BatchNormalization and Dropout in training mode become inference mode.
 *
 * torch.onnx.export(training=TRAINING or PRESERVE) writes BatchNormalization with training_mode = 1
 * (before opset 14: with outputs for running and batch statistics) and Dropout with a true third
 * input.  Such a model normalizes with the statistics of the batch, so the result of an item
 * depends on the other items.  In inference mode BatchNormalization uses the running statistics.
 * `pare train` trains both in any case.  A node whose statistics or flag the graph computes or uses
 * is not changed.
 */
#include <string.h>

#include "intake.h"
#include "name_set.h"

struct search {
    struct pare_arena *a;
    int64_t version;
    struct pare_name_set extra; /* outputs for statistics; flags of Dropout */
    struct pare_map used;       /* outputs for statistics that nodes or graphs use */
    struct pare_map on;         /* flags of Dropout that are true constants */
    bool found;                 /* there are nodes that may be in training mode */
    bool norms;                 /* some of them have outputs for statistics */
};

static const Onnx__AttributeProto *attr(const Onnx__NodeProto *n, const char *name)
{
    for (size_t i = 0; i < n->n_attribute; i++)
        if (n->attribute[i]->name && !strcmp(n->attribute[i]->name, name))
            return n->attribute[i];
    return NULL;
}

/* BatchNormalization in training mode? */
static bool norm_trains(const Onnx__NodeProto *n, int64_t version)
{
    const Onnx__AttributeProto *at;

    if (version < 7 || !pare_intake_is(n, "BatchNormalization"))
        return false;
    if (version >= 14) {
        at = attr(n, "training_mode");
        return at && at->i;
    }
    for (size_t i = 1; i < n->n_output; i++)
        if (n->output[i] && *n->output[i])
            return true;
    return false;
}

/* The name of Dropout's training_mode; NULL: it has none. */
static const char *dropout_flag(const Onnx__NodeProto *n, int64_t version)
{
    return version >= 12 && n->n_input > 2 && n->input[2] && *n->input[2] &&
                   pare_intake_is(n, "Dropout")
               ? n->input[2]
               : NULL;
}

static int find(const Onnx__GraphProto *g, void *state, struct pare_err *err)
{
    struct search *s = state;

    for (size_t i = 0; i < g->n_node; i++) {
        const Onnx__NodeProto *n = g->node[i];
        const char *flag = dropout_flag(n, s->version);

        if (!flag && !norm_trains(n, s->version))
            continue;
        s->found = true;
        if (flag)
            PARE_TRY(pare_name_set(&s->extra, s->a, flag, s, err));
        for (size_t k = 1; !flag && k < n->n_output; k++) {
            s->norms = true;
            PARE_TRY(pare_name_set(&s->extra, s->a, n->output[k] ? n->output[k] : "", s, err));
        }
    }
    return 0;
}

static int use(struct search *s, const char *name, struct pare_err *err)
{
    return name && pare_name_get(&s->extra, name) ? pare_map_set(&s->used, s->a, name, s, err) : 0;
}

static int see_flag(struct search *s, const char *name, const Onnx__TensorProto *t,
                    struct pare_err *err)
{
    bool on = t->data_type == PARE_BOOL && ((t->raw_data.len == 1 && t->raw_data.data[0]) ||
                                            (t->n_int32_data == 1 && t->int32_data[0]));

    return on && name && pare_name_get(&s->extra, name) ? pare_map_set(&s->on, s->a, name, s, err)
                                                        : 0;
}

static int see_uses(const Onnx__GraphProto *g, void *state, struct pare_err *err)
{
    struct search *s = state;

    for (size_t i = 0; i < g->n_output; i++)
        PARE_TRY(use(s, g->output[i]->name, err));
    for (size_t i = 0; i < g->n_initializer; i++)
        PARE_TRY(see_flag(s, g->initializer[i]->name, g->initializer[i], err));
    for (size_t i = 0; i < g->n_node; i++) {
        const Onnx__NodeProto *n = g->node[i];

        for (size_t k = 0; s->norms && k < n->n_input; k++)
            PARE_TRY(use(s, n->input[k], err));
        if (n->n_output == 1 && n->n_attribute == 1 && n->attribute[0]->t &&
            pare_intake_is(n, "Constant"))
            PARE_TRY(see_flag(s, n->output[0], n->attribute[0]->t, err));
    }
    return 0;
}

static int wanted(const struct pare_model *m, const struct pare_load_opts *opts, bool *yes,
                  void **state, struct pare_err *err)
{
    const Onnx__ModelProto *p = m->proto;
    struct search *s = pare_alloc(m->arena, 1, sizeof(*s));

    *yes = false;
    if (!s)
        return pare_no_memory(err, "for the graph");
    if (opts->keep_training_mode)
        return 0;
    s->a = m->arena;
    s->version = pare_intake_version(p);
    *state = s;
    PARE_TRY(pare_intake_each(p->graph, find, s, err));
    *yes = s->found;
    return s->extra.map.n ? pare_intake_each(p->graph, see_uses, s, err) : 0;
}

static bool statistics_used(const struct search *s, const Onnx__NodeProto *n)
{
    for (size_t k = 1; k < n->n_output; k++)
        if (n->output[k] && *n->output[k] && pare_map_get(&s->used, n->output[k]))
            return true;
    return false;
}

/* Without outputs for statistics; training_mode is 0 by default. */
static int stop_training(struct pare_intake_graph *g, size_t i, struct pare_err *err)
{
    Onnx__NodeProto *n;
    size_t kept = 0;

    PARE_TRY(pare_intake_own_node(g, i, &n, err));
    n->n_output = 1;
    for (size_t k = 0; k < n->n_attribute; k++)
        if (!n->attribute[k]->name || strcmp(n->attribute[k]->name, "training_mode"))
            n->attribute[kept++] = n->attribute[k];
    n->n_attribute = kept;
    ++*g->count;
    return 0;
}

static int to_inference(struct pare_intake_graph *g, void *state, struct pare_err *err)
{
    const struct search *s = state;
    Onnx__NodeProto *own;

    for (size_t i = 0; i < g->p->n_node; i++) {
        const Onnx__NodeProto *n = g->p->node[i];
        const char *flag = dropout_flag(n, s->version);

        if (norm_trains(n, s->version) && !statistics_used(s, n))
            PARE_TRY(stop_training(g, i, err));
        if (!flag || !pare_map_get(&s->on, flag))
            continue;
        PARE_TRY(pare_intake_own_node(g, i, &own, err));
        own->n_input = 2;
        ++*g->count;
    }
    return 0;
}

const struct pare_intake_step pare_intake_step_inference_mode = {
    .name = "inference_mode",
    .what = "BatchNormalization and Dropout nodes set to inference mode",
    .note = "exported in training mode; computed in inference mode, with running statistics "
            "(--keep-training-mode keeps training mode)",
    .wanted = wanted,
    .graph = to_inference,
};
