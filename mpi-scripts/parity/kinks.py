# SPDX-License-Identifier: Apache-2.0
"""Keeps a model's ReLUs and max-pools away from where their derivatives jump.

A ReLU whose input is within rounding of zero may fall to the other side in float32, and a max-pool may take the other of
two values; then gradients are off by 1e-3 in any library, which says nothing about how it rounds. So gradients are
compared at weights where no input is that near. `settle` shifts the bias in front of each ReLU, channel by channel, into
the middle of a gap between the inputs near zero, and varies the weights in front of a max-pool by a hundredth in channels
whose windows have two largest values. `least_margin` says how far away, in units of PyTorch's own rounding errors there,
the nearest kink then is.
"""
import torch
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

import lockstep_models

# How many times PyTorch's largest error an input's distance from a kink has to be: what two values can be off by.
MARGIN = 2
# A bias moves by at most this much of its channel's root mean square.
REACH = 0.1
# Two values of a window are apart by this much of the tensor's largest, which is several times what float32 rounds.
APART = 1e-5
VARIED = 0.01
TRIES = 20

RELUS = {F.relu: (0.0,), torch.relu: (0.0,), F.relu6: (0.0, 6.0), F.hardtanh: (0.0, 6.0),
         lockstep_models.hard_swish: (-3.0, 3.0), lockstep_models.gate_of: (-2.5, 2.5)}
POOLS = (F.max_pool2d, torch.max_pool2d)
CONVOLUTIONS = (F.conv2d, F.conv_transpose2d, F.linear)
# Where each has its bias among its arguments.
BIASED = {F.batch_norm: 4} | {function: 2 for function in CONVOLUTIONS}


def window_gaps(x, kernel_size, stride=None, padding=0, *_args, **_kwargs):
    """Of each channel: the least difference between the largest two of a window. Where the larger is zero it does no
    harm: a ReLU in front lets no gradient by."""
    kernel, stride, padding = [value if isinstance(value, (tuple, list)) else (value, value)
                               for value in (kernel_size, stride or kernel_size, padding)]
    padded = F.pad(x, (padding[1], padding[1], padding[0], padding[0]), value=float(x.min()) - 1)
    windows = padded.unfold(2, kernel[0], stride[0]).unfold(3, kernel[1], stride[1]).flatten(4)
    first = windows.amax(-1, keepdim=True)
    largest = windows == first
    gaps = first - windows.masked_fill(largest, float("-inf")).amax(-1, keepdim=True)
    gaps = torch.where(largest.sum(-1, keepdim=True) > 1, 0.0, gaps)
    return torch.where(first != 0, gaps, float("inf")).transpose(0, 1).flatten(1).amin(1)


class Settling(TorchFunctionMode):
    """Shifts biases and varies weights as it goes, so that what follows sees what comes of it."""

    def __init__(self, digits):
        super().__init__()
        self.digits = digits
        self.bias = None
        self.chain = []  # convolution, batch norm, ReLU as they follow each other, with their arguments
        self.last = None  # what the chain gave
        self.varied = False
        self.draw = torch.Generator().manual_seed(1)

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if function in POOLS and args[0] is self.last:
            args = (self.settled_pool(args, kwargs), *args[1:])
        if function not in BIASED and function not in RELUS:
            return function(*args, **kwargs)
        if function in CONVOLUTIONS or args[0] is not self.last:
            self.chain = []
        self.chain.append((function, args, kwargs))
        self.last = self.call(function, args, kwargs)
        return self.last

    def call(self, function, args, kwargs):
        if function in RELUS:
            args = (self.settled_relu(args[0], RELUS[function]), *args[1:])
        else:
            place = BIASED[function]
            bias = args[place] if len(args) > place else kwargs.get("bias")
            self.bias = self.bias if bias is None else bias
        return function(*args, **kwargs)

    def settled_relu(self, x, kinks):
        if self.bias is None or len(self.bias) != x.shape[1]:
            raise SystemExit("a ReLU has no bias of its channels in front of it, so it cannot be kept from its kink")
        shifts = torch.stack([shift_of(values, kinks) for values in x.transpose(0, 1).flatten(1)])
        shifted = self.bias + shifts
        if self.digits is not None:
            shifted = shifted.round(decimals=self.digits)
        shifted = shifted.float().to(x.dtype)  # float32 has the same weights
        shifts = shifted - self.bias
        self.bias.copy_(shifted)
        return x + shifts.reshape(1, -1, *[1] * (x.dim() - 2))

    def settled_pool(self, args, kwargs):
        x = args[0]
        function, (_, weight, *_), _ = self.chain[0]
        for _ in range(TRIES if function is F.conv2d and self.digits is None else 0):
            ties = window_gaps(x, *args[1:], **kwargs) < APART * x.abs().max()
            if not ties.any():
                break
            noise = torch.rand(weight.shape, generator=self.draw, dtype=weight.dtype) - 0.5
            varied = (weight * (1 + VARIED * noise)).float().to(weight.dtype)
            weight.copy_(torch.where(ties.reshape(-1, 1, 1, 1), varied, weight))
            self.varied = True
            for place, (function, call_args, call_kwargs) in enumerate(self.chain):
                x = self.call(function, call_args if place == 0 else (x, *call_args[1:]), call_kwargs)
        return x


def shift_of(values, kinks):
    """What brings the middle of the widest gap near zero between the values' distances from the kinks to zero. None where
    zero is well within a gap, so that what is settled stays."""
    reach = REACH * values.square().mean().sqrt()
    ends = torch.stack([-reach, reach])
    points = torch.cat([values - kink for kink in kinks])
    points = torch.cat([points[points.abs() < reach], ends]).sort().values
    gaps = points.diff()
    widest = gaps.argmax()
    if 4 * points.abs().min() >= gaps[widest]:
        return torch.zeros_like(reach)
    return -(points[widest] + points[widest + 1]) / 2


class Recording(TorchFunctionMode):
    """Keeps each ReLU's and each max-pool's input, and how near it is to a kink."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if function in RELUS:
            self.calls.append((args[0], min((args[0] - kink).abs().min() for kink in RELUS[function])))
        if function in POOLS:
            self.calls.append((args[0], window_gaps(*args, **kwargs).min()))
        return function(*args, **kwargs)


def settle(module, batch, digits=None):
    """Settles the float64 module's parameters for this batch, and rounds them to float32.

    With `digits` biases are rounded to so many after the point, and weights stay as they are, max-pools or not."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(parameter.float())
        for _ in range(TRIES):
            with Settling(digits) as settling:
                module.loss(batch)
            if not settling.varied:  # otherwise what was computed before that may have been read elsewhere
                break


def least_margin(exact, exact_batch, rounded, rounded_batch):
    """Of modules in float64 and float32: the least distance from a kink, in units of the largest error of its call."""
    recordings = []
    for module, batch in ((exact, exact_batch), (rounded, rounded_batch)):
        with torch.no_grad(), Recording() as recording:
            module.loss(batch)
        recordings.append(recording.calls)
    return min(float(distance / (x - y).abs().max().clamp(min=1e-30)) for (x, distance), (y, _) in zip(*recordings))
