/* read_scales.c - print scale and zero point of a layer's weight: read_scales MODEL.onnx conv1 */
#include <stdio.h>

#include <pare/pare.h>

int main(int argc, char **argv)
{
    struct pare_err err = { 0, "usage: read_scales MODEL.onnx LAYER" };
    struct pare_model *model = NULL;
    struct pare_model_quant q;
    int rc = argc == 3 ? pare_model_load(argv[1], &model, &err) : PARE_ECONFIG;

    if (!rc)
        rc = pare_model_layer_quant(model, argv[2], 'w', &q, &err);
    for (int64_t i = 0; !rc && q.dtype != PARE_NONE && i < pare_numel(&q.scale); i++)
        printf("%s %lld: scale %g, zero point %d\n", pare_dtype_name(q.dtype), (long long)i,
               (double)pare_f32(&q.scale)[i],
               q.zero_point.data ? ((const signed char *)q.zero_point.data)[i] : 0);
    if (!rc && q.dtype == PARE_NONE)
        printf("the weight of '%s' is float\n", argv[2]);
    if (rc)
        fprintf(stderr, "%s\n", err.msg);
    pare_model_free(model);
    return rc ? 1 : 0;
}
