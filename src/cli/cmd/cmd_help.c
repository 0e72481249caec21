/* cmd_help.c - pare help: commands, operators, algorithms, networks, data sets, words. */
#include <string.h>

#include "../cli.h"
#include "../help/completion.h"
#include "../help/manual.h"
#include "../help/reference.h"
#include "../help/topics.h"

struct help {
    bool all, man, reference;
    const char *completion;
    struct pare_strs plugin;
};

static const struct pare_opt help_opts[] = {
    PARE_FLAG("all", offsetof(struct help, all), "explain all options of a command", 0),
    PARE_TEXTS("plugin", offsetof(struct help, plugin), "FILE",
               "also explain the algorithms of this shared object"),
    PARE_FLAG("man", offsetof(struct help, man), "print a manual page, for pare or for the command",
              0),
    PARE_CHOICE("completion", offsetof(struct help, completion),
                "print a completion script for this shell", NULL, "bash|zsh"),
    PARE_FLAG("reference", offsetof(struct help, reference),
              "print all keys, settings and options as Markdown (docs/config.md)", 0),
    PARE_OPT_END
};

#define MAX_TOPICS 1024

static int unknown_topic(struct pare_cli *c, const struct pare_registry *g, struct pare_err *err)
{
    const char **names = pare_alloc(c->arena, MAX_TOPICS, sizeof(*names));
    char hint[PARE_HINT_TEXT];
    struct pare_topic t;
    int n = 0;

    if (!names)
        return pare_no_memory(err, "for the help");
    for (const struct pare_topics *r = pare_topics; r->plural; r++)
        for (int i = 0; n < MAX_TOPICS && r->get(g, i, &t); i++)
            names[n++] = t.name;
    return pare_misuse(c, err, "no help for '%s'%s", c->arg[0],
                       pare_cli_hint(c->arg[0], names, n,
                                     "; 'pare help' lists the commands, 'pare list' the rest", hint,
                                     sizeof(hint)));
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

/* `pare help pruner l1`: the kind is named. */
static int help_of_kind(struct pare_cli *c, const struct pare_registry *g,
                        const struct pare_topics *r, struct pare_err *err)
{
    struct pare_topic t;
    int found = 0;

    if (c->n_args < 2)
        return pare_misuse(c, err, "specify the %s's name; 'pare list %s' lists them",
                           strcmp(r->kind, "op") ? r->kind : "operator", r->plural);
    for (int i = 0; r->get(g, i, &t); i++)
        if (!strcasecmp(t.name, c->arg[1])) {
            if (found++)
                printf("\n");
            PARE_TRY(pare_topic_print(c, g, r, &t, err));
        }
    if (found)
        return 0;
    if (r->print)
        return r->print(c, g, c->arg[1], err); /* its error names the closest one */
    return pare_misuse(c, err, "unknown %s '%s'; 'pare list %s' lists them", r->kind, c->arg[1],
                       r->plural);
}

/* Every entry of this name: int8 is a preset of two commands. */
static int help_by_name(struct pare_cli *c, const struct pare_registry *g, struct pare_err *err)
{
    struct pare_topic t;
    int found = 0;

    for (const struct pare_topics *r = pare_topics; r->plural; r++)
        for (int i = 0; r->get(g, i, &t); i++)
            if (!strcasecmp(t.name, c->arg[0])) {
                if (found++)
                    printf("\n");
                PARE_TRY(pare_topic_print(c, g, r, &t, err));
            }
    if (!found)
        return unknown_topic(c, g, err);
    return c->n_args > 1 ? pare_misuse(c, err, "unexpected '%s'", c->arg[1]) : 0;
}

static int help_topic(struct pare_cli *c, const struct pare_registry *g, struct pare_err *err)
{
    const struct help *o = c->opts;
    const struct pare_command *cmd = pare_find_command(c->arg[0]);

    if (cmd && c->n_args == 1)
        return o->man ? pare_manual_command(stdout, cmd, c->arena, err)
                      : pare_help_command(cmd, o->all, c->arena, err);
    for (const struct pare_topics *r = pare_topics; r->plural; r++)
        if (!strcmp(c->arg[0], r->kind))
            return help_of_kind(c, g, r, err);
    if (cmd)
        return pare_misuse(c, err, "unexpected '%s'", c->arg[1]);
    return help_by_name(c, g, err);
}

static int cmd_help_run(struct pare_cli *c, struct pare_err *err)
{
    const struct help *o = c->opts;
    struct pare_registry *g;
    int rc;

    if (!c->n_args)
        return help_general(c, err);
    if (o->completion || o->reference)
        return pare_misuse(c, err, "--completion and --reference cannot be combined with '%s'",
                           c->arg[0]);
    PARE_TRY(pare_topic_plugins(c, &o->plugin, &g, err));
    rc = help_topic(c, g, err);
    pare_registry_free(g);
    return rc;
}

/* For completion: the commands, then the kinds. */
static const char *word(int i)
{
    int n = 0;

    while (pare_commands[n])
        n++;
    return i < n       ? pare_commands[i]->name
           : i < n + 3 ? (const char *[]){ "op", "pruner", "quantizer" }[i - n]
                       : NULL;
}

const struct pare_command pare_command_help = {
    .name = "help",
    .doc = "Explain a command, an operator, a pruner, a quantizer, a word.",
    .usage = "[--all] [COMMAND | NAME | KIND NAME]",
    .more = "NAME is what 'pare list' prints: adam, lenet, digits, int8, Conv; or a word such\n"
            "as latency.  KIND selects one of several with the same name: pruner, quantizer,\n"
            "op, network, optimizer, schedule, loss, preset, kernel.",
    .opts = help_opts,
    .size = sizeof(struct help),
    .max_args = 2,
    .run = cmd_help_run,
    .brief = true,
    .word = word,
};
