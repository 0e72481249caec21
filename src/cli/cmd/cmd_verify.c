/* cmd_verify.c - pare verify: accuracy that a model loses against its original, with a bound; and
 * its certificate. */
#include <math.h>
#include <string.h>

#include <jansson.h>

#include "../cli.h"
#include "../job/data_inputs.h"
#include "../job/model_intake.h"
#include "../output_paths.h"
#include "../print/progress_line.h"
#include "../recipe/run_record.h"
#include "../../base/arena.h"
#include "../../plan/batch/free_batch.h"
#include "../../train/paired_bound.h"
#include "../../train/train_options.h"

#define LEAST_CONFIDENCE 50 /* percent */

struct verify {
    const char *data, *split, *against, *output;
    double max_drop, class_drop, confidence;
    bool quick, json;
};

static const struct pare_opt verify_opts[] = {
    { "data", "compare on this set: digits, fashion-mnist, a file or a folder", PARE_OPT_STR,
      offsetof(struct verify, data), 0, PARE_NO_MIN, PARE_NO_MAX, NULL, NULL, true, "SET" },
    PARE_CHOICE("split", offsetof(struct verify, split), "part of the set to use", "test",
                "train|val|test"),
    PARE_TEXT("against", offsetof(struct verify, against), "MODEL",
              "the original model, before compression", NULL),
    PARE_FLOAT("max-drop", offsetof(struct verify, max_drop),
               "exit code 3 unless the accuracy drops by at most X percentage points, with the "
               "confidence (default: no limit)",
               -1, -1, 100),
    PARE_FLOAT("class-drop", offsetof(struct verify, class_drop),
               "the same for each class, all of them together (default: no limit)", -1, -1, 100),
    PARE_FLOAT(
        "confidence", offsetof(struct verify, confidence),
        "confidence of the bounds in percent, at least 50; 0: limits are for the measured drop", 95,
        0, 99.9999),
    PARE_FLAG("quick", offsetof(struct verify, quick),
              "take items in random order and stop when --max-drop is decided", 0),
    PARE_TEXT("output", offsetof(struct verify, output), "FILE",
              "write the model with a certificate of this comparison", NULL),
    PARE_FLAG("json", offsetof(struct verify, json), "print the result as JSON", 0),
    PARE_OPT_END
};

struct job {
    struct pare_cli *c;
    const struct verify *o;
    struct pare_train_options *s;
    struct pare_model *model, *original; /* original NULL: not given */
    struct pare_data *data;
    char original_sha256[PARE_HASH_TEXT];
    bool certified; /* the model has a certificate */
    struct pare_certificate cert;
    struct pare_paired p;
};

static double alpha(const struct verify *o)
{
    return o->confidence > 0 ? 1 - o->confidence / 100 : 0.05;
}

/* ---- certificate --------------------------------------------------------------------------- */

static int differs(struct pare_err *err, const char *what, int64_t is, int64_t was)
{
    return pare_fail(err, PARE_ECONFIG,
                     "the certificate does not hold: %s is %lld, but %lld is certified", what,
                     (long long)is, (long long)was);
}

/* Is it about these items and this original? */
static int check_hashes(const struct job *j, struct pare_err *err)
{
    if (j->original && strcmp(j->original_sha256, j->cert.original_sha256) != 0)
        return pare_fail(err, PARE_ECONFIG,
                         "%s is not the original of the certificate: its SHA-256 is %.12s..., not "
                         "%.12s...",
                         j->o->against, j->original_sha256, j->cert.original_sha256);
    if (strcmp(j->p.data_sha256, j->cert.data_sha256) != 0)
        return pare_fail(err, PARE_ECONFIG,
                         "the data are not those of the certificate: %lld items with SHA-256 "
                         "%.12s..., not %lld with %.12s...; items, labels and options of the data "
                         "must be the same",
                         (long long)j->p.n, j->p.data_sha256, (long long)j->cert.n,
                         j->cert.data_sha256);
    return 0;
}

static int check_certificate(struct job *j, struct pare_err *err)
{
    const struct pare_certificate *t = &j->cert;
    struct pare_pairs pairs = { t->n, t->b, t->d };

    PARE_TRY(check_hashes(j, err));
    if (j->p.n != t->n)
        return differs(err, "the number of items", j->p.n, t->n);
    if (j->original && j->p.b != t->b)
        return differs(err, "b (right only with the original)", j->p.b, t->b);
    if (j->original && j->p.d != t->d)
        return differs(err, "d (right only with the model)", j->p.d, t->d);
    if (j->p.right != t->right)
        return differs(err, "the number of right answers", j->p.right, t->right);
    if (fabs(pare_pairs_drop(&pairs) - t->drop) > 1e-12 ||
        fabs(pare_pairs_upper(&pairs, 1 - t->confidence) - t->bound) > 1e-9)
        return pare_fail(
            err, PARE_ECONFIG,
            "the certificate does not hold: its drop or bound does not follow from its "
            "counts");
    if (!j->original) { /* the counts are those of the certificate */
        j->p.b = t->b;
        j->p.d = t->d;
        j->p.drop = pare_pairs_drop(&pairs);
        j->p.error = pare_pairs_error(&pairs);
        j->p.bound = pare_pairs_upper(&pairs, alpha(j->o));
    }
    return 0;
}

/* A copy of the file: the model in memory may accept other batches by now. */
static int write_certified(struct job *j, struct pare_err *err)
{
    struct pare_load_opts how = { .keep_training_mode = j->c->keep_training_mode };
    struct pare_certificate t = { .n = j->p.n,
                                  .b = j->p.b,
                                  .d = j->p.d,
                                  .right = j->p.right,
                                  .drop = j->p.drop,
                                  .bound = j->p.bound,
                                  .confidence = 1 - alpha(j->o) };
    struct pare_model *m;
    int rc;

    memcpy(t.original_sha256, j->original_sha256, sizeof(t.original_sha256));
    memcpy(t.data_sha256, j->p.data_sha256, sizeof(t.data_sha256));
    PARE_TRY(pare_model_load_with(j->c->arg[0], &how, &m, err));
    rc = pare_certificate_write(m, &t, err);
    if (!rc)
        rc = pare_model_save(m, j->o->output, NULL, err);
    pare_model_free(m);
    return rc;
}

/* ---- limits --------------------------------------------------------------------------------- */

static int missed(struct job *j, const char *whose, double drop, double limit, struct pare_err *err)
{
    j->c->missed = true;
    if (j->o->confidence > 0)
        return pare_fail(err, PARE_ECONFIG,
                         "%s may drop by up to %.2f points with a confidence of %g%%; %g are "
                         "allowed",
                         whose, 100 * drop, j->o->confidence, limit);
    return pare_fail(err, PARE_ECONFIG, "%s dropped by %.2f points; %g are allowed", whose,
                     100 * drop, limit);
}

static int check_limits(struct job *j, struct pare_err *err)
{
    const struct verify *o = j->o;
    bool sure = o->confidence > 0;
    double drop = sure ? j->p.bound : j->p.drop;
    double worst = sure ? j->p.class_bound : j->p.worst_drop;

    if (o->quick && j->p.decided > 0)
        return 0;
    /* Drops are quotients: allow for a rounding error at the limit. */
    if (pare_cli_is_set(j->c, "max-drop") && (o->quick || 100 * drop > o->max_drop + 1e-9))
        return missed(j, "accuracy", drop, o->max_drop, err);
    if (pare_cli_is_set(j->c, "class-drop") && 100 * worst > o->class_drop + 1e-9)
        return missed(j, "accuracy of a class", worst, o->class_drop, err);
    return 0;
}

/* ---- output --------------------------------------------------------------------------------- */

static const char *class_name(const struct job *j)
{
    if (j->p.worst < 0)
        return "-";
    if (j->data->class_name && j->data->class_name[j->p.worst])
        return j->data->class_name[j->p.worst];
    return pare_sprintf(j->c->arena, "%lld", (long long)j->p.worst);
}

static int print_json(struct job *j, struct pare_err *err)
{
    const struct pare_paired *p = &j->p;
    json_t *r = json_pack("{s:o, s:o, s:b, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:o}", "file",
                          pare_json_text(j->c->arg[0]), "data", pare_json_text(j->data->name),
                          "certified", j->certified, "items", (json_int_t)p->n, "right",
                          (json_int_t)p->right, "b", (json_int_t)p->b, "d", (json_int_t)p->d,
                          "drop", pare_json_real(p->drop), "error", pare_json_real(p->error),
                          "bound", pare_json_real(p->bound), "confidence",
                          pare_json_real(1 - alpha(j->o)), "against",
                          j->o->against ? pare_json_text(j->o->against) : json_null());

    if (r && j->original) {
        json_object_set_new(r, "worst_class", pare_json_text(class_name(j)));
        json_object_set_new(r, "worst_class_drop", pare_json_real(p->worst_drop));
        json_object_set_new(r, "class_bound", pare_json_real(p->class_bound));
    }
    return pare_json_result(j->c, r, err);
}

static int print_result(struct job *j, struct pare_err *err)
{
    const struct pare_paired *p = &j->p;
    char whole[PARE_NUM_TEXT];

    if (j->o->json)
        return print_json(j, err);
    printf("certificate          %s\n",
           j->c->missed && j->o->output ? "not written"
           : j->o->output               ? "written"
           : !j->certified              ? "none"
           : j->o->quick                ? "not checked, since not all items were compared"
           : j->original                ? "holds: model, original, data and counts are the same"
                                        : "holds: model, data and right answers are the same");
    printf("items                %s\n", pare_whole_text(p->n, whole, sizeof(whole)));
    printf("right                %.2f%%, the original %.2f%%\n",
           p->n ? 100 * (double)p->right / (double)p->n : 0,
           p->n ? 100 * (double)(p->right + p->b - p->d) / (double)p->n : 0);
    printf("only the original    %s\n", pare_whole_text(p->b, whole, sizeof(whole)));
    printf("only the model       %s\n", pare_whole_text(p->d, whole, sizeof(whole)));
    printf("drop                 %.2f points, standard error %.2f\n", 100 * p->drop,
           100 * p->error);
    printf("bound                %.2f points with a confidence of %g%%\n", 100 * p->bound,
           100 * (1 - alpha(j->o)));
    if (j->original) {
        printf("worst class          ");
        pare_put_clean(stdout, class_name(j));
        printf(", %.2f points\n", 100 * p->worst_drop);
        printf("bound of all classes %.2f points\n", 100 * p->class_bound);
    }
    return 0;
}

/* Without labels: how closely the outputs agree. */
static int print_agreement(struct job *j, struct pare_err *err)
{
    struct pare_agreement_opts ao = { .threads = j->s->trainer.threads };
    struct pare_agreement g;
    char whole[PARE_NUM_TEXT];

    if (j->o->output || j->certified || pare_cli_is_set(j->c, "max-drop") ||
        pare_cli_is_set(j->c, "class-drop"))
        return pare_fail(err, PARE_ECONFIG,
                         "'%s' has no class labels; certificates and limits need them",
                         j->data->name);
    PARE_TRY(pare_compare(j->model, j->original, j->data, &ao, &g, err));
    if (j->o->json)
        return pare_json_result(
            j->c,
            json_pack("{s:o, s:o, s:o, s:b, s:I, s:o, s:o, s:o, s:o}", "file",
                      pare_json_text(j->c->arg[0]), "against", pare_json_text(j->o->against),
                      "data", pare_json_text(j->data->name), "certified", 0, "items",
                      (json_int_t)g.n, "same_top1",
                      g.same_top1 >= 0 ? pare_json_real(g.same_top1) : json_null(), "kl",
                      pare_json_real(g.kl), "snr_db", pare_json_real(g.snr), "cosine",
                      pare_json_real(g.cosine)),
            err);
    printf("certificate          none\n");
    printf("items                %s, without class labels\n",
           pare_whole_text(g.n, whole, sizeof(whole)));
    if (g.same_top1 >= 0) {
        printf("same top-1           %.2f%%\n", 100 * g.same_top1);
        printf("KL divergence        %.3g\n", g.kl);
    }
    if (isinf(g.snr) && g.snr > 0)
        printf("signal to noise      no difference\n");
    else
        printf("signal to noise      %.1f dB\n", g.snr);
    printf("cosine               %.6f\n", g.cosine);
    return 0;
}

/* ---- command -------------------------------------------------------------------------------- */

static bool has_classes(const struct pare_data *d)
{
    return d->y.data && d->y.rank == 1 && d->y.dtype == PARE_I64;
}

static int compare(struct job *j, struct pare_err *err)
{
    struct pare_progress_line line;
    struct pare_paired_opts po = { .threads = j->s->trainer.threads,
                                   .confidence = 1 - alpha(j->o),
                                   .early = j->o->quick,
                                   .max_drop = j->o->max_drop / 100,
                                   .progress = pare_progress_line_show,
                                   .user = &line };
    int rc;

    if (!has_classes(j->data) && j->original)
        return print_agreement(j, err);
    PARE_TRY(pare_train_options_goal(j->s, j->model, j->data, err));
    pare_progress_line_start(&line, false);
    rc = pare_compare_paired(j->model, j->original ? j->original : j->model, j->data, &po, &j->p,
                             err);
    pare_progress_line_end(&line);
    if (!rc && j->certified && !j->o->quick && !j->o->output)
        rc = check_certificate(j, err);
    if (!rc && j->o->output && !check_limits(j, err))
        rc = write_certified(j, err);
    if (!rc)
        rc = print_result(j, err);
    return rc ? rc : check_limits(j, err);
}

static int load(struct job *j, struct pare_err *err)
{
    struct pare_cli *c = j->c;

    PARE_TRY(pare_cli_load(c, c->arg[0], &j->model, err));
    if (!j->o->output)
        PARE_TRY(pare_at(err, pare_certificate_read(j->model, &j->cert, &j->certified, err), "%s",
                         c->arg[0]));
    if (!j->certified && !j->o->against) {
        c->usage = true;
        return pare_fail(err, PARE_ECONFIG,
                         "%s has no certificate; compare it with its original (--against MODEL)",
                         c->arg[0]);
    }
    if (j->s->data.batch != 1)
        PARE_TRY(pare_model_try_batch_of_all(j->model, err));
    if (!j->o->against)
        return 0;
    PARE_TRY(pare_cli_load(c, j->o->against, &j->original, err));
    PARE_TRY(pare_model_sha256(j->o->against, j->original_sha256, err));
    return j->s->data.batch != 1 ? pare_model_try_batch_of_all(j->original, err) : 0;
}

static int open_data(struct job *j, struct pare_err *err)
{
    struct pare_data_request r = { .spec = j->o->data, .split = j->o->split };

    r.n_io = pare_model_inputs(j->model, &r.io);
    PARE_TRY(pare_cli_data_open(j->c, &r, &j->s->data, false, &j->data, err));
    PARE_TRY(pare_at(err, pare_model_fits_items(j->model, j->data, &j->s->goal, err), "%s",
                     j->c->arg[0]));
    if (j->original)
        PARE_TRY(pare_at(err, pare_model_fits_items(j->original, j->data, &j->s->goal, err), "%s",
                         j->o->against));
    pare_data_note(j->c, j->data);
    return 0;
}

static int check_options(struct pare_cli *c, struct pare_err *err)
{
    const struct verify *o = c->opts;

    if (o->quick &&
        (!o->against || !pare_cli_is_set(c, "max-drop") || o->output || o->confidence == 0))
        return pare_misuse(c, err,
                           "--quick needs --against, --max-drop and a confidence, and does not "
                           "write a certificate");
    if (o->confidence > 0 && o->confidence < LEAST_CONFIDENCE)
        return pare_misuse(c, err,
                           "--confidence %g is in percent, and below %d a bound says nothing: use "
                           "--confidence 95, or 0 for the measured drop",
                           o->confidence, LEAST_CONFIDENCE);
    if (o->output && !o->against)
        return pare_misuse(c, err, "a certificate needs the original model (--against MODEL)");
    if (pare_cli_is_set(c, "class-drop") && (!o->against || o->quick))
        return pare_misuse(c, err,
                           "--class-drop needs the original model (--against MODEL) and all items");
    return o->output ? pare_output_path_check(c, o->output, err) : 0;
}

static int work(struct pare_cli *c, bool run, struct pare_err *err)
{
    struct job j = { .c = c, .o = c->opts };
    int rc = check_options(c, err);

    if (rc)
        return rc;
    rc = pare_train_options_eval(c->given, c->n_given, c->arena, &j.s, err);
    if (rc) {
        c->usage = rc != PARE_ENOMEM;
        return rc;
    }
    rc = load(&j, err);
    if (!rc)
        rc = open_data(&j, err);
    if (!rc && run)
        rc = pare_at(err, compare(&j, err), "%s", c->arg[0]);
    pare_data_free(j.data);
    pare_model_free(j.original);
    pare_model_free(j.model);
    return rc;
}

static int cmd_verify_check(struct pare_cli *c, struct pare_err *err)
{
    return work(c, false, err);
}

static int cmd_verify_run(struct pare_cli *c, struct pare_err *err)
{
    return work(c, true, err);
}

const struct pare_command pare_command_verify = {
    .name = "verify",
    .doc = "Bound the accuracy that a model lost, and check its certificate.",
    .usage = "[options] MODEL --data SET [--against ORIGINAL]",
    .more =
        "With --against, both models run on the same items, and those are counted that only\n"
        "one of them gets right.  With -o, the result is stored in a copy of the model as its\n"
        "certificate.  A model with a certificate is checked: its bytes, the data, the original\n"
        "if given, and the counts.  Exit code 3: a limit is missed.",
    .example = "pare verify small.onnx --against model.onnx --data digits -o certified.onnx\n"
               "pare verify certified.onnx --data digits --max-drop 5",
    .first = (const char *const[]){ "data", "split", "against", "max-drop", "class-drop",
                                    "confidence", "output", NULL },
    .opts = verify_opts,
    .size = sizeof(struct verify),
    .min_args = 1,
    .max_args = 1,
    .writes = (const char *const[]){ "output", NULL },
    .run = cmd_verify_run,
    .check = cmd_verify_check,
    .groups = pare_eval_option_groups,
};
