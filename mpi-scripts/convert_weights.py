#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns the weights of a PyTorch model into a file for `train --weights`.

  convert_weights.py WEIGHTS.pth FILE.safetensors

WEIGHTS.pth is what torch.save has written of model.state_dict(), as torchvision and timm publish it, or of a dictionary that has
it under "state_dict", "model_ema" or "model". Names keep their spelling, without the prefixes that DistributedDataParallel and
torch.compile put in front of all of them. The counters num_batches_tracked and other tensors without real numbers are left out,
because lockstep has no use for them. Weights of EasyOCR's second generation, such as english_g2.pth, become those of crnn-vgg, whose
linear layers are convolutions. Nothing in the file is executed. It needs the packages torch and safetensors.
"""
import pathlib
import sys

try:
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import save_file
except ImportError as error:
    sys.exit(f"convert_weights.py needs the packages torch and safetensors: pip install torch safetensors ({error})")

NESTED = ("state_dict", "model_ema", "model")
PREFIXES = ("module.", "_orig_mod.")
EASYOCR = "SequenceModeling.0.rnn.weight_ih_l0"


def fail(text):
    sys.exit(f"convert_weights.py: {text}")


def read(path):
    """The state_dict of a file."""
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as problem:
        fail(f"cannot read '{path}': {problem.strerror or problem}")
    except Exception as problem:  # pylint: disable=broad-exception-caught  # torch.load raises many types
        fail(f"'{path}' does not consist of tensors ({type(problem).__name__}). If it has a whole model, load it where its classes are, "
             "and save model.state_dict()")
    for key in NESTED:
        if isinstance(content, dict) and isinstance(content.get(key), dict):
            content = content[key]
            break
    if not isinstance(content, dict) or not any(isinstance(value, torch.Tensor) for value in content.values()):
        fail(f"'{path}' has no state_dict, neither as a whole nor under {', '.join(NESTED)}")
    return content


def without_prefixes(state):
    """Removes a prefix that all names have, again and again."""
    for prefix in [prefix for prefix in PREFIXES if all(name.startswith(prefix) for name in state)]:
        return without_prefixes({name.removeprefix(prefix): tensor for name, tensor in state.items()})
    return state


def as_in_lockstep(tensors):
    """Gives the linear layers of EasyOCR's network the extents of 1x1 convolutions."""
    def is_linear(name):
        return EASYOCR in tensors and name.endswith((".linear.weight", "Prediction.weight"))
    return {name: tensor[:, :, None, None] if is_linear(name) else tensor for name, tensor in tensors.items()}


def main():
    if len(sys.argv) != 3 or sys.argv[1].startswith("-"):
        print(__doc__)
        sys.exit(0 if sys.argv[1:] in (["--help"], ["-h"]) else 2)
    source, target = map(pathlib.Path, sys.argv[1:])
    state = without_prefixes(read(source))
    # Clones, because safetensors refuses tensors that share memory.
    tensors = {name: tensor.detach().clone().contiguous() for name, tensor in state.items()
               if isinstance(tensor, torch.Tensor) and tensor.is_floating_point()}
    if not tensors:
        fail(f"'{source}' has no tensor of real numbers")
    try:
        save_file(as_in_lockstep(tensors), target, metadata={"format": "pt"})
    except (OSError, SafetensorError) as problem:
        fail(f"cannot write '{target}': {problem}")
    left_out = len(state) - len(tensors)
    print(f"{target}: {len(tensors)} tensors{f'; {left_out} without real numbers are left out' if left_out else ''}")


if __name__ == "__main__":
    main()
