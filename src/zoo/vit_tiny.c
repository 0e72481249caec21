/* vit_tiny.c - ViT-Tiny, a vision transformer of 12 blocks, 192 channels, 3 heads:
 * Dosovitskiy et al., "An image is worth 16x16 words", 2020; the size is from Touvron et al.,
 * "Training data-efficient image transformers", 2020.  Names are timm's.
 *
 * Tokens are (N T, 192), so that every linear layer is a Gemm with PyTorch's weights; only
 * attention uses (N, T, ...).
 */
#include <math.h>
#include <stdio.h>

#include "zoo_layers.h"

enum { DIM = 192, HEADS = 3, HEAD = DIM / HEADS, DEPTH = 12, MLP = 4 * DIM };

static const char *reshape(struct pare_net *n, const char *x, const char *name, int rank,
                           const int64_t *dim)
{
    char part[160];
    const char *shape;

    snprintf(part, sizeof(part), "%s.shape", name);
    shape = pare_builder_shape(n->make, part, rank, dim);
    return pare_builder_node(n->make, "Reshape", name, x, shape, NULL);
}

static const char *transpose(struct pare_net *n, const char *x, const char *name, int rank,
                             const int64_t *perm)
{
    const char *y = pare_builder_node(n->make, "Transpose", name, x, NULL);

    pare_builder_ints(n->make, "perm", rank, perm);
    return y;
}

static struct pare_flow layer_norm(struct pare_net *n, struct pare_flow x, const char *name)
{
    int64_t dim = DIM;
    char part[160];
    const char *w, *b;

    snprintf(part, sizeof(part), "%s.weight", name);
    w = pare_net_fill(n, part, 1, &dim, 1);
    snprintf(part, sizeof(part), "%s.bias", name);
    b = pare_net_fill(n, part, 1, &dim, 0);
    x.value = pare_builder_node(n->make, "LayerNormalization", name, x.value, w, b, NULL);
    pare_builder_int(n->make, "axis", -1);
    pare_builder_float(n->make, "epsilon", 1e-6f);
    return x;
}

/* x / 2 (1 + erf(x / sqrt 2)) in single operators: Gelu exists only from opset 20 on. */
static struct pare_flow gelu(struct pare_net *n, struct pare_flow x, const char *at)
{
    struct pare_builder *k = n->make;
    const char *root, *one, *half, *y;

    root = pare_builder_number(k, pare_net_name(n, "%s.sqrt2", at), (float)sqrt(2));
    one = pare_builder_number(k, pare_net_name(n, "%s.one", at), 1);
    half = pare_builder_number(k, pare_net_name(n, "%s.half", at), 0.5f);
    y = pare_builder_node(k, "Div", pare_net_name(n, "%s.div", at), x.value, root, NULL);
    y = pare_builder_node(k, "Erf", pare_net_name(n, "%s.erf", at), y, NULL);
    y = pare_builder_node(k, "Add", pare_net_name(n, "%s.add", at), y, one, NULL);
    y = pare_builder_node(k, "Mul", pare_net_name(n, "%s.mul", at), x.value, y, NULL);
    x.value = pare_builder_node(k, "Mul", pare_net_name(n, "%s.mul2", at), y, half, NULL);
    return x;
}

/* (N T, 192) -> (N, heads, T, 64), or the last two swapped for keys. */
static const char *heads(struct pare_net *n, const char *x, const char *name, int64_t tokens,
                         bool swapped)
{
    int64_t perm[4] = { 0, 2, swapped ? 3 : 1, swapped ? 1 : 3 };
    char part[160];

    snprintf(part, sizeof(part), "%s.heads", name);
    x = reshape(n, x, name, 4, (int64_t[]){ -1, tokens, HEADS, HEAD });
    return transpose(n, x, part, 4, perm);
}

/* softmax(q k' / sqrt(64)) v */
static struct pare_flow attention(struct pare_net *n, struct pare_flow x, const char *at,
                                  int64_t tokens)
{
    struct pare_builder *k = n->make;
    const char *part[3], *scale, *y;

    x = pare_net_linear(n, x, pare_net_name(n, "%s.qkv", at), 3 * DIM);
    pare_builder_node(k, "Split", pare_net_name(n, "%s.split", at), x.value, NULL);
    pare_builder_int(k, "axis", 1);
    for (int i = 2; i >= 0; i--)
        part[i] = pare_builder_split(k, 3, i);
    part[0] = heads(n, part[0], pare_net_name(n, "%s.q", at), tokens, false);
    part[1] = heads(n, part[1], pare_net_name(n, "%s.k", at), tokens, true);
    part[2] = heads(n, part[2], pare_net_name(n, "%s.v", at), tokens, false);
    scale = pare_builder_number(k, pare_net_name(n, "%s.scale", at), (float)(1 / sqrt(HEAD)));
    y = pare_builder_node(k, "Mul", pare_net_name(n, "%s.scaled", at), part[0], scale, NULL);
    y = pare_builder_node(k, "MatMul", pare_net_name(n, "%s.scores", at), y, part[1], NULL);
    y = pare_builder_node(k, "Softmax", pare_net_name(n, "%s.softmax", at), y, NULL);
    pare_builder_int(k, "axis", -1);
    y = pare_builder_node(k, "MatMul", pare_net_name(n, "%s.mixed", at), y, part[2], NULL);
    y = transpose(n, y, pare_net_name(n, "%s.back", at), 4, (int64_t[]){ 0, 2, 1, 3 });
    x.value = reshape(n, y, pare_net_name(n, "%s.flat", at), 2, (int64_t[]){ -1, DIM });
    x.c = DIM;
    return pare_net_linear(n, x, pare_net_name(n, "%s.proj", at), DIM);
}

static struct pare_flow block(struct pare_net *n, struct pare_flow x, const char *at,
                              int64_t tokens)
{
    struct pare_flow y = layer_norm(n, x, pare_net_name(n, "%s.norm1", at));
    char part[64];

    snprintf(part, sizeof(part), "%s.attn", at);
    y = attention(n, y, part, tokens);
    x = pare_net_sum(n, x, y, pare_net_name(n, "%s.add1", at));
    y = layer_norm(n, x, pare_net_name(n, "%s.norm2", at));
    y = pare_net_linear(n, y, pare_net_name(n, "%s.mlp.fc1", at), MLP);
    snprintf(part, sizeof(part), "%s.mlp.act", at);
    y = gelu(n, y, part);
    y = pare_net_linear(n, y, pare_net_name(n, "%s.mlp.fc2", at), DIM);
    return pare_net_sum(n, x, y, pare_net_name(n, "%s.add2", at));
}

/* The patch size: 16 pixels for large images, else the largest of 4, 2 and 1 that divides both
 * sides. */
static int64_t patch_size(int64_t h, int64_t w)
{
    int64_t p = h >= 128 && w >= 128 && h % 16 == 0 && w % 16 == 0 ? 16 : 4;

    while (h % p || w % p)
        p /= 2;
    return p;
}

/* Patch embedding, after a class token that is the same for every item of the batch, plus position
 * embedding: (N T, 192). */
static struct pare_flow embed(struct pare_net *n, struct pare_flow x, int64_t *tokens)
{
    struct pare_builder *k = n->make;
    int64_t p = patch_size(x.h, x.w), one[3] = { 1, 1, DIM }, all[3] = { 1, 0, DIM };
    const char *input = x.value, *cls, *pos, *batch, *y;

    x = pare_net_conv(n, x, "patch_embed.proj",
                      (struct pare_conv){ .out = DIM, .kernel = p, .stride = p, .bias = true });
    *tokens = all[1] = x.h * x.w + 1;
    y = reshape(n, x.value, "patch_embed.flatten", 3, (int64_t[]){ 0, DIM, -1 });
    y = transpose(n, y, "patch_embed.transpose", 3, (int64_t[]){ 0, 2, 1 });
    cls = pare_net_normal(n, "cls_token", 3, one, 1e-6);
    pos = pare_net_normal(n, "pos_embed", 3, all, 0.02);
    batch = pare_builder_node(k, "Shape", "cls_token.batch", input, NULL);
    pare_builder_int(k, "start", 0);
    pare_builder_int(k, "end", 1);
    batch = pare_builder_node(k, "Concat", "cls_token.shape", batch,
                              pare_builder_shape(k, "cls_token.rest", 2, &one[1]), NULL);
    pare_builder_int(k, "axis", 0);
    cls = pare_builder_node(k, "Expand", "cls_token.expand", cls, batch, NULL);
    y = pare_builder_node(k, "Concat", "tokens", cls, y, NULL);
    pare_builder_int(k, "axis", 1);
    y = pare_builder_node(k, "Add", "pos_embed.add", y, pos, NULL);
    return (struct pare_flow){ reshape(n, y, "tokens.flat", 2, (int64_t[]){ -1, DIM }), DIM, 0, 0 };
}

static struct pare_flow build(struct pare_net *n, struct pare_flow x)
{
    int64_t tokens, first = 0;
    const char *which;

    n->init = PARE_INIT_VIT;
    x = embed(n, x, &tokens);
    for (int i = 0; i < DEPTH; i++) {
        char at[32];

        snprintf(at, sizeof(at), "blocks.%d", i);
        x = block(n, x, at, tokens);
    }
    x = layer_norm(n, x, "norm");
    x.value = reshape(n, x.value, "norm.tokens", 3, (int64_t[]){ -1, tokens, DIM });
    which = pare_builder_shape(n->make, "head.token", 1, &first);
    x.value = pare_builder_node(n->make, "Gather", "head.gather", x.value, which, NULL);
    pare_builder_int(n->make, "axis", 1);
    x.value = pare_builder_node(n->make, "Flatten", "head.flatten", x.value, NULL);
    pare_builder_int(n->make, "axis", 1);
    return pare_net_linear(n, x, "head", n->classes);
}

const struct pare_network pare_network_vit_tiny = {
    .name = "vit-tiny",
    .doc = "a vision transformer: 12 blocks, 192 channels, 3 heads",
    .least = 1,
    .build = build,
};
