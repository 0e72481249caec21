/* rounding_choice.c - choice of a rounding by the outputs on held-out items. */
#include "rounding_choice.h"

#include <math.h>
#include <string.h>

#include "../../base/arena.h"
#include "../../compress/held_out.h"
#include "../../tensor/tensor.h"
#include "../bias_correct.h"
#include "../quant_method.h"
#include "weight_rounding.h"

/* What was decided for a layer. */
struct kept {
    void *buffer[PARE_ROUNDING_BUFFERS]; /* copies */
    float *bias;                         /* copy of b_rounded */
    bool biased;
    double error[2];
};

struct chooser {
    struct pare_rounding_choice *h;
    struct pare_arena *a;
    struct pare_held_out held;
    struct kept *kept; /* (n) of the best way; NULL: the nearest levels */
    struct pare_rounded rounded;
    const char *best, *text; /* name of the best; results so far */
    double cost, last;       /* of the best, of the last one */
};

/* ---- what was decided ------------------------------------------------------------------------ */

static size_t bytes_of(const struct pare_tensor *t)
{
    return (size_t)pare_numel(t) * pare_dtype_size(t->dtype);
}

static int copy_of(struct chooser *s, const struct pare_tensor *t, void **to, struct pare_err *err)
{
    if (!*to)
        *to = pare_alloc_raw(s->a, bytes_of(t) + 1, 1);
    if (!*to)
        return pare_no_memory(err, "to round weights");
    memcpy(*to, t->data, bytes_of(t));
    return 0;
}

static int keep_layer(struct chooser *s, const struct pare_layer *l, struct kept *k,
                      struct pare_err *err)
{
    void *bias = k->bias;

    for (int i = 0; i < PARE_ROUNDING_BUFFERS; i++)
        PARE_TRY(
            copy_of(s, &pare_rounding_find(l, pare_rounding_buffers[i])->t, &k->buffer[i], err));
    memcpy(k->error, l->quant->round_error, sizeof(k->error));
    k->biased = l->quant->rounded_bias;
    if (!k->biased)
        return 0;
    PARE_TRY(copy_of(s, &l->quant->b_rounded, &bias, err));
    k->bias = bias;
    return 0;
}

static void restore_layer(struct pare_layer *l, const struct kept *k)
{
    for (int i = 0; i < PARE_ROUNDING_BUFFERS; i++) {
        struct pare_tensor *t = &pare_rounding_find(l, pare_rounding_buffers[i])->t;

        memcpy(t->data, k->buffer[i], bytes_of(t));
    }
    memcpy(l->quant->round_error, k->error, sizeof(k->error));
    l->quant->rounded_bias = k->biased;
    if (k->biased)
        memcpy(l->quant->b_rounded.data, k->bias, bytes_of(&l->quant->b_rounded));
}

static void forget_layer(struct pare_layer *l)
{
    pare_rounding_forget(l);
    l->quant->round_error[0] = l->quant->round_error[1] = 0;
}

/* Biases are those of the float model. */
static void restore_biases(struct pare_compression *c)
{
    pare_bias_restore(c, false);
    for (int i = 0; i < c->n_layers; i++)
        c->layer[i].quant->rounded_bias = false;
}

/* ---- ways ------------------------------------------------------------------------------------ */

/* Measure the model as it will be, with corrected biases; keep it if it is the best so far.  */
static int measure(struct chooser *s, const char *name, bool nearest, struct pare_err *err)
{
    struct pare_rounding_choice *h = s->h;
    struct pare_output_distance d;

    PARE_TRY(pare_quant_correct(h->c, err));
    PARE_TRY(pare_held_out_compare(&s->held, h->c->model, &d, err));
    d.loss = NAN;
    s->text = pare_held_out_text(s->a, s->text, name, &d);
    if (!s->text)
        return pare_no_memory(err, "to round weights");
    s->last = pare_output_change(&d);
    if (s->best && !(s->last < s->cost))
        return 0;
    s->cost = s->last;
    s->best = name;
    s->rounded = h->c->quant->rounded;
    if (nearest)
        return 0;
    if (!s->kept)
        s->kept = pare_alloc(s->a, (size_t)h->n + 1, sizeof(*s->kept));
    if (!s->kept)
        return pare_no_memory(err, "to round weights");
    for (int i = 0; i < h->n; i++)
        PARE_TRY(keep_layer(s, h->layer[i], &s->kept[i], err));
    return 0;
}

static int try_way(struct chooser *s, const struct pare_rounding_method *m, bool toward_float,
                   struct pare_err *err)
{
    const char *name = pare_sprintf(s->a, "%s toward %s", m->name,
                                    toward_float ? "float" : "layer");

    if (!name)
        return pare_no_memory(err, "to round weights");
    restore_biases(s->h->c);
    PARE_TRY(s->h->round(s->h->user, m, toward_float, s->held.fitted, err));
    return measure(s, name, false, err);
}

static int try_ways(struct chooser *s, struct pare_err *err)
{
    const struct pare_rounding_method *method = s->h->method;
    const struct pare_rounding_method *quick = method->steps ? pare_find_rounding("gptq") : method;
    double layer;

    PARE_TRY(measure(s, "nearest", true, err));
    PARE_TRY(try_way(s, quick, false, err));
    layer = s->last;
    PARE_TRY(try_way(s, quick, true, err));
    return method == quick ? 0 : try_way(s, method, s->last < layer, err);
}

/* ---- the best -------------------------------------------------------------------------------- */

static void prepare(struct chooser *s)
{
    struct pare_compression *c = s->h->c;
    struct pare_held_out *h = &s->held;

    *h = (struct pare_held_out){ .dense = s->h->dense,
                                 .data = c->data,
                                 .dist = c->dist,
                                 .threads = c->threads,
                                 .progress = c->progress,
                                 .user = c->progress_user };
    pare_held_out_divide_batches(h, s->h->items);
}

static int finish(struct chooser *s, struct pare_err *err)
{
    struct pare_compression *c = s->h->c;
    bool nearest = !strcmp(s->best, "nearest");

    restore_biases(c);
    for (int i = 0; i < s->h->n; i++)
        if (nearest)
            forget_layer(s->h->layer[i]);
        else
            restore_layer(s->h->layer[i], &s->kept[i]);
    pare_bias_restore(c, true);
    c->quant->rounded = s->rounded;
    c->quant->rounded.choice = pare_sprintf(c->arena,
                                            "rounding on %lld items not fitted to: %s; kept: %s",
                                            (long long)s->held.items, s->text, s->best);
    if (!c->quant->rounded.choice)
        return pare_no_memory(err, "to round weights");
    return pare_compression_write_weights(c, err);
}

int pare_rounding_choose(struct pare_rounding_choice *choice, struct pare_err *err)
{
    struct chooser s = { .h = choice, .a = pare_arena_new(1 << 16) };
    int rc;

    if (!s.a)
        return pare_no_memory(err, "to round weights");
    prepare(&s);
    rc = try_ways(&s, err);
    if (!rc)
        rc = finish(&s, err);
    pare_arena_free(s.a);
    return rc;
}
