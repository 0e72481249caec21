/* certificate.c - certificate of a compressed model in its metadata: hashes, counts, bound. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <pare/train.h>

#include "../base/arena.h"
#include "../base/json.h"
#include "../base/sha256.h"
#include "../onnx/model.h"

#define KEY "pare.certificate"
#define MOST_BYTES 4096

_Static_assert(PARE_HASH_TEXT == PARE_SHA256_TEXT, "size of a hash");

/* Hash of a copy of the model in which the certificate is empty. */
static int hash_model(const struct pare_model *m, char text[PARE_HASH_TEXT], struct pare_err *err)
{
    struct pare_arena *a = pare_arena_new(1 << 16);
    struct pare_model *copy = NULL;
    struct pare_sha256 h;
    size_t len = 0;
    void *bytes = NULL;
    int rc = a ? pare_model_duplicate(m, &copy, err) : pare_no_memory(err, "for a hash");

    if (!rc)
        rc = pare_model_note(copy, KEY, "", err);
    if (!rc)
        rc = pare_model_pack(copy, a, &bytes, &len, err);
    if (!rc) {
        pare_sha256_init(&h);
        pare_sha256_add(&h, bytes, len);
        pare_sha256_text(&h, text);
    }
    pare_model_free(copy);
    pare_arena_free(a);
    return rc;
}

int pare_certificate_write(struct pare_model *m, struct pare_certificate *c, struct pare_err *err)
{
    PARE_ERR(err);
    char text[1024];

    snprintf(c->version, sizeof(c->version), "%s", pare_version());
    PARE_TRY(hash_model(m, c->model_sha256, err));
    snprintf(text, sizeof(text),
             "{\"format\": \"pare certificate 1\", \"original_sha256\": \"%.64s\", "
             "\"model_sha256\": \"%.64s\", \"data_sha256\": \"%.64s\", \"items\": %lld, "
             "\"b\": %lld, \"d\": %lld, \"right\": %lld, \"drop\": %.17g, \"bound\": %.17g, "
             "\"confidence\": %.17g, \"pare\": \"%.31s\"}",
             c->original_sha256, c->model_sha256, c->data_sha256, (long long)c->n, (long long)c->b,
             (long long)c->d, (long long)c->right, c->drop, c->bound, c->confidence, c->version);
    return pare_model_note(m, KEY, text, err);
}

static int read_text(const struct pare_json *j, const char *key, size_t size, char *to,
                     struct pare_err *err)
{
    const struct pare_json *v = pare_json_get(j, key);

    if (!v || v->kind != PARE_JSON_STR || strlen(v->str) >= size)
        return pare_fail(err, PARE_EFORMAT, "'%s' must be a text of at most %zu characters", key,
                         size - 1);
    memcpy(to, v->str, strlen(v->str) + 1);
    return 0;
}

static int read_hash(const struct pare_json *j, const char *key, char to[PARE_HASH_TEXT],
                     struct pare_err *err)
{
    PARE_TRY(read_text(j, key, PARE_HASH_TEXT, to, err));
    if (strspn(to, "0123456789abcdef") != PARE_HASH_TEXT - 1)
        return pare_fail(err, PARE_EFORMAT, "'%s' must have 64 hexadecimal digits", key);
    return 0;
}

static int read_count(const struct pare_json *j, const char *key, int64_t most, int64_t *to,
                      struct pare_err *err)
{
    const struct pare_json *v = pare_json_get(j, key);

    if (!v || v->kind != PARE_JSON_INT || v->whole < 0 || v->whole > most)
        return pare_fail(err, PARE_EFORMAT, "'%s' must be a number from 0 to %lld", key,
                         (long long)most);
    *to = v->whole;
    return 0;
}

static int read_real(const struct pare_json *j, const char *key, double *to, struct pare_err *err)
{
    const struct pare_json *v = pare_json_get(j, key);

    if (!v || (v->kind != PARE_JSON_INT && v->kind != PARE_JSON_REAL) || fabs(v->num) > 1)
        return pare_fail(err, PARE_EFORMAT, "'%s' must be a number from -1 to 1", key);
    *to = v->num;
    return 0;
}

static int read_fields(const struct pare_json *j, struct pare_certificate *c, struct pare_err *err)
{
    char format[24];

    PARE_TRY(read_text(j, "format", sizeof(format), format, err));
    if (strcmp(format, "pare certificate 1") != 0)
        return pare_fail(err, PARE_EUNSUPPORTED,
                         "the format is not 'pare certificate 1'; a newer Pare may read it");
    PARE_TRY(read_hash(j, "original_sha256", c->original_sha256, err));
    PARE_TRY(read_hash(j, "model_sha256", c->model_sha256, err));
    PARE_TRY(read_hash(j, "data_sha256", c->data_sha256, err));
    PARE_TRY(read_count(j, "items", (int64_t)1 << 53, &c->n, err));
    PARE_TRY(read_count(j, "b", c->n, &c->b, err));
    PARE_TRY(read_count(j, "d", c->n - c->b, &c->d, err));
    PARE_TRY(read_count(j, "right", c->n, &c->right, err));
    PARE_TRY(read_real(j, "drop", &c->drop, err));
    PARE_TRY(read_real(j, "bound", &c->bound, err));
    PARE_TRY(read_real(j, "confidence", &c->confidence, err));
    if (!(c->confidence > 0 && c->confidence < 1))
        return pare_fail(err, PARE_EFORMAT, "'confidence' must be between 0 and 1");
    return read_text(j, "pare", sizeof(c->version), c->version, err);
}

static int parse(const char *text, struct pare_certificate *c, struct pare_err *err)
{
    struct pare_arena *a;
    struct pare_json j;
    int rc;

    if (strlen(text) > MOST_BYTES)
        return pare_fail(err, PARE_ELIMIT, "it has more than %d bytes", MOST_BYTES);
    a = pare_arena_new(1 << 12);
    rc = a ? pare_json_parse(a, text, strlen(text), &j, err) : pare_no_memory(err, "to parse it");
    if (!rc)
        rc = read_fields(&j, c, err);
    pare_arena_free(a);
    return rc;
}

int pare_certificate_read(const struct pare_model *m, struct pare_certificate *c, bool *found,
                          struct pare_err *err)
{
    PARE_ERR(err);
    const char *text = pare_model_noted(m, KEY);
    char now[PARE_HASH_TEXT];

    *c = (struct pare_certificate){ .n = 0 };
    *found = text != NULL;
    if (!text)
        return 0;
    PARE_TRY(pare_at(err, parse(text, c, err), "certificate"));
    PARE_TRY(hash_model(m, now, err));
    if (strcmp(now, c->model_sha256) != 0)
        return pare_fail(err, PARE_EFORMAT, "the model was changed after it was certified");
    return 0;
}
