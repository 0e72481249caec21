/* compare_tensors.c - compare two checkpoints, or the weights of two models.
 *
 *     compare_tensors A B TOLERANCE [zeros]
 *
 * Masks must be bit-identical; files of weights have none, so "zeros" requires that their zeros are
 * at the same positions.  Weights, statistics and buffers (scales, ranges) may differ by TOLERANCE
 * times the largest value of the tensor.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/safetensors.h"

static bool begins(const char *name, const char *kind)
{
    return !strncmp(name, kind, strlen(kind));
}

static double value(const struct pare_tensor *t, int64_t i)
{
    return t->dtype == PARE_F64 ? ((const double *)t->data)[i] : (double)pare_f32(t)[i];
}

/* The largest difference, relative to the largest value. */
static double largest_difference(const struct pare_tensor *a, const struct pare_tensor *b)
{
    double most = 0, size = 0;

    if (a->dtype != b->dtype || pare_numel(a) != pare_numel(b))
        return INFINITY;
    for (int64_t i = 0; i < pare_numel(a); i++) {
        double d = fabs(value(a, i) - value(b, i)), v = fabs(value(a, i));

        most = d > most || isnan(d) ? d : most;
        size = v > size ? v : size;
    }
    return isnan(most) ? INFINITY : most / (size > 0 ? size : 1);
}

static const struct pare_tensor *find(const struct pare_safetensors *s, const char *name)
{
    for (int i = 0; i < s->n_tensors; i++)
        if (!strcmp(s->tensor[i].name, name))
            return &s->tensor[i].t;
    return NULL;
}

static bool same(const struct pare_tensor *a, const struct pare_tensor *b)
{
    return b && pare_numel(a) == pare_numel(b) &&
           !memcmp(a->data, b->data, (size_t)pare_numel(a) * pare_dtype_size(a->dtype));
}

static bool same_zeros(const struct pare_tensor *a, const struct pare_tensor *b)
{
    if (a->dtype != PARE_F32 || a->rank < 2)
        return true;
    for (int64_t i = 0; i < pare_numel(a); i++)
        if ((pare_f32(a)[i] == 0) != (pare_f32(b)[i] == 0))
            return false;
    return true;
}

/* A file of weights; names in a checkpoint have prefixes such as "weight/". */
static bool is_state(const struct pare_safetensors *s)
{
    for (int i = 0; i < s->n_tensors; i++)
        if (begins(s->tensor[i].name, "weight/"))
            return false;
    return true;
}

int main(int argc, char **argv)
{
    struct pare_arena *arena = pare_arena_new(1 << 20);
    struct pare_safetensors s[2] = { 0 };
    double tolerance = argc > 3 ? strtod(argv[3], NULL) : 0, worst = 0;
    int bad = 0, weights = 0, masks = 0;
    bool state;
    const char *where = "";
    struct pare_err err;

    for (int i = 0; i < 2; i++)
        if (argc < 4 || pare_safetensors_read(arena, argv[1 + i], &s[i], &err)) {
            fprintf(stderr, "compare_tensors: %s\n", argc > 3 ? err.msg : "A B TOLERANCE [zeros]");
            return 2;
        }
    state = is_state(&s[0]);
    for (int i = 0; i < s[0].n_tensors; i++) {
        const struct pare_named *a = &s[0].tensor[i];
        const struct pare_tensor *b = find(&s[1], a->name);
        bool mask = begins(a->name, "mask/") || begins(a->name, "bias_mask/");
        bool number = (a->t.dtype == PARE_F32 || a->t.dtype == PARE_F64) &&
                      (state || begins(a->name, "weight/") || begins(a->name, "buffer/"));
        double d = number && b ? largest_difference(&a->t, b) : 0;

        if (!b || (mask && !same(&a->t, b)) ||
            (argc == 5 && isfinite(d) && !same_zeros(&a->t, b))) {
            printf("%s: not the same\n", a->name);
            bad++;
        }
        masks += mask;
        weights += number;
        where = d > worst ? a->name : where;
        worst = d > worst ? d : worst;
    }
    printf("%d masks, %d other tensors: differ by at most %.2g %s\n", masks, weights, worst, where);
    pare_arena_free(arena);
    return bad || !weights || worst > tolerance;
}
