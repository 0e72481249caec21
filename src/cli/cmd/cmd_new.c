/* cmd_new.c - pare new: create a standard network with initial weights. */
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../cli.h"
#include "../../base/arena.h"
#include "../../graph/graph.h"
#include "../../onnx/model.h"
#include "../../zoo/zoo.h"

struct new
{
    const char *output;
    struct pare_ints input;
    int64_t classes, seed;
    double width;
};

static const struct pare_opt new_opts[] = {
    { "input", "channels, height and width of the images", PARE_OPT_INTS,
      offsetof(struct new, input), 0, 1, 65536, NULL, NULL, true, "C,H,W" },
    PARE_INT("classes", offsetof(struct new, classes), "number of classes", 10, 1, 1e7),
    PARE_FLOAT("width", offsetof(struct new, width),
               "multiply the channels of hidden layers by X; 0: keep them", 0, 0, 64),
    PARE_INT("seed", offsetof(struct new, seed), "seed of the initial weights", 0, 0, 9e15),
    { "output", "write the model to FILE", PARE_OPT_STR, offsetof(struct new, output), 0,
      PARE_NO_MIN, PARE_NO_MAX, NULL, NULL, true, "FILE" },
    PARE_OPT_END
};

/* Number of trainable parameters. */
static int64_t count_params(const struct pare_model *m)
{
    int64_t n = 0;

    for (int i = 0; i < m->graph->n_values; i++) {
        const struct pare_value *v = m->graph->value[i];

        if (v->flags & PARE_V_CONST && !v->maker && v->t.dtype == PARE_F32 && v->t.rank > 0 &&
            !strstr(v->name, ".running_"))
            n += pare_numel(&v->t);
    }
    return n;
}

static int cmd_new_run(struct pare_cli *c, struct pare_err *err)
{
    const struct new *o = c->opts;
    struct pare_network_opts n = { .classes = o->classes,
                                   .seed = (uint64_t)o->seed,
                                   .width = o->width };
    const struct pare_network *net;
    struct pare_model *model;
    char params[PARE_NUM_TEXT];
    int rc;

    c->usage = true;
    PARE_TRY(pare_find_network(c->arg[0], &net, err));
    if (o->input.n != 3)
        return pare_misuse(c, err, "--input has %d numbers, expected 3: C,H,W", o->input.n);
    c->usage = false;
    n.c = o->input.v[0];
    n.h = o->input.v[1];
    n.w = o->input.v[2];
    PARE_TRY(pare_network_make(net, &n, &model, err));
    rc = pare_model_save(model, o->output, NULL, err);
    if (!rc)
        printf("%s: %s with %s parameters\n", o->output, net->name,
               pare_whole_text(count_params(model), params, sizeof(params)));
    pare_model_free(model);
    return rc;
}

static const char *word(int i)
{
    return pare_networks[i] ? pare_networks[i]->name : NULL;
}

const struct pare_command pare_command_new = {
    .name = "new",
    .doc = "Create a standard network with initial weights.",
    .usage = "[options] NETWORK --input C,H,W -o FILE",
    .more = "Networks: lenet, mlp, resnet20, resnet18-cifar, vgg7, vgg16-cifar,\n"
            "mobilenetv2-cifar, vit-tiny; 'pare list networks' describes them.  Weights are\n"
            "initialized and layers are named as in PyTorch; the batch size is free.",
    .example = "pare new lenet --input 1,8,8 -o model.onnx",
    .opts = new_opts,
    .size = sizeof(struct new),
    .min_args = 1,
    .max_args = 1,
    .run = cmd_new_run,
    .word = word,
    .only_words = "network",
    .no_model = true,
};
