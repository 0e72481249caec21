/* wav.c - WAV files: RIFF chunks, PCM of 8 to 32 bits, float32 and float64. */
#include "wav.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "../base/limits.h"

enum { PCM = 1, FLOAT = 3, EXTENSIBLE = 0xfffe };

static uint32_t number(const unsigned char *p, int bytes)
{
    uint32_t v = 0;

    for (int i = bytes - 1; i >= 0; i--)
        v = v << 8 | p[i];
    return v;
}

static int read_format(const unsigned char *p, size_t n, struct pare_wav *w, struct pare_err *err)
{
    uint32_t kind, bits;

    if (n < 16)
        return pare_fail(err, PARE_EFORMAT, "its format chunk is cut off");
    kind = number(p, 2);
    if (kind == EXTENSIBLE && n >= 26)
        kind = number(p + 24, 2);
    bits = number(p + 14, 2);
    w->channels = number(p + 2, 2);
    w->rate = number(p + 4, 4);
    w->bytes = (int)(bits / 8);
    w->is_float = kind == FLOAT;
    if ((kind != PCM && kind != FLOAT) || (kind == FLOAT && bits != 32 && bits != 64) ||
        (kind == PCM && (bits % 8 || bits < 8 || bits > 32)))
        return pare_fail(err, PARE_EUNSUPPORTED,
                         "its samples have format %u with %u bits, PCM of 8, 16, 24 or 32 bits, "
                         "float32 and float64 are supported: convert the file, for example with "
                         "'ffmpeg -i IN -c:a pcm_s16le OUT.wav'",
                         kind, bits);
    if (w->channels < 1 || w->channels > PARE_WAV_CHANNELS || !w->rate)
        return pare_fail(err, PARE_EFORMAT, "it has %lld channels and %lld samples per second",
                         (long long)w->channels, (long long)w->rate);
    return 0;
}

int pare_wav_parse(const void *bytes, size_t len, size_t size, struct pare_wav *w,
                   struct pare_err *err)
{
    const unsigned char *p = bytes;
    size_t at = 12;

    *w = (struct pare_wav){ 0 };
    if (len >= 12 && (!memcmp(p, "RIFX", 4) || !memcmp(p, "RF64", 4)))
        return pare_fail(err, PARE_EUNSUPPORTED,
                         "is a WAV file of the kind %.4s, only RIFF is supported: convert the "
                         "file, for example with 'ffmpeg -i IN OUT.wav'",
                         (const char *)p);
    if (len < 12 || memcmp(p, "RIFF", 4) || memcmp(p + 8, "WAVE", 4))
        return pare_fail(err, PARE_EFORMAT, "is not a WAV file");
    while (at + 8 <= len) {
        size_t n = number(p + at + 4, 4), here = at + 8;

        if (!memcmp(p + at, "data", 4)) {
            if (!w->channels)
                return pare_fail(err, PARE_EFORMAT, "its samples come before their format");
            n = n < size - here ? n : size - here; /* streams write no length */
            w->frames = (int64_t)(n / ((size_t)w->channels * (size_t)w->bytes));
            w->data = len == size ? p + here : NULL;
            return w->frames ? 0 : pare_fail(err, PARE_EFORMAT, "it has no samples");
        }
        if (!memcmp(p + at, "fmt ", 4))
            PARE_TRY(read_format(p + here, n < len - here ? n : len - here, w, err));
        if (n + (n & 1) > size - here)
            break;
        at = here + n + (n & 1);
    }
    return pare_fail(err, PARE_EFORMAT, "it has no samples");
}

static float sample(const struct pare_wav *w, const unsigned char *p)
{
    uint32_t v = number(p, w->bytes == 8 ? 4 : w->bytes);
    double wide;
    float f;

    if (w->is_float && w->bytes == 8) {
        uint64_t all = (uint64_t)number(p + 4, 4) << 32 | v;

        memcpy(&wide, &all, sizeof(wide));
        return fabs(wide) <= FLT_MAX ? (float)wide : 0;
    }
    if (w->is_float) {
        memcpy(&f, &v, sizeof(f));
        return isfinite(f) ? f : 0;
    }
    if (w->bytes == 1)
        return ((float)v - 128) / 128;
    v <<= 32 - 8 * w->bytes; /* the sign is the highest bit */
    return (float)(v < 0x80000000u ? (double)v : (double)v - 4294967296.0) / 2147483648.0f;
}

void pare_wav_channel(const struct pare_wav *w, int64_t c, float *out)
{
    for (int64_t i = 0; i < w->frames; i++)
        out[i] = sample(w, w->data + (size_t)(i * w->channels + c) * (size_t)w->bytes);
}
