/* repair_job.c - repair of a masked model with data, for commands that do not train. */
#include "repair_job.h"

#include "data_inputs.h"
#include "model_intake.h"
#include "../../train/train_options.h"

#define BATCHES 100 /* for the statistics of normalizations */

static int open_data(struct pare_cli *c, const struct pare_repair_job *j,
                     const struct pare_model *m, struct pare_data **data, struct pare_err *err)
{
    struct pare_data_request r = { .spec = j->data, .split = j->split ? j->split : "train" };

    r.n_io = pare_model_inputs(m, &r.io);
    return pare_cli_data_open(c, &r, &j->opts, j->quiet, data, err);
}

/* A trainer re-estimates statistics; a model that cannot be trained has none to estimate. */
static int open_trainer(struct pare_cli *c, const struct pare_repair_job *j, struct pare_model *m,
                        struct pare_trainer **trainer, struct pare_err *err)
{
    struct pare_train_options *s;
    struct pare_err ignored;

    *trainer = NULL;
    PARE_TRY(pare_train_options_make(NULL, 0, false, c->arena, &s, err));
    s->trainer.threads = j->threads;
    if (pare_trainer_new(m, &s->trainer, trainer, &ignored) == PARE_ENOMEM)
        return pare_no_memory(err, "to repair the model");
    return 0;
}

int pare_repair_job_run(struct pare_cli *c, struct pare_repair_job *j, struct pare_model *masked,
                        struct pare_err *err)
{
    struct pare_data *data = NULL;
    struct pare_trainer *trainer = NULL;
    int rc = 0;

    if (!j->dense)
        rc = pare_cli_load(c, j->original, &j->dense, err);
    if (!rc)
        rc = open_data(c, j, masked, &data, err);
    if (!rc)
        rc = open_trainer(c, j, masked, &trainer, err);
    if (!rc) {
        j->choice = (struct pare_repair_choice){
            .model = masked,
            .dense = j->dense,
            .trainer = trainer,
            .data = data,
            .recalibrate = { .batches = BATCHES,
                             .seed = 1,
                             .progress = pare_progress_line_show,
                             .user = j->line },
            .fit = true,
            .corrects = true,
            .threads = j->threads
        };
        rc = pare_repair_choose(&j->choice, err);
    }
    pare_progress_line_end(j->line);
    pare_trainer_free(trainer);
    pare_data_free(data);
    return rc;
}

void pare_repair_job_close(struct pare_repair_job *j)
{
    pare_model_free(j->dense);
    j->dense = NULL;
}
