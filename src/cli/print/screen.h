/* screen.h - text for a terminal: its width, wrapped and shortened text, color.  cli.h has
 * pare_columns(), pare_text_columns(), pare_put_wrapped() and pare_put_clean(). */
#ifndef PARE_CLI_PRINT_SCREEN_H
#define PARE_CLI_PRINT_SCREEN_H

#include "../cli.h"

#define PARE_LEAST_WRAP 24 /* columns that wrapped text has at least */

/* Does f write to a terminal with colors, and NO_COLOR is not set? */
bool pare_use_color(FILE *f);

/* The start of a message on stderr, in color where it has it: "pare: ", "pare: warning: ". */
void pare_put_error(void);
void pare_put_warning(void);

/* Columns that a text takes: continuation bytes of UTF-8 take none. */
int pare_text_width(const char *s);

/* Print text in a column that starts at `start`, broken into lines at blanks. */
void pare_put_column(FILE *f, const char *s, int start, int columns);

/* Print a paragraph and a newline, indented from its second line. */
void pare_put_lines(FILE *f, const char *text, int indent);

/* Print a paragraph and a newline: wrapped on a terminal, one line elsewhere. */
void pare_put_paragraph(FILE *f, const char *text);

/* The same without the newline, after a title of this many columns. */
void pare_put_after(FILE *f, const char *text, int title);

/* Print at most this many columns: the middle of a longer text becomes an ellipsis. */
void pare_put_shortened(FILE *f, const char *s, int columns);

#endif
