#!/usr/bin/python3
"""golden_images.py - write reference results of decoding and resizing images by Pillow.

Writes tests/golden/images.npz: files as bytes (file_*), the result of Image.open(...).convert("RGB")
(rgb_*), and the result of resizing one of them (resize_HxW).  tests/unit/test_image_files.c compares
with it.
"""
import io
import os

import numpy as np
from PIL import Image

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "golden")


def make_image(h, w, seed):
    """Smooth colors with some noise, so that JPEG compression matters."""
    y, x = np.mgrid[0:h, 0:w]
    rgb = np.stack([8 * x, 7 * y, 255 - 3 * (x + y)], 2).clip(0, 255)
    noise = np.random.RandomState(seed).randint(-40, 40, rgb.shape)
    return (rgb + noise).clip(0, 255).astype(np.uint8)


def encode(image, form, **more):
    f = io.BytesIO()
    image.save(f, form, **more)
    return np.frombuffer(f.getvalue(), np.uint8)


def main():
    rgb = Image.fromarray(make_image(21, 30, 0))
    alpha = Image.fromarray(np.dstack([make_image(9, 11, 1), make_image(9, 11, 2)[:, :, :1]]), "RGBA")
    files = {
        "jpeg": encode(rgb, "JPEG", quality=80),
        "jpeg_progressive": encode(rgb, "JPEG", quality=70, progressive=True),
        "jpeg_gray": encode(rgb.convert("L"), "JPEG"),
        "jpeg_cmyk": encode(rgb.convert("CMYK"), "JPEG"),
        "png": encode(rgb, "PNG"),
        "png_alpha": encode(alpha, "PNG"),
        "png_palette": encode(rgb.quantize(16), "PNG"),
        "png_gray": encode(rgb.convert("L"), "PNG"),
        "png_one_bit": encode(rgb.convert("1"), "PNG"),
    }
    out = {}
    for name, data in files.items():
        out["file_" + name] = data
        out["rgb_" + name] = np.asarray(Image.open(io.BytesIO(data.tobytes())).convert("RGB"))
    out["gray"] = np.asarray(rgb.convert("L"))
    for h, w in ((12, 17), (21, 9), (33, 30), (40, 50), (1, 1)):
        out[f"resize_{h}x{w}"] = np.asarray(rgb.resize((w, h), Image.BILINEAR))
    os.makedirs(HERE, exist_ok=True)
    np.savez_compressed(os.path.join(HERE, "images.npz"), **out)


if __name__ == "__main__":
    main()
