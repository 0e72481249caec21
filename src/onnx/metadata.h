/* metadata.h - IR version, producer, opsets and size of a model file. */
#ifndef PARE_ONNX_METADATA_H
#define PARE_ONNX_METADATA_H

#include "model.h"

struct pare_metadata {
    int64_t ir;                              /* IR version */
    const char *producer, *producer_version; /* "": not stated */
    const char *graph;                       /* the main graph's name */
    int n_opsets;
    const struct pare_opset {
        const char *domain; /* "": the standard operators */
        int64_t version;
    } * opset;
    size_t bytes; /* of the file and its external data */
};

/* The strings belong to the model; the list is allocated in the arena. */
int pare_model_metadata(const struct pare_model *m, struct pare_arena *a, struct pare_metadata *f,
                        struct pare_err *err);

#endif
