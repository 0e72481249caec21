/* metadata.h - what a file says about itself. */
#ifndef PARE_ONNX_METADATA_H
#define PARE_ONNX_METADATA_H

#include "model.h"

struct pare_metadata {
    int64_t ir;                              /* version of the file format */
    const char *producer, *producer_version; /* "" when the file does not say */
    const char *graph;                       /* the main graph's name */
    int n_opsets;
    const struct pare_opset {
        const char *domain; /* "" is the standard one */
        int64_t version;
    } * opset;
    size_t bytes; /* of the file, and of the data beside it */
};

/* The texts belong to the model, the list to the arena. */
int pare_model_metadata(const struct pare_model *m, struct pare_arena *a, struct pare_metadata *f,
                        struct pare_err *err);

#endif
