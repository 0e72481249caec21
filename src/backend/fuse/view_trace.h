/* view_trace.h - where the elements of a value lie in another one that only moves on the way to it.
 *
 * Reshape keeps an element's place in memory; Transpose, Slice, Split and Gather of one index
 * multiply and add along each axis.  So element (i, j, ...) of the last value is found at
 * offset + the sum of i times a stride, unless a Reshape joins axes that are apart.
 */
#ifndef PARE_BACKEND_FUSE_VIEW_TRACE_H
#define PARE_BACKEND_FUSE_VIEW_TRACE_H

#include "../backend.h"

#define PARE_VIEW_TRACE_DIMS 24
#define PARE_VIEW_TRACE_NODES 40

/* Axes of a value, or parts of them: the first is the outermost. */
struct pare_view_trace {
    struct pare_value *base;
    int64_t offset;
    double scale; /* constant factors on the way */
    struct {
        int64_t size, stride; /* in base */
        int64_t own;          /* in the value itself */
        int axis;             /* of the value */
    } dim[PARE_VIEW_TRACE_DIMS];
    int n;
};

/* The nodes on the way, none twice. */
struct pare_view_trace_nodes {
    struct pare_node *list[PARE_VIEW_TRACE_NODES];
    int n;
};

bool pare_view_trace_add(struct pare_view_trace_nodes *nodes, struct pare_node *n);

/* From value back to the first one that is made already when a step is matched now, through
 * constant factors, too, where `scaled`; or to `stop`, if that is not NULL: then no part
 * is of several of its axes.  Nodes that were passed
 * are added.  False: something else makes a value on the way. */
bool pare_trace(const struct pare_match *v, struct pare_value *value, const struct pare_value *stop,
                bool scaled, struct pare_view_trace *t, struct pare_view_trace_nodes *nodes);

/* The stride of one axis of the value; 0 where its size is 1, -1 where it has none alone. */
int64_t pare_view_trace_stride(const struct pare_view_trace *t, int axis);

/* Places of all combinations of the axes before `axes`, in order. */
void pare_view_trace_places(const struct pare_view_trace *t, int axes, int64_t count,
                            int64_t *place);

#endif
