/* checkpoint_state.c - what a checkpoint keeps of a compression.
 *
 * Kinds: mask/LAYER, bias_mask/LAYER, aim/LAYER (the sparsity, and whether a mask is due),
 * buffer/LAYER/NAME, state/I/LAYER and run/I (a pruner's own bytes), kept/N, rng/compress.
 */
#include <stdio.h>
#include <string.h>

#include "../base/arena.h"
#include "../tensor/tensor.h"
#include "../train/checkpoint.h"
#include "../quant/quant_config.h"

static struct pare_tensor bytes(void *p, size_t n)
{
    return (struct pare_tensor){ .dtype = PARE_U8, .rank = 1, .dim = { (int64_t)n }, .data = p };
}

static int n_kept(const struct pare_compression *r)
{
    return r->kept ? r->trainer->n_params + r->trainer->n_state : 0;
}

/* One way for both directions, so that they cannot differ. */
struct way {
    struct pare_checkpoint *save; /* one of the two is NULL */
    const struct pare_checkpoint *load;
    struct pare_arena *arena;
};

static int pass(const struct way *w, const char *kind, const char *name, struct pare_tensor *t,
                struct pare_err *err)
{
    return w->save ? pare_checkpoint_add(w->save, kind, name, t, err)
                   : pare_checkpoint_load(w->load, kind, name, t, err);
}

/* The aim is copied: what is added must live until the file is written. */
static int pass_aim(const struct way *w, struct pare_layer *l, struct pare_err *err)
{
    struct pare_tensor t;
    double *v;
    int64_t two = 2;

    PARE_TRY(pare_tensor_new(w->arena, &t, PARE_F64, 1, &two, err));
    v = t.data;
    v[0] = l->sparsity;
    v[1] = l->due;
    PARE_TRY(pass(w, "aim", l->info.name, &t, err));
    l->sparsity = v[0];
    l->due = v[1] != 0;
    return 0;
}

static int pass_layer(const struct way *w, struct pare_layer *l, struct pare_err *err)
{
    const struct pare_compression *r = l->run;

    if (l->weight)
        PARE_TRY(pass(w, "mask", l->info.name, &l->mask, err));
    if (l->bias)
        PARE_TRY(pass(w, "bias_mask", l->info.name, &l->bias_mask, err));
    PARE_TRY(pass_aim(w, l, err));
    for (int i = 0; i < PARE_COMPRESSION_PRUNERS && r->pruner[i]; i++) {
        struct pare_tensor t = bytes(l->state[i], r->pruner[i]->layer_size);
        char kind[32];

        snprintf(kind, sizeof(kind), "state/%d", i);
        if (r->pruner[i]->layer_size)
            PARE_TRY(pass(w, kind, l->info.name, &t, err));
    }
    for (struct pare_buffer *b = l->buffers; b; b = b->next) {
        char *kind = pare_sprintf(w->arena, "buffer/%s", l->info.name);

        if (!kind)
            return pare_no_memory(err, "for a checkpoint");
        PARE_TRY(pass(w, kind, b->name, &b->t, err));
    }
    return 0;
}

/* Of learned buffers: the optimizer's state, when there has been a step. */
static int pass_optim(const struct way *w, struct pare_compression *r, struct pare_err *err)
{
    struct pare_tensor step = { .dtype = PARE_I64, .rank = 1, .dim = { 1 } };
    struct pare_named *slot;
    int n;

    if (w->load && pare_checkpoint_find(w->load, "learned", "step") && r->learned && !r->optim)
        PARE_TRY(pare_quant_optim(r, err));
    if (!r->optim)
        return 0;
    step.data = &r->optim->step;
    PARE_TRY(pass(w, "learned", "step", &step, err));
    PARE_TRY(pare_optim_state(r->optim, w->arena, &slot, &n, err));
    for (int i = 0; i < n; i++)
        PARE_TRY(pass(w, "learned", slot[i].name, &slot[i].t, err));
    return 0;
}

static int pass_all(const struct way *w, struct pare_compression *r, struct pare_err *err)
{
    for (int i = 0; i < r->n_layers; i++)
        PARE_TRY(pass_layer(w, &r->layer[i], err));
    for (int i = 0; i < PARE_COMPRESSION_PRUNERS && r->pruner[i]; i++) {
        struct pare_tensor t = bytes(r->state[i], r->pruner[i]->run_size);
        char name[16];

        snprintf(name, sizeof(name), "%d", i);
        if (r->pruner[i]->run_size)
            PARE_TRY(pass(w, "run", name, &t, err));
    }
    PARE_TRY(pass_optim(w, r, err));
    for (int i = 0; i < n_kept(r); i++) {
        char name[16];

        snprintf(name, sizeof(name), "%d", i);
        PARE_TRY(pass(w, "kept", name, &r->kept[i], err));
    }
    return 0;
}

int pare_compression_save(void *run, struct pare_checkpoint *k, struct pare_err *err)
{
    struct way w = { .save = k, .arena = k->arena };
    struct pare_compression *r = run;

    PARE_TRY(pass_all(&w, r, err));
    return pare_checkpoint_add_rng(k, "compress", &r->rng, err);
}

/* Buffers that pruners have not asked for yet in this process. */
static int make_buffers(struct pare_layer *l, const struct pare_checkpoint *k, struct pare_err *err)
{
    size_t n = strlen(l->info.name);

    for (int i = 0; i < k->st.n_tensors; i++) {
        const struct pare_named *b = &k->st.tensor[i];
        const char *rest = b->name + 7;

        if (strncmp(b->name, "buffer/", 7) || strncmp(rest, l->info.name, n) || rest[n] != '/')
            continue;
        if (!pare_layer_buffer(l, rest + n + 1, b->t.dtype, b->t.rank, b->t.dim, err))
            return err->code;
    }
    return 0;
}

int pare_compression_load(void *run, const struct pare_checkpoint *k, struct pare_err *err)
{
    struct pare_compression *r = run;
    struct way w = { .load = k, .arena = k->arena };

    for (int i = 0; i < r->n_layers; i++)
        PARE_TRY(make_buffers(&r->layer[i], k, err));
    PARE_TRY(pass_all(&w, r, err));
    PARE_TRY(pare_checkpoint_load_rng(k, "compress", &r->rng, err));
    return pare_compression_write_weights(r, err);
}
