/* regex.c - regular expressions for whole names, matched in bounded time.
 *
 * A pattern is compiled to a list of states (a nondeterministic automaton); matching reads the name
 * once and tracks all reachable states.  Not regcomp(): glibc's takes minutes for a dozen
 * characters of nested repeats.
 */
#include "regex.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum kind {
    TAKE,  /* match one character that `text` accepts */
    FORK,  /* continue with the next state and with the one at `to` */
    JUMP,  /* continue with the state at `to` */
    FIRST, /* matches only at the beginning */
    LAST,  /* matches only at the end */
};

/* `to` is relative to the state itself, so that states can be moved and copied. */
struct step {
    enum kind kind;
    int to;
    const char *text;
};

struct program {
    struct step steps[PARE_REGEX_FULL];
    int n;
    const char *p; /* the rest of the pattern */
    struct pare_err *err;
};

static int bad_pattern(const struct program *prog, const char *why)
{
    return pare_fail(prog->err, PARE_ECONFIG, "is not a regular expression: %s", why);
}

/* Is the character after a \ a character class? */
static bool is_kind(char letter)
{
    return letter && strchr("dDwWsS", letter) != NULL;
}

static bool in_kind(char letter, unsigned char c)
{
    switch (letter) {
    case 'd': return isdigit(c);
    case 'D': return !isdigit(c);
    case 'w': return isalnum(c) || c == '_';
    case 'W': return !isalnum(c) && c != '_';
    case 's': return isspace(c);
    default: return !isspace(c);
    }
}

/* Is c in the [:class:] at p?  -1: unknown class. */
static int in_class(const char *p, unsigned char c)
{
    static const struct {
        const char *name;
        int (*has)(int c);
    } classes[] = {
        { "[:alnum:]", isalnum }, { "[:alpha:]", isalpha }, { "[:blank:]", isblank },
        { "[:cntrl:]", iscntrl }, { "[:digit:]", isdigit }, { "[:graph:]", isgraph },
        { "[:lower:]", islower }, { "[:print:]", isprint }, { "[:punct:]", ispunct },
        { "[:space:]", isspace }, { "[:upper:]", isupper }, { "[:xdigit:]", isxdigit },
    };

    for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++)
        if (!strncmp(p, classes[i].name, strlen(classes[i].name)))
            return classes[i].has(c) != 0;
    return -1;
}

/* The character at *p, or the one after a \ there; advances *p. */
static unsigned char letter_at(const char **p)
{
    if ((*p)[0] == '\\' && (*p)[1])
        ++*p;
    return (unsigned char)*(*p)++;
}

/* Does the element of a set at p (a class, a range or a character) contain c?  Returns the position
 * after it, or NULL if it is invalid. */
static const char *in_set_member(const char *p, unsigned char c, bool *has)
{
    unsigned char from, to;

    if (p[0] == '[' && p[1] && strchr(".:=", p[1])) {
        int in = in_class(p, c);

        *has |= in > 0;
        return in < 0 ? NULL : strchr(p, ']') + 1;
    }
    if (p[0] == '\\' && is_kind(p[1])) {
        *has |= in_kind(p[1], c);
        return p + 2;
    }
    from = to = letter_at(&p);
    if (p[0] == '-' && p[1] && p[1] != ']') {
        p++;
        to = letter_at(&p);
    }
    *has |= from <= c && c <= to;
    return from <= to ? p : NULL;
}

/* Does the [set] at p contain c?  Returns the position after it, or NULL if it is invalid or has
 * no end. A ] at the beginning is an ordinary character. */
static const char *in_set(const char *p, unsigned char c, bool *has)
{
    bool not = p[1] == '^', in = false;
    const char *first = p + 1 + not ;

    for (p = first; p && *p && (*p != ']' || p == first);)
        p = in_set_member(p, c, &in);
    *has = in != not ;
    return p && *p ? p + 1 : NULL;
}

/* Does the character, . or [set] at `text` match c? */
static bool accepts(const char *text, unsigned char c)
{
    bool has = false;

    switch (*text) {
    case '.': return true;
    case '[': in_set(text, c, &has); return has;
    case '\\': return is_kind(text[1]) ? in_kind(text[1], c) : (unsigned char)text[1] == c;
    default: return (unsigned char)*text == c;
    }
}

static int add_state(struct program *prog, struct step step)
{
    if (prog->n >= PARE_REGEX_FULL)
        return pare_fail(prog->err, PARE_ELIMIT,
                         "is too long with its repeats expanded, at most %d states",
                         PARE_REGEX_FULL);
    prog->steps[prog->n++] = step;
    return 0;
}

/* Append a copy of the n states from `from`. */
static int add_copy(struct program *prog, int from, int n)
{
    for (int i = 0; i < n; i++)
        PARE_TRY(add_state(prog, prog->steps[from + i]));
    return 0;
}

/* Insert a state before those from `from`. */
static int insert_state(struct program *prog, int from, struct step step)
{
    PARE_TRY(add_state(prog, step));
    memmove(prog->steps + from + 1, prog->steps + from,
            (size_t)(prog->n - 1 - from) * sizeof(prog->steps[0]));
    prog->steps[from] = step;
    return 0;
}

/* Repeat the states from `from` m to n times; n < 0: no upper bound. */
static int repeat_states(struct program *prog, int from, long m, long n)
{
    int size = prog->n - from, body = m ? from : from + 1;

    if (!n) {
        prog->n = from;
        return 0;
    }
    if (!m)
        PARE_TRY(insert_state(prog, from, (struct step){ FORK, size + (n < 0 ? 2 : 1), NULL }));
    for (long i = 1; i < m; i++)
        PARE_TRY(add_copy(prog, body, size));
    if (n < 0)
        PARE_TRY(add_state(prog, m ? (struct step){ FORK, -size, NULL }
                                   : (struct step){ JUMP, -size - 1, NULL }));
    for (long i = m ? m : 1; i < n; i++) {
        PARE_TRY(add_state(prog, (struct step){ FORK, size + 1, NULL }));
        PARE_TRY(add_copy(prog, body, size));
    }
    return 0;
}

/* Parse a repeat count, at most the number of states that a pattern may have. */
static int read_times(struct program *prog, long *times)
{
    char *end;

    if (!isdigit((unsigned char)*prog->p))
        return bad_pattern(prog, "{ needs a repeat count, as in {2} or {1,3}");
    *times = strtol(prog->p, &end, 10);
    prog->p = end;
    if (*times > PARE_REGEX_FULL)
        return pare_fail(prog->err, PARE_ELIMIT, "has a repeat count above %d", PARE_REGEX_FULL);
    return 0;
}

/* {m}, {m,} or {m,n} */
static int read_braces(struct program *prog, int from)
{
    long m, n;

    prog->p++;
    PARE_TRY(read_times(prog, &m));
    n = m;
    if (*prog->p == ',') {
        n = -1;
        if (*++prog->p != '}')
            PARE_TRY(read_times(prog, &n));
    }
    if (*prog->p != '}')
        return bad_pattern(prog, "{ without }");
    if (n >= 0 && n < m)
        return bad_pattern(prog, "{m,n} needs the smaller number first");
    prog->p++;
    return repeat_states(prog, from, m, n);
}

static int read_repeats(struct program *prog, int from)
{
    while (*prog->p && strchr("*+?{", *prog->p)) {
        char sign = *prog->p;

        if (sign == '{') {
            PARE_TRY(read_braces(prog, from));
            continue;
        }
        prog->p++;
        PARE_TRY(repeat_states(prog, from, sign == '+', sign == '?' ? 1 : -1));
    }
    return 0;
}

/* A character, ., \character or [set]. */
static int read_letter(struct program *prog)
{
    const char *p = prog->p;
    bool has;

    if (strchr("*+?{", *p))
        return bad_pattern(prog, "nothing to repeat");
    if (p[0] == '\\' && !p[1])
        return bad_pattern(prog, "\\ at the end");
    if (p[0] == '\\' && isdigit((unsigned char)p[1]))
        return pare_fail(prog->err, PARE_EUNSUPPORTED,
                         "has a back reference \\%c, which is not supported", p[1]);
    if (p[0] == '\\' && isalpha((unsigned char)p[1]) && !is_kind(p[1]))
        return pare_fail(prog->err, PARE_EUNSUPPORTED,
                         "has \\%c, supported are \\d \\w \\s \\D \\W \\S", p[1]);
    prog->p = *p == '[' ? in_set(p, 0, &has) : p + (*p == '\\' ? 2 : 1);
    if (!prog->p)
        return bad_pattern(prog, "[ without ], or an invalid set");
    return add_state(prog, (struct step){ TAKE, 0, p });
}

static int read_choice(struct program *prog);

static int read_item(struct program *prog)
{
    switch (*prog->p) {
    case '(':
        prog->p++;
        PARE_TRY(read_choice(prog));
        if (*prog->p++ != ')')
            return bad_pattern(prog, "( without )");
        return 0;
    case '^': prog->p++; return add_state(prog, (struct step){ FIRST, 0, NULL });
    case '$': prog->p++; return add_state(prog, (struct step){ LAST, 0, NULL });
    default: return read_letter(prog);
    }
}

/* Alternatives separated by |. */
static int read_choice(struct program *prog)
{
    int from = prog->n, jump;

    while (*prog->p && !strchr("|)", *prog->p)) {
        int item = prog->n;

        PARE_TRY(read_item(prog));
        PARE_TRY(read_repeats(prog, item));
    }
    if (*prog->p != '|')
        return 0;
    prog->p++;
    PARE_TRY(insert_state(prog, from, (struct step){ FORK, prog->n + 2 - from, NULL }));
    jump = prog->n;
    PARE_TRY(add_state(prog, (struct step){ JUMP, 0, NULL }));
    PARE_TRY(read_choice(prog));
    prog->steps[jump].to = prog->n - jump;
    return 0;
}

static int compile(const char *pattern, struct program *prog, struct pare_err *err)
{
    prog->n = 0;
    prog->p = pattern;
    prog->err = err;
    if (strlen(pattern) > PARE_REGEX_MAX)
        return pare_fail(err, PARE_ELIMIT, "is too long, at most %d characters", PARE_REGEX_MAX);
    PARE_TRY(read_choice(prog));
    return *prog->p ? bad_pattern(prog, ") without (") : 0;
}

int pare_regex_check(const char *pattern, struct pare_err *err)
{
    struct program prog;

    return pare_at(err, compile(pattern, &prog, err), "the pattern '%.200s'", pattern);
}

/* The set of reachable states; the state after the last one means a match. */
struct front {
    int at[PARE_REGEX_FULL + 1], n;
    bool has[PARE_REGEX_FULL + 1];
};

static void add_reachable(struct front *front, int step)
{
    if (front->has[step])
        return;
    front->has[step] = true;
    front->at[front->n++] = step;
}

/* Add the states that are reachable without reading a character. */
static void follow_states(const struct program *prog, struct front *front, bool first, bool last)
{
    for (int i = 0; i < front->n; i++) {
        int at = front->at[i];
        const struct step *step = &prog->steps[at];

        if (at == prog->n)
            continue;
        if (step->kind == FORK || step->kind == JUMP)
            add_reachable(front, at + step->to);
        if (step->kind == FORK || (step->kind == FIRST && first) || (step->kind == LAST && last))
            add_reachable(front, at + 1);
    }
}

bool pare_regex_match(const char *pattern, const char *name)
{
    struct front fronts[2] = { 0 }, *now = &fronts[0], *next = &fronts[1];
    struct program prog;
    struct pare_err err;

    if (compile(pattern, &prog, &err))
        return false;
    add_reachable(now, 0);
    for (const char *p = name;; p++) {
        struct front *old = now;

        follow_states(&prog, now, p == name, !*p);
        if (!*p)
            return now->has[prog.n];
        for (int i = 0; i < now->n; i++) {
            const struct step *step = &prog.steps[now->at[i]];

            if (now->at[i] < prog.n && step->kind == TAKE && accepts(step->text, (unsigned char)*p))
                add_reachable(next, now->at[i] + 1);
        }
        memset(old, 0, sizeof(*old));
        now = next;
        next = old;
    }
}
