/* table_columns.c - columns of a table by name; labels as numbers or classes. */
#include "table_columns.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "../base/arena.h"
#include "../base/options.h"
#include "../tensor/tensor.h"

#define MOST_CLASSES 65536

/* ---- columns --------------------------------------------------------------------------------- */

static int no_column(const struct pare_csv *c, const char *option, const char *name,
                     struct pare_err *err)
{
    const char *near = pare_nearest(name, c->name, c->n_names);

    if (near)
        return pare_fail(err, PARE_ECONFIG,
                         "option '%s': there is no column '%s' (did you mean '%s'?)", option, name,
                         near);
    return pare_fail(err, PARE_ECONFIG, "option '%s': there is no column '%s'; the first is '%s'",
                     option, name, c->name[0]);
}

int pare_table_named(struct pare_data *d, const struct pare_csv *c, const char *option,
                     const char *names, struct pare_columns *to, struct pare_err *err)
{
    char *list = pare_strdup(d->parts->tmp, names), *save = NULL;
    int exact = pare_csv_find(c, names);

    to->n = 0;
    to->at = pare_alloc(d->parts->tmp, (size_t)c->n_names, sizeof(*to->at));
    if (!list || !to->at)
        return pare_no_memory(err, "for a table");
    if (exact >= 0) /* a name that may contain commas */
        to->at[to->n++] = exact;
    for (char *s = strtok_r(list, ",", &save); s && exact < 0; s = strtok_r(NULL, ",", &save)) {
        int k = pare_csv_find(c, s + strspn(s, " "));

        if (k < 0)
            return no_column(c, option, s, err);
        for (int i = 0; i < to->n; i++)
            if (to->at[i] == k)
                return pare_fail(err, PARE_ECONFIG, "option '%s' names column '%s' twice", option,
                                 s);
        to->at[to->n++] = k;
    }
    return 0;
}

static bool names_input(const struct pare_data *d, const char *name)
{
    for (int k = 0; k < d->parts->n_io; k++)
        if (!strcasecmp(d->parts->io[k].name, name))
            return true;
    return false;
}

int pare_table_labels(struct pare_data *d, const struct pare_csv *c, bool inputs,
                      struct pare_columns *to, struct pare_err *err)
{
    static const char *const usual[] = { "label", "labels", "target", "targets", "class", "y" };
    const char *found = NULL;

    *to = (struct pare_columns){ NULL, 0 };
    if (d->opts.label)
        return pare_table_named(d, c, "label", d->opts.label, to, err);
    for (size_t i = 0; i < sizeof(usual) / sizeof(*usual); i++) {
        if (pare_csv_find(c, usual[i]) < 0 || (inputs && names_input(d, usual[i])))
            continue;
        if (found)
            return pare_fail(err, PARE_ECONFIG,
                             "both column '%s' and column '%s' could be the label: --label names "
                             "it",
                             found, usual[i]);
        found = usual[i];
    }
    return found ? pare_table_named(d, c, "label", found, to, err) : 0;
}

static bool is_missing(const char *s)
{
    static const char *const list[] = { "", "na", "n/a", "nan", "null", "none", "?" };

    for (size_t i = 0; i < sizeof(list) / sizeof(*list); i++)
        if (!strcasecmp(s, list[i]))
            return true;
    return false;
}

int pare_table_number(const struct pare_csv *c, int column, double *v, struct pare_err *err)
{
    const char *s = c->cell[column] + strspn(c->cell[column], " \t");
    char *end;

    *v = strtod(s, &end);
    end += strspn(end, " \t");
    if (*s && !*end && isfinite(*v))
        return 0;
    if (is_missing(s))
        return pare_fail(err, PARE_EFORMAT,
                         "line %lld: column '%s' has no value: fill it in, remove the line, or "
                         "select other columns (--columns)",
                         (long long)c->line, c->name[column]);
    return pare_fail(err, PARE_EFORMAT,
                     "line %lld: column '%s' is '%.40s', expected a number; --columns selects the "
                     "columns to use, --label that of the labels",
                     (long long)c->line, c->name[column], s);
}

/* ---- labels ---------------------------------------------------------------------------------- */

static bool is_whole(const char *s)
{
    s += strspn(s, " \t");
    s += *s == '-' || *s == '+';
    return *s && !s[strspn(s, "0123456789")];
}

static int add_text(struct pare_label_rows *l, const char *text, struct pare_err *err)
{
    l->text = pare_grow(l->arena, l->text, l->n, &l->text_cap, sizeof(*l->text));
    if (!l->text || !(l->text[l->n] = pare_strdup(l->arena, text + strspn(text, " \t"))))
        return pare_no_memory(err, "for labels");
    return 0;
}

int pare_label_rows_add(struct pare_label_rows *l, const struct pare_csv *c, struct pare_err *err)
{
    int k = l->column.n;
    double *row;

    if (!k)
        return 0;
    if (!l->n)
        l->numbers = l->whole = true;
    l->value = pare_grow(l->arena, l->value, l->n, &l->value_cap, (size_t)k * sizeof(*l->value));
    if (!l->value)
        return pare_no_memory(err, "for labels");
    row = l->value + (size_t)l->n * (size_t)k;
    for (int i = 0; i < k; i++) {
        const char *text = c->cell[l->column.at[i]];

        if (l->numbers && pare_table_number(c, l->column.at[i], &row[i], &l->why)) {
            l->numbers = false;
            if (k > 1 || is_missing(text)) {
                *err = l->why;
                return err->code;
            }
        }
        l->whole &= is_whole(text) && (!l->numbers || row[i] >= 0);
    }
    if (k == 1)
        PARE_TRY(add_text(l, c->cell[l->column.at[0]], err));
    l->n++;
    return 0;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Names of classes, sorted, as numbers. */
static int use_classes(const struct pare_label_rows *l, struct pare_data *d, struct pare_err *err)
{
    struct pare_tensor y = { .dtype = PARE_I64, .rank = 1, .dim = { l->n } };
    const char **name = pare_alloc(d->arena, (size_t)l->n, sizeof(*name));
    size_t n = 0;

    if (!name)
        return pare_no_memory(err, "for labels");
    memcpy(name, l->text, (size_t)l->n * sizeof(*name));
    qsort(name, (size_t)l->n, sizeof(*name), by_text);
    for (int i = 0; i < l->n; i++)
        if (!n || strcmp(name[n - 1], name[i]) != 0)
            name[n++] = name[i];
    if (n > MOST_CLASSES || n < 2 || is_missing(name[0]))
        return pare_fail(err, PARE_EFORMAT,
                         "the labels are %zu different texts, expected 2 to %d classes or numbers",
                         n, MOST_CLASSES);
    PARE_TRY(pare_tensor_alloc(d->arena, &y, err));
    for (int i = 0; i < l->n; i++)
        pare_i64_mut(&y)[i] = (const char **)bsearch(&l->text[i], name, n, sizeof(*name), by_text) -
                              name;
    for (size_t i = 0; i < n; i++) {
        name[i] = pare_strdup(d->arena, name[i]);
        if (!name[i])
            return pare_no_memory(err, "for labels");
    }
    d->classes = (int64_t)n;
    d->classes_known = true;
    d->class_name = name;
    return pare_data_targets(d, &y, err);
}

int pare_label_rows_use(const struct pare_label_rows *l, struct pare_data *d, struct pare_err *err)
{
    struct pare_tensor y = { .dtype = l->whole ? PARE_I64 : PARE_F32,
                             .rank = l->column.n > 1 ? 2 : 1,
                             .dim = { l->n, l->column.n } };

    if (!l->column.n)
        return 0;
    if (!l->numbers)
        return use_classes(l, d, err);
    PARE_TRY(pare_tensor_alloc(d->arena, &y, err));
    PARE_TRY(pare_convert(y.dtype, y.data, PARE_F64, l->value, pare_numel(&y), err));
    return pare_data_targets(d, &y, err);
}
