/* train_job.c - shared by commands that train: data, file checks, training loop, Ctrl-C. */
#include "model_intake.h"
#include "../print/progress_line.h"
#include "../print/screen.h"
#include "train_job.h"

#include <errno.h>
#include <libgen.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "../output_paths.h"
#include "../../base/arena.h"
#include "../../base/clock.h"
#include "../../onnx/model.h"
#include "../../train/accuracy_drop.h"

/* Set by the signal handler, read by the training loop. */
static volatile sig_atomic_t stop;

static void on_signal(int signal)
{
    (void)signal;
    stop = 1;
}

/* A second signal of the same kind ends the process (SA_RESETHAND).
 *
 * The handler needs its own stack: oneDNN's GEMM kernels use the stack pointer as a data pointer,
 * so a signal frame pushed there would overwrite a buffer. */
static void catch_signals(void)
{
    static char memory[1 << 16];
    const stack_t stack = { .ss_sp = memory, .ss_size = sizeof(memory) };
    struct sigaction a = {
        .sa_handler = on_signal,
        .sa_flags = SA_RESTART | SA_ONSTACK | (int)SA_RESETHAND,
    };

    sigemptyset(&a.sa_mask);
    sigaltstack(&stack, NULL);
    sigaction(SIGINT, &a, NULL);
    sigaction(SIGTERM, &a, NULL);
}

/* ---- setup ------------------------------------------------------------------------------- */

/* Output and checkpoint must differ from each other and from all inputs. */
static int check_files(struct pare_cli *c, const struct pare_train_job *j, struct pare_err *err)
{
    const struct pare_train_options_conf *s = &j->tune->options->c;

    PARE_TRY(pare_output_path_check(c, j->output, err));
    if (s->checkpoint)
        PARE_TRY(pare_output_path_check(c, s->checkpoint, err));
    if (s->checkpoint && pare_same_path(s->checkpoint, j->output))
        return pare_fail(err, PARE_EIO,
                         "%s: is named both as the checkpoint and as the output model", j->output);
    if (s->teacher && strcmp(s->teacher, "self") &&
        (pare_same_path(s->teacher, j->output) ||
         (s->checkpoint && pare_same_path(s->teacher, s->checkpoint))))
        return pare_fail(err, PARE_EIO, "%s: would overwrite the teacher; choose another name",
                         s->teacher);
    return 0;
}

int pare_train_job_load(struct pare_cli *c, struct pare_train_job *j, struct pare_err *err)
{
    struct pare_finetune *f = j->tune;

    f->arena = c->arena;
    f->dist = c->dist;
    f->path = c->arg[0];
    if (f->model)
        return 0;
    c->widen = true;
    PARE_TRY(pare_cli_load(c, c->arg[0], &j->model, err));
    c->widen = false;
    f->model = j->model;
    return pare_dist_rank(c->dist) ? 0 : pare_output_paths_model(c, f->model, j->output, err);
}

int pare_train_job_open(struct pare_cli *c, struct pare_train_job *j, struct pare_err *err)
{
    struct pare_finetune *f = j->tune;
    int rc;

    f->arena = c->arena;
    f->dist = c->dist;
    rc = pare_finetune_options(f, err);
    c->usage = rc && rc != PARE_ENOMEM;
    if (rc)
        return rc;
    j->quiet |= pare_dist_rank(c->dist) > 0; /* only the first process prints */
    if (!pare_dist_rank(c->dist))
        PARE_TRY(check_files(c, j, err));
    PARE_TRY(pare_train_job_load(c, j, err));
    PARE_TRY(pare_finetune_open(f, err));
    if (f->progress == pare_progress_line_show)
        pare_progress_line_end(f->user);
    pare_data_note(c, f->data[0]);
    pare_image_range_note(c, f->model, f->data[0]);
    pare_task_note(c, f->options);
    if (f->data_name || f->set[0])
        pare_logits_note(c, f->model, f->options->trainer.loss);
    return 0;
}

/* With --resume, a mistyped file name would silently start over. */
static void warn_if_missing(const char *checkpoint)
{
    if (access(checkpoint, F_OK))
        fprintf(stderr, "%s: does not exist, training starts from the beginning\n", checkpoint);
}

static void warn_of_idle(const struct pare_train_result *r)
{
    if (!r->n_idle)
        return;
    pare_put_warning();
    fprintf(stderr,
            "%d of %d parameters were not trained, because the loss does not depend on them or an "
            "operator without gradient follows: '%s'%s\n",
            r->n_idle, r->n_params, r->idle, r->n_idle > 1 ? ", ..." : "");
}

int pare_train_job_train(struct pare_cli *c, struct pare_train_job *j, struct pare_err *err)
{
    struct pare_train_conf *t = &j->tune->options->train;
    const char *term = getenv("TERM");
    int rc;

    j->progress = (struct pare_train_progress){
        .lines = j->quiet  ? NULL
                 : j->json ? stderr
                           : stdout,
        .bar = !j->quiet && isatty(STDERR_FILENO) && strcmp(term ? term : "", "dumb") != 0,
        .history = j->json ? json_array() : NULL,
        .journal = c->journal,
        .first = -1,
        .epoch = -1,
    };
    if (!t->checkpoint) {
        t->checkpoint = pare_sprintf(c->arena, "%s.checkpoint.safetensors", j->output);
        t->only_stopped = true;
    }
    t->user = &j->progress;
    t->on_batch = pare_train_progress_batch;
    t->on_epoch = pare_train_progress_epoch;
    t->stop = &stop;
    j->in_recipe = c->journal != NULL;
    if (t->resume && !j->quiet)
        warn_if_missing(t->checkpoint);
    catch_signals();
    pare_resource_limits_training(&stop);
    rc = pare_finetune_train(j->tune, err);
    pare_resource_limits_training(NULL);
    if (!rc && j->progress.failed.code) {
        *err = j->progress.failed;
        rc = err->code;
    }
    if (rc)
        return rc;
    pare_train_progress_best(&j->progress, &j->tune->result, t->keep_best);
    if (!j->quiet && !pare_dist_rank(c->dist))
        warn_of_idle(&j->tune->result);
    return 0;
}

int pare_train_job_stopped(const struct pare_train_job *j, struct pare_err *err)
{
    if (!j->tune->result.stopped)
        return 0;
    if (j->in_recipe)
        return pare_fail(err, PARE_EIO,
                         "stopped in epoch %lld, after %lld steps; to resume, repeat the command "
                         "with --resume",
                         (long long)j->tune->result.epochs + 1, (long long)j->tune->result.steps);
    return pare_fail(err, PARE_EIO,
                     "stopped in epoch %lld, after %lld steps; to resume, repeat the command "
                     "with --checkpoint %s --resume",
                     (long long)j->tune->result.epochs + 1, (long long)j->tune->result.steps,
                     j->tune->options->train.checkpoint);
}

int pare_train_job_drop(struct pare_cli *c, struct pare_train_job *j,
                        const struct pare_metrics *before, const struct pare_metrics *after,
                        const char *remedy, struct pare_err *err)
{
    double drop = pare_accuracy_drop(before, after);
    bool limited = j->tune->options && j->tune->options->c.max_drop >= 0;
    const char *kept;

    if (limited && pare_finetune_check_drop(j->tune, before, after, &j->over)) {
        if (!before->n || pare_metrics_share(before) < 0) {
            *err = j->over;
            return err->code;
        }
        kept = pare_default_output(c->arena, j->output, "best");
        if (!kept)
            return pare_no_memory(err, "for a file name");
        j->over.code = pare_at(&j->over, j->over.code, "%s: best model so far", kept);
        j->output = kept;
        return 0;
    }
    if (drop > PARE_DROP_WARNING && !limited && !c->in_recipe && !pare_dist_rank(c->dist)) {
        pare_put_warning();
        fprintf(stderr, "accuracy dropped by %.2f points, from %.2f%% to %.2f%%: %s\n", drop,
                100 * pare_metrics_share(before), 100 * pare_metrics_share(after), remedy);
    }
    return 0;
}

int pare_train_job_over(const struct pare_train_job *j, struct pare_err *err)
{
    if (j->over.code)
        *err = j->over;
    return j->over.code;
}

void pare_train_job_close(struct pare_train_job *j)
{
    json_decref(j->progress.history);
    pare_finetune_close(j->tune);
    pare_model_free(j->model);
}
