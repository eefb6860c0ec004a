"""Networks of a run on pairs, built from settings and training data or restored from a finished
run's file.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from safetensors.torch import load_file
from torch import Tensor, nn

from trueneg.errors import UserError
from trueneg.io.reading import reading
from trueneg.losses import LogitScale
from trueneg.models.pairs import PairModel
from trueneg.models.projection import build_head
from trueneg.models.region_similarity import RegionSimilarity
from trueneg.specs.sections import RunSettings
from trueneg.specs.temperature import temperature_of
from trueneg.store.identity import model_of
from trueneg.training.frozen import NOTHING_FROZEN, Frozen
from trueneg.training.sides import sides_of
from trueneg.training.sides.base import Side, TrainingData, uses_released
from trueneg.training.sides.text import TextSide


class PairNetworks(NamedTuple):
    """The networks that a run trains or has trained.

    Attributes:
        model: encoders, projections, similarity and logit scale.
        anchors: the side of the anchors.
        columns: the side of the columns; the same as `anchors` if they share an encoder.
        settings: the run's settings.
        frozen: stored vectors of the frozen towers.
    """

    model: PairModel
    anchors: TextSide
    columns: Any  # a Side; evaluations know which
    settings: RunSettings
    frozen: Frozen = NOTHING_FROZEN

    @property
    def sides(self) -> tuple[Side, Side]:
        """The sides of the anchors and of the columns."""
        return self.anchors, self.columns

    def tensors(self) -> dict[str, Tensor]:
        """Return the contents of a finished run's file: the model's tensors and everything needed
        to use them, on the CPU.
        """
        entries = self.model.state_dict() | self.anchors.entries() | self.columns.entries()
        return {name: value.detach().cpu().contiguous() for name, value in entries.items()}


def build_networks(
    settings: RunSettings, data: TrainingData, frozen: Frozen = NOTHING_FROZEN
) -> PairNetworks:
    """Build new networks; weights that are not loaded are drawn from torch's RNG.

    Args:
        settings: resolved settings by section.
        data: the training split, or what new encoders take from it.
        frozen: stored vectors, in place of the frozen towers.

    Raises:
        UserError: if an encoder or trained weights cannot be loaded, or settings are incompatible.
    """
    networks = _networks(settings, frozen, lambda side: side.build(data))
    objective: Any = model_of(settings, "objective")
    released = networks.columns.logit_scale
    if released is not None and not objective.TRAINED and uses_released(settings):
        maximum = max(released, temperature_of(settings).maximum_logit_scale)
        networks.model.logit_scale = LogitScale(released, maximum)
    return networks


def read_networks(
    path: str | Path, settings: RunSettings, frozen: Frozen = NOTHING_FROZEN
) -> PairNetworks:
    """Load the networks of a finished run on the CPU, in evaluation mode; no other files are
    needed.

    Args:
        path: the run's ``model.safetensors``.
        settings: settings of the run.
        frozen: stored vectors of the run's frozen towers.

    Raises:
        UserError: if the file is missing, or does not contain the networks described by the
            settings.
    """
    expected = "the model of a run on pairs with these settings"
    with reading(path, expected, "Delete the run to train it again."):
        tensors = load_file(path)
        networks = _networks(settings, frozen, lambda side: side.restore(tensors))
        networks.model.load_state_dict(tensors)
    networks.model.eval()
    return networks


def _networks(
    settings: RunSettings, frozen: Frozen, make_encoder: Callable[[Side], None]
) -> PairNetworks:
    anchors, columns = sides_of(settings, frozen)
    modules: dict[str, nn.Module] = {}
    # Keep the order of the random draws, which determines the weights of a seed.
    if anchors.modality == columns.modality:
        for side in dict.fromkeys((anchors, columns)):
            make_encoder(side)
            modules[f"{side.prefix}encoder"] = side.encoder
            modules[f"{side.prefix}projection"] = _head(settings, side, columns)
        _refuse_other_sizes(settings, anchors, columns)
    else:
        make_encoder(anchors)
        make_encoder(columns)
        _refuse_other_spaces(settings, anchors, columns)
        for side in (columns, anchors):
            modules[f"{side.prefix}encoder"] = side.encoder
        for side in (columns, anchors):
            modules[f"{side.prefix}projection"] = _head(settings, side, columns)
    described = settings["similarity"]
    similarity = RegionSimilarity(
        described.get("aggregation", "global"),
        lse_sharpness=described.get("lse_sharpness"),
        attention_scale=described.get("attention_scale"),
    )
    temperature = temperature_of(settings)
    scale = LogitScale(temperature.logit_scale, temperature.maximum_logit_scale)
    scale.requires_grad_(temperature.learned)
    return PairNetworks(PairModel(modules, similarity, scale), anchors, columns, settings, frozen)


def _head(settings: RunSettings, side: Side, columns: Side) -> nn.Module:
    """Return the projection of a side's encoder to the shared space."""
    projection = settings["projection"]
    if uses_released(settings):
        released: Any = side.released
        return released
    if projection["name"] != "none":
        return build_head(
            side.encoder.dimensions,
            name=projection["name"],
            hidden=projection.get("hidden"),
            dimensions=projection.get("dimensions"),
            dropout=projection.get("dropout", 0.0),
        )
    # the shared space is that of the columns' encoder
    if side.modality == columns.modality:
        return nn.Identity()
    return nn.Linear(side.encoder.dimensions, columns.encoder.dimensions)


def _refuse_other_sizes(settings: RunSettings, anchors: Side, columns: Side) -> None:
    """Raise an error if two towers without heads have vectors of different sizes."""
    sizes = [side.encoder.dimensions for side in (anchors, columns)]
    if sizes[0] != sizes[1] and settings["projection"].get("dimensions") is None:
        problem = f"{anchors.section} has {sizes[0]} dimensions, and {columns.section} {sizes[1]}"
        raise UserError(
            f"{problem}; expected embeddings of the same size. Use a head, and set"
            " projection.dimensions."
        )


def _refuse_other_spaces(settings: RunSettings, anchors: Side, columns: Side) -> None:
    """Raise an error if the released projections lead to spaces of different sizes."""
    sizes = [getattr(side.released, "dimensions", None) for side in (columns, anchors)]
    if not uses_released(settings) or None in sizes or sizes[0] == sizes[1]:
        return
    image = settings[columns.section]
    text = settings[anchors.section]
    files = (
        image.get("weights") or image.get("path"),
        text.get("projection") or text.get("path"),
    )
    raise UserError(
        f"{files[0]} has {sizes[0]} dimensions in the released space, but {files[1]} has"
        f" {sizes[1]}; use files from the same model."
    )
