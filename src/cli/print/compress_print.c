/* compress_print.c - print the steps of a recipe and its result. */
#include "compress_print.h"

#include <math.h>

#include <jansson.h>

#include "metric_print.h"
#include "../../base/arena.h"
#include "latency.h"
#include "screen.h"

static double number(const json_t *facts, const char *key)
{
    const json_t *v = json_object_get(facts, key);

    return json_is_number(v) ? json_number_value(v) : -1;
}

static const char *metric_text(const json_t *m, char *buf, size_t size)
{
    struct pare_metric_value v = { NULL, NAN, json_is_true(json_object_get(m, "percent")), false };

    if (json_is_number(json_object_get(m, "value")))
        v.value = json_number_value(json_object_get(m, "value"));
    return pare_metric_text(&v, buf, size);
}

static void print_metric(const json_t *m)
{
    const char *name = json_string_value(json_object_get(m, "name"));
    char text[PARE_NUM_TEXT];

    if (name)
        printf("%s %s, ", name, metric_text(m, text, sizeof(text)));
}

void pare_compress_begin(const struct pare_recipe *r, int i, bool before)
{
    printf("%d/%d %s%s\n", i + 1, r->n_steps, r->step[i].name, before ? ": already done" : "");
    fflush(stdout);
}

void pare_compress_end(const json_t *step, const json_t *input)
{
    const json_t *m = json_object_get(step, "model");
    char params[PARE_NUM_TEXT], macs[PARE_NUM_TEXT], bytes[PARE_NUM_TEXT], time[PARE_NUM_TEXT];
    double top1 = m ? number(m, "accuracy") : number(json_object_get(step, "result"), "top1");

    printf("    ");
    if (m)
        printf("%s parameters, %s MACs, %s, ",
               pare_count_text(number(m, "parameters"), params, sizeof(params)),
               pare_count_text(number(m, "macs"), macs, sizeof(macs)),
               pare_bytes_text(number(m, "bytes"), bytes, sizeof(bytes)));
    if (m && number(m, "zeros") > 0.005 && number(m, "zeros") > number(input, "zeros"))
        printf("%.1f%% zeros, ", 100 * number(m, "zeros"));
    if (top1 >= 0)
        printf("accuracy %.2f%%, ", 100 * top1);
    else
        print_metric(
            json_array_get(json_object_get(m ? m : json_object_get(step, "result"), "metrics"), 0));
    if (m && json_is_number(json_object_get(m, "snr_db")))
        printf("%.1f dB, ", number(m, "snr_db"));
    printf("%s\n", pare_time_text(number(step, "took_seconds"), time, sizeof(time)));
    fflush(stdout);
}

/* ---- result --------------------------------------------------------------------------------- */

typedef const char *text_fn(double v, char *buf, size_t size);

static const char *percent(double v, char *buf, size_t size)
{
    snprintf(buf, size, "%.2f%%", 100 * v);
    return buf;
}

/* Before, after, and the ratio; for an accuracy the difference in percentage points. */
static void result_row(struct pare_table *t, const json_t *run, const char *name, const char *key,
                       text_fn *text)
{
    double was = number(json_object_get(run, "input"), key);
    double is = number(json_object_get(run, "output"), key);
    char a[PARE_NUM_TEXT], b[PARE_NUM_TEXT], c[PARE_NUM_TEXT];

    if (was < 0 || is < 0)
        return;
    if (text == percent)
        snprintf(c, sizeof(c), "%+.2f", 100 * (is - was));
    else
        snprintf(c, sizeof(c), "%.2fx", is > 0 ? was / is : 0);
    pare_table_row(t, name, text(was, a, sizeof(a)), text(is, b, sizeof(b)), c);
}

/* Metrics of tasks other than classification. */
static void metric_rows(struct pare_table *t, const json_t *run)
{
    const json_t *input = json_object_get(run, "input"), *output = json_object_get(run, "output");
    const json_t *list = json_object_get(input, "metrics"), *m;
    size_t i;

    if (json_is_number(json_object_get(input, "accuracy")))
        return;
    json_array_foreach(list, i, m)
    {
        const json_t *then = json_array_get(json_object_get(output, "metrics"), i);
        const char *name = json_string_value(json_object_get(m, "name"));
        bool percent = json_is_true(json_object_get(m, "percent"));
        double d = number(then, "value") - number(m, "value");
        char a[PARE_NUM_TEXT], b[PARE_NUM_TEXT], c[PARE_NUM_TEXT];

        snprintf(c, sizeof(c), percent ? "%+.2f" : "%+.3g", percent ? 100 * d : d);
        if (name && then)
            pare_table_row(t, name, metric_text(m, a, sizeof(a)), metric_text(then, b, sizeof(b)),
                           c);
    }
}

/* Without labels: how closely the outputs agree with those of the first model. */
static void agreement_rows(struct pare_table *t, struct pare_arena *a, const json_t *output)
{
    const json_t *snr = json_object_get(output, "snr_db");
    double same = number(output, "same_top1"), unequal = number(output, "unequal_runs");
    bool any = json_is_number(json_object_get(output, "cosine"));

    if (!json_object_get(output, "cosine"))
        return;
    if (unequal > 0)
        pare_table_row(t, "other rows in", "",
                       pare_sprintf(a, "%.0f of %.0f runs", unequal, number(output, "runs")), "");
    pare_table_row(t, "signal to noise", "",
                   json_is_number(snr) ? pare_sprintf(a, "%.1f dB", json_number_value(snr))
                   : !any              ? "no outputs"
                   : number(output, "max_difference") == 0 ? "no noise"
                                                           : "not a number",
                   "");
    if (any)
        pare_table_row(t, "cosine", "", pare_sprintf(a, "%.5f", number(output, "cosine")), "");
    if (same >= 0)
        pare_table_row(t, "same top-1", "", pare_sprintf(a, "%.2f%%", 100 * same), "");
}

static struct pare_latency latency_of(const json_t *facts)
{
    return (struct pare_latency){ number(facts, "seconds"), number(facts, "p10_seconds"),
                                  number(facts, "p90_seconds") };
}

/* How the latency was measured, its spread, and whether the machine was busy. */
static void print_latency(const json_t *run, const json_t *latency)
{
    struct pare_latency was = latency_of(json_object_get(run, "input"));
    struct pare_latency is = latency_of(json_object_get(run, "output"));
    const json_t *share = json_object_get(latency, "cpu_share");
    json_int_t threads = json_integer_value(json_object_get(latency, "threads"));
    char a[3 * PARE_NUM_TEXT], b[3 * PARE_NUM_TEXT], text[160];
    bool spread = was.p10 >= 0 && is.p10 >= 0;

    snprintf(text, sizeof(text),
             "latency: median of %lld alternating runs of each model, %lld thread%s%s",
             (long long)json_integer_value(json_object_get(latency, "runs")), (long long)threads,
             threads == 1 ? "" : "s", spread ? " (10th to 90th percentile):" : "");
    printf("\n");
    pare_put_paragraph(stdout, text);
    if (spread)
        printf("  %s, then %s\n", pare_latency_text(&was, a, sizeof(a)),
               pare_latency_text(&is, b, sizeof(b)));
    if (json_is_number(share))
        pare_busy_print(json_number_value(share));
}

/* The sizes at which MACs and latency were taken, if the model leaves them free. */
static void print_shapes(struct pare_arena *a, const struct pare_recipe *r, bool latency)
{
    const char *text = latency ? "MACs and latency are those of the first item:"
                               : "MACs are those of the first item:";

    for (int i = 0; i < r->shape.n && text; i++)
        text = pare_sprintf(a, "%s%s %s", text, i ? "," : "", r->shape.v[i]);
    if (r->shape.n && text)
        pare_put_paragraph(stdout, text);
}

int pare_compress_print(struct pare_arena *a, const struct pare_recipe *r, const json_t *run,
                        struct pare_err *err)
{
    struct pare_table *t = pare_table_new(a, "lrrr");
    const json_t *latency = json_object_get(run, "latency");

    if (!t)
        return pare_no_memory(err, "for a table");
    printf("\n");
    pare_table_row(t, "", "before", "after", "");
    result_row(t, run, "accuracy", "accuracy", percent);
    metric_rows(t, run);
    agreement_rows(t, a, json_object_get(run, "output"));
    result_row(t, run, "parameters", "parameters", pare_count_text);
    result_row(t, run, "MACs", "macs", pare_count_text);
    result_row(t, run, "file", "bytes", pare_bytes_text);
    result_row(t, run, "latency", "seconds", pare_time_text);
    pare_table_print(t, stdout);
    if (latency)
        print_latency(run, latency);
    else
        printf("\n");
    print_shapes(a, r, latency != NULL);
    printf("%s: compressed model\n%s: run record\n", r->output, r->run);
    return 0;
}
