/* cmd_list.c - pare list: the registered operators, kernels, pruners, data sets and so on. */
#include <string.h>

#include <jansson.h>

#include "../cli.h"
#include "../help/topics.h"
#include "../../op/op.h"

struct list {
    bool json;
    struct pare_strs plugin;
};

static const struct pare_opt list_opts[] = {
    PARE_FLAG("json", offsetof(struct list, json), "print the list as JSON", 0),
    PARE_TEXTS("plugin", offsetof(struct list, plugin), "FILE",
               "also list the algorithms of this shared object"),
    PARE_OPT_END
};

/* ---- operators ------------------------------------------------------------- */

/* Short text for a set of element types. */
static const char *types_text(const struct pare_op *op, char *buf, size_t size)
{
    size_t at = 0;

    if (!op->types)
        return "any";
    if (op->types == PARE_T_NUMERIC)
        return "numbers";
    if (op->types == PARE_T_FLOATS || op->types == PARE_T_FLOAT)
        return "floats";
    if (op->types == PARE_T_INTS)
        return "integers";
    buf[0] = '\0';
    for (int d = 1; d < 32 && at < size; d++)
        if (op->types & PARE_T(d))
            at += (size_t)snprintf(buf + at, size - at, "%s%s", at ? " " : "",
                                   pare_dtype_name((enum pare_dtype)d));
    return at > 40 ? "several" : buf;
}

static json_t *types_json(const struct pare_op *op)
{
    json_t *a = json_array();

    for (int d = 1; d < 32; d++)
        if ((!op->types || op->types & PARE_T(d)) && pare_dtype_size((enum pare_dtype)d))
            json_array_append_new(a, json_string(pare_dtype_name((enum pare_dtype)d)));
    return a;
}

static int by_type(const void *a, const void *b)
{
    return strcmp((*(const struct pare_op *const *)a)->type,
                  (*(const struct pare_op *const *)b)->type);
}

/* The operators sorted by name; ops.def is sorted by family. */
static const struct pare_op **sorted_ops(struct pare_arena *a, int *n)
{
    const struct pare_op **list;

    for (*n = 0; pare_ops[*n]; ++*n)
        ;
    list = pare_alloc(a, (size_t)*n + 1, sizeof(*list));
    if (list) {
        memcpy(list, pare_ops, (size_t)*n * sizeof(*list));
        qsort(list, (size_t)*n, sizeof(*list), by_type);
    }
    return list;
}

static int list_ops(struct pare_cli *c, bool json, struct pare_err *err)
{
    struct pare_table *t = pare_table_new(c->arena, "lrll");
    int n;
    const struct pare_op **ops = sorted_ops(c->arena, &n);
    json_t *all = json ? json_array() : NULL;
    char buf[256];

    if (!t || !ops)
        return pare_no_memory(err, "for the list");
    pare_table_row(t, "operator", "since", "types", "");
    for (int i = 0; i < n; i++)
        if (json)
            json_array_append_new(all,
                                  json_pack("{s:s, s:s, s:i, s:o, s:s, s:b}", "type", ops[i]->type,
                                            "domain", ops[i]->domain ? ops[i]->domain : "", "since",
                                            ops[i]->since, "types", types_json(ops[i]), "doc",
                                            ops[i]->doc, "gradient", ops[i]->backward != NULL));
        else
            pare_table_row(t, ops[i]->type, pare_sprintf(c->arena, "%d", ops[i]->since),
                           types_text(ops[i], buf, sizeof(buf)), ops[i]->doc);
    if (json)
        return pare_json_print(all, err);
    pare_table_print(t, stdout);
    return 0;
}

/* ---- the other registries --------------------------------------------------- */

static int list_topics(struct pare_cli *c, const struct pare_registry *g,
                       const struct pare_topics *r, struct pare_err *err)
{
    const struct list *o = c->opts;
    struct pare_topic e;
    bool commands = r->get(g, 0, &e) && e.command;
    struct pare_table *t = pare_table_new(c->arena, commands ? "lll" : "ll");
    json_t *all = o->json ? json_array() : NULL;

    if (!t)
        return pare_no_memory(err, "for the list");
    pare_table_row(t, r->kind, commands ? "command" : "", "");
    for (int i = 0; r->get(g, i, &e); i++)
        if (o->json)
            json_array_append_new(all, json_pack("{s:s, s:s, s:s*}", "name", e.name, "doc", e.doc,
                                                 "command", e.command));
        else
            pare_table_row(t, e.name, commands ? e.command : e.doc, e.doc);
    if (o->json)
        return pare_json_print(all, err);
    pare_table_print(t, stdout);
    return 0;
}

/* The registry of this name, or NULL. */
static const struct pare_topics *find_list(const char *name)
{
    for (const struct pare_topics *r = pare_topics; r->plural; r++)
        if (!r->hidden && !strcmp(r->plural, name))
            return r;
    return NULL;
}

static const char *word(int i)
{
    for (const struct pare_topics *r = pare_topics; r->plural; r++)
        if (!r->hidden && !i--)
            return r->plural;
    return NULL;
}

static int cmd_list_run(struct pare_cli *c, struct pare_err *err)
{
    const struct list *o = c->opts;
    const struct pare_topics *r = find_list(c->arg[0]);
    struct pare_registry *g;
    int rc;

    if (!r)
        return pare_misuse(c, err, "cannot list '%s': expected %s", c->arg[0],
                           pare_cli_words(c->cmd, c->arena));
    PARE_TRY(pare_topic_plugins(c, &o->plugin, &g, err));
    rc = strcmp(r->plural, "ops") ? list_topics(c, g, r, err) : list_ops(c, o->json, err);
    pare_registry_free(g);
    return rc;
}

const struct pare_command pare_command_list = {
    .name = "list",
    .doc = "List operators, pruners, networks, data sets and so on.",
    .usage = "[--json] [--plugin FILE] WHAT",
    .more = "WHAT is commands, networks, data, presets, pruners, quantizers, roundings,\n"
            "losses, optimizers, schedules, tasks, metrics, ops, kernels or rewrites.  'pare\n"
            "help NAME' explains an entry.",
    .opts = list_opts,
    .size = sizeof(struct list),
    .min_args = 1,
    .max_args = 1,
    .run = cmd_list_run,
    .brief = true,
    .word = word,
};
