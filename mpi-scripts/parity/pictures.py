#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""pictures.py PICTURE_BYTES DATA [--full]: see pictures.sh. PICTURE_BYTES (tests/vision/picture_bytes.cpp) decodes a file,
changes the picture and writes its bytes.

Everything has to be equal except what lockstep decides otherwise than Pillow:
- Transparent pictures lie on white. Pillow's convert("RGB") leaves the alpha channel out. Compared with white put below by
  numpy.
- Numbers of 16 bits lose their lower half. Pillow's convert() cuts gray of 16 bits off at 255.
- A color JPEG becomes gray by its own brightness, as Pillow's draft("L") has it; convert("L") computes it from rounded RGB.
- CMYK without Adobe's marker is ink. Pillow takes it for inverted, as with the marker.
- Rows are resized before columns. Pillow from 13.0 on begins with the columns where the height shrinks by more than twice as
  many pixels as the width; then some values differ by 1. Compared with the two passes one by one.
"""
import argparse
import pathlib
import random
import subprocess
import tarfile
import tempfile

import numpy as np
import PIL
from PIL import Image, ImageEnhance, ImageOps, features

BILINEAR = Image.Resampling.BILINEAR


class Lockstep:
    """Asks for the bytes of pictures."""

    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, path, changes=""):
        """The line before the pixels, or one that begins with "error"."""
        self.process.stdin.write(f"{path} {changes}\n".encode())
        self.process.stdin.flush()
        return self.process.stdout.readline().decode()

    def __call__(self, path, changes=""):
        line = self.ask(path, changes)
        if not line or line.startswith("error"):
            raise SystemExit(f"{path} {changes}: {line.strip() or 'no answer'}")
        width, height, channels = map(int, line.split())
        pixels = np.frombuffer(self.process.stdout.read(width * height * channels), np.uint8)
        return pixels.reshape(height, width) if channels == 1 else pixels.reshape(height, width, channels)


def require_equal(ours, theirs, what, most=0):
    theirs = np.asarray(theirs)
    if ours.shape != theirs.shape:
        raise SystemExit(f"{what}: lockstep has {ours.shape}, Pillow {theirs.shape}")
    distance = int(np.abs(ours.astype(int) - theirs.astype(int)).max(initial=0))
    if distance > most:
        raise SystemExit(f"{what}: values differ by up to {distance}")


def real_pictures(data, folder, full):
    """Unpacks pictures of the archives that are there. Returns their paths by the name of the archive."""
    found = {}
    for name, every in (("bccd.tar", 1), ("nuclei.tar", 1), ("cifar10-jpeg.tar.gz", 1 if full else 50)):
        if not (data / name).is_file():
            print(f"{data / name} is missing and left out")
            continue
        with tarfile.open(data / name) as archive:
            members = [m for m in archive if m.isfile() and m.name.endswith((".jpg", ".png"))][::every]
            archive.extractall(folder, members)
        found[name] = [folder / m.name for m in members]
    return found


def compare_real(lockstep, pictures):
    for name, paths in pictures.items():
        for path in paths:
            picture = Image.open(path)
            if path.suffix == ".png" and picture.mode in ("RGBA", "LA"):
                require_equal(lockstep(path), on_white(picture), path)
            else:
                require_equal(lockstep(path), picture.convert("RGB"), path)
        print(f"{name}: {len(paths)} pictures have equal bytes")


def compare_scales(lockstep, paths):
    for path in paths:
        for side in (480, 240, 239, 120, 60, 1):
            picture = Image.open(path)
            picture.draft("RGB", (1, 1) if side == 1 else (side, side))
            require_equal(lockstep(path, f"side {side}"), picture.convert("RGB"), f"{path} side {side}")
        picture = Image.open(path)
        picture.draft("L", picture.size)
        require_equal(lockstep(path, "channels 1"), picture, f"{path} gray")
    print(f"{len(paths)} JPEGs at 1, 1/2, 1/4 and 1/8, and as gray: equal bytes")


def compare_resizing(lockstep, paths, count):
    rng = random.Random(1)
    other_order = 0
    for number in range(count):
        path = rng.choice(paths)
        picture = Image.open(path).convert("RGB")
        width, height = rng.randint(1, picture.width), rng.randint(1, picture.height)
        left, top = rng.randint(0, picture.width - width), rng.randint(0, picture.height - height)
        to = (width if number % 7 == 0 else rng.randint(1, 700), height if number % 7 == 1 else rng.randint(1, 700))
        part = picture.crop((left, top, left + width, top + height))
        ours = lockstep(path, f"crop {left} {top} {width} {height} resize {to[0]} {to[1]}")
        require_equal(ours, part.resize((to[0], height), BILINEAR).resize(to, BILINEAR), f"{path} {width}x{height} to {to}")
        at_once = np.asarray(part.resize(to, BILINEAR))
        require_equal(ours, at_once, f"{path} {width}x{height} to {to} at once", most=1)
        other_order += not np.array_equal(ours, at_once)
    print(f"{count} regions resized: equal bytes; Pillow resized {other_order} of them in the other order")


def on_white(picture):
    pixels = np.asarray(picture.convert("RGBA")).astype(int)
    alpha = pixels[:, :, 3:]
    return ((pixels[:, :, :3] * alpha + 255 * (255 - alpha) + 127) // 255).astype(np.uint8)


def compare_kinds(lockstep, folder):
    y, x, c = np.meshgrid(np.arange(45), np.arange(61), np.arange(4), indexing="ij")
    values = ((x * 7 + y * 11 + c * 83 + x * y) % 256).astype(np.uint8)
    color, gray = Image.fromarray(values[:, :, :3].copy()), Image.fromarray(values[:, :, 0].copy())
    cmyk, rgba = Image.fromarray(values, "CMYK"), Image.fromarray(values, "RGBA")
    count = 0

    def compare(name, picture, expected=None, changes="", **options):
        nonlocal count
        path = folder / name
        picture.save(path, **options)
        if expected is None:
            expected = ImageOps.exif_transpose(Image.open(path)).convert("RGB")
        require_equal(lockstep(path, changes), expected, name)
        count += 1

    for progressive in (False, True):
        for sampling in ("4:4:4", "4:2:2", "4:2:0"):
            compare(f"{sampling}-{progressive}.jpg".replace(":", ""), color, subsampling=sampling, progressive=progressive)
        compare(f"gray-{progressive}.jpg", gray, progressive=progressive)
        compare(f"cmyk-{progressive}.jpg", cmyk, progressive=progressive)
    exif = Image.Exif()
    for orientation in range(1, 9):
        exif[0x0112] = orientation
        compare(f"turned{orientation}.jpg", color, exif=exif)
        compare(f"turned{orientation}.png", color, exif=exif)
    for mode in ("1", "L", "RGB"):
        compare(f"{mode}.png", color.convert(mode))
    for colors in (2, 4, 16, 256):
        palette = color.quantize(colors)
        compare(f"palette{colors}.png", palette)
        compare(f"indices{colors}.png", palette, np.asarray(palette), "indices")
    compare("rgba.png", rgba, on_white(rgba))
    compare("la.png", rgba.convert("LA"), on_white(rgba.convert("LA")))
    compare("transparent.png", color.quantize(8), on_white(with_transparency(color.quantize(8))), transparency=3)
    deep = (values[:, :, 0].astype(np.uint16) << 8) + values[:, :, 1]
    compare("deep.png", Image.fromarray(deep), (deep >> 8).astype(np.uint8), "channels 1")
    print(f"{count} files of each kind that Pillow writes: equal bytes")


def compare_damaged(lockstep, path, folder):
    """Bytes between the parts of a JPEG change nothing. What Pillow or lockstep finds cut off is refused."""
    file = folder / "restarts.jpg"
    Image.open(path).save(file, restart_marker_blocks=20)
    whole = file.read_bytes()
    scan = whole.index(b"\xff\xda")
    restart = whole.index(b"\xff\xd3", scan)
    version = whole.index(b"JFIF\0") + 5
    end = len(whole) - 2

    def changed(begin, ending, put):
        file.write_bytes(whole[:begin] + put + whole[ending:])
        return file

    readable = {"before the scan": (scan, scan, b"\1\2\3"), "before a restart": (restart, restart, b"\1\2"),
                "before the end": (end, end, b"\1\2" * 50), "behind the end": (end + 2, end + 2, b"\1\2" * 50),
                "another revision of JFIF": (version, version + 1, b"\2"), "a restart is lost": (restart, restart + 2, b"")}
    for what, change in readable.items():
        require_equal(lockstep(changed(*change)), Image.open(file).convert("RGB"), what)
    for what, change in {"without end": (end, end + 2, b""), "without half of it": (scan + end >> 1, end + 2, b"")}.items():
        if not lockstep.ask(changed(*change)).startswith("error"):
            raise SystemExit(f"a JPEG {what} is decoded")
        try:
            Image.open(file).load()
            raise SystemExit(f"Pillow decodes a JPEG {what}")
        except OSError:
            pass
    # Pillow decodes these without a word: the rest of the picture is gray or displaced.
    for what, change in {"bytes missing": (scan + end >> 1, end, b""), "another restart": (restart, restart + 2, b"\xff\xd5")}.items():
        if not lockstep.ask(changed(*change)).startswith("error"):
            raise SystemExit(f"a JPEG with {what} is decoded")
    print(f"{len(readable)} JPEGs with bytes too many: equal bytes; 4 damaged ones: refused")


def with_transparency(palette):
    palette.info["transparency"] = 3
    return palette.convert("RGBA")


def turned_hue(picture, turn):
    """As torchvision's adjust_hue."""
    hue, saturation, value = picture.convert("HSV").split()
    hue = Image.fromarray(np.asarray(hue) + np.int32(turn * 255).astype(np.uint8))
    return Image.merge("HSV", (hue, saturation, value)).convert("RGB")


def compare_colors(lockstep, folder):
    """Compares all 2²⁴ colors."""
    numbers = np.arange(1 << 24, dtype=np.uint32).reshape(4096, 4096)
    every = Image.fromarray(np.stack([numbers >> 16, numbers >> 8 & 255, numbers & 255], 2).astype(np.uint8))
    path = folder / "colors.png"
    every.save(path, compress_level=1)
    kinds = {"brightness": ImageEnhance.Brightness, "contrast": ImageEnhance.Contrast, "saturation": ImageEnhance.Color}
    for name, kind in kinds.items():
        for factor in (0.0, 0.37, 1.0, 1.63):
            require_equal(lockstep(path, f"{name} {factor}"), kind(every).enhance(factor), f"{name} {factor}")
    for turn in (-0.5, -0.07, 0.0, 0.21):
        require_equal(lockstep(path, f"hue {turn}"), turned_hue(every, turn), f"hue {turn}")
    require_equal(lockstep(path, "channels 1"), every.convert("L"), "gray")
    print("all 16,777,216 colors: equal after brightness, contrast, saturation, hue and as gray")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("--full", action="store_true")
    options = parser.parse_args()
    print(f"Pillow {PIL.__version__} with libjpeg-turbo {features.version('libjpeg_turbo')}")
    lockstep = Lockstep(options.program)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        pictures = real_pictures(options.data, folder, options.full)
        compare_real(lockstep, pictures)
        if "bccd.tar" in pictures:
            compare_scales(lockstep, pictures["bccd.tar"][:20])
            compare_resizing(lockstep, pictures["bccd.tar"], 300)
            compare_damaged(lockstep, pictures["bccd.tar"][0], folder)
        compare_kinds(lockstep, folder)
        compare_colors(lockstep, folder)


main()
