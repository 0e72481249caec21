/* cmd_apply.c - pare apply: multiply masks from a file into a model. */
#include <string.h>

#include <jansson.h>

#include "../job/model_intake.h"
#include "../output_paths.h"
#include "../job/train_job.h"
#include "../../base/arena.h"
#include "../../compress/export.h"

struct apply {
    const char *masks, *output;
    bool json, quiet;
};

static const struct pare_opt apply_opts[] = {
    { "masks", "read the masks from FILE: .pth (as NNI writes it), .safetensors or .npz",
      PARE_OPT_STR, offsetof(struct apply, masks), 0, PARE_NO_MIN, PARE_NO_MAX, NULL, NULL, true,
      "FILE" },
    PARE_TEXT("output", offsetof(struct apply, output), "FILE",
              "write the masked model to FILE (default: MODEL-masked.onnx)", NULL),
    PARE_FLAG("json", offsetof(struct apply, json), "print the result as JSON", 0),
    PARE_FLAG("quiet", offsetof(struct apply, quiet), "print nothing", 0),
    PARE_OPT_END
};

static int print_json(const char *output, const struct pare_applied *l, int n, struct pare_err *err)
{
    json_t *list = json_array();

    for (int i = 0; i < n; i++)
        json_array_append_new(list,
                              json_pack("{s:o, s:s, s:I, s:I}", "layer", pare_json_text(l[i].layer),
                                        "what", l[i].what, "elements", (json_int_t)l[i].n, "zeros",
                                        (json_int_t)l[i].zeros));
    return pare_json_print(json_pack("{s:o, s:o}", "output", pare_json_text(output), "masks", list),
                           err);
}

static int print_text(struct pare_cli *c, const char *output, const struct pare_applied *l, int n,
                      struct pare_err *err)
{
    struct pare_table *t = pare_table_new(c->arena, "llrr");
    char all[PARE_NUM_TEXT], part[PARE_NUM_TEXT];

    if (!t)
        return pare_no_memory(err, "for a table");
    pare_table_row(t, "layer", "mask of", "elements", "removed");
    for (int i = 0; i < n; i++)
        pare_table_row(t, l[i].layer, l[i].what, pare_whole_text(l[i].n, all, sizeof(all)),
                       pare_percent_text((double)l[i].zeros, (double)l[i].n, part, sizeof(part)));
    pare_table_print(t, stdout);
    printf("%s: masked model\n", output);
    return 0;
}

static int cmd_apply_run(struct pare_cli *c, struct pare_err *err)
{
    const struct apply *o = c->opts;
    const char *output = o->output;
    struct pare_applied *list;
    struct pare_model *m;
    int count, rc;

    if (!output)
        output = pare_default_output(c->arena, c->arg[0], "masked");
    if (!output)
        return pare_no_memory(err, "for a file name");
    PARE_TRY(pare_output_path_check(c, output, err));
    c->widen = true;
    PARE_TRY(pare_cli_load(c, c->arg[0], &m, err));
    rc = pare_output_paths_model(c, m, output, err);
    if (!rc)
        rc = pare_apply_list(m, o->masks, c->arena, &list, &count, err);
    if (!rc)
        rc = pare_model_save(m, output, NULL, err);
    pare_model_free(m);
    if (rc || (o->quiet && !o->json))
        return rc;
    return o->json ? print_json(output, list, count, err) : print_text(c, output, list, count, err);
}

const struct pare_command pare_command_apply = {
    .name = "apply",
    .doc = "Apply masks to a model: set masked weights to zero.",
    .usage = "[options] MODEL --masks FILE [-o FILE]",
    .more = "Masks are named after layers, as written by 'pare prune --masks' and NNI.\n"
            "Shapes do not change; 'pare speedup' removes masked channels.",
    .example = "pare apply model.onnx --masks masks.pth -o masked.onnx",
    .opts = apply_opts,
    .size = sizeof(struct apply),
    .min_args = 1,
    .max_args = 1,
    .writes = (const char *const[]){ "output", NULL },
    .run = cmd_apply_run,
};
