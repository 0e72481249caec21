/* train_view.c - what people see while a model is trained. */
#include "train_view.h"

#include <string.h>

#include <jansson.h>

#include "../base/clock.h"
#include "cli.h"

#define BAR 24     /* characters */
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

/* Seconds until the end, judged by the batches of this run. */
static double time_left(const struct pare_view_train *v, const struct pare_progress *p)
{
    double done = (double)((p->epoch - v->first) * p->batches + p->batch - v->first_batch);
    double all = (double)((p->epochs - v->first) * p->batches - v->first_batch);

    return done > 0 ? (pare_now() - v->start) * (all - done) / done : 0;
}

void pare_view_batch(void *user, const struct pare_progress *p)
{
    struct pare_view_train *v = user;
    double now = pare_now();
    int filled = p->batches ? (int)(p->batch * BAR / p->batches) : 0;
    char bar[BAR + 1], left[32];

    if (v->first < 0) {
        v->first = p->epoch;
        v->first_batch = p->batch - 1;
    }
    if (!v->bar || (now - v->drawn < REDRAW && p->batch < p->batches))
        return;
    v->drawn = now;
    for (int i = 0; i < BAR; i++)
        bar[i] = i < filled ? '=' : i == filled ? '>' : ' ';
    bar[BAR] = '\0';
    fprintf(stderr, "\r\033[Kepoch %lld/%lld [%s] loss %.4f  acc %.2f%%  %.0f items/s  %s left",
            (long long)p->epoch + 1, (long long)p->epochs, bar, p->loss, 100 * p->top1,
            p->seconds > 0 ? (double)p->items / p->seconds : 0,
            duration(time_left(v, p), left, sizeof(left)));
    fflush(stderr);
}

void pare_view_end(struct pare_view_train *v)
{
    if (v->bar && v->drawn > 0)
        fputs("\r\033[K", stderr);
    v->drawn = 0;
}

static json_t *epoch_json(const struct pare_epoch *e)
{
    json_t *j = json_pack("{s:I, s:o, s:o, s:o, s:o}", "epoch", (json_int_t)e->train.epoch + 1,
                          "lr", pare_json_real(e->train.lr), "loss", pare_json_real(e->train.loss),
                          "top1", pare_json_real(e->train.top1), "seconds",
                          pare_json_real(e->train.seconds));

    if (j && e->validated) {
        json_object_set_new(j, "valid_loss", pare_json_real(e->loss));
        json_object_set_new(j, "valid_top1", pare_json_real(e->top1));
        json_object_set_new(j, "valid_top5", pare_json_real(e->top5));
        json_object_set_new(j, "best", json_boolean(e->best));
    }
    return j;
}

void pare_view_epoch(void *user, const struct pare_epoch *e)
{
    struct pare_view_train *v = user;
    char time[PARE_NUM_TEXT];

    pare_view_end(v);
    if (v->history)
        json_array_append_new(v->history, epoch_json(e));
    if (!v->lines)
        return;
    fprintf(v->lines, "epoch %lld/%lld  loss %.4f  acc %.2f%%", (long long)e->train.epoch + 1,
            (long long)e->train.epochs, e->train.loss, 100 * e->train.top1);
    if (e->validated)
        fprintf(v->lines, "  valid loss %.4f  acc %.2f%%%s", e->loss, 100 * e->top1,
                e->best ? " *" : "");
    fprintf(v->lines, "  lr %.3g  %s\n", e->train.lr,
            pare_time_text(e->train.seconds, time, sizeof(time)));
    fflush(v->lines);
}
