/* fft.c - fast Fourier transform of any length: radix 2 and Bluestein's algorithm. */
#include "fft.h"

#include <math.h>

#include "../../base/limits.h"

#define PI 3.14159265358979323846

static double *complexes(struct pare_arena *a, int64_t n)
{
    return pare_alloc(a, (size_t)n, 2 * sizeof(double));
}

static void swap(double *x, int64_t i, int64_t k)
{
    for (int p = 0; p < 2; p++) {
        double t = x[2 * i + p];

        x[2 * i + p] = x[2 * k + p];
        x[2 * k + p] = t;
    }
}

/* Reorder by reversed bits. */
static void reorder(double *x, int64_t m)
{
    for (int64_t i = 1, k = 0; i < m; i++) {
        int64_t bit = m >> 1;

        for (; k & bit; bit >>= 1)
            k ^= bit;
        k |= bit;
        if (i < k)
            swap(x, i, k);
    }
}

/* Cooley and Tukey's algorithm, m a power of two. */
static void radix2(const double *turn, int64_t m, double *x)
{
    reorder(x, m);
    for (int64_t half = 1; half < m; half *= 2)
        for (int64_t at = 0; at < m; at += 2 * half)
            for (int64_t k = 0; k < half; k++) {
                double *a = x + 2 * (at + k), *b = a + 2 * half;
                const double *w = turn + 2 * (k * (m / half / 2));
                double re = b[0] * w[0] - b[1] * w[1], im = b[0] * w[1] + b[1] * w[0];

                b[0] = a[0] - re;
                b[1] = a[1] - im;
                a[0] += re;
                a[1] += im;
            }
}

static void conjugate(double *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        x[2 * i + 1] = -x[2 * i + 1];
}

/* k^2 modulo 2 n without overflow: (k + 1)^2 = k^2 + 2 k + 1. */
static void fill_chirp(struct pare_fft *f)
{
    int64_t square = 0;

    for (int64_t k = 0; k < f->n; k++) {
        double angle = PI * (double)square / (double)f->n;

        f->chirp[2 * k] = cos(angle);
        f->chirp[2 * k + 1] = -sin(angle);
        square = (square + 2 * k + 1) % (2 * f->n);
    }
    for (int64_t k = 0; k < f->n; k++)
        for (int p = 0; p < 2; p++) {
            double v = p ? -f->chirp[2 * k + 1] : f->chirp[2 * k];

            f->kernel[2 * k + p] = v;
            f->kernel[2 * ((f->m - k) % f->m) + p] = v;
        }
    radix2(f->turn, f->m, f->kernel);
}

int pare_fft_init(struct pare_fft *f, int64_t n, struct pare_arena *a, struct pare_err *err)
{
    bool power = !(n & (n - 1));

    *f = (struct pare_fft){ .n = n, .m = 1 };
    if (n > PARE_MAX_ELEMENTS)
        return pare_fail(err, PARE_ELIMIT, "a transform of length %lld is too long", (long long)n);
    while (f->m < (power ? n : 2 * n - 1))
        f->m *= 2;
    f->turn = complexes(a, f->m / 2 + 1);
    if (!power) {
        f->chirp = complexes(a, n);
        f->kernel = complexes(a, f->m);
        f->scratch = complexes(a, f->m);
    }
    if (!f->turn || (!power && (!f->chirp || !f->kernel || !f->scratch)))
        return pare_no_memory(err, "for a transform of length %lld", (long long)n);
    for (int64_t k = 0; k < f->m / 2; k++) {
        f->turn[2 * k] = cos(2 * PI * (double)k / (double)f->m);
        f->turn[2 * k + 1] = -sin(2 * PI * (double)k / (double)f->m);
    }
    if (!power)
        fill_chirp(f);
    return 0;
}

/* y = a b, complex. */
static void multiply(const double *a, const double *b, double *y, int64_t n)
{
    for (int64_t i = 0; i < 2 * n; i += 2) {
        double re = a[i] * b[i] - a[i + 1] * b[i + 1];

        y[i + 1] = a[i] * b[i + 1] + a[i + 1] * b[i];
        y[i] = re;
    }
}

/* j k = (j^2 + k^2 - (k - j)^2) / 2, so that the sum is a convolution with the chirp. */
static void bluestein(const struct pare_fft *f, double *x)
{
    multiply(x, f->chirp, f->scratch, f->n);
    memset(f->scratch + 2 * f->n, 0, (size_t)(f->m - f->n) * 2 * sizeof(double));
    radix2(f->turn, f->m, f->scratch);
    multiply(f->scratch, f->kernel, f->scratch, f->m);
    conjugate(f->scratch, f->m);
    radix2(f->turn, f->m, f->scratch);
    conjugate(f->scratch, f->n);
    multiply(f->scratch, f->chirp, x, f->n);
    for (int64_t i = 0; i < 2 * f->n; i++)
        x[i] /= (double)f->m;
}

void pare_fft_run(const struct pare_fft *f, double *x, bool inverse)
{
    if (inverse)
        conjugate(x, f->n);
    if (f->chirp)
        bluestein(f, x);
    else
        radix2(f->turn, f->m, x);
    if (inverse)
        conjugate(x, f->n);
}

int pare_signal_number(const struct pare_node *n, int i, const char *name, int64_t absent,
                       int64_t *v, struct pare_err *err)
{
    const struct pare_tensor *t = i < n->n_in && n->in[i] ? &n->in[i]->t : NULL;

    *v = absent;
    if (!t)
        return 0;
    if (t->rank > 1 || pare_numel(t) != 1)
        return pare_fail(err, PARE_ESHAPE, "%s has %lld elements, must be one number", name,
                         (long long)pare_numel(t));
    PARE_TRY(pare_need(n, i, err));
    *v = pare_get_int(t, 0);
    return 0;
}
