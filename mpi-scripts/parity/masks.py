#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the metrics of segmentation with cityscapesscripts' and a direct count; masks.sh says how.

    masks.py TRAIN FOLDER    FOLDER has nuclei/, and gets everything else
"""
import json
import os
import pathlib
import random
import subprocess
import sys

import numpy
import PIL.Image
from cityscapesscripts.evaluation import evalPixelLevelSemanticLabeling as cityscapes
from cityscapesscripts.helpers.labels import labels

TRAIN, FOLDER = sys.argv[1], pathlib.Path(sys.argv[2])
DATA = FOLDER / "cityscapes"
IDS = [7, 8]  # road and sidewalk, the first two classes
UNLABELED = 0
TOLERANCE = 1e-12


def write_data():
    """Writes cut-outs in Cityscapes' layout. Each mask has a border that is ignored."""
    draw = random.Random(1)
    for part, name, count in (("train", "train.txt", 40), ("val", "val.txt", 25)):
        pictures, masks = DATA / "leftImg8bit" / part / "town", DATA / "gtFine" / part / "town"
        pictures.mkdir(parents=True)
        masks.mkdir(parents=True)
        for i, line in enumerate((FOLDER / "nuclei" / name).read_text().splitlines()[:count]):
            width, height = draw.randint(120, 256), draw.randint(120, 256)
            picture, mask = (PIL.Image.open(FOLDER / "nuclei" / path).crop((0, 0, width, height)) for path in line.split())
            ids = numpy.where(numpy.array(mask) == 0, *IDS).astype(numpy.uint8)
            ids[:, :draw.randint(0, 9)] = UNLABELED
            picture.save(pictures / f"town_{i:06}_000019_leftImg8bit.png")
            PIL.Image.fromarray(ids).save(masks / f"town_{i:06}_000019_gtFine_labelIds.png")


def train(ranks, *arguments):
    """Runs train. @return the last event of its metrics"""
    metrics = FOLDER / "metrics.json"
    metrics.unlink(missing_ok=True)
    command = ["mpirun", "--oversubscribe", "--bind-to", "none", "-np", str(ranks), TRAIN, "--threads", "1", *map(str, arguments)]
    result = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
    if result.returncode:
        sys.exit(f"{' '.join(command)}\n{result.stdout}{result.stderr}")
    return json.loads(metrics.read_text().splitlines()[-1]) if metrics.exists() else None


def evaluation(ranks, *arguments):
    event = train(ranks, "--data", DATA, "--model", "unet", "--resume", FOLDER / "run", "--eval-only", "--save-dir", "none",
                  "--metrics", FOLDER / "metrics.json", *arguments)
    return {name: event[f"final_{name}"] for name in ("miou", "accuracy")}


def judged(predicted):
    """Returns what a direct count and cityscapesscripts say about a folder of predicted masks."""
    args = type("Args", (), {"evalInstLevelScore": False, "evalPixelAccuracy": False, "quiet": True})()
    matrix = cityscapes.generateMatrix(args)
    pairs = numpy.zeros((len(IDS), len(IDS)), numpy.int64)
    class_of = {label.id: label.trainId for label in labels}
    for mask in sorted(DATA.glob("gtFine/val/*/*.png")):
        found = numpy.array(PIL.Image.open(predicted / "masks" / mask.name.replace("_gtFine_labelIds", "_leftImg8bit")))
        truth = numpy.array(PIL.Image.open(mask))
        for of_truth in IDS:
            for of_found in range(len(IDS)):
                pairs[class_of[of_truth], of_found] += numpy.count_nonzero((truth == of_truth) & (found == of_found))
        ids = FOLDER / "ids.png"
        PIL.Image.fromarray(numpy.choose(found, IDS).astype(numpy.uint8)).save(ids)
        cityscapes.evaluatePair(str(ids), str(mask), matrix, {}, {}, args)
    hits = pairs.diagonal()
    direct = {"miou": float((hits / (pairs.sum(0) + pairs.sum(1) - hits)).mean()), "accuracy": float(hits.sum() / pairs.sum())}
    scores = [cityscapes.getIouScoreForLabel(label, matrix, args) for label in IDS]
    return direct, float(numpy.mean(scores))


def main():
    write_data()
    train(2, "--data", DATA, "--model", "unet", "--img", "128", "--epochs", "20", "--batch", "8", "--eval-interval", "never", "--save-dir",
          FOLDER / "run")
    differences = 0
    for scale in ((), ("--eval-scale", "0.5")):
        ours = [evaluation(ranks, *scale) for ranks in (1, 2, 3)]
        out = FOLDER / f"predicted{len(scale)}"
        train(2, "--resume", FOLDER / "run", "--predict", DATA / "leftImg8bit/val", "--save-dir", out, *scale)
        direct, theirs = judged(out)
        distance = max(abs(ours[0][name] - direct[name]) for name in direct)
        same = ours[0] == ours[1] == ours[2] and max(distance, abs(ours[0]["miou"] - theirs)) <= TOLERANCE
        differences += not same
        print(f"{' '.join(scale) or 'whole pictures'}: miou {ours[0]['miou']:.6f}, accuracy {ours[0]['accuracy']:.6f}; the direct count"
              f" differs by {distance:.1e}, cityscapesscripts by {abs(ours[0]['miou'] - theirs):.1e}; 1, 2 and 3 ranks"
              f" {'agree' if ours[0] == ours[1] == ours[2] else 'DIFFER'}: {'same' if same else 'DIFFERENT'}")
    return 1 if differences else 0


sys.exit(main())
