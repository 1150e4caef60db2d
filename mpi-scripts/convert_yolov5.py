#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns a .pt file of Ultralytics' YOLOv5 (n or s, version 6) into a file for `train --weights`.

  convert_yolov5.py WEIGHTS.pt FILE.safetensors [--img PIXELS]

Such files hold the whole model as Python objects, so the classes of the package yolov5 are needed to read them, and reading them
EXECUTES what they contain: convert only files that you trust. The averaged model (EMA) is taken where there is one, in float32.
The file keeps the anchors and says which model it is, with the names of its classes and an input of PIXELS (640), so
`train --model yolov5n --weights FILE.safetensors` begins with it, and `--predict` needs nothing else. It needs the packages torch,
safetensors and yolov5.
"""
import argparse
import importlib
import pathlib
import sys

try:
    import torch
    from safetensors.torch import save_file
    import yolov5
except ImportError as error:
    sys.exit(f"convert_yolov5.py needs the packages torch, safetensors and yolov5: pip install torch safetensors yolov5 ({error})")

WIDTHS = {16: "yolov5n", 32: "yolov5s"}  # channels of the first layer
STRIDES = (8, 16, 32)


def fail(text):
    sys.exit(f"convert_yolov5.py: {text}")


def read(path):
    """The model of a file, which names the modules of its classes as Ultralytics' repository has them."""
    sys.path.insert(0, str(pathlib.Path(yolov5.__file__).parent))
    for name in ("models", "models.common", "models.yolo", "utils"):
        sys.modules.setdefault(name, importlib.import_module(f"yolov5.{name}"))
    try:
        content = torch.load(path, map_location="cpu", weights_only=False)
    except OSError as problem:
        fail(f"cannot read '{path}': {problem.strerror or problem}")
    except Exception as problem:  # pylint: disable=broad-exception-caught  # unpickling raises many types
        fail(f"'{path}' is no model of YOLOv5 ({type(problem).__name__}: {problem})")
    model = content.get("ema") or content.get("model") if isinstance(content, dict) else content
    if not isinstance(model, torch.nn.Module):
        fail(f"'{path}' has no model, neither under ema nor under model")
    return model.float()


def described(model, state, img):
    """What `train` writes about a model of its own."""
    name = WIDTHS.get(state["model.0.conv.weight"].shape[0]) if "model.0.conv.weight" in state else None
    if name is None or "model.24.anchors" not in state or state["model.24.anchors"].shape != (3, 3, 2):
        fail("it is neither yolov5n nor yolov5s of version 6 with three levels of three anchors")
    classes = state["model.24.m.0.weight"].shape[0] // 3 - 5
    names = getattr(model, "names", None) or {}
    names = [names[label] for label in range(classes)] if len(names) == classes else []
    anchors = state["model.24.anchors"] * torch.tensor(STRIDES)[:, None, None]
    return {"format": "pt", "lockstep.model": name, "lockstep.classes": str(classes),
            "lockstep.tensors": f"images 3 {img} {img}\nboxes 5 1 1",
            "lockstep.class_names": "".join(f"{' '.join(str(text).split())}\n" for text in names),
            "lockstep.anchors": " ".join(f"{side:g}" for side in anchors.flatten().tolist()),
            "lockstep.transforms": "letterbox", "lockstep.mean": "0 0 0", "lockstep.deviation": "1 1 1"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", metavar="WEIGHTS.pt")
    parser.add_argument("target", metavar="FILE.safetensors")
    parser.add_argument("--img", type=int, default=640, metavar="PIXELS")
    options = parser.parse_args()
    if options.img < 32 or options.img % 32 != 0:
        fail(f"--img {options.img}: give a multiple of 32")
    model = read(options.source)
    state = model.state_dict()
    metadata = described(model, state, options.img)
    if not metadata["lockstep.class_names"]:
        del metadata["lockstep.class_names"]
    tensors = {name: tensor.detach().clone().contiguous() for name, tensor in state.items()
               if tensor.is_floating_point() and (name != "model.24.anchor_grid")}
    try:
        save_file(tensors, options.target, metadata=metadata)
    except OSError as problem:
        fail(f"cannot write '{options.target}': {problem}")
    print(f"{options.target}: {metadata['lockstep.model']} of {metadata['lockstep.classes']} classes, {len(tensors)} tensors")


if __name__ == "__main__":
    main()
