/* cmd_help.c - pare help: everything is printed from the tables that parse it. */
#include <string.h>

#include "../cli.h"
#include "../help/completion.h"
#include "../help/manual.h"
#include "../view/option_text.h"
#include "../help/reference.h"
#include "../../prune/prune_method.h"
#include "../../quant/quant_method.h"
#include "../../quant/quant_config.h"
#include "../../base/arena.h"
#include "../../op/op.h"

void pare_help_all(FILE *f)
{
    size_t width = 0;

    fputs("usage: pare <command> [options] ...\n\n", f);
    for (int i = 0; pare_commands[i]; i++)
        if (strlen(pare_commands[i]->name) > width)
            width = strlen(pare_commands[i]->name);
    for (int i = 0; pare_commands[i]; i++)
        fprintf(f, "  %-*s  %s\n", (int)width, pare_commands[i]->name, pare_commands[i]->doc);
    fputs("\nRun 'pare help <command>' for its options, 'pare help op <name>' for an operator,\n"
          "'pare --version' for the version.\n",
          f);
}

/* "  -o, --output TEXT" in the first column, what it is in the second. */
static void option_row(struct pare_table *t, struct pare_arena *a, const struct pare_opt *o)
{
    char letter = pare_cli_letter(o->name), name[PARE_OPTION_TEXT], brackets[PARE_OPTION_TEXT];

    pare_table_row(t,
                   pare_sprintf(a, "  %c%c%s%s", letter ? '-' : ' ', letter ? letter : ' ',
                                letter ? ", " : "  ", pare_option_name(o, name, sizeof(name))),
                   pare_sprintf(a, "%s%s", o->help,
                                pare_option_brackets(o, brackets, sizeof(brackets))));
}

/* The options of a command's parts, each under its heading. */
static int part_rows(const struct pare_command *cmd, struct pare_table *t, struct pare_arena *a,
                     struct pare_err *err)
{
    struct pare_option_group *part;
    int n;

    if (!cmd->parts)
        return 0;
    PARE_TRY(cmd->parts(a, &part, &n, err));
    for (int i = 0; i < n; i++) {
        if (!part[i].opts || !part[i].opts->name)
            continue;
        pare_table_row(t, "", "");
        pare_table_row(t,
                       pare_sprintf(a, "%s%s%s:", part[i].kind, part[i].name ? " " : "",
                                    part[i].name ? part[i].name : ""),
                       "");
        for (const struct pare_opt *o = part[i].opts; o->name; o++)
            option_row(t, a, o);
    }
    return 0;
}

int pare_help_command(const struct pare_command *cmd, struct pare_arena *a, struct pare_err *err)
{
    struct pare_table *t = pare_table_new(a, "ll");

    if (!t)
        return pare_no_memory(err, "for the help");
    printf("usage: pare %s %s\n\n%s\n", cmd->name, cmd->usage, cmd->doc);
    if (cmd->more)
        printf("\n%s\n", cmd->more);
    printf("\n");
    pare_table_row(t, "options:", "");
    for (const struct pare_opt *o = cmd->opts; o && o->name; o++)
        option_row(t, a, o);
    for (const struct pare_opt *o = pare_resource_limits_opts; !cmd->brief && o->name; o++)
        option_row(t, a, o);
    pare_table_row(t, "  -h, --help", "print this");
    PARE_TRY(part_rows(cmd, t, a, err));
    pare_table_print(t, stdout);
    return 0;
}

/* ---- operators ------------------------------------------------------------- */

/* The letters of an operator's inputs, in words. */
static const char *letter_text(char c)
{
    switch (c) {
    case 'T': return "T";
    case 'U': return "U";
    case 'I': return "int32 or int64";
    case 'L': return "int64";
    case 'B': return "bool";
    case 'F': return "float32";
    default: return "any type";
    }
}

static void print_inputs(const struct pare_op *op)
{
    const char *s = op->in;

    printf("inputs:");
    if (!s || !*s)
        printf(" none");
    for (int i = 0; s && *s; i++) {
        printf("%s %s", i ? "," : "", letter_text(*s++));
        if (*s == '?')
            printf(" (optional)");
        else if (*s == '*')
            printf(" (any number)");
        else if (*s == '+')
            printf(" (one or more)");
        s += *s == '?' || *s == '*' || *s == '+';
    }
    printf("\n");
    if (op->in && strchr(op->in, 'T')) {
        printf("T:");
        for (int d = 1; d < 32 && op->types; d++)
            if (op->types & PARE_T(d))
                printf(" %s", pare_dtype_name((enum pare_dtype)d));
        printf("%s\n", op->types ? "" : " any type");
    }
}

static int unknown_op(struct pare_cli *c, const char *name, struct pare_err *err)
{
    const char *names[512];
    char hint[PARE_HINT_TEXT];
    int n = 0;

    for (; n < 512 && pare_ops[n]; n++)
        names[n] = pare_ops[n]->type;
    return pare_misuse(c, err, "unknown operator '%s'%s", name,
                       pare_cli_hint(name, names, n, "; 'pare list ops' lists them", hint,
                                     sizeof(hint)));
}

static int help_op(struct pare_cli *c, const char *name, struct pare_err *err)
{
    const struct pare_op *op = NULL;
    struct pare_table *t = pare_table_new(c->arena, "lllll");
    char def[PARE_OPTION_TEXT], range[PARE_OPTION_TEXT];

    for (int i = 0; pare_ops[i] && !op; i++)
        if (!strcasecmp(pare_ops[i]->type, name))
            op = pare_ops[i];
    if (!op)
        return unknown_op(c, name, err);
    if (!t)
        return pare_no_memory(err, "for the help");
    printf("%s: %s\n\n", op->type, op->doc);
    printf("since opset %d%s%s\n", op->since, op->domain ? " of " : "",
           op->domain ? op->domain : "");
    print_inputs(op);
    if (op->max_out < 0)
        printf("outputs: %d or more\n", op->min_out);
    else if (op->max_out > op->min_out)
        printf("outputs: %d to %d\n", op->min_out, op->max_out);
    else
        printf("outputs: %d\n", op->max_out);
    if (!op->attrs || !op->attrs->name)
        return 0;
    printf("\n");
    pare_table_row(t, "attribute", "type", "default", "range", "");
    for (const struct pare_opt *o = op->attrs; o->name; o++)
        pare_table_row(t, o->name, pare_option_type(o), pare_option_default(o, def, sizeof(def)),
                       pare_option_range(o, range, sizeof(range)), o->help);
    pare_table_print(t, stdout);
    return 0;
}

/* ---- pruners ----------------------------------------------------------------- */

static void option_rows(struct pare_table *t, const struct pare_opt *opts)
{
    char def[PARE_OPTION_TEXT], range[PARE_OPTION_TEXT];

    for (const struct pare_opt *o = opts; o && o->name; o++)
        pare_table_row(t, o->name, pare_option_type(o), pare_option_default(o, def, sizeof(def)),
                       pare_option_range(o, range, sizeof(range)), o->help);
}

static int help_pruner(struct pare_cli *c, const char *name, struct pare_err *err)
{
    const struct pare_algorithm *p;
    struct pare_table *keys = pare_table_new(c->arena, "lllll");
    struct pare_table *settings = pare_table_new(c->arena, "lllll");
    int rc = pare_find_pruner(NULL, name, &p, err);

    c->usage = rc != 0;
    if (rc)
        return rc;
    if (!keys || !settings)
        return pare_no_memory(err, "for the help");
    printf("%s: %s\n\n", p->name, p->doc);
    printf("layers: %s\n", p->types ? p->types : "any with a weight");
    if (!(p->flags & PARE_USES_BASE))
        printf("granularity: %s, unless the config says another\n",
               p->pruner->granularity ? p->pruner->granularity : "element");
    if (p->flags & (PARE_NEEDS_DATA | PARE_NEEDS_STEPS))
        printf("needs --data\n");
    printf("\n");
    pare_table_row(keys, "config key", "type", "default", "range", "");
    option_rows(keys, p->keys);
    option_rows(keys, pare_goal_keys);
    pare_table_print(keys, stdout);
    printf("\n");
    pare_table_row(settings, "setting", "type", "default", "range", "");
    option_rows(settings, p->opts);
    option_rows(settings, pare_prune_options);
    pare_table_print(settings, stdout);
    return 0;
}

/* ---- quantizers -------------------------------------------------------------- */

static int help_quantizer(struct pare_cli *c, const char *name, struct pare_err *err)
{
    const struct pare_algorithm *a;
    const struct pare_quantizer *q;
    struct pare_table *keys = pare_table_new(c->arena, "lllll");
    struct pare_table *settings = pare_table_new(c->arena, "lllll");
    int rc = pare_find_quantizer(NULL, name, &a, err);

    c->usage = rc != 0;
    if (rc)
        return rc;
    if (!keys || !settings)
        return pare_no_memory(err, "for the help");
    q = a->quantizer;
    printf("%s: %s\n\n", a->name, a->doc);
    printf("layers: %s\n", a->types ? a->types : "any");
    printf("places:%s%s%s\n", q->weight ? " weight" : "", q->input ? " input" : "",
           q->output ? " output" : "");
    printf("bits: %d to %d\n", q->min_bits ? q->min_bits : 1, q->max_bits ? q->max_bits : 16);
    if (a->flags & (PARE_NEEDS_DATA | PARE_NEEDS_STEPS))
        printf("needs --data\n");
    printf("\n");
    pare_table_row(keys, "config key", "type", "default", "range", "");
    option_rows(keys, a->keys);
    option_rows(keys, pare_quant_keys);
    pare_table_print(keys, stdout);
    printf("\n");
    pare_table_row(settings, "setting", "type", "default", "range", "");
    option_rows(settings, a->opts);
    option_rows(settings, pare_quant_options);
    pare_table_print(settings, stdout);
    return 0;
}

/* ---- the command ----------------------------------------------------------- */

struct help {
    bool man, reference;
    const char *completion;
};

static const struct pare_opt help_opts[] = {
    PARE_FLAG("man", offsetof(struct help, man), "print a manual page: of pare, or of the command",
              0),
    PARE_CHOICE("completion", offsetof(struct help, completion),
                "print what a shell needs to complete commands and options", NULL, "bash|zsh"),
    PARE_FLAG("reference", offsetof(struct help, reference),
              "print all keys and settings as Markdown: docs/config.md", 0),
    PARE_OPT_END
};

static const struct {
    const char *kind, *plural;
    int (*print)(struct pare_cli *c, const char *name, struct pare_err *err);
} kinds[] = {
    { "op", "ops", help_op },
    { "pruner", "pruners", help_pruner },
    { "quantizer", "quantizers", help_quantizer },
};

#define KINDS (sizeof(kinds) / sizeof(*kinds))

static int unknown(struct pare_cli *c, struct pare_err *err)
{
    const char *names[64];
    char hint[PARE_HINT_TEXT];
    int n = 0;

    for (; n < 64 && pare_commands[n]; n++)
        names[n] = pare_commands[n]->name;
    return pare_misuse(c, err, "there is no help for '%s'%s", c->arg[0],
                       pare_cli_hint(c->arg[0], names, n, "", hint, sizeof(hint)));
}

static int whole(struct pare_cli *c, struct pare_err *err)
{
    const struct help *o = c->opts;

    if (o->reference)
        return pare_reference_print(stdout, c->arena, err);
    if (o->completion)
        return pare_completion_print(stdout, o->completion, c->arena, err);
    if (o->man)
        pare_manual_all(stdout);
    else
        pare_help_all(stdout);
    return 0;
}

static int run(struct pare_cli *c, struct pare_err *err)
{
    const struct help *o = c->opts;
    const struct pare_command *cmd;

    if (!c->n_args)
        return whole(c, err);
    if (o->completion || o->reference)
        return pare_misuse(c, err, "that is printed for all commands at once, not for '%s'",
                           c->arg[0]);
    for (size_t i = 0; i < KINDS; i++) {
        if (strcmp(c->arg[0], kinds[i].kind) != 0)
            continue;
        if (c->n_args < 2)
            return pare_misuse(c, err, "which %s? 'pare list %s' lists them",
                               strcmp(kinds[i].kind, "op") ? kinds[i].kind : "operator",
                               kinds[i].plural);
        return kinds[i].print(c, c->arg[1], err);
    }
    cmd = pare_find_command(c->arg[0]);
    if (cmd && c->n_args == 1)
        return o->man ? pare_manual_command(stdout, cmd, c->arena, err)
                      : pare_help_command(cmd, c->arena, err);
    if (cmd)
        return pare_misuse(c, err, "unexpected '%s'", c->arg[1]);
    return unknown(c, err);
}

static const char *word(int i)
{
    int n = 0;

    while (pare_commands[n])
        n++;
    return i < n ? pare_commands[i]->name : i < n + (int)KINDS ? kinds[i - n].kind : NULL;
}

const struct pare_command pare_command_help = {
    .name = "help",
    .doc = "Explain a command, an operator, a pruner or a quantizer.",
    .usage = "[COMMAND | op NAME | pruner NAME | quantizer NAME]",
    .opts = help_opts,
    .size = sizeof(struct help),
    .max_args = 2,
    .run = run,
    .brief = true,
    .word = word,
};
