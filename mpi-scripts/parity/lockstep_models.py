# SPDX-License-Identifier: Apache-2.0
"""lockstep's models in PyTorch, with the same names of parameters, by the names that `train --model` has for them.

  import lockstep_models
  model, about = lockstep_models.load("runs/train/checkpoints/best")
  logits = model(lockstep_models.normalized(pixels, about))     # pixels: N x C x H x W, from 0 to 1
  about["class_names"], about["images"]                         # the extents C, H, W

Without a file, MODELS["resnet18"]({"images": (3, 224, 224)}, classes, stem) makes the module: of the extents of its inputs, the
number of classes and, for models with two versions of their first layers, "cifar" or "imagenet" (`train --stem`).
"""
import functools
import pathlib

import torch
from torch import nn
from torch.nn import functional as F
from torch.overrides import handle_torch_function, has_torch_function_unary


class LeNet(nn.Module):
    def __init__(self, inputs, classes, stem=None):
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


class SmallResNet(nn.Module):
    """ResNet 20, 32, 44 and 56: three stages of 3, 5, 7 or 9 blocks for small images."""

    def __init__(self, inputs, classes, stem=None, *, blocks):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs["images"][0], 16, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.layer1 = self.stage(16, 16, blocks, 1)
        self.layer2 = self.stage(16, 32, blocks, 2)
        self.layer3 = self.stage(32, 64, blocks, 2)
        self.fc = nn.Linear(64, classes)

    @staticmethod
    def stage(channels_in, channels, blocks, stride):
        return nn.Sequential(BasicBlock(channels_in, channels, stride),
                             *(BasicBlock(channels, channels, 1) for _ in range(blocks - 1)))

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = self.layer3(self.layer2(self.layer1(x)))
        return self.fc(x.mean((2, 3)))


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


def has_small_stem(image, stem):
    """Whether the first layers are those for small images: stem is "cifar", "imagenet", or None, which decides by extent."""
    return min(image[1:]) < 64 if stem is None else stem == "cifar"


class ResNet(nn.Module):
    """ResNet 18, 34 and 50: four stages behind a stem for small images or torchvision's."""

    def __init__(self, inputs, classes, stem=None, *, block, blocks):
        super().__init__()
        small = has_small_stem(inputs["images"], stem)
        first = dict(kernel_size=3, padding=1) if small else dict(kernel_size=7, stride=2, padding=3)
        self.conv1 = nn.Conv2d(inputs["images"][0], 64, bias=False, **first)
        self.bn1 = nn.BatchNorm2d(64)
        self.maxpool = nn.Identity() if small else nn.MaxPool2d(3, 2, 1)
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


def resnet50(inputs, classes, stem=None):
    """With torchvision's stem where none is chosen."""
    return ResNet(inputs, classes, stem or "imagenet", block=Bottleneck, blocks=(3, 4, 6, 3))


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


class MobileNetV2(nn.Module):
    def __init__(self, inputs, classes, stem=None):
        super().__init__()
        image = inputs["images"]
        early = 1 if has_small_stem(image, stem) else 2
        self.features = nn.Sequential(ConvBNReLU6(image[0], 32, 3, early))
        channels_in = 32
        for expansion, channels, blocks, stride in ((1, 16, 1, 1), (6, 24, 2, early), (6, 32, 3, 2), (6, 64, 4, 2),
                                                    (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)):
            for block in range(blocks):
                self.features.append(InvertedResidual(channels_in, channels, expansion, stride if block == 0 else 1))
                channels_in = channels
        self.features.append(ConvBNReLU6(channels_in, 1280, 1))
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(1280, classes))

    def forward(self, x):
        return self.classifier(self.features(x).mean((2, 3)))


class Vgg11Bn(nn.Module):
    def __init__(self, inputs, classes, stem=None):
        super().__init__()
        image = inputs["images"]
        side, hidden = (1, 512) if has_small_stem(image, stem) else (7, 4096)
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
            nn.Linear(512 * side * side, hidden), nn.ReLU(), nn.Dropout(),
            nn.Linear(hidden, hidden), nn.ReLU(), nn.Dropout(), nn.Linear(hidden, classes))

    def forward(self, x):
        return self.classifier(self.avgpool(self.features(x)).flatten(1))


def conv_block(channels_in, channels, stride=1):
    return [nn.Conv2d(channels_in, channels, 3, stride, 1, bias=False), nn.BatchNorm2d(channels), nn.ReLU()]


class Detector(nn.Module):
    def __init__(self, inputs, classes, stem=None):
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

class UNet(nn.Module):
    def __init__(self, inputs, classes, stem=None):
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

class Crnn(nn.Module):
    def __init__(self, inputs, classes, stem=None):
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


class LinearAtSteps(nn.Conv2d):
    """A linear layer on sequences N x T x features, with the shape of weights of lockstep's 1x1 convolution."""

    def __init__(self, features_in, features):
        super().__init__(features_in, features, 1)

    def forward(self, x):
        return F.linear(x, self.weight.flatten(1), self.bias)


def bidirectional(features, hidden):
    return nn.LSTM(features, hidden, batch_first=True, bidirectional=True)


class LstmAndLinear(nn.Module):
    def __init__(self, features_in, features):
        super().__init__()
        self.rnn = bidirectional(features_in, features)
        self.linear = LinearAtSteps(2 * features, features)

    def forward(self, x):
        return self.linear(self.rnn(x)[0])


class VggFeatures(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.ConvNet = nn.Sequential(  # pylint: disable=invalid-name  # EasyOCR's
            nn.Conv2d(channels, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(64, 128, 3, padding=1), nn.ReLU(), nn.Conv2d(128, 128, 3, padding=1), nn.ReLU(), nn.MaxPool2d((2, 1)),
            *conv_block(128, 256), *conv_block(256, 256), nn.MaxPool2d((2, 1)), nn.Conv2d(256, 256, 2), nn.ReLU())

    def forward(self, x):
        return self.ConvNet(x)


class CrnnVgg(nn.Module):
    """EasyOCR's second generation, with its names. Class 0 is the blank."""

    def __init__(self, inputs, classes, stem=None):
        super().__init__()
        self.FeatureExtraction = VggFeatures(inputs["images"][0])  # pylint: disable=invalid-name
        self.SequenceModeling = nn.Sequential(LstmAndLinear(256, 256), LstmAndLinear(256, 256))  # pylint: disable=invalid-name
        self.Prediction = LinearAtSteps(256, classes + 1)  # pylint: disable=invalid-name

    def forward(self, x):
        sequence = self.FeatureExtraction(x).mean(2).permute(0, 2, 1)
        return self.Prediction(self.SequenceModeling(sequence)).permute(0, 2, 1)[:, :, None]


def of_one_tensor(function):
    """Lets those who watch PyTorch's functions (torch.overrides) see this one as a whole, as F.relu."""
    @functools.wraps(function)
    def seen(x):
        if has_torch_function_unary(x):
            return handle_torch_function(seen, (x,), x)
        return function(x)
    return seen


@of_one_tensor
def hard_swish(x):
    """PyTorch's own rounds 1/6 to float32, in float64 too."""
    return x * (x + 3).clamp(0, 6) / 6


@of_one_tensor
def gate_of(x):
    """PaddleOCR's hard sigmoid, whose slope is 0.2."""
    return (0.2 * x + 0.5).clamp(0, 1)


class Mv3Conv(nn.Module):
    def __init__(self, channels_in, channels, kernel=1, stride=1, groups=1, act=None):
        super().__init__()
        self.conv = nn.Conv2d(channels_in, channels, kernel, stride, kernel // 2, groups=groups, bias=False)
        self.bn = nn.BatchNorm2d(channels)
        self.act = act

    def forward(self, x):
        x = self.bn(self.conv(x))
        return x if self.act is None else self.act(x)


class Mv3Gate(nn.Module):
    """Squeeze and excitation."""

    def __init__(self, channels):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels // 4, 1)
        self.conv2 = nn.Conv2d(channels // 4, channels, 1)

    def forward(self, x):
        return x * gate_of(self.conv2(F.relu(self.conv1(x.mean((2, 3), keepdim=True)))))


class Mv3Block(nn.Module):
    def __init__(self, channels_in, expanded, channels, kernel, stride, gated, act):
        super().__init__()
        self.expand_conv = Mv3Conv(channels_in, expanded, act=act)
        self.bottleneck_conv = Mv3Conv(expanded, expanded, kernel, (stride, 1), expanded, act)
        self.mid_se = Mv3Gate(expanded) if gated else nn.Identity()
        self.linear_conv = Mv3Conv(expanded, channels)
        self.shortcut = stride == 1 and channels_in == channels

    def forward(self, x):
        y = self.linear_conv(self.mid_se(self.bottleneck_conv(self.expand_conv(x))))
        return x + y if self.shortcut else y


class MobileNetV3(nn.Module):
    """MobileNetV3-large of half width for lines of text."""
    # Kernel, channels inside and behind, gate, function and stride of the height of each block.
    BLOCKS = ((3, 8, 8, False, F.relu, 1), (3, 32, 16, False, F.relu, 2), (3, 40, 16, False, F.relu, 1),
              (5, 40, 24, True, F.relu, 2), (5, 64, 24, True, F.relu, 1), (5, 64, 24, True, F.relu, 1),
              (3, 120, 40, False, hard_swish, 1), (3, 104, 40, False, hard_swish, 1), (3, 96, 40, False, hard_swish, 1),
              (3, 96, 40, False, hard_swish, 1), (3, 240, 56, True, hard_swish, 1), (3, 336, 56, True, hard_swish, 1),
              (5, 336, 80, True, hard_swish, 2), (5, 480, 80, True, hard_swish, 1), (5, 480, 80, True, hard_swish, 1))

    def __init__(self, channels_in):
        super().__init__()
        self.conv1 = Mv3Conv(channels_in, 8, 3, 2, act=hard_swish)
        self.blocks = nn.Sequential()
        last = 8
        for kernel, expanded, channels, gated, act, stride in self.BLOCKS:
            self.blocks.append(Mv3Block(last, expanded, channels, kernel, stride, gated, act))
            last = channels
        self.conv2 = Mv3Conv(last, 480, act=hard_swish)

    def forward(self, x):
        return F.max_pool2d(self.conv2(self.blocks(self.conv1(x))), 2)


class CrnnMv3(nn.Module):
    """PaddleOCR's rec_mv3_none_bilstm_ctc, with its names where PyTorch has the layers. Class 0 is the blank."""

    def __init__(self, inputs, classes, stem=None):
        super().__init__()
        self.backbone = MobileNetV3(inputs["images"][0])
        self.neck = nn.Module()
        self.neck.encoder = nn.Module()
        self.neck.encoder.lstm = nn.ModuleList([bidirectional(480, 96), bidirectional(192, 96)])
        self.head = nn.Module()
        self.head.fc = LinearAtSteps(192, classes + 1)

    def forward(self, x):
        sequence = self.backbone(x).flatten(1, 2).permute(0, 2, 1)
        for lstm in self.neck.encoder.lstm:
            sequence = lstm(sequence)[0]
        return self.head.fc(sequence).permute(0, 2, 1)[:, :, None]


class ConvSilu(nn.Module):
    def __init__(self, channels_in, channels, kernel=1, stride=1, padding=None):
        super().__init__()
        padding = kernel // 2 if padding is None else padding
        self.conv = nn.Conv2d(channels_in, channels, kernel, stride, padding, bias=False)
        self.bn = nn.BatchNorm2d(channels, eps=1e-3, momentum=0.03)

    def forward(self, x):
        return F.silu(self.bn(self.conv(x)))


class Bottleneck3(nn.Module):
    """1x1, then 3x3."""

    def __init__(self, channels, shortcut):
        super().__init__()
        self.cv1 = ConvSilu(channels, channels)
        self.cv2 = ConvSilu(channels, channels, 3)
        self.shortcut = shortcut

    def forward(self, x):
        y = self.cv2(self.cv1(x))
        return x + y if self.shortcut else y


class C3(nn.Module):
    """A cross-stage partial block: bottlenecks on half of the channels, beside the other half."""

    def __init__(self, channels_in, channels, bottlenecks, shortcut=True):
        super().__init__()
        self.cv1 = ConvSilu(channels_in, channels // 2)
        self.m = nn.Sequential(*(Bottleneck3(channels // 2, shortcut) for _ in range(bottlenecks)))
        self.cv2 = ConvSilu(channels_in, channels // 2)
        self.cv3 = ConvSilu(channels, channels)

    def forward(self, x):
        return self.cv3(torch.cat([self.m(self.cv1(x)), self.cv2(x)], 1))


class Sppf(nn.Module):
    """Pools of 5, 9 and 13 pixels, as three of 5 in a row."""

    def __init__(self, channels_in, channels):
        super().__init__()
        self.cv1 = ConvSilu(channels_in, channels_in // 2)
        self.cv2 = ConvSilu(2 * channels_in, channels)

    def forward(self, x):
        pooled = [self.cv1(x)]
        for _ in range(3):
            pooled.append(F.max_pool2d(pooled[-1], 5, 1, 2))
        return self.cv2(torch.cat(pooled, 1))


class YoloHeads(nn.Module):
    """A 1x1 convolution for each level, and the anchors in its cells: level, anchor, width and height."""

    def __init__(self, channels, outputs):
        super().__init__()
        self.m = nn.ModuleList(nn.Conv2d(each, outputs, 1) for each in channels)
        pixels = torch.tensor([10, 13, 16, 30, 33, 23, 30, 61, 62, 45, 59, 119, 116, 90, 156, 198, 373, 326.0])
        self.register_buffer("anchors", pixels.reshape(3, 3, 2) / torch.tensor([8, 16, 32])[:, None, None])


class Yolov5(nn.Module):
    """YOLOv5 of version 6. forward() gives the maps of strides 8, 16 and 32, N x 3*(5+classes) x H x W; decoded() makes of them
    N x boxes x (5+classes): center and extents in pixels, and the probabilities of an object and of each class."""
    strides = (8, 16, 32)

    def __init__(self, inputs, classes, stem=None, *, width):
        super().__init__()
        c64, c128, c256, c512, c1024 = (-int(-channels * width // 8) * 8 for channels in (64, 128, 256, 512, 1024))
        self.outputs = 5 + classes
        self.model = nn.ModuleList([
            ConvSilu(inputs["images"][0], c64, 6, 2, 2), ConvSilu(c64, c128, 3, 2), C3(c128, c128, 1),
            ConvSilu(c128, c256, 3, 2), C3(c256, c256, 2), ConvSilu(c256, c512, 3, 2), C3(c512, c512, 3),
            ConvSilu(c512, c1024, 3, 2), C3(c1024, c1024, 1), Sppf(c1024, c1024),
            ConvSilu(c1024, c512), nn.Upsample(scale_factor=2), nn.Identity(), C3(2 * c512, c512, 1, False),
            ConvSilu(c512, c256), nn.Upsample(scale_factor=2), nn.Identity(), C3(2 * c256, c256, 1, False),
            ConvSilu(c256, c256, 3, 2), nn.Identity(), C3(2 * c256, c512, 1, False),
            ConvSilu(c512, c512, 3, 2), nn.Identity(), C3(2 * c512, c1024, 1, False),
            YoloHeads((c256, c512, c1024), 3 * self.outputs)])

    def forward(self, x):
        run = lambda first, last, x: functools.reduce(lambda y, layer: layer(y), self.model[first:last + 1], x)
        at8 = run(0, 4, x)
        at16 = run(5, 6, at8)
        coarse = run(7, 10, at16)
        middle = run(13, 14, torch.cat([self.model[11](coarse), at16], 1))
        fine = run(17, 17, torch.cat([self.model[15](middle), at8], 1))
        to16 = run(20, 20, torch.cat([self.model[18](fine), middle], 1))
        to32 = run(23, 23, torch.cat([self.model[21](to16), coarse], 1))
        return [head(x) for head, x in zip(self.model[24].m, (fine, to16, to32))]

    def decoded(self, maps):
        boxes = []
        for level, (grid, stride) in enumerate(zip(maps, self.strides)):
            height, width = grid.shape[2:]
            s = grid.reshape(len(grid), 3, self.outputs, height, width).permute(0, 1, 3, 4, 2).sigmoid()
            rows, columns = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
            cells = torch.stack([columns, rows], -1).to(s)
            centers = (2 * s[..., :2] - 0.5 + cells) * stride
            extents = (2 * s[..., 2:4]) ** 2 * self.model[24].anchors[level][:, None, None] * stride
            boxes.append(torch.cat([centers, extents, s[..., 4:]], -1).flatten(1, 3))
        return torch.cat(boxes, 1)


class StdcConv(nn.Module):
    def __init__(self, channels_in, channels, kernel, stride=1):
        super().__init__()
        self.conv = nn.Conv2d(channels_in, channels, kernel, stride, kernel // 2, bias=False)
        self.bn = nn.BatchNorm2d(channels)

    def forward(self, x):
        return F.relu(self.bn(self.conv(x)))


class StdcBlock(nn.Module):
    """Four convolutions in a row, whose results are concatenated."""

    def __init__(self, channels_in, channels, stride):
        super().__init__()
        half, quarter, eighth = channels // 2, channels // 4, channels // 8
        self.conv_list = nn.ModuleList([StdcConv(channels_in, half, 1), StdcConv(half, quarter, 3), StdcConv(quarter, eighth, 3),
                                        StdcConv(eighth, eighth, 3)])
        self.halves = stride == 2
        if self.halves:
            self.avd_layer = nn.Sequential(nn.Conv2d(half, half, 3, 2, 1, groups=half, bias=False), nn.BatchNorm2d(half))

    def forward(self, x):
        first, *others = self.conv_list
        x = first(x)
        results = [F.avg_pool2d(x, 3, 2, 1, count_include_pad=False) if self.halves else x]
        x = self.avd_layer(x) if self.halves else x
        for convolution in others:
            x = convolution(x)
            results.append(x)
        return torch.cat(results, 1)


class Stdc1(nn.Module):
    def __init__(self, channels_in):
        super().__init__()
        self.features = nn.Sequential(StdcConv(channels_in, 32, 3, 2), StdcConv(32, 64, 3, 2))
        for narrow, wide in ((64, 256), (256, 512), (512, 1024)):
            self.features.extend([StdcBlock(narrow, wide, 2), StdcBlock(wide, wide, 1)])

    def forward(self, x):
        maps = [x := layers(x) for layers in (self.features[:4], self.features[4:6], self.features[6:])]
        return maps  # of strides 8, 16 and 32


class SegConv(nn.Module):
    def __init__(self, channels_in, channels, kernel, bias=False, relu=True):
        super().__init__()
        self._conv = nn.Conv2d(channels_in, channels, kernel, padding=kernel // 2, bias=bias)
        self._batch_norm = nn.BatchNorm2d(channels)
        self.relu = relu

    def forward(self, x):
        x = self._batch_norm(self._conv(x))
        return F.relu(x) if self.relu else x


def resized(x, like):
    return F.interpolate(x, size=like.shape[2:], mode="bilinear")


class SegContext(nn.Module):
    def __init__(self, channels_in, channels):
        super().__init__()
        self.stages = nn.ModuleList(nn.Sequential(nn.AdaptiveAvgPool2d(side), SegConv(channels_in, channels, 1, bias=True))
                                    for side in (1, 2, 4))
        self.conv_out = SegConv(channels, channels, 3, bias=True)

    def forward(self, x):
        first, second, third = (resized(stage(x), x) for stage in self.stages)
        return self.conv_out(first + second + third)


class SegFusion(nn.Module):
    """x*a + y*(1 - a) of a map and a coarser one, where a follows from mean and maximum over the channels of both."""

    def __init__(self, fine, coarse, channels):
        super().__init__()
        self.conv_x = SegConv(fine, coarse, 3)
        self.conv_xy_atten = nn.Sequential(SegConv(4, 2, 3), SegConv(2, 1, 3, relu=False))
        self.conv_out = SegConv(coarse, channels, 3)

    def forward(self, x, y):
        x = self.conv_x(x)
        y = resized(y, x)
        pooled = [pool for each in (x, y) for pool in (each.mean(1, keepdim=True), each.max(1, keepdim=True).values)]
        attention = self.conv_xy_atten(torch.cat(pooled, 1)).sigmoid()
        return self.conv_out(x * attention + y * (1 - attention))


class SegHead(nn.Module):
    def __init__(self, channels_in, channels, classes):
        super().__init__()
        self.conv = SegConv(channels_in, channels, 3)
        self.conv_out = nn.Conv2d(channels, classes, 1, bias=False)

    def forward(self, x):
        return self.conv_out(self.conv(x))


class SegDecoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.cm = SegContext(1024, 128)
        self.arm_list = nn.ModuleList([SegFusion(256, 64, 32), SegFusion(512, 128, 64), SegFusion(1024, 128, 128)])

    def forward(self, maps):
        coarse, results = self.cm(maps[-1]), []
        for fusion, fine in zip(reversed(self.arm_list), reversed(maps)):
            coarse = fusion(fine, coarse)
            results.insert(0, coarse)
        return results


class PPLiteSeg(nn.Module):
    """PP-LiteSeg-T. forward() gives the logits of the finest head, heads() those of all, from the finest, which training has."""

    def __init__(self, inputs, classes, stem=None):
        super().__init__()
        self.backbone = Stdc1(inputs["images"][0])
        self.ppseg_head = SegDecoder()
        self.seg_heads = nn.ModuleList([SegHead(32, 32, classes), SegHead(64, 64, classes), SegHead(128, 64, classes)])

    def heads(self, x, count=3):
        results = self.ppseg_head(self.backbone(x))
        return [resized(head(result), x) for head, result in zip(self.seg_heads[:count], results)]

    def forward(self, x):
        return self.heads(x, 1)[0]


MODELS = {
    "crnn": Crnn,
    "crnn-mv3": CrnnMv3,
    "crnn-vgg": CrnnVgg,
    "detector": Detector,
    "lenet": LeNet,
    "mobilenet-v2": MobileNetV2,
    "pp-liteseg": PPLiteSeg,
    "resnet18": functools.partial(ResNet, block=BasicBlock, blocks=(2, 2, 2, 2)),
    "resnet20": functools.partial(SmallResNet, blocks=3),
    "resnet32": functools.partial(SmallResNet, blocks=5),
    "resnet34": functools.partial(ResNet, block=BasicBlock, blocks=(3, 4, 6, 3)),
    "resnet44": functools.partial(SmallResNet, blocks=7),
    "resnet50": resnet50,
    "resnet56": functools.partial(SmallResNet, blocks=9),
    "unet": UNet,
    "vgg11-bn": Vgg11Bn,
    "yolov5n": functools.partial(Yolov5, width=0.25),
    "yolov5s": functools.partial(Yolov5, width=0.5),
}


def described(metadata):
    """What the metadata of model.safetensors say of a model: what `load` returns beside it."""
    texts = {name.removeprefix("lockstep."): text for name, text in metadata.items() if name.startswith("lockstep.")}
    if "model" not in texts:
        raise ValueError("the file does not say of which model it is: take one that train has written")
    tensors = [line.split(" ") for line in texts["tensors"].splitlines()]
    return {"model": texts["model"], "stem": texts.get("stem"), "classes": int(texts["classes"]),
            "class_names": texts.get("class_names", "").splitlines(),
            "inputs": {name: tuple(map(int, extents[:3])) for name, *extents in tensors},
            "mean": [float(number) for number in texts.get("mean", "").split()],
            "deviation": [float(number) for number in texts.get("deviation", "").split()]}


def load(path):
    """The module with the weights of a checkpoint, or of a file model.safetensors, for evaluation, and a description of it."""
    import safetensors.torch  # pylint: disable=import-outside-toplevel  # only this function needs it

    path = pathlib.Path(path)
    file = path / "model.safetensors" if path.is_dir() else path
    with safetensors.safe_open(file, "pt") as opened:
        about = described(opened.metadata() or {})
    model = MODELS[about["model"]](about["inputs"], about["classes"], about["stem"])
    model.load_state_dict(safetensors.torch.load_file(file))
    return model.eval(), about | {"images": about["inputs"]["images"]}


def normalized(pixels, about):
    """Images from 0 to 1 as the model was trained on them."""
    if not about["mean"]:
        return pixels
    mean, deviation = (torch.tensor(about[name], dtype=pixels.dtype)[:, None, None] for name in ("mean", "deviation"))
    return (pixels - mean) / deviation
