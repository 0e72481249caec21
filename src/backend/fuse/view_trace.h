/* view_trace.h - trace a value back through Reshape, Transpose, Slice, Split and Gather.
 *
 * Reshape keeps an element's position in memory; Transpose, Slice, Split and Gather of one index
 * map indices linearly along each axis.  So element (i, j, ...) of the traced value is at position
 * offset + i stride_i + j stride_j + ... of the base value, unless a Reshape joins axes that are
 * not contiguous.
 */
#ifndef PARE_BACKEND_FUSE_VIEW_TRACE_H
#define PARE_BACKEND_FUSE_VIEW_TRACE_H

#include "../backend.h"

#define PARE_VIEW_TRACE_DIMS 24
#define PARE_VIEW_TRACE_NODES 40

/* Axes of a value, or factors of axes; the first is the outermost. */
struct pare_view_trace {
    struct pare_value *base;
    int64_t offset;
    double scale; /* product of the constant factors on the path */
    struct {
        int64_t size, stride; /* in base */
        int64_t own;          /* stride in the value itself */
        int axis;             /* of the value */
    } dim[PARE_VIEW_TRACE_DIMS];
    int n;
};

/* The nodes on the path, without duplicates. */
struct pare_view_trace_nodes {
    struct pare_node *list[PARE_VIEW_TRACE_NODES];
    int n;
};

bool pare_view_trace_add(struct pare_view_trace_nodes *nodes, struct pare_node *n);

/* Trace value back to the first value that is already computed when the current step is matched,
 * with `scaled` also through constant factors; or to `stop`, if that is not NULL: then no part
 * spans several of its axes.  The nodes on the path are added.  False: another kind of node is on
 * the path. */
bool pare_trace(const struct pare_match *v, struct pare_value *value, const struct pare_value *stop,
                bool scaled, struct pare_view_trace *t, struct pare_view_trace_nodes *nodes);

/* The stride of one axis of the value in base; 0 if its size is 1, -1 if it has no single
 * stride. */
int64_t pare_view_trace_stride(const struct pare_view_trace *t, int axis);

/* Positions in base of all index combinations of the axes before `axes`, in row-major order. */
void pare_view_trace_offsets(const struct pare_view_trace *t, int axes, int64_t count,
                             int64_t *place);

#endif
