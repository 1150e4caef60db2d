# SPDX-License-Identifier: Apache-2.0
"""lockstep's models in PyTorch, with the same names of parameters, by lockstep's name in MODELS.

Each is made of {name: (channels, height, width)} of its inputs and of the number of classes, and has loss(batch) of
{name: tensor}.
"""
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

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


class Classifier(nn.Module):
    """Of "images", by "labels"."""

    def loss(self, batch):
        return F.cross_entropy(self(batch["images"]), batch["labels"].flatten())


class LeNet(Classifier):
    def __init__(self, inputs, classes):
        super().__init__()
        channels, height, width = inputs["images"]
        self.conv1 = nn.Conv2d(channels, 32, 3, padding=1)
        self.conv2 = nn.Conv2d(32, 64, 3, padding=1)
        self.fc1 = nn.Linear(64 * (height // 2 // 2) * (width // 2 // 2), 128)
        self.fc2 = nn.Linear(128, classes)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.fc2(F.relu(self.fc1(x.flatten(1))))


class BasicBlock(nn.Module):
    expansion = 1

    def __init__(self, channels_in, channels, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.downsample = nn.Identity()
        if stride != 1 or channels_in != channels:
            self.downsample = nn.Sequential(
                nn.Conv2d(channels_in, channels, 1, stride, bias=False), nn.BatchNorm2d(channels))

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + self.downsample(x))


class ResNet20(Classifier):
    def __init__(self, inputs, classes):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs["images"][0], 16, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.layer1 = self.stage(16, 16, 1)
        self.layer2 = self.stage(16, 32, 2)
        self.layer3 = self.stage(32, 64, 2)
        self.fc = nn.Linear(64, classes)

    @staticmethod
    def stage(channels_in, channels, stride):
        return nn.Sequential(BasicBlock(channels_in, channels, stride),
                             BasicBlock(channels, channels, 1), BasicBlock(channels, channels, 1))

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = self.layer3(self.layer2(self.layer1(x)))
        return self.fc(x.mean((2, 3)))


def small(image):
    """Whether lockstep's models take an image for one of a small data set."""
    return min(image[1:]) < 64


class ResNet(Classifier):
    """Four stages of so many blocks, behind a stem for small images or torchvision's."""

    def __init__(self, image, classes, block, blocks, small_stem):
        super().__init__()
        stem = dict(kernel_size=3, padding=1) if small_stem else dict(kernel_size=7, stride=2, padding=3)
        self.conv1 = nn.Conv2d(image[0], 64, bias=False, **stem)
        self.bn1 = nn.BatchNorm2d(64)
        self.maxpool = nn.Identity() if small_stem else nn.MaxPool2d(3, 2, 1)
        channels_in = 64
        for stage, count in enumerate(blocks):
            layers = nn.Sequential()
            for number in range(count):
                layers.append(block(channels_in, 64 << stage, 2 if stage > 0 and number == 0 else 1))
                channels_in = (64 << stage) * block.expansion
            setattr(self, f"layer{stage + 1}", layers)
        self.fc = nn.Linear(channels_in, classes)

    def forward(self, x):
        x = self.maxpool(F.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))


class ResNet18(ResNet):
    def __init__(self, inputs, classes):
        image = inputs["images"]
        super().__init__(image, classes, BasicBlock, (2, 2, 2, 2), small(image))


class ConvBNReLU6(nn.Sequential):
    def __init__(self, channels_in, channels, kernel, stride=1, groups=1):
        super().__init__(nn.Conv2d(channels_in, channels, kernel, stride, kernel // 2, groups=groups, bias=False),
                         nn.BatchNorm2d(channels), nn.ReLU6())


class InvertedResidual(nn.Module):
    def __init__(self, channels_in, channels, expansion, stride):
        super().__init__()
        wide = channels_in * expansion
        layers = [ConvBNReLU6(channels_in, wide, 1)] if expansion != 1 else []
        layers += [ConvBNReLU6(wide, wide, 3, stride, wide), nn.Conv2d(wide, channels, 1, bias=False),
                   nn.BatchNorm2d(channels)]
        self.conv = nn.Sequential(*layers)
        self.shortcut = stride == 1 and channels_in == channels

    def forward(self, x):
        return x + self.conv(x) if self.shortcut else self.conv(x)


class MobileNetV2(Classifier):
    def __init__(self, inputs, classes):
        super().__init__()
        image = inputs["images"]
        early = 1 if small(image) else 2
        self.features = nn.Sequential(ConvBNReLU6(image[0], 32, 3, early))
        channels_in = 32
        for expansion, channels, blocks, stride in ((1, 16, 1, 1), (6, 24, 2, early), (6, 32, 3, 2), (6, 64, 4, 2),
                                                    (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)):
            for block in range(blocks):
                self.features.append(InvertedResidual(channels_in, channels, expansion, stride if block == 0 else 1))
                channels_in = channels
        self.features.append(ConvBNReLU6(channels_in, 1280, 1))
        self.classifier = nn.Sequential(Dropout("classifier.0", 0.2), nn.Linear(1280, classes))

    def forward(self, x):
        return self.classifier(self.features(x).mean((2, 3)))


class Vgg11Bn(Classifier):
    def __init__(self, inputs, classes):
        super().__init__()
        image = inputs["images"]
        side, hidden = (1, 512) if small(image) else (7, 4096)
        self.features = nn.Sequential()
        channels_in = image[0]
        for channels in (64, None, 128, None, 256, 256, None, 512, 512, None, 512, 512, None):
            if channels is None:
                self.features.append(nn.MaxPool2d(2))
                continue
            self.features.extend([nn.Conv2d(channels_in, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU()])
            channels_in = channels
        self.avgpool = nn.AdaptiveAvgPool2d(side)
        self.classifier = nn.Sequential(
            nn.Linear(512 * side * side, hidden), nn.ReLU(), Dropout("classifier.2", 0.5),
            nn.Linear(hidden, hidden), nn.ReLU(), Dropout("classifier.5", 0.5), nn.Linear(hidden, classes))

    def forward(self, x):
        return self.classifier(self.avgpool(self.features(x)).flatten(1))


class Bottleneck(nn.Module):
    expansion = 4

    def __init__(self, channels_in, channels, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.conv3 = nn.Conv2d(channels, 4 * channels, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(4 * channels)
        self.downsample = nn.Identity()
        if stride != 1 or channels_in != 4 * channels:
            self.downsample = nn.Sequential(
                nn.Conv2d(channels_in, 4 * channels, 1, stride, bias=False), nn.BatchNorm2d(4 * channels))

    def forward(self, x):
        y = F.relu(self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x))))))
        return F.relu(self.bn3(self.conv3(y)) + self.downsample(x))


class ResNet50(ResNet):
    def __init__(self, inputs, classes):
        super().__init__(inputs["images"], classes, Bottleneck, (3, 4, 6, 3), small_stem=False)


def conv_block(channels_in, channels, stride=1):
    return [nn.Conv2d(channels_in, channels, 3, stride, 1, bias=False), nn.BatchNorm2d(channels), nn.ReLU()]


def giou(a, b):
    """1 - generalized intersection over union of boxes Nx4xHxW; what would be negative counts as 0 where it divides."""
    low, high = torch.max(a[:, :2], b[:, :2]), torch.min(a[:, 2:], b[:, 2:])
    common = torch.where((high > low).all(1), (high - low).prod(1), torch.zeros_like(a[:, 0]))
    united = (a[:, 2:] - a[:, :2]).prod(1) + (b[:, 2:] - b[:, :2]).prod(1) - common
    hull = (torch.max(a[:, 2:], b[:, 2:]) - torch.min(a[:, :2], b[:, :2])).prod(1)
    return (1 - common / (united.clamp(min=0) + 1e-7) + (hull - united) / (hull.clamp(min=0) + 1e-7))[:, None]


class Detector(nn.Module):
    def __init__(self, inputs, classes):
        super().__init__()
        self.stem = self.stage(inputs["images"][0], 16)
        self.stage1 = self.stage(16, 32)
        self.stage2 = self.stage(32, 64)
        self.stage3 = self.stage(64, 64)
        self.merge2 = nn.Sequential(*conv_block(128, 64))
        self.merge1 = nn.Sequential(*conv_block(96, 32))
        self.head1 = nn.Conv2d(32, 5 + classes, 1)
        self.head2 = nn.Conv2d(64, 5 + classes, 1)
        self.head3 = nn.Conv2d(64, 5 + classes, 1)

    @staticmethod
    def stage(channels_in, channels):
        return nn.Sequential(*conv_block(channels_in, channels, 2), *conv_block(channels, channels))

    @staticmethod
    def merge(block, coarse, fine):
        return block(torch.cat([F.interpolate(coarse, scale_factor=2), fine], 1))

    def forward(self, x):
        at4 = self.stage1(self.stem(x))
        at8 = self.stage2(at4)
        at16 = self.stage3(at8)
        merged8 = self.merge(self.merge2, at16, at8)
        merged4 = self.merge(self.merge1, merged8, at4)
        heads = [self.head1(merged4), self.head2(merged8), self.head3(at16)]
        return torch.cat([head.flatten(2) for head in heads], 2)[:, :, None]

    def loss(self, batch):
        cells = self(batch["images"])
        edges, found, classes = cells[:, :4], cells[:, 4:5], cells[:, 5:]
        objects, boxes = batch["objects"], batch["boxes"]
        positive_weight = torch.tensor(10, dtype=cells.dtype)
        return (F.cross_entropy(classes, batch["labels"][:, 0])
                + F.binary_cross_entropy_with_logits(found, objects, pos_weight=positive_weight)
                + (giou(edges, boxes) * objects).sum() / objects.sum()
                + 0.25 * F.smooth_l1_loss(edges * objects, boxes, reduction="sum", beta=0.5) / len(cells))


class UNet(nn.Module):
    def __init__(self, inputs, classes):
        super().__init__()
        self.encoder1 = self.blocks(inputs["images"][0], 16)
        self.encoder2 = self.blocks(16, 32)
        self.encoder3 = self.blocks(32, 64)
        self.bottom = self.blocks(64, 64)
        self.decoder3 = self.decoder(64, 64)
        self.decoder2 = self.decoder(64, 32)
        self.decoder1 = self.decoder(32, 16)
        self.head = nn.Conv2d(16, classes, 1)

    @staticmethod
    def blocks(channels_in, channels):
        return nn.Sequential(*conv_block(channels_in, channels), *conv_block(channels, channels))

    @staticmethod
    def decoder(channels_in, channels):
        layers = UNet.blocks(2 * channels, channels)
        decoder = nn.Sequential()
        decoder.add_module("up", nn.ConvTranspose2d(channels_in, channels, 2, 2))
        for name, layer in layers.named_children():
            decoder.add_module(name, layer)
        return decoder

    @staticmethod
    def decode(decoder, x, skipped):
        up, *blocks = decoder
        x = torch.cat([skipped, up(x)], 1)
        for layer in blocks:
            x = layer(x)
        return x

    def forward(self, x):
        whole = self.encoder1(x)
        half = self.encoder2(F.max_pool2d(whole, 2))
        quarter = self.encoder3(F.max_pool2d(half, 2))
        x = self.bottom(F.max_pool2d(quarter, 2))
        for decoder, skipped in ((self.decoder3, quarter), (self.decoder2, half), (self.decoder1, whole)):
            x = self.decode(decoder, x, skipped)
        return self.head(x)

    def loss(self, batch):
        logits = self(batch["images"])
        p, masks = torch.sigmoid(logits), batch["masks"]
        dice = 1 - (2 * (p * masks).sum((2, 3)) + 1) / (p.sum((2, 3)) + masks.sum((2, 3)) + 1)
        return F.cross_entropy(logits, batch["labels"][:, 0]) + 0.25 * dice.mean()


class Crnn(nn.Module):
    def __init__(self, inputs, classes):
        super().__init__()
        channels, height, _ = inputs["images"]
        self.conv1 = nn.Sequential(*conv_block(channels, 16))
        self.conv2 = nn.Sequential(*conv_block(16, 32))
        self.conv3 = nn.Sequential(*conv_block(32, 64))
        self.lstm = nn.LSTM(64 * (height // 8), 64, batch_first=True, bidirectional=True)
        self.fc = nn.Conv2d(128, classes + 1, 1)

    def forward(self, x, steps):
        x = F.max_pool2d(self.conv1(x), 2)
        x = F.max_pool2d(self.conv2(x), 2)
        sequence = F.max_pool2d(self.conv3(x), (2, 1)).flatten(1, 2).permute(0, 2, 1)
        # PyTorch packs no empty sequences: one step of them is computed, and does not count.
        packed = nn.utils.rnn.pack_padded_sequence(sequence, steps.clamp(min=1), batch_first=True, enforce_sorted=False)
        states, _ = nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0], batch_first=True,
                                                     total_length=sequence.shape[1])
        states = states * (torch.arange(sequence.shape[1]) < steps[:, None])[:, :, None]
        return self.fc(states.permute(0, 2, 1)[:, :, None])

    def loss(self, batch):
        steps, target_lengths = batch["steps"].flatten(), batch["target_lengths"].flatten()
        logits = self(batch["images"], steps)[:, :, 0]
        some = steps > 0  # without steps nothing is read, and nothing learnt: either right or impossible
        losses = F.ctc_loss(F.log_softmax(logits[some], 1).permute(2, 0, 1), batch["targets"][some][:, 0, 0], steps[some],
                            target_lengths[some], blank=logits.shape[1] - 1, reduction="sum", zero_infinity=True)
        return losses / len(logits)


MODELS = {
    "crnn": Crnn,
    "detector": Detector,
    "lenet": LeNet,
    "mobilenet-v2": MobileNetV2,
    "resnet18": ResNet18,
    "resnet20": ResNet20,
    "resnet50": ResNet50,
    "unet": UNet,
    "vgg11-bn": Vgg11Bn,
}
# What is recorded of a model where it is not 20 steps on its example: options of nn_parity for each run.
RECORDED = {
    "crnn": [{"steps": 20, "batch": 4}],  # of fewer, some have nothing to be read
    "detector": [{"steps": 20, "batch": 4}],
    "mobilenet-v2": [{"steps": 20, "batch": 4, "lr": 1e-5}, {"steps": 3, "lr": 1e-5, "image": "3 65 65"}],
    "resnet18": [{"steps": 20}, {"steps": 3, "image": "3 64 64"}],
    # 20 take 15 s: STEPS=20 BATCH=4 LR=1e-6 mpi-scripts/parity/parity.sh resnet50
    "resnet50": [{"steps": 5, "lr": 1e-6}],
    "unet": [{"steps": 20, "batch": 4}],
}
