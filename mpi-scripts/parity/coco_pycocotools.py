#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares lockstep's evaluation of boxes with pycocotools'.

    coco_pycocotools.py COCO_EVAL [CASES | --record | --files TRUTH PREDICTIONS]

COCO_EVAL is tests/workloads_coco_eval of a build. The other arguments are those of coco.sh.
"""

import contextlib
import copy
import io
import json
import math
import os
import pathlib
import random
import subprocess
import sys

from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

BOUND = 1e-9
RECORD = pathlib.Path("tests/workloads/coco_cases.json")
# The order of COCOeval.stats.
STATS = ["map", "map50", "map75", "map_small", "map_medium", "map_large", "mar1", "mar10", "mar100", "mar_small", "mar_medium",
         "mar_large"]


def sides(draw):
    """Extents with areas on both sides of, and on, the borders 32 and 96 squared."""
    return draw.choice([(32, 32), (16, 64), (96, 96), (48, 192), (draw.randint(1, 31), draw.randint(1, 31)),
                        (draw.randint(33, 95), draw.randint(33, 95)), (draw.randint(97, 250), draw.randint(97, 250)),
                        (draw.uniform(1, 200), draw.uniform(1, 200))])


def truth_of(draw, pictures, categories, most_boxes):
    annotations = []
    for image in pictures:
        for _ in range(draw.choice([0, draw.randint(1, most_boxes), draw.randint(1, most_boxes)])):
            width, height = sides(draw)
            box = [draw.randint(0, 300), draw.randint(0, 300), width, height]
            area = draw.choice([width * height, width * height, width * height * 0.625, 1024, 9216])
            annotations.append({"image_id": image, "category_id": draw.choice(categories), "bbox": box, "area": area,
                                "iscrowd": int(draw.random() < 0.1)})
    draw.shuffle(annotations)
    ids = draw.sample(range(3 * len(annotations) + 1), len(annotations))  # with gaps, and one may be 0
    for annotation, number in zip(annotations, ids):
        annotation["id"] = number
    return annotations


def moved(draw, box):
    """A box near another one. Some have exactly a threshold as their IoU."""
    x, y, width, height = box
    return draw.choice([[x, y, width, height], [x, y, width / 2, height], [x, y, width, height * 0.75],
                        [x, y, width * 2, height], [x + width / 4, y, width, height]]
                       + 5 * [[x + draw.gauss(0, 0.06) * width, y + draw.gauss(0, 0.06) * height,
                               width * draw.uniform(0.8, 1.25), height * draw.uniform(0.8, 1.25)]])


def predictions_of(draw, pictures, categories, annotations, most_detections):
    predictions = []
    score = draw.choice([draw.random, lambda: draw.randint(1, 9) / 10])  # the second one has many equal scores
    for image in pictures:
        boxes = [one for one in annotations if one["image_id"] == image]
        for _ in range(draw.choice([0, len(boxes), 2 * len(boxes), draw.randint(0, most_detections)])):
            near = draw.choice(boxes) if boxes and draw.random() < 0.85 else None
            box = moved(draw, near["bbox"]) if near else [draw.randint(0, 300), draw.randint(0, 300), *sides(draw)]
            category = near["category_id"] if near and draw.random() < 0.9 else draw.choice(categories)
            predictions.append({"image_id": image, "category_id": category, "bbox": box, "score": score()})
    draw.shuffle(predictions)
    return predictions


def drawn(seed, most_pictures=12, most_boxes=12, most_detections=40, many=1000):
    draw = random.Random(seed)
    pictures = draw.sample(range(5 * most_pictures), draw.randint(1, most_pictures))
    categories = draw.sample(range(1, 91), draw.randint(1, 5))
    annotations = truth_of(draw, pictures, categories[:draw.randint(1, len(categories))], most_boxes)
    if seed % 10 == 9:  # many detections of one class
        most_detections = many
        categories = categories[:1]
        annotations = [one for one in annotations if one["category_id"] == categories[0]]
    predictions = predictions_of(draw, pictures, categories, annotations, most_detections)
    truth = {"images": [{"id": image} for image in pictures], "categories": [{"id": one, "name": str(one)} for one in categories],
             "annotations": annotations}
    return {"name": f"seed {seed}", "truth": truth, "predictions": predictions}


def mean_or_none(values):
    values = values[values > -1]
    return None if values.size == 0 else float(values.mean())


def of_pycocotools(case):
    truth = copy.deepcopy(case["truth"])
    for number, annotation in enumerate(truth["annotations"], start=1):  # pycocotools takes the id 0 for no match
        annotation["id"] = number
    with contextlib.redirect_stdout(io.StringIO()):
        coco = COCO()
        coco.dataset = truth
        coco.createIndex()
        predictions = copy.deepcopy(case["predictions"])
        detections = coco.loadRes(predictions) if predictions else COCO()
        evaluation = COCOeval(coco, detections, "bbox")
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    values = {name: None if value == -1 else float(value) for name, value in zip(STATS, evaluation.stats)}
    precision = evaluation.eval["precision"][:, :, :, 0, 2]  # threshold, recall, class
    values["AP"] = [mean_or_none(precision[:, :, k]) for k in range(precision.shape[2])]
    values["AP50"] = [mean_or_none(precision[:1, :, k]) for k in range(precision.shape[2])]
    return values


def of_lockstep(program, cases):
    run = subprocess.run([program], input=json.dumps(cases), stdout=subprocess.PIPE, check=True, text=True)
    return json.loads(run.stdout)


def difference(ours, theirs):
    """The largest difference of two values, or lists of values, either of which may be missing."""
    if isinstance(theirs, list):
        return max(map(difference, ours, theirs), default=0)
    if ours is None or theirs is None:
        return 0 if ours is theirs else math.inf
    return abs(ours - theirs)


def compare(program, count):
    cases = [drawn(seed) for seed in range(count)]
    largest = {}
    failures = 0
    compared = 0
    for case, ours in zip(cases, of_lockstep(program, cases)):
        for name, value in of_pycocotools(case).items():
            apart = difference(ours[name], value)
            largest[name] = max(largest.get(name, 0), apart)
            compared += len(value) if isinstance(value, list) else 1
            if apart > BOUND:
                failures += 1
                print(f"{case['name']}: {name} is {ours[name]}, pycocotools has {value}")
    for name, apart in largest.items():
        print(f"{name:12} differs by at most {apart:.1e}")
    boxes = sum(len(case["truth"]["annotations"]) for case in cases)
    detections = sum(len(case["predictions"]) for case in cases)
    print(f"{count} cases with {boxes} boxes and {detections} detections, {compared} values: {failures} differ by more than {BOUND:g}")
    return failures == 0


def record():
    cases = []
    for seed in (0, 1, 3, 5, 6, 7, 8, 10, 11, 99):
        case = drawn(seed, most_pictures=5, most_boxes=5, most_detections=10, many=150)
        case["pycocotools"] = of_pycocotools(case)
        cases.append(case)
    RECORD.write_text("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n")
    print(f"{len(cases)} cases: {RECORD}, {os.path.getsize(RECORD)} bytes")


def compare_files(program, truth, predictions):
    case = {"truth": json.loads(pathlib.Path(truth).read_text()), "predictions": json.loads(pathlib.Path(predictions).read_text())}
    for annotation in case["truth"]["annotations"]:
        annotation.setdefault("iscrowd", 0)
    ours = of_lockstep(program, [case])[0]
    theirs = of_pycocotools(case)
    for name in STATS:
        print(f"{name:12} {ours[name]} {theirs[name]}")
    return all(difference(ours[name], theirs[name]) <= BOUND for name in theirs)


def main():
    program, *arguments = sys.argv[1:]
    if arguments[:1] == ["--record"]:
        record()
        return 0
    if arguments[:1] == ["--files"]:
        return 0 if compare_files(program, *arguments[1:]) else 1
    return 0 if compare(program, int(arguments[0]) if arguments else 500) else 1


if __name__ == "__main__":
    sys.exit(main())
