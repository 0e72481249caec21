/* config.c - read a config_list: JSON, or rules of a C program. */
#include "config.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "../base/arena.h"
#include "../base/json.h"
#include "../base/regex.h"
#include "../io/file.h"
#include "../base/option_groups.h"

#define MAX_NAMES 256 /* candidates for "did you mean" */

static const char *const selectors[] = { "op_types", "op_names", "exclude" };

#define N_SELECTORS ((int)(sizeof(selectors) / sizeof(*selectors)))

static int is(const struct pare_json *v, const char *wanted, struct pare_err *err)
{
    return pare_fail(err, PARE_ECONFIG, "'%.100s' is %s, must be %s", v->key,
                     pare_json_kind_name(v->kind), wanted);
}

/* ---- checks of entries from JSON and from C ------------------------------------------------- */

static int check_names(const struct pare_strs *names, struct pare_err *err)
{
    for (int i = 0; i < names->n; i++)
        if (!strncmp(names->v[i], "re:", 3))
            PARE_TRY(pare_regex_check(names->v[i] + 3, err));
    return 0;
}

/* `what` is the word for messages: "entry" or "rule". */
static int check_selectors(const struct pare_entry *e, const char *what, struct pare_err *err)
{
    char hint[160] = "";

    if (e->op_types.n > 0 || e->op_names.n > 0)
        return check_names(&e->op_names, err);
    for (int i = 0; i < e->n_set; i++) {
        const char *near = pare_nearest(e->set[i].name, selectors, N_SELECTORS - 1);

        if (near)
            snprintf(hint, sizeof(hint), " (is '%.60s' meant to be '%s'?)", e->set[i].name, near);
    }
    return pare_fail(err, PARE_ECONFIG,
                     "has neither op_types nor op_names, so the %s matches no layer%s", what, hint);
}

/* Other versions of NNI have more selectors, which are an error here and not settings. */
static int check_key(const char *key, struct pare_err *err)
{
    const char *near;
    char hint[128] = "";

    if (!*key)
        return pare_fail(err, PARE_ECONFIG, "has a key without a name");
    if (strncmp(key, "op_", 3) != 0 && strncmp(key, "exclude_", 8) != 0)
        return 0;
    near = pare_nearest(key, selectors, N_SELECTORS);
    if (near)
        snprintf(hint, sizeof(hint), " (did you mean '%s'?)", near);
    return pare_fail(err, PARE_ECONFIG,
                     "'%.100s' is not a selector; use op_types, op_names (names, or \"re:\" and "
                     "a pattern) and exclude%s",
                     key, hint);
}

/* ---- from JSON ------------------------------------------------------------------------------- */

static int read_texts(struct pare_arena *a, const struct pare_json *v, struct pare_strs *s,
                      struct pare_err *err)
{
    const char **list = pare_alloc(a, (size_t)v->n, sizeof(*list));

    if (v->kind == PARE_JSON_STR)
        return pare_fail(err, PARE_ECONFIG, "'%s' is a text, must be a list of texts: [\"%.100s\"]",
                         v->key, v->str);
    if (v->kind != PARE_JSON_LIST)
        return is(v, "a list of texts", err);
    if (!v->n)
        return pare_fail(err, PARE_ECONFIG, "'%s' is an empty list, which would match no layer",
                         v->key);
    if (!list)
        return pare_no_memory(err, "for the config");
    for (int i = 0; i < v->n; i++) {
        if (v->item[i].kind != PARE_JSON_STR)
            return pare_fail(err, PARE_ECONFIG, "'%s' has %s in it, must be a list of texts",
                             v->key, pare_json_kind_name(v->item[i].kind));
        list[i] = v->item[i].str;
    }
    *s = (struct pare_strs){ list, v->n };
    return 0;
}

/* Whole numbers, numbers or texts. */
static int read_list(struct pare_arena *a, const struct pare_json *v, struct pare_setting *s,
                     struct pare_err *err)
{
    int64_t *whole = pare_alloc(a, (size_t)v->n, sizeof(*whole));
    double *num = pare_alloc(a, (size_t)v->n, sizeof(*num));
    bool real = false;

    if (!whole || !num)
        return pare_no_memory(err, "for the config");
    if (!v->n)
        return pare_fail(err, PARE_ECONFIG, "'%.100s' is an empty list, must have a value", v->key);
    if (v->item[0].kind == PARE_JSON_STR) {
        s->type = PARE_OPT_STRS;
        return read_texts(a, v, &s->strs, err);
    }
    for (int i = 0; i < v->n; i++) {
        const struct pare_json *x = &v->item[i];

        if (x->kind != PARE_JSON_INT && x->kind != PARE_JSON_REAL)
            return pare_fail(err, PARE_ECONFIG,
                             "'%.100s' has %s in it, must be a list of numbers or of texts", v->key,
                             pare_json_kind_name(x->kind));
        whole[i] = x->whole;
        num[i] = x->num;
        real |= x->kind == PARE_JSON_REAL;
    }
    s->type = real ? PARE_OPT_FLOATS : PARE_OPT_INTS;
    s->ints = (struct pare_ints){ whole, v->n };
    s->floats = (struct pare_floats){ num, v->n };
    return 0;
}

static int read_setting(struct pare_arena *a, const struct pare_json *v, struct pare_setting *s,
                        struct pare_err *err)
{
    *s = (struct pare_setting){ .name = v->key, .num = v->num, .whole = v->whole, .str = v->str };
    switch (v->kind) {
    case PARE_JSON_BOOL:
        s->type = PARE_OPT_BOOL;
        s->num = v->yes;
        return 0;
    case PARE_JSON_INT: s->type = PARE_OPT_INT; return 0;
    case PARE_JSON_REAL: s->type = PARE_OPT_FLOAT; return 0;
    case PARE_JSON_STR: s->type = PARE_OPT_STR; return 0;
    case PARE_JSON_LIST: return read_list(a, v, s, err);
    default: return is(v, "a number, a text, true or false, or a list of them", err);
    }
}

/* {"weight": 8, "output": 4} under the key quant_bits: quant_bits.weight, quant_bits.output. */
static int read_members(struct pare_arena *a, const struct pare_json *v, struct pare_entry *e,
                        struct pare_err *err)
{
    if (!v->n)
        return pare_fail(err, PARE_ECONFIG, "'%.100s' is an empty object, must have a member",
                         v->key);
    for (int i = 0; i < v->n; i++) {
        struct pare_json m = v->item[i];

        if (m.kind == PARE_JSON_LIST || m.kind == PARE_JSON_OBJECT)
            return pare_fail(err, PARE_ECONFIG,
                             "'%.100s' is nested too deep: its member '%.100s' is %s, must be a "
                             "number or a text",
                             v->key, m.key, pare_json_kind_name(m.kind));
        m.key = pare_sprintf(a, "%s.%s", v->key, m.key);
        if (!m.key)
            return pare_no_memory(err, "for the config");
        PARE_TRY(read_setting(a, &m, &e->set[e->n_set++], err));
    }
    return 0;
}

static int read_key(struct pare_arena *a, const struct pare_json *v, struct pare_entry *e,
                    struct pare_err *err)
{
    if (!strcmp(v->key, "op_types"))
        return read_texts(a, v, &e->op_types, err);
    if (!strcmp(v->key, "op_names"))
        return read_texts(a, v, &e->op_names, err);
    if (!strcmp(v->key, "exclude")) {
        e->exclude = v->yes;
        return v->kind == PARE_JSON_BOOL ? 0 : is(v, "true or false", err);
    }
    PARE_TRY(check_key(v->key, err));
    if (v->kind == PARE_JSON_OBJECT)
        return read_members(a, v, e, err);
    return read_setting(a, v, &e->set[e->n_set++], err);
}

/* {"a.b": 1, "a": {"b": 2}} gives a setting twice. */
static int check_twice(const struct pare_entry *e, struct pare_err *err)
{
    for (int i = 0; i < e->n_set; i++)
        for (int k = 0; k < i; k++)
            if (!strcmp(e->set[i].name, e->set[k].name))
                return pare_fail(err, PARE_ECONFIG, "'%.100s' is given twice", e->set[i].name);
    return 0;
}

static int read_entry(struct pare_arena *a, const struct pare_json *v, struct pare_entry *e,
                      struct pare_err *err)
{
    int n = 0;

    e->op_types.n = e->op_names.n = -1;
    if (v->kind != PARE_JSON_OBJECT)
        return pare_fail(err, PARE_ECONFIG, "is %s, must be an object {\"key\": value, ...}",
                         pare_json_kind_name(v->kind));
    for (int i = 0; i < v->n; i++)
        n += v->item[i].kind == PARE_JSON_OBJECT ? v->item[i].n : 1;
    if (n > PARE_CONFIG_KEYS)
        return pare_fail(err, PARE_ELIMIT, "has %d keys, at most %d are handled", n,
                         PARE_CONFIG_KEYS);
    e->set = pare_alloc(a, (size_t)n, sizeof(*e->set));
    if (!e->set)
        return pare_no_memory(err, "for the config");
    for (int i = 0; i < v->n; i++)
        PARE_TRY(read_key(a, &v->item[i], e, err));
    PARE_TRY(check_twice(e, err));
    return check_selectors(e, "entry", err);
}

static int read_entries(struct pare_arena *a, const char *text, size_t len, struct pare_config *c,
                        struct pare_err *err)
{
    struct pare_json root;

    *c = (struct pare_config){ 0 };
    if (len > PARE_CONFIG_BYTES)
        return pare_fail(err, PARE_ELIMIT, "a config_list of %zu bytes, at most %d are handled",
                         len, PARE_CONFIG_BYTES);
    PARE_TRY(pare_json_parse(a, text, len, &root, err));
    if (root.kind != PARE_JSON_LIST)
        return pare_fail(err, PARE_ECONFIG, "a config_list is a list of objects, this is %s%s",
                         pare_json_kind_name(root.kind),
                         root.kind == PARE_JSON_OBJECT ? ": put it in [ ]" : "");
    if (!root.n)
        return pare_fail(err, PARE_ECONFIG, "the config_list is empty, must have an entry");
    c->entry = pare_alloc(a, (size_t)root.n, sizeof(*c->entry));
    if (!c->entry)
        return pare_no_memory(err, "for the config");
    for (c->n = 0; c->n < root.n; c->n++) {
        struct pare_entry *e = &c->entry[c->n];

        snprintf(e->where, sizeof(e->where), "entry %d (line %d)", c->n + 1, root.item[c->n].line);
        PARE_TRY(pare_at(err, read_entry(a, &root.item[c->n], e, err), "%s", e->where));
    }
    return 0;
}

int pare_config_parse(struct pare_arena *a, const char *text, const char *file,
                      struct pare_config *c, struct pare_err *err)
{
    return pare_at(err, read_entries(a, text, strlen(text), c, err), "%s", file ? file : "config");
}

int pare_config_read(struct pare_arena *a, const char *spec, struct pare_config *c,
                     struct pare_err *err)
{
    const char *p = spec;
    const void *data;
    size_t len;

    while (isspace((unsigned char)*p))
        p++;
    if (*p == '[' || *p == '{')
        return pare_config_parse(a, spec, NULL, c, err);
    PARE_TRY(pare_at(err, pare_file_read_most(a, spec, PARE_CONFIG_BYTES, &data, &len, err), "%s",
                     spec));
    return pare_at(err, read_entries(a, data, len, c, err), "%s", spec);
}

/* ---- from C ---------------------------------------------------------------------------------- */

static int copy_texts(struct pare_arena *a, const char *const *list, const char *what,
                      struct pare_strs *s, struct pare_err *err)
{
    const char **copy;

    s->n = -1;
    if (!list)
        return 0;
    for (s->n = 0; list[s->n];)
        s->n++;
    if (!s->n)
        return pare_fail(err, PARE_ECONFIG, "%s is an empty list, which would match no layer",
                         what);
    copy = pare_alloc(a, (size_t)s->n, sizeof(*copy));
    if (!copy)
        return pare_no_memory(err, "for the config");
    for (int i = 0; i < s->n; i++)
        if (!(copy[i] = pare_strdup(a, list[i])))
            return pare_no_memory(err, "for the config");
    s->v = copy;
    return 0;
}

static int read_rule(struct pare_arena *a, const struct pare_rule *r, struct pare_entry *e,
                     struct pare_err *err)
{
    struct pare_given *given;
    int n;

    e->exclude = r->exclude;
    e->text = true;
    PARE_TRY(copy_texts(a, r->op_types, "op_types", &e->op_types, err));
    PARE_TRY(copy_texts(a, r->op_names, "op_names", &e->op_names, err));
    PARE_TRY(pare_given_split(r->keys, a, &given, &n, err));
    if (n > PARE_CONFIG_KEYS)
        return pare_fail(err, PARE_ELIMIT, "has %d keys, at most %d are handled", n,
                         PARE_CONFIG_KEYS);
    e->set = pare_alloc(a, (size_t)n, sizeof(*e->set));
    if (!e->set)
        return pare_no_memory(err, "for the config");
    for (e->n_set = 0; e->n_set < n; e->n_set++) {
        const struct pare_given *g = &given[e->n_set];

        PARE_TRY(check_key(g->name, err));
        e->set[e->n_set] = (struct pare_setting){ .name = g->name,
                                                  .type = PARE_OPT_STR,
                                                  .str = g->text };
    }
    PARE_TRY(check_twice(e, err));
    return check_selectors(e, "rule", err);
}

int pare_config_rules(struct pare_arena *a, const struct pare_rule *rule, int n,
                      struct pare_config *c, struct pare_err *err)
{
    *c = (struct pare_config){ 0 };
    if (n < 1)
        return pare_fail(err, PARE_ECONFIG, "rules are missing, expected at least one");
    c->entry = pare_alloc(a, (size_t)n, sizeof(*c->entry));
    if (!c->entry)
        return pare_no_memory(err, "for the config");
    for (c->n = 0; c->n < n; c->n++) {
        struct pare_entry *e = &c->entry[c->n];

        snprintf(e->where, sizeof(e->where), "rule %d", c->n + 1);
        PARE_TRY(pare_at(err, read_rule(a, &rule[c->n], e, err), "%s", e->where));
    }
    return 0;
}

/* ---- into structs ---------------------------------------------------------------------------- */

static int unknown_key(const struct pare_opt *const *tables, int n_tables, const char *key,
                       struct pare_err *err)
{
    const char *names[MAX_NAMES], *near;
    char hint[128] = "";
    int n = 0;

    for (; n < N_SELECTORS; n++)
        names[n] = selectors[n];
    for (int k = 0; k < n_tables; k++)
        for (const struct pare_opt *o = tables[k]; o && o->name && n < MAX_NAMES; o++)
            names[n++] = o->name;
    near = pare_nearest(key, names, n);
    if (near)
        snprintf(hint, sizeof(hint), " (did you mean '%s'?)", near);
    return pare_fail(err, PARE_ECONFIG, "unknown key '%.100s'%s", key, hint);
}

/* Convert a setting to the type of the option.  In JSON, true is not a number and 1 is not true. */
static int convert(const struct pare_entry *e, const struct pare_setting *s,
                   const struct pare_opt *o, struct pare_setting *to, struct pare_arena *a,
                   struct pare_err *err)
{
    if (e->text)
        return pare_opt_parse(o, s->str, to, a, err);
    *to = *s;
    if (s->type == PARE_OPT_BOOL && o->type != PARE_OPT_BOOL)
        return pare_fail(err, PARE_ECONFIG, "option '%s' is %s, must be %s", o->name,
                         s->num != 0 ? "true" : "false",
                         o->type == PARE_OPT_STR ? "a text" : "a number");
    if (s->type != PARE_OPT_BOOL && o->type == PARE_OPT_BOOL)
        return pare_fail(err, PARE_ECONFIG, "option '%s' must be true or false", o->name);
    return 0;
}

static int apply(const struct pare_entry *e, const struct pare_opt *table, void *into,
                 struct pare_arena *a, struct pare_err *err)
{
    struct pare_setting *set = pare_alloc(a, (size_t)e->n_set, sizeof(*set));
    int n = 0;

    if (!set)
        return pare_no_memory(err, "for the config");
    for (int i = 0; i < e->n_set; i++) {
        const struct pare_opt *o = pare_opt_find(table, e->set[i].name);

        if (o)
            PARE_TRY(convert(e, &e->set[i], o, &set[n++], a, err));
    }
    return pare_opts_apply(table, set, n, into, a, err);
}

int pare_entry_apply(const struct pare_entry *e, const struct pare_opt *const *tables,
                     void *const *into, int n_tables, struct pare_arena *a, struct pare_err *err)
{
    int rc = 0;

    for (int i = 0; !rc && i < e->n_set; i++) {
        int k = 0;

        while (k < n_tables && !pare_opt_find(tables[k], e->set[i].name))
            k++;
        if (k == n_tables)
            rc = unknown_key(tables, n_tables, e->set[i].name, err);
    }
    for (int k = 0; !rc && k < n_tables; k++)
        rc = apply(e, tables[k], into[k], a, err);
    return pare_at(err, rc, "%s", e->where);
}
