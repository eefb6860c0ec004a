"""Networks of a text run, built from settings or restored from a finished run's file."""

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from safetensors.torch import load_file
from torch import Tensor

from trueneg.errors import UserError
from trueneg.io.reading import reading
from trueneg.models.text_pairs import TextEmbedder, TextPairModel
from trueneg.models.towers.stored import StoredTower
from trueneg.training.frozen import NOTHING_FROZEN, Frozen, build_tower, packed, restore_tower
from trueneg.training.image_text_networks import Networks, initial_logit_scale

Settings = Mapping[str, Mapping[str, Any]]  # resolved, by section
ANCHORS, POSITIVES = "text_encoder", "positive_encoder"  # sections of the towers


class TextNetworks(NamedTuple):
    """The networks that a run trains or has trained.

    Attributes:
        model: towers, heads and logit scale.
        settings: the run's settings.
        frozen: stored vectors of the frozen towers.
    """

    model: TextPairModel
    settings: Settings
    frozen: Frozen = NOTHING_FROZEN

    def side(self, section: str) -> Networks:
        """Return the networks that embed the texts of one side, as
        :func:`~trueneg.training.text_inputs.text_inputs` takes them.

        Args:
            section: ``text_encoder`` for anchors, or ``positive_encoder``, which may be the same
                tower.
        """
        if section not in self.settings:
            section = ANCHORS
        embedder: Any = self.model.anchors if section == ANCHORS else self.model.positives
        settings = {**self.settings, ANCHORS: self.settings[section]}
        frozen = self.frozen._replace(texts=self.frozen.of_texts[section])
        return Networks(embedder, None, None, None, settings, frozen)


def build_text_networks(
    settings: Settings, frozen: Frozen = NOTHING_FROZEN, build: Callable = build_tower
) -> TextNetworks:
    """Build new networks; weights that are not loaded are drawn from torch's RNG.

    Args:
        settings: resolved settings by section.
        frozen: stored vectors, in place of the frozen towers.
        build: returns the tower of a section.

    Raises:
        UserError: if a tower or its weights cannot be obtained, or two towers without heads have
            vectors of different sizes.
    """
    embedders = []
    for section in (ANCHORS, POSITIVES) if POSITIVES in settings else (ANCHORS,):
        stored = frozen.of_texts[section]
        tower: Any = build(settings, section) if stored is None else StoredTower(stored.dimensions)
        embedders.append(TextEmbedder(tower, settings["projection"]))
    sizes = [embedder.text_encoder.dimensions for embedder in embedders]
    if len(set(sizes)) > 1 and settings["projection"].get("dimensions") is None:
        problem = f"text_encoder has {sizes[0]} dimensions, and positive_encoder {sizes[1]}"
        raise UserError(
            f"{problem}; expected embeddings of the same size. Use a head, and set"
            " projection.dimensions."
        )
    positives = embedders[1] if embedders[1:] else None
    model = TextPairModel(embedders[0], positives, initial_logit_scale(settings))
    return TextNetworks(model, settings, frozen)


def finished_tensors(networks: TextNetworks) -> dict[str, Tensor]:
    """Return the contents of a finished run's file, on the CPU: the model's tensors, and the files
    that rebuild its towers.
    """
    entries = dict(networks.model.state_dict())
    for section in (ANCHORS, POSITIVES) if POSITIVES in networks.settings else (ANCHORS,):
        entries |= packed(networks.side(section).model.text_encoder, section)
    return {name: value.detach().cpu().contiguous() for name, value in entries.items()}


def read_text_networks(
    path: str | Path, settings: Settings, frozen: Frozen = NOTHING_FROZEN
) -> TextNetworks:
    """Load the networks of a finished run on the CPU, in evaluation mode; no other files are
    needed.

    Raises:
        UserError: if the file is missing, or does not contain the networks described by the
            settings.
    """
    with reading(
        path, "the model of a text run with these settings", "Delete the run to train it again."
    ):
        tensors = load_file(path)
        networks = build_text_networks(
            settings, frozen, functools.partial(restore_tower, tensors=tensors)
        )
        networks.model.load_state_dict(tensors)
    networks.model.eval()
    return networks
