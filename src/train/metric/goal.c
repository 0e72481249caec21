/* goal.c - derive the task from labels, outputs and loss; choose the loss and the metrics. */
#include "goal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../../base/arena.h"
#include "../../base/limits.h"
#include "../../onnx/model.h"
#include "../../op/operator.h"
#include "../../tensor/tensor.h"
#include "../lookup.h"

#define EMBEDDING_LENGTH 16 /* shorter unit vectors are more likely directions or probabilities */
#define IGNORED_LABEL 255   /* in masks often the label of positions to ignore */

const struct pare_task pare_tasks[] = {
    { "classification", "one class per item: int64 labels (N), outputs (N, classes)",
      PARE_TASK_CLASS, "cross_entropy" },
    { "multi-label", "independent labels, each 0 or 1: labels and outputs (N, labels)",
      PARE_TASK_LABELS, "bce" },
    { "regression", "numbers: targets of the outputs' shape", PARE_TASK_REGRESSION, "mse" },
    { "segmentation", "one class per pixel: int64 labels (N, H, W), outputs (N, classes, H, W)",
      PARE_TASK_PIXELS, "cross_entropy" },
    { "embedding", "vectors whose direction counts: targets of the outputs' shape",
      PARE_TASK_EMBEDDING, "mse" },
    { "output", "no labels: outputs are compared with those of another model", PARE_TASK_OUTPUT,
      NULL },
    { NULL, NULL, 0, NULL },
};

static const struct pare_task *task_of(enum pare_task_bit bit)
{
    const struct pare_task *t = pare_tasks;

    while (t->bit != bit)
        t++;
    return t;
}

/* ---- labels and outputs ---------------------------------------------------------------------- */

struct shapes {
    const struct pare_tensor *y;
    int64_t n, each;               /* items; elements of an item's labels */
    int64_t n_out;                 /* elements of an item's outputs; 0: not known */
    int64_t channels;              /* of outputs (N, C, ...); 0: not known */
    int out_rank;                  /* -1: not known */
    bool asked;                    /* the options name the task or the loss */
    struct pare_tensor label, out; /* shapes of an item's labels and outputs */
    int64_t classes;               /* the largest label + 1; 0: labels are not integers */
    bool binary;                   /* all labels are 0 or 1 */
    double least, most;            /* of all labels, unless they are class indices */
    bool one_hot;                  /* and each row has a single 1 */
    bool unit_vectors;             /* rows have length 1 */
};

static double label_at(const struct pare_tensor *y, int64_t i)
{
    return y->dtype == PARE_I64 ? (double)pare_i64(y)[i] : (double)pare_f32(y)[i];
}

static void look_at_labels(struct shapes *s)
{
    s->binary = s->one_hot = s->unit_vectors = true;
    for (int64_t i = 0; i < s->n; i++) {
        double ones = 0, squares = 0;

        for (int64_t k = i * s->each; k < (i + 1) * s->each; k++) {
            double v = label_at(s->y, k);

            s->binary &= v == 0 || v == 1;
            s->least = v < s->least ? v : s->least;
            s->most = v > s->most ? v : s->most;
            ones += v == 1;
            squares += v * v;
        }
        s->one_hot &= ones == 1;
        s->unit_vectors &= fabs(squares - 1) < 1e-3;
    }
    s->one_hot &= s->binary && s->each > 1;
}

static struct shapes find_shapes(const struct pare_model *m, const struct pare_data *d)
{
    struct shapes s = { .y = &d->y, .n = d->n, .classes = d->classes, .out_rank = -1 };
    const struct pare_io *out;

    if (pare_model_outputs(m, &out) && out[0].rank >= 0) {
        s.out_rank = out[0].rank;
        s.n_out = 1;
        s.channels = out[0].rank > 1 && out[0].dim[1] > 0 ? out[0].dim[1] : out[0].rank == 1;
        s.out.rank = out[0].rank > 1 ? out[0].rank - 1 : 0;
        memcpy(s.out.dim, out[0].dim + 1, (size_t)s.out.rank * sizeof(*s.out.dim));
        for (int i = 1; i < out[0].rank; i++)
            s.n_out = out[0].dim[i] > 0 && s.n_out < PARE_MAX_ELEMENTS / out[0].dim[i]
                          ? s.n_out * out[0].dim[i]
                          : 0;
    }
    if (d->y.data && d->n) {
        s.each = pare_numel(&d->y) / d->n;
        s.label.rank = d->y.rank - 1;
        memcpy(s.label.dim, d->y.dim + 1, (size_t)s.label.rank * sizeof(*s.label.dim));
        look_at_labels(&s);
    }
    return s;
}

/* ---- the task -------------------------------------------------------------------------------- */

static enum pare_task_bit by_loss(const struct shapes *s, const struct pare_loss *loss,
                                  const char **why)
{
    *why = "by the loss";
    if (loss->labels == PARE_LABELS_CLASS)
        return s->y->rank > 1 ? PARE_TASK_PIXELS : PARE_TASK_CLASS;
    if (loss->logits & PARE_OP_SIGMOID)
        return s->out_rank > 2 || s->y->rank > 2 ? PARE_TASK_PIXELS : PARE_TASK_LABELS;
    return loss->labels == PARE_LABELS_PROBABILITY ? PARE_TASK_OUTPUT : PARE_TASK_REGRESSION;
}

static enum pare_task_bit by_integers(const struct shapes *s, const char **why)
{
    if (s->y->rank == 1 && s->channels != 1) {
        *why = "one integer label per item";
        return PARE_TASK_CLASS;
    }
    if (s->y->rank > 1 && s->out_rank != 2 && (!s->n_out || s->each * s->channels == s->n_out)) {
        *why = "an integer label per position";
        return PARE_TASK_PIXELS;
    }
    *why = s->binary ? "a label that is 0 or 1 per output" : "integer targets";
    return s->binary ? PARE_TASK_LABELS : PARE_TASK_REGRESSION;
}

static enum pare_task_bit by_numbers(const struct shapes *s, const char **why)
{
    if (s->binary && (s->y->rank > 2 || s->out_rank > 2)) {
        *why = "masks of 0 and 1";
        return PARE_TASK_PIXELS;
    }
    if (s->binary) {
        *why = "targets that are 0 or 1";
        return PARE_TASK_LABELS;
    }
    if (s->unit_vectors && s->each >= EMBEDDING_LENGTH && s->y->rank == 2) {
        *why = "targets of length 1";
        return PARE_TASK_EMBEDDING;
    }
    *why = "targets are numbers";
    return PARE_TASK_REGRESSION;
}

static int choose_task(const struct shapes *s, const struct pare_goal_opts *o,
                       struct pare_task_goal *g, struct pare_err *err)
{
    const char *names[PARE_LOOKUP_MAX];
    int n = 0, i;

    if (!s->y->data) {
        g->task = task_of(PARE_TASK_OUTPUT);
        return 0;
    }
    if (!o->task) {
        g->task = task_of(o->loss                   ? by_loss(s, o->loss, &g->why)
                          : s->y->dtype == PARE_I64 ? by_integers(s, &g->why)
                                                    : by_numbers(s, &g->why));
        return 0;
    }
    for (; pare_tasks[n].name && n < PARE_LOOKUP_MAX; n++)
        names[n] = pare_tasks[n].name;
    PARE_TRY(pare_lookup("task", o->task, names, n, &i, err));
    g->task = &pare_tasks[i];
    return 0;
}

/* ---- do labels and outputs fit? -------------------------------------------------------------- */

/* The shape without its first axis: positions of outputs (classes, H, W). */
static struct pare_tensor positions(const struct shapes *s)
{
    struct pare_tensor t = { .rank = s->out.rank > 1 ? s->out.rank - 1 : 0 };

    memcpy(t.dim, s->out.dim + 1, (size_t)t.rank * sizeof(*t.dim));
    return t;
}

/* Whether the shapes are equal except for axes of 1. */
static bool same_axes(const struct pare_tensor *a, const struct pare_tensor *b)
{
    int i = 0, k = 0;

    for (;; i++, k++) {
        while (i < a->rank && a->dim[i] == 1)
            i++;
        while (k < b->rank && b->dim[k] == 1)
            k++;
        if (i == a->rank || k == b->rank)
            return i == a->rank && k == b->rank;
        if (a->dim[i] != b->dim[k])
            return false;
    }
}

static int wrong_shape(const struct shapes *s, const struct pare_data *d, struct pare_err *err)
{
    struct pare_tensor p = positions(s);
    bool by_position = s->out_rank > 2 && !s->asked;
    char is[PARE_SHAPE_TEXT], out[PARE_SHAPE_TEXT], by[PARE_SHAPE_TEXT];

    pare_shape_text(&s->label, is, sizeof(is));
    pare_shape_text(&s->out, out, sizeof(out));
    pare_shape_text(&p, by, sizeof(by));
    return pare_fail(err, PARE_ESHAPE,
                     "an item of '%s' has %s%s, but the model's output is %s: expected targets "
                     "%s%s%s",
                     d->name, s->label.rank ? "targets " : "one target", s->label.rank ? is : "",
                     out, out, by_position ? ", or a class for each position, " : "",
                     by_position ? by : "");
}

static int check_pixels(const struct shapes *s, const struct pare_data *d, struct pare_err *err)
{
    struct pare_tensor p = positions(s);

    if (s->n_out && s->out_rank > 2 && !same_axes(&s->label, &p))
        return wrong_shape(s, d, err);
    if (s->y->dtype != PARE_I64 || s->channels <= 1 || s->classes <= s->channels ||
        s->classes == IGNORED_LABEL + 1)
        return 0;
    return pare_fail(err, PARE_ESHAPE,
                     "the labels of '%s' are up to %lld, but the model has %lld classes", d->name,
                     (long long)s->classes - 1, (long long)s->channels);
}

static int check_numbers(const struct shapes *s, const struct pare_data *d, struct pare_err *err)
{
    return s->n_out && s->each != s->n_out ? wrong_shape(s, d, err) : 0;
}

/* Masks for one output per pixel: probabilities. */
static int check_masks(const struct shapes *s, const struct pare_data *d,
                       const struct pare_task_goal *g, struct pare_err *err)
{
    if (g->loss && g->loss->logits & PARE_OP_SIGMOID && (s->least < 0 || s->most > 1))
        return pare_fail(err, PARE_ESHAPE,
                         "the masks of '%s' are %g to %g, %s needs 0 to 1: store mask > 0", d->name,
                         s->least, s->most, g->loss->name);
    if (s->n_out && s->out_rank > 2 && !same_axes(&s->label, &s->out))
        return wrong_shape(s, d, err);
    return check_numbers(s, d, err);
}

static int check_multi_label(const struct shapes *s, const struct pare_data *d,
                             const struct pare_task_goal *g, struct pare_err *err)
{
    if (!s->binary)
        return pare_fail(err, PARE_ESHAPE,
                         "'%s' has labels other than 0 and 1, which multi-label needs", d->name);
    if (s->one_hot && g->why)
        return pare_fail(err, PARE_ESHAPE,
                         "the labels of '%s' are one-hot rows: store the index of the class "
                         "(y.argmax(1)), or use --task multi-label if an item can have several",
                         d->name);
    return check_numbers(s, d, err);
}

/* Classes that have names are not numbers to regress. */
static int one_output(const struct pare_data *d, struct pare_err *err)
{
    return pare_fail(err, PARE_ESHAPE,
                     "'%s' has %lld classes, but the model has one output: use a model with %lld "
                     "outputs, or --task regression to train it on the indices of the classes",
                     d->name, (long long)d->classes, (long long)d->classes);
}

static int check_fit(const struct shapes *s, const struct pare_data *d,
                     const struct pare_task_goal *g, struct pare_err *err)
{
    bool by_class = g->loss && g->loss->labels == PARE_LABELS_CLASS;

    if (by_class && s->y->dtype != PARE_I64)
        return pare_fail(err, PARE_ESHAPE,
                         "the labels of '%s' are %s, %s needs int64 (%s needs another --loss)",
                         d->name, pare_dtype_name(s->y->dtype), g->loss->name, g->task->name);
    switch (g->task->bit) {
    case PARE_TASK_CLASS: return pare_data_check_classes(d, s->out_rank == 2 ? s->n_out : 0, err);
    case PARE_TASK_PIXELS: return by_class ? check_pixels(s, d, err) : check_masks(s, d, g, err);
    case PARE_TASK_LABELS: return check_multi_label(s, d, g, err);
    case PARE_TASK_REGRESSION:
        if (d->class_name && d->classes > 2 && s->n_out == 1 && !s->asked)
            return one_output(d, err);
        return check_numbers(s, d, err);
    case PARE_TASK_EMBEDDING: return check_numbers(s, d, err);
    default: return 0;
    }
}

/* ---- loss and metrics ------------------------------------------------------------------------ */

/* A single output per pixel distinguishes two classes, as a label does. */
static int choose_loss(const struct shapes *s, const struct pare_goal_opts *o,
                       struct pare_task_goal *g, struct pare_err *err)
{
    bool one = g->task->bit == PARE_TASK_PIXELS && (s->channels == 1 || s->y->dtype == PARE_F32);

    g->loss = o->loss;
    if (g->loss || !g->task->loss)
        return 0;
    return pare_find_loss(one ? "bce" : g->task->loss, &g->loss, err);
}

static bool applies(const struct pare_metric *m, const struct pare_task_goal *g)
{
    return (m->tasks & g->task->bit) && (!m->fits || m->fits(&g->form));
}

/* "use mse, mae or r2". */
static int no_metric(const struct pare_task_goal *g, const char *name, struct pare_err *err)
{
    char list[256] = "";
    size_t used = 0;

    for (int i = 0; pare_metric_list[i]; i++)
        if (applies(pare_metric_list[i], g) && used < sizeof(list))
            used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s", used ? ", " : "",
                                     pare_metric_list[i]->name);
    return pare_fail(err, PARE_ECONFIG, "metric '%s' does not apply to %s: use one of %s", name,
                     g->task->name, list);
}

static int choose_metrics(const struct pare_goal_opts *o, struct pare_task_goal *g,
                          struct pare_err *err)
{
    const char *name = o->metric;
    bool found = !name || g->task->bit == PARE_TASK_OUTPUT;

    for (int i = 0; pare_metric_list[i]; i++) {
        const struct pare_metric *m = pare_metric_list[i];
        bool named = name && !found &&
                     (!strcmp(m->name, name) || (m->percent && !strcmp(name, "accuracy")));

        if (!applies(m, g) || (!m->add && !named) || g->n_metrics == PARE_METRIC_VALUES)
            continue;
        found |= named;
        if (named)
            memmove(g->metric + 1, g->metric, (size_t)g->n_metrics * sizeof(*g->metric));
        g->metric[named ? 0 : g->n_metrics] = m;
        g->n_metrics++;
    }
    return found ? 0 : no_metric(g, name, err);
}

int pare_goal_find(const struct pare_model *m, const struct pare_data *data,
                   const struct pare_goal_opts *opts, struct pare_task_goal *g,
                   struct pare_err *err)
{
    struct pare_goal_opts o = opts ? *opts : (struct pare_goal_opts){ 0 };
    struct shapes s = find_shapes(m, data);

    s.asked = o.task || o.loss;
    *g = (struct pare_task_goal){ 0 };
    PARE_TRY(choose_task(&s, &o, g, err));
    PARE_TRY(choose_loss(&s, &o, g, err));
    if (s.y->data)
        PARE_TRY(check_fit(&s, data, g, err));
    g->form.each = s.each;
    g->form.classes = g->task->bit == PARE_TASK_LABELS ? 2 : s.channels ? s.channels : s.classes;
    g->form.threshold = g->loss && g->loss->logits & PARE_OP_SIGMOID ? 0 : 0.5;
    return choose_metrics(&o, g, err);
}

/* ---- sums ------------------------------------------------------------------------------------ */

int pare_goal_sums_new(const struct pare_task_goal *g, struct pare_arena *a,
                       struct pare_goal_sums *s, struct pare_err *err)
{
    *s = (struct pare_goal_sums){ .goal = g };
    for (int i = 0; i < g->n_metrics; i++)
        s->n += g->metric[i]->sums ? g->metric[i]->sums(&g->form) : 0;
    s->sum = pare_alloc(a, (size_t)s->n + 1, sizeof(*s->sum));
    return s->sum ? 0 : pare_no_memory(err, "for an evaluation");
}

void pare_goal_add(struct pare_goal_sums *s, const struct pare_tensor *out,
                   const struct pare_tensor *y)
{
    const struct pare_task_goal *g = s->goal;
    double *sum = s->sum;

    for (int i = 0; i < g->n_metrics; i++) {
        if (!g->metric[i]->add)
            continue;
        g->metric[i]->add(&g->form, out, y, sum);
        sum += g->metric[i]->sums(&g->form);
    }
}

const double *pare_goal_by_class(const struct pare_goal_sums *s, int64_t *n)
{
    const struct pare_task_goal *g = s->goal;
    const double *sum = s->sum;

    for (int i = 0; i < g->n_metrics; i++) {
        *n = g->metric[i]->sums ? g->metric[i]->sums(&g->form) : 0;
        if (g->metric[i]->by_class)
            return sum;
        sum += *n;
    }
    return NULL;
}

void pare_goal_values(const struct pare_goal_sums *s, double loss, struct pare_metrics *m)
{
    const struct pare_task_goal *g = s->goal;
    const double *sum = s->sum;

    m->task = g->task->name;
    m->n_values = g->n_metrics;
    for (int i = 0; i < g->n_metrics; i++) {
        const struct pare_metric *k = g->metric[i];

        m->value[i] = (struct pare_metric_value){ k->name, k->add ? k->value(&g->form, sum) : loss,
                                                  k->percent, k->lower };
        sum += k->sums ? k->sums(&g->form) : 0;
    }
}
