/* config_match.c - which entry of a config_list applies to a layer. */
#include <stdio.h>
#include <string.h>

#include "../base/arena.h"
#include "../base/regex.h"
#include "../op/op.h"
#include "config.h"

#define MAX_SHOWN 8 /* types or names in a message */

/* NNI's default types: those of operators, and two modules without an ONNX operator. */
bool pare_is_default_type(const char *type)
{
    for (const struct pare_op *const *op = pare_ops; *op; op++)
        if ((*op)->layer.by_default && pare_op_is_torch(*op, type))
            return true;
    return !strcmp(type, "Bilinear") || !strcmp(type, "EmbeddingBag");
}

static bool type_matches(const char *wanted, const struct pare_layer_info *l)
{
    if (!strcmp(wanted, "default"))
        return pare_is_default_type(l->torch);
    return !strcmp(wanted, l->torch) || !strcmp(wanted, l->type);
}

static bool name_matches(const char *wanted, const struct pare_layer_info *l)
{
    if (!strncmp(wanted, "re:", 3))
        return pare_regex_match(wanted + 3, l->name);
    return !strcmp(wanted, l->name);
}

static bool any(const struct pare_strs *list,
                bool (*matches)(const char *wanted, const struct pare_layer_info *l),
                const struct pare_layer_info *l)
{
    for (int i = 0; i < list->n; i++)
        if (matches(list->v[i], l))
            return true;
    return list->n < 0;
}

static bool entry_matches(const struct pare_entry *e, const struct pare_layer_info *l)
{
    return any(&e->op_types, type_matches, l) && any(&e->op_names, name_matches, l);
}

/* The last entry wins. */
static const struct pare_entry *last_match(const struct pare_config *c,
                                           const struct pare_layer_info *layer)
{
    for (int i = c->n - 1; i >= 0; i--)
        if (entry_matches(&c->entry[i], layer))
            return &c->entry[i];
    return NULL;
}

const struct pare_entry *pare_config_match(const struct pare_config *c,
                                           const struct pare_layer_info *layer)
{
    const struct pare_entry *e = last_match(c, layer);

    return e && e->exclude ? NULL : e;
}

bool pare_config_excludes(const struct pare_config *c, const struct pare_layer_info *layer)
{
    const struct pare_entry *e = last_match(c, layer);

    return e && e->exclude;
}

/* ---- names and types that match no layer ----------------------------------------------------- */

/* Write " (did you mean 'x'?)", or else "; the model has a, b, c", each name once. */
static void suggest(const char *typed, const char **name, int n, char *buf, size_t size)
{
    const char *near = pare_nearest(typed, name, n);
    size_t at = 0;
    int shown = 0;

    buf[0] = '\0';
    if (near) {
        snprintf(buf, size, " (did you mean '%.100s'?)", near);
        return;
    }
    for (int i = 0; i < n && at < size; i++) {
        int k = 0;

        while (strcmp(name[k], name[i]) != 0)
            k++;
        if (k < i)
            continue;
        at += (size_t)snprintf(buf + at, size - at, "%s%.40s", shown ? ", " : "; the model has ",
                               shown == MAX_SHOWN ? "..." : name[i]);
        if (shown++ == MAX_SHOWN)
            break;
    }
}

/* The error for a name or type that matches no layer, with the names of layers, or their types as
 * PyTorch and ONNX call them. */
static int unmatched(const char *wanted, bool type, const struct pare_layer_info *layer, int n,
                     struct pare_err *err)
{
    struct pare_arena *a = pare_arena_new(0);
    const char **name = a ? pare_alloc(a, (size_t)n * 2, sizeof(*name)) : NULL;
    char hint[300] = "";
    int rc, m = 0;

    if (name) {
        for (int i = 0; i < n; i++)
            name[m++] = type ? layer[i].torch : layer[i].name;
        for (int i = 0; type && i < n; i++)
            if (strcmp(layer[i].type, layer[i].torch) != 0)
                name[m++] = layer[i].type;
        suggest(wanted, name, m, hint, sizeof(hint));
    }
    if (type)
        rc = pare_fail(err, PARE_ECONFIG, "no layer is of the type '%.80s'%s", wanted, hint);
    else if (!strncmp(wanted, "re:", 3))
        rc = pare_fail(err, PARE_ECONFIG, "the pattern '%.200s' matches no layer's name%s",
                       wanted + 3, hint);
    else
        rc = pare_fail(err, PARE_ECONFIG, "no layer is called '%.80s'%s", wanted, hint);
    pare_arena_free(a);
    return rc;
}

static int check_list(const struct pare_strs *list, bool type, const struct pare_layer_info *layer,
                      int n, struct pare_err *err)
{
    for (int i = 0; i < list->n; i++) {
        const char *wanted = list->v[i];
        int k = 0;

        if (type && (!strcmp(wanted, "default") || pare_is_default_type(wanted)))
            continue;
        while (k < n && !(type ? type_matches(wanted, &layer[k]) : name_matches(wanted, &layer[k])))
            k++;
        if (k == n)
            return unmatched(wanted, type, layer, n, err);
    }
    return 0;
}

static int check_entry(const struct pare_entry *e, const struct pare_layer_info *layer, int n,
                       struct pare_err *err)
{
    int k = 0;

    PARE_TRY(check_list(&e->op_types, true, layer, n, err));
    PARE_TRY(check_list(&e->op_names, false, layer, n, err));
    while (k < n && !entry_matches(e, &layer[k]))
        k++;
    if (k == n && e->op_types.n > 0 && e->op_names.n > 0)
        return pare_fail(err, PARE_ECONFIG,
                         "no layer has one of its op_types and one of its op_names as well");
    return 0;
}

int pare_config_check(const struct pare_config *c, const struct pare_layer_info *layer, int n,
                      struct pare_err *err)
{
    for (int i = 0; i < c->n; i++)
        PARE_TRY(pare_at(err, check_entry(&c->entry[i], layer, n, err), "%s", c->entry[i].where));
    return 0;
}
