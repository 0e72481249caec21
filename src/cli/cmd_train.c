/* cmd_train.c - pare train: teach a model. */
#include <errno.h>
#include <libgen.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "cli.h"
#include "train_view.h"
#include "../base/arena.h"
#include "../train/setup.h"

struct train {
    const char *data, *valid, *output;
    bool json, quiet;
};

static const struct pare_opt train_opts[] = {
    { "data", "what to learn: digits, fashion-mnist, or a file or folder", PARE_OPT_STR,
      offsetof(struct train, data), 0, PARE_ANY, NULL, NULL, true },
    { "valid", "validate with this set; none: not at all", PARE_OPT_STR,
      offsetof(struct train, valid), 0, PARE_ANY, NULL, NULL, false },
    { "output", "where to write the trained model; default NAME-trained.onnx", PARE_OPT_STR,
      offsetof(struct train, output), 0, PARE_ANY, NULL, NULL, false },
    { "json", "print the whole history as JSON at the end", PARE_OPT_BOOL,
      offsetof(struct train, json), 0, 0, 1, NULL, NULL, false },
    { "quiet", "print no progress", PARE_OPT_BOOL, offsetof(struct train, quiet), 0, 0, 1, NULL,
      NULL, false },
    PARE_OPT_END
};

/* Everything of one call. */
struct job {
    const char *output;
    struct pare_setup *setup;
    struct pare_model *model, *teacher;
    struct pare_data *data[2]; /* to train, to validate or NULL */
    struct pare_trainer *trainer;
    struct pare_view_train view;
    struct pare_train_result result;
};

/* The one thing that a signal handler may touch. */
static volatile sig_atomic_t stop;

static void on_signal(int signal)
{
    (void)signal;
    stop = 1;
}

/* The second signal of a kind ends the process as usual. */
static void catch_signals(void)
{
    struct sigaction a = { .sa_handler = on_signal, .sa_flags = SA_RESTART | (int)SA_RESETHAND };

    sigemptyset(&a.sa_mask);
    sigaction(SIGINT, &a, NULL);
    sigaction(SIGTERM, &a, NULL);
}

/* ---- before ------------------------------------------------------------------------------ */

static const char *default_output(struct pare_arena *a, const char *model)
{
    size_t n = strlen(model);

    if (pare_ends_in(model, ".onnx"))
        n -= 5;
    return pare_sprintf(a, "%.*s-trained.onnx", (int)n, model);
}

static bool same_file(const char *a, const char *b)
{
    struct stat x, y;

    return !strcmp(a, b) ||
           (!stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino);
}

/* Better now than after hours of training. */
static int check_output(struct pare_cli *c, const char *path, struct pare_err *err)
{
    struct stat out;
    char *copy = pare_strdup(c->arena, path);
    const char *dir = copy ? dirname(copy) : ".";

    if (same_file(path, c->arg[0]))
        return pare_fail(err, PARE_EIO,
                         "%s: is the model that is to be trained; choose another "
                         "name",
                         path);
    if (!stat(path, &out) && !S_ISREG(out.st_mode))
        return pare_fail(err, PARE_EIO, "%s: is there already and is not a regular file", path);
    if (access(dir, W_OK | X_OK))
        return pare_fail(err, PARE_EIO, "%s: folder '%s' cannot be written to: %s", path, dir,
                         strerror(errno));
    return 0;
}

/* What is written must not be what is read, or written twice. */
static int check_files(struct pare_cli *c, const struct job *j, struct pare_err *err)
{
    const struct pare_setup_conf *s = &j->setup->c;

    PARE_TRY(check_output(c, j->output, err));
    if (s->checkpoint)
        PARE_TRY(check_output(c, s->checkpoint, err));
    if (s->checkpoint && same_file(s->checkpoint, j->output))
        return pare_fail(err, PARE_EIO, "%s: is to be both the checkpoint and the trained model",
                         j->output);
    if (s->teacher && (same_file(s->teacher, j->output) ||
                       (s->checkpoint && same_file(s->teacher, s->checkpoint))))
        return pare_fail(err, PARE_EIO, "%s: is the teacher; choose another name to write to",
                         s->teacher);
    return 0;
}

static int open_job(struct pare_cli *c, struct job *j, struct pare_err *err)
{
    const struct train *o = c->opts;
    int rc;

    j->output = o->output ? o->output : default_output(c->arena, c->arg[0]);
    if (!j->output)
        return pare_fail(err, PARE_ENOMEM, "no memory for a name");
    rc = pare_setup_make(c->given, c->n_given, c->arena, &j->setup, err);
    if (!rc && j->setup->c.resume && !j->setup->c.checkpoint)
        rc = pare_fail(err, PARE_ECONFIG, "--resume needs --checkpoint: the file to go on from");
    c->usage = rc && rc != PARE_ENOMEM;
    if (rc)
        return rc;
    PARE_TRY(check_files(c, j, err));
    PARE_TRY(pare_model_load(c->arg[0], &j->model, err));
    if (j->setup->c.teacher)
        PARE_TRY(pare_model_load(j->setup->c.teacher, &j->teacher, err));
    j->setup->trainer.teacher = j->teacher;
    PARE_TRY(pare_setup_data(j->setup, j->model, o->data, o->valid, j->data, err));
    if (j->teacher)
        PARE_TRY(pare_at(err, pare_model_fits(j->teacher, j->data[0], err), "teacher %s",
                         j->setup->c.teacher));
    return pare_at(err, pare_trainer_new(j->model, &j->setup->trainer, &j->trainer, err), "%s",
                   c->arg[0]);
}

/* A mistyped name would start anew, and hours later somebody would wonder. */
static void warn_of_start(const char *checkpoint)
{
    if (access(checkpoint, F_OK))
        fprintf(stderr, "%s: not there yet, so training starts from the beginning\n", checkpoint);
}

static int train(struct pare_cli *c, struct job *j, struct pare_err *err)
{
    const struct train *o = c->opts;
    struct pare_train_conf *t = &j->setup->train;
    const char *term = getenv("TERM");

    j->view = (struct pare_view_train){
        .lines = o->quiet  ? NULL
                 : o->json ? stderr
                           : stdout,
        .bar = !o->quiet && isatty(STDERR_FILENO) && strcmp(term ? term : "", "dumb") != 0,
        .history = o->json ? json_array() : NULL,
        .first = -1,
        .epoch = -1,
    };
    if (!t->checkpoint) {
        t->checkpoint = pare_sprintf(c->arena, "%s.checkpoint.safetensors", j->output);
        t->only_stopped = true;
    }
    t->user = &j->view;
    t->on_batch = pare_view_batch;
    t->on_epoch = pare_view_epoch;
    t->stop = &stop;
    if (t->resume && !o->quiet)
        warn_of_start(t->checkpoint);
    catch_signals();
    return pare_train(j->trainer, j->data[0], j->data[1], t, &j->result, err);
}

/* ---- after -------------------------------------------------------------------------------- */

static int print_json(const struct job *j, struct pare_err *err)
{
    const struct pare_train_result *r = &j->result;
    json_t *all = json_pack("{s:o?, s:I, s:I, s:b, s:o, s:o}", "output",
                            r->stopped ? NULL : pare_json_text(j->output), "epochs",
                            (json_int_t)r->epochs, "steps", (json_int_t)r->steps, "stopped",
                            r->stopped, "best", r->best < 0 ? json_null() : pare_json_real(r->best),
                            "history", json_incref(j->view.history));

    if (all && r->best_epoch >= 0)
        json_object_set_new(all, "best_epoch", json_integer(r->best_epoch + 1));
    return pare_json_print(all, err);
}

static int finish(struct pare_cli *c, struct job *j, struct pare_err *err)
{
    const struct train *o = c->opts;
    const struct pare_train_result *r = &j->result;

    if (!r->stopped)
        PARE_TRY(pare_model_save(j->model, j->output, NULL, err));
    if (o->json)
        PARE_TRY(print_json(j, err));
    if (r->stopped)
        return pare_fail(err, PARE_EIO,
                         "stopped in epoch %lld, after %lld steps; to go on, give "
                         "the same options and --checkpoint %s --resume",
                         (long long)r->epochs + 1, (long long)r->steps, j->setup->train.checkpoint);
    if (!o->json && !o->quiet)
        printf("%s: trained for %lld epoch%s, %lld step%s\n", j->output, (long long)r->epochs,
               r->epochs == 1 ? "" : "s", (long long)r->steps, r->steps == 1 ? "" : "s");
    return 0;
}

static int run(struct pare_cli *c, struct pare_err *err)
{
    struct job j = { 0 };
    int rc = open_job(c, &j, err);

    if (!rc)
        rc = train(c, &j, err);
    pare_view_end(&j.view);
    if (!rc)
        rc = finish(c, &j, err);
    json_decref(j.view.history);
    pare_trainer_free(j.trainer);
    pare_data_free(j.data[0]);
    pare_data_free(j.data[1]);
    pare_model_free(j.teacher);
    pare_model_free(j.model);
    return rc;
}

const struct pare_command pare_command_train = {
    .name = "train",
    .doc = "Train a model.",
    .usage = "[options] MODEL --data SET [-o OUTPUT]",
    .more =
        "SET is digits, fashion-mnist, or a path: IDX files as MNIST's, CIFAR-10's binary\n"
        "files, .npy or .npz, a folder of pictures by class, an ONNX test data set.  Validation\n"
        "is after each epoch, with what --holdout keeps back, else with the set's test part.\n"
        "Ctrl-C writes a checkpoint, from which --resume goes on as if nothing had happened.\n"
        "Optimizer, schedule, loss and data have options of their own; where two have one of\n"
        "the same name, say whose is meant: --optimizer-alpha, --teacher-alpha.",
    .opts = train_opts,
    .size = sizeof(struct train),
    .min_args = 1,
    .max_args = 1,
    .run = run,
    .parts = pare_setup_parts,
};
