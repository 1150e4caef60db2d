#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the boxes that lockstep reads with those of pycocotools and of the readers below.

    boxes.py LIST_BOXES BCCD [COCO_JSON...]

LIST_BOXES is tests/vision_list_boxes of a build, and BCCD the folder of a data set in the form of Pascal VOC.
"""

import collections
import contextlib
import io
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

import numpy
import PIL.Image
import yaml
from pycocotools.coco import COCO

CATEGORIES = {7: "WBC", 3: "RBC", 90: "Platelets"}
NAMES = ["Platelets", "RBC", "WBC"]


def of_lockstep(program, *arguments):
    """Returns the classes, the numbers of the categories, and the samples of each part."""
    run = subprocess.run([program, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if run.returncode != 0:
        sys.exit(f"list_boxes {arguments}: {os.fsdecode(run.stderr)}")
    parts = {}
    for line in run.stdout.splitlines():
        entry = json.loads(line)
        if "classes" in entry:
            parts[entry["part"]] = (entry["classes"], entry["category_ids"], [])
        else:
            parts[entry["part"]][2].append(entry)
    return parts


class Comparison:
    """Counts what is compared and what differs, and shows the first differences."""

    def __init__(self, title):
        self.title = title
        self.boxes = 0
        self.largest = 0.0
        self.differences = []

    def equal(self, what, ours, theirs):
        if ours != theirs:
            self.differences.append(f"{what}: lockstep {ours}, expected {theirs}")

    def boxes_of(self, what, ours, theirs, tolerance):
        """Compares lists of (label, left, top, right, bottom) in any order."""
        self.boxes += len(theirs)
        if len(ours) != len(theirs):
            self.differences.append(f"{what}: lockstep has {len(ours)} boxes, expected {len(theirs)}")
            return
        left = list(ours)
        for box in theirs:
            distance, nearest = min((max(abs(x - y) for x, y in zip(other, box)), other) for other in left)
            left.remove(nearest)
            self.largest = max(self.largest, distance)
            if distance > tolerance:
                self.differences.append(f"{what}: lockstep {nearest}, expected {box}")

    def report(self):
        verdict = "DIFFERENT" if self.differences else "same"
        print(f"{self.title}: {self.boxes} boxes, largest distance of an edge {self.largest:.1e} pixels: {verdict}")
        for difference in self.differences[:5]:
            print("  " + difference)
        return len(self.differences)


def edges_of(sample):
    return [(box["label"], *box["edges"]) for box in sample["boxes"]]


def read_voc(root, part):
    """Returns the objects of a part by picture: (name, left, top, right, bottom), with edges as VOC counts them."""
    pictures = {}
    for name in (root / "ImageSets/Main" / f"{part}.txt").read_text().split():
        tree = xml.etree.ElementTree.parse(root / "Annotations" / f"{name}.xml")
        objects = []
        for node in tree.iter("object"):
            corners = [float(node.find("bndbox").find(tag).text) for tag in ("xmin", "ymin", "xmax", "ymax")]
            objects.append((node.find("name").text, *corners))
        pictures[f"{name}.jpg"] = objects
    return pictures


def as_box(left, top, right, bottom):
    """Corners from 1, of which the last pixel belongs to the box, as edges."""
    return max(left - 1, 0), max(top - 1, 0), right, bottom


def compare_voc(program, root):
    comparison = Comparison("Pascal VOC beside xml.etree")
    ours = of_lockstep(program, root, "voc")
    for part in ("train", "val"):
        classes, _, samples = ours[part]
        comparison.equal("classes", classes, NAMES)
        theirs = read_voc(root, part)
        comparison.equal("pictures", [os.path.basename(sample["path"]) for sample in samples], list(theirs))
        for sample in samples:
            name = os.path.basename(sample["path"])
            expected = [(NAMES.index(of), *as_box(*corners)) for of, *corners in theirs[name]
                        if corners[2] > corners[0] and corners[3] > corners[1]]
            comparison.boxes_of(name, edges_of(sample), expected, 0)
            with PIL.Image.open(sample["path"]) as picture:
                comparison.equal(f"size of {name}", sample["size"], list(picture.size))
    return comparison.report()


def make_coco(folder, root):
    """Writes both parts of BCCD as COCO 2017 has them, with crowds, gaps and what does not belong to any image."""
    draw = random.Random(1)
    (folder / "annotations").mkdir()
    by_name = {name: number for number, name in CATEGORIES.items()}
    for part in ("train", "val"):
        (folder / f"{part}2017").mkdir()
        images, annotations = [], []
        pictures = read_voc(root, part)
        numbers = draw.sample(range(5, 20 * len(pictures)), len(pictures))
        for (name, objects), number in zip(pictures.items(), numbers):
            os.symlink((root / "JPEGImages" / name).resolve(), folder / f"{part}2017" / name)
            with PIL.Image.open(root / "JPEGImages" / name) as picture:
                width, height = picture.size
            images.append({"id": number, "file_name": name, "width": width, "height": height, "license": 1})
            for of, *corners in objects:
                left, top, right, bottom = as_box(*corners)
                box = [left, top, right - left, bottom - top]
                if draw.random() < 0.02:
                    box[draw.choice((2, 3))] = 0  # without area
                annotations.append({
                    "id": len(annotations), "image_id": number, "category_id": by_name[of], "bbox": box,
                    "area": draw.choice((box[2] * box[3], box[2] * box[3] * 0.78125)), "iscrowd": int(draw.random() < 0.1),
                    "segmentation": [[left, top, right, top, right, bottom]]})
        images.append({"id": 3, "file_name": images[0]["file_name"], "width": width, "height": height})  # background
        annotations.append({"id": len(annotations), "image_id": 1, "category_id": 3, "bbox": [1, 1, 5, 5], "area": 25,
                            "iscrowd": 0})  # of no image
        draw.shuffle(annotations)
        draw.shuffle(images)
        categories = [{"id": number, "name": name, "supercategory": "cell"} for number, name in CATEGORIES.items()]
        text = {"info": {"year": 2017}, "licenses": [{"id": 1}], "annotations": annotations, "images": images,
                "categories": categories}
        (folder / f"annotations/instances_{part}2017.json").write_text(json.dumps(text))
        (folder / f"annotations/captions_{part}2017.json").write_text('{"images": []}')


def compare_coco_part(comparison, ours, file, is_training):
    classes, category_ids, samples = ours
    with contextlib.redirect_stdout(io.StringIO()):
        coco = COCO(str(file))
    comparison.equal("categories", category_ids, sorted(coco.getCatIds()))
    comparison.equal("classes", classes, [coco.cats[number]["name"] for number in sorted(coco.getCatIds())])
    there = {number for number in coco.getImgIds()
             if any(sample.get("image_id") == number for sample in samples)}
    comparison.equal("images", [sample["image_id"] for sample in samples], sorted(there))
    counts = collections.Counter()
    for sample in samples:
        image = coco.imgs[sample["image_id"]]
        comparison.equal("size", sample["size"], [image["width"], image["height"]])
        comparison.equal("file", os.path.basename(sample["path"]), os.path.basename(image["file_name"]))
        theirs = []
        for annotation in coco.loadAnns(coco.getAnnIds(imgIds=[sample["image_id"]])):
            left, top, width, height = annotation["bbox"]
            outside = left + width <= 0 or top + height <= 0 or left >= image["width"] or top >= image["height"]
            if width <= 0 or height <= 0 or outside or (is_training and annotation["iscrowd"]):
                continue
            label = category_ids.index(annotation["category_id"])
            theirs.append((label, left, top, left + width, top + height, annotation["area"], annotation["iscrowd"]))
            counts[label] += 1
        boxes = [(box["label"], *box["edges"], box["area"], int(box["crowd"])) for box in sample["boxes"]]
        comparison.boxes_of(f"image {sample['image_id']}", boxes, theirs, 1e-4)
    comparison.equal("boxes of the classes",
                     collections.Counter(box["label"] for sample in samples for box in sample["boxes"]), counts)
    return len(coco.getImgIds()), len(samples)


def compare_coco(program, root):
    comparison = Comparison("COCO 2017 beside pycocotools")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        make_coco(folder, root)
        ours = of_lockstep(program, folder)
        for part in ("train", "val"):
            images, samples = compare_coco_part(comparison, ours[part], folder / f"annotations/instances_{part}2017.json",
                                                part == "train")
            comparison.equal("number of images", samples, images)
    return comparison.report()


def compare_coco_file(program, file):
    comparison = Comparison(f"{file} beside pycocotools")
    images, samples = compare_coco_part(comparison, of_lockstep(program, file)["train"], file, True)
    if samples < images:
        print(f"{images - samples} of {images} pictures are not there")
    return comparison.report()


def make_yolo(folder, root):
    """Writes both parts as YOLO has them: in fractions, with polygons, repeated lines, empty and missing files."""
    draw = random.Random(2)
    for part in ("train", "val"):
        (folder / f"images/{part}").mkdir(parents=True)
        (folder / f"labels/{part}").mkdir(parents=True)
        for name, objects in read_voc(root, part).items():
            with PIL.Image.open(root / "JPEGImages" / name) as picture:
                width, height = picture.size
                if draw.random() < 0.2:  # turned by EXIF; the boxes are those of the upright picture
                    exif = PIL.Image.Exif()
                    exif[0x0112] = 6
                    picture.save(folder / f"images/{part}/{name}", exif=exif)
                    width, height = height, width
                else:
                    os.symlink((root / "JPEGImages" / name).resolve(), folder / f"images/{part}/{name}")
            lines = []
            has_polygons = draw.random() < 0.2  # of a file with both, YOLOv5 takes boxes for polygons of two points
            for of, *corners in objects:
                left, top, right, bottom = as_box(*corners)
                left, right = (min(x / width, 1) for x in (left, right))
                top, bottom = (min(y / height, 1) for y in (top, bottom))
                numbers = [(left + right) / 2, (top + bottom) / 2, right - left, bottom - top]
                if has_polygons:
                    numbers = [left, top, right, top, right, bottom, (left + right) / 2, bottom]
                lines.append(" ".join([str(NAMES.index(of))] + [f"{number:.6f}" for number in numbers]))
                if draw.random() < 0.05:
                    lines.append(lines[0])
            if draw.random() < 0.05:
                lines = []
            if lines or draw.random() < 0.5:
                (folder / f"labels/{part}/{name[:-4]}.txt").write_text("\n".join(lines))
    names = "".join(f"  {label}: {name}\n" for label, name in enumerate(NAMES))
    (folder / "cells.yaml").write_text(f"path: .\ntrain: images/train\nval: images/val\nnames:\n{names}")


def read_labels(file):
    """Returns the rows of a file of labels: class, center and extents, each once."""
    if not file.exists():
        return numpy.zeros((0, 5))
    rows = []
    for line in file.read_text().split("\n"):
        numbers = [float(word) for word in line.split()]
        if len(numbers) > 6:
            points = numpy.array(numbers[1:]).reshape(-1, 2)
            low, high = points.min(axis=0), points.max(axis=0)
            numbers = [numbers[0], *((low + high) / 2), *(high - low)]
        if numbers:
            rows.append(numbers)
    return numpy.unique(numpy.array(rows).reshape(-1, 5), axis=0)


def loader_of_yolov5():
    """Returns the class that YOLOv5 reads labels with; None if the package yolov5 is not installed."""
    for name, successor in (("trapz", "trapezoid"), ("in1d", "isin")):  # names that the package knows NumPy by
        if not hasattr(numpy, name):
            setattr(numpy, name, getattr(numpy, successor))
    try:
        from yolov5.utils.dataloaders import LoadImagesAndLabels
    except ImportError:
        return None
    return LoadImagesAndLabels


def compare_yolov5(ours, folder):
    loader = loader_of_yolov5()
    if loader is None:
        print("The package yolov5 is not installed: its own loader is not compared")
        return 0
    comparison = Comparison("YOLO beside YOLOv5's loader")
    for part in ("train", "val"):
        samples = ours[part][2]
        with contextlib.redirect_stderr(io.StringIO()):
            theirs = loader(str(folder / "images" / part), img_size=320, batch_size=1, augment=False, rect=False)
        comparison.equal("pictures", [sample["path"] for sample in samples], list(theirs.im_files))
        for sample, labels, (width, height) in zip(samples, theirs.labels, theirs.shapes):
            comparison.equal(f"size of {sample['path']}", sample["size"], [int(width), int(height)])
            expected = [(int(label), (x - w / 2) * width, (y - h / 2) * height, (x + w / 2) * width, (y + h / 2) * height)
                        for label, x, y, w, h in labels.astype(float) if w > 0 and h > 0]
            comparison.boxes_of(sample["path"], edges_of(sample), expected, 1e-3)
    return comparison.report()


def compare_yolo(program, root):
    comparison = Comparison("YOLO beside NumPy")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        make_yolo(folder, root)
        ours = of_lockstep(program, folder)
        differences = compare_yolov5(ours, folder)
        names = yaml.safe_load((folder / "cells.yaml").read_text())["names"]
        for part in ("train", "val"):
            classes, _, samples = ours[part]
            comparison.equal("classes", classes, list(names.values()))
            files = sorted((folder / f"images/{part}").iterdir())
            comparison.equal("pictures", [sample["path"] for sample in samples], [str(file) for file in files])
            for sample, file in zip(samples, files):
                with PIL.Image.open(file) as picture:
                    width, height = picture.size
                    if picture.getexif().get(0x0112, 1) >= 5:
                        width, height = height, width
                comparison.equal(f"size of {file}", sample["size"], [width, height])
                expected = []
                for label, x, y, w, h in read_labels(folder / f"labels/{part}/{file.stem}.txt"):
                    if w > 0 and h > 0:
                        expected.append((int(label), (x - w / 2) * width, (y - h / 2) * height, (x + w / 2) * width,
                                         (y + h / 2) * height))
                comparison.boxes_of(file.name, edges_of(sample), expected, 1e-3)
    return comparison.report() + differences


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    program, root = sys.argv[1], pathlib.Path(sys.argv[2])
    differences = compare_voc(program, root) + compare_coco(program, root) + compare_yolo(program, root)
    differences += sum(compare_coco_file(program, pathlib.Path(file)) for file in sys.argv[3:])
    sys.exit(1 if differences else 0)


if __name__ == "__main__":
    main()
