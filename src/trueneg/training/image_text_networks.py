"""Networks of an image–text run, built from settings and sentences or restored from a finished
run's file.
"""

import functools
import json
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors.torch import load_file
from torch import Tensor

from trueneg.data.stored_features import StoredFeatures
from trueneg.errors import UserError
from trueneg.io.reading import reading
from trueneg.losses import LogitScale
from trueneg.models.image_text import PROJECTIONS, ImageTextModel, SharedSpace
from trueneg.models.image_text_encoders import Encoder, json_of
from trueneg.models.region_similarity import RegionSimilarity
from trueneg.models.towers.stored import StoredTower, StoredViews
from trueneg.models.towers.tower import Tower
from trueneg.specs.temperature import temperature_of
from trueneg.store.identity import model_of
from trueneg.training.frozen import (
    NO_REGIONS,
    NOTHING_FROZEN,
    Frozen,
    build_tower,
    is_tower,
    packed,
    restore_tower,
)
from trueneg.training.radiograph_augmentation import RadiographAugmentation

# Entries of a finished run's file besides the model's tensors: JSON texts as bytes, and the image
# normalisation statistics.
TOKENIZER, TEXT_CONFIG, MEAN, STD = (
    "text_encoder/tokenizer",
    "text_encoder/config",
    "images/mean",
    "images/std",
)

Settings = Mapping[str, Mapping[str, Any]]  # resolved, by section


class Networks(NamedTuple):
    """The networks that a run trains or has trained.

    Attributes:
        model: both encoders, projections, similarity and logit scale.
        tokenizer: tokenizer of the text encoder; None: it is a tower, which has its own.
        maximum_tokens: maximum text length in tokens; None: no limit.
        augmentation: image augmentation; evaluation applies its ``normalise``.
        settings: the run's settings.
        frozen: stored vectors of the frozen towers.
    """

    model: ImageTextModel
    tokenizer: Any
    maximum_tokens: Any
    augmentation: Any
    settings: Settings
    frozen: Frozen = NOTHING_FROZEN


def build_networks(
    settings: Settings,
    sentences: Sequence[str],
    channels: int,
    statistics: tuple[list[float], list[float]],
    frozen: Frozen = NOTHING_FROZEN,
) -> Networks:
    """Build new networks; weights that are not loaded are drawn from torch's RNG.

    Args:
        settings: resolved settings by section.
        sentences: training sentences, including repetitions; they define the vocabulary of a small
            text encoder.
        channels: number of image channels.
        statistics: mean and standard deviation of each channel.
        frozen: stored vectors, in place of the frozen towers.

    Raises:
        UserError: if a text encoder or trained weights cannot be loaded, or settings are
            incompatible.
    """
    # Keep this order (texts, then images): the order of the random draws determines the weights of
    # a seed.
    if is_tower(settings, "text_encoder"):
        texts, tokenizer = _of_tower(settings, "text_encoder", frozen.texts, build_tower), None
    else:
        texts, tokenizer = encoder_of(settings, "text_encoder").build(
            settings["text_encoder"], sentences
        )
    if is_tower(settings, "encoder"):
        images = _of_tower(settings, "encoder", frozen.images, build_tower)
    else:
        images = encoder_of(settings, "encoder").build(settings["encoder"], channels)
    sizes = [getattr(encoder.projection, "dimensions", None) for encoder in (images, texts)]
    if _uses_released_projections(settings) and None not in sizes and sizes[0] != sizes[1]:
        image, text = settings["encoder"], settings["text_encoder"]
        files = (
            image.get("weights") or image.get("path"),
            text.get("projection") or text.get("path"),
        )
        mismatch = (
            f"{files[0]} has {sizes[0]} dimensions in the released space, but {files[1]} has"
            f" {sizes[1]}"
        )
        raise UserError(f"{mismatch}; use files from the same model.")
    if normalises(settings):
        statistics = [0.0] * channels, [1.0] * channels
    networks = _assemble(settings, texts, images, tokenizer, statistics, frozen)
    objective: Any = model_of(settings, "objective")
    if (
        images.logit_scale is not None
        and not objective.TRAINED
        and _uses_released_projections(settings)
    ):
        maximum = max(images.logit_scale, temperature_of(settings).maximum_logit_scale)
        networks.model.logit_scale = LogitScale(images.logit_scale, maximum)
    return networks


def normalises(settings: Settings) -> bool:
    """Return whether the image encoder, and not the augmentation, normalises images."""
    return is_tower(settings, "encoder") or encoder_of(settings, "encoder").normalises


def _of_tower(
    settings: Settings, section: str, stored: StoredFeatures | None, build: Callable
) -> Encoder:
    """Return an encoder from stored vectors or, if the tower is trained, from the tower that
    `build` returns.
    """
    tower: Any = (
        build(settings, section) if stored is None else StoredTower(stored.dimensions, stored.grid)
    )
    if (
        section == "encoder"
        and settings["similarity"]["aggregation"] != "global"
        and tower.grid is None
    ):
        raise UserError(
            NO_REGIONS.format(section=section, model=settings[section].get("model", "vectors"))
        )
    return Encoder(tower, SharedSpace(tower.dimensions), getattr(tower, "logit_scale", None))


def encoder_of(settings: Settings, section: str) -> Any:
    """Return the class in :mod:`trueneg.models.image_text_encoders` of the section ``encoder`` or
    ``text_encoder``.
    """
    model: Any = model_of(settings, section)
    return pkgutil.resolve_name(model.IMPLEMENTATION)


def finished_tensors(networks: Networks) -> dict[str, Tensor]:
    """Return the contents of a finished run's file: the model's tensors and everything needed to
    use them, on the CPU.
    """
    model, tokenizer, augmentation = networks.model, networks.tokenizer, networks.augmentation
    texts, images = model.text_encoder, model.image_encoder
    entries = dict(model.state_dict())
    if isinstance(augmentation, RadiographAugmentation):
        entries |= {MEAN: augmentation.mean.flatten(), STD: augmentation.std.flatten()}
    if tokenizer is not None:
        special = {
            "tokenizer": tokenizer.backend_tokenizer.to_str(),
            "special": dict(tokenizer.special_tokens_map),
        }
        for name, content in {TOKENIZER: special, TEXT_CONFIG: texts.bert.config.to_dict()}.items():
            entries[name] = torch.frombuffer(
                bytearray(json.dumps(content).encode()), dtype=torch.uint8
            )
    for section, tower in (("encoder", images), ("text_encoder", texts)):
        entries |= packed(tower, section) if isinstance(tower, Tower) else {}
    return {name: value.detach().cpu().contiguous() for name, value in entries.items()}


def read_networks(
    path: str | Path, settings: Settings, frozen: Frozen = NOTHING_FROZEN
) -> Networks:
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
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

    with reading(
        path,
        "the model of an image–text run with these settings",
        "Delete the run to train it again.",
    ):
        tensors, tokenizer = load_file(path), None
        restore = functools.partial(restore_tower, tensors=tensors)
        statistics = (
            [tensors.pop(name).tolist() for name in (MEAN, STD)]
            if frozen.images is None
            else ([0.0], [1.0])
        )
        if is_tower(settings, "text_encoder"):
            texts = _of_tower(settings, "text_encoder", frozen.texts, restore)
        else:
            described, config = json_of(tensors.pop(TOKENIZER)), json_of(tensors.pop(TEXT_CONFIG))
            backend = Tokenizer.from_str(described["tokenizer"])
            tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, **described["special"])
            released = _uses_released_projections(settings)
            texts = encoder_of(settings, "text_encoder").restore(
                settings["text_encoder"], config, tensors, released
            )
        if is_tower(settings, "encoder"):
            images = _of_tower(settings, "encoder", frozen.images, restore)
        else:
            images = encoder_of(settings, "encoder").restore(
                settings["encoder"], len(statistics[0]), tensors
            )
        networks = _assemble(settings, texts, images, tokenizer, statistics, frozen)
        networks.model.load_state_dict(tensors)
    networks.model.eval()
    return networks


def initial_logit_scale(settings: Settings) -> LogitScale:
    """Return the module that holds the run's temperature."""
    temperature = temperature_of(settings)
    scale = LogitScale(temperature.logit_scale, temperature.maximum_logit_scale)
    return scale.requires_grad_(temperature.learned)


def _uses_released_projections(settings: Settings) -> bool:
    return settings["projection"]["name"] not in PROJECTIONS  # those of new projections


def _assemble(
    settings: Settings,
    texts: Encoder,
    images: Encoder,
    tokenizer: Any,
    statistics: Any,
    frozen: Frozen,
) -> Networks:
    text, projection, similarity = (
        settings[name] for name in ("text_encoder", "projection", "similarity")
    )
    released = (
        (images.projection, texts.projection) if _uses_released_projections(settings) else None
    )
    regions = RegionSimilarity(
        similarity["aggregation"],
        lse_sharpness=similarity["lse_sharpness"],
        attention_scale=similarity["attention_scale"],
    )
    image_encoder = images.network.to(memory_format=torch.channels_last)
    head: Any = {key: projection.get(key) for key in ("dimensions", "hidden")} | {
        "dropout": projection.get("dropout", 0.0)
    }
    model = ImageTextModel(
        image_encoder, texts.network, regions, projection=released or projection["name"], **head
    )
    model.logit_scale = initial_logit_scale(settings)
    longest = texts.network.maximum_tokens
    longest = min(text.get("maximum_tokens") or longest, longest) if longest else longest
    if frozen.images is None:
        augmentation: Any = RadiographAugmentation(*statistics, **settings["augmentation"])
    else:
        augmentation = StoredViews(frozen.images.values.shape[1])
    return Networks(model, tokenizer, longest, augmentation, settings, frozen)
