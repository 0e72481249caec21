/* manual.c - manual pages from the tables, in the language of man(7). */
#include "manual.h"

#include <ctype.h>
#include <string.h>

#include "../view/option_text.h"
#include "../../prune/prune_method.h"
#include "../../quant/quant_method.h"

/* Text as it is: no line of it is an instruction, and a minus stays one that can be copied. */
static void put(FILE *f, const char *s)
{
    bool start = true;

    for (; *s; s++) {
        if (start && (*s == '.' || *s == '\''))
            fputs("\\&", f);
        if (*s == '\\')
            fputs("\\e", f);
        else if (*s == '-')
            fputs("\\-", f);
        else
            fputc(*s, f);
        start = *s == '\n';
    }
}

static void head(FILE *f, const char *name, const char *doc)
{
    fprintf(f, ".TH ");
    for (const char *s = name; *s; s++)
        fputc(toupper((unsigned char)*s), f);
    fprintf(f, " 1 \"\" \"pare %s\" \"Pare\"\n.SH NAME\n", pare_version());
    put(f, name);
    fputs(" \\- ", f);
    for (const char *s = doc; *s; s++) /* one sentence, without its full stop */
        if (*s != '.' || s[1]) {
            char one[2] = { s == doc ? (char)tolower((unsigned char)*s) : *s, 0 };

            put(f, one);
        }
    fputc('\n', f);
}

static void ends(FILE *f)
{
    fputs(".SH EXIT STATUS\n0: done; 1: failed, with one sentence on the standard error that says\n"
          "what was found and what was expected, also when a limit of memory or time was\n"
          "reached; 2: wrong usage.\n",
          f);
}

/* ---- pare(1) -------------------------------------------------------------------------- */

static void entry(FILE *f, const char *name, const char *doc)
{
    fputs(".TP\n.B ", f);
    put(f, name);
    fputc('\n', f);
    put(f, doc);
    fputc('\n', f);
}

void pare_manual_all(FILE *f)
{
    head(f, "pare", "make trained neural networks smaller and faster");
    fputs(".SH SYNOPSIS\n.B pare\n.I command\n.RI [ options ]\n.RI [ files ]\n", f);
    fputs(".SH DESCRIPTION\nReads ONNX models and writes ONNX models: inspected, run, measured,\n"
          "trained, pruned, shrunk, quantized.  Results go to the standard output, everything\n"
          "else to the standard error;\n.B \\-\\-json\nis for scripts.\n",
          f);
    fputs(".SH COMMANDS\n", f);
    for (int i = 0; pare_commands[i]; i++)
        entry(f, pare_commands[i]->name, pare_commands[i]->doc);
    fputs(".SH PRUNERS\n", f);
    for (int i = 0; pare_pruners[i]; i++)
        entry(f, pare_pruners[i]->name, pare_pruners[i]->doc);
    fputs(".SH QUANTIZERS\n", f);
    for (int i = 0; pare_quantizers[i]; i++)
        entry(f, pare_quantizers[i]->name, pare_quantizers[i]->doc);
    fputs(
        ".SH OPTIONS\n.TP\n.B \\-\\-version\nPrint the version.\n.TP\n.BR \\-h \", \" \\-\\-help\n"
        "Print help; after a command, that of the command.\n",
        f);
    ends(f);
    fputs(".SH SEE ALSO\n", f);
    for (int i = 0; pare_commands[i]; i++) {
        fputs(".BR pare\\-", f);
        put(f, pare_commands[i]->name);
        fprintf(f, " (1)%s\n", pare_commands[i + 1] ? "," : "");
    }
}

/* ---- pare-COMMAND(1) -------------------------------------------------------------------- */

struct page {
    FILE *f;
    const struct pare_option_group *part; /* whose options are being listed */
};

static void option(const struct pare_option_at *at, void *user)
{
    struct page *p = user;
    char letter = pare_cli_letter(at->o->name), text[PARE_OPTION_TEXT], *value;

    if (at->part != p->part) {
        fprintf(p->f, ".SS \"");
        put(p->f, at->part->kind);
        if (at->part->name) {
            fputc(' ', p->f);
            put(p->f, at->part->name);
        }
        fputs("\"\n", p->f);
        p->part = at->part;
    }
    pare_option_name(at->o, text, sizeof(text));
    value = strchr(text, ' ');
    if (value)
        *value++ = '\0';
    fputs(".TP\n", p->f);
    if (letter)
        fprintf(p->f, "\\fB\\-%c\\fR, ", letter);
    fputs("\\fB", p->f);
    put(p->f, text);
    fputs("\\fR", p->f);
    if (value) {
        fputs(" \\fI", p->f);
        put(p->f, value);
        fputs("\\fR", p->f);
    }
    fputc('\n', p->f);
    put(p->f, at->o->help);
    put(p->f, pare_option_brackets(at->o, text, sizeof(text)));
    fputc('\n', p->f);
}

int pare_manual_command(FILE *f, const struct pare_command *cmd, struct pare_arena *a,
                        struct pare_err *err)
{
    struct page p = { .f = f };
    char name[64];

    snprintf(name, sizeof(name), "pare-%s", cmd->name);
    head(f, name, cmd->doc);
    fputs(".SH SYNOPSIS\n.B pare ", f);
    put(f, cmd->name);
    fputc('\n', f);
    put(f, cmd->usage);
    fputs("\n.SH DESCRIPTION\n", f);
    put(f, cmd->doc);
    fputc('\n', f);
    if (cmd->more) {
        fputs(".PP\n.nf\n", f);
        put(f, cmd->more);
        fputs("\n.fi\n", f);
    }
    fputs(".SH OPTIONS\n.TP\n\\fB\\-h\\fR, \\fB\\-\\-help\\fR\nprint all options\n", f);
    PARE_TRY(pare_options_each(cmd, a, option, &p, err));
    ends(f);
    fputs(".SH SEE ALSO\n.BR pare (1)\n", f);
    return 0;
}
