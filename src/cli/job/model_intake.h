/* model_intake.h - load the model of a command and report what intake changed. */
#ifndef PARE_CLI_JOB_MODEL_INTAKE_H
#define PARE_CLI_JOB_MODEL_INTAKE_H

#include "../cli.h"
#include "../../data/data.h"
#include "../../train/loss.h"

/* Load with the command's --keep-training-mode.  What the user should know about intake is printed
 * on stderr. */
int pare_cli_load(struct pare_cli *c, const char *path, struct pare_model **m,
                  struct pare_err *err);

/* Print on stderr what was done to a data set to fit the model: images resized, labels not used.
 * d may be NULL. */
void pare_data_note(const struct pare_cli *c, const struct pare_data *d);

/* Print on stderr that the loss uses the logits before the model's last operator, if it does. */
void pare_logits_note(struct pare_cli *c, const struct pare_model *m, const struct pare_loss *loss);

/* The steps of intake with their counts: as lines of text, those that changed something; as a JSON
 * object, all of them. */
void pare_intake_print(const struct pare_model *m, FILE *f);
struct json_t *pare_intake_json(const struct pare_model *m);

/* Print on stderr that the model seems to normalize images itself, if it gets them normalized. */
void pare_image_range_note(const struct pare_cli *c, const struct pare_model *m,
                           const struct pare_data *d);

/* Say which task was derived, with its loss and metrics, unless it is classification. */
struct pare_train_options;
void pare_task_note(const struct pare_cli *c, const struct pare_train_options *s);

#endif
