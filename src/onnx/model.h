/* model.h - a loaded file: the protobuf that backs it, its pages, and the graph built on it. */
#ifndef PARE_ONNX_MODEL_H
#define PARE_ONNX_MODEL_H

#include "../graph/graph.h"

struct pare_model {
    struct pare_arena *arena;
    const char *path, *dir;         /* for messages, and where external data is looked for */
    struct _Onnx__ModelProto *proto;
    struct pare_graph *graph;
    struct pare_io *in, *out;       /* main graph, initializers not counted as inputs */
    int n_in, n_out;
    struct pare_pages {             /* mapped files, unmapped with the model */
        void *data;
        size_t len;
        struct pare_pages *next;
    } *pages;
};

#endif
