/* string_normalizer.c - StringNormalizer: drop stop words, change to lower or upper case.
 *
 * Text is UTF-8.  Letters are mapped one by one as in the locale C.UTF-8, whatever the attribute
 * `locale` says; where the system lacks it, letters beyond ASCII are an error.
 */
#include <locale.h>
#include <wctype.h>

#include "../op.h"

struct normalizer {
    const char *action, *locale;
    int64_t sensitive;
    struct pare_strs stop;
};

static const struct pare_opt string_normalizer_attrs[] = {
    PARE_CHOICE("case_change_action", offsetof(struct normalizer, action),
                "change letters to lower or upper case", "NONE", "NONE|LOWER|UPPER"),
    PARE_INT("is_case_sensitive", offsetof(struct normalizer, sensitive),
             "1: stop words are compared with upper and lower case", 0, 0, 1),
    PARE_TEXT("locale", offsetof(struct normalizer, locale), "NAME", "not used: letters are UTF-8",
              NULL),
    PARE_TEXTS("stopwords", offsetof(struct normalizer, stop), "TEXT", "words that are dropped"),
    PARE_OPT_END
};

/* The code point at s[*i], and *i after it; -1: this is not UTF-8. */
static int32_t decode(const struct pare_str *s, size_t *i)
{
    unsigned char c = (unsigned char)s->s[(*i)++];
    int more = c < 0x80 ? 0 : c >= 0xf0 && c < 0xf8 ? 3 : c >= 0xe0 ? 2 : c >= 0xc0 ? 1 : -1;
    int32_t v = more < 1 ? c : c & (0x3f >> more);

    if (more < 0 || c >= 0xf8)
        return -1;
    for (; more; more--, (*i)++) {
        if (*i >= s->len || (s->s[*i] & 0xc0) != 0x80)
            return -1;
        v = v << 6 | (s->s[*i] & 0x3f);
    }
    return v;
}

static size_t encode(int32_t v, char *to)
{
    int more = v < 0x80 ? 0 : v < 0x800 ? 1 : v < 0x10000 ? 2 : 3;
    static const unsigned char first[] = { 0, 0xc0, 0xe0, 0xf0 };

    to[0] = (char)(first[more] | v >> (6 * more));
    for (int k = 1; k <= more; k++)
        to[k] = (char)(0x80 | (v >> (6 * (more - k)) & 0x3f));
    return (size_t)more + 1;
}

/* s in lower or upper case, in the arena; a mapped letter takes at most 4 bytes. */
static int change_case(struct pare_arena *a, locale_t utf8, bool upper, struct pare_str *s,
                       struct pare_err *err)
{
    char *to = pare_alloc_raw(a, 4 * s->len + 1, 1);
    size_t n = 0;

    if (!to)
        return pare_no_memory(err, "for text");
    for (size_t i = 0; i < s->len;) {
        int32_t v = decode(s, &i);

        if (v < 0)
            return pare_fail(err, PARE_EFORMAT, "an element is not UTF-8 text");
        if (v >= 0x80 && !utf8)
            return pare_fail(err, PARE_EUNSUPPORTED,
                             "letters beyond ASCII need the locale C.UTF-8, which is missing");
        if (v < 0x80)
            v = upper ? (v >= 'a' && v <= 'z' ? v - 32 : v) : v >= 'A' && v <= 'Z' ? v + 32 : v;
        else
            v = (int32_t)(upper ? towupper_l((wint_t)v, utf8) : towlower_l((wint_t)v, utf8));
        n += encode(v, to + n);
    }
    *s = (struct pare_str){ to, n };
    return 0;
}

static bool same(const struct pare_str *a, const struct pare_str *b)
{
    return a->len == b->len && (!a->len || !memcmp(a->s, b->s, a->len));
}

/* Whether x, in lower case if `lower`, is one of the n stop words. */
static int is_stop_word(struct pare_arena *a, locale_t utf8, bool lower, struct pare_str x,
                        const struct pare_str *stop, int n, bool *found, struct pare_err *err)
{
    *found = false;
    if (lower && n)
        PARE_TRY(change_case(a, utf8, false, &x, err));
    for (int i = 0; i < n; i++)
        *found |= same(&x, &stop[i]);
    return 0;
}

static int stop_words(const struct normalizer *o, struct pare_arena *a, locale_t utf8,
                      struct pare_str **list, struct pare_err *err)
{
    *list = pare_alloc(a, (size_t)o->stop.n + 1, sizeof(**list));
    if (!*list)
        return pare_no_memory(err, "for text");
    for (int i = 0; i < o->stop.n; i++) {
        (*list)[i] = (struct pare_str){ o->stop.v[i], strlen(o->stop.v[i]) };
        if (!o->sensitive)
            PARE_TRY(change_case(a, utf8, false, &(*list)[i], err));
    }
    return 0;
}

static int normalize(struct pare_node *n, struct pare_ctx *c, locale_t utf8, struct pare_err *err)
{
    const struct normalizer *o = n->attr;
    const struct pare_tensor *x = &n->in[0]->t;
    const struct pare_str *from = x->data;
    int64_t count = pare_numel(x), kept = 0;
    struct pare_str *to = pare_alloc(c->scratch, (size_t)count + 1, sizeof(*to)), *stop;
    int64_t dim[2] = { 1, 1 };

    if (!to)
        return pare_no_memory(err, "for text");
    PARE_TRY(stop_words(o, c->scratch, utf8, &stop, err));
    for (int64_t i = 0; i < count; i++) {
        bool drop;

        PARE_TRY(
            is_stop_word(c->scratch, utf8, !o->sensitive, from[i], stop, o->stop.n, &drop, err));
        if (drop)
            continue;
        to[kept] = from[i];
        if (strcmp(o->action, "NONE") != 0)
            PARE_TRY(change_case(c->results, utf8, !strcmp(o->action, "UPPER"), &to[kept], err));
        kept++;
    }
    dim[x->rank - 1] = kept ? kept : 1; /* nothing is left: one empty text */
    to[kept] = kept ? to[kept] : (struct pare_str){ "", 0 };
    PARE_TRY(pare_tensor_new(c->results, &n->out[0]->t, PARE_STR, x->rank, dim, err));
    memcpy(n->out[0]->t.data, to, (size_t)(kept ? kept : 1) * sizeof(*to));
    return 0;
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct pare_tensor *x = &n->in[0]->t;
    locale_t utf8;
    int rc;

    if (x->rank < 1 || x->rank > 2 || (x->rank == 2 && x->dim[0] != 1)) {
        char buf[PARE_SHAPE_TEXT];

        return pare_fail(err, PARE_ESHAPE, "the input is %s, must be (C) or (1, C)",
                         pare_shape_text(x, buf, sizeof(buf)));
    }
    utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
    rc = normalize(n, c, utf8, err);
    if (utf8)
        freelocale(utf8);
    return rc;
}

const struct pare_op pare_op_string_normalizer = {
    .type = "StringNormalizer",
    .doc = "Drop stop words and change the case of text.",
    .since = 10,
    .in = "T",
    .types = PARE_T(PARE_STR),
    .min_out = 1,
    .max_out = 1,
    .attrs = string_normalizer_attrs,
    .attr_size = sizeof(struct normalizer),
    .flags = PARE_OP_ALLOCS | PARE_OP_STEPS,
    .forward = forward,
};
