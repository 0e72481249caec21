/* report_budget.c - costs of a compression to a budget; the front of several budgets. */
#include <math.h>
#include <stdio.h>

#include "../base/arena.h"
#include "page.h"

static const struct {
    const char *name, *key;
    enum pare_unit unit;
    double scale; /* to the unit of the page */
} costs[] = {
    { "Latency", "latency_us", PARE_SECONDS, 1e-6 },
    { "File", "bytes", PARE_BYTES, 1 },
    { "MACs", "macs", PARE_COUNT, 1 },
};

static void cost_row(struct pare_page *p, const struct pare_json *result, int k)
{
    static const char *const column[] = { "before", "limit", "predicted", "after" };
    char path[64];

    pare_page_put(p, "<tr><th>%s</th>", costs[k].name);
    for (size_t i = 0; i < sizeof(column) / sizeof(*column); i++) {
        snprintf(path, sizeof(path), "costs.%s.%s", costs[k].key, column[i]);
        pare_page_cell(p, costs[k].scale * pare_number(result, path), costs[k].unit);
    }
    pare_page_raw(p, "</tr>\n");
}

static void put_costs(struct pare_page *p, const struct pare_json *result)
{
    double before = pare_number(result, "held_out_before"),
           after = pare_number(result, "held_out_after");

    pare_page_raw(p,
                  "<div class=\"scroll\"><table class=\"budget\"><thead><tr><th></th>"
                  "<th class=\"n\">Before</th><th class=\"n\">Limit</th>"
                  "<th class=\"n\">Predicted</th><th class=\"n\">After</th></tr></thead><tbody>\n");
    for (int k = 0; k < 3; k++)
        cost_row(p, result, k);
    pare_page_put(p, "</tbody></table></div>\n<p class=\"note\">On %.0f held-out items",
                  pare_number(result, "held_out_items"));
    if (!isnan(before) && !isnan(after))
        pare_page_put(p, ": accuracy %.2f %% before, %.2f %% after", 100 * before, 100 * after);
    if (!isnan(pare_number(result, "snr_db")))
        pare_page_put(p, "; outputs %.1f dB from the original's", pare_number(result, "snr_db"));
    if (!isnan(pare_number(result, "divergence_nats")))
        pare_page_put(p, ", Kullback-Leibler divergence %.4g nats",
                      pare_number(result, "divergence_nats"));
    pare_page_raw(p, ".</p>\n");
}

static void put_front(struct pare_page *p, const struct pare_json *steps)
{
    double *x = pare_alloc(p->arena, (size_t)steps->n + 1, sizeof(*x));
    double *y = pare_alloc(p->arena, (size_t)steps->n + 1, sizeof(*y));
    struct pare_line line = { "models", x, y, steps->n + 1 };
    struct pare_chart c = { .title = "Accuracy against latency",
                            .x = "latency, part of the original's",
                            .y = "accuracy",
                            .percent_y = true,
                            .line = &line,
                            .n = 1 };
    double whole = pare_number(&steps->item[0], "result.costs.latency_us.before");

    if (!x || !y) {
        p->failed = true;
        return;
    }
    x[0] = 1;
    y[0] = pare_number(&steps->item[0], "result.held_out_before");
    for (int i = 0; i < steps->n; i++) {
        x[i + 1] = pare_number(&steps->item[i], "result.costs.latency_us.after") / whole;
        y[i + 1] = pare_number(&steps->item[i], "result.held_out_after");
    }
    if (isnan(y[0])) { /* without labels */
        c.title = "Signal-to-noise ratio of the outputs against latency";
        c.y = "dB";
        c.percent_y = false;
        for (int i = 0; i < steps->n; i++)
            y[i + 1] = pare_number(&steps->item[i], "result.snr_db");
        line = (struct pare_line){ "models", x + 1, y + 1, steps->n };
    }
    pare_page_chart(p, &c);
}

void pare_report_budget(struct pare_page *p, const struct pare_json *run)
{
    const struct pare_json *steps = pare_json_get(run, "steps");

    if (!pare_json_get(run, "budget") || !steps || steps->kind != PARE_JSON_LIST || !steps->n)
        return;
    pare_page_raw(p, steps->n > 1 ? "<h2>Front</h2>\n" : "<h2>Budget</h2>\n");
    if (steps->n > 1)
        put_front(p, steps);
    else if (pare_json_get(&steps->item[0], "result"))
        put_costs(p, pare_json_get(&steps->item[0], "result"));
}
