/* refused.c - operators that are known but never run, each with its reason. */
#include "op.h"

static const struct {
    const char *domain, *types, *why;
} refused[] = {
    { "", " ImageDecoder ", "it decodes image files; decode images before the model" },
    { "", " RegexFullMatch StringConcat StringSplit ",
      "it processes text; tokenize text before the model and pass numbers" },
    { "ai.onnx.preview.training", " Adagrad Adam Gradient Momentum ",
      "it trains inside the model; use 'pare train' instead" },
    { "ai.onnx.ml", " ", "it belongs to classical machine learning, not to neural networks" },
    { "com.microsoft", " Tokenizer BeamSearch GreedySearch Sampling WhisperBeamSearch ",
      "it generates text with the models that it contains; use these models" },
};

const char *pare_op_refused(const char *domain, const char *type)
{
    if (!strcmp(domain, "ai.onnx"))
        domain = "";
    for (size_t i = 0; i < sizeof(refused) / sizeof(*refused); i++) {
        const char *p = strstr(refused[i].types, type);
        size_t n = strlen(type);

        if (strcmp(refused[i].domain, domain))
            continue;
        if (!refused[i].types[1] || (p && n && p[-1] == ' ' && p[n] == ' '))
            return refused[i].why;
    }
    return NULL;
}
