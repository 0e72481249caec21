/* data.c - open a data set: detect its format, choose the split, prepare the normalization. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "source.h"
#include "../base/arena.h"
#include "../base/clock.h"
#include "../base/options.h"
#include "../base/rng.h"
#include "../base/sized.h"
#include "../tensor/tensor.h"

#define SOURCE(name) extern const struct pare_source pare_source_##name;
#include "sources.def"
#undef SOURCE

const struct pare_source *const pare_sources[] = {
#define SOURCE(name) &pare_source_##name,
#include "sources.def"
#undef SOURCE
    NULL
};
#define N_SOURCES ((int)(sizeof(pare_sources) / sizeof(*pare_sources)) - 1)

const char *pare_source_name(const struct pare_source *s)
{
    return s->name;
}

const char *pare_source_help(const struct pare_source *s)
{
    return s->help;
}

int pare_data_fill(const struct pare_data *d, float *v, struct pare_err *err)
{
    const char *s = d->opts.fill;
    char *end;

    *v = s ? strtof(s, &end) : 0;
    if (s && (!*s || *end || !isfinite(*v)))
        return pare_fail(err, PARE_ECONFIG, "option 'fill' is '%s', expected a number", s);
    return 0;
}

bool pare_names_input(const struct pare_data *d, const char *name)
{
    for (int k = 0; k < d->parts->n_io; k++)
        if (!strcmp(d->parts->io[k].name, name))
            return true;
    return false;
}

int pare_open_progress(const struct pare_data *d, const char *what, int64_t done, int64_t total,
                       struct pare_err *err)
{
    struct pare_progress now = { what, done, total, pare_now() - d->parts->start };

    if (!d->opts.progress || d->opts.progress(d->opts.user, &now))
        return 0;
    return pare_fail(err, PARE_ECANCEL, "%s: opening it was canceled", d->name);
}

bool pare_wants_test(const struct pare_data *d)
{
    return strcmp(d->parts->split, "train") != 0;
}

/* ---- options ---------------------------------------------------------------------- */

/* Mean and standard deviation of the pixels, from 0 to 1. */
static const struct {
    const char *name;
    int n;
    double mean[3], std[3];
} norms[] = {
    { "none", 1, { 0 }, { 1 } },
    { "mnist", 1, { 0.1307 }, { 0.3081 } },
    { "fashion-mnist", 1, { 0.2860 }, { 0.3530 } },
    { "cifar10", 3, { 0.4914, 0.4822, 0.4465 }, { 0.2470, 0.2435, 0.2616 } },
    { "imagenet", 3, { 0.485, 0.456, 0.406 }, { 0.229, 0.224, 0.225 } },
};
#define NORMS "auto|none|mnist|fashion-mnist|cifar10|imagenet"
#define MAX_SIDE 65536
#define MAX_PAD 1024

#define AT(field) offsetof(struct pare_data_opts, field)

/* clang-format off */
const struct pare_opt pare_data_options[] = {
    PARE_INTS("resize", AT(resize), "resize images to S (the shorter side) or H,W", 1, MAX_SIDE),
    PARE_INTS("crop", AT(crop),
        "crop images to S or H,W: at random in training, else in the center", 1, MAX_SIDE),
    PARE_FLAG("gray", AT(gray), "convert PNG and JPEG files to grayscale", 0),
    PARE_CHOICE("layout", AT(layout),
        "order of an array's dimensions after the first", "auto", "auto|chw|hwc|none"),
    PARE_FLOAT("scale", AT(scale),
        "divide by this; 0: the scale of the data set, or 255 for bytes", 0, 0, PARE_NO_MAX),
    PARE_CHOICE("norm", AT(norm),
        "normalize by mean and standard deviation of this data set", "auto", NORMS),
    PARE_CHOICE("pixels", AT(pixels),
        "range of pixels instead of a normalization", "auto", "auto|0..1|-1..1|0..255"),
    PARE_CHOICE("channels", AT(channels), "order of an image's colors", "rgb", "rgb|bgr"),
    PARE_FLOATS("mean", AT(mean),
        "subtract this after scaling, per channel", PARE_NO_MIN, PARE_NO_MAX),
    PARE_FLOATS("std", AT(std),
        "divide by this after subtracting the mean, per channel", 1e-30, 1e30),
    PARE_INT("pad", AT(pad),
        "in training, pad images by N black pixels on each side before cropping", 0, 0, MAX_PAD),
    PARE_FLAG("flip", AT(flip), "in training, mirror images at random", 0),
    PARE_INT("cutout", AT(cutout),
        "in training, set a square of N x N pixels at a random place to the mean (0: none)", 0, 0,
        MAX_SIDE),
    PARE_FLOAT("holdout", AT(holdout),
        "fraction of the training items to use for validation", 0, 0, 0.99),
    PARE_INT("limit", AT(limit), "use at most N randomly chosen items; 0: all", 0, 0, 1e15),
    PARE_INT("batch", AT(batch), "items per batch", 64, 1, 1 << 20),
    PARE_FLAG("shuffle", AT(shuffle), "in training, shuffle the items in every epoch", 1),
    PARE_FLAG("drop_last", AT(drop_last), "in training, drop an incomplete last batch", 0),
    PARE_FLAG("prefetch", AT(prefetch), "prepare the next batch in a separate thread", 1),
    PARE_TEXT("label", AT(label), "COLUMN",
        "column of a CSV file with the labels, or A,B (default: label, target, class or y)",
        NULL),
    PARE_TEXT("columns", AT(columns), "COLUMNS",
        "columns of a CSV file that are the input: A,B,... (default: all except the label)", NULL),
    PARE_TEXT("fill", AT(fill), "X",
        "put this number after items that are shorter than the longest (default: refuse them)",
        NULL),
    PARE_INT("rate", AT(rate), "samples per second of WAV files; 0: that of the first", 0, 0, 1e9),
    PARE_FLAG("mono", AT(mono), "mix the channels of WAV files", 0),
    PARE_OPT_END
};
/* clang-format on */

/* ---- normalization ---------------------------------------------------------------- */

static int check_norm(const struct pare_data *d, const char *name, const struct pare_floats *v,
                      struct pare_err *err)
{
    int64_t c = d->parts->form.c;

    if (v->n <= 1 || v->n == c)
        return 0;
    return pare_fail(err, PARE_ECONFIG, "option '%s' has %d numbers, the items have %lld channel%s",
                     name, v->n, (long long)c, c == 1 ? "" : "s");
}

/* `name` is "mean" or "std"; default: `otherwise` for all channels. */
static int set_norm(struct pare_data *d, const char *name, const struct pare_floats *v,
                    float otherwise, float *to, struct pare_err *err)
{
    for (int i = 0; i < d->parts->n_norm; i++) {
        to[i] = v->n ? (float)v->v[v->n > 1 ? i : 0] : otherwise;
        if (!isfinite(to[i]))
            return pare_fail(err, PARE_ECONFIG, "option '%s' is not a finite number", name);
    }
    return 0;
}

/* 0..1 and 0..255 differ in the scale only. */
static int find_range(const struct pare_data_opts *o, struct pare_floats *mean,
                      struct pare_floats *std, struct pare_err *err)
{
    static const double half = 0.5;

    if (strcmp(o->norm, "auto") || o->mean.n || o->std.n || o->scale > 0)
        return pare_fail(err, PARE_ECONFIG,
                         "option 'pixels' excludes 'norm', 'mean', 'std' and 'scale'");
    if (!strcmp(o->pixels, "-1..1"))
        *mean = *std = (struct pare_floats){ &half, 1 };
    return 0;
}

/* Mean and standard deviation from the options, by name or by value. */
static int find_norm(const struct pare_data *d, const struct pare_data_opts *o,
                     struct pare_floats *mean, struct pare_floats *std, struct pare_err *err)
{
    const char *name = strcmp(o->norm, "auto") ? o->norm : d->parts->norm;
    size_t i = 0;

    *mean = o->mean;
    *std = o->std;
    if (strcmp(o->pixels, "auto") != 0)
        return find_range(o, mean, std, err);
    /* The known statistics of a data set do not apply to grayscale or rescaled pixels. */
    if (!strcmp(o->norm, "auto") && (o->scale > 0 || (d->parts->is_image && o->gray)))
        name = NULL;
    if (mean->n || std->n || !name)
        return 0;
    while (i < sizeof(norms) / sizeof(*norms) && strcmp(norms[i].name, name) != 0)
        i++;
    if (i == sizeof(norms) / sizeof(*norms))
        return pare_fail(err, PARE_ECONFIG, "option 'norm' is '%s', must be one of %s", name,
                         NORMS);
    *mean = (struct pare_floats){ norms[i].mean, norms[i].n };
    *std = (struct pare_floats){ norms[i].std, norms[i].n };
    return 0;
}

static void swap_norm(struct pare_data_parts *p)
{
    for (int i = 0; i < 2 && p->n_norm == 3; i++) {
        float *v = i ? p->std : p->mean, first = v[0];

        v[0] = v[2];
        v[2] = first;
    }
}

static int set_normalization(struct pare_data *d, const struct pare_data_opts *o,
                             struct pare_err *err)
{
    struct pare_data_parts *p = d->parts;
    struct pare_floats mean, std;

    PARE_TRY(find_norm(d, o, &mean, &std, err));
    PARE_TRY(check_norm(d, "mean", &mean, err));
    PARE_TRY(check_norm(d, "std", &std, err));
    if (!strcmp(o->pixels, "0..255"))
        p->scale = 1;
    else if (strcmp(o->pixels, "auto") != 0)
        p->scale = 255;
    else if (o->scale > 0)
        p->scale = o->scale;
    else if (!(p->scale > 0))
        p->scale = d->dtype == PARE_U8 ? 255 : 1;
    p->n_norm = mean.n > 1 || std.n > 1 ? (int)p->form.c : 1;
    p->mean = pare_alloc(d->arena, (size_t)p->n_norm, sizeof(*p->mean));
    p->std = pare_alloc(d->arena, (size_t)p->n_norm, sizeof(*p->std));
    if (!p->mean || !p->std)
        return pare_no_memory(err, "to open a data set");
    PARE_TRY(set_norm(d, "mean", &mean, 0, p->mean, err));
    PARE_TRY(set_norm(d, "std", &std, 1, p->std, err));
    p->swapped = !strcmp(o->channels, "bgr") && p->is_image && p->form.c == 3;
    if (p->swapped && !o->mean.n && !o->std.n)
        swap_norm(p); /* names are of red, green and blue */
    if (d->dtype != PARE_U8)
        return 0;
    p->table = pare_alloc(d->arena, (size_t)p->n_norm * 256, sizeof(*p->table));
    if (!p->table)
        return pare_no_memory(err, "to open a data set");
    for (int k = 0; k < p->n_norm; k++)
        for (int v = 0; v < 256; v++)
            p->table[k * 256 + v] = ((float)v / (float)p->scale - p->mean[k]) / p->std[k];
    return 0;
}

/* ---- sizes and splits ------------------------------------------------------------- */

static int check_sides(const char *name, const struct pare_ints *v, struct pare_err *err)
{
    if (v->n > 2)
        return pare_fail(err, PARE_ECONFIG, "option '%s' has %d numbers, must be S or H,W", name,
                         v->n);
    return 0;
}

/* A set of several inputs has no images to change. */
static int check_plain(const struct pare_data_opts *o, struct pare_err *err)
{
    bool norm = strcmp(o->norm, "auto") && strcmp(o->norm, "none");

    if (o->resize.n || o->crop.n || o->pad || o->flip || o->cutout || o->mean.n || o->std.n ||
        o->scale > 0 || norm || strcmp(o->pixels, "auto") || strcmp(o->channels, "rgb"))
        return pare_fail(
            err, PARE_ECONFIG,
            "the model's inputs get its arrays as stored: 'resize', 'crop', 'pad', "
            "'flip', 'cutout', 'norm', 'pixels', 'channels', 'mean', 'std' and 'scale' do not "
            "apply");
    return 0;
}

/* The window's size, from the options and the first item. */
static int set_window(struct pare_data *d, const struct pare_data_opts *o, struct pare_err *err)
{
    struct pare_data_parts *p = d->parts;
    int64_t *copy = pare_alloc(d->arena, 2, sizeof(*copy));

    if (!copy)
        return pare_no_memory(err, "to open a data set");
    PARE_TRY(check_sides("resize", &o->resize, err));
    PARE_TRY(check_sides("crop", &o->crop, err));
    if (d->n_inputs)
        return check_plain(o, err);
    if (!p->is_image && (o->resize.n || o->crop.n || o->pad || o->flip || o->cutout))
        return pare_fail(
            err, PARE_ECONFIG,
            "'resize', 'crop', 'pad', 'flip' and 'cutout' are for images, but items have %d "
            "dimension%s",
            d->item.rank, d->item.rank == 1 ? "" : "s");
    if (o->resize.n && d->dtype != PARE_U8)
        return pare_fail(err, PARE_EUNSUPPORTED, "'resize' is for images of bytes, these are %s",
                         pare_dtype_name(d->dtype));
    for (int i = 0; i < o->resize.n; i++)
        copy[i] = o->resize.v[i];
    p->resize = (struct pare_ints){ copy, o->resize.n };
    pare_resized(&p->resize, p->form.h, p->form.w, &p->H, &p->W);
    p->cropped = o->crop.n > 0;
    if (p->cropped) {
        p->H = o->crop.v[0];
        p->W = o->crop.v[o->crop.n - 1];
    }
    if (p->is_image && (p->H < 1 || p->W < 1 || p->W > PARE_MAX_PIXELS / p->H))
        return pare_fail(err, PARE_ELIMIT, "images would have more than %lld pixels, or none",
                         (long long)PARE_MAX_PIXELS);
    d->item.dtype = PARE_F32;
    if (p->is_image) {
        d->item.rank = 3;
        d->item.dim[0] = p->form.c;
        d->item.dim[1] = p->H;
        d->item.dim[2] = p->W;
    }
    return 0;
}

/* Keep only the items for which keep[i] is set, and their labels. */
static int select_items(struct pare_data *d, const bool *keep, struct pare_err *err)
{
    int64_t n = 0, *old = d->parts->pick, *pick;
    size_t row = d->y.data ? (size_t)(pare_numel(&d->y) / d->n) * pare_dtype_size(d->y.dtype) : 0;
    char *y = d->y.data;

    pick = pare_alloc(d->arena, (size_t)d->n, sizeof(*pick));
    if (!pick)
        return pare_no_memory(err, "to open a data set");
    for (int64_t i = 0; i < d->n; i++) {
        if (!keep[i])
            continue;
        if (y && n != i)
            memcpy(y + (size_t)n * row, y + (size_t)i * row, row);
        pick[n++] = old ? old[i] : i;
    }
    d->parts->pick = pick;
    d->n = n;
    if (y)
        d->y.dim[0] = n;
    return 0;
}

/* Choose n items at random, and keep them (or the others).  The choice does not depend on the seed:
 * otherwise one run would train with the validation items of another. */
static int choose_items(struct pare_data *d, int64_t n, bool those, struct pare_err *err)
{
    int64_t *order = pare_alloc_raw(d->parts->tmp, (size_t)d->n, sizeof(*order));
    bool *keep = pare_alloc(d->parts->tmp, (size_t)d->n, sizeof(*keep));
    struct pare_rng rng;

    if (!order || !keep)
        return pare_no_memory(err, "to open a data set");
    pare_rng_init(&rng, 0x70617265);
    for (int64_t i = 0; i < d->n; i++) {
        int64_t k = (int64_t)pare_rng_below(&rng, (uint64_t)i + 1);

        order[i] = order[k];
        order[k] = i;
    }
    for (int64_t i = 0; i < d->n; i++)
        keep[order[i]] = (i < n) == those;
    return select_items(d, keep, err);
}

static int hold_out(struct pare_data *d, bool held, double part, struct pare_err *err)
{
    int64_t n = (int64_t)((double)d->n * part);

    if (n < 1 || n >= d->n)
        return pare_fail(err, PARE_ECONFIG,
                         "option 'holdout' is %g, which leaves nothing of %lld "
                         "item%s on one side",
                         part, (long long)d->n, d->n == 1 ? "" : "s");
    return choose_items(d, n, held, err);
}

/* ---- opening ---------------------------------------------------------------------- */

static int find_source(struct pare_data *d, struct pare_err *err)
{
    const char *names[16], *near, *const *entry;
    int n = 0;

    for (int i = 0; i < N_SOURCES; i++) {
        const struct pare_source *s = pare_sources[i];

        if (s->by_name && n < 16)
            names[n++] = s->name;
        if (s->by_name ? !strcmp(s->name, d->name) : s->probe(d, d->name)) {
            d->source = s;
            return 0;
        }
    }
    near = pare_nearest(d->name, names, n);
    if (pare_is_dir(d->name) && !pare_dir_list(d->parts->tmp, d->name, &entry, &n, err) && !n)
        return pare_fail(err, PARE_EIO, "the folder is empty");
    if (!pare_is_dir(d->name) && !pare_is_file(d->name))
        return pare_fail(err, PARE_EIO, "neither a file, a folder nor the name of a data set%s%s%s",
                         near ? " (did you mean '" : "", near ? near : "", near ? "'?)" : "");
    return pare_fail(
        err, PARE_EFORMAT,
        "not a known data set: IDX, CIFAR-10, .npy, .npz, .csv, a list of files (.txt), "
        "test_data_set_0 or a folder of PNG, JPEG, WAV or .npy files");
}

/* Does the model take gray images?  Files are decoded to colors otherwise. */
static bool wants_gray(const struct pare_data *d)
{
    const struct pare_io *io = d->parts->io;

    return d->source->read && d->parts->n_io == 1 && io->rank == 4 &&
           (io->dim[1] == 1 || (io->dim[3] == 1 && io->dim[1] != 3));
}

/* Images from files get the size that the model takes, unless the options specify one: the shorter
 * side is resized to it, and the center is cropped. */
static int fit_images(struct pare_data *d, struct pare_data_opts *o, struct pare_err *err)
{
    const struct pare_data_parts *p = d->parts;
    const struct pare_io *io = p->io;
    int64_t *size = pare_alloc(d->arena, 2, sizeof(*size));
    int at;

    if (!size)
        return pare_no_memory(err, "to open a data set");
    if (!d->source->read || !p->is_image || p->n_io != 1 || io->rank != 4 || o->resize.n ||
        o->crop.n)
        return 0;
    at = io->layout == PARE_NHWC || (io->dim[3] == p->form.c && io->dim[1] != p->form.c) ? 1 : 2;
    size[0] = io->dim[at];
    size[1] = io->dim[at + 1];
    if (size[0] < 1 || size[1] < 1)
        return 0;
    o->resize = (struct pare_ints){ size, size[0] == size[1] ? 1 : 2 };
    o->crop = (struct pare_ints){ size, 2 };
    if (size[0] == p->form.h && size[1] == p->form.w)
        return 0;
    d->note = pare_sprintf(d->arena,
                           "%s: images are resized and cropped to %lld x %lld, which the model "
                           "takes; --resize and --crop specify another window",
                           d->name, (long long)size[0], (long long)size[1]);
    return d->note ? 0 : pare_no_memory(err, "to open a data set");
}

static int note_single(struct pare_data *d, struct pare_err *err)
{
    d->note = pare_sprintf(d->arena, "%s%s%s: items differ in shape and run one by one%s",
                           d->note ? d->note : "", d->note ? "\n" : "", d->name,
                           d->parts->is_image ? "; --resize H,W makes them equal" : "");
    return d->note ? 0 : pare_no_memory(err, "to open a data set");
}

static int open_set(struct pare_data *d, const char *split, struct pare_data_opts *o,
                    struct pare_err *err)
{
    bool train = !strcmp(split, "train"), held = !strcmp(split, "val") && o->holdout > 0;

    if (!train && strcmp(split, "val") != 0 && strcmp(split, "test") != 0)
        return pare_fail(err, PARE_ECONFIG, "the split is '%s', must be train, val or test", split);
    if (!d->name[0])
        return pare_fail(err, PARE_EIO, "the name of the data set is empty");
    PARE_TRY(pare_at(err, find_source(d, err), "%s", d->name));
    d->parts->split = held ? "train" : train ? "train" : !strcmp(split, "val") ? "val" : "test";
    if (wants_gray(d))
        o->gray = d->opts.gray = true;
    PARE_TRY(d->source->open(d, d->source->by_name ? NULL : d->name, err));
    PARE_TRY(fit_images(d, o, err));
    PARE_TRY(pare_at(err, set_window(d, o, err), "%s", d->name));
    if (!d->n_inputs)
        PARE_TRY(pare_at(err, set_normalization(d, o, err), "%s", d->name));
    if (o->holdout > 0 && (train || held || d->parts->whole))
        PARE_TRY(pare_at(err, hold_out(d, !train, o->holdout, err), "%s", d->name));
    if (o->limit > 0 && o->limit < d->n)
        PARE_TRY(choose_items(d, o->limit, true, err));
    PARE_TRY(pare_at(err, pare_image_sizes(d, err), "%s", d->name));
    PARE_TRY(pare_data_note_nan(d, err));
    return d->single ? note_single(d, err) : 0;
}

/* Check a struct that was not filled from the table: missing lists, values out of range. */
static int take_opts(const struct pare_data_opts *from, struct pare_data_opts *to,
                     struct pare_err *err)
{
    struct pare_data_opts usual = *to;

    PARE_TRY(pare_sized_copy(to, sizeof(*to), from, err));
    to->layout = to->layout ? to->layout : usual.layout;
    to->norm = to->norm ? to->norm : usual.norm;
    to->pixels = to->pixels ? to->pixels : usual.pixels;
    to->channels = to->channels ? to->channels : usual.channels;
    to->batch = to->batch ? to->batch : usual.batch;
    if (to->pad < 0 || to->pad > MAX_PAD || to->limit < 0 || !(to->holdout >= 0) ||
        to->cutout < 0 || to->cutout > MAX_SIDE)
        return pare_fail(err, PARE_ECONFIG,
                         "option 'pad', 'limit', 'holdout' or 'cutout' is out of range");
    return 0;
}

int pare_data_start(struct pare_arena *a, const char *spec, struct pare_data **data,
                    struct pare_err *err)
{
    struct pare_data *d = pare_alloc(a, 1, sizeof(*d));
    struct pare_data_parts *p = pare_alloc(a, 1, sizeof(*p));
    char *name = pare_strdup(a, spec ? spec : "");

    if (!d || !p || !name)
        return pare_no_memory(err, "to open a data set");
    d->name = name;
    d->arena = a;
    d->parts = p;
    atomic_init(&d->references, 1);
    *data = d;
    return 0;
}

int pare_data_open(const char *spec, const char *split, const struct pare_data_opts *opts,
                   struct pare_data **data, struct pare_err *err)
{
    PARE_ERR(err);
    return pare_data_open_for(&(struct pare_data_request){ .spec = spec, .split = split }, opts,
                              data, err);
}

int pare_data_open_for(const struct pare_data_request *r, const struct pare_data_opts *opts,
                       struct pare_data **data, struct pare_err *err)
{
    struct pare_arena *a = pare_arena_new(1 << 14), *tmp = pare_arena_new(1 << 16);
    struct pare_data_opts o = { 0 };
    struct pare_data *d = NULL;
    int rc = a && tmp ? pare_data_start(a, r->spec, &d, err)
                      : pare_no_memory(err, "to open a data set");

    *data = NULL;
    if (!rc && !r->spec)
        rc = pare_fail(err, PARE_ECONFIG, "no data set is named");
    if (!rc)
        rc = pare_opts_apply(pare_data_options, NULL, 0, &o, a, err);
    if (!rc && opts)
        rc = take_opts(opts, &o, err);
    if (!rc) {
        d->parts->tmp = tmp;
        d->parts->start = pare_now();
        d->parts->io = r->io;
        d->parts->n_io = r->n_io;
        d->opts = o;
        rc = open_set(d, r->split, &o, err);
        d->parts->tmp = NULL;
        d->parts->io = NULL;
        d->opts.resize = d->opts.crop = (struct pare_ints){ NULL, 0 };
        d->opts.mean = d->opts.std = (struct pare_floats){ NULL, 0 };
        d->opts.layout = d->opts.norm = d->opts.label = d->opts.columns = NULL;
        d->opts.fill = d->opts.pixels = d->opts.channels = NULL;
        d->opts.progress = NULL;
    }
    pare_arena_free(tmp);
    if (rc)
        pare_arena_free(a);
    else
        *data = d;
    return rc;
}

int64_t pare_data_count(const struct pare_data *data)
{
    return data->n;
}

bool pare_data_has_labels(const struct pare_data *data)
{
    return data->y.data != NULL;
}

void pare_data_retain(struct pare_data *data)
{
    atomic_fetch_add(&data->references, 1);
}

void pare_data_free(struct pare_data *data)
{
    if (data && atomic_fetch_sub(&data->references, 1) == 1) {
        pare_data_free(data->whole);
        pare_arena_free(data->arena);
    }
}
