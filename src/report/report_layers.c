/* report_layers.c - sections about layers: sizes, sparsity and bits before and after; weight
 * histograms. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../base/arena.h"
#include "page.h"

/* Dimension i of a layer's weight; NaN: it has fewer. */
static double dim(const struct pare_json *side, int i)
{
    const struct pare_json *shape = pare_json_get(side, "shape");

    return shape && shape->kind == PARE_JSON_LIST && i < shape->n ? shape->item[i].num : NAN;
}

/* "64 -> 33"; one number if nothing changed. */
static void change_cell(struct pare_page *p, double was, double is, enum pare_unit u)
{
    char a[PARE_UNIT_TEXT], b[PARE_UNIT_TEXT];

    if (isnan(was) || isnan(is) || was == is) {
        pare_page_cell(p, isnan(is) ? was : is, u);
        return;
    }
    pare_page_put(
        p, "<td class=\"n\" data-v=\"%.9g\"><span class=\"was\">%s \xe2\x86\x92</span> %s</td>", is,
        pare_unit_text(was, u, a, sizeof(a)), pare_unit_text(is, u, b, sizeof(b)));
}

/* "8 / 8": bits of weights and of inputs. */
static void bits_cell(struct pare_page *p, const struct pare_json *l, bool gone)
{
    double w = pare_number(l, "quantized.weight.bits"), x = pare_number(l, "quantized.input.bits");

    if (isnan(w) && isnan(x))
        pare_page_put(p, "<td class=\"n\">%s</td>", gone ? "\xe2\x80\x93" : "float");
    else if (isnan(x))
        pare_page_put(p, "<td class=\"n\">%.0f / float</td>", w);
    else if (isnan(w))
        pare_page_put(p, "<td class=\"n\">float / %.0f</td>", x);
    else
        pare_page_put(p, "<td class=\"n\">%.0f / %.0f</td>", w, x);
}

static bool was_channels(const struct pare_json *l)
{
    return pare_number(l, "channels_out") > 0;
}

static void layer_row(struct pare_page *p, const struct pare_json *l)
{
    const struct pare_json *was = pare_json_get(l, "before"), *is = pare_json_get(l, "after");
    bool gone = !is || is->kind != PARE_JSON_OBJECT;
    const char *why = pare_words(l, "why");

    pare_page_put(p, "<tr%s><th>", gone ? " class=\"gone\"" : "");
    pare_page_text(p, pare_words(l, "name"));
    pare_page_raw(p, "</th>");
    pare_page_text_cell(p, pare_words(l, "type"));
    if (was_channels(l)) {
        change_cell(p, pare_number(l, "channels_in"), pare_number(l, "channels_in_left"),
                    PARE_COUNT);
        change_cell(p, pare_number(l, "channels_out"), pare_number(l, "channels_out_left"),
                    PARE_COUNT);
    } else {
        pare_page_cell(p, dim(was, 1), PARE_COUNT);
        pare_page_cell(p, dim(was, 0), PARE_COUNT);
    }
    change_cell(p, pare_number(was, "parameters"), gone ? 0 : pare_number(is, "parameters"),
                PARE_COUNT);
    change_cell(p, pare_number(was, "macs"), gone ? 0 : pare_number(is, "macs"), PARE_COUNT);
    pare_page_cell(p, pare_number(l, "sparsity"), PARE_SHARE);
    bits_cell(p, l, gone);
    pare_page_cell(p, pare_number(l, "quantized.weight.signal_to_noise_db"), PARE_DB);
    pare_page_text_cell(p, gone ? "gone: folded, or nothing needs it" : why ? why : "");
    pare_page_raw(p, "</tr>\n");
}

void pare_report_layers(struct pare_page *p, const struct pare_json *run)
{
    const struct pare_json *list = pare_json_get(run, "layers");

    if (!list || list->kind != PARE_JSON_LIST || !list->n)
        return;
    pare_page_raw(p, "<h2>Layers</h2>\n<div class=\"scroll\"><table class=\"layers\"><thead><tr>"
                     "<th>Layer</th><th>Type</th><th class=\"n\">In</th><th class=\"n\">Out</th>"
                     "<th class=\"n\">Parameters</th><th class=\"n\">MACs</th>"
                     "<th class=\"n\">Sparsity</th><th class=\"n\">Bits</th>"
                     "<th class=\"n\">Signal/noise</th><th>What was kept, and why</th></tr></thead>"
                     "<tbody>\n");
    for (int i = 0; i < list->n; i++)
        layer_row(p, &list->item[i]);
    pare_page_raw(
        p,
        "</tbody></table></div>\n<p class=\"note\">In and Out are channels. Sparsity "
        "is the share of weights that the pruner masked. Bits are those of weights and of inputs; "
        "signal/noise compares the quantized weights with the original ones.</p>\n");
}

/* ---- weights -------------------------------------------------------------------------------- */

static double tallest(const struct pare_json *list)
{
    double most = 0, sum = 0;

    for (int i = 0; list && i < list->n; i++) {
        most = list->item[i].num > most ? list->item[i].num : most;
        sum += list->item[i].num;
    }
    return sum > 0 ? most / sum : 0;
}

/* Relative frequencies drawn to the same height: an outline before, filled after. */
static void draw(struct pare_page *p, const struct pare_json *list, double most, const char *class)
{
    double sum = 0;

    for (int i = 0; i < list->n; i++)
        sum += list->item[i].num;
    if (!(sum > 0) || !(most > 0))
        return;
    pare_page_put(p, "<path class=\"%s\" d=\"M0 60", class);
    for (int i = 0; i < list->n; i++) {
        double y = 60 - 56 * list->item[i].num / sum / most;

        pare_page_put(p, "L%.1f %.1fH%.1f", 164.0 * i / list->n, y, 164.0 * (i + 1) / list->n);
    }
    pare_page_raw(p, "L164 60Z\"/>");
}

static void histogram(struct pare_page *p, const struct pare_json *l)
{
    const struct pare_json *w = pare_json_get(l, "weights");
    const struct pare_json *a = pare_json_get(w, "before"), *b = pare_json_get(w, "after");
    double most = fmax(tallest(a), tallest(b));

    if (!a || a->kind != PARE_JSON_LIST || !b || b->kind != PARE_JSON_LIST)
        return;
    pare_page_raw(p, "<figure class=\"bins\"><svg viewBox=\"0 0 164 62\" role=\"img\" "
                     "aria-label=\"weights before and after\">");
    draw(p, b, most, "after");
    draw(p, a, most, "before");
    pare_page_raw(p, "</svg><figcaption>");
    pare_page_text(p, pare_words(l, "name"));
    pare_page_put(p, "<span class=\"note\"> \xc2\xb1%.3g</span></figcaption></figure>\n",
                  pare_number(w, "range"));
}

void pare_report_weights(struct pare_page *p, const struct pare_json *run)
{
    const struct pare_json *list = pare_json_get(run, "layers");

    if (!list || list->kind != PARE_JSON_LIST || !list->n)
        return;
    pare_page_raw(p,
                  "<h2>Weights</h2>\n<p class=\"note\">Distribution of the weights of each layer: "
                  "<span class=\"key before\">before</span>, <span class=\"key after\">after"
                  "</span>.</p>\n<div class=\"grid\">\n");
    for (int i = 0; i < list->n; i++)
        histogram(p, &list->item[i]);
    pare_page_raw(p, "</div>\n");
}
