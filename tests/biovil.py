"""Small files in the layout of BioViL's released weights, with random tensors, and reference
networks for them.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torchvision.models import resnet18

DIMENSIONS = 12


class OfficialImageModel(nn.Module):
    """A network with the names and the forward pass of hi-ml-multimodal's ``ImageModel``, with a
    ResNet-18.
    """

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.projector = nn.Module(), nn.Module()
        self.encoder.encoder = resnet18()
        self.projector.model = nn.Sequential(
            nn.Conv2d(512, DIMENSIONS, 1, bias=False),
            nn.BatchNorm2d(DIMENSIONS),
            nn.ReLU(),
            nn.Conv2d(DIMENSIONS, DIMENSIONS, 1),
        )

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Return the pooled embedding and those of the patches."""
        network = self.encoder.encoder
        found = network.maxpool(network.relu(network.bn1(network.conv1(images))))
        patches = self.projector.model(
            network.layer4(network.layer3(network.layer2(network.layer1(found))))
        )
        return patches.mean((2, 3)), patches


def official_image_model() -> OfficialImageModel:
    """Return the network with random weights and statistics, in evaluation mode."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = OfficialImageModel()
        for name, tensor in model.state_dict().items():
            if "bn" in name or "downsample.1" in name or "model.1" in name:
                tensor.copy_((tensor + 0.1 * torch.rand(tensor.shape)).to(tensor.dtype))
    return model.eval()


def official_projection_head(hidden: int) -> dict[str, Tensor]:
    """Tensors of CXR-BERT's ``cls_projection_head``."""
    generator = torch.Generator().manual_seed(0)
    shapes = {
        "dense_to_hidden.weight": (DIMENSIONS, hidden),
        "dense_to_hidden.bias": (DIMENSIONS,),
        "LayerNorm.weight": (DIMENSIONS,),
        "LayerNorm.bias": (DIMENSIONS,),
        "dense_to_output.weight": (DIMENSIONS, DIMENSIONS),
        "dense_to_output.bias": (DIMENSIONS,),
    }
    return {
        f"cls_projection_head.{name}": torch.randn(shape, generator=generator)
        for name, shape in shapes.items()
    }


def official_text_embedding(first_token: Tensor, head: Mapping[str, Tensor]) -> Tensor:
    """What CXR-BERT computes from the vector of the first token (B, H)."""
    own = {name.removeprefix("cls_projection_head."): value for name, value in head.items()}
    hidden = functional.gelu(
        first_token @ own["dense_to_hidden.weight"].T + own["dense_to_hidden.bias"]
    )
    spread = (hidden.var(1, unbiased=False, keepdim=True) + 1e-12).sqrt()
    normed = (hidden - hidden.mean(1, keepdim=True)) / spread * own["LayerNorm.weight"] + own[
        "LayerNorm.bias"
    ]
    return normed @ own["dense_to_output.weight"].T + own["dense_to_output.bias"]


def write_pickles(folder: Path, bert: Any) -> dict[str, Path]:
    """Write the files of the hub: the image model, and the text model with its other heads and tied
    tensors.
    """
    paths = {"image": folder / "image.pt", "text": folder / "pytorch_model.bin"}
    torch.save(official_image_model().state_dict(), paths["image"])
    torch.save(bert.state_dict() | official_projection_head(bert.config.hidden_size), paths["text"])
    return paths
