/* group_print.c - print dependency groups: layers whose channels must be removed together. */
#include "group_print.h"

#include <string.h>

#include "../../base/arena.h"
#include "../../graph/keep_sets.h"

/* The keep sets of a layer's output and input channels; -1: none. */
static void sets_of(const struct pare_keep_sets *k, const struct pare_layer_info *l, int *out,
                    int *in)
{
    *out = *in = -1;
    if (l->node->op && l->node->op->axes)
        l->node->op->axes(l->node, out, in);
    if (*out >= 0)
        *out = pare_keep_sets_set(k, l->weight, *out);
    if (*in >= 0)
        *in = pare_keep_sets_set(k, l->weight, *in);
}

/* Leave out layers that only pass channels on, such as normalizations. */
static bool makes_channels(const struct pare_layer_info *l)
{
    int out = -1, in = -1;

    if (l->node->op && l->node->op->axes)
        l->node->op->axes(l->node, &out, &in);
    return out >= 0 && (in >= 0 || l->weight->t.rank > 1) && !l->body;
}

/* The keep sets of the layers, and the group of each set. */
struct finding {
    const struct pare_layer_info *layer;
    int n_layers;
    struct {
        int out, in;
    } * set;    /* (n_layers) */
    int *group; /* index of the group by set; -1: none */
};

/* Start a group for each set that holds output channels of a layer. */
static void begin_groups(const struct pare_keep_sets *k, const struct finding *f,
                         struct pare_group *list, int *n)
{
    for (int i = 0; i < f->n_layers; i++) {
        const struct pare_layer_info *l = &f->layer[i];
        struct pare_group *g;
        int out, in;

        if (f->set[i].out < 0 || f->group[f->set[i].out] >= 0)
            continue;
        f->group[f->set[i].out] = *n;
        g = &list[(*n)++];
        l->node->op->axes(l->node, &out, &in);
        g->channels = l->weight->t.dim[out] /
                      (l->node->op->layer.gates ? l->node->op->layer.gates : 1);
        g->why = pare_keep_sets_why(k, l->weight, out, &g->node);
    }
}

static struct pare_group *group_of(const struct finding *f, struct pare_group *list, int set)
{
    return set < 0 || f->group[set] < 0 ? NULL : &list[f->group[set]];
}

/* The first pass counts, the second fills. */
static int fill_groups(struct pare_arena *a, const struct finding *f, struct pare_group *list,
                       int n)
{
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < n && pass; i++) {
            list[i].maker = pare_alloc(a, (size_t)list[i].n_makers, sizeof(*list[i].maker));
            list[i].user = pare_alloc(a, (size_t)list[i].n_users, sizeof(*list[i].user));
            if (!list[i].maker || !list[i].user)
                return PARE_ENOMEM;
            list[i].n_makers = list[i].n_users = 0;
        }
        for (int i = 0; i < f->n_layers; i++) {
            struct pare_group *out = group_of(f, list, f->set[i].out);
            struct pare_group *in = group_of(f, list, f->set[i].in);

            if (out && pass)
                out->maker[out->n_makers] = &f->layer[i];
            if (in && pass)
                in->user[in->n_users] = &f->layer[i];
            if (out)
                out->n_makers++;
            if (in)
                in->n_users++;
        }
    }
    return 0;
}

/* Layers of a body have the names that they have in the whole model. */
static int add_path(struct pare_arena *a, const char *path, struct pare_layer_info *l, int n,
                    struct pare_err *err)
{
    for (int i = 0; i < n && path; i++) {
        l[i].name = pare_sprintf(a, "%s/%s", path, l[i].name);
        if (!l[i].name)
            return pare_no_memory(err, "to find dependency groups");
    }
    return 0;
}

int pare_groups_find(struct pare_arena *a, struct pare_graph *g, const char *path,
                     struct pare_group **all, int *n_all, struct pare_err *err)
{
    struct finding f = { .n_layers = 0 };
    struct pare_layer_info *layer;
    struct pare_keep_sets *k;
    struct pare_group *list;
    int n = 0;

    PARE_TRY(pare_layers(a, g, &layer, &f.n_layers, err));
    PARE_TRY(add_path(a, path, layer, f.n_layers, err));
    f.layer = layer;
    list = pare_alloc(a, (size_t)(*n_all + f.n_layers) + 1, sizeof(*list));
    f.set = pare_alloc(a, (size_t)f.n_layers, sizeof(*f.set));
    PARE_TRY(pare_graph_unshare(g, NULL, 0, err));
    PARE_TRY(pare_keep_sets_new(a, g, &k, err));
    f.group = pare_alloc(a, (size_t)pare_keep_sets_sets(k), sizeof(*f.group));
    if (!list || !f.set || !f.group)
        return pare_no_memory(err, "to find dependency groups");
    for (int i = 0; i < pare_keep_sets_sets(k); i++)
        f.group[i] = -1;
    for (int i = 0; i < f.n_layers; i++) {
        f.set[i].out = f.set[i].in = -1;
        if (makes_channels(&layer[i]))
            sets_of(k, &layer[i], &f.set[i].out, &f.set[i].in);
    }
    if (*n_all)
        memcpy(list, *all, (size_t)*n_all * sizeof(*list));
    begin_groups(k, &f, list + *n_all, &n);
    if (fill_groups(a, &f, list + *n_all, n))
        return pare_no_memory(err, "to find dependency groups");
    *all = list;
    *n_all += n;
    return 0;
}

/* ---- text and JSON ---------------------------------------------------------------- */

static const char *names(struct pare_arena *a, const struct pare_layer_info *const *list, int n)
{
    const char **name = pare_alloc(a, (size_t)n, sizeof(*name)), *text;

    if (!name)
        return "?";
    for (int i = 0; i < n; i++)
        name[i] = list[i]->name;
    text = pare_join(a, name, n, " ");
    return text ? text : "?";
}

static const char *reason(struct pare_arena *a, const struct pare_group *g)
{
    const char *text;

    if (!g->why)
        return "";
    text = g->node ? pare_sprintf(a, "%s (%s)", g->why, g->node->name) : g->why;
    return text ? text : "?";
}

void pare_groups_print(struct pare_arena *a, const struct pare_group *list, int n)
{
    struct pare_table *t = pare_table_new(a, "rlll");
    char buf[PARE_NUM_TEXT];

    pare_table_row(t, "channels", "made by", "used by", "cannot be removed because of");
    for (int i = 0; i < n; i++)
        pare_table_row(t, pare_whole_text(list[i].channels, buf, sizeof(buf)),
                       names(a, list[i].maker, list[i].n_makers),
                       names(a, list[i].user, list[i].n_users), reason(a, &list[i]));
    pare_table_print(t, stdout);
    printf("\n");
}

static json_t *json_names(const struct pare_layer_info *const *list, int n)
{
    json_t *j = json_array();

    for (int i = 0; i < n; i++)
        json_array_append_new(j, pare_json_text(list[i]->name));
    return j;
}

json_t *pare_groups_json(const struct pare_group *list, int n)
{
    json_t *j = json_array();

    for (int i = 0; i < n; i++)
        json_array_append_new(
            j, json_pack("{s:I, s:o, s:o, s:o, s:o}", "channels", (json_int_t)list[i].channels,
                         "made_by", json_names(list[i].maker, list[i].n_makers), "used_by",
                         json_names(list[i].user, list[i].n_users), "frozen",
                         list[i].why ? pare_json_text(list[i].why) : json_null(), "node",
                         list[i].node ? pare_json_text(list[i].node->name) : json_null()));
    return j;
}
