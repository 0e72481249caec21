#!/usr/bin/env python3
"""fit_vmath.py - compute the polynomial coefficients of src/tensor/vmath.h.

Each function is a polynomial p that minimizes max |w(x) (f(x) - p(x))| over an interval, found by
Lawson's iteration (least squares, reweighted by the error) on a Chebyshev grid in float64, with f
from mpmath.  Coefficients are then rounded to float32 one by one, lowest degree first, and the
higher ones are fitted again after each rounding, so that rounding errors do not add up.

usage: fit_vmath.py
"""
import mpmath as mp
import numpy as np

mp.mp.dps = 40


def minimax(x, f, w, powers):
    """Coefficients c that nearly minimize max |w (f - sum c_k x^powers_k)| over the grid x."""
    a = np.stack([x ** p for p in powers], axis=1) * w[:, None]
    b = f * w
    lawson = np.ones_like(x)
    best = None
    for _ in range(300):
        r = np.sqrt(lawson)
        c = np.linalg.lstsq(a * r[:, None], b * r, rcond=None)[0]
        e = np.abs(b - a @ c)
        if best is None or e.max() < best[0]:
            best = e.max(), c
        lawson *= e / e.max() + 1e-12
        lawson /= lawson.sum()
    return best[1]


def fit(name, f, lo, hi, powers, w=None, points=1001):
    x = lo + (hi - lo) * (1 - np.cos(np.pi * (np.arange(points) + 0.5) / points)) / 2
    y = np.array([float(f(mp.mpf(v))) for v in x])
    weight = np.ones_like(x) if w is None else np.array([float(w(mp.mpf(v))) for v in x])
    fixed, rest, left = [], list(powers), y.copy()
    while rest:
        c = minimax(x, left, weight, rest)
        fixed.append(float(np.float32(c[0])))
        left = left - fixed[-1] * x ** rest.pop(0)
    print(f"{name} on [{lo:.6g}, {hi:.6g}]: error {np.max(np.abs(left * weight)):.2e}")
    for p, c in zip(powers, fixed):
        print(f"    x^{p}: {np.float32(c).item().hex()}f  {np.float32(c):.9g}")


def main():
    half = float(mp.log(2) / 2) * 1.001

    # exp(r) = 1 + r + r^2 q(r); the weight makes it relative to exp(r)
    fit("exp q", lambda r: (mp.expm1(r) - r) / r ** 2 if r else mp.mpf("0.5"), -half, half,
        range(0, 5), lambda r: r ** 2 / mp.exp(r))

    # log(1 + f) = f - f^2 / 2 + f^3 q(f), relative to log(1 + f)
    fit("log q", lambda f: (mp.log1p(f) - f + f ** 2 / 2) / f ** 3, 0.5 ** 0.5 - 1,
        2 ** 0.5 - 1, range(0, 9), lambda f: abs(f ** 3 / mp.log1p(f)))

    # log(1 + e) = s (2 + z q(z)) with s = e / (2 + e), z = s^2 in [0, 1/9]
    fit("log1p q", lambda z: (mp.log((1 + mp.sqrt(z)) / (1 - mp.sqrt(z))) / mp.sqrt(z) - 2) / z,
        1e-9, 1 / 9, range(0, 4), lambda z: z / 2)

    # tanh(x) = x + x z q(z), z = x^2, |x| <= 0.625
    fit("tanh q", lambda z: (mp.tanh(mp.sqrt(z)) / mp.sqrt(z) - 1) / z, 1e-9, 0.625 ** 2,
        range(0, 5), lambda z: z)

    # erf(x) = x + x q(z), z = x^2, |x| <= 0.9
    fit("erf q", lambda z: mp.erf(mp.sqrt(z)) / mp.sqrt(z) - 1, 1e-9, 0.9 ** 2, range(0, 7),
        lambda z: mp.sqrt(z) / mp.erf(mp.sqrt(z)))

    # Q(a) = P(N(0, 1) > a) = exp(-a^2 / 2) g(t) with t = 1 / (1 + a / 3.5), relative to g.
    # Above a = 15, Q(a) is zero in float32.
    def g(t):
        a = mp.mpf(3.5) * (1 / t - 1)
        return mp.erfc(a / mp.sqrt(2)) * mp.exp(a * a / 2) / 2

    fit("tail g", g, 1 / (1 + 15 / 3.5), 1, range(1, 11), lambda t: 1 / g(t))

    # src/backend/rows/post_ops_loops.h: P(N(0, 1) < x) = 1/2 + x q(s) with s = 2 (x / 5.45)^2 - 1,
    # nearly as an absolute error
    def root(s):
        return mp.mpf("5.45") * mp.sqrt((s + 1) / 2)

    fit("gauss q", lambda s: (mp.ncdf(root(s)) - mp.mpf(1) / 2) / root(s), -1, 1, range(0, 15),
        lambda s: root(s) + mp.mpf("0.05"))


main()
