/* cmd_help.c - pare help: help for commands, operators, pruners and quantizers. */
#include <string.h>

#include "../cli.h"
#include "../help/completion.h"
#include "../help/manual.h"
#include "../print/option_text.h"
#include "../help/reference.h"
#include "../../prune/prune_method.h"
#include "../../quant/quant_method.h"
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
    fputs("\nRun 'pare help <command>' for the options of a command, 'pare help op <name>'\n"
          "for an operator, 'pare --version' for the version.\n",
          f);
}

/* "  -o, --output FILE" in the first column, its help in the second. */
static void option_row(struct pare_table *t, struct pare_arena *a, const struct pare_opt *o)
{
    char letter = pare_cli_letter(o->name), name[PARE_OPTION_TEXT], help[PARE_OPTION_TEXT];

    pare_table_row(t,
                   pare_sprintf(a, "  %c%c%s%s", letter ? '-' : ' ', letter ? letter : ' ',
                                letter ? ", " : "  ", pare_option_name(o, name, sizeof(name))),
                   pare_option_help(o, help, sizeof(help)));
}

/* The options of a command's groups, each group under a heading. */
static int group_rows(const struct pare_command *cmd, struct pare_table *t, struct pare_arena *a,
                      struct pare_err *err)
{
    struct pare_option_group *group;
    int n;

    if (!cmd->groups)
        return 0;
    PARE_TRY(cmd->groups(a, &group, &n, err));
    for (int i = 0; i < n; i++) {
        if (!group[i].opts || !group[i].opts->name)
            continue;
        pare_table_row(t, "", "");
        pare_table_row(t,
                       pare_sprintf(a, "%s%s%s:", group[i].kind, group[i].name ? " " : "",
                                    group[i].name ? group[i].name : ""),
                       "");
        for (const struct pare_opt *o = group[i].opts; o->name; o++)
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
    for (const struct pare_opt *o = pare_common_opts; !cmd->brief && o->name; o++)
        option_row(t, a, o);
    pare_table_row(t, "  -h, --help", "print this help");
    PARE_TRY(group_rows(cmd, t, a, err));
    pare_table_wrap(t, stdout);
    return 0;
}

/* ---- operators ------------------------------------------------------------- */

/* Name, type and help of each row. */
static void setting_rows(struct pare_table *t, struct pare_arena *a, const struct pare_opt *opts)
{
    char help[PARE_OPTION_TEXT];

    for (const struct pare_opt *o = opts; o && o->name; o++)
        pare_table_row(t, pare_sprintf(a, "  %s", o->name), pare_option_type(o),
                       o->type == PARE_OPT_STRS ? o->help
                                                : pare_option_help(o, help, sizeof(help)));
}

/* Type of an operator's input, from its letter. */
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
    struct pare_table *t = pare_table_new(c->arena, "lll");

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
    pare_table_row(t, "attributes:", "", "");
    setting_rows(t, c->arena, op->attrs);
    pare_table_wrap(t, stdout);
    return 0;
}

/* ---- pruners ----------------------------------------------------------------- */

/* Print the keys of config_list entries and the settings, the algorithm's own ones first. */
static int print_settings(struct pare_arena *a, const struct pare_opt *const keys[2],
                          const struct pare_opt *const settings[2], struct pare_err *err)
{
    struct pare_table *t = pare_table_new(a, "lll");

    if (!t)
        return pare_no_memory(err, "for the help");
    pare_table_row(t, "config keys:", "", "");
    for (int i = 0; i < 2; i++)
        setting_rows(t, a, keys[i]);
    pare_table_row(t, "", "", "");
    pare_table_row(t, "settings:", "", "");
    for (int i = 0; i < 2; i++)
        setting_rows(t, a, settings[i]);
    pare_table_wrap(t, stdout);
    return 0;
}

static int help_pruner(struct pare_cli *c, const char *name, struct pare_err *err)
{
    const struct pare_algorithm *p;
    int rc = pare_find_pruner(NULL, name, &p, err);

    c->usage = rc != 0;
    if (rc)
        return rc;
    printf("%s: %s\n\n", p->name, p->doc);
    printf("layers: %s\n", p->types ? p->types : "any with a weight");
    if (!(p->flags & PARE_USES_BASE))
        printf("default granularity: %s\n",
               p->pruner->granularity ? p->pruner->granularity : "element");
    if (p->flags & (PARE_NEEDS_DATA | PARE_NEEDS_STEPS))
        printf("needs --data\n");
    printf("\n");
    return print_settings(c->arena, (const struct pare_opt *const[]){ p->keys, pare_goal_keys },
                          (const struct pare_opt *const[]){ p->opts, pare_prune_options }, err);
}

/* ---- quantizers -------------------------------------------------------------- */

static int help_quantizer(struct pare_cli *c, const char *name, struct pare_err *err)
{
    const struct pare_algorithm *a;
    const struct pare_quantizer *q;
    int rc = pare_find_quantizer(NULL, name, &a, err);

    c->usage = rc != 0;
    if (rc)
        return rc;
    q = a->quantizer;
    printf("%s: %s\n\n", a->name, a->doc);
    printf("layers: %s\n", a->types ? a->types : "any");
    printf("quantizes:%s%s%s\n", q->weight ? " weight" : "", q->input ? " input" : "",
           q->output ? " output" : "");
    printf("bits: %d to %d\n", q->min_bits ? q->min_bits : 1, q->max_bits ? q->max_bits : 16);
    if (a->flags & (PARE_NEEDS_DATA | PARE_NEEDS_STEPS))
        printf("needs --data\n");
    printf("\n");
    return print_settings(c->arena, (const struct pare_opt *const[]){ a->keys, pare_quant_keys },
                          (const struct pare_opt *const[]){ a->opts, pare_quant_options }, err);
}

/* ---- the command ----------------------------------------------------------- */

struct help {
    bool man, reference;
    const char *completion;
};

static const struct pare_opt help_opts[] = {
    PARE_FLAG("man", offsetof(struct help, man), "print a manual page, for pare or for the command",
              0),
    PARE_CHOICE("completion", offsetof(struct help, completion),
                "print a completion script for this shell", NULL, "bash|zsh"),
    PARE_FLAG("reference", offsetof(struct help, reference),
              "print all keys, settings and options as Markdown (docs/config.md)", 0),
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

static int unknown_topic(struct pare_cli *c, struct pare_err *err)
{
    const char *names[64];
    char hint[PARE_HINT_TEXT];
    int n = 0;

    for (; n < 64 && pare_commands[n]; n++)
        names[n] = pare_commands[n]->name;
    return pare_misuse(c, err, "no help for '%s'%s", c->arg[0],
                       pare_cli_hint(c->arg[0], names, n, "", hint, sizeof(hint)));
}

static int help_general(struct pare_cli *c, struct pare_err *err)
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

static int cmd_help_run(struct pare_cli *c, struct pare_err *err)
{
    const struct help *o = c->opts;
    const struct pare_command *cmd;

    if (!c->n_args)
        return help_general(c, err);
    if (o->completion || o->reference)
        return pare_misuse(c, err, "--completion and --reference cannot be combined with '%s'",
                           c->arg[0]);
    for (size_t i = 0; i < KINDS; i++) {
        if (strcmp(c->arg[0], kinds[i].kind) != 0)
            continue;
        if (c->n_args < 2)
            return pare_misuse(c, err, "specify the %s's name; 'pare list %s' lists them",
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
    return unknown_topic(c, err);
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
    .run = cmd_help_run,
    .brief = true,
    .word = word,
};
