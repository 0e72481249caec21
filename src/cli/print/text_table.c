/* text_table.c - numbers with units, and tables with aligned columns. */
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "screen.h"
#include "../../base/arena.h"

#define MOST_NAME 26  /* columns of the first column of help; a longer name has its own line */
#define CONTINUED 4   /* indent of a row's second line */
#define FAIR_NAME 22  /* columns in which most names of layers differ */
#define LEAST_NAME 12 /* columns that a shortened name keeps */

/* Three significant digits: 9.41, 94.1, 941. */
static void three_digits(double v, const char *unit, char *buf, size_t size)
{
    int after = v < 9.995 ? 2 : v < 99.95 ? 1 : 0;

    snprintf(buf, size, "%.*f%s", after, v, unit);
}

const char *pare_count_text(double v, char *buf, size_t size)
{
    static const char *const unit[] = { "K", "M", "G", "T", "P", "E" };
    int k = -1;

    if (v < 0 || !isfinite(v)) {
        snprintf(buf, size, "-");
    } else if (v < 1000) {
        snprintf(buf, size, "%.0f", v);
    } else {
        for (; v >= 999.5 && k < 5; k++)
            v /= 1000;
        three_digits(v, unit[k], buf, size);
    }
    return buf;
}

const char *pare_whole_text(int64_t v, char *buf, size_t size)
{
    char digits[24];
    int n = snprintf(digits, sizeof(digits), "%" PRId64, v < 0 ? -v : v), at = 0;

    if (v < 0)
        buf[at++] = '-';
    for (int i = 0; i < n && (size_t)at + 2 < size; i++) {
        if (i && (n - i) % 3 == 0)
            buf[at++] = ',';
        buf[at++] = digits[i];
    }
    buf[at] = '\0';
    return buf;
}

const char *pare_bytes_text(double v, char *buf, size_t size)
{
    static const char *const unit[] = { " KB", " MB", " GB", " TB" };
    int k = -1;

    if (v < 1000) {
        snprintf(buf, size, "%.0f B", v);
        return buf;
    }
    for (; v >= 999.5 && k < 3; k++)
        v /= 1000;
    three_digits(v, unit[k], buf, size);
    return buf;
}

const char *pare_percent_text(double part, double whole, char *buf, size_t size)
{
    if (whole > 0 && part >= 0)
        snprintf(buf, size, "%.1f%%", 100 * part / whole);
    else
        snprintf(buf, size, "-");
    return buf;
}

const char *pare_time_text(double s, char *buf, size_t size)
{
    if (s < 0.9995e-3)
        three_digits(s * 1e6, " us", buf, size);
    else if (s < 0.9995)
        three_digits(s * 1e3, " ms", buf, size);
    else
        three_digits(s, " s", buf, size);
    return buf;
}

/* ---- tables ---------------------------------------------------------------- */

struct row {
    const char **cell;
    struct row *next;
};

struct pare_table {
    struct pare_arena *arena;
    const char *align;
    int cols, *width;
    bool *names; /* (cols) all cells are words, which may be shortened */
    struct row *first, **end;
    bool broken; /* out of memory: nothing is printed */
};

static bool is_right(char align)
{
    return align == 'r' || align == 'R';
}

struct pare_table *pare_table_new(struct pare_arena *a, const char *align)
{
    struct pare_table *t = pare_alloc(a, 1, sizeof(*t));

    if (!t)
        return NULL;
    t->arena = a;
    t->align = align;
    t->cols = (int)strlen(align);
    t->width = pare_alloc(a, (size_t)t->cols, sizeof(*t->width));
    t->end = &t->first;
    t->names = pare_alloc(a, (size_t)t->cols, sizeof(*t->names));
    t->broken = !t->width || !t->names;
    for (int i = 0; i < t->cols && !t->broken; i++)
        t->names[i] = !is_right(align[i]);
    return t;
}

static void add_row(struct pare_table *t, const char **cell)
{
    struct row *r = pare_alloc(t->arena, 1, sizeof(*r));

    t->broken |= !r;
    for (int i = 0; i < t->cols && !t->broken; i++) {
        cell[i] = pare_strdup(t->arena, cell[i] ? cell[i] : "");
        t->broken = !cell[i];
        if (!t->broken)
            t->names[i] &= !*cell[i] || isalpha((unsigned char)*cell[i]) || *cell[i] == '/';
        if (!t->broken && pare_text_width(cell[i]) > t->width[i])
            t->width[i] = pare_text_width(cell[i]);
    }
    if (t->broken)
        return;
    r->cell = cell;
    *t->end = r;
    t->end = &r->next;
}

void pare_table_row(struct pare_table *t, const char *cell, ...)
{
    const char **all = t ? pare_alloc(t->arena, (size_t)t->cols, sizeof(*all)) : NULL;
    va_list ap;

    if (t)
        t->broken |= !all;
    if (!t || t->broken)
        return;
    va_start(ap, cell);
    for (int i = 0; i < t->cols; i++)
        all[i] = i ? va_arg(ap, const char *) : cell;
    va_end(ap);
    add_row(t, all);
}

void pare_table_cells(struct pare_table *t, const char *const *cell)
{
    const char **all = t ? pare_alloc(t->arena, (size_t)t->cols, sizeof(*all)) : NULL;

    if (t)
        t->broken |= !all;
    if (!t || t->broken)
        return;
    memcpy(all, cell, (size_t)t->cols * sizeof(*all));
    add_row(t, all);
}

/* How a table is printed: the width of each column, and what is done to fit the screen. */
struct layout {
    int *width;   /* (cols) 0: the column is left out */
    bool *bare;   /* (cols) print "Conv2d" of "Conv2d (Conv)" */
    int columns;  /* of the screen; 0: no limit */
    bool wrap;    /* the last column is text, which is wrapped */
    bool shorten; /* long cells are shortened in the middle */
};

/* Columns that the first `n` columns of the table take. */
static int total_width(const struct layout *l, int n)
{
    int total = 0;

    for (int i = 0; i < n; i++)
        total += l->width[i] ? l->width[i] + 2 : 0;
    return total;
}

/* Columns of the screen that are missing. */
static int missing(const struct pare_table *t, const struct layout *l)
{
    int last = l->width[t->cols - 1];

    last = l->wrap && last > PARE_LEAST_WRAP ? PARE_LEAST_WRAP : last;
    return total_width(l, t->cols - 1) + last - l->columns;
}

/* Leave out what stands in parentheses. */
static void make_bare(const struct pare_table *t, struct layout *l, int i)
{
    l->bare[i] = true;
    l->width[i] = 0;
    for (const struct row *r = t->first; r; r = r->next) {
        const char *paren = strstr(r->cell[i], " (");
        int n = pare_text_width(r->cell[i]) - (paren ? pare_text_width(paren) : 0);

        l->width[i] = n > l->width[i] ? n : l->width[i];
    }
}

/* Reduce the widest column of names. */
static bool shorten_widest(const struct pare_table *t, struct layout *l, int least)
{
    int widest = -1, over = missing(t, l);

    for (int i = 0; i < t->cols - l->wrap; i++)
        if (t->names[i] && l->width[i] > least && (widest < 0 || l->width[i] > l->width[widest]))
            widest = i;
    if (widest < 0)
        return false;
    over = l->width[widest] - over > least ? over : l->width[widest] - least;
    l->width[widest] -= over;
    return true;
}

/* In this order: wrap the last column, leave out parentheses, shorten names, leave out optional
 * columns, shorten names further.  If that is not enough, rows continue on a second line. */
static void fit(const struct pare_table *t, struct layout *l)
{
    if (!l->columns || missing(t, l) <= 0)
        return;
    l->shorten = true;
    l->wrap = t->align[t->cols - 1] == 'l' && t->cols > 1;
    for (int i = 0; i < t->cols - l->wrap && missing(t, l) > 0; i++)
        if (t->names[i])
            make_bare(t, l, i);
    while (missing(t, l) > 0 && shorten_widest(t, l, FAIR_NAME))
        ;
    for (int i = t->cols - 1; i > 0 && missing(t, l) > 0; i--)
        if (isupper((unsigned char)t->align[i]))
            l->width[i] = 0;
    while (missing(t, l) > 0 && shorten_widest(t, l, LEAST_NAME))
        ;
}

static struct layout make_layout(const struct pare_table *t, FILE *f, bool wrap)
{
    struct layout l = { .columns = wrap ? pare_text_columns(f) : pare_columns(f), .wrap = wrap };

    l.width = pare_alloc(t->arena, (size_t)t->cols, sizeof(*l.width));
    l.bare = pare_alloc(t->arena, (size_t)t->cols, sizeof(*l.bare));
    if (!l.width || !l.bare) {
        l.width = NULL;
        return l;
    }
    memcpy(l.width, t->width, (size_t)t->cols * sizeof(*l.width));
    if (wrap && l.width[0] > MOST_NAME)
        l.width[0] = MOST_NAME;
    if (!wrap)
        fit(t, &l);
    return l;
}

/* The cell as it is printed. */
static const char *cell_text(const struct layout *l, const char *cell, int i, char *buf,
                             size_t size)
{
    const char *paren = l->bare[i] ? strstr(cell, " (") : NULL;

    if (!paren)
        return cell;
    snprintf(buf, size, "%.*s", (int)(paren - cell), cell);
    return buf;
}

/* Columns that do not fit continue on the next line. */
static void print_row(const struct pare_table *t, const struct row *r, const struct layout *l,
                      FILE *f)
{
    int last = t->cols - 1, pad = 0, start = 0;
    char buf[512];

    while (last > 0 && !*r->cell[last])
        last--;
    for (int i = 0; i <= last; i++) {
        bool wrapped = l->wrap && i > 0 && i == t->cols - 1;
        const char *cell = cell_text(l, r->cell[i], i, buf, sizeof(buf));
        int width = l->width[i], room = width - pare_text_width(cell), least;

        if (!width && t->width[i])
            continue;
        room = l->shorten && room < 0 ? 0 : room;
        least = wrapped && width > PARE_LEAST_WRAP ? PARE_LEAST_WRAP : width;
        if (l->shorten && i && start + least > l->columns) {
            fprintf(f, "\n%*s", CONTINUED, "");
            start = CONTINUED;
            pad = 0;
        }
        fprintf(f, "%*s", pad + (is_right(t->align[i]) ? room : 0), "");
        if (wrapped)
            pare_put_column(f, cell, start, l->columns);
        else if (l->shorten)
            pare_put_shortened(f, cell, width);
        else
            pare_put_clean(f, cell);
        start += width + 2;
        if (room < 0 && i < last)
            fprintf(f, "\n%*s", start - 2, "");
        pad = 2 + (is_right(t->align[i]) || room < 0 ? 0 : room);
    }
}

static void print_table(const struct pare_table *t, FILE *f, bool bold, bool wrap)
{
    struct layout l;

    if (!t || t->broken)
        return;
    l = make_layout(t, f, wrap);
    if (!l.width)
        return;
    for (const struct row *r = t->first; r; r = r->next) {
        if (r == t->first && bold)
            fputs("\033[1m", f);
        print_row(t, r, &l, f);
        if (r == t->first && bold)
            fputs("\033[0m", f);
        fputc('\n', f);
    }
}

void pare_table_print(const struct pare_table *t, FILE *f)
{
    print_table(t, f, pare_use_color(f), false);
}

void pare_table_plain(const struct pare_table *t, FILE *f)
{
    print_table(t, f, false, false);
}

void pare_table_wrap(const struct pare_table *t, FILE *f)
{
    print_table(t, f, pare_use_color(f), true);
}
