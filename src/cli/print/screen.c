/* screen.c - text for a terminal: its width, wrapped and shortened text, color, safe characters. */
#include "screen.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define TEXT 80       /* columns of running text that does not go to a terminal */
#define MOST_TEXT 100 /* longer lines are hard to read */
#define NARROWEST 40

int pare_columns(FILE *f)
{
    struct winsize w = { 0 };

    if (!isatty(fileno(f)))
        return 0;
    if (ioctl(fileno(f), TIOCGWINSZ, &w) || !w.ws_col)
        return TEXT;
    return w.ws_col < NARROWEST ? NARROWEST : w.ws_col;
}

int pare_text_columns(FILE *f)
{
    int n = pare_columns(f);

    return !n ? TEXT : n > MOST_TEXT ? MOST_TEXT : n;
}

bool pare_use_color(FILE *f)
{
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

    return isatty(fileno(f)) && (!no || !*no) && term && strcmp(term, "dumb") != 0;
}

void pare_put_error(void)
{
    fputs(pare_use_color(stderr) ? "\033[1;31mpare:\033[0m " : "pare: ", stderr);
}

void pare_put_warning(void)
{
    fputs(pare_use_color(stderr) ? "pare: \033[1;33mwarning:\033[0m " : "pare: warning: ", stderr);
}

/* Length of the UTF-8 character at s in bytes; 0: not valid UTF-8. */
static int utf8_length(const unsigned char *s, uint32_t *code)
{
    int n = *s < 0x80 ? 1 : *s >= 0xc2 && *s < 0xe0 ? 2 : (*s & 0xf0) == 0xe0 ? 3 : 4;

    if (n == 4 && (*s < 0xf0 || *s > 0xf4))
        return 0;
    *code = n == 1 ? *s : *s & (0x7fu >> n);
    for (int i = 1; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 0;
        *code = *code << 6 | (s[i] & 0x3fu);
    }
    if ((n == 3 && (*code < 0x800 || (*code >= 0xd800 && *code < 0xe000))) ||
        (n == 4 && (*code < 0x10000 || *code > 0x10ffff)))
        return 0;
    return n;
}

/* Control characters, and marks that change the direction of text. */
static bool is_control(uint32_t code)
{
    return code < 0x20 || (code >= 0x7f && code < 0xa0) || (code >= 0x200e && code <= 0x200f) ||
           (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
}

void pare_put_clean(FILE *f, const char *s)
{
    const unsigned char *p = (const unsigned char *)s;
    uint32_t code = 0;

    for (int n; *p; p += n ? n : 1) {
        n = utf8_length(p, &code);
        if (!n || is_control(code))
            fputc('?', f);
        else
            fwrite(p, 1, (size_t)n, f);
    }
}

/* Columns on a screen: continuation bytes of UTF-8 take none. */
int pare_text_width(const char *s)
{
    int n = 0;

    for (; *s; s++)
        n += ((unsigned char)*s & 0xc0) != 0x80;
    return n;
}

void pare_put_column(FILE *f, const char *s, int start, int columns)
{
    int room = columns - start, at = 0;

    room = room < PARE_LEAST_WRAP ? PARE_LEAST_WRAP : room;
    while (*s) {
        size_t len = strcspn(s, " ");
        char word[512];

        snprintf(word, sizeof(word), "%.*s", (int)len, s);
        if (at && at + 1 + pare_text_width(word) > room) {
            fprintf(f, "\n%*s", start, "");
            at = 0;
        }
        if (at)
            fputc(' ', f);
        pare_put_clean(f, word);
        at += pare_text_width(word) + (at > 0);
        s += len;
        s += *s == ' ';
    }
}

static void put_words(FILE *f, const char *text, int indent, int at)
{
    int columns = pare_text_columns(f);
    bool first = true;

    for (const char *s = text; *s; s += *s == ' ', first = false) {
        size_t len = strcspn(s, " ");
        char word[512];
        int width;

        snprintf(word, sizeof(word), "%.*s", (int)len, s);
        width = pare_text_width(word);
        if (!first && at + 1 + width > columns) {
            fprintf(f, "\n%*s", indent, "");
            at = indent;
        } else if (!first) {
            fputc(' ', f);
            at++;
        }
        pare_put_clean(f, word);
        at += width;
        s += len;
    }
}

void pare_put_wrapped(FILE *f, const char *title, const char *text)
{
    char all[2048];

    snprintf(all, sizeof(all), "%s%s", title, text);
    pare_put_lines(f, all, 2);
}

void pare_put_lines(FILE *f, const char *text, int indent)
{
    put_words(f, text, indent, 0);
    fputc('\n', f);
}

void pare_put_paragraph(FILE *f, const char *text)
{
    pare_put_after(f, text, 0);
    fputc('\n', f);
}

void pare_put_after(FILE *f, const char *text, int title)
{
    if (pare_columns(f))
        put_words(f, text, 2, title);
    else
        pare_put_clean(f, text);
}

/* The byte at which the character with number `n` begins. */
static size_t byte_of(const char *s, int n)
{
    size_t i = 0;

    for (; s[i] && n > 0; n--)
        for (i++; ((unsigned char)s[i] & 0xc0) == 0x80; i++)
            ;
    return i;
}

void pare_put_shortened(FILE *f, const char *s, int columns)
{
    char text[512];
    int n = pare_text_width(s), tail = (columns - 1) / 2, head = columns - 1 - tail;

    if (n <= columns) {
        pare_put_clean(f, s);
        return;
    }
    snprintf(text, sizeof(text), "%.*s\xe2\x80\xa6%s", (int)byte_of(s, head), s,
             s + byte_of(s, n - tail));
    pare_put_clean(f, text);
}
