/* cmd_speedup.c - pare speedup: masked channels are taken out, and the model is really smaller. */
#include <string.h>

#include "slim.h"
#include "teach.h"
#include "../base/arena.h"
#include "../onnx/model.h"

struct speedup {
    const char *masks, *output;
    int64_t round_to, threads, seed, batch;
    double seconds;
    struct pare_strs input, shape;
    bool no_bench, no_verify, json, quiet;
};

#define AT(field) offsetof(struct speedup, field)

static const struct pare_opt speedup_opts[] = {
    { "masks", "masks of 'pare prune' or NNI: .pth, .safetensors, .npz; none: zeros in the weights",
      PARE_OPT_STR, AT(masks), 0, PARE_ANY, NULL, NULL, false },
    { "output", "where to write the smaller model; default NAME-small.onnx", PARE_OPT_STR,
      AT(output), 0, PARE_ANY, NULL, NULL, false },
    { "round-to", "keep channels as multiples of this, by keeping more", PARE_OPT_INT, AT(round_to),
      1, 1, 4096, NULL, NULL, false },
    { "input", "verify with this input: name=x.npy, x.npz, x.pb; else random ones", PARE_OPT_STRS,
      AT(input), 0, PARE_ANY, NULL, NULL, false },
    { "shape", "name=1,3,224,224: an input's shape, or a free dimension's size", PARE_OPT_STRS,
      AT(shape), 0, PARE_ANY, NULL, NULL, false },
    { "batch", "the batch to verify and measure with, where it is free", PARE_OPT_INT, AT(batch), 0,
      0, 1 << 20, NULL, NULL, false },
    { "seed", "of the random inputs", PARE_OPT_INT, AT(seed), 0, 0, 9e15, NULL, NULL, false },
    { "threads", "threads to use; 0: all cores", PARE_OPT_INT, AT(threads), 0, 0, 1024, NULL, NULL,
      false },
    { "seconds", "how long to measure each model", PARE_OPT_FLOAT, AT(seconds), 1, 0, 86400, NULL,
      NULL, false },
    { "no-bench", "do not measure the latency", PARE_OPT_BOOL, AT(no_bench), 0, 0, 1, NULL, NULL,
      false },
    { "no-verify", "do not run both models to compare them", PARE_OPT_BOOL, AT(no_verify), 0, 0, 1,
      NULL, NULL, false },
    { "json", "print the result as JSON", PARE_OPT_BOOL, AT(json), 0, 0, 1, NULL, NULL, false },
    { "quiet", "print only the sums", PARE_OPT_BOOL, AT(quiet), 0, 0, 1, NULL, NULL, false },
    PARE_OPT_END
};

static int work(struct pare_cli *c, struct pare_slim *s, struct pare_model *m, struct pare_err *err)
{
    const struct speedup *o = c->opts;
    struct pare_shape_args args = { o->batch, o->shape, true };
    struct pare_inputs in = { 0 };

    if (o->masks)
        PARE_TRY(pare_apply_masks(m, o->masks, err));
    if (o->input.n)
        PARE_TRY(pare_inputs_read(c, m, o->input, &in, err));
    PARE_TRY(pare_inputs_shape(c, m, &args, &in, err));
    if (!o->json)
        pare_inputs_say(&in);
    s->masked = m;
    s->opts.in = in.t;
    PARE_TRY(pare_at(err, pare_slim_run(c, s, err), "%s", c->arg[0]));
    return o->json ? pare_json_result(c, pare_slim_json(s), err)
                   : pare_slim_print(c, s, o->quiet, err);
}

static int run(struct pare_cli *c, struct pare_err *err)
{
    const struct speedup *o = c->opts;
    size_t n = strlen(c->arg[0]);
    struct pare_slim s = { .output = o->output,
                           .seconds = o->no_bench ? 0 : o->seconds,
                           .opts = { .round_to = o->round_to,
                                     .unverified = o->no_verify,
                                     .threads = (int)o->threads,
                                     .seed = (uint64_t)o->seed } };
    struct pare_model *m;
    int rc;

    if (!s.output)
        s.output = pare_sprintf(c->arena, "%.*s-small.onnx",
                                (int)(pare_ends_in(c->arg[0], ".onnx") ? n - 5 : n), c->arg[0]);
    if (!s.output)
        return pare_fail(err, PARE_ENOMEM, "no memory for a name");
    PARE_TRY(pare_check_output(c, s.output, err));
    PARE_TRY(pare_model_load(c->arg[0], &m, err));
    rc = work(c, &s, m, err);
    pare_model_free(m);
    return rc;
}

static int guess(struct pare_cli *c, struct pare_guess *g, struct pare_err *err)
{
    const struct speedup *o = c->opts;
    struct pare_speedup_opts so = { .round_to = o->round_to, .unverified = true };
    struct pare_speedup_report r;
    struct pare_model *smaller, *again;
    void *bytes;
    size_t len;
    int rc;

    PARE_TRY(pare_speedup(g->model, &so, c->arena, &smaller, &r, err));
    rc = pare_model_pack(smaller, g->arena, &bytes, &len, err);
    if (!rc)
        rc = pare_model_parse(bytes, len, NULL, &again, err);
    pare_model_free(smaller);
    if (rc)
        return rc;
    pare_model_free(g->model);
    g->model = again;
    g->bytes = (double)len;
    return 0;
}

const struct pare_command pare_command_speedup = {
    .name = "speedup",
    .doc = "Take masked channels out of a model, so that it is smaller and faster.",
    .usage = "[options] MODEL [--masks FILE] [-o OUTPUT]",
    .more =
        "Channels whose weights are all 0 go, in all layers that they belong to; what is left\n"
        "of them, such as a bias behind an activation, moves into the next layers.  Both models\n"
        "are then run on the same inputs: when they differ by more than 1e-4 of the largest\n"
        "output, nothing is written.  The table says which layers keep channels that are 0, and\n"
        "why.",
    .opts = speedup_opts,
    .size = sizeof(struct speedup),
    .min_args = 1,
    .max_args = 1,
    .run = run,
    .guess = guess,
};
