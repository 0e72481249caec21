/* reference.c - docs/config.md: every key and setting, from the tables. */
#include "reference.h"

#include <string.h>

#include "../view/option_text.h"
#include "../../prune/prune_method.h"
#include "../../quant/quant_method.h"
#include "../../quant/quant_config.h"
#include "../../train/train_options.h"

/* What Markdown would take for a mark of its own. */
static void put(FILE *f, const char *s)
{
    for (; *s; s++) {
        if (strchr("|<>*_", *s))
            fputc('\\', f);
        fputc(*s, f);
    }
}

static void rows(FILE *f, const char *head, const struct pare_opt *opts, bool dashed)
{
    char name[PARE_OPTION_TEXT], text[PARE_OPTION_TEXT];

    if (!opts || !opts->name)
        return;
    fprintf(f, "| %s | type | default | range | |\n|---|---|---|---|---|\n", head);
    for (const struct pare_opt *o = opts; o->name; o++) {
        fprintf(f, "| `%s%s` | %s | ", dashed ? "--" : "",
                dashed ? pare_option_dashed(o, name, sizeof(name)) : o->name, pare_option_type(o));
        put(f, pare_option_default(o, text, sizeof(text)));
        fputs(" | ", f);
        put(f, pare_option_range(o, text, sizeof(text)));
        fputs(" | ", f);
        put(f, o->help);
        fputs(" |\n", f);
    }
    fputc('\n', f);
}

static void title(FILE *f, const char *mark, const char *name, const char *doc)
{
    fprintf(f, "%s %s\n\n", mark, name);
    put(f, doc);
    fputs("\n\n", f);
}

/* ---- compression ----------------------------------------------------------------------- */

static void pruners(FILE *f)
{
    fputs("## Pruning\n\nKeys of config\\_list entries that every pruner knows:\n\n", f);
    rows(f, "key", pare_goal_keys, false);
    fputs("Settings of every pruner, options of `pare prune`:\n\n", f);
    rows(f, "setting", pare_prune_options, false);
    for (int i = 0; pare_pruners[i]; i++) {
        const struct pare_algorithm *p = pare_pruners[i];

        fprintf(f, "### pruner %s\n\n", p->name);
        put(f, p->doc);
        fputs("  Layers: ", f);
        put(f, p->types ? p->types : "any with a weight");
        if (!(p->flags & PARE_USES_BASE))
            fprintf(f, ".  Unless the config says another, what goes as a whole is `%s`",
                    p->pruner->granularity ? p->pruner->granularity : "element");
        fputs(p->flags & (PARE_NEEDS_DATA | PARE_NEEDS_STEPS) ? ".  Needs data.\n\n" : ".\n\n", f);
        rows(f, "key", p->keys, false);
        rows(f, "setting", p->opts, false);
    }
}

static void quantizers(FILE *f)
{
    fputs("## Quantization\n\nKeys of config\\_list entries that every quantizer knows:\n\n", f);
    rows(f, "key", pare_quant_keys, false);
    for (int i = 0; pare_quantizers[i]; i++) {
        const struct pare_algorithm *a = pare_quantizers[i];
        const struct pare_quantizer *q = a->quantizer;

        fprintf(f, "### quantizer %s\n\n", a->name);
        put(f, a->doc);
        fprintf(f, "  Places:%s%s%s; %d to %d bits.\n\n", q->weight ? " weight" : "",
                q->input ? " input" : "", q->output ? " output" : "", q->min_bits ? q->min_bits : 1,
                q->max_bits ? q->max_bits : 16);
        rows(f, "key", a->keys, false);
        rows(f, "setting", a->opts, false);
    }
}

/* ---- the rest --------------------------------------------------------------------------- */

static int training(FILE *f, struct pare_arena *a, struct pare_err *err)
{
    struct pare_option_group *part;
    int n;

    PARE_TRY(pare_train_option_groups(a, &part, &n, err));
    fputs(
        "## Training and data\n\nOptions of `pare train`, and of `pare prune` and "
        "`pare quantize` with `--data`; from C, words of\n`pare_training_new()`.  Where two parts "
        "have one of the same name, `optimizer-alpha` says whose is meant.\n\n",
        f);
    for (int i = 0; i < n; i++) {
        if (!part[i].opts || !part[i].opts->name)
            continue;
        fprintf(f, "### %s%s%s\n\n", part[i].kind, part[i].name ? " " : "",
                part[i].name ? part[i].name : "");
        rows(f, "setting", part[i].opts, false);
    }
    return 0;
}

static void commands(FILE *f)
{
    fputs("## Commands\n\nTheir own options; those of parts, such as optimizers, are above.\n\n",
          f);
    for (int i = 0; pare_commands[i]; i++) {
        char name[64];

        snprintf(name, sizeof(name), "pare %s", pare_commands[i]->name);
        title(f, "###", name, pare_commands[i]->doc);
        fprintf(f, "Usage: `pare %s %s`\n\n", pare_commands[i]->name, pare_commands[i]->usage);
        rows(f, "option", pare_commands[i]->opts, true);
    }
}

int pare_reference_print(FILE *f, struct pare_arena *a, struct pare_err *err)
{
    fputs(
        "# Keys, settings and options\n\n"
        "Made by `pare help --reference` from the tables that parse them; `make docs` writes it "
        "anew.\n\n"
        "## config\\_list\n\n"
        "A JSON list of objects, in a file or as text (`--config`).  For each layer the last entry "
        "that\nmatches counts, as a whole.  `pare inspect` prints names and types of layers.\n\n"
        "| key | type | |\n|---|---|---|\n"
        "| `op_types` | list of texts | types that PyTorch or ONNX has: `Conv2d`, `Conv`, "
        "`Linear`; `default`: those that NNI's algorithms take by default |\n"
        "| `op_names` | list of texts | names of layers, or `re:` and a regular expression for the "
        "whole name |\n"
        "| `exclude` | bool | leave these layers alone |\n\n"
        "One of `op_types` and `op_names` must be there; a layer must match all that are.  The "
        "other keys are the\nalgorithm's, below; an unknown one is an error.\n\n",
        f);
    pruners(f);
    quantizers(f);
    PARE_TRY(training(f, a, err));
    commands(f);
    return 0;
}
