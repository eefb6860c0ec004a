"""BioViL (Boecking et al., 2022): its image encoder and both projections, from files in the layout
of hi-ml-multimodal.

========================  ==========================================================================
names in a file           module
========================  ==========================================================================
``encoder.encoder.*``     torchvision's ResNet; the unused classifier ``fc`` is ignored
``projector.model.*``     projection of feature maps, :class:`RegionProjection`
``cls_projection_head.*`` projection of CXR-BERT's first token, :class:`TextProjection`, in the file
of the text model
========================  ==========================================================================
"""

from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path

from torch import Tensor, nn

from trueneg.io.reading import reading
from trueneg.models.spatial_encoders import SpatialResNet
from trueneg.models.towers.tower import Embedded
from trueneg.models.weights import read_tensors

# D in the released networks; used only if a file lacks the projection, which is then reported
DIMENSIONS = 128


class RegionProjection(nn.Sequential):
    """Two 1×1 convolutions of feature maps with batch norm and ReLU; a pooled image is the mean of
    its projected regions.

    Args:
        channels: C of the feature maps.
        dimensions: D, size of the shared space and of the hidden layer.
    """

    projects_maps = True

    def __init__(self, channels: int, dimensions: int) -> None:
        hidden = (
            nn.Conv2d(channels, dimensions, 1, bias=False),
            nn.BatchNorm2d(dimensions),
            nn.ReLU(inplace=True),
        )
        super().__init__(*hidden, nn.Conv2d(dimensions, dimensions, 1))
        self.dimensions = dimensions

    def forward(self, features: Tensor, *, regions: bool = False) -> Embedded:
        """Embed feature maps (I, C, h, w): pooled (I, D) and, if requested, per region (I, D, h,
        w).
        """
        projected = super().forward(features)
        return Embedded(projected.mean((2, 3)), projected if regions else None)


class TextProjection(nn.Sequential):
    """CXR-BERT's projection head: linear, GELU, layer norm, linear.

    Args:
        hidden: H, size of a text's vector.
        dimensions: D, size of the shared space.
    """

    def __init__(self, hidden: int, dimensions: int) -> None:
        first = {"dense_to_hidden": nn.Linear(hidden, dimensions), "transform_act_fn": nn.GELU()}
        last = {
            "LayerNorm": nn.LayerNorm(dimensions, eps=1e-12),
            "dense_to_output": nn.Linear(dimensions, dimensions),
        }
        super().__init__(OrderedDict(**first, **last))
        self.dimensions = dimensions


def image_model(
    state: Mapping[str, Tensor], encoder: str, projection: str
) -> tuple[SpatialResNet, RegionProjection]:
    """Build the image encoder and projection with the shapes found under these prefixes of a state
    dict; load no weights.
    """
    is_basic = (
        f"{encoder}layer1.0.conv1.weight" in state
        and f"{encoder}layer1.0.conv3.weight" not in state
    )
    images = SpatialResNet("resnet18" if is_basic else "resnet50")
    return images, RegionProjection(
        images.dimensions, len(state.get(f"{projection}0.weight", range(DIMENSIONS)))
    )


def text_projection(state: Mapping[str, Tensor], prefix: str, hidden: int) -> TextProjection:
    """Build the text projection with the size found under this prefix of a state dict; load no
    weights.
    """
    return TextProjection(
        hidden, len(state.get(f"{prefix}dense_to_hidden.weight", range(DIMENSIONS)))
    )


def load_image_model(path: str | Path) -> tuple[SpatialResNet, RegionProjection]:
    """Load the image encoder, a ResNet-50 or ResNet-18, and its projection, in evaluation mode.

    Raises:
        UserError: if the file cannot be read, or tensors are missing, unexpected or of the wrong
            shape.
    """
    state = {
        name: value
        for name, value in read_tensors(path).items()
        if not name.startswith("encoder.encoder.fc.")
    }
    images, projection = image_model(state, "encoder.encoder.", "projector.model.")
    expected = "hi-ml-multimodal's ImageModel, such as biovil_image_resnet50_proj_size_128.pt"
    with reading(path, expected, "Use that file."):
        encoder = nn.ModuleDict({"encoder": images})
        projector = nn.ModuleDict({"model": projection})
        both = nn.ModuleDict({"encoder": encoder, "projector": projector})
        both.load_state_dict(state)
    return images.eval(), projection.eval()


def load_text_projection(path: str | Path, hidden: int) -> TextProjection:
    """Load the text projection for vectors of size `hidden`; other tensors in the file are ignored.

    Raises:
        UserError: if the file cannot be read, or the projection's tensors are missing, unexpected
            or of the wrong shape.
    """
    prefix = "cls_projection_head."
    state = {name: value for name, value in read_tensors(path).items() if name.startswith(prefix)}
    projection = text_projection(state, prefix, hidden)
    expected = "the weights of CXR-BERT-specialized, with its projection head"
    with reading(path, expected, "Use that file."):
        nn.ModuleDict({"cls_projection_head": projection}).load_state_dict(state)
    return projection.eval()
