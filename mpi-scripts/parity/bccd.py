#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Parts of bccd.sh.

  bccd.py layout VOC OUT        writes a data set in Pascal VOC's layout as YOLOv5 reads it, with OUT/data.yaml
  bccd.py exchange VOC OUT      copies VOC, with the annotations of its training pictures exchanged
  bccd.py train DATA OUT EPOCHS SEED WORKERS [BACKEND]
      trains yolov5n by the package yolov5 of PyPI with its own recipe, from random weights, and writes OUT/log.jsonl; torchrun
      or mpirun starts several processes of it, which average gradients over BACKEND (gloo)
  bccd.py accuracy FOLDER       prints the accuracies in FOLDER's logs, and checks them
  bccd.py speed FOLDER          prints the images per second in FOLDER's logs, and checks them

The package trains on several processes with GPUs only. It does so on CPUs after one condition in its text is changed.
"""
import contextlib
import json
import os
import pathlib
import random
import shutil
import statistics
import sys
import time
import types
import xml.etree.ElementTree as ElementTree

SIZE = 320
BATCH = 16
RANK = int(os.environ.get("RANK", os.environ.get("OMPI_COMM_WORLD_RANK", -1)))


def names_of(voc, part):
    return (pathlib.Path(voc) / f"ImageSets/Main/{part}.txt").read_text().split()


def boxes_of(annotation):
    """Class and corners of each box, without those that have no area."""
    for each in ElementTree.parse(annotation).iter("object"):
        left, top, right, bottom = (float(each.find(f"bndbox/{edge}").text) for edge in ("xmin", "ymin", "xmax", "ymax"))
        if right > left and bottom > top:
            yield each.find("name").text, (left - 1, top - 1, right, bottom)


def layout(voc, out):
    voc, out = pathlib.Path(voc).resolve(), pathlib.Path(out)
    found = {part: {name: list(boxes_of(voc / f"Annotations/{name}.xml")) for name in names_of(voc, part)} for part in ("train", "val")}
    classes = sorted({label for pictures in found.values() for boxes in pictures.values() for label, _ in boxes})
    for part, pictures in found.items():
        for kind in ("images", "labels"):
            (out / kind / part).mkdir(parents=True)
        for name, boxes in pictures.items():
            size = ElementTree.parse(voc / f"Annotations/{name}.xml").find("size")
            width, height = (int(size.find(side).text) for side in ("width", "height"))
            (out / f"images/{part}/{name}.jpg").symlink_to(voc / f"JPEGImages/{name}.jpg")
            lines = [f"{classes.index(label)} {(x0 + x1) / 2 / width} {(y0 + y1) / 2 / height} {(x1 - x0) / width} {(y1 - y0) / height}\n"
                     for label, (x0, y0, x1, y1) in boxes]
            (out / f"labels/{part}/{name}.txt").write_text("".join(lines))
    (out / "data.yaml").write_text(f"path: {out.resolve()}\ntrain: images/train\nval: images/val\nnames: [{', '.join(classes)}]\n")


def exchange(voc, out):
    voc, out = pathlib.Path(voc), pathlib.Path(out)
    shutil.copytree(voc, out)
    names = names_of(voc, "train")
    others = random.Random(0).sample(names, len(names))
    for name, other in zip(names, others):
        shutil.copyfile(voc / f"Annotations/{other}.xml", out / f"Annotations/{name}.xml")


def package(folder):
    """The package's module train, with what newer packages lack and without what it wants to download."""
    import matplotlib
    import numpy
    import torch

    if RANK <= 0:
        folder.mkdir(parents=True, exist_ok=True)
        font = pathlib.Path(matplotlib.get_data_path()) / "fonts/ttf/DejaVuSans.ttf"
        for name in ("Arial.ttf", "Arial.Unicode.ttf"):
            shutil.copyfile(font, folder / name)
    os.environ["YOLOV5_CONFIG_DIR"] = str(folder)
    numpy.trapz = getattr(numpy, "trapz", None) or numpy.trapezoid
    numpy.in1d = getattr(numpy, "in1d", None) or numpy.isin
    load = torch.load
    torch.load = lambda *arguments, **options: load(*arguments, **(options | {"weights_only": False}))
    sys.modules.setdefault("yolov5.utils.roboflow", types.ModuleType("roboflow")).RoboflowConnector = object
    if RANK == -1:
        from yolov5 import train
        return train
    import yolov5
    file = pathlib.Path(yolov5.__file__).parent / "train.py"
    text, changed = file.read_text(), types.ModuleType("yolov5.train")
    condition = "if cuda and RANK != -1:\n        model = smart_DDP(model)"
    if condition not in text:
        sys.exit(f"{file} does not have the condition that is to be changed")
    changed.__file__ = str(file)
    sys.modules["yolov5.train"] = changed
    exec(compile(text.replace(condition, "if RANK != -1:\n        model = smart_DDP(model)"), str(file), "exec"), changed.__dict__)
    changed.smart_DDP = torch.nn.parallel.DistributedDataParallel
    barrier = torch.distributed.barrier  # the package names GPUs, which Gloo does not take
    torch.distributed.barrier = lambda *_, **__: barrier()
    return changed


class Log:
    """Writes a line for each epoch; only rank 0 is asked to."""

    def __init__(self, path, pictures):
        self.path, self.pictures, self.begin, self.seconds = path, pictures, 0.0, 0.0
        path.write_text("")

    def add(self, event, **values):
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps({"event": event} | values) + "\n")

    def start_epoch(self):
        self.begin = time.perf_counter()

    def end_epoch(self, **_):
        self.seconds = time.perf_counter() - self.begin

    def fit_epoch(self, values, epoch, *_):
        self.add("epoch", epoch=epoch + 1, val_yolov5_map50=float(values[5]), val_yolov5_map=float(values[6]), seconds=self.seconds,
                 images_per_second=self.pictures / self.seconds)


def train(data, out, epochs, seed, workers, backend="gloo"):
    out = pathlib.Path(out).resolve()
    module = package(out / "settings")
    import torch
    from yolov5.utils.callbacks import Callbacks

    threads = os.cpu_count() // max(1, int(os.environ.get("WORLD_SIZE", 1)))
    torch.set_num_threads(threads)
    if RANK != -1:
        torch.distributed.init_process_group(backend)
    models = pathlib.Path(module.__file__).parent / "models"
    options = module.parse_opt(True)
    vars(options).update(imgsz=SIZE, data=str(data), weights="", cfg=str(models / "yolov5n.yaml"), epochs=int(epochs), batch_size=BATCH,
                         device="cpu", workers=int(workers), noplots=True, seed=int(seed), project=str(out), name="run", exist_ok=True,
                         save_dir=str(out / "run"), hyp=str(models.parent / "data/hyps/hyp.scratch-low.yaml"))
    callbacks = Callbacks()
    pictures = len(list((pathlib.Path(data).parent / "images/train").iterdir()))
    log = Log(out / "log.jsonl", pictures) if RANK <= 0 else None
    if log is not None:
        log.add("start", torch=torch.__version__, seed=int(seed), threads=threads, workers=int(workers))
        for hook, call in (("on_train_epoch_start", log.start_epoch), ("on_train_epoch_end", log.end_epoch),
                           ("on_fit_epoch_end", log.fit_epoch)):
            callbacks.register_action(hook, callback=call)
    with contextlib.redirect_stdout(sys.stderr):
        module.train(options.hyp, options, torch.device("cpu"), callbacks)
    if log is not None:
        log.add("end", outcome="completed")
    if RANK != -1:
        torch.distributed.destroy_process_group()


def epochs_of(log):
    return [event for event in map(json.loads, log.read_text().splitlines()) if event["event"] == "epoch"]


def accuracies_of(log):
    """mAP@0.5 and mAP@0.5:0.95, in percent and as YOLOv5 counts: after the last epoch, and after the one of the best fitness."""
    evaluated = [(100 * each["val_yolov5_map50"], 100 * each["val_yolov5_map"]) for each in epochs_of(log)
                 if each["val_yolov5_map50"] is not None]
    return evaluated[-1], max(evaluated, key=lambda pair: 0.1 * pair[0] + 0.9 * pair[1])


def accuracy(folder):
    means, held = {}, True
    print(f"{'run':16}{'epochs':>7}   last mAP@0.5  @0.5:0.95   best mAP@0.5  @0.5:0.95")
    for log in sorted(pathlib.Path(folder).glob("*.jsonl")):
        last, best = accuracies_of(log)
        print(f"{log.stem:16}{len(epochs_of(log)):7}{last[0]:15.1f}{last[1]:11.1f}{best[0]:15.1f}{best[1]:11.1f}")
        means.setdefault(log.stem.split("-")[0], []).append(last[0])
    means = {name: statistics.mean(values) for name, values in means.items()}
    for what, value, is_ok in (("lockstep's mean, which must be at least 84.0", means["lockstep"], means["lockstep"] >= 84),
                               ("lockstep's mean less YOLOv5's, which must be at least -3.0", means["lockstep"] - means["yolov5"],
                                means["lockstep"] - means["yolov5"] >= -3),
                               ("with exchanged annotations, which must be below 35.0", means["exchanged"], means["exchanged"] < 35)):
        print(f"mAP@0.5 after the last epoch: {what}: {value:.1f}{'' if is_ok else '  BROKEN'}")
        held = held and is_ok
    sys.exit(0 if held else 1)


def speed(folder):
    """Of each program the median of all its epochs in all runs; the first epoch of each counts, in which lockstep fills its cache."""
    runs = {}
    for log in sorted(pathlib.Path(folder).glob("*.jsonl")):
        runs.setdefault(log.stem.rsplit("-", 1)[0], []).extend(each["images_per_second"] for each in epochs_of(log))
    medians = {name: statistics.median(values) for name, values in runs.items()}
    print("the numbers of YOLOv5's runs are those of its processes and of the workers of each")
    for name, values in runs.items():
        print(f"{name:16}{medians[name]:7.1f} images/s, median of {len(values)} epochs ({min(values):.1f} to {max(values):.1f})")
    ours = medians.pop("lockstep")
    best = max(medians, key=medians.get)
    print(f"lockstep / {best}: {ours / medians[best]:.2f}, which must be at least 1.5")
    sys.exit(0 if ours >= 1.5 * medians[best] else 1)


def main(arguments):
    commands = {"layout": (layout, 2), "exchange": (exchange, 2), "train": (train, 5), "accuracy": (accuracy, 1), "speed": (speed, 1)}
    call, count = commands.get(arguments[0] if arguments else "", (None, 0))
    if call is None or len(arguments) - 1 not in (count, count + (call is train)):
        sys.exit(__doc__)
    call(*arguments[1:])


if __name__ == "__main__":
    main(sys.argv[1:])
