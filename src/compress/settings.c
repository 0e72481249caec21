/* settings.c - what can be set of a compression, for command lines and help. */
#include "settings.h"

#include <string.h>

#include "../base/arena.h"
#include "pruners.h"

int pare_prune_parts(struct pare_arena *a, const char *pruner, struct pare_part **part, int *n,
                     struct pare_err *err)
{
    const struct pare_pruner *mine = NULL;
    int all = 0;

    while (pare_pruners[all]) {
        if (pruner && !strcmp(pare_pruners[all]->name, pruner))
            mine = pare_pruners[all];
        all++;
    }
    *part = pare_alloc(a, (size_t)all + 1, sizeof(**part));
    if (!*part)
        return pare_fail(err, PARE_ENOMEM, "no memory for the options");
    (*part)[0] = (struct pare_part){ "pruning", NULL, pare_run_table, NULL };
    *n = 1;
    for (int i = 0; i < all; i++) {
        const struct pare_pruner *p = pare_pruners[i];
        bool takes = !pruner || p == mine ||
                     (mine && mine->flags & PARE_OVER && !(p->flags & PARE_OVER));

        if (takes && p->opts)
            (*part)[(*n)++] = (struct pare_part){ "pruner", p->name, p->opts, NULL };
    }
    return 0;
}

static bool listed(const char *types, const char *type)
{
    size_t n = strlen(type);

    for (const char *p = types; p; p = strchr(p, '|'), p = p ? p + 1 : NULL)
        if (!strncmp(p, type, n) && (p[n] == '|' || !p[n]))
            return true;
    return false;
}

/* Only types that the model has: a type without a layer would be an error.  Of pruners that take
 * any layer, those of "default". */
int pare_simple_config(const char *file, struct pare_model *m, const struct pare_pruner *p,
                       double sparsity, struct pare_arena *a, const char **config,
                       struct pare_err *err)
{
    struct pare_graph *g = pare_graph_clone(a, m->graph, err);
    struct pare_layer_info *l;
    char *list = pare_strdup(a, "");
    int n;

    if (!g)
        return err->code;
    pare_graph_bind(g, 1);
    PARE_TRY(pare_graph_infer(g, true, err));
    PARE_TRY(pare_layers(a, g, &l, &n, err));
    for (int i = 0; i < n && list; i++) {
        char *quoted = pare_sprintf(a, "\"%s\"", l[i].torch);

        bool takes = p->types ? listed(p->types, l[i].torch) : pare_is_default_type(l[i].torch);

        if (quoted && takes && !strstr(list, quoted))
            list = pare_sprintf(a, "%s%s%s", list, *list ? ", " : "", quoted);
    }
    if (list && !*list)
        return pare_fail(err, PARE_ECONFIG, "%s: has no layer of the types that %s prunes: %s",
                         file, p->name, p->types ? p->types : "default");
    *config = list ? pare_sprintf(a, "[{\"sparsity\": %.17g, \"op_types\": [%s]}]", sparsity, list)
                   : NULL;
    return *config ? 0 : pare_fail(err, PARE_ENOMEM, "no memory for a configuration");
}

int64_t pare_mask_zeros(const struct pare_tensor *mask)
{
    const uint8_t *m = mask->data;
    int64_t zeros = 0;

    for (int64_t i = 0, n = pare_numel(mask); i < n; i++)
        zeros += !m[i];
    return zeros;
}

int64_t pare_run_zeros(struct pare_run *r)
{
    int64_t zeros = 0;

    for (int i = 0; i < r->n_layers; i++)
        zeros += pare_mask_zeros(&r->layer[i].mask);
    return zeros;
}
