/* data_inputs.c - inputs of a model from a data set. */
#include "data_inputs.h"

#include <string.h>

#include "../../base/arena.h"
#include "../../onnx/model.h"
#include "../../tensor/tensor.h"
#include "../../train/train_options.h"
#include "../print/progress_line.h"
#include "model_intake.h"

int pare_cli_data_open(struct pare_cli *c, const struct pare_data_request *r,
                       const struct pare_data_opts *opts, bool quiet, struct pare_data **data,
                       struct pare_err *err)
{
    struct pare_data_opts o = *opts;
    struct pare_progress_line line;
    int rc;

    pare_progress_line_start(&line, quiet || pare_dist_rank(c->dist));
    o.progress = pare_progress_line_show;
    o.user = &line;
    rc = pare_data_open_for(r, &o, data, err);
    pare_progress_line_end(&line);
    return rc;
}

static int copy_batch(struct pare_cli *c, const struct pare_batch *b, struct pare_inputs *in,
                      struct pare_err *err)
{
    in->n = b->n_in;
    in->t = pare_alloc(c->arena, (size_t)in->n, sizeof(*in->t));
    in->given = pare_alloc(c->arena, (size_t)in->n, sizeof(*in->given));
    if (!in->t || !in->given)
        return pare_no_memory(err, "for the inputs");
    for (int k = 0; k < in->n; k++) {
        size_t bytes;

        in->t[k] = b->in[k];
        in->given[k] = true;
        PARE_TRY(pare_tensor_alloc(c->arena, &in->t[k], err));
        PARE_TRY(pare_tensor_size(&in->t[k], NULL, &bytes, err));
        memcpy(in->t[k].data, b->in[k].data, bytes);
    }
    return 0;
}

static int first_batch(struct pare_cli *c, const struct pare_model *m, struct pare_data *d,
                       int64_t batch, struct pare_inputs *in, struct pare_err *err)
{
    struct pare_loader_opts lo = { .batch = batch ? batch : 1 };
    struct pare_loader *l = NULL;
    const struct pare_batch *b;
    int rc;

    PARE_TRY(pare_model_fits_items(m, d, NULL, err));
    pare_data_note(c, d);
    lo.n_inputs = pare_model_inputs(m, &in->io);
    lo.input = in->io;
    if (lo.n_inputs && in->io[0].rank > 0 && in->io[0].dim[0] > 0)
        lo.batch = in->io[0].dim[0];
    if (d->n < lo.batch)
        return pare_fail(err, PARE_ECONFIG, "'%s' has %lld items, fewer than a batch of %lld",
                         d->name, (long long)d->n, (long long)lo.batch);
    PARE_TRY(pare_loader_new(d, &lo, &l, err));
    rc = pare_loader_next(l, &b, err);
    if (!rc)
        rc = copy_batch(c, b, in, err);
    pare_loader_free(l);
    return rc;
}

int pare_inputs_from_data(struct pare_cli *c, const struct pare_model *m, const char *data,
                          int64_t batch, struct pare_inputs *in, struct pare_err *err)
{
    struct pare_data_request r = { .spec = data, .split = "test" };
    struct pare_data_opts opts = { 0 };
    struct pare_option_group part = { "data", NULL, pare_data_options, &opts };
    struct pare_data *d;
    int rc;

    PARE_TRY(pare_option_group_fill(&part, c->given, c->n_given, c->arena, err));
    r.n_io = pare_model_inputs(m, &r.io);
    PARE_TRY(pare_cli_data_open(c, &r, &opts, false, &d, err));
    rc = first_batch(c, m, d, batch, in, err);
    pare_data_free(d);
    return pare_at(err, rc, "%s", m->path);
}

/* ---- shapes ----------------------------------------------------------------- */

static bool has_free_sizes(const struct pare_io *io)
{
    bool any = false;

    for (int k = 1; k < io->rank; k++)
        any |= io->dim[k] < 0;
    return any;
}

/* "name=1,3,32,32"; sizes that the model fixes are the model's. */
static const char *shape_argument(struct pare_arena *a, const struct pare_io *io,
                                  const struct pare_tensor *t)
{
    const char *text = pare_sprintf(a, "%s=", io->name);

    for (int k = 0; k < io->rank && text; k++)
        text = pare_sprintf(a, "%s%s%lld", text, k ? "," : "",
                            (long long)(io->dim[k] >= 0 ? io->dim[k] : t->dim[k]));
    return text;
}

int pare_data_item_shapes(struct pare_arena *a, const struct pare_model *m,
                          const struct pare_data *d, struct pare_strs *shape, struct pare_err *err)
{
    struct pare_loader_opts o = { .batch = 1 };
    struct pare_loader *l = NULL;
    const struct pare_batch *b;
    const char **list;
    bool any = false;
    int rc;

    *shape = (struct pare_strs){ NULL, 0 };
    o.n_inputs = pare_model_inputs(m, &o.input);
    for (int i = 0; i < o.n_inputs; i++)
        any |= has_free_sizes(&o.input[i]);
    if (!any)
        return 0;
    list = pare_alloc(a, (size_t)o.n_inputs, sizeof(*list));
    if (!list)
        return pare_no_memory(err, "for the shapes of the inputs");
    shape->v = list;
    PARE_TRY(pare_loader_new(d, &o, &l, err));
    rc = pare_loader_next(l, &b, err);
    for (int i = 0; i < o.n_inputs && !rc; i++) {
        if (!has_free_sizes(&o.input[i]) || b->in[i].rank != o.input[i].rank)
            continue;
        list[shape->n] = shape_argument(a, &o.input[i], &b->in[i]);
        rc = list[shape->n++] ? 0 : pare_no_memory(err, "for the shapes of the inputs");
    }
    pare_loader_free(l);
    return rc;
}
