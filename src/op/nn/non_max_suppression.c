/* non_max_suppression.c - NonMaxSuppression: the best boxes of each class that overlap little.
 *
 * For each class, boxes are taken by descending score.  A box is dropped if the intersection over
 * union (IoU) with one that was taken before is above a threshold.  Results are rows of batch item,
 * class and box.
 */
#include <math.h>
#include <stdlib.h>

#include "../shape/movement.h"

enum { BOXES, SCORES, MOST, IOU, SCORE };

struct nms {
    int64_t center;
};

static const struct pare_opt nms_attrs[] = {
    PARE_INT("center_point_box", offsetof(struct nms, center),
             "0: boxes are two corners y, x, y, x; 1: center x, y, width, height", 0, 0, 1),
    PARE_OPT_END
};

struct candidate {
    float score;
    int64_t box;
};

/* One class of one batch item. */
struct search {
    const float *boxes; /* (n, 4) */
    bool center;
    float iou;
    struct candidate *list; /* by descending score */
    int64_t n, most;
    int64_t *taken; /* indices of boxes */
};

/* Higher score first, then lower index. */
static int compare(const void *pa, const void *pb)
{
    const struct candidate *a = pa, *b = pb;

    if (a->score != b->score)
        return a->score < b->score ? 1 : -1;
    return a->box > b->box ? 1 : a->box < b->box ? -1 : 0;
}

/* The lower and upper bounds of a box along x and y. */
static void bounds(const struct search *s, int64_t i, float *lo, float *hi)
{
    const float *b = s->boxes + 4 * i;

    for (int k = 0; k < 2; k++) {
        float p = s->center ? b[k] - b[2 + k] / 2 : b[k];
        float q = s->center ? b[k] + b[2 + k] / 2 : b[2 + k];

        lo[k] = p < q ? p : q;
        hi[k] = p < q ? q : p;
    }
}

static bool overlaps(const struct search *s, int64_t i, int64_t j)
{
    float lo[2][2], hi[2][2], side[2], area[2], both, all;

    bounds(s, i, lo[0], hi[0]);
    bounds(s, j, lo[1], hi[1]);
    for (int k = 0; k < 2; k++) {
        float from = lo[0][k] > lo[1][k] ? lo[0][k] : lo[1][k];
        float to = hi[0][k] < hi[1][k] ? hi[0][k] : hi[1][k];

        if (!(to > from))
            return false;
        side[k] = to - from;
    }
    for (int k = 0; k < 2; k++)
        area[k] = (hi[k][0] - lo[k][0]) * (hi[k][1] - lo[k][1]);
    both = side[0] * side[1];
    all = area[0] + area[1] - both;
    return area[0] > 0 && area[1] > 0 && all > 0 && both / all > s->iou;
}

static int64_t choose(struct search *s)
{
    int64_t count = 0;

    qsort(s->list, (size_t)s->n, sizeof(*s->list), compare);
    for (int64_t i = 0; i < s->n && count < s->most; i++) {
        bool free = true;

        for (int64_t k = 0; k < count && free; k++)
            free = !overlaps(s, s->list[i].box, s->taken[k]);
        if (free)
            s->taken[count++] = s->list[i].box;
    }
    return count;
}

static int check(const struct pare_node *n, struct pare_err *err)
{
    const struct pare_tensor *b = &n->in[BOXES]->t, *s = &n->in[SCORES]->t;
    char tb[PARE_SHAPE_TEXT], ts[PARE_SHAPE_TEXT];

    if (b->rank != 3 || s->rank != 3 || b->dim[2] != 4 || b->dim[0] != s->dim[0] ||
        b->dim[1] != s->dim[2])
        return pare_fail(err, PARE_ESHAPE,
                         "boxes are %s and scores %s, expected (batch, boxes, 4) and (batch, "
                         "classes, boxes)",
                         pare_shape_text(b, tb, sizeof(tb)), pare_shape_text(s, ts, sizeof(ts)));
    for (int i = MOST; i <= SCORE; i++)
        if (pare_given(n, i) && pare_numel(pare_given(n, i)) != 1)
            return pare_fail(err, PARE_ESHAPE, "input %d has %lld elements, expected 1", i,
                             (long long)pare_numel(pare_given(n, i)));
    return 0;
}

/* The boxes above the score threshold; NaN is not. */
static void list_boxes(const struct pare_node *n, const float *score, int64_t boxes,
                       struct search *s)
{
    const struct pare_tensor *least = pare_given(n, SCORE);
    float limit = least ? pare_f32(least)[0] : 0;

    s->n = 0;
    for (int64_t i = 0; i < boxes; i++)
        if (least ? score[i] > limit : !isnan(score[i]))
            s->list[s->n++] = (struct candidate){ score[i], i };
}

/* Rows in c->results, grown by doubling. */
struct rows {
    int64_t *v, n, cap;
};

static int add_rows(struct pare_ctx *c, struct rows *r, int64_t batch, int64_t class,
                    const struct search *s, int64_t count, struct pare_err *err)
{
    if (r->n + count > r->cap) {
        int64_t cap = 2 * (r->n + count);
        int64_t *v = pare_alloc_raw(c->results, (size_t)cap, 3 * sizeof(*v));

        if (!v)
            return pare_no_memory(err, "for the chosen boxes");
        if (r->n)
            memcpy(v, r->v, (size_t)r->n * 3 * sizeof(*v));
        r->v = v;
        r->cap = cap;
    }
    for (int64_t i = 0; i < count; i++, r->n++) {
        r->v[3 * r->n] = batch;
        r->v[3 * r->n + 1] = class;
        r->v[3 * r->n + 2] = s->taken[i];
    }
    return 0;
}

static int search_all(struct pare_node *n, struct pare_ctx *c, struct search *s, struct rows *r,
                      struct pare_err *err)
{
    const struct pare_tensor *boxes = &n->in[BOXES]->t, *scores = &n->in[SCORES]->t;
    int64_t count = boxes->dim[1], classes = scores->dim[1];

    s->list = pare_alloc_raw(c->scratch, (size_t)count, sizeof(*s->list));
    s->taken = pare_alloc_raw(c->scratch, (size_t)count, sizeof(*s->taken));
    if (!s->list || !s->taken)
        return pare_no_memory(err, "for candidate boxes");
    for (int64_t b = 0; b < boxes->dim[0]; b++)
        for (int64_t k = 0; k < classes; k++) {
            s->boxes = pare_f32(boxes) + b * count * 4;
            list_boxes(n, pare_f32(scores) + (b * classes + k) * count, count, s);
            PARE_TRY(add_rows(c, r, b, k, s, choose(s), err));
        }
    return 0;
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct nms *a = n->attr;
    const struct pare_tensor *most = pare_given(n, MOST), *iou = pare_given(n, IOU);
    struct search s = { .center = a->center != 0 };
    struct rows r = { 0 };

    PARE_TRY(check(n, err));
    s.most = most ? pare_get_int(most, 0) : 0;
    s.iou = iou ? pare_f32(iou)[0] : 0;
    if (!(s.iou >= 0 && s.iou <= 1))
        return pare_fail(err, PARE_ESHAPE, "the IoU threshold is %g, expected 0 to 1",
                         (double)s.iou);
    if (s.most > 0 && !pare_is_empty(&n->in[BOXES]->t) && !pare_is_empty(&n->in[SCORES]->t))
        PARE_TRY(search_all(n, c, &s, &r, err));
    if (!r.v) {
        r.v = pare_alloc_raw(c->results, 1, sizeof(*r.v));
        if (!r.v)
            return pare_no_memory(err, "for the chosen boxes");
    }
    n->out[0]->t =
        (struct pare_tensor){ .dtype = PARE_I64, .rank = 2, .dim = { r.n, 3 }, .data = r.v };
    return 0;
}

const struct pare_op pare_op_non_max_suppression = {
    .type = "NonMaxSuppression",
    .doc = "The best boxes of each class that overlap little.",
    .since = 10,
    .in = "FFL?F?F?",
    .min_out = 1,
    .max_out = 1,
    .attrs = nms_attrs,
    .attr_size = sizeof(struct nms),
    .flags = PARE_OP_ALLOCS | PARE_OP_STEPS,
    .forward = forward,
};
