/* wav_folder.c - WAV files in a folder per class, or in one folder without labels.
 *
 * An item is (samples), or (channels, samples) of files with several channels.  Files of one set
 * have the same rate and number of channels.  Files of different lengths are padded (option
 * 'fill'), or run one by one.
 */
#include <stdlib.h>
#include <string.h>

#include "class_folder.h"
#include "wav.h"
#include "../base/arena.h"
#include "../io/file.h"

#define HEAD 4096 /* bytes that are read of each file at first */

static const char *const suffixes[] = { ".wav", NULL };
static const char *const others[] = { ".mp3", ".flac", ".ogg", ".aif", ".aiff", ".m4a", NULL };
static const struct pare_file_kind sounds = {
    suffixes, others, "sounds (.wav)",
    "only WAV is supported: convert the file, for example with "
    "'ffmpeg -i IN OUT.wav'"
};

struct set {
    struct pare_file_list list; /* first: parts->priv is also that list */
    struct pare_wav first;      /* format of every file */
    bool mono;                  /* mix the channels */
    float fill;                 /* after shorter files */
};

static bool probe(struct pare_data *d, const char *path)
{
    return pare_class_folder_probe(d, path, &sounds, true);
}

/* The header of a file; all of the file only if the header is long. */
static int look(struct pare_arena *tmp, const char *path, struct pare_wav *w, struct pare_err *err)
{
    struct pare_mark m = pare_mark(tmp);
    char *head = pare_alloc(tmp, HEAD, 1);
    struct pare_file_metadata f;
    struct pare_err ignored;
    const void *bytes;
    size_t len;
    int rc;

    if (!head)
        return pare_no_memory(err, "for a file");
    rc = pare_file_look(path, head, HEAD, &f, err);
    if (!rc && pare_wav_parse(head, f.head, f.size, w, &ignored)) {
        rc = pare_file_read(tmp, path, &bytes, &len, err);
        if (!rc)
            rc = pare_wav_parse(bytes, len, len, w, err);
    }
    pare_rewind(tmp, m);
    w->data = NULL;
    return pare_at(err, rc, "%s", path);
}

static int check_same(const struct pare_data *d, const struct set *s, const char *path,
                      const struct pare_wav *w, struct pare_err *err)
{
    int64_t rate = d->opts.rate ? d->opts.rate : s->first.rate;

    if (w->rate != rate)
        return pare_fail(err, PARE_EUNSUPPORTED,
                         "%s: %lld samples per second, expected %lld: resample the file", path,
                         (long long)w->rate, (long long)rate);
    if (!s->mono && w->channels != s->first.channels)
        return pare_fail(err, PARE_ESHAPE,
                         "%s: %lld channel%s, the first file has %lld; --mono mixes them", path,
                         (long long)w->channels, w->channels == 1 ? "" : "s",
                         (long long)s->first.channels);
    return 0;
}

/* The number of samples that the model takes; 0: any. */
static int64_t model_length(const struct pare_data *d)
{
    const struct pare_io *io = d->parts->io;

    return d->parts->n_io == 1 && io->rank > 1 && io->dim[io->rank - 1] > 0 ? io->dim[io->rank - 1]
                                                                            : 0;
}

static int find_length(struct pare_data *d, struct set *s, int64_t *length, struct pare_err *err)
{
    int64_t takes = model_length(d), shortest = INT64_MAX;
    int longest = 0, shorter = 0;
    bool differ = false;

    *length = takes;
    for (int i = 0; i < s->list.n; i++) {
        struct pare_wav w;

        PARE_TRY(pare_open_progress(d, "look at file", i, s->list.n, err));
        PARE_TRY(look(d->parts->tmp, s->list.path[i], &w, err));
        if (!i)
            s->first = w;
        PARE_TRY(check_same(d, s, s->list.path[i], &w, err));
        differ |= w.frames != s->first.frames;
        longest = w.frames > *length ? i : longest;
        *length = w.frames > *length ? w.frames : *length;
        shorter = w.frames < shortest ? i : shorter;
        shortest = w.frames < shortest ? w.frames : shortest;
    }
    if (takes && *length > takes)
        return pare_fail(err, PARE_ESHAPE, "%s: %lld samples, the model takes %lld: cut the file",
                         s->list.path[longest], (long long)*length, (long long)takes);
    d->single = differ && !takes && !d->opts.fill;
    if (d->single)
        *length = s->first.frames;
    if (shortest < *length && !d->opts.fill && !d->single)
        return pare_fail(err, PARE_ESHAPE,
                         "%s: %lld samples, expected %lld: --fill 0 adds zeros to shorter files",
                         s->list.path[shorter], (long long)shortest, (long long)*length);
    return 0;
}

static int open_folder(struct pare_data *d, const char *path, struct pare_err *err)
{
    struct set *s = pare_alloc(d->arena, 1, sizeof(*s));
    struct pare_tensor y;
    int64_t length, channels;

    if (!s)
        return pare_no_memory(err, "to open a data set");
    d->parts->priv = s;
    s->mono = d->opts.mono;
    PARE_TRY(pare_data_fill(d, &s->fill, err));
    PARE_TRY(pare_class_folder_list(d, path, &sounds, &s->list, &y, err));
    PARE_TRY(find_length(d, s, &length, err));
    channels = s->mono ? 1 : s->first.channels;
    d->dtype = PARE_F32;
    d->parts->form = (struct pare_image){ .dtype = PARE_F32, .c = channels, .h = 1, .w = length };
    d->item.rank = channels > 1 ? 2 : 1;
    d->item.dim[0] = channels > 1 ? channels : length;
    d->item.dim[1] = length;
    return y.data ? pare_data_targets(d, &y, err) : 0;
}

static int decode(const struct set *s, const struct pare_wav *w, struct pare_arena *a,
                  const struct pare_image *form, float *out, struct pare_err *err)
{
    float *one = s->mono && w->channels > 1 ? pare_alloc_raw(a, (size_t)w->frames, sizeof(*one))
                                            : NULL;

    if (s->mono && w->channels > 1 && !one)
        return pare_no_memory(err, "for a sound");
    for (int64_t c = 0; c < form->c; c++)
        for (int64_t i = w->frames; i < form->w; i++)
            out[c * form->w + i] = s->fill;
    for (int64_t c = 0; c < form->c; c++)
        pare_wav_channel(w, c, out + c * form->w);
    for (int64_t c = 1; one && c < w->channels; c++) {
        pare_wav_channel(w, c, one);
        for (int64_t i = 0; i < w->frames; i++)
            out[i] += one[i];
    }
    for (int64_t i = 0; one && i < w->frames; i++)
        out[i] /= (float)w->channels;
    return 0;
}

static int read_sound(const struct pare_data *d, int64_t i, struct pare_arena *a,
                      struct pare_image *p, struct pare_err *err)
{
    const struct set *s = d->parts->priv;
    const char *path = s->list.path[i];
    struct pare_wav w;
    const void *bytes;
    float *out;
    size_t len;

    *p = d->parts->form;
    PARE_TRY(pare_at(err, pare_file_read(a, path, &bytes, &len, err), "%s", path));
    PARE_TRY(pare_at(err, pare_wav_parse(bytes, len, len, &w, err), "%s", path));
    PARE_TRY(check_same(d, s, path, &w, err));
    p->w = d->single ? w.frames : p->w;
    if (w.frames > p->w)
        return pare_fail(err, PARE_EFORMAT, "%s: the file has changed", path);
    out = pare_alloc_raw(a, (size_t)(p->c * p->w), sizeof(*out));
    if (!out)
        return pare_no_memory(err, "for a sound");
    p->data = out;
    return decode(s, &w, a, p, out, err);
}

const struct pare_source pare_source_wav_folder = {
    .name = "wav-folder",
    .help = "WAV files in a folder per class, or in one folder without labels; --mono mixes "
            "channels, --rate checks the sampling rate, --fill pads shorter files, which run "
            "one by one otherwise",
    .probe = probe,
    .open = open_folder,
    .read = read_sound,
};
