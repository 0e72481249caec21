/* group_view.c - which channels of a model belong together. */
#include "group_view.h"

#include <string.h>

#include "../base/arena.h"
#include "../graph/kept.h"

static int no_memory(struct pare_err *err)
{
    return pare_fail(err, PARE_ENOMEM, "no memory to look at the channels");
}

/* The sets of a layer's output and input channels; -1: it has none. */
static void sets_of(const struct pare_kept *k, const struct pare_layer_info *l, int *out, int *in)
{
    *out = *in = -1;
    if (l->node->op && l->node->op->axes)
        l->node->op->axes(l->node, out, in);
    if (*out >= 0)
        *out = pare_kept_set(k, l->weight, *out);
    if (*in >= 0)
        *in = pare_kept_set(k, l->weight, *in);
}

/* Layers that neither mix nor make channels, such as normalisations, say nothing of interest. */
static bool counts(const struct pare_layer_info *l)
{
    int out = -1, in = -1;

    if (l->node->op && l->node->op->axes)
        l->node->op->axes(l->node, &out, &in);
    return out >= 0 && (in >= 0 || l->weight->t.rank > 1);
}

/* The sets that layers make, in the order of the first that does; group[set] is its number. */
static void find_groups(const struct pare_kept *k, const struct pare_layer_info *layer,
                        int n_layers, struct pare_group *list, int *n, int *group)
{
    for (int i = 0; i < n_layers; i++) {
        int out, in;

        sets_of(k, &layer[i], &out, &in);
        if (!counts(&layer[i]) || out < 0 || group[out] >= 0)
            continue;
        group[out] = *n;
        layer[i].node->op->axes(layer[i].node, &out, &in);
        list[*n].channels = layer[i].weight->t.dim[out];
        list[*n].why = pare_kept_why(k, layer[i].weight, out, &list[*n].node);
        ++*n;
    }
}

/* Who makes and who uses them: counted first, then written down. */
static void list_layers(const struct pare_kept *k, const struct pare_layer_info *layer,
                        int n_layers, struct pare_group *list, const int *group, bool write)
{
    for (int i = 0; i < n_layers; i++) {
        int out, in;

        if (!counts(&layer[i]))
            continue;
        sets_of(k, &layer[i], &out, &in);
        out = out < 0 ? -1 : group[out];
        in = in < 0 ? -1 : group[in];
        if (out >= 0 && write)
            list[out].maker[list[out].n_makers] = &layer[i];
        if (in >= 0 && write)
            list[in].user[list[in].n_users] = &layer[i];
        if (out >= 0)
            list[out].n_makers++;
        if (in >= 0)
            list[in].n_users++;
    }
}

int pare_groups_find(struct pare_arena *a, struct pare_graph *g,
                     const struct pare_layer_info *layer, int n_layers, struct pare_group **list,
                     int *n, struct pare_err *err)
{
    struct pare_kept *k;
    int *group;

    *n = 0;
    *list = pare_alloc(a, (size_t)n_layers, sizeof(**list));
    PARE_TRY(pare_graph_unshare(g, NULL, 0, err));
    PARE_TRY(pare_kept_new(a, g, &k, err));
    group = pare_alloc(a, (size_t)pare_kept_sets(k), sizeof(*group));
    if (!*list || !group)
        return no_memory(err);
    for (int i = 0; i < pare_kept_sets(k); i++)
        group[i] = -1;
    find_groups(k, layer, n_layers, *list, n, group);
    list_layers(k, layer, n_layers, *list, group, false);
    for (int i = 0; i < *n; i++) {
        struct pare_group *x = &(*list)[i];

        x->maker = pare_alloc(a, (size_t)x->n_makers, sizeof(*x->maker));
        x->user = pare_alloc(a, (size_t)x->n_users, sizeof(*x->user));
        if (!x->maker || !x->user)
            return no_memory(err);
        x->n_makers = x->n_users = 0;
    }
    list_layers(k, layer, n_layers, *list, group, true);
    return 0;
}

/* ---- text and JSON ---------------------------------------------------------------- */

static const char *names(struct pare_arena *a, const struct pare_layer_info *const *list, int n)
{
    size_t bytes = 1, at = 0;
    char *text;

    for (int i = 0; i < n; i++)
        bytes += strlen(list[i]->name) + 1;
    text = pare_alloc(a, bytes, 1);
    if (!text)
        return "?";
    for (int i = 0; i < n; i++) {
        size_t len = strlen(list[i]->name);

        if (i)
            text[at++] = ' ';
        memcpy(text + at, list[i]->name, len);
        at += len;
    }
    return text;
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

    pare_table_row(t, "channels", "made by", "used by", "all stay because of");
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
