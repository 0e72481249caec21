/* short_tuning.c - fine-tuning of a candidate for a few steps, and new statistics of its batch
 * normalizations, on items that are not held out. */
#include "search.h"

#include "../base/arena.h"
#include "../train/recalibrate.h"

bool pare_search_is_of_job(const char *name)
{
    static const char *const own[] = { "epochs", "checkpoint", "checkpoint_steps",
                                       "resume", "max_drop",   "patience",
                                       "valid",  "teacher",    "ema",
                                       NULL };

    for (int i = 0; own[i]; i++)
        if (pare_search_same_name(own[i], name))
            return true;
    return false;
}

static int train(struct pare_finetune *f, int64_t steps, struct pare_err *err)
{
    struct pare_train_conf *k = &f->options->train;
    int64_t batch = k->batch ? k->batch : f->data[0]->opts.batch;
    int64_t each = batch > 0 ? (f->data[0]->n + batch - 1) / batch : 1;

    k->max_steps = steps;
    k->epochs = (steps + each - 1) / each;
    k->checkpoint = NULL;
    k->keep_best = false;
    return pare_finetune_train(f, err);
}

static int tune(struct pare_finetune *f, int64_t steps, struct pare_err *err)
{
    int64_t done;

    PARE_TRY(pare_finetune_options(f, err));
    PARE_TRY(pare_finetune_open(f, err));
    if (steps)
        PARE_TRY(train(f, steps, err));
    return pare_finetune_recalibrate(f, NULL, NULL, &done, err);
}

bool pare_search_has_statistics(const struct pare_search *s)
{
    const struct pare_finetune *f = &s->job->tune;

    return f->trainer && f->options->c.recalibrate > 0 && pare_recalibrate_count(f->trainer);
}

int pare_search_tune(struct pare_search *s, struct pare_model *m, int64_t steps,
                     struct pare_err *err)
{
    const struct pare_finetune *of = &s->job->tune;
    struct pare_finetune f = { .arena = pare_arena_new(1 << 16),
                               .dist = of->dist,
                               .model = m,
                               .path = of->path,
                               .set = { s->rest, NULL },
                               .tutor = of->teacher,
                               .quantized = true, /* a lower default rate, as for quantization */
                               .keep_zeros = true };
    struct pare_given *given;
    int rc;

    if (!f.arena)
        return pare_no_memory(err, "for a search");
    given = pare_alloc(f.arena, (size_t)of->n_given + 1, sizeof(*given));
    for (int i = 0; i < of->n_given && given; i++)
        if (!pare_search_is_of_job(of->given[i].name))
            given[f.n_given++] = of->given[i];
    f.given = given;
    rc = given ? tune(&f, steps, err) : pare_no_memory(err, "for a search");
    pare_finetune_close(&f);
    pare_arena_free(f.arena);
    return rc;
}
