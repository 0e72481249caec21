/* completion.c - scripts by which shells complete commands, options and values. */
#include "completion.h"

#include <ctype.h>
#include <string.h>

#include "../print/option_text.h"
#include "../../compress/registry.h"
#include "../../data/data.h"
#include "../../train/train.h"

/* ---- values ------------------------------------------------------------------------------ */

static const char *pruner(int i)
{
    return pare_pruners[i] ? pare_pruners[i]->name : NULL;
}

static const char *quantizer(int i)
{
    return pare_quantizers[i] ? pare_quantizers[i]->base.name : NULL;
}

static const char *optimizer(int i)
{
    return pare_optimizers[i] ? pare_optimizers[i]->name : NULL;
}

static const char *schedule(int i)
{
    return pare_schedules[i] ? pare_schedules[i]->name : NULL;
}

static const char *loss(int i)
{
    return pare_losses[i] ? pare_losses[i]->name : NULL;
}

/* Options whose values are names of tables. */
static const struct {
    const char *option;
    const char *(*word)(int i);
} named[] = {
    { "pruner", pruner },       { "base", pruner },       { "quantizer", quantizer },
    { "optimizer", optimizer }, { "schedule", schedule }, { "loss", loss },
};

/* The values of an option with blanks between them; false: it has none to offer. */
static bool put_values(FILE *f, const struct pare_opt *o)
{
    const char *(*word)(int i) = NULL;

    for (const char *s = o->choices; s && *s; s++)
        fputc(*s == '|' ? ' ' : *s, f);
    if (o->choices)
        return true;
    for (size_t i = 0; i < sizeof(named) / sizeof(*named); i++)
        if (!strcmp(named[i].option, o->name))
            word = named[i].word;
    for (int i = 0; word && word(i); i++)
        fprintf(f, "%s%s", i ? " " : "", word(i));
    return word != NULL;
}

static bool has_values(const struct pare_opt *o)
{
    bool found = o->choices != NULL;

    for (size_t i = 0; i < sizeof(named) / sizeof(*named); i++)
        found |= !strcmp(named[i].option, o->name);
    return found;
}

static void put_commands(FILE *f)
{
    for (int i = 0; pare_commands[i]; i++)
        fprintf(f, "%s%s", i ? " " : "", pare_commands[i]->name);
}

static void put_words(FILE *f, const struct pare_command *cmd)
{
    for (int i = 0; cmd->word && cmd->word(i); i++)
        fprintf(f, "%s%s", i ? " " : "", cmd->word(i));
}

/* ---- bash ---------------------------------------------------------------------------------- */

static void bash_option(const struct pare_option_at *at, void *user)
{
    FILE *f = user;
    char name[PARE_OPTION_TEXT];

    if (at->same)
        return;
    pare_option_dashed(at->o, name, sizeof(name));
    fprintf(f, " --%s", name);
    if (at->o->type == PARE_OPT_BOOL && at->o->def != 0)
        fprintf(f, " --no-%s", name);
    if (pare_cli_letter(at->o->name))
        fprintf(f, " -%c", pare_cli_letter(at->o->name));
}

struct values {
    FILE *f;
    const char *command;
};

/* What may follow --option, of those that take something. */
static void bash_values(const struct pare_option_at *at, void *user)
{
    const struct values *v = user;
    char name[PARE_OPTION_TEXT];

    if (at->same || !has_values(at->o))
        return;
    fprintf(v->f, "    %s:--%s) words=\"", v->command,
            pare_option_dashed(at->o, name, sizeof(name)));
    put_values(v->f, at->o);
    fputs("\" ;;\n", v->f);
}

static int print_bash(FILE *f, struct pare_arena *a, struct pare_err *err)
{
    fputs("# bash completion of pare; made by 'pare help --completion bash'\n"
          "_pare()\n{\n    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
          "    local command=${COMP_WORDS[1]} words=\"\" options=\"\" first=\"\"\n\n"
          "    [ \"$cur\" != = ] || cur=\"\"\n"
          "    [ \"$prev\" != = ] || prev=${COMP_WORDS[COMP_CWORD-2]}\n"
          "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n        words=\"",
          f);
    put_commands(f);
    fputs(" --help --version\"\n        COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
          "        return\n    fi\n    case $command:$prev in\n",
          f);
    for (int i = 0; pare_commands[i]; i++) {
        struct values v = { f, pare_commands[i]->name };

        PARE_TRY(pare_options_each(pare_commands[i], a, bash_values, &v, err));
    }
    fputs("    esac\n    if [ -n \"$words\" ]; then\n"
          "        COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n        return\n    fi\n"
          "    case $command in\n",
          f);
    for (int i = 0; pare_commands[i]; i++) {
        fprintf(f, "    %s)\n        options=\"--help -h", pare_commands[i]->name);
        PARE_TRY(pare_options_each(pare_commands[i], a, bash_option, f, err));
        fputs("\"\n        first=\"", f);
        put_words(f, pare_commands[i]);
        fputs("\" ;;\n", f);
    }
    fputs(
        "    esac\n    case $cur in\n"
        "    -*) COMPREPLY=($(compgen -W \"$options\" -- \"$cur\")) ;;\n"
        "    *) [ \"$COMP_CWORD\" -eq 2 ] && COMPREPLY=($(compgen -W \"$first\" -- \"$cur\")) ;;\n"
        "    esac\n}\ncomplete -o default -F _pare pare\n",
        f);
    return 0;
}

/* ---- zsh ------------------------------------------------------------------------------------- */

/* Inside '...[...]': what would end it, or begin something else, is taken out. */
static void zsh_text(FILE *f, const char *s)
{
    for (; *s; s++)
        if (*s == '\'')
            fputs("'\\''", f);
        else if (strchr("[]:\\", *s))
            fprintf(f, "\\%c", *s);
        else
            fputc(*s, f);
}

static void zsh_option(const struct pare_option_at *at, void *user)
{
    FILE *f = user;
    const struct pare_opt *o = at->o;
    char name[PARE_OPTION_TEXT];
    bool flag = o->type == PARE_OPT_BOOL;

    if (at->same)
        return;
    pare_option_dashed(o, name, sizeof(name));
    if (pare_cli_letter(o->name))
        fprintf(f, " \\\n            '-%c[%s%s]%s'", pare_cli_letter(o->name), "as --", name,
                flag ? "" : ":value:_files");
    fprintf(f, " \\\n            '%s--%s%s[", o->type == PARE_OPT_STRS ? "*" : "", name,
            flag ? "" : "=");
    zsh_text(f, o->help);
    fputc(']', f);
    if (has_values(o)) {
        fputs(":value:(", f);
        put_values(f, o);
        fputc(')', f);
    } else if (o->type == PARE_OPT_STR || o->type == PARE_OPT_STRS) {
        fputs(":value:_files", f);
    } else if (!flag) {
        fputs(":number: ", f);
    }
    fputc('\'', f);
    if (flag && o->def != 0)
        fprintf(f, " \\\n            '--no-%s[the opposite]'", name);
}

static int print_zsh(FILE *f, struct pare_arena *a, struct pare_err *err)
{
    fputs("#compdef pare\n# zsh completion of pare; made by 'pare help --completion zsh'\n"
          "_pare()\n{\n    local -a commands\n\n    commands=(\n",
          f);
    for (int i = 0; pare_commands[i]; i++) {
        fprintf(f, "        '%s:", pare_commands[i]->name);
        zsh_text(f, pare_commands[i]->doc);
        fputs("'\n", f);
    }
    fputs("    )\n    if (( CURRENT == 2 )); then\n        _describe command commands\n"
          "        return\n    fi\n    shift words\n    (( CURRENT-- ))\n    case $words[1] in\n",
          f);
    for (int i = 0; pare_commands[i]; i++) {
        const struct pare_command *cmd = pare_commands[i];

        fprintf(f, "    %s)\n        _arguments \\\n            '(- *)'{-h,--help}'[print help]'",
                cmd->name);
        PARE_TRY(pare_options_each(cmd, a, zsh_option, f, err));
        if (cmd->word) {
            fputs(" \\\n            '1:what:(", f);
            put_words(f, cmd);
            fputs(")'", f);
        }
        fputs(" \\\n            '*:file:_files'\n        ;;\n", f);
    }
    fputs("    esac\n}\n\nif [ \"$funcstack[1]\" = \"_pare\" ]; then\n    _pare \"$@\"\nelse\n"
          "    compdef _pare pare\nfi\n",
          f);
    return 0;
}

int pare_completion_print(FILE *f, const char *shell, struct pare_arena *a, struct pare_err *err)
{
    return strcmp(shell, "zsh") ? print_bash(f, a, err) : print_zsh(f, a, err);
}
