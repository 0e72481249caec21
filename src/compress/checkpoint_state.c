/* checkpoint_state.c - the state of a compression in a checkpoint.
 *
 * Kinds of tensors: mask/LAYER, bias_mask/LAYER, buffer/LAYER/NAME, state/I/LAYER and run/I (the
 * bytes of pare_layer_state() and pare_compression_state() of algorithm I), kept/N (remembered
 * weights), rng/compress; and those of the method's checkpoint().
 */
#include <stdio.h>
#include <string.h>

#include "../base/arena.h"
#include "../tensor/tensor.h"
#include "../train/checkpoint.h"
#include "method.h"

static struct pare_tensor bytes(void *p, size_t n)
{
    return (struct pare_tensor){ .dtype = PARE_U8, .rank = 1, .dim = { (int64_t)n }, .data = p };
}

static int n_remembered(const struct pare_compression *c)
{
    return c->remembered ? c->trainer->n_params + c->trainer->n_state : 0;
}

int pare_checkpoint_pass(const struct pare_checkpoint_pass *p, const char *kind, const char *name,
                         struct pare_tensor *t, struct pare_err *err)
{
    return p->save ? pare_checkpoint_add(p->save, kind, name, t, err)
                   : pare_checkpoint_load(p->load, kind, name, t, err);
}

static int pass_layer(const struct pare_checkpoint_pass *p, struct pare_layer *l,
                      struct pare_err *err)
{
    const struct pare_compression *c = l->compression;

    if (l->weight)
        PARE_TRY(pare_checkpoint_pass(p, "mask", l->info.name, &l->mask, err));
    if (l->bias)
        PARE_TRY(pare_checkpoint_pass(p, "bias_mask", l->info.name, &l->bias_mask, err));
    for (int i = 0; i < PARE_MAX_ALGORITHMS && c->algorithm[i]; i++) {
        struct pare_tensor t = bytes(l->state[i], c->algorithm[i]->layer_size);
        char kind[32];

        snprintf(kind, sizeof(kind), "state/%d", i);
        if (c->algorithm[i]->layer_size)
            PARE_TRY(pare_checkpoint_pass(p, kind, l->info.name, &t, err));
    }
    for (struct pare_buffer *b = l->buffers; b; b = b->next) {
        char *kind = pare_sprintf(p->arena, "buffer/%s", l->info.name);

        if (!kind)
            return pare_no_memory(err, "for a checkpoint");
        PARE_TRY(pare_checkpoint_pass(p, kind, b->name, &b->t, err));
    }
    return 0;
}

static int pass_all(const struct pare_checkpoint_pass *p, struct pare_compression *c,
                    struct pare_err *err)
{
    for (int i = 0; i < c->n_layers; i++)
        PARE_TRY(pass_layer(p, &c->layer[i], err));
    for (int i = 0; i < PARE_MAX_ALGORITHMS && c->algorithm[i]; i++) {
        struct pare_tensor t = bytes(c->state[i], c->algorithm[i]->state_size);
        char name[16];

        snprintf(name, sizeof(name), "%d", i);
        if (c->algorithm[i]->state_size)
            PARE_TRY(pare_checkpoint_pass(p, "run", name, &t, err));
    }
    PARE_TRY(c->method->checkpoint(c, p, err));
    for (int i = 0; i < n_remembered(c); i++) {
        char name[16];

        snprintf(name, sizeof(name), "%d", i);
        PARE_TRY(pare_checkpoint_pass(p, "kept", name, &c->remembered[i], err));
    }
    return 0;
}

int pare_compression_save(void *compression, struct pare_checkpoint *k, struct pare_err *err)
{
    struct pare_checkpoint_pass p = { .save = k, .arena = k->arena };
    struct pare_compression *c = compression;

    PARE_TRY(pass_all(&p, c, err));
    return pare_checkpoint_add_rng(k, "compress", &c->rng, err);
}

/* Create the buffers of the file that no algorithm has asked for yet. */
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

int pare_compression_load(void *compression, const struct pare_checkpoint *k, struct pare_err *err)
{
    struct pare_compression *c = compression;
    struct pare_checkpoint_pass p = { .load = k, .arena = k->arena };

    for (int i = 0; i < c->n_layers; i++)
        PARE_TRY(make_buffers(&c->layer[i], k, err));
    PARE_TRY(pass_all(&p, c, err));
    PARE_TRY(pare_checkpoint_load_rng(k, "compress", &c->rng, err));
    return pare_compression_write_weights(c, err);
}
