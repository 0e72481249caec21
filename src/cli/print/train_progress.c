/* train_progress.c - progress bar, one line per epoch, and training history. */
#include "train_progress.h"

#include <math.h>
#include <string.h>

#include <jansson.h>

#include "../../base/clock.h"
#include "../../io/file.h"
#include "../cli.h"
#include "metric_print.h"

#define BAR 16 /* characters */
#define LEAST_BAR 6
#define REDRAW 0.1 /* seconds */

/* 0:42, 12:03, 1:02:33 */
static const char *duration(double seconds, char *buf, size_t size)
{
    long s = seconds > 0 && seconds < 3.6e8 ? (long)(seconds + 0.5) : 0;

    if (s < 3600)
        snprintf(buf, size, "%ld:%02ld", s / 60, s % 60);
    else
        snprintf(buf, size, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
    return buf;
}

/* Rates are measured from the end of the first batch, which is slow because plans are made in it;
 * after --resume an epoch may start in its middle. */
static void start_rates(struct pare_train_progress *v, const struct pare_train_status *p,
                        double now)
{
    if (v->first < 0) {
        v->first = p->epoch;
        v->first_batch = p->batch;
        v->start = now;
    }
    if (v->epoch != p->epoch) {
        v->epoch = p->epoch;
        v->items = p->items;
        v->since = now;
    }
}

/* Seconds left, estimated from the batches of this run; below 0: too early to tell. */
static double time_left(const struct pare_train_progress *v, const struct pare_train_status *p,
                        double now)
{
    double done = (double)((p->epoch - v->first) * p->batches + p->batch - v->first_batch);
    double all = (double)((p->epochs - v->first) * p->batches - v->first_batch);

    return done > 0 ? (now - v->start) * (all - done) / done : -1;
}

/* "  2.35K items/s  0:42 left", as far as known. */
static void speed_text(const struct pare_train_progress *v, const struct pare_train_status *p,
                       double now, char *buf, size_t size)
{
    double left = time_left(v, p, now);
    char rate[PARE_NUM_TEXT], time[PARE_NUM_TEXT];
    int n = 0;

    buf[0] = '\0';
    if (p->items > v->items && now > v->since)
        n = snprintf(buf, size, "  %s items/s",
                     pare_count_text((double)(p->items - v->items) / (now - v->since), rate,
                                     sizeof(rate)));
    if (left >= 0)
        snprintf(buf + n, size - (size_t)n, "  %s left", duration(left, time, sizeof(time)));
}

/* "  acc 97.50%"; "" if there is no accuracy. */
static const char *accuracy_text(const char *label, double top1, char *buf, size_t size)
{
    buf[0] = '\0';
    if (top1 >= 0)
        snprintf(buf, size, "%s%.2f%%", label, 100 * top1);
    return buf;
}

/* Drop items from the end, which are separated by two blanks, until the text fits. */
static void shorten(char *text, size_t width)
{
    while (strlen(text) > width) {
        char *cut = text;

        for (char *p = strstr(text, "  "); p; p = strstr(p + 2, "  "))
            cut = p;
        *cut = '\0';
        while (cut > text && cut[-1] == ' ')
            *--cut = '\0';
    }
}

/* The bar takes the columns that the text leaves; in a narrow terminal there is only the text. */
static void draw_bar(const struct pare_train_progress *v, const struct pare_train_status *p,
                     double now)
{
    char head[64], tail[192], acc[32], speed[96], bar[BAR + 4] = "";
    int width = (pare_columns(stderr) ? pare_columns(stderr) : 80) - 1, room,
        filled; /* some wrap after the last */

    speed_text(v, p, now, speed, sizeof(speed));
    snprintf(head, sizeof(head), "epoch %lld/%lld ", (long long)p->epoch + 1, (long long)p->epochs);
    snprintf(tail, sizeof(tail), " loss %.4f%s%s", p->loss,
             accuracy_text("  acc ", p->top1, acc, sizeof(acc)), speed);
    room = width - (int)strlen(head) - (int)strlen(tail) - 2;
    room = room > BAR ? BAR : room;
    filled = p->batches ? (int)(p->batch * room / p->batches) : 0;
    if (room >= LEAST_BAR) {
        bar[0] = '[';
        for (int i = 0; i < room; i++)
            bar[i + 1] = i < filled ? '=' : i == filled ? '>' : ' ';
        bar[room + 1] = ']';
        bar[room + 2] = '\0';
    }
    width -= (int)strlen(head) + (int)strlen(bar);
    shorten(tail, width > 0 ? (size_t)width : 0);
    fprintf(stderr, "\r\033[K%s%s%s", head, bar, tail);
    fflush(stderr);
}

void pare_train_progress_batch(void *user, const struct pare_train_status *p)
{
    struct pare_train_progress *v = user;
    double now = pare_now();

    start_rates(v, p, now);
    if (!v->bar || (now - v->drawn < REDRAW && p->batch < p->batches))
        return;
    v->drawn = now;
    draw_bar(v, p, now);
}

void pare_train_progress_end(struct pare_train_progress *v)
{
    if (v->bar && v->drawn > 0)
        fputs("\r\033[K", stderr);
    v->drawn = 0;
}

/* "  97.50%", "  mean-iou 71.20%"; "" if it is the loss, which the line has already. */
static const char *valid_text(const struct pare_epoch *e, char *buf, size_t size)
{
    char value[PARE_NUM_TEXT];

    if (e->top1 >= 0 && !strcmp(e->metric.name, "top-1"))
        return accuracy_text("  ", e->top1, buf, size);
    buf[0] = '\0';
    if (fabs(e->metric.value - e->loss) > 1e-5 * fabs(e->loss))
        snprintf(buf, size, "  %s %s", e->metric.name,
                 pare_metric_text(&e->metric, value, sizeof(value)));
    return buf;
}

static json_t *accuracy_json(double v)
{
    return v >= 0 ? pare_json_real(v) : json_null();
}

static json_t *epoch_json(const struct pare_epoch *e)
{
    json_t *j = json_pack("{s:I, s:o, s:o, s:o, s:o}", "epoch", (json_int_t)e->train.epoch + 1,
                          "lr", pare_json_real(e->train.lr), "loss", pare_json_real(e->train.loss),
                          "top1", accuracy_json(e->train.top1), "seconds",
                          pare_json_real(e->train.seconds));

    if (j && e->validated) {
        json_object_set_new(j, "valid_loss", pare_json_real(e->loss));
        json_object_set_new(j, "valid_top1", accuracy_json(e->top1));
        json_object_set_new(j, "valid_top5", accuracy_json(e->top5));
        if (e->top1 < 0)
            json_object_set_new(j, "valid_metric",
                                json_pack("{s:s, s:o, s:b}", "name", e->metric.name, "value",
                                          pare_json_real(e->metric.value), "percent",
                                          e->metric.percent));
        json_object_set_new(j, "best", json_boolean(e->best));
    }
    return j;
}

/* After --resume: read the epochs of the interrupted run.  They must be numbered in order, or the
 * file is not what that run wrote. */
static void read_journal(struct pare_train_progress *v, int64_t epoch)
{
    json_t *old = epoch ? pare_json_read(v->journal) : NULL, *e;
    json_int_t last = 0;
    size_t i;

    json_array_foreach(old, i, e)
    {
        json_int_t at = json_integer_value(json_object_get(e, "epoch"));

        if (at <= last || at > epoch)
            break;
        json_array_append(v->history, e);
        last = at;
    }
    json_decref(old);
}

/* If the history cannot be written, training continues and the error is reported at its end. */
static void write_journal(struct pare_train_progress *v, const struct pare_epoch *e)
{
    struct pare_arena *a = v->journal ? pare_arena_new(1 << 12) : NULL;
    const char *text;

    if (v->journal && !json_array_size(v->history))
        read_journal(v, e->train.epoch);
    json_array_append_new(v->history, epoch_json(e));
    text = a ? pare_json_dump(a, v->history, false) : NULL;
    if (text && !v->failed.code && pare_file_write(v->journal, text, strlen(text), &v->failed))
        pare_at(&v->failed, v->failed.code, "%s", v->journal);
    pare_arena_free(a);
}

void pare_train_progress_epoch(void *user, const struct pare_epoch *e)
{
    struct pare_train_progress *v = user;
    int columns = v->lines ? pare_columns(v->lines) : 0, n;
    char time[PARE_NUM_TEXT], line[256], acc[64];

    pare_train_progress_end(v);
    if (v->history)
        write_journal(v, e);
    if (!v->lines)
        return;
    n = snprintf(line, sizeof(line), "epoch %lld/%lld  loss %.4f%s", (long long)e->train.epoch + 1,
                 (long long)e->train.epochs, e->train.loss,
                 accuracy_text("  acc ", e->train.top1, acc, sizeof(acc)));
    if (e->validated)
        n += snprintf(line + n, sizeof(line) - (size_t)n, "  valid %.4f%s%s", e->loss,
                      valid_text(e, acc, sizeof(acc)), e->best ? " *" : "  ");
    snprintf(line + n, sizeof(line) - (size_t)n, "  lr %.3g  %s", e->train.lr,
             pare_time_text(e->train.seconds, time, sizeof(time)));
    if (columns)
        shorten(line, (size_t)columns);
    fprintf(v->lines, "%s\n", line);
    fflush(v->lines);
}

void pare_train_progress_best(const struct pare_train_progress *v,
                              const struct pare_train_result *r, bool kept)
{
    if (!v->lines || r->stopped || r->best_epoch < 0)
        return;
    if (kept)
        fprintf(v->lines, "* best so far: the model has epoch %lld (--last: the last)\n",
                (long long)r->best_epoch + 1);
    else
        fprintf(v->lines, "* best so far; the model has the last epoch\n");
    fflush(v->lines);
}
