/* manual.c - manual pages in man(7) format, generated from the option tables. */
#include "manual.h"

#include <ctype.h>
#include <string.h>

#include "../print/option_text.h"
#include "../../prune/prune_method.h"
#include "../../quant/quant_method.h"

/* Print text literally: no line becomes a request, and a minus can be copied. */
static void put_roff(FILE *f, const char *s)
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

static void page_head(FILE *f, const char *name, const char *doc)
{
    fprintf(f, ".TH ");
    for (const char *s = name; *s; s++)
        fputc(toupper((unsigned char)*s), f);
    fprintf(f, " 1 \"\" \"pare %s\" \"Pare\"\n.SH NAME\n", pare_version());
    put_roff(f, name);
    fputs(" \\- ", f);
    for (const char *s = doc; *s; s++) /* without the full stop */
        if (*s != '.' || s[1]) {
            char one[2] = { s == doc ? (char)tolower((unsigned char)*s) : *s, 0 };

            put_roff(f, one);
        }
    fputc('\n', f);
}

static void exit_status(FILE *f)
{
    fputs(".SH EXIT STATUS\n0: success; 1: failure, also when a limit of memory or time was\n"
          "reached, with a message on standard error; 2: usage error.\n",
          f);
}

/* ---- pare(1) -------------------------------------------------------------------------- */

static void entry(FILE *f, const char *name, const char *doc)
{
    fputs(".TP\n.B ", f);
    put_roff(f, name);
    fputc('\n', f);
    put_roff(f, doc);
    fputc('\n', f);
}

void pare_manual_all(FILE *f)
{
    page_head(f, "pare", "make trained neural networks smaller and faster");
    fputs(".SH SYNOPSIS\n.B pare\n.I command\n.RI [ options ]\n.RI [ files ]\n", f);
    fputs(".SH DESCRIPTION\nInspect, run, measure, train, prune, shrink and quantize ONNX models.\n"
          "Results are printed on standard output, messages on standard error;\n"
          ".B \\-\\-json\nprints results for scripts.\n",
          f);
    fputs(".SH COMMANDS\n", f);
    for (int i = 0; pare_commands[i]; i++)
        entry(f, pare_commands[i]->name, pare_commands[i]->doc);
    fputs(".SH PRUNERS\n", f);
    for (int i = 0; pare_pruner_at(i); i++)
        entry(f, pare_pruner_at(i)->name, pare_pruner_at(i)->doc);
    fputs(".SH QUANTIZERS\n", f);
    for (int i = 0; pare_quantizers[i]; i++)
        entry(f, pare_quantizers[i]->name, pare_quantizers[i]->doc);
    fputs(
        ".SH OPTIONS\n.TP\n.B \\-\\-version\nPrint the version.\n.TP\n.BR \\-h \", \" \\-\\-help\n"
        "Print help; after a command, print its help.\n",
        f);
    exit_status(f);
    fputs(".SH SEE ALSO\n", f);
    for (int i = 0; pare_commands[i]; i++) {
        fputs(".BR pare\\-", f);
        put_roff(f, pare_commands[i]->name);
        fprintf(f, " (1)%s\n", pare_commands[i + 1] ? "," : "");
    }
}

/* ---- pare-COMMAND(1) -------------------------------------------------------------------- */

struct page {
    FILE *f;
    const struct pare_option_group *group; /* of the option printed last */
};

static void print_option(const struct pare_option_at *at, void *user)
{
    struct page *p = user;
    char letter = pare_cli_letter(at->o->name), text[PARE_OPTION_TEXT], *value;

    if (at->group != p->group) {
        fprintf(p->f, ".SS \"");
        put_roff(p->f, at->group->kind);
        if (at->group->name) {
            fputc(' ', p->f);
            put_roff(p->f, at->group->name);
        }
        fputs("\"\n", p->f);
        p->group = at->group;
    }
    pare_option_name(at->o, text, sizeof(text));
    value = strchr(text, ' ');
    if (value)
        *value++ = '\0';
    fputs(".TP\n", p->f);
    if (letter)
        fprintf(p->f, "\\fB\\-%c\\fR, ", letter);
    fputs("\\fB", p->f);
    put_roff(p->f, text);
    fputs("\\fR", p->f);
    if (value) {
        fputs(" \\fI", p->f);
        put_roff(p->f, value);
        fputs("\\fR", p->f);
    }
    fputc('\n', p->f);
    put_roff(p->f, pare_option_help(at->o, text, sizeof(text)));
    fputc('\n', p->f);
}

int pare_manual_command(FILE *f, const struct pare_command *cmd, struct pare_arena *a,
                        struct pare_err *err)
{
    struct page p = { .f = f };
    char name[64];

    snprintf(name, sizeof(name), "pare-%s", cmd->name);
    page_head(f, name, cmd->doc);
    fputs(".SH SYNOPSIS\n.B pare ", f);
    put_roff(f, cmd->name);
    fputc('\n', f);
    put_roff(f, cmd->usage);
    fputs("\n.SH DESCRIPTION\n", f);
    put_roff(f, cmd->doc);
    fputc('\n', f);
    if (cmd->more) {
        fputs(".PP\n.nf\n", f);
        put_roff(f, cmd->more);
        fputs("\n.fi\n", f);
    }
    if (cmd->example) {
        fputs(".SH EXAMPLES\n.nf\n", f);
        put_roff(f, cmd->example);
        fputs("\n.fi\n", f);
    }
    fputs(".SH OPTIONS\n.TP\n\\fB\\-h\\fR, \\fB\\-\\-help\\fR\nprint the help\n", f);
    if (cmd->first)
        fputs(".TP\n\\fB\\-\\-help\\-all\\fR\nprint the help with all options\n", f);
    PARE_TRY(pare_options_each(cmd, a, print_option, &p, err));
    exit_status(f);
    fputs(".SH SEE ALSO\n.BR pare (1)\n", f);
    return 0;
}
