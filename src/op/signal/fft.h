/* fft.h - fast Fourier transform of any length, in double. */
#ifndef PARE_OP_SIGNAL_FFT_H
#define PARE_OP_SIGNAL_FFT_H

#include "../op.h"

/* The tables for one length: radix 2 for powers of two, else Bluestein's algorithm, a convolution
 * computed with a transform whose length is a power of two. */
struct pare_fft {
    int64_t n, m;    /* the length; the power of two that is computed */
    double *turn;    /* exp(-2 pi i k / m), k < m / 2; complex numbers are (real, imaginary) */
    double *chirp;   /* exp(-pi i k^2 / n), k < n; NULL if n is m */
    double *kernel;  /* the transform of conj(chirp), periodic with m; NULL if n is m */
    double *scratch; /* (m); NULL if n is m */
};

/* n >= 1; memory comes from the arena, proportional to n. */
int pare_fft_init(struct pare_fft *f, int64_t n, struct pare_arena *a, struct pare_err *err);

/* x[k] = sum over j of x[j] exp(-2 pi i j k / n), in place; `inverse`: exp(2 pi i j k / n) without
 * the factor 1 / n. */
void pare_fft_run(const struct pare_fft *f, double *x, bool inverse);

/* Element i of a float32 or float64 array. */
static inline double pare_fft_get(const struct pare_tensor *t, int64_t i)
{
    return t->dtype == PARE_F64 ? ((const double *)t->data)[i] : (double)pare_f32(t)[i];
}

static inline void pare_fft_put(const struct pare_tensor *t, int64_t i, double v)
{
    if (t->dtype == PARE_F64)
        ((double *)t->data)[i] = v;
    else
        pare_f32_mut(t)[i] = (float)v;
}

/* The number in input i, a scalar or a list of one; `absent` without that input.  For infer() and
 * kernels: fails if it is not one number, PARE_EDYNAMIC if it is not known yet. */
int pare_signal_number(const struct pare_node *n, int i, const char *name, int64_t absent,
                       int64_t *v, struct pare_err *err);

#endif
