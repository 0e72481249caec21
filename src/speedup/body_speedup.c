/* body_speedup.c - remove channels inside the bodies of If, Loop and Scan.
 *
 * A body becomes a model of its own (onnx/body_model.h), in which layers that follow each other
 * shrink as in any model, and which is verified by itself: a run of the whole model may not reach
 * the body.  What crosses the border of the body keeps all channels.  Bodies inside of the body are
 * those of that model.
 */
#include <string.h>

#include "../base/arena.h"
#include "../graph/layer.h"
#include "../onnx/body_model.h"
#include "speedup.h"

struct body {
    struct pare_speedup *s;
    struct pare_arena *a; /* the caller's, for texts of the report */
    const struct pare_node *n;
    int b;
    const char *path;
};

const char *pare_speedup_made(const struct pare_node *n)
{
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i])
            return n->out[i]->name;
    return "";
}

/* Is the layer in this body, or in one inside of it? */
static bool is_inside(const struct pare_layer_info *l, const char *path)
{
    size_t n = strlen(path);

    return l->body && !strncmp(l->body, path, n) && (!l->body[n] || l->body[n] == '/');
}

static int note(const struct body *k, const char *inner, const char *out,
                const struct pare_speedup_layer *l, struct pare_err *err)
{
    struct pare_arena *a = k->s->arena;
    struct pare_body_layer *t = pare_alloc(a, 1, sizeof(*t));

    if (!t)
        return pare_no_memory(err, "for the report");
    t->body = inner ? pare_sprintf(a, "%s/%s", k->path, inner) : k->path;
    t->out = out ? pare_strdup(a, out) : NULL;
    t->l = *l;
    t->next = k->s->body_layers;
    if (!t->body || (out && !t->out))
        return pare_no_memory(err, "for the report");
    k->s->body_layers = t;
    return 0;
}

/* The body keeps all of its channels. */
static int note_kept(const struct body *k, const char *why, struct pare_err *err)
{
    struct pare_speedup_layer l = { 0 };

    l.why = pare_sprintf(k->a, "the body %s is kept: %s", k->path, why);
    return l.why ? note(k, NULL, NULL, &l, err) : pare_no_memory(err, "for the report");
}

static int note_layers(const struct body *k, const struct pare_speedup_report *r,
                       const struct pare_graph *before, struct pare_err *err)
{
    struct pare_layer_info *list;
    int n;

    PARE_TRY(pare_layers(k->s->arena, before, &list, &n, err));
    for (int i = 0; i < n && i < r->n_layers; i++)
        PARE_TRY(note(k, list[i].body, pare_speedup_made(list[i].node), &r->layer[i], err));
    return 0;
}

static bool is_smaller(const struct pare_speedup_report *r)
{
    return r->params_left < r->params || r->nodes_left < r->nodes;
}

/* Shrink the body's model; *smaller becomes the model with the result in its place. */
static int shrink(const struct body *k, const struct pare_body_model *body,
                  struct pare_model **smaller, struct pare_err *err)
{
    struct pare_speedup_opts o = *k->s->opts;
    struct pare_speedup_graphs graphs;
    struct pare_speedup_report r;
    struct pare_model *small, *whole = NULL;
    struct pare_err why = { 0 };
    int rc;

    o.size = 0;
    o.in = body->given;
    o.n_in = body->model->n_in;
    o.feed = NULL;
    rc = pare_speedup_run(body->model, &o, k->a, &small, &r, &graphs, &why);
    if (rc == PARE_ENOMEM || rc == PARE_ECANCEL)
        *err = why;
    if (rc)
        return rc == PARE_ENOMEM || rc == PARE_ECANCEL ? rc : note_kept(k, why.msg, err);
    rc = note_layers(k, &r, graphs.before, err);
    if (!rc && is_smaller(&r))
        rc = pare_body_model_replace(*smaller, k->n, k->b, body->model, small, &whole, err);
    if (whole) {
        pare_model_free(*smaller);
        *smaller = whole;
    }
    pare_model_free(small);
    pare_arena_free(graphs.arena);
    return pare_at(err, rc, "body %s", k->path);
}

static int try_body(const struct body *k, struct pare_model **smaller, struct pare_err *err)
{
    struct pare_body_model body;
    struct pare_err why = { 0 };
    int rc = pare_body_model_new(k->s->arena, *smaller, k->s->after, k->n, k->b, &body, &why);

    if (rc == PARE_ENOMEM)
        *err = why;
    if (rc)
        return rc == PARE_ENOMEM ? rc : note_kept(k, why.msg, err);
    if (!body.model)
        return note_kept(k, "its node is part of a function", err);
    rc = shrink(k, &body, smaller, err);
    pare_model_free(body.model);
    return rc;
}

int pare_speedup_bodies(struct pare_speedup *s, struct pare_arena *a, struct pare_model **smaller,
                        struct pare_err *err)
{
    const struct pare_model *before = *smaller;
    struct body k = { .s = s, .a = a };
    struct pare_layer_info *list;
    const char *label;
    int n;

    PARE_TRY(pare_layers(s->arena, s->after, &list, &n, err));
    for (int i = 0; i < s->after->n_nodes; i++) {
        k.n = s->after->node[i];
        for (k.b = 0; pare_node_body(k.n, k.b, &label); k.b++) {
            bool any = false;

            k.path = pare_sprintf(s->arena, "%s/%s", k.n->name, label);
            if (!k.path)
                return pare_no_memory(err, "for the report");
            for (int j = 0; j < n && !any; j++)
                any = is_inside(&list[j], k.path);
            if (any)
                PARE_TRY(try_body(&k, smaller, err));
        }
    }
    return *smaller == before ? 0 : pare_speedup_infer_after(s, *smaller, err);
}
