/* state_print.c - list the tensors of a .pth, .safetensors or .npz file. */
#include "state_print.h"

#include <jansson.h>

#include "../../io/tensor_file.h"
#include "../../tensor/tensor.h"

/* Fraction of elements that are 0; -1: the tensor is empty. */
static double zeros(const struct pare_tensor *t)
{
    int64_t n = pare_numel(t), found = 0;

    for (int64_t i = 0; i < n; i++)
        found += pare_get(t, i) == 0;
    return n ? (double)found / (double)n : -1;
}

static int print_json(const char *path, const struct pare_named *list, int n, bool with_zeros,
                      struct pare_err *err)
{
    json_t *tensors = json_array();
    double all = 0;

    for (int i = 0; i < n; i++) {
        const struct pare_tensor *t = &list[i].t;
        json_t *j = json_pack("{s:o, s:s, s:o}", "name", pare_json_text(list[i].name), "dtype",
                              pare_dtype_name(t->dtype), "shape", pare_json_dims(t));
        double share = with_zeros ? zeros(t) : -1;

        if (j && with_zeros)
            json_object_set_new(j, "zeros", share < 0 ? json_null() : json_real(share));
        json_array_append_new(tensors, j);
        all += (double)pare_numel(t);
    }
    return pare_json_print(json_pack("{s:o, s:o, s:o}", "file", pare_json_text(path), "elements",
                                     pare_json_whole(all), "tensors", tensors),
                           err);
}

int pare_state_print(struct pare_cli *c, const char *path, struct pare_state_print_opts how,
                     struct pare_err *err)
{
    char shape[PARE_SHAPE_TEXT], num[PARE_NUM_TEXT], share[PARE_NUM_TEXT];
    struct pare_table *table = pare_table_new(c->arena, how.zeros ? "lllrr" : "lllr");
    struct pare_named *list;
    int64_t all = 0;
    int n;

    PARE_TRY(pare_tensor_file_read(c->arena, path, &list, &n, err));
    if (how.json)
        return print_json(path, list, n, how.zeros, err);
    pare_table_row(table, "tensor", "type", "shape", "elements", "zeros");
    for (int i = 0; i < n; i++) {
        const struct pare_tensor *t = &list[i].t;

        all += pare_numel(t);
        pare_table_row(table, list[i].name, pare_dtype_name(t->dtype),
                       pare_shape_text(t, shape, sizeof(shape)),
                       pare_count_text((double)pare_numel(t), num, sizeof(num)),
                       how.zeros ? pare_percent_text(zeros(t), 1, share, sizeof(share)) : "");
    }
    if (n) {
        pare_table_print(table, stdout);
        printf("\n");
    }
    printf("%d tensor%s, %s elements\n", n, n == 1 ? "" : "s",
           pare_whole_text(all, num, sizeof(num)));
    return 0;
}
