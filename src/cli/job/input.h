/* input.h - shapes and data of a model's inputs, from options, files or random numbers. */
#ifndef PARE_CLI_JOB_INPUT_H
#define PARE_CLI_JOB_INPUT_H

#include "../cli.h"

/* One tensor per input of a model, in the model's order. */
struct pare_inputs {
    int n;
    const struct pare_io *io; /* as declared in the file */
    struct pare_tensor *t;
    bool *given; /* per input: shape and data are from a file */
    int n_notes;
    const char **note; /* assumptions to report: "input 'x': dimension 0 is free, using 1" */
};

/* Shapes given by options. */
struct pare_shape_args {
    int64_t batch;          /* for free first dimensions; 0: not given */
    struct pare_strs shape; /* "name=1,3,224,224", or "1,3,224,224", or "dimension=8" */
    bool lenient;           /* an input without a declared shape is a note, not an error */
    bool open;              /* dimensions that are still free remain -1 */
};

/* Use the declared shapes, overridden by --shape; dimensions that are still free become 1, or if
 * nodes do not accept that, a size that they accept. */
int pare_inputs_shape(struct pare_cli *c, const struct pare_model *m,
                      const struct pare_shape_args *args, struct pare_inputs *in,
                      struct pare_err *err);

/* Read data from files: "name=x.npy", "x.npy", "x.npz", "x.pb", "name=x.pb".  Call it before
 * pare_inputs_shape(), because a file sets the shape, too. */
int pare_inputs_read(struct pare_cli *c, const struct pare_model *m, struct pare_strs files,
                     struct pare_inputs *in, struct pare_err *err);

/* Read input_0.pb, input_1.pb, ... of an ONNX test data set. */
int pare_inputs_read_set(struct pare_cli *c, const struct pare_model *m, const char *dir,
                         struct pare_inputs *in, struct pare_err *err);

/* Fill inputs without data at random: floats from the normal distribution, bytes over their whole
 * range, other integers 0 or 1, which are valid indices in most models. */
int pare_inputs_fill(struct pare_cli *c, struct pare_inputs *in, uint64_t seed,
                     struct pare_err *err);

/* Print the notes to stderr. */
void pare_inputs_print_notes(const struct pare_inputs *in);

#endif
