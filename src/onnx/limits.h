/* limits.h - what a file may ask for before it is refused.
 *
 * They are far above what real models need; their purpose is that a small hostile file cannot
 * take the stack or all memory of the machine.
 */
#ifndef PARE_ONNX_LIMITS_H
#define PARE_ONNX_LIMITS_H

#define PARE_MAX_NESTING 100          /* messages inside messages */
#define PARE_MAX_UNPACKED 0x7fffffffu /* bytes of structures built from a file, weights aside */
#define PARE_MAX_INLINED 200000       /* nodes that calls of model functions expand to */
#define PARE_MAX_EXPANDED 0x10000000u /* bytes of functions, once for every call */
#define PARE_MAX_CALLS 64             /* functions calling functions */
#define PARE_MAX_ATTRS 256            /* of a node that can run, or that calls a function */
#define PARE_MAX_IMPORTS 1024         /* operator sets */
#define PARE_MAX_SPARSE (1 << 28)     /* bytes of a sparse tensor written out */

#define PARE_REFERENCE 4096    /* bytes fields from this size on stay in the file */
#define PARE_SMALL_CONST 65536 /* misaligned constants up to this size are copied */

#define PARE_IR_NEWEST 10
#define PARE_OPSET_OLDEST 7
#define PARE_OPSET_NEWEST 21

#endif
