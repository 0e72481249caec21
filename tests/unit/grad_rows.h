/* grad_rows.h - tables of operators for gradient checks.
 *
 * A row is an operator, its inputs and its attributes:
 *     "4,3"    random in [-1, 1)       "+4,3"   random in [0.5, 1.5)
 *     "~4,3"   all elements distinct   "#1,0"   a list of int64       "-"   absent
 */
#ifndef PARE_TESTS_GRAD_ROWS_H
#define PARE_TESTS_GRAD_ROWS_H

#include <stdio.h>

#include "grad.h"

struct row {
    const char *type;
    int version;
    const char *in, *attrs; /* separated by blanks; name=value */
    int outs;               /* 0 means 1 */
    struct grad_opts o;
};

static inline void row_add_input(struct one_op *f, const char *text)
{
    double v[16];
    char shape[16];
    int n = 0;

    switch (text[0]) {
    case '-': op_in_none(f); break;
    case '+': grad_in(f, text + 1, 0.5, 1.5); break;
    case '~': grad_in_distinct(f, text + 1, 0.1); break;
    case '#':
        for (const char *p = text + 1; *p; p += *p == ',') {
            char *end;

            v[n++] = strtod(p, &end);
            p = end;
        }
        snprintf(shape, sizeof(shape), "%d", n);
        op_in(f, PARE_I64, shape, v);
        break;
    default: grad_in(f, text, -1, 1); break;
    }
}

/* Fills f with the row's operator, inputs and attributes. */
static inline void row_begin(struct one_op *f, const struct row *r)
{
    char text[256], *save = NULL;

    op_begin(f, r->type, r->version);
    f->node.n_out = r->outs ? r->outs : 1;
    snprintf(text, sizeof(text), "%s", r->in);
    for (char *t = strtok_r(text, " ", &save); t; t = strtok_r(NULL, " ", &save))
        row_add_input(f, t);
    snprintf(text, sizeof(text), "%s", r->attrs ? r->attrs : "");
    for (char *t = strtok_r(text, " ", &save); t; t = strtok_r(NULL, " ", &save)) {
        char *eq = strchr(t, '=');

        assert_non_null(eq);
        *eq = 0;
        op_attr(f, pare_strdup(f->arena, t), pare_strdup(f->arena, eq + 1));
    }
}

static inline void check_rows(const struct row *r)
{
    struct one_op f;

    for (; r->type; r++) {
        print_message("%s(%s) %s\n", r->type, r->in, r->attrs ? r->attrs : "");
        row_begin(&f, r);
        grad_check_with(&f, &r->o);
    }
}

#endif
