/* table_columns.h - which columns of a table are labels, inputs or names of files; labels as
 * numbers or classes. */
#ifndef PARE_DATA_TABLE_COLUMNS_H
#define PARE_DATA_TABLE_COLUMNS_H

#include "csv.h"
#include "source.h"

/* For open(): a CSV file of inputs and labels. */
int pare_table_parse(struct pare_data *d, const void *bytes, size_t len, struct pare_err *err);

/* Columns of a table, by index. */
struct pare_columns {
    int *at;
    int n;
};

/* The columns of the option 'label', else the one called label, target, class or y; none: n = 0.
 * If columns are `inputs`, one that is named as an input of the model is not the label. */
int pare_table_labels(struct pare_data *d, const struct pare_csv *c, bool inputs,
                      struct pare_columns *to, struct pare_err *err);

/* Columns by names that are separated by commas. */
int pare_table_named(struct pare_data *d, const struct pare_csv *c, const char *option,
                     const char *names, struct pare_columns *to, struct pare_err *err);

/* A cell as a number; an error names line and column. */
int pare_table_number(const struct pare_csv *c, int column, double *v, struct pare_err *err);

/* Labels, row by row: of one column numbers or names of classes, of several numbers. */
struct pare_label_rows {
    struct pare_columns column;
    struct pare_arena *arena; /* for the rows */
    double *value;            /* (n, column.n) */
    const char **text;        /* (n) cells of a single column */
    int n, value_cap, text_cap;
    bool numbers, whole; /* so far, all are numbers; integers */
    struct pare_err why; /* of the first cell that is not a number */
};
int pare_label_rows_add(struct pare_label_rows *l, const struct pare_csv *c, struct pare_err *err);

/* Set the labels of the data set, whose items are set. */
int pare_label_rows_use(const struct pare_label_rows *l, struct pare_data *d, struct pare_err *err);

#endif
