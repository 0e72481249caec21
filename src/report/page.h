/* page.h - HTML in the making: text that grows, with everything from files escaped. */
#ifndef PARE_REPORT_PAGE_H
#define PARE_REPORT_PAGE_H

#include "report.h"

struct pare_page {
    struct pare_arena *arena;
    char *text;
    size_t len, cap;
    bool failed; /* no memory */
    int charts;  /* canvases so far, which is their number */
};

void pare_page_raw(struct pare_page *p, const char *html); /* ours */
void pare_page_bytes(struct pare_page *p, const char *html, size_t n);
void pare_page_text(struct pare_page *p, const char *s); /* from a file; escaped */
void pare_page_put(struct pare_page *p, const char *fmt, ...) PARE_PRINTF(2, 3); /* ours, numbers */

/* How a number is written. */
enum pare_unit { PARE_SHARE, PARE_COUNT, PARE_BYTES, PARE_SECONDS, PARE_DB, PARE_PLAIN };

const char *pare_unit_text(double v, enum pare_unit u, char *buf, size_t size);
#define PARE_UNIT_TEXT 32

/* A cell of a table with a number: <td data-v="the number">as people read it</td>.  NaN: a dash. */
void pare_page_cell(struct pare_page *p, double v, enum pare_unit u);
void pare_page_text_cell(struct pare_page *p, const char *s); /* NULL: a dash */

/* A number of the record at "a.b.c"; NaN: there is none.  A text there, or NULL. */
double pare_number(const struct pare_json *j, const char *path);
const char *pare_words(const struct pare_json *j, const char *path);
const struct pare_json *pare_at_path(const struct pare_json *j, const char *path);

/* JSON inside a script: nothing in it can end the script. */
void pare_page_json(struct pare_page *p, const struct pare_json *j);
void pare_page_quoted(struct pare_page *p, const char *s);

/* Sections. */
void pare_report_layers(struct pare_page *p, const struct pare_json *run);
void pare_report_weights(struct pare_page *p, const struct pare_json *run);
void pare_report_training(struct pare_page *p, const struct pare_json *run);
void pare_report_sensitivity(struct pare_page *p, const struct pare_json *run);

/* A line of a chart: points (x, y). */
struct pare_line {
    const char *label;
    const double *x, *y;
    int n;
};
struct pare_chart {
    const char *title; /* for who cannot see it */
    const char *x, *y; /* what the axes are */
    bool log_x, percent_y;
    const struct pare_line *line;
    int n;
};
void pare_page_chart(struct pare_page *p, const struct pare_chart *c);

#endif
