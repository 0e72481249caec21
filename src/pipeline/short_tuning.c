/* short_tuning.c - training of a model for a few steps with the options of another training. */
#include "short_tuning.h"

#include <string.h>

#include "../base/arena.h"

bool pare_same_option_name(const char *a, const char *b)
{
    for (; *a && *b; a++, b++)
        if (*a != *b && !((*a == '-' || *a == '_') && (*b == '-' || *b == '_')))
            return false;
    return *a == *b;
}

bool pare_tuning_is_of_job(const char *name)
{
    static const char *const own[] = { "epochs", "checkpoint", "checkpoint_steps",
                                       "resume", "max_drop",   "patience",
                                       "valid",  "teacher",    "ema",
                                       NULL };

    for (int i = 0; own[i]; i++)
        if (pare_same_option_name(own[i], name))
            return true;
    return false;
}

static int train(struct pare_finetune *f, const struct pare_short_tuning *s, struct pare_err *err)
{
    struct pare_train_conf *k = &f->options->train;
    int64_t batch = k->batch ? k->batch : f->data[0]->opts.batch;
    int64_t each = batch > 0 ? (f->data[0]->n + batch - 1) / batch : 1;

    k->max_steps = s->steps;
    k->epochs = (s->steps + each - 1) / each;
    k->checkpoint = NULL;
    k->keep_best = false;
    if (s->constant)
        PARE_TRY(pare_find_schedule("constant", &k->schedule, err));
    return pare_finetune_train_with(f, s->progress, s->user, err);
}

static int run(struct pare_finetune *f, const struct pare_short_tuning *s, struct pare_err *err)
{
    int64_t done;

    PARE_TRY(pare_finetune_options(f, err));
    PARE_TRY(pare_finetune_open(f, err));
    if (s->steps)
        PARE_TRY(train(f, s, err));
    return s->recalibrate ? pare_finetune_recalibrate(f, NULL, NULL, &done, err) : 0;
}

int pare_short_tuning(const struct pare_short_tuning *s, struct pare_err *err)
{
    const struct pare_finetune *of = s->of;
    struct pare_finetune f = { .arena = pare_arena_new(1 << 16),
                               .dist = of->dist,
                               .model = s->model,
                               .path = of->path,
                               .set = { s->data, NULL },
                               .tutor = of->teacher ? of->teacher : of->tutor,
                               .quantized = s->low_rate,
                               .keep_zeros = true };
    struct pare_given *given;
    int rc;

    if (!f.arena)
        return pare_no_memory(err, "for a short training");
    given = pare_alloc(f.arena, (size_t)of->n_given + 1, sizeof(*given));
    for (int i = 0; i < of->n_given && given; i++)
        if (!pare_tuning_is_of_job(of->given[i].name))
            given[f.n_given++] = of->given[i];
    f.given = given;
    rc = given ? run(&f, s, err) : pare_no_memory(err, "for a short training");
    pare_finetune_close(&f);
    pare_arena_free(f.arena);
    return rc;
}
