# SPDX-License-Identifier: Apache-2.0
"""lockstep's models in PyTorch (lockstep_models.py) for comparisons of training, by lockstep's name in MODELS.

Each is made of {name: (channels, height, width)} of its inputs and of the number of classes, has loss(batch) of
{name: tensor}, and lockstep's dropout.
"""
import types

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

import lockstep_models

MASK = (1 << 64) - 1
GOLDEN_RATIO = 0x9E3779B97F4A7C15


def mix(z):
    """SplitMix64's output, of one number or an array."""
    if isinstance(z, int):
        return int(mix(np.array([z & MASK], dtype=np.uint64))[0])
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def fnv1a(text):
    value = 0xCBF29CE484222325
    for byte in text.encode() + b"\xff":
        value = ((value ^ byte) * 0x100000001B3) & MASK
    return value


class Dropout(nn.Module):
    """Lockstep's, whose mask follows from seed, step, name, sample and element. Who trains sets seed and step."""
    seed = 0
    step = 0

    def __init__(self, name, probability):
        super().__init__()
        self.key = fnv1a(name)
        self.probability = probability

    def forward(self, x):
        if not self.training:
            return x
        position = np.arange(1, x[0].numel() + 1, dtype=np.uint64) * np.uint64(GOLDEN_RATIO)
        kept = [(mix(position + np.uint64(self.key_of(sample))) >> np.uint64(11)) * 2.0 ** -53 >= self.probability
                for sample in range(len(x))]
        return x * torch.from_numpy(np.stack(kept)).to(x.dtype).reshape(x.shape) / (1 - self.probability)

    def key_of(self, sample):
        key = mix(Dropout.seed + GOLDEN_RATIO)
        for part in (Dropout.step, self.key, sample):
            key = mix(key + (part + 1) * GOLDEN_RATIO)
        return key


def classifier_loss(self, batch):
    """Of "images", by "labels"."""
    return F.cross_entropy(self(batch["images"]), batch["labels"].flatten())


def giou(a, b):
    """1 - generalized intersection over union of boxes Nx4xHxW; what would be negative counts as 0 where it divides."""
    low, high = torch.max(a[:, :2], b[:, :2]), torch.min(a[:, 2:], b[:, 2:])
    common = torch.where((high > low).all(1), (high - low).prod(1), torch.zeros_like(a[:, 0]))
    united = (a[:, 2:] - a[:, :2]).prod(1) + (b[:, 2:] - b[:, :2]).prod(1) - common
    hull = (torch.max(a[:, 2:], b[:, 2:]) - torch.min(a[:, :2], b[:, :2])).prod(1)
    return (1 - common / (united.clamp(min=0) + 1e-7) + (hull - united) / (hull.clamp(min=0) + 1e-7))[:, None]


def detector_loss(self, batch):
    cells = self(batch["images"])
    edges, found, classes = cells[:, :4], cells[:, 4:5], cells[:, 5:]
    objects, boxes = batch["objects"], batch["boxes"]
    positive_weight = torch.tensor(10, dtype=cells.dtype)
    return (F.cross_entropy(classes, batch["labels"][:, 0])
            + F.binary_cross_entropy_with_logits(found, objects, pos_weight=positive_weight)
            + (giou(edges, boxes) * objects).sum() / objects.sum()
            + 0.25 * F.smooth_l1_loss(edges * objects, boxes, reduction="sum", beta=0.5) / len(cells))


def unet_loss(self, batch):
    logits = self(batch["images"])
    p, masks = torch.sigmoid(logits), F.one_hot(batch["labels"][:, 0], logits.shape[1]).movedim(-1, 1)
    dice = 1 - (2 * (p * masks).sum((2, 3)) + 1) / (p.sum((2, 3)) + masks.sum((2, 3)) + 1)
    return F.cross_entropy(logits, batch["labels"][:, 0]) + 0.25 * dice.mean()


def hard_cross_entropy(logits, labels, threshold=0.7, least=1 / 16):
    """The mean over samples of their means over hard pixels, or over the hardest ones where these are too few."""
    losses = []
    for pixels in F.cross_entropy(logits, labels, reduction="none").flatten(1):
        hard = pixels > -np.log(threshold)
        if hard.sum() < least * len(pixels):
            hard = pixels >= pixels.topk(int(np.ceil(least * len(pixels)))).values[-1]
        losses.append(pixels[hard].mean())
    return sum(losses) / len(losses)


def pp_liteseg_loss(self, batch):
    return sum(hard_cross_entropy(logits, batch["labels"][:, 0]) for logits in self.heads(batch["images"]))


def crnn_loss(self, batch):
    steps, target_lengths = batch["steps"].flatten(), batch["target_lengths"].flatten()
    logits = self(batch["images"], steps)[:, :, 0]
    some = steps > 0  # without steps nothing is read, and nothing learnt: either right or impossible
    losses = F.ctc_loss(F.log_softmax(logits[some], 1).permute(2, 0, 1), batch["targets"][some][:, 0, 0], steps[some],
                        target_lengths[some], blank=logits.shape[1] - 1, reduction="sum", zero_infinity=True)
    return losses / len(logits)


def text_loss(self, batch):
    """Of models whose steps all count, and whose blank is class 0."""
    log_probabilities = F.log_softmax(self(batch["images"])[:, :, 0], 1).permute(2, 0, 1)
    target_lengths = batch["target_lengths"].flatten()
    losses = F.ctc_loss(log_probabilities, batch["targets"][:, 0, 0], torch.full_like(target_lengths, len(log_probabilities)),
                        target_lengths, reduction="sum", zero_infinity=True)
    return losses / len(target_lengths)


def yolov5_cells(position, extent):
    """The cell of a coordinate, and its nearer neighbor, if that is in the map and the coordinate not too near its edge."""
    cell = int(position)
    before = [cell - 1] if position % 1 < 0.5 and position > 1 else []
    after = [cell + 1] if (extent - position) % 1 < 0.5 and extent - position > 1 else []
    return cell, before + after


def yolov5_matches(boxes, anchors, height, width):
    """For boxes Nx5xM in cells the matches of a level: sample, anchor, row, column, number of the box, in the order of boxes."""
    for sample, columns in enumerate(boxes):
        for number, (label, x, y, *extents) in enumerate(columns.T.tolist()):
            if label < 0:
                continue
            (column, columns_beside), (row, rows_beside) = yolov5_cells(x, width), yolov5_cells(y, height)
            cells = [(row, column)] + [(row, beside) for beside in columns_beside] + [(beside, column) for beside in rows_beside]
            for anchor, sides in enumerate(anchors.tolist()):
                if max(max(a / b, b / a) for a, b in zip(extents, sides)) < 4:
                    yield from ((sample, anchor, *cell, number) for cell in cells)


def ciou(a, b, eps=1e-7):
    """Complete intersection over union of boxes Kx4: center x, center y, width, height."""
    (low_a, high_a), (low_b, high_b) = ((box[:, :2] - box[:, 2:] / 2, box[:, :2] + box[:, 2:] / 2) for box in (a, b))
    common = (torch.min(high_a, high_b) - torch.max(low_a, low_b)).clamp(min=0).prod(1)
    iou = common / (a[:, 2:].prod(1) + b[:, 2:].prod(1) - common + eps)
    hull = torch.max(high_a, high_b) - torch.min(low_a, low_b)
    distance = ((a[:, :2] - b[:, :2]) ** 2).sum(1) / ((hull ** 2).sum(1) + eps)
    v = 4 / torch.pi ** 2 * (torch.atan(b[:, 2] / b[:, 3]) - torch.atan(a[:, 2] / a[:, 3])) ** 2
    alpha = (v / (v - iou + (1 + eps))).detach()
    return iou - distance - v * alpha


def yolov5_loss(self, batch):
    loss = 0
    for level, (grid, stride, balance) in enumerate(zip(self(batch["images"]), self.strides, (4, 1, 0.4))):
        samples, _, height, width = grid.shape
        grid = grid.reshape(samples, 3, self.outputs, height, width).permute(0, 1, 3, 4, 2)
        boxes = batch["boxes"][:, :, 0].clone()
        boxes[:, 1:] /= stride
        anchors = self.model[24].anchors[level]
        found = torch.tensor(list(yolov5_matches(boxes, anchors, height, width))).reshape(-1, 5)
        sample, anchor, row, column, number = found.T
        objects = torch.zeros(grid.shape[:4], dtype=grid.dtype)
        if len(found) > 0:
            s, targets = grid[sample, anchor, row, column], boxes[sample, :, number]
            cells = torch.stack([column, row], 1).to(grid)
            predicted = torch.cat([2 * s[:, :2].sigmoid() - 0.5 + cells, (2 * s[:, 2:4].sigmoid()) ** 2 * anchors[anchor]], 1)
            overlap = ciou(predicted, targets[:, 1:])
            places = ((sample * 3 + anchor) * height + row) * width + column
            objects.view(-1).scatter_reduce_(0, places, overlap.detach().clamp(min=0), "amax")
            loss = loss + 0.05 * (1 - overlap).mean()
            classes = self.outputs - 5
            if classes > 1:
                labels = F.one_hot(targets[:, 0].long(), classes).to(grid)
                loss = loss + 0.5 * classes / 80 * F.binary_cross_entropy_with_logits(s[:, 5:], labels)
        size = max(batch["images"].shape[2:])
        loss = loss + balance * (size / 640) ** 2 * F.binary_cross_entropy_with_logits(grid[..., 4], objects)
    return loss


LOSSES = {"crnn": crnn_loss, "crnn-mv3": text_loss, "crnn-vgg": text_loss, "detector": detector_loss,
          "pp-liteseg": pp_liteseg_loss, "unet": unet_loss, "yolov5n": yolov5_loss, "yolov5s": yolov5_loss}


def maker(name):
    """What makes a model with its loss and lockstep's dropout."""
    def make(inputs, classes, stem=None):
        model = lockstep_models.MODELS[name](inputs, classes, stem)
        for path, layer in list(model.named_modules()):
            if isinstance(layer, nn.Dropout):
                model.set_submodule(path, Dropout(path, layer.p))
        model.loss = types.MethodType(LOSSES.get(name, classifier_loss), model)
        return model
    return make


MODELS = {name: maker(name) for name in lockstep_models.MODELS}
# What is recorded of a model where it is not 20 steps on its example: options of nn_parity for each run.
RECORDED = {
    "crnn": [{"steps": 20, "batch": 4}],  # of fewer, some have nothing to be read
    "crnn-mv3": [{"steps": 20, "batch": 4, "lr": 1e-3}],
    "crnn-vgg": [{"steps": 5, "batch": 4}],
    "detector": [{"steps": 20, "batch": 4}],
    "mobilenet-v2": [{"steps": 20, "batch": 4, "lr": 1e-5}, {"steps": 3, "lr": 1e-5, "image": "3 65 65"}],
    "pp-liteseg": [{"steps": 4, "batch": 4, "lr": 1e-4}],
    "resnet18": [{"steps": 20}, {"steps": 3, "image": "3 64 64"}],
    "resnet34": [{"steps": 5}],
    "resnet44": [{"steps": 5}],
    "resnet56": [{"steps": 5}],
    # 20 take 15 s: STEPS=20 BATCH=4 LR=1e-6 mpi-scripts/parity/parity.sh resnet50
    "resnet50": [{"steps": 5, "lr": 1e-6}],
    "unet": [{"steps": 20, "batch": 4}],
    "yolov5n": [{"steps": 20, "batch": 3, "lr": 5e-4}],
    "yolov5s": [{"steps": 5, "batch": 3, "lr": 5e-4}],
}
