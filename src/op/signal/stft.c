/* stft.c - STFT: the short-time Fourier transform, the spectra of overlapping frames of a signal.
 *
 * Frame f of the signal (N, length, 1 or 2) has the elements from f * frame_step on, multiplied
 * with the window; the result is (N, frames, bins, 2).
 */
#include "fft.h"

enum { SIGNAL, STEP, WINDOW, LENGTH };

struct stft {
    int64_t onesided;
};

static const struct pare_opt attrs[] = { PARE_INT("onesided", offsetof(struct stft, onesided),
                                                  "1: only the first half of each spectrum", 1, 0,
                                                  1),
                                         PARE_OPT_END };

struct shape {
    int64_t batch, length, step, size, frames, bins;
    int parts; /* of a number of the signal */
};

static const struct pare_tensor *window(const struct pare_node *n)
{
    return n->n_in > WINDOW && n->in[WINDOW] ? &n->in[WINDOW]->t : NULL;
}

static int find_shape(const struct pare_node *n, struct shape *s, struct pare_err *err)
{
    const struct stft *a = n->attr;
    const struct pare_tensor *x = &n->in[SIGNAL]->t, *w = window(n);
    char bx[PARE_SHAPE_TEXT], bw[PARE_SHAPE_TEXT];

    s->parts = x->rank == 3 && x->dim[2] == 2 ? 2 : 1;
    if (x->rank < 2 || x->rank > 3 || (x->rank == 3 && x->dim[2] != s->parts))
        return pare_fail(err, PARE_ESHAPE,
                         "the signal is %s, expected (N, length, 1) or (N, length, 2)",
                         pare_shape_text(x, bx, sizeof(bx)));
    if (w && w->rank != 1)
        return pare_fail(err, PARE_ESHAPE, "the window is %s, must have one dimension",
                         pare_shape_text(w, bw, sizeof(bw)));
    if (a->onesided && s->parts == 2)
        return pare_fail(err, PARE_ESHAPE, "the signal %s is complex; onesided needs a real signal",
                         pare_shape_text(x, bx, sizeof(bx)));
    s->batch = x->dim[0];
    s->length = x->dim[1];
    PARE_TRY(pare_signal_number(n, STEP, "frame_step", 1, &s->step, err));
    PARE_TRY(
        pare_signal_number(n, LENGTH, "frame_length", w ? w->dim[0] : s->length, &s->size, err));
    if (w && w->dim[0] != s->size)
        return pare_fail(err, PARE_ESHAPE,
                         "the window has %lld elements but frame_length is %lld, expected the same",
                         (long long)w->dim[0], (long long)s->size);
    if (s->size < 1 || s->size > s->length || s->step < 1)
        return pare_fail(err, PARE_ESHAPE,
                         "frames of %lld elements in steps of %lld do not fit a signal of %lld",
                         (long long)s->size, (long long)s->step, (long long)s->length);
    s->frames = (s->length - s->size) / s->step + 1;
    s->bins = a->onesided ? s->size / 2 + 1 : s->size;
    return 0;
}

static int infer(struct pare_node *n, struct pare_err *err)
{
    struct shape s;

    PARE_TRY(find_shape(n, &s, err));
    return pare_shape_set(&n->out[0]->t, n->in[SIGNAL]->t.dtype, 4,
                          (int64_t[]){ s.batch, s.frames, s.bins, 2 }, err);
}

static double weight(const struct pare_node *n, int64_t k)
{
    return window(n) ? pare_fft_get(window(n), k) : 1;
}

static int start(const struct shape *s, struct pare_ctx *c, struct pare_fft *f, double **v,
                 struct pare_err *err)
{
    PARE_TRY(pare_fft_init(f, s->size, c->scratch, err));
    *v = pare_alloc(c->scratch, (size_t)s->size, 2 * sizeof(**v));
    return *v ? 0 : pare_no_memory(err, "for a frame of %lld elements", (long long)s->size);
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct pare_tensor *x = &n->in[SIGNAL]->t, *y = &n->out[0]->t;
    struct pare_fft f;
    struct shape s;
    double *v;

    PARE_TRY(find_shape(n, &s, err));
    if (!s.batch)
        return 0;
    PARE_TRY(start(&s, c, &f, &v, err));
    for (int64_t i = 0; i < s.batch * s.frames; i++) {
        int64_t from = i / s.frames * s.length + i % s.frames * s.step;

        for (int64_t k = 0; k < s.size; k++) {
            double w = weight(n, k);

            v[2 * k + 1] = 0;
            for (int p = 0; p < s.parts; p++)
                v[2 * k + p] = w * pare_fft_get(x, (from + k) * s.parts + p);
        }
        pare_fft_run(&f, v, false);
        for (int64_t k = 0; k < 2 * s.bins; k++)
            pare_fft_put(y, i * 2 * s.bins + k, v[k]);
    }
    return 0;
}

/* With g the adjoint of the transform of gy: gx = w g, gw = x g. */
static int backward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const float *x = pare_f32(&n->in[SIGNAL]->t), *gy = pare_f32(&n->out[0]->grad);
    float *gx = pare_f32_mut(&n->in[SIGNAL]->grad);
    float *gw = window(n) ? pare_f32_mut(&n->in[WINDOW]->grad) : NULL;
    struct pare_fft f;
    struct shape s;
    double *v;

    PARE_TRY(find_shape(n, &s, err));
    if (!gy || !s.batch)
        return 0;
    PARE_TRY(start(&s, c, &f, &v, err));
    for (int64_t i = 0; (gx || gw) && i < s.batch * s.frames; i++) {
        int64_t from = i / s.frames * s.length + i % s.frames * s.step;

        memset(v, 0, (size_t)s.size * 2 * sizeof(*v));
        for (int64_t k = 0; k < 2 * s.bins; k++)
            v[k] = (double)gy[i * 2 * s.bins + k];
        pare_fft_run(&f, v, true);
        for (int64_t k = 0; k < s.size; k++)
            for (int p = 0; p < s.parts; p++) {
                int64_t at = (from + k) * s.parts + p;

                if (gx)
                    gx[at] += (float)(weight(n, k) * v[2 * k + p]);
                if (gw)
                    gw[k] += (float)((double)x[at] * v[2 * k + p]);
            }
    }
    return 0;
}

static void ties(const struct pare_node *n, struct pare_ties *t)
{
    pare_tie(t, n->in[SIGNAL], 0, n->out[0], 0);
}

const struct pare_op pare_op_stft = {
    .type = "STFT",
    .doc = "Fourier transforms of overlapping frames of a signal.",
    .since = 17,
    .in = "TIT?I?",
    .types = PARE_T_FLOATS,
    .min_out = 1,
    .max_out = 1,
    .attrs = attrs,
    .attr_size = sizeof(struct stft),
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .ties = ties,
    .settings = PARE_IN(STEP) | PARE_IN(WINDOW) | PARE_IN(LENGTH),
    .flags = PARE_OP_FLOAT_ONLY,
};
