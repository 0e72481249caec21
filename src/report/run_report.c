/* run_report.c - the HTML page of one compression, or of several. */
#include "report.h"

#include <math.h>
#include <string.h>

#include "../base/arena.h"
#include "page.h"
#include "report_files.h"

static void embed(struct pare_page *p, int file)
{
    pare_page_bytes(p, (const char *)pare_report_files[file].data, pare_report_files[file].len);
}

/* ---- summary table -------------------------------------------------------------------------- */

static const struct {
    const char *name, *key;
    enum pare_unit unit;
} headline[] = {
    { "Accuracy", "accuracy", PARE_SHARE },     { "File", "bytes", PARE_BYTES },
    { "Parameters", "parameters", PARE_COUNT }, { "MACs", "macs", PARE_COUNT },
    { "Latency", "seconds", PARE_SECONDS },
};

static double of(const struct pare_run_file *r, const char *model, const char *key)
{
    return pare_number(pare_json_get(r->run, model), key);
}

/* "14.7x smaller", or points of accuracy. */
static void gain_cell(struct pare_page *p, double was, double is, enum pare_unit u)
{
    if (isnan(was) || isnan(is) || (u != PARE_SHARE && is <= 0))
        pare_page_raw(p, "<td class=\"n\"></td>");
    else if (u == PARE_SHARE)
        pare_page_put(p, "<td class=\"n gain%s\">%+.2f<span class=\"word\"> points</span></td>",
                      is < was ? " lost" : "", 100 * (is - was));
    else
        pare_page_put(p, "<td class=\"n gain\">%.*f\xc3\x97<span class=\"word\"> %s</span></td>",
                      was / is < 9.95 ? 2 : 1, was / is, u == PARE_SECONDS ? "faster" : "smaller");
}

/* Metric i of a model; tasks other than classification have them instead of an accuracy. */
static const struct pare_json *metric_of(const struct pare_json *model, int i)
{
    const struct pare_json *list = pare_json_get(model, "metrics");

    if (!isnan(pare_number(model, "accuracy")) || !list || list->kind != PARE_JSON_LIST)
        return NULL;
    return i < list->n ? &list->item[i] : NULL;
}

static enum pare_unit metric_unit(const struct pare_json *metric)
{
    const struct pare_json *percent = metric ? pare_json_get(metric, "percent") : NULL;

    return percent && percent->kind == PARE_JSON_BOOL && percent->yes ? PARE_SHARE : PARE_PLAIN;
}

static void put_metrics(struct pare_page *p, const struct pare_run_file *r, int n)
{
    const struct pare_json *m;

    for (int k = 0; (m = metric_of(pare_json_get(r[0].run, "input"), k)) != NULL; k++) {
        double was = pare_number(m, "value");

        pare_page_raw(p, "<tr><th>");
        pare_page_text(p, pare_words(m, "name"));
        pare_page_raw(p, "</th>");
        pare_page_cell(p, was, metric_unit(m));
        for (int i = 0; i < n; i++) {
            const struct pare_json *then = metric_of(pare_json_get(r[i].run, "output"), k);
            double is = then ? pare_number(then, "value") : NAN;

            pare_page_cell(p, is, metric_unit(m));
            if (metric_unit(m) == PARE_SHARE)
                gain_cell(p, was, is, PARE_SHARE);
            else
                pare_page_raw(p, "<td></td>");
        }
        pare_page_raw(p, "</tr>\n");
    }
}

static void put_summary(struct pare_page *p, const struct pare_run_file *r, int n)
{
    pare_page_raw(p, "<div class=\"scroll\"><table class=\"headline\" id=\"headline\"><thead><tr>"
                     "<th></th><th class=\"n\">Before</th>");
    for (int i = 0; i < n; i++) {
        pare_page_raw(p, "<th class=\"n\">");
        pare_page_text(p, n > 1 ? r[i].name : "After");
        pare_page_raw(p, "</th><th></th>");
    }
    pare_page_raw(p, "</tr></thead><tbody>\n");
    put_metrics(p, r, n);
    for (size_t k = 0; k < sizeof(headline) / sizeof(*headline); k++) {
        double was = of(&r[0], "input", headline[k].key);

        if (isnan(was) && isnan(of(&r[0], "output", headline[k].key)))
            continue;
        pare_page_put(p, "<tr data-key=\"%s\"><th>%s</th>", headline[k].key, headline[k].name);
        pare_page_cell(p, was, headline[k].unit);
        for (int i = 0; i < n; i++) {
            double is = of(&r[i], "output", headline[k].key);

            pare_page_cell(p, is, headline[k].unit);
            gain_cell(p, of(&r[i], "input", headline[k].key), is, headline[k].unit);
        }
        pare_page_raw(p, "</tr>\n");
    }
    pare_page_raw(p, "</tbody></table></div>\n");
}

/* ---- steps ---------------------------------------------------------------------------------- */

static void step_row(struct pare_page *p, const char *name, const struct pare_json *model,
                     double took)
{
    static const enum pare_unit unit[] = { PARE_SHARE, PARE_COUNT, PARE_COUNT,
                                           PARE_SHARE, PARE_BYTES, PARE_SECONDS };
    static const char *const key[] = {
        "accuracy", "parameters", "macs", "zeros", "bytes", "seconds"
    };

    pare_page_raw(p, "<tr><th>");
    pare_page_text(p, name);
    pare_page_raw(p, "</th>");
    for (size_t i = 0; i < 6; i++) {
        const struct pare_json *m = i || !model ? NULL : metric_of(model, 0);

        if (m)
            pare_page_cell(p, pare_number(m, "value"), metric_unit(m));
        else
            pare_page_cell(p, pare_number(model, key[i]), unit[i]);
    }
    pare_page_cell(p, took, PARE_SECONDS);
    pare_page_raw(p, "</tr>\n");
}

static void put_steps(struct pare_page *p, const struct pare_json *run)
{
    const struct pare_json *steps = pare_json_get(run, "steps");

    const struct pare_json *input = pare_json_get(run, "input");
    const struct pare_json *metric = input ? metric_of(input, 0) : NULL;

    pare_page_raw(p, "<div class=\"scroll\"><table class=\"steps\"><thead><tr><th>Step</th>"
                     "<th class=\"n\">");
    pare_page_text(p, metric ? pare_words(metric, "name") : "Accuracy");
    pare_page_raw(p, "</th><th class=\"n\">Parameters</th>"
                     "<th class=\"n\">MACs</th><th class=\"n\">Zeros</th><th class=\"n\">File</th>"
                     "<th class=\"n\">Latency</th><th class=\"n\">Took</th></tr></thead><tbody>\n");
    step_row(p, "the model before", pare_json_get(run, "input"), NAN);
    for (int i = 0; steps && i < steps->n; i++) {
        const char *name = pare_words(&steps->item[i], "step");
        const struct pare_json *m = pare_json_get(&steps->item[i], "model");

        if (m)
            step_row(p, name ? name : "?", m, pare_number(&steps->item[i], "took_seconds"));
    }
    step_row(p, "the model after", pare_json_get(run, "output"), NAN);
    pare_page_raw(p, "</tbody></table></div>\n");
}

/* Accuracy against file size, step by step. */
static void put_path(struct pare_page *p, const struct pare_run_file *r, int n)
{
    struct pare_line *line = pare_alloc(p->arena, (size_t)n, sizeof(*line));
    struct pare_chart c = { .title = "Accuracy against file size by step",
                            .x = "file, bytes",
                            .y = "accuracy",
                            .log_x = true,
                            .percent_y = true,
                            .line = line,
                            .n = n };
    bool any = false;

    for (int i = 0; line && i < n; i++) {
        const struct pare_json *steps = pare_json_get(r[i].run, "steps");
        int room = (steps ? steps->n : 0) + 1, at = 0;
        double *x = pare_alloc(p->arena, (size_t)room, sizeof(*x));
        double *y = pare_alloc(p->arena, (size_t)room, sizeof(*y));

        if (!x || !y) {
            p->failed = true;
            return;
        }
        x[at] = of(&r[i], "input", "bytes");
        y[at++] = of(&r[i], "input", "accuracy");
        for (int k = 0; steps && k < steps->n; k++) {
            const struct pare_json *m = pare_json_get(&steps->item[k], "model");

            x[at] = pare_number(m, "bytes");
            y[at] = pare_number(m, "accuracy");
            at += m != NULL;
        }
        any |= isfinite(y[0]);
        line[i] = (struct pare_line){ n > 1 ? r[i].name : "steps", x, y, at };
    }
    if (any)
        pare_page_chart(p, &c);
}

/* ---- reproduction --------------------------------------------------------------------------- */

/* Indented JSON. */
static void put_pretty(struct pare_page *p, const struct pare_json *v, int depth)
{
    bool object = v->kind == PARE_JSON_OBJECT;

    if ((v->kind != PARE_JSON_LIST && !object) || !v->n || depth > 1) {
        const char *text = pare_json_write(p->arena, v);

        p->failed |= !text;
        pare_page_text(p, text);
        return;
    }
    pare_page_raw(p, object ? "{\n" : "[\n");
    for (int i = 0; i < v->n; i++) {
        pare_page_put(p, "%*s", 2 * depth + 2, "");
        if (object) {
            pare_page_raw(p, "&quot;");
            pare_page_text(p, v->item[i].key);
            pare_page_raw(p, "&quot;: ");
        }
        put_pretty(p, &v->item[i], depth + 1);
        pare_page_raw(p, i + 1 < v->n ? ",\n" : "\n");
    }
    pare_page_put(p, "%*s%s", 2 * depth, "", object ? "}" : "]");
}

static void fact(struct pare_page *p, const char *name, const char *value)
{
    if (!value)
        return;
    pare_page_put(p, "<dt>%s</dt><dd>", name);
    pare_page_text(p, value);
    pare_page_raw(p, "</dd>");
}

static void put_origin(struct pare_page *p, const struct pare_json *run)
{
    const struct pare_json *recipe = pare_json_get(run, "recipe");

    if (!recipe)
        pare_page_raw(p, "<h2>Reproduce</h2>\n<p>Options of <code>pare compress</code>:</p>\n"
                         "<pre class=\"recipe\">");
    else
        pare_page_raw(p, "<h2>Reproduce</h2>\n<p>Write this to <code>recipe.json</code> and run "
                         "<code>pare compress recipe.json</code>.</p>\n<pre class=\"recipe\">");
    recipe = recipe ? recipe : pare_json_get(run, "budget");
    if (recipe)
        put_pretty(p, recipe, 0);
    pare_page_raw(p, "</pre>\n<dl class=\"facts\">");
    fact(p, "Pare", pare_words(run, "versions.pare"));
    fact(p, "Compiler", pare_words(run, "versions.compiler"));
    fact(p, "Data", pare_words(run, "data"));
    pare_page_put(p, "<dt>Seed</dt><dd>%.0f</dd>", pare_number(run, "seed"));
    fact(p, "Model before", pare_words(run, "input.path"));
    fact(p, "SHA-256", pare_words(run, "input.sha256"));
    fact(p, "Model after", pare_words(run, "output.path"));
    fact(p, "SHA-256", pare_words(run, "output.sha256"));
    fact(p, "Recipe's SHA-256", pare_words(run, "recipe_sha256"));
    pare_page_raw(p, "</dl>\n");
}

/* Percentiles of a model's latency in microseconds; older records have none. */
static void put_spread(struct pare_page *p, const struct pare_json *run, const char *model,
                       const char *words)
{
    const struct pare_json *facts = pare_json_get(run, model);
    double low = facts ? pare_number(facts, "p10_seconds") : NAN;
    double high = facts ? pare_number(facts, "p90_seconds") : NAN;

    if (!isnan(low) && !isnan(high))
        pare_page_put(p, "%s %.3g to %.3g \302\265s", words, 1e6 * low, 1e6 * high);
}

static void put_method(struct pare_page *p, const struct pare_json *run)
{
    double runs = pare_number(run, "latency.runs"), threads = pare_number(run, "latency.threads");
    double share = pare_number(run, "latency.cpu_share");

    if (isnan(runs))
        return;
    pare_page_put(p,
                  "<p class=\"note\">Latency: median of %.0f runs of each model in turn, batch "
                  "1, %.0f thread%s",
                  runs, threads, threads == 1 ? "" : "s");
    put_spread(p, run, "input", "; 10th to 90th percentile");
    put_spread(p, run, "output", ", after");
    pare_page_raw(p, ".");
    if (share < 0.9) /* not if it is NaN: older records have none */
        pare_page_put(p,
                      " The machine was busy, so latencies are unreliable: measuring had the "
                      "processor for %.0f %% of the time.",
                      100 * share);
    pare_page_raw(p, "</p>\n");
}

static void put_run(struct pare_page *p, const struct pare_run_file *r, bool several)
{
    if (several) {
        pare_page_raw(p, "<h1 class=\"part\">");
        pare_page_text(p, r->name);
        pare_page_raw(p, "</h1>\n");
    }
    pare_report_budget(p, r->run);
    pare_page_raw(p, pare_json_get(r->run, "budget") ? "<h2>Models</h2>\n" : "<h2>Steps</h2>\n");
    if (!several)
        put_path(p, r, 1);
    put_steps(p, r->run);
    put_method(p, r->run);
    pare_report_training(p, r->run);
    pare_report_layers(p, r->run);
    pare_report_sensitivity(p, r->run);
    pare_report_weights(p, r->run);
    put_origin(p, r->run);
}

static void put_title(struct pare_page *p, const struct pare_run_file *r, int n)
{
    if (n > 1) {
        pare_page_put(p, "%d runs compared", n);
        return;
    }
    pare_page_text(p, pare_words(r->run, "input.path"));
    pare_page_raw(p, " \xe2\x86\x92 ");
    pare_page_text(p, pare_words(r->run, "output.path"));
}

static void put_page(struct pare_page *p, const struct pare_run_file *r, int n)
{
    pare_page_raw(p, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
                     "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                     "<meta name=\"color-scheme\" content=\"light dark\">\n"
                     "<link rel=\"icon\" href=\"data:,\">\n<title>Pare: ");
    put_title(p, r, n);
    pare_page_raw(p, "</title>\n<style>\n");
    embed(p, PARE_STYLE);
    pare_page_raw(p,
                  "</style></head>\n<body><main>\n<header><p class=\"brand\">Pare report</p><h1>");
    put_title(p, r, n);
    pare_page_raw(p, "</h1></header>\n");
    put_summary(p, r, n);
    if (n > 1)
        put_path(p, r, n);
    for (int i = 0; i < n; i++)
        put_run(p, &r[i], n > 1);
    pare_page_raw(p, "</main>\n");
    if (pare_report_files[PARE_CHARTS].len > PARE_NO_CHARTS) {
        pare_page_raw(p, "<script>\n/*!\n");
        embed(p, PARE_LICENSE);
        pare_page_raw(p, "*/\n");
        embed(p, PARE_CHARTS);
        pare_page_raw(p, "\n</script>\n<script>\n");
        embed(p, PARE_SCRIPT);
        pare_page_raw(p, "</script>\n");
    }
    pare_page_raw(p, "</body></html>\n");
}

int pare_report(const struct pare_run_file *run, int n, struct pare_arena *a, const char **page,
                size_t *len, struct pare_err *err)
{
    struct pare_page p = { .arena = a };

    for (int i = 0; i < n; i++) {
        const char *format = pare_words(run[i].run, "format");

        if (!format || strcmp(format, "pare run 1") != 0)
            return pare_fail(err, PARE_EFORMAT,
                             "%s: not a record of 'pare compress' (\"format\" is not \"pare run "
                             "1\")",
                             run[i].name);
    }
    put_page(&p, run, n);
    if (p.failed)
        return pare_no_memory(err, "for the report");
    *page = p.text;
    *len = p.len;
    return 0;
}
