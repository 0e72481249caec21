#!/usr/bin/python3
"""export_models.py - torchvision's architectures and a LeNet as ONNX files, for bench/ and tests/interop/.

usage: export_models.py FOLDER [--one NAME | --list]

For every model that is not yet in FOLDER, writes
    NAME.onnx          opset 13 (ViT and ConvNeXt: 14), first dimension free, layer names kept
    NAME.pt            the same weights as a PyTorch state dict, for bench/peer_torch.py
    NAME.x1.npz .x2    an input of batch 1 and of batch 2, under the model's input name
    NAME.y1.npz .y2    PyTorch's result, under the model's output name

Nothing is downloaded: the weights are random but seeded by the model's name.  Plain random weights
make poor tests (batch norms that do nothing, zero biases, a zero last layer), so every layer is
scaled until its output has unit variance on random images, and batch norms get the statistics of
those images, slightly perturbed.
"""
import argparse
import os
import sys
import warnings
import zlib

import numpy as np
import torch
import torchvision
from torch import nn

# torchvision's constructor name -> (side of the square input image, opset)
TORCHVISION = {
    "resnet18": (224, 13),
    "resnet50": (224, 13),
    "vgg16_bn": (224, 13),
    "mobilenet_v2": (224, 13),
    "mobilenet_v3_small": (224, 13),
    "efficientnet_b0": (224, 13),
    "shufflenet_v2_x1_0": (224, 13),
    "densenet121": (224, 13),
    "squeezenet1_1": (224, 13),
    "googlenet": (224, 13),
    "inception_v3": (299, 13),
    "regnet_y_400mf": (224, 13),
    "convnext_tiny": (224, 14),
    "vit_b_16": (224, 14),
}
NAMES = ["lenet", *TORCHVISION]
OPTIONS = {
    "googlenet": {"aux_logits": False, "transform_input": False, "init_weights": False},
    "inception_v3": {"aux_logits": False, "transform_input": False, "init_weights": False},
}


def lenet():
    layers = [
        ("conv1", nn.Conv2d(1, 20, 5)), ("pool1", nn.MaxPool2d(2)),
        ("conv2", nn.Conv2d(20, 50, 5)), ("pool2", nn.MaxPool2d(2)),
        ("flat", nn.Flatten()),
        ("fc1", nn.Linear(800, 500)), ("relu", nn.ReLU()), ("fc2", nn.Linear(500, 10)),
    ]
    model = nn.Sequential()
    for name, layer in layers:
        model.add_module(name, layer)
    return model


def input_shape(name, batch):
    side = TORCHVISION[name][0] if name in TORCHVISION else 28
    return (batch, 3 if name in TORCHVISION else 1, side, side)


def build(name):
    """The bare architecture, in eval mode; load_state_dict() gives it the exported weights."""
    if name == "lenet":
        return lenet().eval()
    return getattr(torchvision.models, name)(weights=None, **OPTIONS.get(name, {})).eval()


def fill(model, rng):
    """Replace parameters that are initialized to zero, one or tiny values by random ones."""
    for key, p in model.named_parameters():
        leaf = key.rsplit(".", 1)[-1]
        if leaf == "layer_scale":
            p.uniform_(0.2, 0.6, generator=rng)
        elif leaf in ("class_token", "pos_embedding"):
            p.normal_(0, 0.5, generator=rng)
        elif leaf.endswith("bias"):
            p.normal_(0, 0.1, generator=rng)
        elif p.dim() == 1:
            p.uniform_(0.7, 1.3, generator=rng)
        elif float(p.std()) < 1e-6:
            p.normal_(0, 1 / p.shape[-1] ** 0.5, generator=rng)


def images(name, batch, rng):
    """Noise at four scales, so that images differ in more than single pixels."""
    n, c, side, _ = input_shape(name, batch)
    x = torch.randn(n, c, side, side, generator=rng) * 0.3
    for cells in (1, 3, 9):
        coarse = torch.randn(n, c, cells, cells, generator=rng)
        x += nn.functional.interpolate(coarse, size=(side, side), mode="bilinear",
                                       align_corners=False) * 0.6
    return x


def calibrate(model, x, rng):
    """Scale layers to unit output variance and set the batch norms' statistics, in one pass."""
    def scale(layer, _, out):
        s = float(out.std())
        layer.weight /= s
        if layer.bias is not None:
            layer.bias /= s
        return out / s

    # The lower bound prevents channels with little variance, and their rounding errors, from being amplified.
    def measure(norm, args):
        var, mean = torch.var_mean(args[0], (0, 2, 3))
        noise = torch.empty(2, norm.num_features).uniform_(-1, 1, generator=rng)
        norm.running_var.copy_(var.clamp_min(0.5) * (0.2 * noise[0]).exp())
        norm.running_mean.copy_(mean + 0.1 * noise[1])

    hooks = []
    for m in model.modules():
        if isinstance(m, (nn.Conv2d, nn.Linear)):
            hooks.append(m.register_forward_hook(scale))
        elif isinstance(m, nn.BatchNorm2d):
            hooks.append(m.register_forward_pre_hook(measure))
    model(x)
    for h in hooks:
        h.remove()


def save_npz(path, **arrays):
    """Write a temporary file and rename it, so that an existing file is complete."""
    np.savez(path + ".part.npz", **arrays)
    os.replace(path + ".part.npz", path)


def export(name, folder):
    onnx = os.path.join(folder, name + ".onnx")
    if os.path.exists(onnx):
        return False
    torch.manual_seed(zlib.crc32(name.encode()))
    rng = torch.Generator().manual_seed(zlib.crc32(name.encode()) + 1)
    model = build(name)
    with torch.no_grad():
        fill(model, rng)
        calibrate(model, images(name, 8, rng), rng)
        for batch in (1, 2):
            x = images(name, batch, rng)
            y = model(x)
            save_npz(os.path.join(folder, f"{name}.x{batch}.npz"), input=x.numpy())
            save_npz(os.path.join(folder, f"{name}.y{batch}.npz"), output=y.numpy())
    torch.save(model.state_dict(), os.path.join(folder, name + ".pt"))
    # With gradients enabled, attention uses operators that ONNX can express.  PRESERVE with a model in
    # eval mode keeps batch norms as nodes and the names of weights.
    torch.onnx.export(model, images(name, 2, rng), onnx + ".part",
                      opset_version=TORCHVISION.get(name, (0, 13))[1],
                      training=torch.onnx.TrainingMode.PRESERVE, do_constant_folding=True,
                      input_names=["input"], output_names=["output"],
                      dynamic_axes={"input": {0: "batch"}, "output": {0: "batch"}})
    os.replace(onnx + ".part", onnx)
    return True


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("folder", nargs="?")
    ap.add_argument("--one", metavar="NAME", choices=NAMES, help="only this model")
    ap.add_argument("--list", action="store_true", help="print the names and stop")
    args = ap.parse_args()
    if args.list:
        print("\n".join(NAMES))
        return 0
    if not args.folder:
        ap.error("the folder to export to is missing")
    os.makedirs(args.folder, exist_ok=True)
    warnings.simplefilter("ignore")     # of the tracer, about assertions in torchvision
    torch.set_num_threads(os.cpu_count())
    for name in [args.one] if args.one else NAMES:
        if export(name, args.folder):
            size = os.path.getsize(os.path.join(args.folder, name + ".onnx"))
            print(f"{name}.onnx  {size / 1e6:.1f} MB", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
