#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Renders pictures of words and numbers over photographs, to train readers of text on.

    render_lines.py FOLDER [--train 100000] [--val 2000] [--lmdb] [--seed 1] [--processes N]
                    [--fonts NAME,...] [--words FILE] [--photographs FILE]

FOLDER gets rec_gt_train.txt, rec_gt_val.txt and the pictures that they list, or with --lmdb the databases training/ and
validation/, both as PaddleOCR reads them. The characters are 0 to 9 and a to z, some of them written as capitals. A tenth of the
words and numbers is held out, by their hashes: only the validation part has them. So are two fonts, unless --fonts names the ones
to take for both parts. What a line is follows from the seed and its number, not from the number of processes.

Needs Pillow, and lmdb for --lmdb, from PyPI; Debian's wamerican, fonts-dejavu-core, fonts-liberation and fonts-freefont-ttf; and the
archive cifar10-jpeg.tar.gz in the folder that LOCKSTEP_DATA names (../shared/data).
"""

import argparse
import hashlib
import io
import multiprocessing
import os
import pathlib
import random
import sys
import tarfile

try:
    import PIL.Image
    import PIL.ImageDraw
    import PIL.ImageFilter
    import PIL.ImageFont
except ImportError:
    sys.exit("render_lines.py needs Pillow: python3 -m venv VENV && VENV/bin/pip install pillow lmdb")

FONT_FOLDERS = ["dejavu", "liberation", "freefont"]  # of fonts-dejavu-core, fonts-liberation, fonts-freefont-ttf
HELD_OUT_FONTS = ["DejaVuSerif", "FreeSans"]
HELD_OUT = 10  # one word or number in so many
PHOTOGRAPHS = 2000  # of the archive, at equal distances
LEAST_CONTRAST = 70  # between text and background, of 255


def is_held_out(text):
    return hashlib.sha256(text.encode()).digest()[0] * HELD_OUT < 256


def words_of(path):
    """Returns the words of a list that have the letters a to z only, lower-cased, once each."""
    words = {word.lower() for word in pathlib.Path(path).read_text(encoding="utf-8").split()}
    return sorted(word for word in words if word.isascii() and word.isalpha() and 2 <= len(word) <= 10)


def fonts_in(folder):
    """Returns the paths of the fonts by their names."""
    fonts = {path.stem: str(path) for name in FONT_FOLDERS for path in sorted((folder / name).glob("*.ttf"))}
    missing = [name for name in FONT_FOLDERS if not any(f"/{name}/" in path for path in fonts.values())]
    if missing:
        sys.exit(f"there are no fonts in {folder}/{missing[0]}: install fonts-dejavu-core, fonts-liberation and fonts-freefont-ttf")
    return fonts


def photographs_in(archive):
    """Returns the files of photographs of an archive, at equal distances."""
    with tarfile.open(archive) as tar:
        members = [member for member in tar if member.name.endswith(".jpg")]
        return [tar.extractfile(member).read() for member in members[:: max(len(members) // PHOTOGRAPHS, 1)]]


def word_or_number(draw, words, wants_held_out):
    """Draws a word, or every fourth time a number."""
    while True:
        is_number = draw.random() < 0.25
        text = "".join(draw.choices("0123456789", k=draw.randint(1, 8))) if is_number else draw.choice(words)
        if is_held_out(text) == wants_held_out:
            return text


def background(draw, photographs, width, height):
    """Cuts a part out of a photograph and enlarges it to this size."""
    picture = PIL.Image.open(io.BytesIO(draw.choice(photographs))).convert("RGB")
    side = picture.width
    columns, rows = (side, max(side * height // width, 1)) if width > height else (side * width // height, side)
    left, top = draw.randint(0, side - columns), draw.randint(0, side - rows)
    return picture.crop((left, top, left + columns, top + rows)).resize((width, height), PIL.Image.Resampling.BICUBIC)


def color_on(draw, picture):
    """Draws a color that stands out from a picture."""
    red, green, blue = picture.resize((1, 1), PIL.Image.Resampling.BOX).getpixel((0, 0))
    behind = 0.299 * red + 0.587 * green + 0.114 * blue
    while True:
        color = tuple(draw.randint(0, 255) for _ in range(3))
        if abs(0.299 * color[0] + 0.587 * color[1] + 0.114 * color[2] - behind) >= LEAST_CONTRAST:
            return color


def rendered(draw, text, font_path, photographs):
    """Returns a line as the bytes of a JPEG."""
    written = draw.choices([text, text.capitalize(), text.upper()], [6, 2, 2])[0]
    font = PIL.ImageFont.truetype(font_path, draw.randint(18, 40))
    left, top, right, bottom = font.getbbox(written)
    margins = [draw.randint(1, 6) for _ in range(4)]
    width, height = right - left + margins[0] + margins[1], bottom - top + margins[2] + margins[3]
    picture = background(draw, photographs, width, height)
    where = (margins[0] - left, margins[2] - top)
    PIL.ImageDraw.Draw(picture).text(where, written, font=font, fill=color_on(draw, picture))
    if draw.random() < 0.3:
        picture = picture.filter(PIL.ImageFilter.GaussianBlur(draw.uniform(0.3, 1.2)))
    file = io.BytesIO()
    picture.save(file, "JPEG", quality=draw.randint(60, 95))
    return file.getvalue()


class Renderer:
    """Renders lines by number. Each process has one."""

    def __init__(self, options):
        fonts = fonts_in(pathlib.Path("/usr/share/fonts/truetype"))
        named = options.fonts.split(",") if options.fonts else None
        unknown = [name for name in (named or HELD_OUT_FONTS) if name not in fonts]
        if unknown:
            sys.exit(f"there is no font {unknown[0]}; there are {', '.join(sorted(fonts))}")
        self.fonts = {"train": [fonts[name] for name in named or sorted(set(fonts) - set(HELD_OUT_FONTS))],
                      "val": [fonts[name] for name in named or HELD_OUT_FONTS]}
        self.words = words_of(options.words)
        self.photographs = photographs_in(options.photographs)
        self.seed = options.seed

    def line(self, part, number):
        draw = random.Random(f"{self.seed} {part} {number}")
        text = word_or_number(draw, self.words, wants_held_out=part == "val")
        return text, rendered(draw, text, draw.choice(self.fonts[part]), self.photographs)


def start(options):
    global renderer
    renderer = Renderer(options)


def render(task):
    return renderer.line(*task)


def write_list(folder, part, lines):
    (folder / part).mkdir(parents=True, exist_ok=True)
    with (folder / f"rec_gt_{part}.txt").open("w", encoding="utf-8") as listed:
        for number, (text, picture) in enumerate(lines, 1):
            path = f"{part}/{number:07}.jpg"
            (folder / path).write_bytes(picture)
            listed.write(f"{path}\t{text}\n")


def write_database(folder, part, lines):
    import lmdb
    path = folder / {"train": "training", "val": "validation"}[part]
    path.mkdir(parents=True, exist_ok=True)
    count = 0
    with lmdb.open(str(path), map_size=1 << 40) as database:
        with database.begin(write=True) as transaction:
            for count, (text, picture) in enumerate(lines, 1):
                transaction.put(b"image-%09d" % count, picture)
                transaction.put(b"label-%09d" % count, text.encode())
            transaction.put(b"num-samples", str(count).encode())


def main():
    data = os.environ.get("LOCKSTEP_DATA", "../shared/data")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--train", type=int, default=100_000, help="lines of the training part")
    parser.add_argument("--val", type=int, default=2_000, help="lines of the validation part")
    parser.add_argument("--lmdb", action="store_true", help="write databases")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--fonts", help="names of the fonts for both parts, as DejaVuSans")
    parser.add_argument("--words", default="/usr/share/dict/american-english", help="a list of words, Debian's wamerican")
    parser.add_argument("--photographs", default=f"{data}/cifar10-jpeg.tar.gz", help="an archive of square JPEGs")
    options = parser.parse_args()
    for needed in (options.words, options.photographs):
        if not os.path.exists(needed):
            sys.exit(f"{needed} does not exist; --help says what is needed")
    write = write_database if options.lmdb else write_list
    with multiprocessing.Pool(options.processes, start, [options]) as pool:
        for part, count in (("train", options.train), ("val", options.val)):
            write(options.folder, part, pool.imap(render, ((part, i) for i in range(count)), chunksize=64))


if __name__ == "__main__":
    main()
