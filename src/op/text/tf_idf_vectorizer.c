/* tf_idf_vectorizer.c - TfIdfVectorizer: how often n-grams of a list occur, with weights.
 *
 * An n-gram is n elements at a distance of 1 to max_skip_count + 1.  The list has all 1-grams, then
 * all 2-grams, ...; ngram_counts says where each length begins, ngram_indexes which element of the
 * result counts the n-gram.
 */
#include "../op.h"

struct vectorizer {
    int64_t min, max, skip;
    const char *mode;
    struct pare_ints begin, index, ints;
    struct pare_strs text;
    struct pare_floats weight;
};

#define AT(field) offsetof(struct vectorizer, field)

static const struct pare_opt tf_idf_vectorizer_attrs[] = {
    PARE_INT("min_gram_length", AT(min), "shortest n-gram", 1, 1, 1 << 20),
    PARE_INT("max_gram_length", AT(max), "longest n-gram", 1, 1, 1 << 20),
    PARE_INT("max_skip_count", AT(skip), "elements between those of an n-gram, at most", 0, 0,
             1 << 20),
    PARE_CHOICE("mode", AT(mode), "counts, weights or products of both", NULL, "TF|IDF|TFIDF"),
    PARE_INTS("ngram_counts", AT(begin), "where n-grams of each length begin in the list",
              PARE_NO_MIN, PARE_NO_MAX),
    PARE_INTS("ngram_indexes", AT(index), "element of the result, by n-gram", PARE_NO_MIN,
              PARE_NO_MAX),
    PARE_INTS("pool_int64s", AT(ints), "the n-grams, of integers", PARE_NO_MIN, PARE_NO_MAX),
    PARE_TEXTS("pool_strings", AT(text), "TEXT", "the n-grams, of texts"),
    PARE_FLOATS("weights", AT(weight), "factor of each n-gram (default: 1)", PARE_NO_MIN,
                PARE_NO_MAX),
    PARE_OPT_END
};

/* Length of the result; the attributes agree with each other and with the type of x. */
static int check(const struct vectorizer *a, const struct pare_tensor *x, int64_t *len,
                 struct pare_err *err)
{
    int pool = x->dtype == PARE_STR ? a->text.n : a->ints.n;
    int64_t grams = 0;

    *len = 0;
    if (x->dtype != PARE_STR && x->dtype != PARE_I32 && x->dtype != PARE_I64)
        return pare_fail(err, PARE_EUNSUPPORTED, "the input is %s, must be text or integers",
                         pare_dtype_name(x->dtype));
    if (!a->mode)
        return pare_fail(err, PARE_ECONFIG, "attribute 'mode' is missing");
    if (a->min > a->max || a->begin.n < a->max)
        return pare_fail(err, PARE_ECONFIG,
                         "n-grams have %lld to %lld elements, but ngram_counts has %d",
                         (long long)a->min, (long long)a->max, a->begin.n);
    for (int i = 0; i < a->begin.n; i++) {
        int64_t end = i + 1 < a->begin.n ? a->begin.v[i + 1] : pool;

        if (a->begin.v[i] < 0 || end < a->begin.v[i] || end > pool ||
            (end - a->begin.v[i]) % (i + 1))
            return pare_fail(err, PARE_ECONFIG,
                             "ngram_counts does not divide the list of %d elements into n-grams",
                             pool);
        grams += (end - a->begin.v[i]) / (i + 1);
    }
    if (a->index.n != grams || (a->weight.n && a->weight.n != grams))
        return pare_fail(err, PARE_ECONFIG, "%lld n-grams have %d indexes and %d weights",
                         (long long)grams, a->index.n, a->weight.n);
    for (int i = 0; i < a->index.n; i++) {
        if (a->index.v[i] < 0 || a->index.v[i] > INT32_MAX)
            return pare_fail(err, PARE_ECONFIG, "an index is %lld", (long long)a->index.v[i]);
        *len = a->index.v[i] >= *len ? a->index.v[i] + 1 : *len;
    }
    return 0;
}

static int infer(struct pare_node *n, struct pare_err *err)
{
    const struct pare_tensor *x = &n->in[0]->t;
    int64_t dim[2] = { 0, 0 }, len = 0;

    if (x->rank < 1 || x->rank > 2)
        return pare_fail(err, PARE_ESHAPE, "the input has %d dimensions, must have 1 or 2",
                         x->rank);
    PARE_TRY(check(n->attr, x, &len, err));
    dim[0] = x->dim[0];
    dim[x->rank - 1] = len;
    return pare_shape_set(&n->out[0]->t, PARE_F32, x->rank, dim, err);
}

/* Whether element i of x is element k of the list. */
static bool equal(const struct vectorizer *a, const struct pare_tensor *x, int64_t i, int64_t k)
{
    const struct pare_str *s = x->data;

    if (x->dtype == PARE_I64)
        return pare_i64(x)[i] == a->ints.v[k];
    if (x->dtype == PARE_I32)
        return ((const int32_t *)x->data)[i] == a->ints.v[k];
    return strlen(a->text.v[k]) == s[i].len && !memcmp(a->text.v[k], s[i].s, s[i].len);
}

/* Count n-grams of length g at distance `step` in a row of `len` elements from `at` on. */
static void count(const struct vectorizer *a, const struct pare_tensor *x, int64_t at, int64_t len,
                  int64_t g, int64_t step, float *y)
{
    int64_t pool = x->dtype == PARE_STR ? a->text.n : a->ints.n, id = 0;
    int64_t end = g < a->begin.n ? a->begin.v[g] : pool;

    for (int64_t k = 1; k < g; k++)
        id += (a->begin.v[k] - a->begin.v[k - 1]) / k;
    for (int64_t p = a->begin.v[g - 1]; p < end; p += g, id++)
        for (int64_t i = 0; i + (g - 1) * step < len; i++) {
            int64_t k = 0;

            while (k < g && equal(a, x, at + i + k * step, p + k))
                k++;
            if (k == g)
                y[a->index.v[id]]++;
        }
}

static void weigh(const struct vectorizer *a, float *y)
{
    if (!strcmp(a->mode, "TF"))
        return;
    for (int i = 0; i < a->index.n; i++) {
        float *v = &y[a->index.v[i]], w = a->weight.n ? (float)a->weight.v[i] : 1;

        *v = !strcmp(a->mode, "IDF") ? (*v > 0 ? w : 0) : *v * w;
    }
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct vectorizer *a = n->attr;
    const struct pare_tensor *x = &n->in[0]->t;
    struct pare_tensor *y = &n->out[0]->t;
    int64_t rows = x->rank == 2 ? x->dim[0] : 1, len = x->dim[x->rank - 1];
    int64_t width = y->dim[y->rank - 1];

    (void)c, (void)err;
    memset(y->data, 0, (size_t)pare_numel(y) * sizeof(float));
    for (int64_t r = 0; r < rows; r++) {
        float *to = pare_f32_mut(y) + r * width;

        for (int64_t g = a->min; g <= a->max; g++)
            for (int64_t step = 1; step <= (g > 1 ? a->skip + 1 : 1) && (g - 1) * step < len;
                 step++)
                count(a, x, r * len, len, g, step, to);
        weigh(a, to);
    }
    return 0;
}

const struct pare_op pare_op_tf_idf_vectorizer = {
    .type = "TfIdfVectorizer",
    .doc = "Count the n-grams of a list, with weights.",
    .since = 9,
    .in = "A",
    .min_out = 1,
    .max_out = 1,
    .attrs = tf_idf_vectorizer_attrs,
    .attr_size = sizeof(struct vectorizer),
    .flags = PARE_OP_STEPS,
    .infer = infer,
    .forward = forward,
};
