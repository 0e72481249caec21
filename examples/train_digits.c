/* train_digits.c - train a network on handwritten digits: a complete program on <pare/pare.h>.
 *
 * usage: train_digits OUTPUT.onnx          with pare_training_run()
 *        train_digits OUTPUT.onnx own      with an explicit loop that does the same
 */
#include <stdio.h>
#include <string.h>

#include <pare/train.h>

#define EPOCHS 15
#define SETTINGS "optimizer=adam lr=2e-3 schedule=cosine epochs=15 batch=32 seed=1 threads=1 last"

static bool print_epoch(void *user, const struct pare_epoch_result *r)
{
    (void)user;
    printf("epoch %2d  loss %.4f  validated %.2f %%\n", (int)r->epoch + 1, r->loss,
           100 * r->valid_accuracy);
    return true; /* continue training */
}

/* What pare_training_run() does, as an explicit loop. */
static int explicit_loop(struct pare_training *l, struct pare_err *err)
{
    struct pare_tensor x, y, out;
    double loss = 0;

    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        PARE_TRY(pare_training_update_epoch(l, epoch, err));
        for (;;) {
            PARE_TRY(pare_training_next(l, &x, &y, err));
            if (!x.data)
                break; /* end of the epoch */
            PARE_TRY(pare_training_forward(l, &x, 1, &out, err));
            PARE_TRY(pare_training_loss(l, &y, &loss, err));
            PARE_TRY(pare_training_backward(l, err));
            PARE_TRY(pare_training_optimize(l, err));
            PARE_TRY(pare_training_step(l, err));
        }
        printf("epoch %2d  loss of the last batch %.4f\n", epoch + 1, loss);
    }
    return 0;
}

static int train(const char *output, bool own, struct pare_model **model, struct pare_training **l,
                 struct pare_err *err)
{
    struct pare_epoch_result r;

    PARE_TRY(pare_model_new("lenet", (int64_t[]){ 1, 8, 8 }, 10, 1, model, err));
    PARE_TRY(pare_training_open(*model, "digits", SETTINGS, l, err));
    PARE_TRY(own ? explicit_loop(*l, err) : pare_training_run(*l, print_epoch, NULL, err));
    PARE_TRY(pare_training_validate(*l, &r, err));
    printf("%.2f %% of the test digits are classified correctly\n", 100 * r.valid_accuracy);
    PARE_TRY(pare_model_save(*model, output, NULL, err));
    return r.valid_accuracy < 0.97 ? pare_fail(err, PARE_EFORMAT, "accuracy is below 97 %%") : 0;
}

int main(int argc, char **argv)
{
    struct pare_model *model = NULL;
    struct pare_training *l = NULL;
    struct pare_err err = { 0 };
    int rc = 2;

    if (argc == 2 || (argc == 3 && !strcmp(argv[2], "own")))
        rc = train(argv[1], argc == 3, &model, &l, &err) ? 1 : 0;
    else
        fputs("usage: train_digits OUTPUT.onnx [own]\n", stderr);
    if (rc == 1)
        fprintf(stderr, "train_digits: %s\n", err.msg);
    pare_training_free(l);
    pare_model_free(model);
    return rc;
}
