/* parse.c - parse a command line, or a step of a recipe, with the command's option tables.
 *
 * --name value, --name=value, and for flags --name and --no-name.  An option that is a list of
 * texts takes one text per occurrence.  "--" ends the options.
 */
#include <string.h>

#include "output_paths.h"
#include "print/option_text.h"
#include "../base/arena.h"
#include "../base/options.h"

static const struct {
    char letter;
    const char *option;
} letters[] = {
    { 'o', "output" },
    { 'v', "verbose" },
    { 'q', "quiet" },
};

char pare_cli_letter(const char *option)
{
    for (size_t i = 0; i < sizeof(letters) / sizeof(*letters); i++)
        if (!strcmp(letters[i].option, option))
            return letters[i].letter;
    return 0;
}

const char *pare_cli_hint(const char *typed, const char *const *names, int n, const char *otherwise,
                          char *buf, size_t size)
{
    const char *best = pare_nearest(typed, names, n);

    if (best)
        snprintf(buf, size, " (did you mean '%s'?)", best);
    else
        snprintf(buf, size, "%s", otherwise);
    return buf;
}

#define MAX_NAMES 256

#define LIMIT_OPTS                                                                           \
    PARE_TEXT("max-memory", offsetof(struct pare_cli, limits.max_memory), "SIZE",            \
              "use at most this much memory, such as 512M or 8G; 0: no limit (default: the " \
              "machine's)",                                                                  \
              NULL),                                                                         \
        PARE_FLOAT("timeout", offsetof(struct pare_cli, limits.timeout),                     \
                   "stop after X seconds; 0: never", 0, 0, PARE_NO_MAX)

const struct pare_opt *pare_common_opts(const struct pare_command *cmd)
{
    static const struct pare_opt none[] = { PARE_OPT_END };
    static const struct pare_opt limits[] = { LIMIT_OPTS, PARE_OPT_END };
    static const struct pare_opt all[] = {
        LIMIT_OPTS,
        PARE_FLAG("keep-training-mode", offsetof(struct pare_cli, keep_training_mode),
                  "keep BatchNormalization and Dropout that were exported in training mode", 0),
        PARE_OPT_END
    };

    return cmd->brief ? none : cmd->no_model ? limits : all;
}

struct parser {
    const struct pare_command *cmd;
    struct pare_cli *c;
    int argc, at;
    char **argv;
    struct pare_setting *set;
    int n_set;
    const char **arg;
    struct pare_option_group *group;
    int n_groups;
    void *into;                     /* the option struct */
    struct pare_setting common[16]; /* options of pare_common_opts */
    int n_common;
    const char *switched, *after; /* a switch before an argument such as 0, and that argument */
    bool keys;                    /* keys of a recipe, not options of a command line */
};

/* Add the names as they are typed, with dashes. */
static int add_names(struct parser *p, const struct pare_opt *opts, const char **names, int n)
{
    for (const struct pare_opt *o = opts; o && o->name && n < MAX_NAMES; o++) {
        char *s = pare_sprintf(p->c->arena, "%s%s", p->keys ? "" : "--", o->name);

        for (char *at = s; at && *at; at++)
            *at = *at == '_' ? '-' : *at;
        names[n] = s;
        n += s != NULL;
    }
    return n;
}

static int unknown_option(struct parser *p, const char *typed, const char *name,
                          struct pare_err *err)
{
    const char *names[MAX_NAMES];
    char hint[PARE_HINT_TEXT], otherwise[64];
    int n = add_names(p, p->cmd->opts, names, 0);

    for (int i = 0; i < p->n_groups; i++)
        n = add_names(p, p->group[i].opts, names, n);
    if (!p->keys)
        n = add_names(p, pare_common_opts(p->cmd), names, n);
    snprintf(otherwise, sizeof(otherwise), "; 'pare help %s%s' lists them", p->cmd->name,
             p->cmd->first ? " --all" : "");
    name = pare_sprintf(p->c->arena, "%s%s", p->keys ? "" : "--", name);
    return pare_misuse(p->c, err, "unknown %s '%s' for '%s'%s", p->keys ? "key" : "option", typed,
                       p->cmd->name,
                       pare_cli_hint(name ? name : typed, names, n, otherwise, hint, sizeof(hint)));
}

/* The setting of this option so far, or a new one. */
static struct pare_setting *setting_of(struct parser *p, const struct pare_opt *o)
{
    for (int i = 0; i < p->n_set; i++)
        if (!strcmp(p->set[i].name, o->name))
            return &p->set[i];
    p->set[p->n_set] = (struct pare_setting){ .name = o->name, .type = o->type };
    return &p->set[p->n_set++];
}

static int add_text(struct parser *p, const struct pare_opt *o, const char *text,
                    struct pare_err *err)
{
    struct pare_setting *s = setting_of(p, o);
    const char **v = pare_alloc(p->c->arena, (size_t)s->strs.n + 1, sizeof(*v));

    if (!v)
        return pare_no_memory(err, "for the options");
    if (s->strs.n)
        memcpy(v, s->strs.v, (size_t)s->strs.n * sizeof(*v));
    v[s->strs.n] = text;
    s->strs = (struct pare_strs){ v, s->strs.n + 1 };
    return 0;
}

/* Find an option that all commands have; NULL: none. */
static const struct pare_opt *common_option(const struct parser *p, const char *name)
{
    return p->keys ? NULL : pare_opt_find(pare_common_opts(p->cmd), name);
}

static int set_common(struct parser *p, const struct pare_opt *o, const char *text,
                      struct pare_err *err)
{
    int i = 0;

    while (i < p->n_common && strcmp(p->common[i].name, o->name))
        i++;
    if (pare_opt_parse(o, text, &p->common[i], p->c->arena, err)) {
        p->c->usage = err->code != PARE_ENOMEM;
        return err->code;
    }
    p->n_common += i == p->n_common;
    return 0;
}

static int set_option(struct parser *p, const struct pare_opt *o, const char *text,
                      struct pare_err *err)
{
    struct pare_setting value;

    if (o->type == PARE_OPT_STRS)
        return add_text(p, o, text, err);
    if (pare_opt_parse(o, text, &value, p->c->arena, err)) {
        p->c->usage = err->code != PARE_ENOMEM;
        return err->code;
    }
    *setting_of(p, o) = value;
    return 0;
}

/* Find an option of the command's groups.  The group is determined later, when it is known which
 * ones are used. */
static const struct pare_opt *group_option(const struct parser *p, const char *name)
{
    const struct pare_opt *o = NULL;

    for (int i = 0; i < p->n_groups && !o; i++)
        o = pare_option_group_find(&p->group[i], name);
    return o;
}

static int store_option(struct parser *p, const struct pare_opt *o, const char *name,
                        const char *text, struct pare_err *err)
{
    if (o->type == PARE_OPT_STR || o->type == PARE_OPT_STRS)
        p->c->texts[p->c->n_texts++] = (struct pare_given){ o->name, text };
    if (pare_opt_find(p->cmd->opts, o->name) == o)
        return set_option(p, o, text, err);
    if (common_option(p, o->name) == o)
        return set_common(p, o, text, err);
    p->c->given[p->c->n_given++] = (struct pare_given){ name, text };
    return 0;
}

static const struct pare_opt *find_option(const struct parser *p, const char *name)
{
    const struct pare_opt *o = pare_opt_find(p->cmd->opts, name);

    o = o ? o : group_option(p, name);
    return o ? o : common_option(p, name);
}

/* "--holdout", which is not the value of the option before it; "--fill=--holdout" is. */
static bool is_option(struct parser *p, const char *text)
{
    const char *name = !strncmp(text, "--", 2)
                           ? pare_strndup(p->c->arena, text + 2, strcspn(text + 2, "="))
                           : NULL;

    return name && *name && find_option(p, name);
}

static bool is_truth_value(const char *s)
{
    return !strcmp(s, "0") || !strcmp(s, "1") || !strcmp(s, "true") || !strcmp(s, "false");
}

/* Parse "name", "name=value" or "no-name", without dashes; `typed` is the original. */
static int parse_option(struct parser *p, const char *typed, const char *text, struct pare_err *err)
{
    size_t len = strcspn(text, "=");
    const char *value = text[len] ? text + len + 1 : NULL;
    const char *name = pare_strndup(p->c->arena, text, len);
    const char *shown = pare_strndup(p->c->arena, typed, strcspn(typed, "="));
    const struct pare_opt *o;

    if (!name || !shown)
        return pare_no_memory(err, "for the options");
    o = find_option(p, name);
    if (!o && !strncmp(name, "no-", 3)) {
        o = find_option(p, name + 3);
        if (o && o->type == PARE_OPT_BOOL && !value)
            return store_option(p, o, name + 3, "false", err);
        o = NULL;
    }
    if (!o)
        return unknown_option(p, shown, name, err);
    if (!value && o->type == PARE_OPT_BOOL) {
        value = "true";
        if (p->at < p->argc && is_truth_value(p->argv[p->at])) {
            p->switched = name;
            p->after = p->argv[p->at];
        }
    }
    if (!value && p->at < p->argc && !is_option(p, p->argv[p->at]))
        value = p->argv[p->at++];
    if (!value)
        return pare_misuse(p->c, err, "option '%s' needs a value", shown);
    return store_option(p, o, name, value, err);
}

static int parse_letter(struct parser *p, const char *typed, struct pare_err *err)
{
    for (size_t i = 0; i < sizeof(letters) / sizeof(*letters); i++)
        if (typed[1] == letters[i].letter && !typed[2] &&
            pare_opt_find(p->cmd->opts, letters[i].option))
            return parse_option(p, typed, letters[i].option, err);
    return unknown_option(p, typed, typed + 1, err);
}

/* The first argument of the usage line that was not given: "MODEL". */
static const char *missing_argument(const struct pare_command *cmd, int given, struct pare_arena *a)
{
    bool value = false; /* the word belongs to the option before it */
    int depth = 0;      /* of brackets */

    for (const char *s = cmd->usage; *s; s += strspn(s, " ")) {
        size_t n = strcspn(s, " ");
        bool optional = depth || *s == '[';

        for (size_t i = 0; i < n; i++)
            depth += (s[i] == '[') - (s[i] == ']');
        if (value || optional || *s == '-')
            value = !optional && *s == '-';
        else if (!given--)
            return pare_strndup(a, s, n);
        s += n;
    }
    return "an argument";
}

/* An argument that must be one of the command's words is checked before options are missed. */
static int check_word(struct parser *p, struct pare_err *err)
{
    const char *names[MAX_NAMES];
    char hint[PARE_HINT_TEXT];
    int n = 0;

    if (!p->cmd->only_words || !p->c->n_args)
        return 0;
    for (; n < MAX_NAMES && p->cmd->word(n); n++) {
        names[n] = p->cmd->word(n);
        if (!strcmp(names[n], p->c->arg[0]))
            return 0;
    }
    return pare_misuse(p->c, err, "unknown %s '%s'%s", p->cmd->only_words, p->c->arg[0],
                       pare_cli_hint(p->c->arg[0], names, n,
                                     pare_sprintf(p->c->arena, "; 'pare list %ss' lists them",
                                                  p->cmd->only_words),
                                     hint, sizeof(hint)));
}

/* The first absent option without which the command cannot work; NULL: none. */
static const struct pare_opt *missing_option(const struct parser *p)
{
    for (const struct pare_opt *o = p->cmd->opts; o && o->name; o++) {
        bool given = false;

        for (int i = 0; i < p->n_set && !given; i++)
            given = !strcmp(p->set[i].name, o->name);
        if (o->required && !given)
            return o;
    }
    return NULL;
}

static int check_required(struct parser *p, struct pare_err *err)
{
    const struct pare_opt *o = missing_option(p);
    char name[PARE_OPTION_TEXT];

    if (!o)
        return 0;
    p->c->incomplete = !p->keys;
    return pare_misuse(p->c, err, "%s is missing: %s",
                       p->keys ? o->name : pare_option_name(o, name, sizeof(name)), o->help);
}

const char *pare_cli_words(const struct pare_command *cmd, struct pare_arena *a)
{
    const char *s = "";

    for (int i = 0; cmd->word(i) && s; i++)
        s = pare_sprintf(a, "%s%s%s", s, !i ? "" : cmd->word(i + 1) ? ", " : " or ", cmd->word(i));
    return s ? s : "";
}

static int check_args(struct parser *p, struct pare_err *err)
{
    const struct pare_command *cmd = p->cmd;
    const struct pare_opt *o = missing_option(p);
    const char *what;
    char name[PARE_OPTION_TEXT];
    int n = p->c->n_args;

    if (n < cmd->min_args) {
        p->c->incomplete = !p->keys;
        what = missing_argument(cmd, n, p->c->arena);
        if (!o && !n && cmd->word && what && !strchr(what, '|'))
            return pare_misuse(p->c, err, "%s is missing: %s", what,
                               pare_cli_words(cmd, p->c->arena));
        return pare_misuse(p->c, err, o ? "%s is missing, and %s: %s" : "%s is missing", what,
                           o ? pare_option_name(o, name, sizeof(name)) : "", o ? o->help : "");
    }
    if (cmd->max_args >= 0 && n > cmd->max_args && p->after)
        return pare_misuse(p->c, err,
                           "unexpected '%s': --%s has no value; --%s switches it on, --no-%s off",
                           p->after, p->switched, p->switched, p->switched);
    if (cmd->max_args >= 0 && n > cmd->max_args)
        return pare_misuse(p->c, err, "unexpected '%s'; usage: pare %s %s",
                           p->c->arg[cmd->max_args], cmd->name, cmd->usage);
    return 0;
}

static int parser_init(struct parser *p, size_t n, struct pare_err *err)
{
    struct pare_cli *c = p->c;

    c->opts = p->into = pare_alloc(c->arena, 1, p->cmd->size);
    p->set = pare_alloc(c->arena, n + 1, sizeof(*p->set));
    p->arg = pare_alloc(c->arena, n + 1, sizeof(*p->arg));
    c->given = pare_alloc(c->arena, n + 1, sizeof(*c->given));
    c->texts = pare_alloc(c->arena, n + 1, sizeof(*c->texts));
    c->cmd = p->cmd;
    if (!p->into || !p->set || !p->arg || !c->given || !c->texts)
        return pare_no_memory(err, "for the options");
    c->arg = p->arg;
    return p->cmd->groups ? p->cmd->groups(c->arena, &p->group, &p->n_groups, err) : 0;
}

static int apply_settings(struct parser *p, struct pare_err *err)
{
    struct pare_cli *c = p->c;

    PARE_TRY(check_word(p, err));
    if (!p->keys)
        PARE_TRY(check_args(p, err));
    PARE_TRY(check_required(p, err));
    c->set = p->set;
    c->n_set = p->n_set;
    if (pare_opts_apply(p->cmd->opts, p->set, p->n_set, p->into, c->arena, err) ||
        pare_opts_apply(pare_common_opts(p->cmd), p->common, p->n_common, c, c->arena, err)) {
        c->usage = err->code != PARE_ENOMEM;
        return err->code;
    }
    PARE_TRY(check_args(p, err));
    return pare_output_paths_check(c, err);
}

int pare_cli_parse(const struct pare_command *cmd, int argc, char **argv, struct pare_cli *c,
                   enum pare_help_wish *help, struct pare_err *err)
{
    struct parser p = { .cmd = cmd, .c = c, .argc = argc, .argv = argv };
    bool options = true;

    PARE_TRY(parser_init(&p, (size_t)argc, err));
    while (p.at < argc) {
        const char *s = argv[p.at++];

        if (!options || s[0] != '-' || !s[1])
            p.arg[c->n_args++] = s;
        else if (!strcmp(s, "--"))
            options = false;
        else if (!strcmp(s, "-h") || !strcmp(s, "--help"))
            *help = *help ? *help : PARE_HELP_SHORT;
        else if (!strcmp(s, "--help-all"))
            *help = PARE_HELP_ALL;
        else if (s[1] == '-')
            PARE_TRY(parse_option(&p, s, s + 2, err));
        else
            PARE_TRY(parse_letter(&p, s, err));
    }
    return *help ? 0 : apply_settings(&p, err);
}

/* In recipes, - and _ are equivalent. */
static const struct pare_opt *find_key(const struct parser *p, const char *name)
{
    const struct pare_opt *o = find_option(p, name);
    char *dashed = o ? NULL : pare_strdup(p->c->arena, name);

    for (char *s = dashed; s && *s; s++)
        *s = *s == '_' ? '-' : *s;
    return dashed ? find_option(p, dashed) : o;
}

bool pare_cli_is_set(const struct pare_cli *c, const char *name)
{
    for (int i = 0; i < c->n_set; i++)
        if (!strcmp(c->set[i].name, name))
            return true;
    return false;
}

int pare_cli_fill(const struct pare_call *k, struct pare_cli *c, struct pare_err *err)
{
    struct parser p = { .cmd = k->cmd, .c = c, .keys = true };

    PARE_TRY(parser_init(&p, (size_t)(k->n_given + k->n_args), err));
    for (int i = 0; i < k->n_given; i++) {
        const struct pare_given *g = &k->given[i];
        const struct pare_opt *o = find_key(&p, g->name);

        if (!o)
            return unknown_option(&p, g->name, g->name, err);
        PARE_TRY(store_option(&p, o, g->name, g->text, err));
    }
    for (int i = 0; i < k->n_args; i++)
        p.arg[c->n_args++] = k->arg[i];
    PARE_TRY(apply_settings(&p, err));
    c->keep_training_mode = k->keep_training_mode;
    return 0;
}

int pare_cli_option(const struct pare_command *cmd, struct pare_arena *a, const char *name,
                    const struct pare_opt **o, struct pare_err *err)
{
    struct parser p = { .cmd = cmd };

    if (cmd->groups)
        PARE_TRY(cmd->groups(a, &p.group, &p.n_groups, err));
    *o = find_option(&p, name);
    return 0;
}
