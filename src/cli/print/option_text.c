/* option_text.c - option rows as text, for help, manual pages, completion and reference. */
#include "option_text.h"

#include <string.h>

static const char *const value_text[] = {
    [PARE_OPT_BOOL] = "",     [PARE_OPT_INT] = "N",        [PARE_OPT_FLOAT] = "X",
    [PARE_OPT_STR] = "TEXT",  [PARE_OPT_INTS] = "N,N,...", [PARE_OPT_FLOATS] = "X,X,...",
    [PARE_OPT_STRS] = "TEXT",
};

/* Placeholder for the option's value: "FILE", "N"; "" for a flag. */
static const char *metavar(const struct pare_opt *o)
{
    if (o->metavar)
        return o->metavar;
    return o->type == PARE_OPT_STR && o->choices ? "NAME" : value_text[o->type];
}

static const char *const type_text[] = {
    [PARE_OPT_BOOL] = "bool",  [PARE_OPT_INT] = "int",       [PARE_OPT_FLOAT] = "float",
    [PARE_OPT_STR] = "text",   [PARE_OPT_INTS] = "ints",     [PARE_OPT_FLOATS] = "floats",
    [PARE_OPT_STRS] = "texts", [PARE_OPT_TENSOR] = "tensor", [PARE_OPT_GRAPH] = "graph",
};

const char *pare_option_type(const struct pare_opt *o)
{
    return type_text[o->type];
}

const char *pare_option_dashed(const struct pare_opt *o, char *buf, size_t size)
{
    snprintf(buf, size, "%s", o->name);
    for (char *s = buf; *s; s++)
        *s = *s == '_' ? '-' : *s;
    return buf;
}

const char *pare_option_name(const struct pare_opt *o, char *buf, size_t size)
{
    bool switchable = o->type == PARE_OPT_BOOL && o->def != 0;
    char name[PARE_OPTION_TEXT];

    snprintf(buf, size, "--%s%s%s%s", switchable ? "[no-]" : "",
             pare_option_dashed(o, name, sizeof(name)), *metavar(o) ? " " : "", metavar(o));
    return buf;
}

/* Limits that only keep a number within an int are not mentioned. */
const char *pare_option_range(const struct pare_opt *o, char *buf, size_t size)
{
    bool low = o->min > -1e9, high = o->max < 1e9;
    bool number = o->type == PARE_OPT_INT || o->type == PARE_OPT_FLOAT ||
                  o->type == PARE_OPT_INTS || o->type == PARE_OPT_FLOATS;

    buf[0] = '\0';
    if (number && low && high)
        snprintf(buf, size, "%.10g to %.10g", o->min, o->max);
    else if (number && low)
        snprintf(buf, size, "at least %.10g", o->min);
    else if (number && high)
        snprintf(buf, size, "at most %.10g", o->max);
    else if (o->choices)
        snprintf(buf, size, "%s", o->choices);
    return buf;
}

/* A default outside the range stands for "not given". */
const char *pare_option_default(const struct pare_opt *o, char *buf, size_t size)
{
    bool number = o->type == PARE_OPT_INT || o->type == PARE_OPT_FLOAT;

    buf[0] = '\0';
    if (o->required)
        snprintf(buf, size, "required");
    else if (number && o->def >= o->min && o->def <= o->max)
        snprintf(buf, size, "%.10g", o->def);
    else if (o->type == PARE_OPT_BOOL)
        snprintf(buf, size, "%s", o->def != 0 ? "on" : "off");
    else if (o->type == PARE_OPT_STR && o->str)
        snprintf(buf, size, "%s", o->str);
    return buf;
}

/* "a|b|c" as "a, b, c", which can be wrapped. */
static void list_choices(const char *choices, char *buf, size_t size)
{
    size_t at = 0;

    for (const char *s = choices; *s && at + 3 < size; s++)
        if (*s == '|') {
            buf[at++] = ',';
            buf[at++] = ' ';
        } else {
            buf[at++] = *s;
        }
    buf[at] = '\0';
}

/* Append "(range; default: x)" to the help.  If the help ends with its own "(default: x)", the
 * range goes into the same parentheses. */
const char *pare_option_help(const struct pare_opt *o, char *buf, size_t size)
{
    char def[PARE_OPTION_TEXT], range[PARE_OPTION_TEXT];
    const char *d = pare_option_default(o, def, sizeof(def));
    const char *r = pare_option_range(o, range, sizeof(range)), *own = strrchr(o->help, '(');
    size_t n = strlen(o->help);

    if (!strcmp(r, "at least 0"))
        range[0] = '\0';
    if (o->choices)
        list_choices(o->choices, range, sizeof(range));
    if (o->type == PARE_OPT_STRS)
        d = "may be repeated";
    if (o->type == PARE_OPT_BOOL && o->def == 0)
        d = "";
    if (!*d && !*r)
        snprintf(buf, size, "%s", o->help);
    else if (own && !strncmp(own, "(default: ", 10) && o->help[n - 1] == ')')
        snprintf(buf, size, "%.*s(%s%s%s", (int)(own - o->help), o->help,
                 o->type == PARE_OPT_STRS ? d : r, *r || o->type == PARE_OPT_STRS ? "; " : "",
                 own + 1);
    else
        snprintf(buf, size, "%s (%s%s%s%s)", o->help, r, *d && *r ? "; " : "",
                 *d && !o->required && o->type != PARE_OPT_STRS ? "default: " : "", d);
    return buf;
}

/* ---- all options of a command -------------------------------------------------------- */

static bool has_option(const struct pare_opt *opts, const struct pare_opt *end, const char *name)
{
    for (const struct pare_opt *o = opts; o && o->name && o != end; o++)
        if (!strcmp(o->name, name))
            return true;
    return false;
}

int pare_options_each(const struct pare_command *cmd, struct pare_arena *a, pare_option_fn *fn,
                      void *user, struct pare_err *err)
{
    struct pare_option_group *group = NULL;
    int n = 0;

    if (cmd->groups)
        PARE_TRY(cmd->groups(a, &group, &n, err));
    for (const struct pare_opt *o = cmd->opts; o && o->name; o++)
        fn(&(struct pare_option_at){ NULL, o, has_option(cmd->opts, o, o->name) }, user);
    for (const struct pare_opt *o = pare_common_opts(cmd); o->name; o++)
        fn(&(struct pare_option_at){ NULL, o, false }, user);
    for (int i = 0; i < n; i++)
        for (const struct pare_opt *o = group[i].opts; o && o->name; o++) {
            bool same = has_option(cmd->opts, NULL, o->name) ||
                        has_option(group[i].opts, o, o->name);

            for (int k = 0; k < i && !same; k++)
                same = has_option(group[k].opts, NULL, o->name);
            fn(&(struct pare_option_at){ &group[i], o, same }, user);
        }
    return 0;
}
