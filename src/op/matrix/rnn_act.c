/* rnn_act.c - activation functions of RNN, GRU and LSTM, and their derivatives. */
#include "rnn_family.h"

#include <strings.h>

#include "../../tensor/vmath.h"

#define ACT(name, expr)                                                      \
    PARE_SIMD static void name(float *v, int64_t n, float alpha, float beta) \
    {                                                                        \
        (void)alpha, (void)beta;                                             \
        for (int64_t i = 0; i < n; i++) {                                    \
            float x = v[i];                                                  \
                                                                             \
            v[i] = (expr);                                                   \
        }                                                                    \
    }
ACT(act_relu, x > 0 ? x : 0)
ACT(act_tanh, pare_tanhf(x))
ACT(act_sigmoid, pare_sigmoidf(x))
ACT(act_affine, alpha *x + beta)
ACT(act_leaky_relu, x >= 0 ? x : alpha * x)
ACT(act_thresholded_relu, x >= alpha ? x : 0)
ACT(act_scaled_tanh, alpha *pare_tanhf(beta *x))
ACT(act_hard_sigmoid, alpha *x + beta < 0 ? 0 : alpha * x + beta > 1 ? 1 : alpha * x + beta)
ACT(act_elu, x >= 0 ? x : alpha * pare_expm1f(x))
ACT(act_softsign, x / (1 + fabsf(x)))
ACT(act_softplus, pare_softplusf(x))

#define SLOPE(name, expr)                                                                          \
    PARE_SIMD static void name(const float *vx, const float *vy, float *g, int64_t n, float alpha, \
                               float beta)                                                         \
    {                                                                                              \
        (void)alpha, (void)beta;                                                                   \
        for (int64_t i = 0; i < n; i++) {                                                          \
            float x = vx[i], y = vy[i];                                                            \
                                                                                                   \
            (void)x, (void)y;                                                                      \
            g[i] *= (expr);                                                                        \
        }                                                                                          \
    }
SLOPE(slope_relu, x > 0 ? 1 : 0)
SLOPE(slope_tanh, 1 - y * y)
SLOPE(slope_sigmoid, y *(1 - y))
SLOPE(slope_affine, alpha)
SLOPE(slope_leaky_relu, x >= 0 ? 1 : alpha)
SLOPE(slope_thresholded_relu, x >= alpha ? 1 : 0)
SLOPE(slope_scaled_tanh, alpha *beta *(1 - pare_tanhf(beta * x) * pare_tanhf(beta * x)))
SLOPE(slope_hard_sigmoid, y > 0 && y < 1 ? alpha : 0)
SLOPE(slope_elu, x >= 0 ? 1 : y + alpha)
SLOPE(slope_softsign, 1 / ((1 + fabsf(x)) * (1 + fabsf(x))))
SLOPE(slope_softplus, pare_sigmoidf(x))

static const struct {
    const char *name;
    int params;              /* number of parameters: alpha, beta */
    struct pare_rnn_act act; /* default parameters */
} acts[] = {
    { "Relu", 0, { act_relu, slope_relu, 0, 0, 0 } },
    { "Tanh", 0, { act_tanh, slope_tanh, 0, 0, 0 } },
    { "Sigmoid", 0, { act_sigmoid, slope_sigmoid, 0, 0, 0 } },
    { "Affine", 2, { act_affine, slope_affine, 1, 0, 0 } },
    { "LeakyRelu", 1, { act_leaky_relu, slope_leaky_relu, 0.01f, 0, 0 } },
    { "ThresholdedRelu", 1, { act_thresholded_relu, slope_thresholded_relu, 1, 0, 0 } },
    { "ScaledTanh", 2, { act_scaled_tanh, slope_scaled_tanh, 1, 1, 0 } },
    { "HardSigmoid", 2, { act_hard_sigmoid, slope_hard_sigmoid, 0.2f, 0.5f, 0 } },
    { "Elu", 1, { act_elu, slope_elu, 1, 0, 0 } },
    { "Softsign", 0, { act_softsign, slope_softsign, 0, 0, 0 } },
    { "Softplus", 0, { act_softplus, slope_softplus, 0, 0, 0 } },
};

static int find_act(const char *name, int *at, struct pare_err *err)
{
    int count = (int)(sizeof(acts) / sizeof(*acts));

    for (*at = 0; *at < count; (*at)++)
        if (!strcasecmp(acts[*at].name, name))
            return 0;
    return pare_fail(err, PARE_EUNSUPPORTED, "activation '%s' is not supported", name);
}

/* The lists of alphas and betas have entries only for activations with such a parameter. */
int pare_rnn_acts(const struct pare_rnn *a, const struct pare_rnn_cell *cell, int dirs,
                  struct pare_rnn_act *out, struct pare_err *err)
{
    int given = a->activations.n, alpha = 0, beta = 0, at;

    if (given && given != cell->n_act && given != cell->n_act * dirs)
        return pare_fail(err, PARE_ESHAPE, "%d activations are given, expected %d", given,
                         cell->n_act * dirs);
    for (int i = 0; i < cell->n_act * dirs; i++) {
        if (i == given && given) { /* activations of one direction apply to both */
            memcpy(out + i, out, (size_t)cell->n_act * sizeof(*out));
            break;
        }
        PARE_TRY(find_act(given ? a->activations.v[i] : cell->act[i % cell->n_act], &at, err));
        out[i] = acts[at].act;
        out[i].clip = (float)a->clip;
        if (acts[at].params > 0 && alpha < a->activation_alpha.n)
            out[i].alpha = (float)a->activation_alpha.v[alpha++];
        if (acts[at].params > 1 && beta < a->activation_beta.n)
            out[i].beta = (float)a->activation_beta.v[beta++];
    }
    return 0;
}

void pare_rnn_activate(const struct pare_rnn_act *act, float *v, int64_t n)
{
    float clip = act->clip;

    for (int64_t i = 0; clip > 0 && i < n; i++)
        v[i] = v[i] > clip ? clip : v[i] < -clip ? -clip : v[i];
    act->f(v, n, act->alpha, act->beta);
}

void pare_rnn_slope(const struct pare_rnn_act *act, const float *x, const float *y, float *g,
                    int64_t n)
{
    float clip = act->clip;

    act->slope(x, y, g, n, act->alpha, act->beta);
    for (int64_t i = 0; clip > 0 && i < n; i++)
        g[i] = x[i] > clip || x[i] < -clip ? 0 : g[i];
}
