/* integer_product.h - scale and bias of MatMulInteger and ConvInteger, from later nodes.
 *
 * The nodes after DynamicQuantizeLinear compute
 *     Cast(sums of integers) * (scale of x * scale of w) + bias.
 */
#ifndef PARE_ONNX_INTEGER_PRODUCT_H
#define PARE_ONNX_INTEGER_PRODUCT_H

#include "../graph/graph.h"

/* Is it DynamicQuantizeLinear, with integers and scale as its first outputs? */
bool pare_quantizes_dynamically(const struct pare_node *n);

/* The constant scale of the weight; NULL: not found. */
const struct pare_value *pare_product_scale(const struct pare_graph *g, const struct pare_node *n);

/* The constant that is added to the scaled product, one number for each output channel; NULL:
 * none. */
const struct pare_value *pare_product_bias(const struct pare_graph *g, const struct pare_node *n);

#endif
