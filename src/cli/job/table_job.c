/* table_job.c - pare bench --table: measure the times of a model's layers and write them. */
#include "table_job.h"

#include <jansson.h>

#include "model_intake.h"
#include "../output_paths.h"
#include "../print/progress_line.h"
#include "../../plan/tune/tune_cache.h"
#include "../../search/cost_table.h"

static bool show(void *user, const struct pare_progress *p)
{
    return pare_progress_line_show(user, p);
}

static int print(struct pare_cli *c, const struct pare_table_job *j,
                 const struct pare_cost_table *t, struct pare_err *err)
{
    if (j->json)
        return pare_json_result(c,
                                json_pack("{s:o, s:i, s:i, s:i, s:i, s:I, s:f, s:f}", "table",
                                          pare_json_text(j->table), "layers", t->n_layers, "groups",
                                          t->n_groups, "models", t->models, "threads", t->threads,
                                          "batch", (json_int_t)t->batch, "error_median",
                                          t->error_median, "error_worst", t->error_worst),
                                err);
    printf("%d layers in %d dependency groups: times of %d models, batch %lld, %d thread%s\n",
           t->n_layers, t->n_groups, t->models, (long long)t->batch, t->threads,
           t->threads == 1 ? "" : "s");
    printf("sums of layers differ from measured latencies by %.1f%% (median), %.1f%% (most)\n",
           100 * t->error_median, 100 * t->error_worst);
    printf("%s: written\n", j->table);
    return 0;
}

int pare_table_job_run(struct pare_cli *c, const struct pare_table_job *j, struct pare_err *err)
{
    struct pare_progress_line line;
    struct pare_cost_opts o = { .batch = j->batch,
                                .threads = j->threads,
                                .seconds = j->seconds,
                                .seed = j->seed,
                                .cache = pare_cache_folder(c->arena),
                                .write_table = j->table,
                                .progress = show,
                                .user = &line };
    struct pare_cost_table *t;
    struct pare_model *m;
    int rc;

    PARE_TRY(pare_output_path_check(c, j->table, err));
    PARE_TRY(pare_cli_load(c, j->model, &m, err));
    pare_progress_line_start(&line, false);
    rc = pare_cost_table_measure(m, &o, c->arena, &t, err);
    pare_progress_line_end(&line);
    pare_model_free(m);
    return rc ? rc : print(c, j, t, err);
}
