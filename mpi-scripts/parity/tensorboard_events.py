#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads the event files of a resumed run with the package tensorboard, and compares them with its metrics.jsonl.

    tensorboard_events.py TRAIN
"""
import io
import json
import pathlib
import subprocess
import sys
import tempfile

from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

OF_STEPS = {"train/loss": "loss", "train/learning_rate": "learning_rate", "train/images_per_second": "images_per_second"}


def train(program, *options):
    subprocess.run(["mpirun", "--oversubscribe", "-np", "2", program, *options], check=True, stdout=subprocess.DEVNULL)


def events_of(folder, kind):
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [event for event in map(json.loads, lines) if event["event"] == kind]


def close(a, b):
    return abs(a - b) <= 1e-6 * max(1e-6, abs(a), abs(b))  # TensorBoard keeps float32


def compare(name, expected, found):
    """Both are values by step."""
    assert list(expected) == list(found), f"{name}: steps {list(expected)} in metrics.jsonl, {list(found)} in TensorBoard"
    for step, value in expected.items():
        assert close(value, found[step]), f"{name}, step {step}: {value} in metrics.jsonl, {found[step]} in TensorBoard"
    print(f"{name}: {len(expected)} values are equal")


def compare_pictures(program):
    """Trains on a folder of pictures, and reads the pictures with their predictions, one after each epoch."""
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)
        for part, count in (("train", 8), ("val", 5)):
            for number, name in enumerate(("dark", "light")):
                (folder / part / name).mkdir(parents=True)
                for i in range(count):
                    Image.new("RGB", (32, 24), (10 + 200 * number + i, 40, 90)).save(folder / part / name / f"{i}.png")
        board = folder / "board"
        train(program, "--data", str(folder), "--model", "lenet", "--batch", "8", "--epochs", "2", "--save-dir", "none", "--tensorboard", str(board))
        found = EventAccumulator(str(board), size_guidance={"images": 0})
        found.Reload()
        pictures = found.Images("val/predictions")
        assert [event.step for event in pictures] == [2, 4], [event.step for event in pictures]
        for event in pictures:
            picture = Image.open(io.BytesIO(event.encoded_image_string))
            picture.load()
            assert picture.size == (event.width, event.height) and event.width >= 32, (picture.size, event.width, event.height)
        print(f"val/predictions: {len(pictures)} pictures of {pictures[0].width}×{pictures[0].height}")


def main(program):
    compare_pictures(program)
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place) / "run"
        train(program, "--dataset", "synthetic-digits", "--model", "lenet", "--batch", "500", "--log-every", "2", "--save-steps", "10",
              "--save-interval", "never", "--keep", "100", "--epochs", "2", "--steps", "36", "--save-dir", str(folder), "--tensorboard")
        # What the first start has reported of later steps is reported again.
        earlier = folder / "checkpoints" / "step-00000030"
        assert earlier.is_dir(), sorted(path.name for path in (folder / "checkpoints").iterdir())
        (folder / "checkpoints" / "step-00000036").rename(folder / "later")
        train(program, "--save-dir", str(folder), "--resume", "auto", "--steps", "all")

        board = EventAccumulator(str(folder), size_guidance={"scalars": 0})
        board.Reload()
        files = list(folder.glob("events.out.tfevents.*"))
        assert len(files) == 2, files

        def scalars(tag):
            return {event.step: event.value for event in board.Scalars(tag)}

        steps = {}  # of the second start, where both have a step
        for event in events_of(folder, "step"):
            steps.pop(event["step"], None)
            steps[event["step"]] = event
        for tag, name in OF_STEPS.items():
            compare(tag, {step: event[name] for step, event in steps.items()}, scalars(tag))
        parts = ("step_seconds/data", "step_seconds/compute", "step_seconds/communication")
        assert all(len(scalars(tag)) == len(steps) for tag in parts), parts
        epochs = events_of(folder, "epoch")
        metrics = [name for name in epochs[-1] if name.startswith("val_")]
        assert {"val_loss", "val_accuracy", "val_top5_accuracy", "val_macro_f1"} <= set(metrics), metrics
        for name in metrics:
            values = scalars("val/" + name.removeprefix("val_"))
            assert close(list(values.values())[-1], epochs[-1][name]), name
            assert len(values) == 2, f"{name}: {values}, of two epochs"
        print(f"{', '.join(metrics)}: as in metrics.jsonl after each epoch")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
