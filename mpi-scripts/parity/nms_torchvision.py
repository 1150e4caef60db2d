#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares lockstep's non-maximum suppression with torchvision's nms of each class.

    nms_torchvision.py COCO_EVAL [CASES]

COCO_EVAL is tests/workloads_coco_eval of a build.
"""

import json
import subprocess
import sys

import numpy
import torch
import torchvision

MOST = 300


def drawn(seed):
    """Outputs of a model for one picture. Every second case has few values: equal scores, and IoUs on the threshold."""
    draw = numpy.random.default_rng(seed)
    boxes, classes = int(draw.integers(1, 800)), int(draw.integers(1, 5))
    outputs = draw.random((5 + classes, boxes)) * numpy.array([[60], [60], [40], [40]] + (1 + classes) * [[1]])
    if seed % 2 == 1:
        outputs[:4] = numpy.ceil(outputs[:4])
        outputs[4:] = numpy.round(outputs[4:] * 8) / 8
    several = seed % 4 < 2
    return {"outputs": outputs.astype(numpy.float32), "classes": classes, "several_labels": several,
            "confidence": 0.001 if several else 0.25, "iou": 0.6 if several else 0.5}


def of_torchvision(case):
    outputs = torch.from_numpy(case["outputs"]).T
    half = outputs[:, 2:4] / 2
    boxes = torch.cat([outputs[:, :2] - half, outputs[:, :2] + half], 1)
    scores = outputs[:, 4:5] * outputs[:, 5:]
    if case["several_labels"]:
        box, label = (scores > case["confidence"]).nonzero(as_tuple=True)
    else:
        box = (scores.max(1).values > case["confidence"]).nonzero()[:, 0]
        label = scores.argmax(1)[box]
    order = torch.argsort(scores[box, label], stable=True, descending=True)
    box, label = box[order], label[order]
    kept = []
    for one in range(case["classes"]):
        of_class = (label == one).nonzero()[:, 0]
        falling = torch.arange(len(of_class), 0, -1).float()  # in place of the scores, of which some are equal
        kept += of_class[torchvision.ops.nms(boxes[box[of_class]], falling, case["iou"])].tolist()
    kept = sorted(kept)[:MOST]
    box, label = box[kept], label[kept]
    return torch.cat([label[:, None], scores[box, label][:, None], boxes[box]], 1).numpy()


def main():
    program, *arguments = sys.argv[1:]
    cases = [drawn(seed) for seed in range(int(arguments[0]) if arguments else 200)]
    feed = json.dumps([{**case, "outputs": case["outputs"].ravel().tolist()} for case in cases])
    run = subprocess.run([program], input=feed, stdout=subprocess.PIPE, check=True, text=True)
    failures = detections = 0
    for seed, (case, ours) in enumerate(zip(cases, json.loads(run.stdout))):
        theirs = of_torchvision(case)
        ours = numpy.array(ours).reshape(-1, 6)
        detections += len(theirs)
        if ours.shape != theirs.shape or numpy.abs(ours - theirs).max(initial=0) > 1e-5:
            failures += 1
            print(f"case {seed}: {len(ours)} detections, torchvision has {len(theirs)} or others")
    print(f"{len(cases)} cases with {detections} detections: {failures} differ")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
