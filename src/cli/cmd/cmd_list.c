/* cmd_list.c - pare list: the registered operators, kernels, pruners, data sets and so on. */
#include <string.h>

#include <jansson.h>

#include "../cli.h"
#include "../../backend/backend.h"
#include "../../prune/prune_method.h"
#include "../../quant/quant_method.h"
#include "../../op/op.h"
#include "../../plan/plan.h"
#include "../../train/train.h"
#include "../../zoo/zoo.h"

struct list {
    bool json;
};

static const struct pare_opt list_opts[] = {
    PARE_FLAG("json", offsetof(struct list, json), "print the list as JSON", 0), PARE_OPT_END
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

/* ---- commands and kernels -------------------------------------------------- */

struct entry {
    const char *name, *doc;
};

static int print_entries(struct pare_cli *c, const struct entry *e, int n, const char *head,
                         struct pare_err *err)
{
    const struct list *o = c->opts;
    struct pare_table *t = pare_table_new(c->arena, "ll");
    json_t *all = o->json ? json_array() : NULL;

    if (!t)
        return pare_no_memory(err, "for the list");
    pare_table_row(t, head, "");
    for (int i = 0; i < n; i++)
        if (o->json)
            json_array_append_new(all, json_pack("{s:s, s:s}", "name", e[i].name, "doc", e[i].doc));
        else
            pare_table_row(t, e[i].name, e[i].doc);
    if (o->json)
        return pare_json_print(all, err);
    pare_table_print(t, stdout);
    return 0;
}

static int list_commands(struct pare_cli *c, struct pare_err *err)
{
    struct entry e[64];
    int n = 0;

    for (; n < 64 && pare_commands[n]; n++)
        e[n] = (struct entry){ pare_commands[n]->name, pare_commands[n]->doc };
    return print_entries(c, e, n, "command", err);
}

static int list_kernels(struct pare_cli *c, struct pare_err *err)
{
    struct entry e[128];
    int n = 0;

    for (; n < 126 && pare_kernels[n]; n++)
        e[n] = (struct entry){ pare_kernels[n]->name, pare_kernels[n]->doc };
    e[n++] = (struct entry){ pare_kernel_plain.name, pare_kernel_plain.doc };
    e[n++] = (struct entry){ pare_kernel_dynamic.name, pare_kernel_dynamic.doc };
    return print_entries(c, e, n, "kernel", err);
}

/* Registries whose entries have a name and a doc. */
#define LIST(what, table, head)                                      \
    static int list_##what(struct pare_cli *c, struct pare_err *err) \
    {                                                                \
        struct entry e[64];                                          \
        int n = 0;                                                   \
                                                                     \
        for (; n < 64 && table[n]; n++)                              \
            e[n] = (struct entry){ table[n]->name, table[n]->doc };  \
        return print_entries(c, e, n, head, err);                    \
    }

LIST(pruners, pare_pruners, "pruner")
LIST(quantizers, pare_quantizers, "quantizer")
LIST(networks, pare_networks, "network")
LIST(optimizers, pare_optimizers, "optimizer")
LIST(schedules, pare_schedules, "schedule")
LIST(losses, pare_losses, "loss")

static int list_data(struct pare_cli *c, struct pare_err *err)
{
    struct entry e[64];
    int n = 0;

    for (; n < 64 && pare_sources[n]; n++)
        e[n] = (struct entry){ pare_source_name(pare_sources[n]),
                               pare_source_help(pare_sources[n]) };
    return print_entries(c, e, n, "data", err);
}

static int list_operators(struct pare_cli *c, struct pare_err *err)
{
    return list_ops(c, ((const struct list *)c->opts)->json, err);
}

static const struct {
    const char *what;
    int (*print)(struct pare_cli *c, struct pare_err *err);
} lists[] = {
    { "ops", list_operators },         { "commands", list_commands },   { "kernels", list_kernels },
    { "networks", list_networks },     { "data", list_data },           { "losses", list_losses },
    { "optimizers", list_optimizers }, { "schedules", list_schedules }, { "pruners", list_pruners },
    { "quantizers", list_quantizers },
};

#define LISTS ((int)(sizeof(lists) / sizeof(*lists)))

static const char *word(int i)
{
    return i < LISTS ? lists[i].what : NULL;
}

static int cmd_list_run(struct pare_cli *c, struct pare_err *err)
{
    for (int i = 0; i < LISTS; i++)
        if (!strcmp(c->arg[0], lists[i].what))
            return lists[i].print(c, err);
    return pare_misuse(c, err,
                       "cannot list '%s': expected ops, commands, kernels, networks, data, losses, "
                       "optimizers, schedules, pruners or quantizers",
                       c->arg[0]);
}

const struct pare_command pare_command_list = {
    .name = "list",
    .doc = "List operators, pruners, networks, data sets and so on.",
    .usage = "[--json] WHAT",
    .more = "WHAT is ops, commands, kernels, networks, data, losses, optimizers, schedules,\n"
            "pruners or quantizers.",
    .opts = list_opts,
    .size = sizeof(struct list),
    .min_args = 1,
    .max_args = 1,
    .run = cmd_list_run,
    .brief = true,
    .word = word,
};
