"""Networks of an image–text run, built from settings and sentences or restored from a finished run's file."""

import json
import pkgutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from safetensors.torch import load_file
from torch import Tensor

from trueneg.errors import UserError
from trueneg.io.reading import reading
from trueneg.losses import LogitScale
from trueneg.models.clip_encoders import ClipImageEncoder
from trueneg.models.image_text import PROJECTIONS, ImageTextModel
from trueneg.models.image_text_encoders import IMAGE_CONFIG, Encoder, json_of
from trueneg.models.region_similarity import RegionSimilarity
from trueneg.models.text_encoders import BertTextEncoder
from trueneg.store.identity import model_of
from trueneg.training.radiograph_augmentation import RadiographAugmentation

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

# Entries of a finished run's file besides the model's tensors: JSON texts as bytes, and the image normalisation statistics.
TOKENIZER, TEXT_CONFIG, MEAN, STD = "text_encoder/tokenizer", "text_encoder/config", "images/mean", "images/std"

Settings = Mapping[str, Mapping[str, Any]]  # resolved, by section


class Networks(NamedTuple):
    """The networks that a run trains or has trained.

    Attributes:
        model: both encoders, projections, similarity and logit scale.
        tokenizer: tokenizer of the text encoder.
        maximum_tokens: maximum text length in tokens.
        augmentation: image augmentation; evaluation applies its ``normalise``.
    """

    model: ImageTextModel
    tokenizer: "PreTrainedTokenizerBase"
    maximum_tokens: int
    augmentation: RadiographAugmentation


def build_networks(
    settings: Settings, sentences: Sequence[str], channels: int, statistics: tuple[list[float], list[float]]
) -> Networks:
    """Build new networks; weights that are not loaded are drawn from torch's RNG.

    Args:
        settings: resolved settings by section.
        sentences: training sentences, including repetitions; they define the vocabulary of a small text encoder.
        channels: number of image channels.
        statistics: mean and standard deviation of each channel.

    Raises:
        UserError: if a text encoder or trained weights cannot be loaded, or settings are incompatible.
    """
    # Keep this order (texts, then images): the order of the random draws determines the weights of a seed.
    texts, tokenizer = encoder_of(settings, "text_encoder").build(settings["text_encoder"], sentences)
    kind = encoder_of(settings, "encoder")
    images = kind.build(settings["encoder"], channels)
    sizes = [getattr(encoder.projection, "dimensions", None) for encoder in (images, texts)]
    if _uses_released_projections(settings) and None not in sizes and sizes[0] != sizes[1]:
        mismatch = f"projects images to {sizes[0]} dimensions, but {settings['text_encoder']['projection']} projects texts to"
        raise UserError(f"{settings['encoder']['weights']} {mismatch} {sizes[1]}; use files from the same model.")
    if kind.normalises:
        statistics = [0.0] * channels, [1.0] * channels
    networks = _assemble(settings, texts, images, tokenizer, statistics)
    objective: Any = model_of(settings, "objective")
    if images.logit_scale is not None and not objective.TRAINED and _uses_released_projections(settings):
        maximum = max(images.logit_scale, settings["similarity"]["maximum_logit_scale"])
        networks.model.logit_scale = LogitScale(images.logit_scale, maximum)
    return networks


def encoder_of(settings: Settings, section: str) -> Any:
    """Return the class in :mod:`trueneg.models.image_text_encoders` of the section ``encoder`` or ``text_encoder``."""
    model: Any = model_of(settings, section)
    return pkgutil.resolve_name(model.IMPLEMENTATION)


def finished_tensors(networks: Networks) -> dict[str, Tensor]:
    """Return the contents of a finished run's file: the model's tensors and everything needed to use them, on the CPU."""
    model, tokenizer, augmentation = networks.model, networks.tokenizer, networks.augmentation
    texts, images = model.text_encoder, model.image_encoder
    described = {
        TOKENIZER: {"tokenizer": tokenizer.backend_tokenizer.to_str(), "special": dict(tokenizer.special_tokens_map)},
        TEXT_CONFIG: texts.bert.config.to_dict() if isinstance(texts, BertTextEncoder) else texts.config,
    }
    if isinstance(images, ClipImageEncoder):
        described[IMAGE_CONFIG] = images.config
    statistics = {MEAN: augmentation.mean.flatten(), STD: augmentation.std.flatten()}
    tensors = {name: value.detach().cpu().contiguous() for name, value in (model.state_dict() | statistics).items()}
    texts_as_bytes = {
        name: torch.frombuffer(bytearray(json.dumps(content).encode()), dtype=torch.uint8) for name, content in described.items()
    }
    return tensors | texts_as_bytes


def read_networks(path: str | Path, settings: Settings) -> Networks:
    """Load the networks of a finished run on the CPU, in evaluation mode; no other files are needed.

    Args:
        path: the run's ``model.safetensors``.
        settings: settings of the run.

    Raises:
        UserError: if the file is missing, or does not contain the networks described by the settings.
    """
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

    with reading(path, "the model of an image–text run with these settings", "Delete the run to train it again."):
        tensors = load_file(path)
        described, config = json_of(tensors.pop(TOKENIZER)), json_of(tensors.pop(TEXT_CONFIG))
        statistics = tensors.pop(MEAN).tolist(), tensors.pop(STD).tolist()
        tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(described["tokenizer"]), **described["special"])
        texts = encoder_of(settings, "text_encoder").restore(
            settings["text_encoder"], config, tensors, _uses_released_projections(settings)
        )
        images = encoder_of(settings, "encoder").restore(settings["encoder"], len(statistics[0]), tensors)
        networks = _assemble(settings, texts, images, tokenizer, statistics)
        networks.model.load_state_dict(tensors)
    networks.model.eval()
    return networks


def _uses_released_projections(settings: Settings) -> bool:
    return settings["projection"]["name"] not in PROJECTIONS  # those of new projections


def _assemble(settings: Settings, texts: Encoder, images: Encoder, tokenizer: Any, statistics: Any) -> Networks:
    text, projection, similarity = (settings[name] for name in ("text_encoder", "projection", "similarity"))
    released = (images.projection, texts.projection) if _uses_released_projections(settings) else None
    regions = RegionSimilarity(
        similarity["aggregation"], lse_sharpness=similarity["lse_sharpness"], attention_scale=similarity["attention_scale"]
    )
    image_encoder = images.network.to(memory_format=torch.channels_last)
    projections, dimensions = released or projection["name"], projection["dimensions"]
    model = ImageTextModel(image_encoder, texts.network, regions, dimensions=dimensions, projection=projections)
    model.logit_scale = LogitScale(similarity["logit_scale"], similarity["maximum_logit_scale"])
    model.logit_scale.requires_grad_(similarity["learned_logit_scale"])
    longest = min(text["maximum_tokens"] or texts.network.maximum_tokens, texts.network.maximum_tokens)
    return Networks(model, tokenizer, longest, RadiographAugmentation(*statistics, **settings["augmentation"]))
