/* topics.c - the registries that `pare list` lists and `pare help NAME` explains. */
#include "topics.h"

#include <string.h>
#include <strings.h>

#include "../job/plugins.h"
#include "../print/option_text.h"
#include "../../backend/backend.h"
#include "../../graph/rewrite/rewrite.h"
#include "../../op/op.h"
#include "../../pipeline/compress_presets.h"
#include "../../plan/plan.h"
#include "../../prune/prune_method.h"
#include "../../quant/presets.h"
#include "../../quant/quant_method.h"
#include "../../quant/rounding/rounding.h"
#include "../../train/train.h"
#include "../../zoo/zoo.h"
#include "help_print.h"

static bool get_op(const struct pare_registry *g, int i, struct pare_topic *t)
{
    (void)g;
    if (!pare_ops[i])
        return false;
    *t = (struct pare_topic){ .name = pare_ops[i]->type,
                              .doc = pare_ops[i]->doc,
                              .opts = pare_ops[i]->attrs };
    return true;
}

static bool get_command(const struct pare_registry *g, int i, struct pare_topic *t)
{
    (void)g;
    if (!pare_commands[i])
        return false;
    *t = (struct pare_topic){ .name = pare_commands[i]->name, .doc = pare_commands[i]->doc };
    return true;
}

static bool get_kernel(const struct pare_registry *g, int i, struct pare_topic *t)
{
    const struct pare_kernel *const last[] = { &pare_kernel_plain, &pare_kernel_dynamic };
    const struct pare_kernel *k;
    int n = 0;

    (void)g;
    while (pare_kernels[n])
        n++;
    if (i >= n + 2)
        return false;
    k = i < n ? pare_kernels[i] : last[i - n];
    *t = (struct pare_topic){ .name = k->name, .doc = k->doc };
    return true;
}

/* Registries that are lists of pointers; `opts` is the member with the options, or NULL. */
#define POINTERS(what, list, options)                                                            \
    static bool get_##what(const struct pare_registry *g, int i, struct pare_topic *t)           \
    {                                                                                            \
        (void)g;                                                                                 \
        if (!list[i])                                                                            \
            return false;                                                                        \
        *t = (struct pare_topic){ .name = list[i]->name, .doc = list[i]->doc, .opts = options }; \
        return true;                                                                             \
    }

POINTERS(rewrite, pare_rewrites, NULL)
POINTERS(network, pare_networks, NULL)
POINTERS(optimizer, pare_optimizers, pare_optimizers[i]->opts)
POINTERS(schedule, pare_schedules, pare_schedules[i]->opts)
POINTERS(loss, pare_losses, pare_losses[i]->opts)
POINTERS(metric, pare_metric_list, NULL)
POINTERS(rounding, pare_roundings, NULL)

static bool get_task(const struct pare_registry *g, int i, struct pare_topic *t)
{
    (void)g;
    if (!pare_tasks[i].name)
        return false;
    *t = (struct pare_topic){ .name = pare_tasks[i].name, .doc = pare_tasks[i].doc };
    return true;
}

static bool get_data(const struct pare_registry *g, int i, struct pare_topic *t)
{
    (void)g;
    if (!pare_sources[i])
        return false;
    *t = (struct pare_topic){ .name = pare_source_name(pare_sources[i]),
                              .doc = pare_source_help(pare_sources[i]) };
    return true;
}

static bool get_pruner(const struct pare_registry *g, int i, struct pare_topic *t)
{
    struct pare_algorithm_info a;

    if (!pare_list_pruner(g, i, &a))
        return false;
    *t = (struct pare_topic){ .name = a.name, .doc = a.doc, .opts = a.opts };
    return true;
}

static bool get_quantizer(const struct pare_registry *g, int i, struct pare_topic *t)
{
    struct pare_algorithm_info a;

    if (!pare_list_quantizer(g, i, &a))
        return false;
    *t = (struct pare_topic){ .name = a.name, .doc = a.doc, .opts = a.opts };
    return true;
}

/* Those of `pare compress`, then those of `pare quantize`. */
static bool get_preset(const struct pare_registry *g, int i, struct pare_topic *t)
{
    const struct pare_compress_preset *c;
    const struct pare_preset *q;
    struct pare_err err;
    int n = 0;

    (void)g;
    while (pare_compress_preset_at(n))
        n++;
    c = i < n ? pare_compress_preset_at(i) : NULL;
    if (c) {
        *t = (struct pare_topic){ .name = c->name, .doc = c->doc, .command = "compress" };
        return true;
    }
    if (!pare_preset_names[i - n] || pare_find_preset(pare_preset_names[i - n], &q, &err))
        return false;
    *t = (struct pare_topic){ .name = q->name, .doc = q->doc, .command = "quantize" };
    return true;
}

static bool get_term(const struct pare_registry *g, int i, struct pare_topic *t)
{
    static const struct pare_topic terms[] = {
#define TERM(word, text) { .name = word, .doc = text },
#include "terms.def"
#undef TERM
    };

    (void)g;
    if (i >= (int)(sizeof(terms) / sizeof(*terms)))
        return false;
    *t = terms[i];
    return true;
}

const struct pare_topics pare_topics[] = {
    { "commands", "command", get_command, pare_help_on_command, false },
    { "networks", "network", get_network, NULL, false },
    { "data", "data set", get_data, NULL, false },
    { "presets", "preset", get_preset, NULL, false },
    { "pruners", "pruner", get_pruner, pare_help_pruner, false },
    { "quantizers", "quantizer", get_quantizer, pare_help_quantizer, false },
    { "roundings", "rounding", get_rounding, NULL, false },
    { "losses", "loss", get_loss, NULL, false },
    { "optimizers", "optimizer", get_optimizer, NULL, false },
    { "schedules", "schedule", get_schedule, NULL, false },
    { "tasks", "task", get_task, NULL, false },
    { "metrics", "metric", get_metric, NULL, false },
    { "ops", "op", get_op, pare_help_op, false },
    { "kernels", "kernel", get_kernel, NULL, false },
    { "rewrites", "rewrite", get_rewrite, NULL, false },
    { "words", "word", get_term, NULL, true },
    { NULL, NULL, NULL, NULL, false },
};

bool pare_topic_find(const struct pare_registry *g, const char *name, const struct pare_topics **in,
                     struct pare_topic *t)
{
    for (const struct pare_topics *r = pare_topics; r->plural; r++)
        for (int i = 0; r->get(g, i, t); i++)
            if (!strcasecmp(t->name, name)) {
                *in = r;
                return true;
            }
    return false;
}

int pare_topic_print(struct pare_cli *c, const struct pare_registry *g,
                     const struct pare_topics *in, const struct pare_topic *t, struct pare_err *err)
{
    struct pare_table *rows = pare_table_new(c->arena, "lll");
    const char *of = t->command ? " of " : "", *command = t->command ? t->command : "";
    char title[96];

    if (in->print)
        return in->print(c, g, t->name, err);
    if (!rows)
        return pare_no_memory(err, "for the help");
    snprintf(title, sizeof(title), "%s%s%s%s%s: ", in->hidden ? "" : in->kind,
             in->hidden ? "" : " ", t->name, of, command);
    pare_put_wrapped(stdout, title, t->doc);
    if (!t->opts || !t->opts->name)
        return 0;
    printf("\n");
    pare_table_row(rows, "options:", "", "");
    pare_help_settings(rows, c->arena, t->opts);
    pare_table_wrap(rows, stdout);
    return 0;
}

int pare_topic_plugins(const struct pare_cli *c, const struct pare_strs *plugin,
                       struct pare_registry **g, struct pare_err *err)
{
    int rc;

    *g = NULL;
    if (!plugin->n)
        return 0;
    *g = pare_registry_new(err);
    if (!*g)
        return err->code;
    rc = pare_plugins_load(c, *g, plugin, err);
    if (rc) {
        pare_registry_free(*g);
        *g = NULL;
    }
    return rc;
}
