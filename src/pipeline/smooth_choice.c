/* smooth_choice.c - scaled inputs before quantization: options "smooth" and "awq", and for preset
 * int8 of transformers a trial with and without. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline.h"

#include "../base/arena.h"
#include "../compress/held_out.h"
#include "../compress/wrap.h"
#include "../graph/pattern/pattern.h"
#include "../quant/presets.h"
#include "../quant/quant_method.h"
#include "../quant/quant_state.h"
#include "../quant/smooth.h"

#define SMOOTH_ITEMS 128 /* for the ranges of inputs */
#define AWQ_BITS 4       /* for which option awq chooses scales */
#define AWQ_GROUP 64     /* and the size of groups, unless given */
#define FIT_ITEMS 1024   /* as option rounding_items */
#define BETTER 0.8       /* change of the outputs with a Mul before layers, relative to without */

/* The number that is given for an option, or the usual one. */
static int64_t given_number(const struct pare_quantize_job *j, const char *name, int64_t usual)
{
    for (int i = 0; i < j->n_given; i++)
        if (!strcmp(j->given[i].name, name))
            return strtoll(j->given[i].text, NULL, 10);
    return usual;
}

static int make_smoothed(struct pare_quantize_job *j, bool awq, struct pare_err *err)
{
    struct pare_finetune *f = &j->tune;
    struct pare_smooth s = { .data = f->data[0],
                             .items = SMOOTH_ITEMS,
                             .bits = { 8, 8 },
                             .dist = f->dist,
                             .threads = (int)f->options->c.threads,
                             .progress = j->o.progress,
                             .user = j->o.user };

    if (awq) {
        s.bits[0] = AWQ_BITS;
        s.bits[1] = 0;
        s.group = given_number(j, "group_size", AWQ_GROUP);
    }
    PARE_TRY(pare_model_smooth(f->model, &s, &j->smoothed, err));
    j->smoothed_layers = s.layers;
    return 0;
}

/* ---- with or without ------------------------------------------------------------------------- */

/* Preset int8 as it is, of a model that normalizes rows. */
static int is_choice(struct pare_quantize_job *j, bool *is, struct pare_err *err)
{
    static const char *const decides[] = { "smooth", "awq", "rounding", "rounding_items" };
    const struct pare_quantize_opts *o = &j->o;
    struct pare_finetune *f = &j->tune;
    const struct pare_preset *p;
    struct pare_graph *g;

    *is = false;
    if (!o->preset || o->quantizer || o->config || o->rule || o->max_drop >= 0 ||
        j->load_calibration || !pare_finetune_has_data(f) || !f->observe)
        return 0;
    for (int i = 0; i < 4; i++)
        if (pare_quantize_is_given(j, decides[i]))
            return 0;
    PARE_TRY(pare_find_preset(o->preset, &p, err));
    if (pare_preset_settings(o->preset) || !p->quantizer || strcmp(p->quantizer, "ptq") != 0)
        return 0;
    PARE_TRY(pare_model_shapes(f->model, f->arena, &g, err));
    return pare_graph_has_pattern(g, PARE_PATTERN_ROWS, is, err);
}

/* Quantize tune.model, and compare. */
static int try_model(struct pare_quantize_job *j, const struct pare_held_out *h,
                     struct pare_output_distance *d, struct pare_err *err)
{
    PARE_TRY(pare_quantize_open(j, err));
    PARE_TRY(pare_compression_compress(j->compression, err));
    return pare_held_out_compare(h, j->tune.model, d, err);
}

static int compare_both(struct pare_quantize_job *j, const struct pare_held_out *h,
                        struct pare_err *err)
{
    struct pare_model *plain = j->tune.model, *smoothed = j->smoothed;
    struct pare_compression *first = NULL;
    struct pare_output_distance d[2];
    const char *text;
    int rc;

    j->smoothed = NULL; /* the settings are those without */
    rc = try_model(j, h, &d[0], err);
    first = j->compression;
    j->compression = NULL;
    j->smoothed = smoothed;
    j->tune.model = smoothed;
    if (!rc)
        rc = try_model(j, h, &d[1], err);
    if (!rc && !(pare_output_change(&d[1]) < BETTER * pare_output_change(&d[0]))) {
        struct pare_compression *second = j->compression;

        j->compression = first;
        first = second;
        j->tune.model = plain;
        j->smoothed_layers = -1;
    }
    pare_compression_free(first);
    if (rc)
        return rc;
    d[0].loss = d[1].loss = NAN; /* not compared */
    text = pare_held_out_text(j->tune.arena, NULL, "as they are", &d[0]);
    text = text ? pare_held_out_text(j->tune.arena, text, "smoothed", &d[1]) : NULL;
    j->smoothed_choice = text ? pare_sprintf(j->tune.arena,
                                             "inputs of linear layers, on %lld items that the "
                                             "rounding has not seen: %s; kept: %s",
                                             (long long)h->items, text,
                                             j->tune.model == plain ? "as they are" : "smoothed")
                              : NULL;
    return j->smoothed_choice ? 0 : pare_no_memory(err, "to smooth inputs");
}

static int choose(struct pare_quantize_job *j, struct pare_err *err)
{
    struct pare_finetune *f = &j->tune;
    struct pare_held_out h = { .data = f->data[0],
                               .dist = f->dist,
                               .threads = (int)f->options->c.threads,
                               .progress = j->o.progress,
                               .user = j->o.user };
    struct pare_model *dense;
    int rc;

    PARE_TRY(make_smoothed(j, false, err));
    if (!j->smoothed) {
        j->smoothed_layers = -1;
        return 0;
    }
    pare_held_out_divide_batches(&h, FIT_ITEMS);
    j->smoothed_items = h.fitted;
    PARE_TRY(pare_model_duplicate(f->model, &dense, err));
    h.dense = dense;
    rc = compare_both(j, &h, err);
    pare_model_free(dense);
    return rc;
}

/* ---- options --------------------------------------------------------------------------------- */

int pare_quantize_smooth(struct pare_quantize_job *j, struct pare_err *err)
{
    struct pare_finetune *f = &j->tune;
    struct pare_quant_settings q;
    struct pare_option_group shared = { "quantization", NULL, pare_quant_options, &q };
    bool is;

    PARE_TRY(pare_option_group_fill(&shared, j->given, j->n_given, f->arena, err));
    j->smoothed_layers = q.smooth || q.awq ? 0 : -1;
    if (!q.smooth && !q.awq) {
        PARE_TRY(is_choice(j, &is, err));
        return is ? choose(j, err) : 0;
    }
    if (q.smooth && q.awq)
        return pare_fail(err, PARE_ECONFIG,
                         "options 'smooth' and 'awq' choose the same scales: use one of them");
    if (!pare_finetune_has_data(f) || !f->observe)
        return pare_fail(err, PARE_ECONFIG,
                         "option '%s' needs data and quantization without training: use --data "
                         "and no --epochs",
                         q.smooth ? "smooth" : "awq");
    PARE_TRY(make_smoothed(j, q.awq, err));
    if (j->smoothed)
        f->model = j->smoothed;
    return 0;
}
