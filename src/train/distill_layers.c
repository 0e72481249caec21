/* distill_layers.c - layer-wise distillation: make layers of a student follow its teacher's. */
#include "distill_layers.h"

#include <string.h>

#include "../base/arena.h"
#include "../base/options.h"
#include "../graph/layer.h"
#include "lookup.h"

const struct pare_opt pare_distill_how_opts[] = {
    PARE_FLOATS("lambda", offsetof(struct pare_distill_how, lambda),
                "weight of the layers, one value or one per layer (default: 1)", 0, 1e30),
    PARE_TEXTS("method", offsetof(struct pare_distill_how, method), NULL,
               "mse or kl, one value or one per layer (default: mse)"),
    PARE_FLOAT("temperature", offsetof(struct pare_distill_how, temperature), "temperature of kl",
               2, 1e-3, 1e6),
    PARE_OPT_END
};

/* ---- parsing --------------------------------------------------------------------------- */

static int check_count(const char *what, int given, int n, struct pare_err *err)
{
    if (given <= 1 || given == n)
        return 0;
    return pare_fail(err, PARE_ECONFIG,
                     "distill-%s has %d values for %d layers, expected one value or one per layer",
                     what, given, n);
}

static int make_link(const char *text, struct pare_distill_link *l, struct pare_arena *a,
                     struct pare_err *err)
{
    const char *equals = strchr(text, '=');

    l->student = equals ? pare_strndup(a, text, (size_t)(equals - text)) : text;
    l->teacher = equals ? equals + 1 : text;
    if (!l->student)
        return pare_no_memory(err, "for the layers to distill");
    if (!*l->student || !*l->teacher)
        return pare_fail(err, PARE_ECONFIG,
                         "'%s' is not a pair of layers, expected NAME or STUDENT=TEACHER", text);
    return 0;
}

int pare_distill_links(struct pare_strs text, const struct pare_distill_how *how,
                       struct pare_arena *a, struct pare_distill_link **link, struct pare_err *err)
{
    static const char *const methods[] = { "mse", "kl" };
    int k, n = text.n;

    *link = pare_alloc(a, (size_t)n, sizeof(**link));
    if (!*link)
        return pare_no_memory(err, "for the layers to distill");
    PARE_TRY(check_count("lambda", how->lambda.n, n, err));
    PARE_TRY(check_count("method", how->method.n, n, err));
    for (int i = 0; i < n; i++) {
        struct pare_distill_link *l = &(*link)[i];

        PARE_TRY(make_link(text.v[i], l, a, err));
        l->conf = (struct pare_distill_layer){ .lambda = 1, .method = "mse" };
        l->conf.temperature = how->temperature;
        if (how->lambda.n)
            l->conf.lambda = how->lambda.v[how->lambda.n > 1 ? i : 0];
        if (!how->method.n)
            continue;
        PARE_TRY(pare_lookup("method to compare layers", how->method.v[how->method.n > 1 ? i : 0],
                             methods, 2, &k, err));
        l->conf.method = methods[k];
    }
    return 0;
}

/* ---- looking up layers -------------------------------------------------------------------- */

/* One of the two models. */
struct side {
    const char *role;
    const struct pare_model *model;
    struct pare_graph *graph; /* with shapes, which identify layers */
    struct pare_layer_info *layer;
    int n_layers;
};

static int look_up(const struct side *s, const char *name, const char **value, struct pare_err *err)
{
    const struct pare_layer_info *l;
    const struct pare_value *v;
    int rc = pare_find_layer(s->layer, s->n_layers, name, &l, err);

    v = rc ? pare_graph_find(s->model->graph, name) : l->out;
    if (!v || (rc && !v->maker))
        return pare_at(err, rc ? rc : pare_fail(err, PARE_ECONFIG, "'%s' has no output", name),
                       "%s", s->role);
    *value = v->name;
    return 0;
}

static int find_layers(struct side *s, struct pare_arena *a, struct pare_err *err)
{
    s->graph = pare_graph_clone(a, s->model->graph, err);
    if (!s->graph)
        return err->code;
    pare_graph_bind(s->graph, 1);
    PARE_TRY(pare_at(err, pare_graph_infer(s->graph, true, err), "%s", s->role));
    return pare_layers(a, s->graph, &s->layer, &s->n_layers, err);
}

int pare_distill_layers_new(const struct pare_model *student, const struct pare_model *teacher,
                            struct pare_distill_layers *d, struct pare_arena *a,
                            struct pare_err *err)
{
    struct side s = { .role = "the student", .model = student };
    struct side t = { .role = "the teacher", .model = teacher };
    const char **from = pare_alloc(a, (size_t)d->n, sizeof(*from));
    const char **to = pare_alloc(a, (size_t)d->n, sizeof(*to));
    struct pare_arena *scratch = pare_arena_new(1 << 16);
    int rc = 0;

    d->term = pare_alloc(a, (size_t)d->n, sizeof(*d->term));
    if (!from || !to || !d->term || !scratch)
        rc = pare_no_memory(err, "for the layers to distill");
    if (!rc)
        rc = find_layers(&s, scratch, err);
    if (!rc)
        rc = find_layers(&t, scratch, err);
    for (int i = 0; i < d->n && !rc; i++) {
        rc = look_up(&s, d->link[i].student, &from[i], err);
        if (!rc)
            rc = look_up(&t, d->link[i].teacher, &to[i], err);
    }
    pare_arena_free(scratch);
    d->student = (struct pare_strs){ from, d->n };
    d->teacher = (struct pare_strs){ to, d->n };
    return rc;
}

/* ---- a batch ------------------------------------------------------------------------------ */

int pare_distill_layers_add(const struct pare_distill_layers *d, const struct pare_plan *student,
                            int first, const struct pare_plan *teacher, double *loss,
                            struct pare_err *err)
{
    for (int i = 0; i < d->n; i++) {
        const struct pare_distill_link *l = &d->link[i];
        struct pare_distill_layer conf = l->conf;
        int rc;

        d->term[i] = 0;
        conf.lambda *= 1 - d->away;
        rc = pare_distill_layer(&conf, pare_plan_value(student, first + i),
                                pare_plan_value(teacher, i),
                                pare_plan_value_grad(student, first + i), &d->term[i], err);
        if (rc)
            return pare_at(err, rc, "layer '%s' and the teacher's '%s'", l->student, l->teacher);
        *loss += d->term[i];
    }
    return 0;
}
