"""SimCLR on synthetic images, from the pixels to a kNN accuracy, in seconds on one CPU core.

The classes are ten directions of stripes in noise. Training uses no labels, so that a tenth of all
negatives are false; DCL subtracts their expected share. ``--estimator cl`` corrects nothing, and
``--estimator oracle`` leaves the false negatives out. One run does not show which is better.

    python examples/simclr.py --estimator dcl
"""

import argparse
import math

import torch
from torch import Tensor, nn

from trueneg.losses import ContrastiveLoss, Debiased, Oracle, Uncorrected

CLASSES = 10
SIZE, VIEW = 24, 16  # pixels of an image, and of a view
ESTIMATORS = {"cl": Uncorrected(), "dcl": Debiased(1 / CLASSES), "oracle": Oracle()}


def draw_images(count: int) -> tuple[Tensor, Tensor]:
    """Return (count, 1, SIZE, SIZE) images and their classes."""
    labels = torch.arange(count) % CLASSES
    angle = (math.pi * labels / CLASSES).view(-1, 1, 1, 1)
    wavelength = torch.empty(count, 1, 1, 1).uniform_(4, 7)
    phase = torch.empty(count, 1, 1, 1).uniform_(0, 2 * math.pi)
    y, x = torch.meshgrid(torch.arange(SIZE), torch.arange(SIZE), indexing="ij")
    position = x * angle.cos() + y * angle.sin()
    stripes = (2 * math.pi * position / wavelength + phase).sin()
    return stripes + 2 * torch.randn(stripes.shape), labels


def augment(images: Tensor) -> Tensor:
    """Return a random crop of each image, (B, 1, VIEW, VIEW), with random contrast."""
    corners = torch.randint(SIZE - VIEW + 1, (len(images), 2)).tolist()
    crops = [
        image[:, top : top + VIEW, left : left + VIEW]
        for image, (top, left) in zip(images, corners, strict=True)
    ]
    return torch.stack(crops) * torch.empty(len(images), 1, 1, 1).uniform_(0.5, 1.5)


def build_encoder() -> nn.Sequential:
    layers: list[nn.Module] = []
    for channels, wider, stride in ((1, 16, 1), (16, 32, 2), (32, 32, 2)):
        convolution = nn.Conv2d(channels, wider, 3, stride, padding=1)
        layers += [convolution, nn.BatchNorm2d(wider), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())


@torch.no_grad()
def knn_accuracy(
    encoder: nn.Module, training: tuple[Tensor, Tensor], neighbours: int = 10
) -> float:
    """Return the accuracy on 500 new images of a vote among the nearest training images."""
    images, labels = draw_images(500)
    encoder.eval()
    known, new = (nn.functional.normalize(encoder(each), dim=1) for each in (training[0], images))
    encoder.train()
    nearest = (new @ known.T).topk(neighbours).indices
    return (training[1][nearest].mode().values == labels).float().mean().item()


def main() -> None:
    parser = argparse.ArgumentParser(description="SimCLR on synthetic images.")
    parser.add_argument("--estimator", choices=ESTIMATORS, default="dcl")
    parser.add_argument("--epochs", type=int, default=10)
    options = parser.parse_args()

    torch.manual_seed(0)
    images, labels = draw_images(1000)
    encoder = build_encoder()
    head = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 32))
    loss = ContrastiveLoss(ESTIMATORS[options.estimator], temperature=0.5)
    optimizer = torch.optim.Adam([*encoder.parameters(), *head.parameters()], lr=3e-3)
    print(f"untrained: kNN accuracy {knn_accuracy(encoder, (images, labels)):.1%}")
    for epoch in range(1, options.epochs + 1):
        values = []
        for batch in torch.randperm(len(images)).split(125):
            z1, z2 = (head(encoder(augment(images[batch]))) for _ in range(2))
            # only the oracle uses labels; without "ignore", the others would refuse them
            value = loss(z1, z2, labels=labels[batch], unused="ignore")
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
            values.append(value.item())
        mean = sum(values) / len(values)
        accuracy = knn_accuracy(encoder, (images, labels))
        print(f"epoch {epoch}: loss {mean:.3f}, kNN accuracy {accuracy:.1%}")


if __name__ == "__main__":
    main()
