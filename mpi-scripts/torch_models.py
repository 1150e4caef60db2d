# SPDX-License-Identifier: Apache-2.0
"""lockstep's models in PyTorch, with the same names of parameters; image is (channels, height, width)."""
from torch import nn
from torch.nn import functional as F


class LeNet(nn.Module):
    def __init__(self, image, classes):
        super().__init__()
        channels, height, width = image
        self.conv1 = nn.Conv2d(channels, 32, 3, padding=1)
        self.conv2 = nn.Conv2d(32, 64, 3, padding=1)
        self.fc1 = nn.Linear(64 * (height // 2 // 2) * (width // 2 // 2), 128)
        self.fc2 = nn.Linear(128, classes)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.fc2(F.relu(self.fc1(x.flatten(1))))


class BasicBlock(nn.Module):
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


class ResNet20(nn.Module):
    def __init__(self, image, classes):
        super().__init__()
        self.conv1 = nn.Conv2d(image[0], 16, 3, 1, 1, bias=False)
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


MODELS = {"lenet": LeNet, "resnet20": ResNet20}
