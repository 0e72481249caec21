/* winograd_points.h - one-dimensional transforms of Winograd's F(4x4, 3x3), at the points 0, p, -p,
 * q, -q and infinity.
 *
 * For vectors of type VEC, which the file that includes this one defines, as it does PART, the
 * attributes of a function that is inlined.  sd and so are the strides of elements.
 */

#ifdef VEC

/* o = B' d, six from six. */
PART void input6(const VEC *d, int sd, VEC *o, int so, const float p, const float q)
{
    const float P = p * p, Q = q * q;
    VEC a = d[0], b = d[sd], c = d[2 * sd], e = d[3 * sd], f = d[4 * sd], g = d[5 * sd];
    VEC even = f - Q * c, odd = p * (e - Q * b), r = f - P * c, s = q * (e - P * b);

    o[0] = P * Q * a - (P + Q) * c + f;
    o[so] = even + odd;
    o[2 * so] = even - odd;
    o[3 * so] = r + s;
    o[4 * so] = r - s;
    o[5 * so] = P * Q * b - (P + Q) * e + g;
}

/* o = A' d, four from six. */
PART void output4(const VEC *d, int sd, VEC *o, int so, const float p, const float q)
{
    const float P = p * p, Q = q * q;
    VEC a = d[0], b = d[sd], c = d[2 * sd], e = d[3 * sd], f = d[4 * sd], g = d[5 * sd];
    VEC even = b + c, odd = b - c, r = e + f, s = e - f;

    o[0] = a + even + r;
    o[so] = p * odd + q * s;
    o[2 * so] = P * even + Q * r;
    o[3 * so] = g + P * p * odd + Q * q * s;
}

/* o = A d, six from four. */
PART void spread6(const VEC *d, int sd, VEC *o, int so, const float p, const float q)
{
    const float P = p * p, Q = q * q;
    VEC a = d[0], b = d[sd], c = d[2 * sd], e = d[3 * sd];
    VEC even = a + P * c, odd = p * b + P * p * e, r = a + Q * c, s = q * b + Q * q * e;

    o[0] = a;
    o[so] = even + odd;
    o[2 * so] = even - odd;
    o[3 * so] = r + s;
    o[4 * so] = r - s;
    o[5 * so] = e;
}

/* o = G w, six from three. */
PART void filter6_at(const VEC *w, int sw, VEC *o, int so, const float p, const float q)
{
    const float P = p * p, Q = q * q, x = 1 / (2 * P * (P - Q)), y = 1 / (2 * Q * (Q - P));
    VEC a = w[0], b = w[sw], c = w[2 * sw];
    VEC even = (a + P * c) * x, odd = b * (p * x), r = (a + Q * c) * y, s = b * (q * y);

    o[0] = a * (1 / (P * Q));
    o[so] = even + odd;
    o[2 * so] = even - odd;
    o[3 * so] = r + s;
    o[4 * so] = r - s;
    o[5 * so] = c;
}

/* o = G' u, three from six. */
PART void unfilter3_at(const VEC *u, int su, VEC *o, int so, const float p, const float q)
{
    const float P = p * p, Q = q * q, x = 1 / (2 * P * (P - Q)), y = 1 / (2 * Q * (Q - P));
    VEC a = u[0], b = u[su], c = u[2 * su], d = u[3 * su], e = u[4 * su], f = u[5 * su];
    VEC first = (b + c) * x, second = (d + e) * y;

    o[0] = a * (1 / (P * Q)) + first + second;
    o[so] = (b - c) * (p * x) + (d - e) * (q * y);
    o[2 * so] = f + P * first + Q * second;
}

#endif
