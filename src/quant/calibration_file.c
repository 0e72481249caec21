/* calibration_file.c - scales and ranges of a quantized model as JSON: write, read, apply. */
#include "calibration_file.h"

#include <stdio.h>
#include <string.h>

#include "../base/arena.h"
#include "../base/json.h"
#include "../io/file.h"
#include "../tensor/tensor.h"
#include "conv_bn_quant.h"
#include "qscale.h"
#include "quant_config.h"

#define KEY 64

#define FLOAT 32 /* bits of a site that stays float */

/* The keys of a site: input_scale, tracked_min_input, ... */
enum what { BITS, ASKED, SCALE, ZERO, MIN, MAX };
static const char *const before[] = { "", "", "", "", "tracked_min_", "tracked_max_" };
static const char *const after[] = { "_bits", "_bits_config", "_scale", "_zero_point", "", "" };

#define GROUP "weight_group_size" /* see group_scales.h */

/* ---- writing --------------------------------------------------------------------------------- */

/* The text in pieces; after an error add() does nothing. */
struct out {
    struct pare_arena *a;
    struct pare_bytes *part;
    int n, cap;
    bool failed;
};

static void add_text(struct out *o, const char *text)
{
    void *list = text ? pare_grow(o->a, o->part, o->n, &o->cap, sizeof(*o->part)) : NULL;

    if (!list) {
        o->failed = true;
        return;
    }
    o->part = list;
    o->part[o->n++] = (struct pare_bytes){ text, strlen(text) };
}

/* One number, or a list, under a key with the name of the site. */
static void add_numbers(struct out *o, enum pare_quant_site site, enum what what, const double *v,
                        int64_t n)
{
    add_text(o, ",\n    \"");
    add_text(o,
             pare_sprintf(o->a, "%s%s%s", before[what], pare_quant_site_name(site), after[what]));
    add_text(o, n == 1 ? "\": " : "\": [");
    for (int64_t i = 0; i < n; i++)
        add_text(o, pare_sprintf(o->a, "%s%.9g", i ? ", " : "", v[i]));
    add_text(o, n == 1 ? "" : "]");
}

/* The four lists of a site: scale, zero point, minimum and maximum. */
static void add_scales(struct out *o, enum pare_quant_site site, const struct pare_qscale *g)
{
    double *v = pare_alloc(o->a, 4 * (size_t)g->n, sizeof(*v));

    o->failed |= !v;
    for (int64_t i = 0; i < g->n && v; i++) {
        double s = (double)g->scale[i];

        v[i] = s;
        v[g->n + i] = (double)g->zero[i];
        v[2 * g->n + i] = s * (double)(g->qmin - g->zero[i]);
        v[3 * g->n + i] = s * (double)(g->qmax - g->zero[i]);
    }
    if (!v)
        return;
    add_numbers(o, site, SCALE, v, g->n);
    add_numbers(o, site, ZERO, v + g->n, g->n);
    if (site != PARE_WEIGHT) {
        add_numbers(o, site, MIN, v + 2 * g->n, g->n);
        add_numbers(o, site, MAX, v + 3 * g->n, g->n);
    }
}

static void add_layer(struct out *o, const struct pare_layer *l)
{
    bool first = true;

    add_text(o, l->index ? ",\n  " : "\n  ");
    add_text(o, pare_json_quoted(o->a, l->info.name));
    add_text(o, ": {");
    for (int i = 0; i < PARE_QUANT_SITES; i++) {
        enum pare_quant_site site = (enum pare_quant_site)i;
        struct pare_qscale g;
        struct pare_err err;

        if (!l->quant->asked_bits[i])
            continue;
        add_text(o, pare_sprintf(o->a, "%s\n    \"%s_bits\": %d", first ? "" : ",",
                                 pare_quant_site_name(site),
                                 l->quant->quantized[i] ? l->quant->site[i].bits : FLOAT));
        first = false;
        if (!l->quant->quantized[i] || l->quant->site[i].bits != l->quant->asked_bits[i])
            add_text(o, pare_sprintf(o->a, ",\n    \"%s_bits_config\": %d",
                                     pare_quant_site_name(site), l->quant->asked_bits[i]));
        if (!l->quant->quantized[i])
            continue;
        if (site == PARE_WEIGHT && pare_groups_kept(l) >= 0)
            add_text(o, pare_sprintf(o->a, ",\n    \"%s\": %lld", GROUP,
                                     (long long)pare_groups_kept(l)));
        if (!pare_qscale_of(l, site, o->a, &g, &err))
            add_scales(o, site, &g);
    }
    add_text(o, "\n  }");
}

int pare_calibration_write(struct pare_compression *r, const char *path, struct pare_err *err)
{
    struct out o = { .a = pare_arena_new(1 << 16) };
    int rc;

    if (!o.a)
        return pare_no_memory(err, "for the calibration");
    add_text(&o, "{");
    for (int i = 0; i < r->n_layers; i++)
        add_layer(&o, &r->layer[i]);
    add_text(&o, "\n}\n");
    rc = o.failed ? pare_no_memory(err, "for the calibration")
                  : pare_file_write_parts(path, o.part, o.n, err);
    pare_arena_free(o.a);
    return pare_at(err, rc, "%s", path);
}

/* ---- reading --------------------------------------------------------------------------------- */

static const struct pare_json *site_member(const struct pare_json *o, enum pare_quant_site site,
                                           enum what what)
{
    char key[KEY];

    snprintf(key, sizeof(key), "%s%s%s", before[what], pare_quant_site_name(site), after[what]);
    for (int i = 0; i < o->n; i++)
        if (!strcmp(o->item[i].key, key))
            return &o->item[i];
    return NULL;
}

static bool is_number(const struct pare_json *j)
{
    return j->kind == PARE_JSON_INT || j->kind == PARE_JSON_REAL;
}

/* The group size, if the file has one, is kept with the layer. */
static int read_group(struct pare_layer *l, const struct pare_json *o, struct pare_err *err)
{
    struct pare_groups g;

    for (int i = 0; i < o->n; i++) {
        const struct pare_json *j = &o->item[i];

        if (strcmp(j->key, GROUP))
            continue;
        if (j->kind != PARE_JSON_INT || j->whole < 0)
            return pare_fail(err, PARE_ECONFIG, "line %d: %s must be a number of at least 0",
                             j->line, GROUP);
        if (j->whole)
            PARE_TRY(pare_groups(l, j->whole, &g, err));
        return pare_groups_keep(l, j->whole, err);
    }
    return 0;
}

/* Number of scales of the weight: one for each channel or group. */
static int64_t weight_scales(const struct pare_layer *l, int axis)
{
    struct pare_groups g;
    struct pare_err err;

    if (pare_groups_kept(l) > 0 && !pare_groups(l, pare_groups_kept(l), &g, &err))
        return g.n;
    return axis < 0 ? 1 : l->w.dim[axis];
}

static int count_of(const struct pare_layer *l, enum pare_quant_site site,
                    const struct pare_json *j, int64_t *n, struct pare_err *err)
{
    const struct pare_quant *q = &l->quant->site[site];
    int64_t want = site == PARE_WEIGHT         ? weight_scales(l, q->axis)
                   : q->axis < 0               ? 1
                   : j->kind == PARE_JSON_LIST ? j->n
                                               : 1;

    *n = j->kind == PARE_JSON_LIST ? j->n : 1;
    if (*n != want || *n < 1)
        return pare_fail(err, PARE_ECONFIG, "line %d: '%s' has %lld numbers, the layer needs %lld",
                         j->line, j->key, (long long)*n, (long long)want);
    return 0;
}

static int read_numbers(const struct pare_json *j, int64_t n, float *v, struct pare_err *err)
{
    for (int64_t i = 0; i < n; i++) {
        const struct pare_json *one = j->kind == PARE_JSON_LIST ? &j->item[i] : j;

        if (!is_number(one))
            return pare_fail(err, PARE_ECONFIG, "line %d: '%s' is %s, expected numbers", j->line,
                             j->key, pare_json_kind_name(one->kind));
        v[i] = (float)one->num;
    }
    return 0;
}

/* NNI's files have only the minimum and maximum. */
static int from_range(struct pare_layer *l, enum pare_quant_site site, const struct pare_json *o,
                      struct pare_err *err)
{
    const struct pare_json *min = site_member(o, site, MIN);
    const struct pare_json *max = site_member(o, site, MAX);
    struct pare_tensor *s, *z;

    if (!min || !max || !is_number(min) || !is_number(max) || l->quant->site[site].axis >= 0)
        return pare_fail(err, PARE_ECONFIG, "line %d: there is no scale for its %s", o->line,
                         pare_quant_site_name(site));
    s = pare_layer_scale(l, site, 1, err);
    z = s ? pare_layer_zero_point(l, site, 1, err) : NULL;
    if (!z)
        return err->code;
    pare_quant_fit(&l->quant->site[site], min->num, max->num, pare_f32_mut(s), pare_f32_mut(z));
    return 0;
}

/* NNI's files may have nothing about weights; take the minimum and maximum of the weight itself. */
static int fit_weight(struct pare_layer *l, struct pare_err *err)
{
    const struct pare_quant *q = &l->quant->site[PARE_WEIGHT];
    int64_t n = q->axis < 0 ? 1 : l->w.dim[q->axis], inner = 1;
    struct pare_tensor *s = pare_layer_scale(l, PARE_WEIGHT, n, err);
    struct pare_tensor *z = s ? pare_layer_zero_point(l, PARE_WEIGHT, n, err) : NULL;
    double *end = pare_alloc(l->compression->arena, 2 * (size_t)n, sizeof(*end));
    struct pare_tensor w;

    if (!z)
        return err->code;
    if (!end)
        return pare_no_memory(err, "for a calibration");
    PARE_TRY(pare_conv_bn_weight(l, &l->w, l->compression->arena, &w, err));
    for (int i = q->axis + 1; i < l->w.rank && q->axis >= 0; i++)
        inner *= l->w.dim[i];
    for (int64_t i = 0; i < pare_numel(&l->w); i++) {
        double v = (double)pare_f32(&w)[i], *e = end + 2 * (i / inner % n);

        e[0] = v < e[0] ? v : e[0];
        e[1] = v > e[1] ? v : e[1];
    }
    for (int64_t c = 0; c < n; c++)
        pare_quant_fit(q, end[2 * c], end[2 * c + 1], pare_f32_mut(s) + c, pare_f32_mut(z) + c);
    return 0;
}

/* The bits must be the config's, unless --accuracy-drop raised them (weight_bits_config). */
static int apply_bits(struct pare_layer *l, enum pare_quant_site site, const struct pare_json *o,
                      struct pare_err *err)
{
    const struct pare_json *bits = site_member(o, site, BITS), *asked = site_member(o, site, ASKED);
    struct pare_quant *q = &l->quant->site[site];
    bool whole = bits && bits->kind == PARE_JSON_INT;

    if (whole && bits->whole == q->bits)
        return 0;
    if (!whole || !asked || asked->kind != PARE_JSON_INT ||
        asked->whole != l->quant->asked_bits[site] ||
        ((bits->whole < 1 || bits->whole > 16) && bits->whole != FLOAT))
        return pare_fail(err, PARE_ECONFIG, "line %d: %s_bits is %lld, but the config has %d",
                         bits ? bits->line : o->line, pare_quant_site_name(site),
                         bits && is_number(bits) ? (long long)bits->num : 0, q->bits);
    l->quant->quantized[site] = bits->whole != FLOAT;
    if (l->quant->quantized[site])
        pare_quant_set_bits(q, (int)bits->whole);
    return 0;
}

static int apply_site(struct pare_layer *l, enum pare_quant_site site, const struct pare_json *o,
                      struct pare_err *err)
{
    const struct pare_json *scale = site_member(o, site, SCALE);
    const struct pare_json *zero = site_member(o, site, ZERO);
    struct pare_tensor *s, *z;
    int64_t n, m;

    PARE_TRY(apply_bits(l, site, o, err));
    if (!l->quant->quantized[site])
        return 0;
    if (site == PARE_WEIGHT)
        PARE_TRY(read_group(l, o, err));
    if (!scale && site == PARE_WEIGHT)
        return fit_weight(l, err);
    if (!scale || !zero)
        return from_range(l, site, o, err);
    PARE_TRY(count_of(l, site, scale, &n, err));
    PARE_TRY(count_of(l, site, zero, &m, err));
    if (n != m)
        return pare_fail(err, PARE_ECONFIG, "line %d: %lld scales but %lld zero points",
                         scale->line, (long long)n, (long long)m);
    s = pare_layer_scale(l, site, n, err);
    z = s ? pare_layer_zero_point(l, site, n, err) : NULL;
    if (!z)
        return err->code;
    PARE_TRY(read_numbers(scale, n, pare_f32_mut(s), err));
    return read_numbers(zero, n, pare_f32_mut(z), err);
}

static const struct pare_json *find_layer(const struct pare_json *root, const char *name)
{
    for (int i = 0; i < root->n; i++)
        if (!strcmp(root->item[i].key, name))
            return &root->item[i];
    return NULL;
}

int pare_calibration_apply(struct pare_compression *r, struct pare_err *err)
{
    for (int i = 0; i < r->n_layers; i++) {
        struct pare_layer *l = &r->layer[i];
        const struct pare_json *o = find_layer(r->quant->calibration, l->info.name);

        if (!o || o->kind != PARE_JSON_OBJECT)
            return pare_fail(err, PARE_ECONFIG, "%s: has no entry for layer '%s'",
                             r->quant->calibration_path, l->info.name);
        for (int k = 0; k < PARE_QUANT_SITES; k++)
            if (l->quant->quantized[k])
                PARE_TRY(pare_at(err, apply_site(l, (enum pare_quant_site)k, o, err),
                                 "%s: layer '%s'", r->quant->calibration_path, l->info.name));
    }
    return 0;
}

int pare_compression_calibrate(struct pare_compression *r, const char *path, struct pare_err *err)
{
    PARE_ERR(err);
    struct pare_json *root = pare_alloc(r->arena, 1, sizeof(*root));
    const void *text;
    size_t len;

    if (!r->quant || r->started)
        return pare_fail(
            err, PARE_ECONFIG,
            "a calibration can be loaded only into a compression with a quantizer, before it is "
            "started");
    r->quant->calibration_path = pare_strdup(r->arena, path);
    if (!root || !r->quant->calibration_path)
        return pare_no_memory(err, "for a calibration");
    PARE_TRY(pare_at(err, pare_file_read_most(r->arena, path, PARE_JSON_BYTES, &text, &len, err),
                     "%s", path));
    PARE_TRY(pare_at(err, pare_json_parse(r->arena, text, len, root, err), "%s", path));
    if (root->kind != PARE_JSON_OBJECT)
        return pare_fail(err, PARE_ECONFIG, "%s: is %s, expected an object of layers", path,
                         pare_json_kind_name(root->kind));
    r->quant->calibration = root;
    return pare_calibration_apply(r, err);
}

/* ---- quantize with these scales -------------------------------------------------------------- */

int pare_calibrated(struct pare_layer *l, enum pare_quant_site site, const struct pare_tensor *x,
                    struct pare_tensor *y, struct pare_err *err)
{
    const struct pare_quant *q = &l->quant->site[site];
    bool grouped = site == PARE_WEIGHT && pare_groups_kept(l) > 0;
    int64_t n = grouped ? weight_scales(l, q->axis) : q->axis < 0 ? 1 : x->dim[q->axis];
    struct pare_tensor *s = pare_layer_scale(l, site, n, err);
    struct pare_tensor *z = s ? pare_layer_zero_point(l, site, n, err) : NULL;
    struct pare_group_fit f = { .mse = false };
    struct pare_groups g;

    if (!z)
        return err->code;
    for (int64_t i = 0; i < n; i++)
        if (!(pare_f32(s)[i] > 0))
            return pare_fail(err, PARE_ECONFIG, "a scale of the calibration is %g",
                             (double)pare_f32(s)[i]);
    if (!grouped) {
        pare_quant_apply(q, x, pare_f32(s), pare_f32(z), y);
        return 0;
    }
    PARE_TRY(pare_groups(l, pare_groups_kept(l), &g, err));
    pare_group_range(q, &f);
    pare_groups_round(&g, &f, x, pare_f32_mut(s), pare_f32_mut(z), y, false);
    return 0;
}
