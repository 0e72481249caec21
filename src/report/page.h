/* page.h - HTML output: a growing text in which everything from files is escaped. */
#ifndef PARE_REPORT_PAGE_H
#define PARE_REPORT_PAGE_H

#include "report.h"

struct pare_page {
    struct pare_arena *arena;
    char *text;
    size_t len, cap;
    bool failed; /* out of memory */
    int charts;  /* number of charts so far, the id of the next canvas */
};

void pare_page_raw(struct pare_page *p, const char *html); /* trusted HTML */
void pare_page_bytes(struct pare_page *p, const char *html, size_t n);
void pare_page_text(struct pare_page *p, const char *s); /* text from a file, escaped */
void pare_page_put(struct pare_page *p, const char *fmt, ...)
    PARE_PRINTF(2, 3); /* trusted HTML and numbers */

/* How to format a number. */
enum pare_unit { PARE_SHARE, PARE_COUNT, PARE_BYTES, PARE_SECONDS, PARE_DB, PARE_PLAIN };

const char *pare_unit_text(double v, enum pare_unit u, char *buf, size_t size);
#define PARE_UNIT_TEXT 32

/* A table cell with a number: <td data-v="the number">formatted</td>.  NaN: a dash. */
void pare_page_cell(struct pare_page *p, double v, enum pare_unit u);
void pare_page_text_cell(struct pare_page *p, const char *s); /* NULL: a dash */

/* The number at "a.b.c" of run.json, or NaN; the text there, or NULL; the value there, or NULL. */
double pare_number(const struct pare_json *j, const char *path);
const char *pare_words(const struct pare_json *j, const char *path);
const struct pare_json *pare_at_path(const struct pare_json *j, const char *path);

/* JSON inside a script element, escaped so that nothing in it can end the element. */
void pare_page_json(struct pare_page *p, const struct pare_json *j);
void pare_page_quoted(struct pare_page *p, const char *s);

/* Sections of the report. */
void pare_report_layers(struct pare_page *p, const struct pare_json *run);
void pare_report_weights(struct pare_page *p, const struct pare_json *run);
void pare_report_training(struct pare_page *p, const struct pare_json *run);
void pare_report_budget(struct pare_page *p, const struct pare_json *run);
void pare_report_sensitivity(struct pare_page *p, const struct pare_json *run);

/* A line of a chart: points (x, y). */
struct pare_line {
    const char *label;
    const double *x, *y;
    int n;
};
struct pare_chart {
    const char *title; /* for screen readers */
    const char *x, *y; /* labels of the axes */
    bool log_x, percent_y;
    const struct pare_line *line;
    int n;
};
void pare_page_chart(struct pare_page *p, const struct pare_chart *c);

#endif
