/* input.h - the shapes and contents of a model's inputs, from options, files or chance. */
#ifndef PARE_CLI_JOB_INPUT_H
#define PARE_CLI_JOB_INPUT_H

#include "../cli.h"

/* One tensor per input of a model, in its order. */
struct pare_inputs {
    int n;
    const struct pare_io *io; /* as the file declares them */
    struct pare_tensor *t;
    bool *given; /* shape and data came from a file */
    int n_notes;
    const char **note; /* what was assumed: "input 'x': 'batch' is 1" */
};

/* What the user said about shapes. */
struct pare_shape_args {
    int64_t batch;          /* for free first dimensions; 0: not said */
    struct pare_strs shape; /* "name=1,3,224,224", or "1,3,224,224", or "dimension=8" */
    bool lenient;           /* an input without a shape stays without, noted */
};

/* Take the shapes that the file declares, --shape over them, 1 for what is still free. */
int pare_inputs_shape(struct pare_cli *c, const struct pare_model *m,
                      const struct pare_shape_args *args, struct pare_inputs *in,
                      struct pare_err *err);

/* Take contents from files: "name=x.npy", "x.npy", "x.npz", "x.pb", "name=x.pb".  Before
 * pare_inputs_shape(): a file's shape counts. */
int pare_inputs_read(struct pare_cli *c, const struct pare_model *m, struct pare_strs files,
                     struct pare_inputs *in, struct pare_err *err);

/* Take input_0.pb, input_1.pb, ... of an ONNX test data set. */
int pare_inputs_read_set(struct pare_cli *c, const struct pare_model *m, const char *dir,
                         struct pare_inputs *in, struct pare_err *err);

/* Random contents for those that have none: normal floats, bytes over their whole range, other
 * integers 0 or 1, which are valid indices almost everywhere. */
int pare_inputs_fill(struct pare_cli *c, struct pare_inputs *in, uint64_t seed,
                     struct pare_err *err);

/* What was assumed, on stderr. */
void pare_inputs_say(const struct pare_inputs *in);

#endif
