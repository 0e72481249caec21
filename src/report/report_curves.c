/* report_curves.c - sections with curves: training, sensitivity of layers. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../base/arena.h"
#include "page.h"

/* A column of a list of objects. */
static double *column(struct pare_page *p, const struct pare_json *list, const char *key)
{
    double *v = pare_alloc(p->arena, (size_t)list->n + 1, sizeof(*v));

    p->failed |= !v;
    for (int i = 0; v && i < list->n; i++)
        v[i] = pare_number(&list->item[i], key);
    return v;
}

/* ---- training ------------------------------------------------------------------------------- */

static void training_table(struct pare_page *p, const struct pare_json *h)
{
    pare_page_raw(p, "<details><summary>As a table</summary><div class=\"scroll\"><table "
                     "class=\"training\"><thead><tr><th class=\"n\">Epoch</th>"
                     "<th class=\"n\">Loss</th><th class=\"n\">Accuracy</th>"
                     "<th class=\"n\">Validation loss</th><th class=\"n\">Validation accuracy</th>"
                     "<th class=\"n\">Learning rate</th></tr></thead><tbody>\n");
    for (int i = 0; i < h->n; i++) {
        pare_page_raw(p, "<tr>");
        pare_page_cell(p, pare_number(&h->item[i], "epoch"), PARE_COUNT);
        pare_page_cell(p, pare_number(&h->item[i], "loss"), PARE_PLAIN);
        pare_page_cell(p, pare_number(&h->item[i], "top1"), PARE_SHARE);
        pare_page_cell(p, pare_number(&h->item[i], "valid_loss"), PARE_PLAIN);
        pare_page_cell(p, pare_number(&h->item[i], "valid_top1"), PARE_SHARE);
        pare_page_cell(p, pare_number(&h->item[i], "lr"), PARE_PLAIN);
        pare_page_raw(p, "</tr>\n");
    }
    pare_page_raw(p, "</tbody></table></div></details>\n");
}

static void training(struct pare_page *p, const struct pare_json *step, const struct pare_json *h)
{
    double *x = column(p, h, "epoch");
    struct pare_line loss[] = { { "loss", x, column(p, h, "loss"), h->n },
                                { "validation loss", x, column(p, h, "valid_loss"), h->n } };
    struct pare_line top1[] = { { "accuracy", x, column(p, h, "top1"), h->n },
                                { "validation accuracy", x, column(p, h, "valid_top1"), h->n } };
    struct pare_chart a = { .title = "Accuracy by epoch",
                            .x = "epoch",
                            .y = "accuracy",
                            .percent_y = true,
                            .line = top1,
                            .n = 2 };
    struct pare_chart b = { .title = "Loss by epoch",
                            .x = "epoch",
                            .y = "loss",
                            .line = loss,
                            .n = 2 };

    if (p->failed)
        return;
    pare_page_raw(p, "<h2>Training: ");
    pare_page_text(p, pare_words(step, "step"));
    pare_page_raw(p, "</h2>\n<div class=\"pair\">");
    pare_page_chart(p, &a);
    pare_page_chart(p, &b);
    pare_page_raw(p, "</div>\n");
    training_table(p, h);
}

void pare_report_training(struct pare_page *p, const struct pare_json *run)
{
    const struct pare_json *steps = pare_json_get(run, "steps");

    for (int i = 0; steps && i < steps->n; i++) {
        const struct pare_json *h = pare_at_path(&steps->item[i], "result.history");

        if (h && h->kind == PARE_JSON_LIST && h->n)
            training(p, &steps->item[i], h);
    }
}

/* ---- sensitivity ---------------------------------------------------------------------------- */

#define MOST_LINES 24

/* A layer's points: {"0.5": result with half of the layer pruned, ...}. */
static bool line_of(struct pare_page *p, const struct pare_json *l, struct pare_line *line)
{
    double *x, *y;

    if (l->kind != PARE_JSON_OBJECT || !l->n)
        return false;
    x = pare_alloc(p->arena, (size_t)l->n, sizeof(*x));
    y = pare_alloc(p->arena, (size_t)l->n, sizeof(*y));
    p->failed |= !x || !y;
    for (int i = 0; !p->failed && i < l->n; i++) {
        x[i] = strtod(l->item[i].key, NULL);
        y[i] = pare_number(&l->item[i], "");
    }
    *line = (struct pare_line){ l->key, x, y, l->n };
    return !p->failed;
}

static void sensitivity_table(struct pare_page *p, const struct pare_line *line, int n)
{
    pare_page_raw(p, "<details><summary>As a table</summary><div class=\"scroll\"><table "
                     "class=\"sensitivity\"><thead><tr><th>Layer</th><th class=\"n\">Sparsity</th>"
                     "<th class=\"n\">Result</th></tr></thead><tbody>\n");
    for (int i = 0; i < n; i++)
        for (int k = 0; k < line[i].n; k++) {
            pare_page_raw(p, "<tr><th>");
            pare_page_text(p, k ? "" : line[i].label);
            pare_page_raw(p, "</th>");
            pare_page_cell(p, line[i].x[k], PARE_SHARE);
            pare_page_cell(p, line[i].y[k], PARE_PLAIN);
            pare_page_raw(p, "</tr>\n");
        }
    pare_page_raw(p, "</tbody></table></div></details>\n");
}

void pare_report_sensitivity(struct pare_page *p, const struct pare_json *run)
{
    const struct pare_json *steps = pare_json_get(run, "steps");
    struct pare_line line[MOST_LINES];

    for (int i = 0; steps && i < steps->n; i++) {
        const char *name = pare_words(&steps->item[i], "step");
        const struct pare_json *list = pare_at_path(&steps->item[i], "result.sensitivity");
        struct pare_chart c = { .title = "Result when one layer is pruned",
                                .x = "sparsity",
                                .y = "result",
                                .line = line };

        if (!name || strcmp(name, "sensitivity") != 0 || !list || list->kind != PARE_JSON_OBJECT)
            continue;
        for (int k = 0; k < list->n && c.n < MOST_LINES; k++)
            c.n += line_of(p, &list->item[k], &line[c.n]);
        if (!c.n || p->failed)
            continue;
        pare_page_raw(p, "<h2>Sensitivity</h2>\n<p class=\"note\">One layer at a time is pruned to "
                         "a sparsity, the others are unchanged.</p>\n");
        pare_page_chart(p, &c);
        sensitivity_table(p, line, c.n);
    }
}
