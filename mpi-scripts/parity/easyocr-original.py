#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""easyocr-original.py PROGRAMS FOLDER: see easyocr.sh. PROGRAMS is the folder with train and lockstep-export; FOLDER has val/*.jpg, pictures
of lines."""
import importlib.util
import json
import pathlib
import subprocess
import sys
import tempfile
import warnings

import easyocr
import numpy as np
import onnxruntime
import torch
from easyocr.recognition import AlignCollate
from easyocr.utils import get_image_list, reformat_input
from PIL import Image
from safetensors.torch import load_file, save_file

BOUND = 1e-4
LEAST_EQUAL = 0.995  # of the lines that are read from files
ROWS = 64
WIDTHS = (40, 100, 256)
CONVERTER = pathlib.Path(__file__).resolve().parents[1] / "convert_weights.py"


class Exported:
    """The converted weights in onnxruntime, a session for each width of lines. Pixels are from 0 to 1."""

    def __init__(self, programs, converted, classes, folder):
        self.programs, self.converted, self.classes, self.folder = programs, converted, classes, folder
        self.sessions = {}

    def __call__(self, pixels):
        width = pixels.shape[3]
        if width not in self.sessions:
            described, file = self.folder / "model.safetensors", self.folder / "model.onnx"
            texts = {"model": "crnn-vgg", "classes": str(self.classes), "mean": "0.5", "deviation": "0.5",
                     "tensors": f"images 1 {ROWS} {width}\ntargets 1 1 25 integer\ntarget_lengths 1 1 1 integer"}
            save_file(load_file(self.converted), described, metadata={f"lockstep.{key}": text for key, text in texts.items()})
            subprocess.run([self.programs / "lockstep-export", described, "--onnx", file], check=True, stdout=subprocess.DEVNULL)
            self.sessions[width] = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
        [logits] = self.sessions[width].run(None, {"images": pixels.numpy()})
        return logits


def are_logits_equal(network, exported):
    good = True
    for width in WIDTHS:
        pixels = torch.rand(3, 1, ROWS, width)
        with torch.no_grad():
            expected = network(2 * pixels - 1, "").numpy()
        found = exported(pixels)
        difference = float(np.abs(found - expected).max() / np.abs(expected).max())
        same = bool((found.argmax(2) == expected.argmax(2)).all())
        print(f"width {width:4}: {found.shape[1]:3} steps, largest difference {difference:.1e} of the largest logit, "
              f"likeliest classes {'equal' if same else 'DIFFER'}")
        good = good and same and difference <= BOUND
    return good


def greedy(logits, characters):
    """The text of the likeliest classes of a line: steps x classes, class 0 is the blank."""
    text, before = "", 0
    for label in logits.argmax(1):
        text += characters[label - 1] if label not in (0, before) else ""
        before = label
    return text


def read_lines(reader, exported, pictures):
    """What EasyOCR reads in each picture, and how many of them the exported network reads in the same way from EasyOCR's tensors."""
    texts, equal = [], 0
    for picture in pictures:
        _, gray = reformat_input(str(picture))
        box = [0, gray.shape[1], 0, gray.shape[0]]
        # Without the second attempt at lines that it is unsure of, which has more contrast.
        texts += reader.recognize(gray, [box], [], detail=0, contrast_ths=0, filter_ths=0)
        [(_, line)], width = get_image_list([box], [], gray, model_height=ROWS)
        tensors = AlignCollate(ROWS, int(width), keep_ratio_with_pad=True)([Image.fromarray(line, "L")])
        equal += greedy(exported((tensors + 1) / 2)[0], reader.character) == texts[-1]
    return texts, equal


def part_read_from_files(programs, converted, characters, pictures, texts, folder):
    """The part of the pictures whose files train reads as these texts, in its own way from the file to the text."""
    (folder / "dict.txt").write_text("".join(f"{character}\n" for character in characters), encoding="utf-8")
    (folder / "rec_gt_val.txt").write_text("".join(f"{picture}\t{text}\n" for picture, text in zip(pictures, texts)), encoding="utf-8")
    subprocess.run([programs / "train", "--data", folder, "--data-format", "rec_gt", "--model", "crnn-vgg", "--weights", converted,
                    "--dict", folder / "dict.txt", "--max-text", "200", "--eval-only", "--metrics", folder / "metrics.jsonl"],
                   check=True, stdout=subprocess.DEVNULL)
    last = json.loads((folder / "metrics.jsonl").read_text().splitlines()[-1])
    return next(value for name, value in last.items() if name.endswith("val_accuracy") or name == "final_accuracy")


def main():
    programs, lines = map(pathlib.Path, sys.argv[1:])
    torch.manual_seed(1)
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", "'pin_memory' argument")
    models = pathlib.Path(importlib.util.find_spec("easyocr_en_models").submodule_search_locations[0]) / "models"
    # Its default on CPUs rounds weights to 8 bits.
    reader = easyocr.Reader(["en"], gpu=False, quantize=False, detector=False, recog_network="english_g2", download_enabled=False,
                            model_storage_directory=str(models), verbose=False)
    pictures = sorted((lines / "val").resolve().glob("*.jpg"))
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        converted = folder / "converted.safetensors"
        subprocess.run([sys.executable, CONVERTER, models / "english_g2.pth", converted], check=True, stdout=subprocess.DEVNULL)
        exported = Exported(programs, converted, len(reader.character), folder)
        good = are_logits_equal(reader.recognizer.eval(), exported)
        texts, equal = read_lines(reader, exported, pictures)
        print(f"{equal} of {len(pictures)} lines are read as EasyOCR reads them, from its tensors")
        part = part_read_from_files(programs, converted, reader.character, pictures, texts, folder)
        print(f"{100 * part:.2f} % of these that are not empty, from their files (spaces aside)")
    sys.exit(0 if good and equal == len(pictures) and part >= LEAST_EQUAL else 1)


if __name__ == "__main__":
    main()
