/* cmd_export.c - pare export: write a model with another shape, opset or layout of its weights. */
#include <string.h>

#include <jansson.h>

#include "../job/model_intake.h"
#include "../job/compress_job.h"
#include "../output_paths.h"
#include "../print/simplify_print.h"
#include "../../base/arena.h"
#include "../../base/limits.h"
#include "../../compress/export.h"
#include "../../io/tensor_file.h"
#include "../../onnx/edit.h"
#include "../../onnx/fold_norm.h"
#include "../../plan/batch/free_batch.h"
#include "../../onnx/model.h"
#include "../../speedup/speedup.h"

struct export
{
    const char *output, *state;
    struct pare_ints input_shape;
    int64_t opset;
    bool fold, intake, simplify, free_batch, external, json, quiet;
};

#define AT(field) offsetof(struct export, field)

static const struct pare_opt export_opts[] = {
    PARE_TEXT("output", AT(output), "FILE", "write the model to FILE (default: MODEL-export.onnx)",
              NULL),
    PARE_TEXT("state", AT(state), "FILE",
              "also write weights and running statistics to FILE: .pth, .safetensors or .npz",
              NULL),
    PARE_INTS("input-shape", AT(input_shape), "fix the input's shape", 1, 1e12),
    PARE_INT("opset", AT(opset), "raise the opset to N and rewrite operators that changed", 0,
             PARE_OPSET_OLDEST, PARE_OPSET_NEWEST),
    PARE_FLAG("fold", AT(fold), "fold batch normalizations into convolutions", 0),
    PARE_FLAG("simplify", AT(simplify),
              "remove nodes that are not needed, for any input shape, and check the result", 0),
    PARE_FLAG("intake", AT(intake),
              "write what intake made of the model on load, even if nothing else is changed", 0),
    PARE_FLAG("free-batch", AT(free_batch),
              "free a batch of 1, and check that items are independent", 0),
    PARE_FLAG("external", AT(external), "write weights as external data, to FILE.data", 0),
    PARE_FLAG("json", AT(json), "print the result as JSON", 0),
    PARE_FLAG("quiet", AT(quiet), "print nothing", 0),
    PARE_OPT_END
};

static int write_state(struct pare_cli *c, const struct pare_model *m, const char *path,
                       struct pare_err *err)
{
    struct pare_named *list;
    int n;

    PARE_TRY(pare_model_state(m, c->arena, &list, &n, err));
    return pare_tensor_file_write(path, list, n, err);
}

/* Run a body of If, Loop or Scan as it was and simplified: runs of the model may not reach it. */
static int check_body(void *user, const struct pare_model *body, const struct pare_model *simple,
                      const struct pare_tensor *given, struct pare_err *err)
{
    struct pare_cli *c = user;
    const struct pare_io *io;
    const struct pare_speedup_opts opts = { .in = given, .n_in = pare_model_inputs(body, &io) };
    struct pare_speedup_report told;

    return pare_verify_rewritten(body, simple, &opts, c->arena, &told, err);
}

/* Simplify the model, and run both to compare them. */
static int simplify(struct pare_cli *c, const struct pare_model *m, struct pare_model **out,
                    struct pare_simplify_result *r, struct pare_err *err)
{
    const struct pare_speedup_opts opts = { .threads = 0 };
    struct pare_speedup_report told;

    PARE_TRY(pare_model_simplify(m, &(struct pare_simplify_opts){ .check = check_body, .user = c },
                                 out, err));
    PARE_TRY(pare_verify_rewritten(m, *out, &opts, c->arena, &told, err));
    r->max_abs = told.max_abs;
    r->max_rel = told.max_rel;
    memcpy(r->shapes, told.shapes, sizeof(r->shapes));
    r->bytes = pare_model_file_bytes(m);
    r->bytes_left = pare_model_message_bytes(*out);
    return pare_simplified_count(m, *out, c->arena, &r->nodes, err);
}

static int write_all(struct pare_cli *c, struct pare_model *m, const char *output,
                     struct pare_simplify_result *result, struct pare_err *err)
{
    const struct export *o = c->opts;
    struct pare_save_opts save = { .external = o->external };
    struct pare_model *freed = NULL, *folded = NULL, *raised = NULL, *simple = NULL, *last;
    int rc = 0, n = 0;

    if (o->input_shape.n)
        PARE_TRY(pare_model_fix_input(m, o->input_shape.v, o->input_shape.n, c->arena, NULL, err));
    if (o->intake)
        pare_model_touch(m);
    if (o->free_batch) {
        PARE_TRY(pare_model_free_batch(m, err));
        PARE_TRY(pare_model_declare_batch(m, &freed, err));
    }
    last = freed ? freed : m;
    if (o->fold)
        rc = pare_model_fold_norm(last, &folded, &n, err);
    last = folded ? folded : last;
    if (!rc && o->opset)
        rc = pare_model_raise_opset(last, o->opset, &raised, err);
    last = raised ? raised : last;
    if (!rc && o->simplify)
        rc = simplify(c, last, &simple, result, err);
    last = simple ? simple : last;
    if (!rc)
        rc = pare_model_save(last, output, &save, err);
    if (!rc && o->state)
        rc = write_state(c, last, o->state, err);
    pare_model_free(simple);
    pare_model_free(raised);
    pare_model_free(folded);
    pare_model_free(freed);
    return rc;
}

/* What was written; intake is part of it if something else changed the model. */
static int report(struct pare_cli *c, const struct pare_model *m, const char *output,
                  const struct pare_simplify_result *r, struct pare_err *err)
{
    const struct export *o = c->opts;
    bool written = !m->file || o->fold || o->opset || o->free_batch || o->simplify;

    if (o->json)
        return pare_json_result(c,
                                json_pack("{s:o, s:o, s:o, s:b, s:o?}", "output",
                                          pare_json_text(output), "state",
                                          o->state ? pare_json_text(o->state) : json_null(),
                                          "intake", pare_intake_json(m), "intake_written",
                                          (int)written, "simplify",
                                          o->simplify ? pare_simplify_json(r) : NULL),
                                err);
    if (o->quiet)
        return 0;
    printf("%s: model\n", output);
    if (o->state)
        printf("%s: parameters\n", o->state);
    if (o->simplify)
        PARE_TRY(pare_simplify_print(c, r, err));
    pare_intake_print(m, stdout);
    if (!written)
        printf(
            "intake is not written because nothing else changes the model; --intake writes it\n");
    return 0;
}

static int cmd_export_run(struct pare_cli *c, struct pare_err *err)
{
    const struct export *o = c->opts;
    const char *output = o->output ? o->output : pare_default_output(c->arena, c->arg[0], "export");
    struct pare_export files = { .onnx = output, .model = o->state };
    struct pare_simplify_result result = { .bytes = 0 };
    struct pare_model *m;
    int rc;

    if (!output)
        return pare_no_memory(err, "for a file name");
    PARE_TRY(pare_export_check(&files, err));
    PARE_TRY(pare_output_path_check(c, output, err));
    if (o->state)
        PARE_TRY(pare_output_path_check(c, o->state, err));
    PARE_TRY(pare_cli_load(c, c->arg[0], &m, err));
    rc = pare_output_paths_model(c, m, output, err);
    if (!rc)
        rc = pare_at(err, write_all(c, m, output, &result, err), "%s", c->arg[0]);
    if (!rc)
        rc = report(c, m, output, &result, err);
    pare_model_free(m);
    return rc;
}

const struct pare_command pare_command_export = {
    .name = "export",
    .doc = "Write a model with another shape, opset, or layout of its weights.",
    .usage = "[options] MODEL [-o FILE]",
    .more = "Everything that the options do not change is copied from MODEL.  What intake does\n"
            "on load (pare inspect -v) is written if an option changes the model, or with\n"
            "--intake.\n"
            "\n"
            "--simplify folds constants and batch normalizations, and removes nodes that\n"
            "have no effect, for every size of the free dimensions.  Both models are run\n"
            "and compared.",
    .example = "pare export model.onnx --opset 17 -o model17.onnx\n"
               "pare export model.onnx --simplify -o simple.onnx\n"
               "pare export model.onnx --state weights.pth",
    .first = (const char *const[]){ "output", "state", "input-shape", "opset", "fold", "simplify",
                                    "free-batch", NULL },
    .opts = export_opts,
    .size = sizeof(struct export),
    .min_args = 1,
    .max_args = 1,
    .writes = (const char *const[]){ "output", "state", NULL },
    .run = cmd_export_run,
};
