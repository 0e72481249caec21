/* edit_bodies.c - edit bodies (subgraphs) of If, Loop and Scan as parts of the edit of a model.
 *
 * The edit of a body has slots for the body's nodes.  Names and initializers are those of the main
 * graph, which bodies read by name.
 */
#include <string.h>

#include "edit_internal.h"

/* The graph of the node's attribute; NULL: none. */
static Onnx__AttributeProto *find_body(const Onnx__NodeProto *p, const char *attr)
{
    for (size_t i = 0; i < p->n_attribute; i++)
        if (p->attribute[i]->g && p->attribute[i]->name && !strcmp(p->attribute[i]->name, attr))
            return p->attribute[i];
    return NULL;
}

/* The edit of the body `attr` of the node that makes `value`; *body NULL: there is none. */
static int open_body(struct pare_edit *e, const char *value, const char *attr,
                     struct pare_edit **body, struct pare_err *err)
{
    struct pare_edit_slot *s = pare_edit_maker(e, value);
    const Onnx__AttributeProto *at = s ? find_body(s->p, attr) : NULL;
    struct pare_edit *b;

    *body = NULL;
    if (!at)
        return 0;
    for (b = e->bodies; b; b = b->next)
        if (b->owner == (int)(s - e->slot) && !strcmp(b->attr, attr)) {
            *body = b;
            return 0;
        }
    b = pare_alloc(e->a, 1, sizeof(*b));
    if (!b)
        return pare_edit_no_memory(err);
    b->from = e->from;
    b->to = e->to;
    b->a = e->a;
    b->root = e->root;
    b->graph = *at->g;
    b->owner = (int)(s - e->slot);
    b->attr = attr;
    PARE_TRY(pare_edit_copy_nodes(b, err));
    b->next = e->bodies;
    e->bodies = b;
    *body = b;
    return 0;
}

static const char *made_by(const struct pare_node *n)
{
    for (int k = 0; k < n->n_out; k++)
        if (n->out[k])
            return n->out[k]->name;
    return "";
}

static bool has_node(const struct pare_graph *g, const struct pare_node *n)
{
    return n->id >= 0 && n->id < g->n_nodes && g->node[n->id] == n;
}

int pare_edit_of_node(struct pare_edit *e, const struct pare_graph *g, const struct pare_node *n,
                      struct pare_edit **at, struct pare_err *err)
{
    *at = has_node(g, n) ? e : NULL;
    for (int i = 0; i < g->n_nodes && !*at; i++) {
        const struct pare_node *u = g->node[i];
        const struct pare_opt *o = u->op && u->attr ? u->op->attrs : NULL;

        for (; o && o->name && !*at; o++) {
            const struct pare_graph *inner;
            struct pare_edit *body;

            if (o->type != PARE_OPT_GRAPH)
                continue;
            memcpy(&inner, (const char *)u->attr + o->offset, sizeof(inner));
            if (!inner)
                continue;
            PARE_TRY(open_body(e, made_by(u), o->name, &body, err));
            if (body)
                PARE_TRY(pare_edit_of_node(body, inner, n, at, err));
        }
    }
    return 0;
}

static bool is_changed(const struct pare_edit *b)
{
    for (int i = 0; i < b->n_file; i++)
        if (b->slot[i].own || !b->slot[i].p)
            return true;
    return b->n > b->n_file;
}

int pare_edit_close_bodies(struct pare_edit *e, struct pare_err *err)
{
    for (struct pare_edit *b = e->bodies; b; b = b->next) {
        struct pare_edit_slot *s = &e->slot[b->owner];
        Onnx__AttributeProto *at = pare_alloc(e->a, 1, sizeof(*at));

        if (!at)
            return pare_edit_no_memory(err);
        PARE_TRY(pare_edit_list_nodes(b, err));
        if (!s->p || !is_changed(b))
            continue;
        PARE_TRY(pare_edit_own_slot(e, s, err));
        *at = *find_body(s->p, b->attr);
        at->g = &b->graph;
        PARE_TRY(pare_edit_set_attr(e, s->p, at, err));
    }
    e->bodies = NULL;
    return 0;
}
