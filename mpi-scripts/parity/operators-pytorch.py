#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Computes every row of tests/ops/rows.cpp in PyTorch, in float64, and writes down scalar products of its results.

    operators-pytorch.py ROWS.json OUT.json      ROWS.json is what the program ops_list_rows prints

tests/ops/pytorch.json is what it has written; the test Rows.AgreeWithPyTorch compares. An operator is one entry of
OPERATORS: it is given inputs, parameters and state, and gives the output, or the sum of the losses.
"""
import json
import sys

import numpy as np
import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)


def wave(k, count):
    x = np.arange(count, dtype=np.float64)
    return np.sin(1.7 * x + 0.9 * k + 0.3) * np.cos(0.31 * x * x + k)


def rounded(values):
    return values.astype(np.float32).astype(np.float64)


def weights(count):
    return torch.from_numpy(np.cos(np.arange(count, dtype=np.float64) + 0.5))


def dot(tensor):
    flat = tensor.detach().reshape(-1)
    return float((flat * weights(flat.numel())).sum())


def make_input(k, described):
    count = int(np.prod(described["shape"]))
    if described["domain"] == "integer":
        values = described["low"] + (7 * np.arange(count) + 3) % (described["high"] - described["low"])
        return torch.from_numpy(values.astype(np.int64)).reshape(described["shape"])
    values = rounded(wave(k, count))
    if described["domain"] == "unit":
        values = rounded(0.5 + 0.49 * values)
    if described["domain"] == "targets":
        targets = values.reshape(described["shape"])
        samples, _, _, boxes = targets.shape
        targets[:, 1:3] = 16 + 15.9 * targets[:, 1:3]
        targets[:, 3:] = 20.5 + 19.5 * targets[:, 3:]
        targets[:, 0, 0] = (np.arange(boxes)[None] + np.arange(samples)[:, None]) % 3
        targets[:, 0, 0, -1] = -1
        values = rounded(targets)
    if described["domain"] == "boxes":
        corners = values.reshape(described["shape"])
        corners[:, 2:] = rounded(corners[:, :2] + 0.55 + 0.45 * corners[:, 2:])
    return torch.from_numpy(values).reshape(described["shape"]).requires_grad_()


def make_owned(k, described, low, high):
    count = int(np.prod(described["shape"]))
    values = rounded(low + (high - low) * (0.5 + 0.5 * wave(k, count)))
    return torch.from_numpy(values).reshape(described["shape"])


def conv(stride=1, padding=0, dilation=1, groups=1, after=lambda y: y):
    return lambda x, p, s: after(
        F.conv2d(x[0], p[0], p[1] if len(p) > 1 else None, stride, padding, dilation, groups))


def transposed(stride=1, padding=0, output_padding=0, groups=1, dilation=1, after=lambda y: y):
    return lambda x, p, s: after(F.conv_transpose2d(
        x[0], p[0], p[1] if len(p) > 1 else None, stride, padding, output_padding, groups, dilation))


def batch_norm(after=lambda y: y):
    def compute(x, p, s):
        y = F.batch_norm(x[0], s[0], s[1], p[0], p[1], training=True)
        return after(y + x[1] if len(x) > 1 else y)

    return compute


def cross_entropy(**options):
    return lambda x, p, s: F.cross_entropy(x[0], x[1][:, 0], reduction="sum", **options)


def ohem(threshold=0.7, least=1 / 16, ignore_index=-100):
    """The sum over the samples of their means over hard positions, or over the hardest ones where these are too few."""
    def of_sample(logits, labels):
        losses = F.cross_entropy(logits[None], labels[None], reduction="none", ignore_index=ignore_index).flatten()
        losses = losses[labels.flatten() != ignore_index]
        wanted = min(int(np.ceil(least * labels.numel())), len(losses))
        kept = losses > -np.log(threshold)
        if kept.sum() < wanted:
            kept = losses >= losses.topk(wanted).values[-1]
        return losses[kept].mean() if kept.any() else losses.sum() * 0
    return lambda x, p, s: sum(of_sample(logits, labels[0]) for logits, labels in zip(x[0], x[1]))


def soft_cross_entropy(**options):
    return lambda x, p, s: F.cross_entropy(x[0], x[1], reduction="sum", **options)


def weighted(losses, x):
    return (losses * x[2] if len(x) > 2 else losses).sum()


def binary_cross_entropy(**options):
    return lambda x, p, s: weighted(F.binary_cross_entropy_with_logits(x[0], x[1], reduction="none", **options), x)


def smooth_l1(beta):
    return lambda x, p, s: weighted(F.smooth_l1_loss(x[0], x[1], reduction="none", beta=beta), x)


def giou(epsilon):
    """As torchvision.ops.generalized_box_iou_loss."""
    def losses(a, b):
        low, high = torch.max(a[:, :2], b[:, :2]), torch.min(a[:, 2:], b[:, 2:])
        overlapping = (high > low).all(1)
        common = torch.where(overlapping, (high - low).prod(1), torch.zeros_like(a[:, 0]))
        united = (a[:, 2:] - a[:, :2]).prod(1) + (b[:, 2:] - b[:, :2]).prod(1) - common
        hull = (torch.max(a[:, 2:], b[:, 2:]) - torch.min(a[:, :2], b[:, :2])).prod(1)
        return 1 - common / (united + epsilon) + (hull - united) / (hull + epsilon)
    return lambda x, p, s: weighted(losses(x[0], x[1])[:, None], x)


def dice(epsilon):
    def loss(logits, targets):
        p = torch.sigmoid(logits)
        sums = p.sum((2, 3)) + targets.sum((2, 3))
        return (1 - (2 * (p * targets).sum((2, 3)) + epsilon) / (sums + epsilon)).sum()
    return lambda x, p, s: loss(x[0], x[1])


def dice_by_label(epsilon, ignore_index):
    def loss(logits, labels):
        counts = (labels != ignore_index).double()
        p = torch.sigmoid(logits) * counts
        targets = F.one_hot(labels[:, 0], logits.shape[1]).movedim(-1, 1) * counts
        return (1 - (2 * (p * targets).sum((2, 3)) + epsilon) / (p.sum((2, 3)) + targets.sum((2, 3)) + epsilon)).sum()
    return lambda x, p, s: loss(x[0], x[1])


def ctc(**options):
    def loss(logits, targets, target_lengths, lengths=None):
        steps_first = F.log_softmax(logits[:, :, 0], 1).permute(2, 0, 1)
        lengths = torch.full_like(target_lengths, len(steps_first)) if lengths is None else lengths
        return F.ctc_loss(steps_first, targets[:, 0, 0], lengths.flatten(), target_lengths.flatten(), reduction="sum",
                          **options)
    return lambda x, p, s: loss(*x)


def matches_of(boxes, anchors, stride, rows, columns):
    """Calls with (sample, box, anchor, row, column) of YOLOv5's assignment, box by box."""
    for n, sample in enumerate(boxes[:, :, 0]):
        for m, (label, x, y, width, height) in enumerate(sample.T.tolist()):
            if label < 0:
                continue
            x, y = x / stride, y / stride
            cells = [(int(y), int(x))]
            if x % 1 < 0.5 and x > 1:
                cells.append((int(y), int(x) - 1))
            elif (columns - x) % 1 < 0.5 and columns - x > 1:
                cells.append((int(y), int(x) + 1))
            if y % 1 < 0.5 and y > 1:
                cells.append((int(y) - 1, int(x)))
            elif (rows - y) % 1 < 0.5 and rows - y > 1:
                cells.append((int(y) + 1, int(x)))
            for a, (w, h) in enumerate(anchors):
                if max(width / w, w / width, height / h, h / height) < 4:
                    for row, column in cells:
                        yield n, m, a, row, column


def decoded(x, anchors, stride):
    """Predictions in pixels: samples × anchors × rows × columns × numbers."""
    samples, channels, rows, columns = x.shape
    s = torch.sigmoid(x.reshape(samples, len(anchors), channels // len(anchors), rows, columns)).permute(0, 1, 3, 4, 2)
    grid = torch.stack(torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")[::-1], -1)
    sizes = torch.tensor(anchors)[:, None, None]
    return torch.cat([(2 * s[..., :2] - 0.5 + grid) * stride, (2 * s[..., 2:4]) ** 2 * sizes, s[..., 4:]], -1)


def complete_iou(a, b, eps=1e-7):
    """CIoU of boxes (center x, center y, width, height), whose trade-off is constant for gradients."""
    low = torch.max(a[:, :2] - a[:, 2:] / 2, b[:, :2] - b[:, 2:] / 2)
    high = torch.min(a[:, :2] + a[:, 2:] / 2, b[:, :2] + b[:, 2:] / 2)
    common = (high - low).clamp(0).prod(1)
    iou = common / (a[:, 2:].prod(1) + b[:, 2:].prod(1) - common + eps)
    hull = (torch.max(a[:, :2] + a[:, 2:] / 2, b[:, :2] + b[:, 2:] / 2)
            - torch.min(a[:, :2] - a[:, 2:] / 2, b[:, :2] - b[:, 2:] / 2))
    v = 4 / np.pi ** 2 * (torch.atan(b[:, 2] / b[:, 3]) - torch.atan(a[:, 2] / a[:, 3])) ** 2
    alpha = (v / (v - iou + 1 + eps)).detach()
    return iou - ((a[:, :2] - b[:, :2]) ** 2).sum(1) / ((hull ** 2).sum(1) + eps) - v * alpha


def anchor_loss(part, anchors, stride, label_smoothing=0.0):
    def loss(x, boxes):
        boxes = boxes.detach()
        samples, channels, rows, columns = x.shape
        n, m, a, row, column = torch.tensor(list(matches_of(boxes, anchors, stride, rows, columns))).T
        targets = boxes[n, :, 0, m]
        logits = x.reshape(samples, len(anchors), -1, rows, columns).permute(0, 1, 3, 4, 2)
        if part == "classes":
            ones = F.one_hot(targets[:, 0].long(), logits.shape[4] - 5).double()
            smooth = ones * (1 - label_smoothing / 2) + (1 - ones) * label_smoothing / 2
            return F.binary_cross_entropy_with_logits(logits[n, a, row, column, 5:], smooth, reduction="sum")
        iou = complete_iou(decoded(x, anchors, stride)[n, a, row, column, :4] / stride, targets[:, 1:] / stride)
        if part == "box":
            return (1 - iou).sum()
        objectness = torch.zeros(logits.shape[:4])
        for i, overlap in enumerate(iou.detach()):
            at = n[i], a[i], row[i], column[i]
            objectness[at] = torch.max(objectness[at], overlap)
        return F.binary_cross_entropy_with_logits(logits[..., 4], objectness, reduction="sum")
    return lambda x, p, s: loss(x[0], x[1])


def anchor_decode(anchors, stride):
    return lambda x, p, s: decoded(x[0], anchors, stride).flatten(1, 3).transpose(1, 2)


SMALL_ANCHORS = [[10, 13], [16, 30], [33, 23]]
TWO_ANCHORS = [[6, 4.5], [20, 25]]


def frozen_batch_norm(eps):
    """torchvision's FrozenBatchNorm2d: weight, bias, running_mean and running_var are buffers."""
    return lambda x, p, s: F.batch_norm(x[0], s[2], s[3], s[0], s[1], training=False, eps=eps)


def channel_norm(**options):
    return lambda x, p, s: F.layer_norm(x[0].movedim(1, -1), p[0].shape, p[0], p[1], **options).movedim(-1, 1)


def multiply(x, p, s):
    return x[0] * x[1]


def resize(**options):
    return lambda x, p, s: F.interpolate(x[0], **options)


def lstm(x, p, s):
    """Sequences N×C×1×T, and lengths if there is a second input, which PyTorch wants to be at least 1."""
    steps = x[0].shape[3]
    module = torch.nn.LSTM(x[0].shape[1], p[1].shape[1], batch_first=True, bidirectional=len(p) == 8)
    names = [name for name, _ in module.named_parameters()]
    sequences = x[0][:, :, 0].permute(0, 2, 1)
    if len(x) == 2:
        sequences = torch.nn.utils.rnn.pack_padded_sequence(
            sequences, x[1].flatten(), batch_first=True, enforce_sorted=False)
    states = torch.func.functional_call(module, dict(zip(names, p)), (sequences,))[0]
    if len(x) == 2:
        states, _ = torch.nn.utils.rnn.pad_packed_sequence(states, batch_first=True, total_length=steps)
    return states.permute(0, 2, 1).unsqueeze(2)


def embedding(**options):
    return lambda x, p, s: F.embedding(x[0][:, 0], p[0], **options).permute(0, 3, 1, 2)


OPERATORS = {
    "conv-1x1": conv(),
    "conv-1x1-stride": conv(stride=2),
    "conv-3x3": conv(padding=1),
    "conv-3x3-relu": conv(padding=1, after=F.relu),
    "conv-3x3-stride": conv(stride=2, padding=1),
    "conv-3x3-odd": conv(padding=1),
    "conv-5x5": conv(padding=2),
    "conv-7x7-stem": conv(stride=2, padding=3),
    "conv-small": conv(padding=3),
    "batch-norm": batch_norm(),
    "batch-norm-relu": batch_norm(after=F.relu),
    "batch-norm-relu-odd": batch_norm(after=F.relu),
    "batch-norm-relu6": batch_norm(after=F.relu6),
    "batch-norm-add": batch_norm(),
    "batch-norm-add-relu": batch_norm(after=F.relu),
    "batch-norm-add-relu-odd": batch_norm(after=F.relu),
    "relu6": lambda x, p, s: F.relu6(x[0]),
    "leaky-relu": lambda x, p, s: F.leaky_relu(x[0]),
    "leaky-relu-slope": lambda x, p, s: F.leaky_relu(x[0], 0.2),
    "silu": lambda x, p, s: F.silu(x[0]),
    "hard-swish": lambda x, p, s: F.hardswish(x[0]),
    "sigmoid": lambda x, p, s: torch.sigmoid(x[0]),
    "sigmoid-gate": lambda x, p, s: torch.sigmoid(x[0]),
    "tanh": lambda x, p, s: torch.tanh(x[0]),
    "gelu": lambda x, p, s: F.gelu(x[0]),
    "gelu-tanh": lambda x, p, s: F.gelu(x[0], approximate="tanh"),
    "multiply": multiply,
    "multiply-gate": multiply,
    "multiply-gate-first": multiply,
    "multiply-gate-of-gates": multiply,
    "multiply-by-positions": multiply,
    "multiply-by-row": multiply,
    "multiply-by-column": multiply,
    "multiply-by-one": multiply,
    "multiply-both-ways": multiply,
    "frozen-batch-norm": frozen_batch_norm(1e-5),
    "frozen-batch-norm-epsilon": frozen_batch_norm(0.1),
    "layer-norm-tokens": channel_norm(),
    "layer-norm-vectors": channel_norm(),
    "layer-norm-2d": channel_norm(eps=1e-6),
    "layer-norm-2d-odd": channel_norm(eps=0.01),
    "layer-norm-sample": lambda x, p, s: F.layer_norm(x[0], x[0].shape[1:], p[0], p[1]),
    "layer-norm-sample-epsilon": lambda x, p, s: F.layer_norm(x[0], x[0].shape[1:], p[0], p[1], eps=0.01),
    "group-norm": lambda x, p, s: F.group_norm(x[0], 4, p[0], p[1]),
    "group-norm-of-all": lambda x, p, s: F.group_norm(x[0], 1, p[0], p[1]),
    "group-norm-of-each": lambda x, p, s: F.group_norm(x[0], 7, p[0], p[1], eps=0.01),
    "group-norm-vectors": lambda x, p, s: F.group_norm(x[0], 3, p[0], p[1]),
    "hard-sigmoid-gate": lambda x, p, s: (0.2 * x[0] + 0.5).clamp(0, 1),
    "hard-sigmoid-steep": lambda x, p, s: (1.5 * x[0] + 0.4).clamp(0, 1),
    "affine-rest": lambda x, p, s: 1 - x[0],
    "affine": lambda x, p, s: 0.3 * x[0] - 2,
    "relu": lambda x, p, s: F.relu(x[0]),
    "max-pool": lambda x, p, s: F.max_pool2d(x[0], 2),
    "max-pool-relu": lambda x, p, s: F.relu(F.max_pool2d(x[0], 2)),
    "max-pool-overlapping-relu": lambda x, p, s: F.relu(F.max_pool2d(x[0], 3, 2, 1)),
    "max-pool-overlapping": lambda x, p, s: F.max_pool2d(x[0], 3, 2),
    "average-pool": lambda x, p, s: F.avg_pool2d(x[0], 2),
    "average-pool-global": lambda x, p, s: F.avg_pool2d(x[0], 8),
    "conv-depthwise": conv(padding=1, groups=32),
    "conv-depthwise-stride": conv(stride=2, padding=1, groups=32, after=F.relu),
    "conv-depthwise-5x5": conv(stride=(2, 1), padding=2, groups=32),
    "conv-depthwise-low": conv(padding=1, groups=32),
    "conv-depthwise-small": conv(padding=2, groups=16),
    "conv-depthwise-multiplied": conv(padding=2, dilation=2, groups=10),
    "conv-groups": conv(padding=1, groups=2),
    "conv-groups-1x1": conv(stride=2, groups=3),
    "conv-groups-resnext": conv(stride=2, padding=1, groups=16),
    "conv-groups-wide": conv(padding=1, groups=2),
    "conv-1x7": conv(padding=(0, 3), after=F.relu),
    "conv-7x1": conv(padding=(3, 0)),
    "conv-dilation": conv(padding=2, dilation=2, after=F.relu),
    "conv-rectangles": conv(stride=(1, 3), padding=(2, 1), dilation=(2, 3)),
    "conv-sequence": conv(dilation=(1, 4)),
    "max-pool-padding": lambda x, p, s: F.max_pool2d(x[0], 3, 2, 1),
    "max-pool-rectangles": lambda x, p, s: F.max_pool2d(x[0], (2, 5), (3, 1), (1, 2)),
    "max-pool-sequence": lambda x, p, s: F.max_pool1d(x[0][:, :, 0], 2)[:, :, None],
    "average-pool-padding": lambda x, p, s: F.avg_pool2d(x[0], 3, 1, 1),
    "average-pool-padding-left-out": lambda x, p, s: F.avg_pool2d(x[0], 3, 2, 1, count_include_pad=False),
    "average-pool-rectangles": lambda x, p, s: F.avg_pool2d(x[0], (4, 1), (2, 3), (2, 0)),
    "average-pool-rectangles-left-out": lambda x, p, s: F.avg_pool2d(
        x[0], (2, 5), (1, 2), (0, 2), count_include_pad=False),
    "global-average-pool": lambda x, p, s: x[0].mean((2, 3), keepdim=True),
    "global-average-pool-large": lambda x, p, s: x[0].mean((2, 3), keepdim=True),
    "adaptive-average-pool": lambda x, p, s: F.adaptive_avg_pool2d(x[0], (3, 2)),
    "adaptive-average-pool-uneven": lambda x, p, s: F.adaptive_avg_pool2d(x[0], (7, 3)),
    "adaptive-average-pool-finer": lambda x, p, s: F.adaptive_avg_pool2d(x[0], (7, 5)),
    "channel-mean": lambda x, p, s: x[0].mean(1, keepdim=True),
    "channel-mean-odd": lambda x, p, s: x[0].mean(1, keepdim=True),
    "channel-max": lambda x, p, s: x[0].max(1, keepdim=True).values,
    "channel-max-odd": lambda x, p, s: x[0].max(1, keepdim=True).values,
    "transposed-2x2": transposed(stride=2),
    "transposed-4x4": transposed(stride=2, padding=1),
    "transposed-3x3-relu": transposed(stride=2, padding=1, output_padding=1, after=F.relu),
    "transposed-same": transposed(padding=1),
    "transposed-gaps": transposed(stride=3, output_padding=2),
    "transposed-dilation": transposed(stride=2, padding=2, output_padding=1, dilation=2),
    "transposed-groups": transposed(stride=2, padding=1, output_padding=(1, 0), groups=2),
    "transposed-depthwise": transposed(stride=2, padding=1, groups=32),
    "transposed-rectangles": transposed(stride=(1, 3), padding=(2, 1), output_padding=(1, 2), dilation=(2, 3)),
    "transposed-added-beyond-stride": transposed(output_padding=(2, 0), dilation=(3, 1)),
    "transposed-cut": transposed(padding=(3, 2)),
    "linear": lambda x, p, s: F.linear(x[0].flatten(1), p[0], p[1]),
    "linear-of-images": lambda x, p, s: F.relu(F.linear(x[0].flatten(1), p[0], p[1])),
    "add": lambda x, p, s: x[0] + x[1],
    "add-relu": lambda x, p, s: F.relu(x[0] + x[1]),
    "concat": lambda x, p, s: torch.cat(x, 1),
    "concat-height": lambda x, p, s: torch.cat(x, 2),
    "concat-width": lambda x, p, s: torch.cat(x, 3),
    "slice": lambda x, p, s: x[0][:, 4:9],
    "slice-height": lambda x, p, s: x[0][:, :, 0:3],
    "slice-width": lambda x, p, s: x[0][:, :, :, 6:7],
    "reshape": lambda x, p, s: x[0].reshape(-1, 12, 1, 10),
    "permute-to-channels-last": lambda x, p, s: x[0].permute(0, 2, 3, 1),
    "permute-to-channels-first": lambda x, p, s: x[0].permute(0, 3, 1, 2),
    "permute-planes": lambda x, p, s: x[0].permute(0, 2, 1, 3),
    "permute-transposed": lambda x, p, s: x[0].permute(0, 1, 3, 2),
    "resize-nearest": resize(scale_factor=2),
    "resize-nearest-size": resize(size=(10, 9)),
    "resize-nearest-smaller": resize(size=(3, 11)),
    "resize-bilinear": resize(scale_factor=2, mode="bilinear"),
    "resize-bilinear-size": resize(size=(10, 9), mode="bilinear"),
    "resize-bilinear-logits": resize(size=(17, 24), mode="bilinear"),
    "resize-bilinear-one": resize(size=(1, 6), mode="bilinear"),
    "resize-bilinear-corners": resize(scale_factor=4, mode="bilinear", align_corners=True),
    "resize-bilinear-corners-size": resize(size=(1, 5), mode="bilinear", align_corners=True),
    "lstm": lstm,
    "lstm-one": lstm,
    "lstm-lengths": lstm,
    "lstm-bidirectional": lstm,
    "lstm-bidirectional-one": lstm,
    "lstm-bidirectional-lengths": lstm,
    "lstm-wide": lstm,
    "embedding": embedding(),
    "embedding-padding": embedding(padding_idx=5),
    "cross-entropy": cross_entropy(),
    "cross-entropy-pixels": cross_entropy(ignore_index=2),
    "cross-entropy-smoothed": cross_entropy(label_smoothing=0.1),
    "cross-entropy-weighted": cross_entropy(ignore_index=1, weight=torch.tensor([0.25, 2, 1, 0.5, 3])),
    "cross-entropy-weighted-smoothed": cross_entropy(ignore_index=0, label_smoothing=0.25,
                                                     weight=torch.tensor([1, 0.5, 2])),
    "ohem": ohem(threshold=0.25, ignore_index=2),
    "ohem-least": ohem(threshold=0.05, least=0.3),
    "ohem-all": ohem(),
    "soft-cross-entropy": soft_cross_entropy(),
    "soft-cross-entropy-pixels": soft_cross_entropy(label_smoothing=0.2, weight=torch.tensor([1, 0.5, 2, 0.25])),
    "binary-cross-entropy": binary_cross_entropy(),
    "binary-cross-entropy-weighted": binary_cross_entropy(pos_weight=torch.tensor(2.5)),
    "smooth-l1": smooth_l1(1),
    "smooth-l1-weighted": smooth_l1(0.25),
    "smooth-l1-sharp": smooth_l1(0),
    "giou": giou(1e-7),
    "giou-weighted": giou(1e-3),
    "dice": dice(1),
    "dice-by-label": dice_by_label(1, 1),
    "dice-one": dice(1e-3),
    "anchor-box": anchor_loss("box", SMALL_ANCHORS, 8),
    "anchor-box-rectangle": anchor_loss("box", TWO_ANCHORS, 4),
    "anchor-objectness": anchor_loss("objectness", SMALL_ANCHORS, 8),
    "anchor-objectness-rectangle": anchor_loss("objectness", TWO_ANCHORS, 4),
    "anchor-classes": anchor_loss("classes", SMALL_ANCHORS, 8),
    "anchor-classes-smoothed": anchor_loss("classes", SMALL_ANCHORS, 16, 0.1),
    "anchor-decode": anchor_decode(SMALL_ANCHORS, 8),
    "anchor-decode-rectangle": anchor_decode(TWO_ANCHORS, 32),
    "ctc": ctc(),
    "ctc-tight": ctc(blank=2),
    "ctc-too-long": ctc(zero_infinity=True),
    "ctc-all-steps": ctc(zero_infinity=True),
}


def digest(row):
    inputs = [make_input(k, each) for k, each in enumerate(row["inputs"])]
    first = len(inputs)
    parameters = [make_owned(first + k, each, -0.5, 0.7).requires_grad_() for k, each in enumerate(row["parameters"])]
    first += len(parameters)
    state = [make_owned(first + k, each, 0.5, 1) for k, each in enumerate(row["state"])]
    output = OPERATORS[row["name"]](inputs, parameters, state)
    flat = output.reshape(-1)
    if not row["backward"]:
        return [dot(output)]
    (output if row["loss"] else (flat * weights(flat.numel())).sum()).backward()
    results = [dot(each) for each in state]
    for each in inputs + parameters:
        if each.dtype == torch.float64:
            results.append(dot(each.grad if each.grad is not None else torch.zeros_like(each)))
    return results + ([float(output.detach())] if row["loss"] else [])


def main():
    with open(sys.argv[1]) as file:
        rows = json.load(file)
    missing = [row["name"] for row in rows if row["name"] not in OPERATORS]
    if missing:
        sys.exit(f"error: OPERATORS has no entry for {', '.join(missing)}")
    lines = [f"{json.dumps(row['name'])}: {json.dumps(digest(row))}" for row in rows]
    with open(sys.argv[2], "w") as file:
        file.write("{\n" + ",\n".join(lines) + "\n}\n")


main()
