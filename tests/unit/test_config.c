/* test_config.c - config_list: matching layers, values, and the message of every error. */
#include "arena_rig.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compress/config.h"

static struct pare_config config;

static const struct pare_layer_info layers[] = {
    { .name = "conv1", .type = "Conv", .torch = "Conv2d" },
    { .name = "bn1", .type = "BatchNormalization", .torch = "BatchNorm2d" },
    { .name = "conv2", .type = "Conv", .torch = "Conv2d" },
    { .name = "layer1.0.conv1", .type = "Conv", .torch = "Conv1d" },
    { .name = "fc1", .type = "Gemm", .torch = "Linear" },
    { .name = "fc2", .type = "MatMul", .torch = "Linear" },
    { .name = "op_name1", .type = "ConvTranspose", .torch = "ConvTranspose2d" },
    { .name = "op_name2", .type = "Conv", .torch = "Conv2d" },
    { .name = "op_name3", .type = "Conv", .torch = "Conv2d" },
};

#define N_LAYERS ((int)(sizeof(layers) / sizeof(*layers)))

static void parse_config(const char *text)
{
    err = (struct pare_err){ 0 };
    if (pare_config_parse(arena, text, NULL, &config, &err))
        fail_msg("%s\n%s", text, err.msg);
    if (pare_config_check(&config, layers, N_LAYERS, &err))
        fail_msg("%s\n%s", text, err.msg);
}

/* The number of the entry that applies to a layer, from 1; 0: none. */
static int matching_entry(const char *name)
{
    const struct pare_entry *e;
    int i = 0;

    while (strcmp(layers[i].name, name) != 0)
        i++;
    e = pare_config_match(&config, &layers[i]);
    return e ? (int)(e - config.entry) + 1 : 0;
}

/* ---- examples of NNI's documents ------------------------------------------------------------- */

struct keys {
    double sparsity;
    struct pare_strs quant_types;
    int64_t quant_bits, bits_weight, bits_output, quant_start_step;
};

static const struct pare_opt pruning[] = {
    PARE_FLOAT("sparsity", offsetof(struct keys, sparsity), "", -1, 0, 1),
    PARE_OPT_END,
};
static const struct pare_opt quantization[] = {
    { .name = "quant_types",
      .type = PARE_OPT_STRS,
      .offset = offsetof(struct keys, quant_types),
      .choices = "weight|input|output" },
    PARE_INT("quant_bits", offsetof(struct keys, quant_bits), "", 0, 1, 32),
    { .name = "quant_bits.weight",
      .type = PARE_OPT_INT,
      .offset = offsetof(struct keys, bits_weight),
      .min = 1,
      .max = 32 },
    { .name = "quant_bits.output",
      .type = PARE_OPT_INT,
      .offset = offsetof(struct keys, bits_output),
      .min = 1,
      .max = 32 },
    PARE_INT("quant_start_step", offsetof(struct keys, quant_start_step), "", 0, 0, 1e9),
    PARE_OPT_END,
};

static int apply_entry(int i, struct keys k[2])
{
    const struct pare_opt *const tables[] = { pruning, quantization, NULL };
    void *const into[] = { &k[0], &k[1], NULL };

    memset(k, 0, 2 * sizeof(*k));
    return pare_entry_apply(&config.entry[i], tables, into, 3, arena, &err);
}

static struct keys keys_of_entry(int i)
{
    struct keys k[2];

    if (apply_entry(i, k))
        fail_msg("%s", err.msg);
    k[1].sparsity = k[0].sparsity;
    return k[1];
}

static void test_one_entry(void **state)
{
    (void)state;
    parse_config("[{ \"sparsity\": 0.7, \"op_types\": [\"Conv2d\", \"Linear\"] }]");
    assert_int_equal(matching_entry("conv1"), 1);
    assert_int_equal(matching_entry("fc1"), 1);
    assert_int_equal(matching_entry("fc2"), 1);
    assert_int_equal(matching_entry("bn1"), 0);
    assert_int_equal(matching_entry("layer1.0.conv1"), 0); /* a Conv1d */
    assert_true(keys_of_entry(0).sparsity == 0.7);
}

static void test_default_names_and_exclude(void **state)
{
    (void)state;
    parse_config(
        "[\n    {\n        \"sparsity\": 0.8,\n        \"op_types\": [\"default\"]\n    },\n"
        "    {\n        \"sparsity\": 0.6,\n        \"op_names\": [\"op_name1\", \"op_name2\"]\n"
        "    },\n    {\n        \"exclude\": true,\n        "
        "\"op_names\": [\"op_name3\"]\n    }\n]\n");
    assert_int_equal(matching_entry("conv1"), 1);
    assert_int_equal(matching_entry("fc2"), 1);
    assert_int_equal(matching_entry("bn1"), 0);
    assert_int_equal(matching_entry("op_name1"), 2);
    assert_int_equal(matching_entry("op_name2"), 2);
    assert_int_equal(matching_entry("op_name3"), 0);
    assert_true(keys_of_entry(0).sparsity == 0.8);
    assert_true(keys_of_entry(1).sparsity == 0.6);
    assert_true(keys_of_entry(2).sparsity == -1);
    assert_string_equal(config.entry[1].where, "entry 2 (line 6)");
}

static void test_quantizer_keys(void **state)
{
    struct keys k;

    (void)state;
    parse_config("[{\"quant_types\": [\"weight\"], \"quant_bits\": {\"weight\": 8},  \"op_types\": "
                 "[\"Conv2d\", \"Linear\"]}]");
    k = keys_of_entry(0);
    assert_int_equal(k.quant_types.n, 1);
    assert_string_equal(k.quant_types.v[0], "weight");
    assert_int_equal(k.bits_weight, 8);
    parse_config("[{\"quant_types\": [\"weight\", \"output\"], \"op_types\": [\"default\"],  "
                 "\"quant_bits\": {\"weight\": 8, \"output\": 4}}]");
    k = keys_of_entry(0);
    assert_int_equal(k.bits_weight, 8);
    assert_int_equal(k.bits_output, 4);
    parse_config("[{\"quant_types\": [\"weight\"], \"quant_bits\": 8, \"op_names\": [\"conv1\"]},\n"
                 " {\"quant_types\": [\"weight\"], \"quant_bits\": 4, \"quant_start_step\": 0,"
                 "  \"op_names\": [\"conv2\"]},\n"
                 " {\"quant_types\": [\"weight\"], \"quant_bits\": 3, \"op_names\": [\"fc1\"]},\n"
                 " {\"quant_types\": [\"weight\"], \"quant_bits\": 2, \"op_names\": [\"fc2\"]}]");
    assert_int_equal(keys_of_entry(matching_entry("conv1") - 1).quant_bits, 8);
    assert_int_equal(keys_of_entry(matching_entry("conv2") - 1).quant_bits, 4);
    assert_int_equal(keys_of_entry(matching_entry("fc1") - 1).quant_bits, 3);
    assert_int_equal(keys_of_entry(matching_entry("fc2") - 1).quant_bits, 2);
}

/* ---- matching -------------------------------------------------------------------------------- */

static void test_last_matching_entry_replaces_others(void **state)
{
    (void)state;
    parse_config(
        "[{\"sparsity\": 0.5, \"quant_bits\": 8, \"op_types\": [\"Conv\"]}, {\"sparsity\": 0.9, "
        "\"op_names\": [\"conv1\"], \"op_types\": [\"Conv2d\"]}, {\"quant_bits\": 4, \"op_names\": "
        "[\"conv2\"]}]");
    assert_int_equal(matching_entry("conv1"), 2);
    assert_int_equal(keys_of_entry(1).quant_bits, 0); /* entry 1 is fully overridden */
    assert_int_equal(matching_entry("conv2"), 3);
    assert_true(keys_of_entry(2).sparsity == -1);
    assert_int_equal(matching_entry("layer1.0.conv1"), 1); /* Conv matches all convolutions */
    assert_int_equal(matching_entry("op_name1"), 0);       /* but not ConvTranspose */
}

static void test_exclude_is_a_value(void **state)
{
    (void)state;
    parse_config(
        "[{\"sparsity\": 0.5, \"op_types\": [\"default\"]}, {\"exclude\": false, \"sparsity\": "
        "0.1, \"op_names\": [\"conv1\"]}, {\"exclude\": true, \"op_types\": [\"Linear\"]}, "
        "{\"sparsity\": 0.2, \"op_names\": [\"fc2\"]}]");
    assert_int_equal(matching_entry("conv1"), 2);
    assert_int_equal(matching_entry("fc1"), 0);
    assert_int_equal(matching_entry("fc2"), 4); /* included again */
}

static void test_onnx_and_pytorch_types(void **state)
{
    (void)state;
    parse_config("[{\"op_types\": [\"Gemm\"]}, {\"op_types\": [\"BatchNorm2d\"]}, {\"op_types\": "
                 "[\"Conv3d\", \"default\", \"BatchNormalization\"],  \"op_names\": [\"bn1\"]}]");
    assert_int_equal(matching_entry("fc1"), 1);
    assert_int_equal(matching_entry("fc2"), 0);
    assert_int_equal(matching_entry("bn1"), 3);
}

static void test_patterns_match_whole_names(void **state)
{
    (void)state;
    parse_config(
        "[{\"op_names\": [\"re:conv\\\\d\", \"fc1\"]}, {\"op_names\": [\"re:layer[12]\\\\..*\"]}]");
    assert_int_equal(matching_entry("conv1"), 1);
    assert_int_equal(matching_entry("conv2"), 1);
    assert_int_equal(matching_entry("fc1"), 1);
    assert_int_equal(matching_entry("layer1.0.conv1"), 2); /* the whole name, not a part of it */
    assert_int_equal(matching_entry("fc2"), 0);
}

static void test_value_types(void **state)
{
    const struct pare_setting *s;

    (void)state;
    parse_config(
        "[{\"op_names\": [\"fc1\"], \"a\": [1, 2], \"b\": [1, 2.5], \"c\": [\"x\"],  \"d\": "
        "\"text\",  \"e\": true, \"f\": -3, \"g\": 1e-4}]");
    s = config.entry[0].set;
    assert_int_equal(config.entry[0].n_set, 7);
    assert_int_equal(s[0].type, PARE_OPT_INTS);
    assert_int_equal(s[0].ints.v[1], 2);
    assert_int_equal(s[1].type, PARE_OPT_FLOATS);
    assert_true(s[1].floats.v[0] == 1 && s[1].floats.v[1] == 2.5);
    assert_int_equal(s[2].type, PARE_OPT_STRS);
    assert_string_equal(s[2].strs.v[0], "x");
    assert_string_equal(s[3].str, "text");
    assert_true(s[4].type == PARE_OPT_BOOL && s[4].num == 1);
    assert_true(s[5].type == PARE_OPT_INT && s[5].whole == -3);
    assert_true(s[6].type == PARE_OPT_FLOAT && s[6].num == 1e-4);
}

static void test_rules_from_c_structs(void **state)
{
    static const char *const types[] = { "default", NULL }, *const names[] = { "re:fc.", NULL };
    const struct pare_rule rule[] = {
        { .op_types = types, .keys = "sparsity=0.8" },
        { .op_names = names, .keys = " quant_types=weight,output\tquant_bits=4 " },
        { .op_types = types, .op_names = names, .exclude = true },
    };
    struct keys k;

    (void)state;
    assert_int_equal(pare_config_rules(arena, rule, 2, &config, &err), 0);
    assert_int_equal(pare_config_check(&config, layers, N_LAYERS, &err), 0);
    assert_int_equal(matching_entry("conv1"), 1);
    assert_true(keys_of_entry(0).sparsity == 0.8);
    assert_int_equal(matching_entry("fc1"), 2);
    k = keys_of_entry(1);
    assert_int_equal(k.quant_types.n, 2);
    assert_int_equal(k.quant_bits, 4);
    assert_int_equal(pare_config_rules(arena, rule, 3, &config, &err), 0);
    assert_int_equal(matching_entry("fc1"), 0);
}

static void test_config_from_a_file(void **state)
{
    char path[] = "/tmp/pare_config_XXXXXX";
    int fd = mkstemp(path);
    static const char text[] = "[\n{\"op_types\": [\"Linear\"]},\n{\"op_types\": 3}]";

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, sizeof(text) - 1), sizeof(text) - 1);
    close(fd);
    assert_int_equal(pare_config_read(arena, path, &config, &err), PARE_ECONFIG);
    assert_non_null(strstr(err.msg, path));
    assert_non_null(strstr(err.msg, ": entry 2 (line 3): 'op_types' is a number"));
    unlink(path);
    assert_int_equal(pare_config_read(arena, path, &config, &err), PARE_EIO);
    assert_int_equal(pare_config_read(arena, " [{\"op_types\": [\"Linear\"]}]", &config, &err), 0);
}

/* ---- errors ---------------------------------------------------------------------------------- */

/* Expects an error with this message, after "config: ". */
static void expect_error(const char *text, const char *why)
{
    struct keys k[2];
    int rc;

    err = (struct pare_err){ 0 };
    rc = pare_config_parse(arena, text, NULL, &config, &err);
    if (rc && !strncmp(err.msg, "config: ", 8))
        memmove(err.msg, err.msg + 8, strlen(err.msg + 8) + 1);
    if (!rc)
        rc = pare_config_check(&config, layers, N_LAYERS, &err);
    for (int i = 0; !rc && i < config.n; i++)
        rc = apply_entry(i, k);
    if (!rc)
        fail_msg("%s\nis accepted, expected: %s", text, why);
    assert_int_equal(rc, err.code);
    if (strcmp(err.msg, why) != 0)
        fail_msg("%s\nmessage:  %s\nexpected: %s", text, err.msg, why);
}

static void test_json_errors(void **state)
{
    static char deep[400];

    (void)state;
    expect_error("", "line 1, column 0: not JSON: unexpected token near end of file");
    expect_error(
        "[{'op_types': 1}]",
        "line 1, column 3: not JSON: string or '}' expected near ''' (strings need \"double "
        "quotes\")");
    expect_error("[\n{\"exclude\": True}]",
                 "line 2, column 16: not JSON: invalid token near 'True' (write true)");
    expect_error("[{\"sparsity\": NaN}]",
                 "line 1, column 17: not JSON: invalid token near 'NaN' (JSON has no such number)");
    expect_error("[{\"a\": 1e999}]",
                 "line 1, column 12: not JSON: real number overflow near '1e999'");
    expect_error("[{\"a\": 99999999999999999999}]",
                 "line 1, column 27: not JSON: too big integer near '99999999999999999999'");
    expect_error("[{\"a\": 1, \"a\": 2}]",
                 "line 1, column 13: not JSON: duplicate object key near '\"a\"'");
    expect_error("[{\"a\": \"\xff\"}]",
                 "line 1, column 8: not JSON: unable to decode byte 0xff near '\"'");
    expect_error("[{\"a\": \"\\u0000\"}]",
                 "line 1, column 15: not JSON: a string contains \\u0000");
    expect_error("[{\"a\": 1}, # two\n]",
                 "line 1, column 12: not JSON: invalid token near '#' (JSON has no comments)");
    expect_error(
        "[{\"a\": 1},]",
        "line 1, column 11: not JSON: unexpected token near ']' (is there an extra comma before "
        "it?)");
    expect_error("[] []", "line 1, column 4: not JSON: end of file expected near '['");
    memset(deep, '[', 300);
    memset(deep + 100, ']', 100);
    deep[200] = '\0';
    expect_error(deep, "line 1: nested too deep, at most 64 levels");
}

static void test_list_errors(void **state)
{
    (void)state;
    expect_error("3", "a config_list is a list of objects, this is a number");
    expect_error("{\"op_types\": [\"Conv\"]}",
                 "a config_list is a list of objects, this is an object: put it in [ ]");
    expect_error("[]", "the config_list is empty, must have an entry");
    expect_error("[\n[]]", "entry 1 (line 2): is a list, must be an object {\"key\": value, ...}");
    expect_error("[{\"op_types\": [\"Conv\"]},\n \"x\"]",
                 "entry 2 (line 2): is a text, must be an object {\"key\": value, ...}");
}

static void test_selector_errors(void **state)
{
    (void)state;
    expect_error("[{}]", "entry 1 (line 1): has neither op_types nor op_names, so the entry "
                         "matches no layer");
    expect_error("[{\"sparsity\": 0.5, \"optypes\": [\"Conv\"]}]",
                 "entry 1 (line 1): has neither op_types nor op_names, so the entry "
                 "matches no layer (is 'optypes' meant to be 'op_types'?)");
    expect_error("[{\"op_types\": \"Conv2d\"}]",
                 "entry 1 (line 1): 'op_types' is a text, must be a list of texts: [\"Conv2d\"]");
    expect_error("[{\"op_names\": {\"a\": 1}}]",
                 "entry 1 (line 1): 'op_names' is an object, must be a list of texts");
    expect_error("[{\"op_names\": []}]",
                 "entry 1 (line 1): 'op_names' is an empty list, which would match no layer");
    expect_error("[{\"op_types\": [\"Conv\", 2]}]",
                 "entry 1 (line 1): 'op_types' has a number in it, must be a list of texts");
    expect_error("[{\"op_types\": [\"Conv\"], \"exclude\": 1}]",
                 "entry 1 (line 1): 'exclude' is a number, must be true or false");
    expect_error("[{\"op_name\": [\"fc1\"]}]",
                 "entry 1 (line 1): 'op_name' is not a selector; use op_types, op_names (names, or "
                 "\"re:\" and a pattern) and exclude (did you mean 'op_names'?)");
    expect_error(
        "[{\"op_partial_names\": [\"fc\"]}]",
        "entry 1 (line 1): 'op_partial_names' is not a selector; use op_types, op_names (names, "
        "or \"re:\" and a pattern) and exclude");
}

static void test_value_errors(void **state)
{
    (void)state;
#define CONV "[{\"op_types\": [\"Conv\"], "
    expect_error(
        CONV "\"a\": null}]",
        "entry 1 (line 1): 'a' is null, must be a number, a text, true or false, or a list of "
        "them");
    expect_error(CONV "\"a\": []}]", "entry 1 (line 1): 'a' is an empty list, must have a value");
    expect_error(CONV "\"a\": [1, \"x\"]}]",
                 "entry 1 (line 1): 'a' has a text in it, must be a list of numbers or of texts");
    expect_error(CONV "\"a\": [[1]]}]",
                 "entry 1 (line 1): 'a' has a list in it, must be a list of numbers or of texts");
    expect_error(CONV "\"a\": {}}]",
                 "entry 1 (line 1): 'a' is an empty object, must have a member");
    expect_error(
        CONV "\"a\": {\"b\": {\"c\": 1}}}]",
        "entry 1 (line 1): 'a' is nested too deep: its member 'b' is an object, must be a number "
        "or a text");
    expect_error(CONV "\"a\": {\"b\": 1}, \"a.b\": 2}]", "entry 1 (line 1): 'a.b' is given twice");
    expect_error(CONV "\"\": 1}]", "entry 1 (line 1): has a key without a name");
    expect_error(CONV "\"sparsity\": 1.5}]",
                 "entry 1 (line 1): option 'sparsity' is 1.5, must be in [0, 1]");
    expect_error(CONV "\"sparsity\": true}]",
                 "entry 1 (line 1): option 'sparsity' is true, must be a number");
    expect_error(CONV "\"sparsity\": \"0.5\"}]",
                 "entry 1 (line 1): option 'sparsity' must be a number");
    expect_error(CONV "\"sparcity\": 0.5}]",
                 "entry 1 (line 1): unknown key 'sparcity' (did you mean 'sparsity'?)");
    expect_error(
        CONV "\"quant_bits\": {\"wieght\": 8}}]",
        "entry 1 (line 1): unknown key 'quant_bits.wieght' (did you mean 'quant_bits.weight'?)");
    expect_error(
        CONV "\"quant_types\": [\"weights\"]}]",
        "entry 1 (line 1): option 'quant_types' is 'weights', must be one of weight|input|output");
    expect_error(CONV "\"quant_bits\": 2.5}]",
                 "entry 1 (line 1): option 'quant_bits' must be a whole number");
}

static void test_name_errors(void **state)
{
    (void)state;
    expect_error("[{\"op_names\": [\"fc1\", \"fc3\"]}]",
                 "entry 1 (line 1): no layer is called 'fc3' (did you mean 'fc1'?)");
    expect_error(
        "[{\"op_names\": [\"something else\"]}]",
        "entry 1 (line 1): no layer is called 'something else'; the model has conv1, bn1, conv2, "
        "layer1.0.conv1, fc1, fc2, op_name1, op_name2, ...");
    expect_error(
        "[{\"op_types\": [\"BatchNorm1d\"]}]",
        "entry 1 (line 1): no layer is of the type 'BatchNorm1d' (did you mean 'BatchNorm2d'?)");
    expect_error(
        "[{\"op_types\": [\"Relu6\"]}]",
        "entry 1 (line 1): no layer is of the type 'Relu6'; the model has Conv2d, BatchNorm2d, "
        "Conv1d, Linear, ConvTranspose2d, Conv, BatchNormalization, Gemm, ...");
    expect_error(
        "[{\"op_names\": [\"re:head.*\"]}]",
        "entry 1 (line 1): the pattern 'head.*' matches no layer's name; the model has conv1, bn1, "
        "conv2, layer1.0.conv1, fc1, fc2, op_name1, op_name2, ...");
    expect_error(
        "[{\"op_types\": [\"Linear\"], \"op_names\": [\"conv1\"]}]",
        "entry 1 (line 1): no layer has one of its op_types and one of its op_names as well");
}

static void test_pattern_errors(void **state)
{
    char text[400], why[400];

    (void)state;
#define NAME(x) "[{\"op_names\": [\"re:" x "\"]}]"
    expect_error(NAME("(conv"),
                 "entry 1 (line 1): the pattern '(conv': is not a regular expression: ( without )");
    expect_error(
        NAME("(.)\\\\1"),
        "entry 1 (line 1): the pattern '(.)\\1': has a back reference \\1, which is not supported");
    expect_error(NAME("(a{200}){200}"),
                 "entry 1 (line 1): the pattern '(a{200}){200}': is too long with its repeats "
                 "expanded, at most 1000 states");
    snprintf(text, sizeof(text), NAME("%0300d"), 0);
    snprintf(why, sizeof(why),
             "entry 1 (line 1): the pattern '%0200d': is too long, at most 200 characters", 0);
    expect_error(text, why);
}

static void test_rule_errors(void **state)
{
    static const char *const none[] = { NULL }, *const types[] = { "Conv", NULL };
    static const struct {
        struct pare_rule rule;
        const char *why;
    } list[] = {
        { { .keys = "sparsity=0.5" },
          "rule 1: has neither op_types nor op_names, so the rule matches no layer" },
        { { .op_types = none }, "rule 1: op_types is an empty list, which would match no layer" },
        { { .op_types = types, .keys = "sparsity=0.5 sparsity=0.6" },
          "rule 1: 'sparsity' is given twice" },
        { { .op_types = types, .keys = "sparsity=half" },
          "rule 1: option 'sparsity' is 'half', must be a number" },
        { { .op_types = types, .keys = "sparsity=nan" },
          "rule 1: option 'sparsity' is nan, must be in [0, 1]" },
        { { .op_types = types, .keys = "sparsity" },
          "rule 1: option 'sparsity' is 'true', must be a number" },
        { { .op_types = types, .keys = "sparsty=0.5" },
          "rule 1: unknown key 'sparsty' (did you mean 'sparsity'?)" },
        { { .op_types = types, .keys = "=0.5" }, "rule 1: has a key without a name" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof(list) / sizeof(*list); i++) {
        struct keys k[2];
        int rc = pare_config_rules(arena, &list[i].rule, 1, &config, &err);

        if (!rc)
            rc = apply_entry(0, k);
        assert_int_not_equal(rc, 0);
        assert_string_equal(err.msg, list[i].why);
    }
    assert_int_equal(pare_config_rules(arena, NULL, 0, &config, &err), PARE_ECONFIG);
}

/* A failed allocation at any point gives an error, and nothing leaks. */
static void test_out_of_memory(void **state)
{
    static const char text[] =
        "[{\"op_types\": [\"default\"], \"a\": {\"b\": 1}, \"c\": [1, 2]}, {\"op_names\": "
        "[\"re:f.*\"], \"d\": \"text\"}]";
    int rc = PARE_ENOMEM;

    (void)state;
    for (int i = 1; rc; i++) {
        pare_oom_countdown = -i;
        rc = pare_config_parse(arena, text, NULL, &config, &err);
        pare_oom_countdown = 0;
        assert_true(!rc || rc == PARE_ENOMEM);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        TEST(test_one_entry),
        TEST(test_default_names_and_exclude),
        TEST(test_quantizer_keys),
        TEST(test_last_matching_entry_replaces_others),
        TEST(test_exclude_is_a_value),
        TEST(test_onnx_and_pytorch_types),
        TEST(test_patterns_match_whole_names),
        TEST(test_value_types),
        TEST(test_rules_from_c_structs),
        TEST(test_config_from_a_file),
        TEST(test_json_errors),
        TEST(test_list_errors),
        TEST(test_selector_errors),
        TEST(test_value_errors),
        TEST(test_name_errors),
        TEST(test_pattern_errors),
        TEST(test_rule_errors),
        TEST(test_out_of_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
