/* collectors.c - collectors of inputs and outputs of layers; forward passes without training. */
#include <string.h>

#include "../base/arena.h"
#include "../base/clock.h"
#include "../data/data.h"
#include "../plan/shape_plans.h"
#include "compression.h"

int pare_compression_collected_values(struct pare_compression *c, struct pare_strs *names,
                                      struct pare_err *err)
{
    const char **v;

    *names = (struct pare_strs){ NULL, 0 };
    if (!c->collectors)
        return 0;
    v = pare_alloc(c->arena, 2 * (size_t)c->n_layers, sizeof(*v));
    if (!v)
        return pare_no_memory(err, "for collectors");
    for (int i = 0; i < c->n_layers; i++) {
        const struct pare_layer_info *l = &c->layer[c->layer[i].unseen ? 0 : i].info;

        if (!l->in || !l->out)
            return pare_fail(err, PARE_EUNSUPPORTED,
                             "layer '%s' has nothing that a collector could see", l->name);
        v[2 * i] = l->in->name;
        v[2 * i + 1] = l->out->name;
    }
    *names = (struct pare_strs){ v, 2 * c->n_layers };
    return 0;
}

static int watch(struct pare_compression *c, struct pare_err *err)
{
    struct pare_strs names;

    if (!c->trainer)
        return 0;
    PARE_TRY(pare_compression_collected_values(c, &names, err));
    return pare_trainer_watch(c->trainer, names, err);
}

int pare_add_collector(struct pare_compression *c, pare_collect_fn *fn, void *user, int *id,
                       struct pare_err *err)
{
    PARE_ERR(err);
    struct pare_collector *new = pare_alloc(c->arena, 1, sizeof(*new)), **end = &c->collectors;
    bool first = !c->collectors;

    if (!new)
        return pare_no_memory(err, "for a collector");
    *new = (struct pare_collector){ ++c->last_id, fn, user, c->current, NULL };
    while (*end)
        end = &(*end)->next;
    *end = new;
    *id = new->id;
    return first ? watch(c, err) : 0;
}

int pare_remove_collector(struct pare_compression *c, int id, struct pare_err *err)
{
    PARE_ERR(err);
    for (struct pare_collector **at = &c->collectors; *at; at = &(*at)->next)
        if ((*at)->id == id) {
            *at = (*at)->next;
            return c->collectors ? 0 : watch(c, err);
        }
    return pare_fail(err, PARE_ECONFIG, "%d is not a valid collector id", id);
}

int pare_compression_collect(struct pare_compression *c, const struct pare_plan *p,
                             struct pare_err *err)
{
    struct pare_collector *next;

    for (struct pare_collector *at = c->collectors; at; at = next) {
        struct pare_call_scope s = pare_call_begin(c, at->algorithm);
        int rc = 0;

        next = at->next; /* it may remove itself */
        for (int i = 0; i < c->n_layers && !rc; i++)
            if (!c->layer[i].unseen)
                rc = at->fn(&c->layer[i], pare_plan_value(p, 2 * i), pare_plan_value(p, 2 * i + 1),
                            at->user, err);
        pare_call_end(c, s);
        if (rc)
            return rc;
    }
    return 0;
}

/* ---- forward passes without training -------------------------------------------------------- */

#define AT_ONCE 1200000 /* input elements of one run of the plan */

struct feed {
    struct pare_compression *c;
    struct pare_strs names;
    struct pare_shape_plans plans;
    struct pare_plan *plan; /* of the current batch */
    int64_t size, part;     /* items of a batch; items of one run of the plan */
    const char *what;       /* see struct pare_progress, in items */
    int64_t done, total;
    double start;
};

/* Called before `items` more of them run. */
static int report(struct feed *f, int64_t items, struct pare_err *err)
{
    const struct pare_compression *c = f->c;
    struct pare_progress p = { f->what, f->done, f->total, pare_now() - f->start };

    f->done += items;
    if (c->progress && !c->progress(c->progress_user, &p))
        return pare_fail(err, PARE_ECANCEL, "calibration was canceled");
    return 0;
}

/* Items of one run of the plan.  Observing keeps values that are fused otherwise, which takes
 * memory, so a large batch is run in equal parts where the result stays the same. */
static int64_t part_of(const struct pare_compression *c, const struct pare_tensor *x)
{
    int64_t n = x->dim[0], each = n > 0 ? pare_numel(x) / n : 0, most;

    if (!c->in_parts || c->collectors || pare_dist_size(c->dist) > 1 || each < 1 ||
        c->model->in[0].dim[0] >= 0)
        return n;
    most = AT_ONCE / each > 8 ? AT_ONCE / each : 8;
    for (int64_t p = most < n ? most : n; 2 * p > most; p--)
        if (n % p == 0)
            return p;
    return n;
}

/* The plan for the shapes of a batch. */
static int find_plan(struct feed *f, const struct pare_batch *b, struct pare_err *err)
{
    struct pare_tensor in[PARE_DATA_INPUTS];
    struct pare_plan_opts o = { .threads = f->c->threads, .in = in };
    struct pare_plan_build build = { .opts = &o, .observe = f->names };

    memcpy(in, b->in, (size_t)b->n_in * sizeof(*in));
    f->size = b->whole;
    f->part = o.batch = in[0].dim[0] = b->n_in > 1 ? b->x.dim[0] : part_of(f->c, &b->x);
    PARE_TRY(pare_shape_plans_get(&f->plans, f->c->model, &build, b->n_in, &f->plan, err));
    if (f->plan->graph->n_out > PARE_DATA_OUTPUTS)
        return pare_fail(err, PARE_ELIMIT, "the model has more than %d outputs", PARE_DATA_OUTPUTS);
    return 0;
}

static int show(struct feed *f, const struct pare_batch *b, struct pare_err *err)
{
    struct pare_tensor x[PARE_DATA_INPUTS], out[PARE_DATA_OUTPUTS];
    int64_t parts = f->part > 0 ? b->x.dim[0] / f->part : 1;
    size_t bytes;

    memcpy(x, b->in, (size_t)b->n_in * sizeof(*x));
    if (parts > 1)
        x[0].dim[0] = f->part;
    PARE_TRY(pare_tensor_size(&x[0], NULL, &bytes, err));
    for (int64_t i = 0; i < parts; i++) {
        x[0].data = (char *)b->x.data + (size_t)i * bytes;
        PARE_TRY(report(f, x[0].dim[0], err));
        PARE_TRY(pare_plan_execute(f->plan, x, out, err));
    }
    return f->names.n ? pare_compression_collect(f->c, f->plan, err) : 0;
}

/* A smaller last batch is skipped. */
static int feed(struct feed *f, struct pare_loader *loader, int64_t batches, struct pare_err *err)
{
    struct pare_compression *c = f->c;

    f->what = "observe";
    f->start = pare_now();
    PARE_TRY(pare_compression_collected_values(c, &f->names, err));
    pare_compression_share_begin(c);
    for (int64_t done = 0; done < batches;) {
        const struct pare_batch *b;

        PARE_TRY(pare_loader_next(loader, &b, err));
        if (!b)
            continue; /* end of an epoch; the loader starts the next one */
        if (f->plan && b->whole != f->size)
            continue;
        PARE_TRY(find_plan(f, b, err));
        f->total = f->done + (batches - done) * b->x.dim[0];
        pare_dist_batch(c->dist, b->own, b->whole);
        PARE_TRY(show(f, b, err));
        if (f->names.n && !c->collectors)
            break; /* the last collector was removed */
        done++;
    }
    return pare_compression_share_end(c, err);
}

/* Full batches of an epoch, at least 1: items that are seen again add nothing. */
static int64_t full_batches(const struct pare_compression *c, const struct pare_loader *l)
{
    int64_t n = c->data->n / pare_loader_batch_size(l);

    return n > 1 ? n : 1;
}

/* Opens a loader of batches of this many items; *batches is raised where batches have fewer (the
 * model's batch is fixed, or items run one by one), so that as many items are loaded. */
static int open_loader(struct pare_compression *c, int64_t batch, int64_t *batches,
                       struct pare_loader **loader, struct pare_err *err)
{
    PARE_ERR(err);
    struct pare_loader_opts o = { .train = true,
                                  .batch = batch,
                                  .seed = 1,
                                  .rank = pare_dist_rank(c->dist),
                                  .ranks = pare_dist_size(c->dist) };
    int64_t wanted, size;
    const struct pare_io *io;

    if (!c->data)
        return pare_fail(
            err, PARE_ECONFIG,
            "there is no data to run through the model: give a data set (--data), which "
            "needs no labels, or use a preset that needs none (int8-dynamic, "
            "int8-weights)");
    o.n_inputs = pare_model_inputs(c->model, &io);
    if (o.n_inputs > 0)
        o.input = io;
    if (o.n_inputs > 0 && io[0].rank > 0 && io[0].dim[0] > 0 && o.ranks == 1)
        o.batch = io[0].dim[0];
    PARE_TRY(pare_loader_new(c->data, &o, loader, err));
    wanted = batch ? batch : c->data->opts.batch;
    size = pare_loader_batch_size(*loader);
    if (size != wanted)
        *batches = (*batches * wanted + size - 1) / size;
    return 0;
}

/* Leave out the batches before c->first_batch, and those that were seen in this epoch. */
static int choose_batches(const struct pare_compression *c, struct pare_loader *loader,
                          int64_t *batches, struct pare_err *err)
{
    int64_t wanted = c->batch ? c->batch : c->data->opts.batch;
    int64_t size = pare_loader_batch_size(loader), all = full_batches(c, loader);
    int64_t first = (c->first_batch * wanted + size - 1) / size;
    struct pare_loader_pos at = pare_loader_tell(loader);

    if (*batches > all - first)
        *batches = all > first ? all - first : 0;
    at.at = first;
    return first && *batches ? pare_loader_seek(loader, &at, err) : 0;
}

static int forward(struct pare_compression *c, int64_t batches, bool once, struct pare_err *err)
{
    struct feed f = { .c = c };
    struct pare_loader *loader = NULL;
    int rc = open_loader(c, c->batch, &batches, &loader, err);

    if (!rc && once)
        rc = choose_batches(c, loader, &batches, err);
    if (!rc)
        rc = feed(&f, loader, batches, err);
    pare_shape_plans_free(&f.plans);
    pare_loader_free(loader);
    return rc;
}

int pare_compression_forward(struct pare_compression *c, int64_t batches, struct pare_err *err)
{
    PARE_ERR(err);

    return forward(c, batches, false, err);
}

int pare_compression_forward_once(struct pare_compression *c, int64_t batches, struct pare_err *err)
{
    return forward(c, batches, true, err);
}

/* Batches in memory. */
struct kept {
    struct pare_arena *a;
    struct pare_batch *batch;
    int64_t n;
};

/* Copies a batch, which the loader keeps only until the next one. */
static int keep_batch(struct kept *k, const struct pare_batch *b, struct pare_err *err)
{
    struct pare_batch *to = &k->batch[k->n];

    *to = *b;
    to->in = pare_alloc(k->a, (size_t)b->n_in, sizeof(*to->in));
    if (!to->in)
        return pare_no_memory(err, "for a batch");
    for (int i = 0; i < b->n_in; i++) {
        struct pare_tensor *t = &to->in[i];
        size_t bytes;

        *t = b->in[i];
        PARE_TRY(pare_tensor_size(t, NULL, &bytes, err));
        t->data = pare_alloc_raw(k->a, bytes + 1, 1);
        if (!t->data)
            return pare_no_memory(err, "for a batch");
        memcpy(t->data, b->in[i].data, bytes);
    }
    to->x = to->in[0];
    k->n++;
    return 0;
}

static int keep_batches(struct feed *f, struct pare_loader *loader, struct kept *k, int64_t batches,
                        struct pare_err *err)
{
    k->batch = pare_alloc(k->a, (size_t)batches, sizeof(*k->batch));
    if (!k->batch)
        return pare_no_memory(err, "for a batch");
    while (k->n < batches) {
        const struct pare_batch *b;

        PARE_TRY(pare_loader_next(loader, &b, err));
        if (!b && k->n)
            return 0; /* fewer items than asked for */
        if (!b)
            continue;
        if (k->n && b->whole != f->size)
            continue;
        f->size = b->whole;
        pare_dist_batch(f->c->dist, b->own, b->whole);
        PARE_TRY(keep_batch(k, b, err));
    }
    return 0;
}

int pare_compression_repeat(struct pare_compression *c, int64_t items, int most,
                            pare_repeat_fn *next, void *user, struct pare_err *err)
{
    struct kept k = { .a = pare_arena_new(1 << 16) };
    struct feed f = { .c = c, .what = "try ranges", .start = pare_now() };
    struct pare_loader *loader = NULL;
    int64_t batches = 1;
    bool more = true;
    int rc = k.a ? 0 : pare_no_memory(err, "for a batch");

    if (!rc)
        rc = open_loader(c, items, &batches, &loader, err);
    if (!rc)
        rc = keep_batches(&f, loader, &k, batches, err);
    while (!rc && more) {
        rc = next(user, &more, err);
        for (int64_t i = 0; i < k.n && more && !rc; i++) {
            struct pare_tensor out[PARE_DATA_OUTPUTS];

            f.total = most * k.n * k.batch[i].x.dim[0];
            rc = find_plan(&f, &k.batch[i], err);
            if (!rc)
                rc = report(&f, k.batch[i].x.dim[0], err);
            if (!rc)
                rc = pare_plan_execute(f.plan, k.batch[i].in, out, err);
        }
    }
    pare_shape_plans_free(&f.plans);
    pare_loader_free(loader);
    pare_arena_free(k.a);
    return rc;
}
