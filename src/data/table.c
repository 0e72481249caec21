/* table.c - tables: CSV files whose columns are the numbers of the model's inputs, and labels.
 *
 * A model with one input gets all columns except the labels' (or those of the option 'columns'), in
 * this order.  Inputs of a model with several are columns of their names, or of their names with a
 * number: age; pixel.0, pixel_1, pixel[2].
 */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "table_columns.h"
#include "../base/arena.h"
#include "../io/file.h"
#include "../tensor/tensor.h"

#define ROWS_SHOWN 1024 /* rows between two reports of progress */

struct table {
    struct pare_csv csv;
    const char *begin;     /* of the text */
    struct pare_columns x; /* of all inputs, in their order */
    int *width;            /* columns of each input */
    int n_inputs;
    double *value; /* (rows, x.n) */
    int rows, cap;
    struct pare_label_rows label;
};

static bool probe(struct pare_data *d, const char *path)
{
    (void)d;
    return pare_is_file(path) && (pare_ends_with(path, ".csv") || pare_ends_with(path, ".tsv"));
}

/* ---- columns --------------------------------------------------------------------------------- */

static bool is_label(const struct table *t, int column)
{
    for (int i = 0; i < t->label.column.n; i++)
        if (t->label.column.at[i] == column)
            return true;
    return false;
}

/* "pixel.12" belongs to input "pixel". */
static bool belongs(const char *column, const char *input)
{
    size_t n = strlen(input);

    if (strncasecmp(column, input, n) != 0)
        return false;
    return !column[n] || (strchr("._[", column[n]) && isdigit((unsigned char)column[n + 1]));
}

static int choose_several(struct pare_data *d, struct table *t, struct pare_err *err)
{
    const struct pare_io *io = d->parts->io;

    t->n_inputs = d->parts->n_io;
    for (int k = 0; k < t->n_inputs; k++) {
        for (int i = 0; i < t->csv.n_names; i++)
            if (!is_label(t, i) && belongs(t->csv.name[i], io[k].name)) {
                t->x.at[t->x.n++] = i;
                t->width[k]++;
            }
        if (!t->width[k])
            return pare_fail(err, PARE_ESHAPE,
                             "the model's input '%s' has no column: name it '%s', or '%s.0', "
                             "'%s.1', ... for several",
                             io[k].name, io[k].name, io[k].name, io[k].name);
    }
    return 0;
}

static int choose_columns(struct pare_data *d, struct table *t, struct pare_err *err)
{
    int n = d->parts->n_io > 1 ? d->parts->n_io : 1;

    if (n > PARE_DATA_INPUTS)
        return pare_fail(err, PARE_ELIMIT, "the model has %d inputs, at most %d are supported", n,
                         PARE_DATA_INPUTS);
    t->n_inputs = 1;
    t->width = pare_alloc(d->parts->tmp, (size_t)n, sizeof(*t->width));
    t->x.at = pare_alloc(d->parts->tmp, (size_t)t->csv.n_names * (size_t)n, sizeof(*t->x.at));
    if (!t->width || !t->x.at)
        return pare_no_memory(err, "for a table");
    PARE_TRY(pare_table_labels(d, &t->csv, true, &t->label.column, err));
    if (n > 1)
        return choose_several(d, t, err);
    if (d->opts.columns)
        PARE_TRY(pare_table_named(d, &t->csv, "columns", d->opts.columns, &t->x, err));
    for (int i = 0; i < t->csv.n_names && !d->opts.columns; i++)
        if (!is_label(t, i))
            t->x.at[t->x.n++] = i;
    for (int i = 0; i < t->x.n; i++)
        if (is_label(t, t->x.at[i]))
            return pare_fail(err, PARE_ECONFIG,
                             "column '%s' is both an input and the label: see --columns, --label",
                             t->csv.name[t->x.at[i]]);
    t->width[0] = t->x.n;
    return t->x.n ? 0 : pare_fail(err, PARE_EFORMAT, "all columns are labels, none is an input");
}

/* ---- rows ------------------------------------------------------------------------------------ */

static int read_rows(struct pare_data *d, struct table *t, struct pare_err *err)
{
    size_t width = (size_t)t->x.n;
    bool more;

    t->label.arena = d->parts->tmp;
    for (;;) {
        double *row;

        if (t->rows % ROWS_SHOWN == 0)
            PARE_TRY(pare_open_progress(d, "read KB", (t->csv.at - t->begin) / 1024,
                                        (t->csv.end - t->begin) / 1024, err));
        PARE_TRY(pare_csv_row(&t->csv, &more, err));
        if (!more)
            break;
        t->value = pare_grow(d->parts->tmp, t->value, t->rows, &t->cap, width * sizeof(*t->value));
        if (!t->value)
            return pare_no_memory(err, "for a table of %d rows", t->rows);
        row = t->value + (size_t)t->rows * width;
        for (size_t i = 0; i < width; i++)
            PARE_TRY(pare_table_number(&t->csv, t->x.at[i], &row[i], err));
        PARE_TRY(pare_label_rows_add(&t->label, &t->csv, err));
        t->rows++;
    }
    return t->rows ? 0 : pare_fail(err, PARE_EFORMAT, "has a header, but no rows");
}

static bool is_integer(enum pare_dtype t)
{
    return t == PARE_I64 || t == PARE_I32 || t == PARE_U8 || t == PARE_I8 || t == PARE_BOOL;
}

/* The columns [from, from + width) as (rows, width): integers if the model's input takes them. */
static int make_array(struct pare_data *d, const struct table *t, int k, int from,
                      struct pare_tensor *to, struct pare_err *err)
{
    bool whole = d->parts->n_io > k && is_integer(d->parts->io[k].dtype);
    size_t width = (size_t)t->width[k];

    for (int r = 0; r < t->rows; r++)
        for (size_t i = 0; i < width && whole; i++) {
            double v = t->value[(size_t)r * (size_t)t->x.n + (size_t)from + i];

            whole = v == (double)(int64_t)(v > -9e15 && v < 9e15 ? v : 0);
        }
    *to = (struct pare_tensor){ .dtype = whole ? PARE_I64 : PARE_F32,
                                .rank = 2,
                                .dim = { t->rows, t->width[k] } };
    PARE_TRY(pare_tensor_alloc(d->arena, to, err));
    for (size_t r = 0; r < (size_t)t->rows; r++)
        PARE_TRY(pare_convert(to->dtype, (char *)to->data + r * width * pare_dtype_size(to->dtype),
                              PARE_F64, t->value + r * (size_t)t->x.n + from, (int64_t)width, err));
    return 0;
}

static int use_inputs(struct pare_data *d, const struct table *t, struct pare_err *err)
{
    struct pare_input *in = pare_alloc(d->arena, (size_t)t->n_inputs, sizeof(*in));
    int from = 0;

    if (!in)
        return pare_no_memory(err, "for a data set");
    for (int k = 0; k < t->n_inputs; k++) {
        PARE_TRY(make_array(d, t, k, from, &in[k].t, err));
        from += t->width[k];
        in[k].name = t->n_inputs > 1 ? pare_strdup(d->arena, d->parts->io[k].name) : "";
        if (!in[k].name)
            return pare_no_memory(err, "for a data set");
    }
    return t->n_inputs > 1 ? pare_data_named(d, in, err) : pare_data_arrays(d, &in[0].t, NULL, err);
}

int pare_table_parse(struct pare_data *d, const void *bytes, size_t len, struct pare_err *err)
{
    struct table t = { .begin = bytes };

    PARE_TRY(pare_csv_open(&t.csv, d->parts->tmp, bytes, len, 0, err));
    PARE_TRY(choose_columns(d, &t, err));
    PARE_TRY(read_rows(d, &t, err));
    PARE_TRY(use_inputs(d, &t, err));
    return pare_label_rows_use(&t.label, d, err);
}

static int open_table(struct pare_data *d, const char *path, struct pare_err *err)
{
    const void *bytes;
    size_t len;

    d->parts->whole = true;
    PARE_TRY(pare_file_read(d->parts->tmp, path, &bytes, &len, err));
    return pare_at(err, pare_table_parse(d, bytes, len, err), "%s", path);
}

const struct pare_source pare_source_table = {
    .name = "csv",
    .help = "a CSV file with a header: --label names the label's column, the others are the input; "
            "columns named as the inputs of a model that has several",
    .hint = "; --label names the column of the labels, --columns those of the input",
    .probe = probe,
    .open = open_table,
};
