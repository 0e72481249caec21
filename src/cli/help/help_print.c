/* help_print.c - help on commands, operators, pruners and quantizers, from their descriptors. */
#include "help_print.h"

#include <string.h>
#include <strings.h>

#include "../print/option_text.h"
#include "../print/screen.h"
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
    for (int i = 0; pare_commands[i]; i++) {
        fprintf(f, "  %-*s  ", (int)width, pare_commands[i]->name);
        pare_put_column(f, pare_commands[i]->doc, (int)width + 4, pare_text_columns(f));
        fputc('\n', f);
    }
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

/* One screen: the options that most calls need. */
static int print_first(const struct pare_command *cmd, struct pare_table *t, struct pare_arena *a,
                       struct pare_err *err)
{
    pare_table_row(t, "options:", "");
    for (int i = 0; cmd->first[i]; i++) {
        const struct pare_opt *o;

        PARE_TRY(pare_cli_option(cmd, a, cmd->first[i], &o, err));
        if (o)
            option_row(t, a, o);
    }
    pare_table_wrap(t, stdout);
    return 0;
}

static int print_all(const struct pare_command *cmd, struct pare_table *t, struct pare_arena *a,
                     struct pare_err *err)
{
    pare_table_row(t, "options:", "");
    for (const struct pare_opt *o = cmd->opts; o && o->name; o++)
        option_row(t, a, o);
    for (const struct pare_opt *o = pare_common_opts(cmd); o->name; o++)
        option_row(t, a, o);
    pare_table_row(t, "  -h, --help", cmd->first ? "print the short help" : "print this help");
    if (cmd->first)
        pare_table_row(t, "      --help-all", "print this help");
    PARE_TRY(group_rows(cmd, t, a, err));
    pare_table_wrap(t, stdout);
    return 0;
}

static void print_example(const char *lines)
{
    printf("\n%s:\n  ", strchr(lines, '\n') ? "examples" : "example");
    for (; *lines; lines++)
        printf(*lines == '\n' ? "\n  " : "%c", *lines);
    printf("\n");
}

int pare_help_command(const struct pare_command *cmd, bool all, struct pare_arena *a,
                      struct pare_err *err)
{
    struct pare_table *t = pare_table_new(a, "ll");

    if (!t)
        return pare_no_memory(err, "for the help");
    all |= !cmd->first;
    pare_put_wrapped(stdout, "usage: pare ", pare_sprintf(a, "%s %s", cmd->name, cmd->usage));
    printf("\n%s\n", cmd->doc);
    if (cmd->more && all)
        printf("\n%s\n", cmd->more);
    if (cmd->example)
        print_example(cmd->example);
    printf("\n");
    if (all)
        return print_all(cmd, t, a, err);
    PARE_TRY(print_first(cmd, t, a, err));
    printf("\n'pare help %s --all' explains all options.\n", cmd->name);
    return 0;
}

int pare_help_on_command(struct pare_cli *c, const struct pare_registry *g, const char *name,
                         struct pare_err *err)
{
    (void)g;
    return pare_help_command(pare_find_command(name), false, c->arena, err);
}

/* "layers: Conv2d, Linear", from "Conv2d|Linear". */
static void put_types(const char *types, const char *any)
{
    char text[512];
    size_t at = 0;

    for (const char *s = types; s && *s && at + 3 < sizeof(text); s++) {
        text[at++] = *s == '|' ? ',' : *s;
        if (*s == '|')
            text[at++] = ' ';
    }
    text[at] = '\0';
    pare_put_wrapped(stdout, "layers: ", types ? text : any);
}

/* "name: what it is", wrapped, and an empty line. */
static void put_title(const char *name, const char *doc)
{
    char title[96];

    snprintf(title, sizeof(title), "%s: ", name);
    pare_put_wrapped(stdout, title, doc);
    printf("\n");
}

/* ---- operators ------------------------------------------------------------- */

void pare_help_settings(struct pare_table *t, struct pare_arena *a, const struct pare_opt *opts)
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

int pare_help_op(struct pare_cli *c, const struct pare_registry *g, const char *name,
                 struct pare_err *err)
{
    const struct pare_op *op = NULL;
    struct pare_table *t = pare_table_new(c->arena, "lll");

    (void)g;
    for (int i = 0; pare_ops[i] && !op; i++)
        if (!strcasecmp(pare_ops[i]->type, name))
            op = pare_ops[i];
    if (!op)
        return unknown_op(c, name, err);
    if (!t)
        return pare_no_memory(err, "for the help");
    put_title(op->type, op->doc);
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
    pare_help_settings(t, c->arena, op->attrs);
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
        pare_help_settings(t, a, keys[i]);
    pare_table_row(t, "", "", "");
    pare_table_row(t, "settings:", "", "");
    for (int i = 0; i < 2; i++)
        pare_help_settings(t, a, settings[i]);
    pare_table_wrap(t, stdout);
    return 0;
}

int pare_help_pruner(struct pare_cli *c, const struct pare_registry *g, const char *name,
                     struct pare_err *err)
{
    const struct pare_algorithm *p;
    int rc = pare_find_pruner(g, name, &p, err);

    c->usage = rc != 0;
    if (rc)
        return rc;
    put_title(p->name, p->doc);
    put_types(p->types, "any with a weight");
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

int pare_help_quantizer(struct pare_cli *c, const struct pare_registry *g, const char *name,
                        struct pare_err *err)
{
    const struct pare_algorithm *a;
    const struct pare_quantizer *q;
    int rc = pare_find_quantizer(g, name, &a, err);

    c->usage = rc != 0;
    if (rc)
        return rc;
    q = a->quantizer;
    put_title(a->name, a->doc);
    put_types(a->types, "any");
    printf("quantizes:%s%s%s\n", q->weight ? " weight" : "", q->input ? " input" : "",
           q->output ? " output" : "");
    printf("bits: %d to %d\n", q->min_bits ? q->min_bits : 1, q->max_bits ? q->max_bits : 16);
    if (a->flags & (PARE_NEEDS_DATA | PARE_NEEDS_STEPS))
        printf("needs --data\n");
    printf("\n");
    return print_settings(c->arena, (const struct pare_opt *const[]){ a->keys, pare_quant_keys },
                          (const struct pare_opt *const[]){ a->opts, pare_quant_options }, err);
}
