/* wav.h - WAV files: PCM of 8 to 32 bits, float32, float64; any number of channels. */
#ifndef PARE_DATA_WAV_H
#define PARE_DATA_WAV_H

#include <pare/pare.h>

struct pare_wav {
    int64_t rate, channels, frames; /* samples per second and channel; samples per channel */
    int bytes;                      /* of a sample */
    bool is_float;
    const unsigned char *data; /* NULL: only the header was given */
};

/* Parse a file of `size` bytes, of which the first `len` are given. */
int pare_wav_parse(const void *bytes, size_t len, size_t size, struct pare_wav *w,
                   struct pare_err *err);

/* Samples of channel c, -1 to 1, to out (frames). */
void pare_wav_channel(const struct pare_wav *w, int64_t c, float *out);

#endif
