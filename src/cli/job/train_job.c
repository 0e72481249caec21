/* train_job.c - shared by commands that train: data, file checks, training loop, Ctrl-C. */
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
    const struct pare_train_options_conf *s = &j->setup->c;

    PARE_TRY(pare_output_path_check(c, j->output, err));
    if (s->checkpoint)
        PARE_TRY(pare_output_path_check(c, s->checkpoint, err));
    if (s->checkpoint && pare_same_path(s->checkpoint, j->output))
        return pare_fail(err, PARE_EIO,
                         "%s: is named both as the checkpoint and as the output model", j->output);
    if (s->teacher && (pare_same_path(s->teacher, j->output) ||
                       (s->checkpoint && pare_same_path(s->teacher, s->checkpoint))))
        return pare_fail(err, PARE_EIO, "%s: would overwrite the teacher; choose another name",
                         s->teacher);
    return 0;
}

/* Mask the zeros of weights (rank > 1); biases and other vectors may start at 0. */
static int mask_zeros(struct pare_cli *c, struct pare_trainer *t, struct pare_err *err)
{
    for (int i = 0; i < t->n_params; i++) {
        const struct pare_value *v = pare_graph_find(t->model->graph, t->name[i]);
        int64_t n = v && v->t.rank > 1 ? pare_numel(&v->t) : 0, zeros = 0;
        uint8_t *mask = pare_alloc(c->arena, (size_t)n + 1, 1);
        struct pare_tensor value;

        if (!mask)
            return pare_no_memory(err, "for masks");
        for (int64_t k = 0; k < n; k++) {
            mask[k] = pare_f32(&v->t)[k] != 0;
            zeros += !mask[k];
        }
        if (zeros)
            PARE_TRY(pare_trainer_mask(t, t->name[i], mask, &value, err));
    }
    return 0;
}

/* Only the first process prints. */
static void use_dist(const struct pare_cli *c, struct pare_train_job *j)
{
    j->quiet |= pare_dist_rank(c->dist) > 0;
    j->setup->trainer.dist = c->dist;
    if (!j->setup->c.threads)
        j->setup->c.threads = j->setup->trainer.threads = pare_dist_threads(c->dist);
}

int pare_train_job_open(struct pare_cli *c, struct pare_train_job *j, struct pare_err *err)
{
    int rc = pare_train_options_make(j->given, j->n_given, false, c->arena, &j->setup, err);

    if (!rc && j->setup->c.resume && !j->setup->c.checkpoint)
        rc = pare_fail(err, PARE_ECONFIG, "--resume needs --checkpoint: the file to resume from");
    c->usage = rc && rc != PARE_ENOMEM;
    if (rc)
        return rc;
    use_dist(c, j);
    if (!pare_dist_rank(c->dist))
        PARE_TRY(check_files(c, j, err));
    if (!j->model)
        PARE_TRY(pare_model_load(c->arg[0], &j->model, err));
    if (!pare_dist_rank(c->dist))
        PARE_TRY(pare_output_paths_model(c, j->model, j->output, err));
    if (j->setup->c.teacher)
        PARE_TRY(pare_model_load(j->setup->c.teacher, &j->teacher, err));
    j->setup->trainer.teacher = j->teacher;
    PARE_TRY(
        pare_train_options_data(j->setup, j->model, j->data_name, j->valid_name, j->data, err));
    if (j->teacher)
        PARE_TRY(pare_at(err, pare_model_fits(j->teacher, j->data[0], err), "teacher %s",
                         j->setup->c.teacher));
    if (j->looks)
        return 0;
    PARE_TRY(pare_at(err, pare_trainer_new(j->model, &j->setup->trainer, &j->trainer, err), "%s",
                     c->arg[0]));
    return j->keep_zeros ? mask_zeros(c, j->trainer, err) : 0;
}

/* With --resume, a mistyped file name would silently start over. */
static void warn_if_missing(const char *checkpoint)
{
    if (access(checkpoint, F_OK))
        fprintf(stderr, "%s: does not exist, training starts from the beginning\n", checkpoint);
}

int pare_train_job_train(struct pare_cli *c, struct pare_train_job *j, struct pare_err *err)
{
    struct pare_train_conf *t = &j->setup->train;
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
    rc = pare_train(j->trainer, j->data[0], j->data[1], t, &j->result, err);
    pare_resource_limits_training(NULL);
    if (!rc && j->progress.failed.code) {
        *err = j->progress.failed;
        rc = err->code;
    }
    return rc;
}

int pare_train_job_stopped(const struct pare_train_job *j, struct pare_err *err)
{
    if (!j->result.stopped)
        return 0;
    if (j->in_recipe)
        return pare_fail(err, PARE_EIO,
                         "stopped in epoch %lld, after %lld steps; to resume, repeat the command "
                         "with --resume",
                         (long long)j->result.epochs + 1, (long long)j->result.steps);
    return pare_fail(err, PARE_EIO,
                     "stopped in epoch %lld, after %lld steps; to resume, repeat the command "
                     "with --checkpoint %s --resume",
                     (long long)j->result.epochs + 1, (long long)j->result.steps,
                     j->setup->train.checkpoint);
}

void pare_train_job_close(struct pare_train_job *j)
{
    json_decref(j->progress.history);
    pare_trainer_free(j->trainer);
    pare_data_free(j->data[0]);
    pare_data_free(j->data[1]);
    pare_model_free(j->teacher);
    pare_model_free(j->model);
}
