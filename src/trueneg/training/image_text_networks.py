"""Networks of an image–text run, built from settings and sentences or restored from a finished run's file."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from safetensors.torch import load_file
from torch import Tensor

from trueneg.data.pairs.pair_source import PairSource
from trueneg.data.pairs.pair_splits import PairSubset, refuse_leakage
from trueneg.errors import UserError
from trueneg.losses import LogitScale
from trueneg.models.clip_encoders import Clip, ClipImageEncoder, clip_of, clip_tokenizer, load_clip
from trueneg.models.image_text import ImageTextModel
from trueneg.models.region_similarity import RegionSimilarity
from trueneg.models.spatial_encoders import build_spatial_encoder
from trueneg.models.text_encoders import BertTextEncoder, load_bert, small_bert
from trueneg.models.weights import refuse_unless_whole
from trueneg.text.tokenizing import train_tokenizer
from trueneg.training.radiograph_augmentation import RadiographAugmentation

if TYPE_CHECKING:
    from transformers import BertModel, PreTrainedTokenizerBase

# Entries of a finished run's file besides the model's tensors: JSON texts as bytes, and the image normalisation statistics.
TOKENIZER, TEXT_CONFIG, MEAN, STD = "text_encoder/tokenizer", "text_encoder/config", "images/mean", "images/std"
IMAGE_CONFIG = "image_encoder/config"  # for CLIP encoders only
RELEASED = "released"  # name of the projections released with both encoders, and of the objective that trains nothing

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
    """Build new networks; weights that are not loaded are drawn from torch's generator.

    Args:
        settings: resolved settings by section.
        sentences: training sentences, including repetitions; they define the vocabulary of a small text encoder.
        channels: number of image channels.
        statistics: mean and standard deviation of each channel.

    Raises:
        UserError: if a text encoder or trained weights cannot be loaded, or settings are incompatible.
    """
    encoder, text = settings["encoder"], settings["text_encoder"]
    texts, tokenizer = _build_texts(text, sentences)
    image_clip = None
    if encoder["name"] == "clip":
        image_clip = load_clip(encoder["model"], encoder["weights"])
        statistics = [0.0] * channels, [1.0] * channels  # CLIP encoders normalise images themselves
    networks = _assemble(settings, texts, image_clip, tokenizer, statistics)
    if image_clip is not None and settings["objective"]["name"] == RELEASED:
        scale = image_clip.logit_scale
        networks.model.logit_scale = LogitScale(scale, max(scale, settings["similarity"]["maximum_logit_scale"]))
    return networks


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
    as_bytes = {name: bytearray(json.dumps(content).encode()) for name, content in described.items()}
    return tensors | {name: torch.frombuffer(content, dtype=torch.uint8) for name, content in as_bytes.items()}


def read_networks(path: str | Path, settings: Settings) -> Networks:
    """Load the networks of a finished run on the CPU, in evaluation mode; no other files are needed.

    Args:
        path: the run's ``model.safetensors``.
        settings: settings of the run.

    Raises:
        UserError: if the file is missing, or does not contain the networks described by the settings.
    """
    from tokenizers import Tokenizer
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    encoder, text = settings["encoder"], settings["text_encoder"]
    with refuse_unless_whole(path, "the model of an image–text run with these settings", "Delete the run to train it again"):
        tensors = load_file(path)
        described, config = _read(tensors.pop(TOKENIZER)), _read(tensors.pop(TEXT_CONFIG))
        statistics = tensors.pop(MEAN).tolist(), tensors.pop(STD).tolist()
        tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(described["tokenizer"]), **described["special"])
        if text["name"] == "clip":
            texts: Any = clip_of(config)
        else:
            texts = _text_encoder(text, BertModel(BertConfig.from_dict(config), add_pooling_layer=False))
        image_clip = clip_of(_read(tensors.pop(IMAGE_CONFIG))) if encoder["name"] == "clip" else None
        # Pretrained weights of the image encoder would be overwritten immediately, so do not load them.
        untrained = {key: value for key, value in encoder.items() if key != "weights"}
        networks = _assemble({**settings, "encoder": untrained}, texts, image_clip, tokenizer, statistics)
        networks.model.load_state_dict(tensors)
    networks.model.eval()
    return networks


class ReleasedNetworks:
    """A run that uses released networks without training. The engine treats it as image–text training with zero epochs.

    Args:
        settings: see :class:`~trueneg.training.image_text.ImageText`; ``objective.name`` is ``released``.
        seed: the study's seed, which has no effect.
        source: images used for evaluation.
        subset: subset of the source.

    Raises:
        UserError: if the weights cannot be loaded, or a patient is in two splits.
    """

    epochs = epoch = update = updates = batch_size = 0

    def __init__(self, settings: Settings, seed: int, source: PairSource, subset: PairSubset, *_: object):
        refuse_leakage(source, subset)
        with torch.random.fork_rng(devices=[]):
            self._networks = build_networks(settings, [], source.images.shape[1], ([], []))

    def weights(self) -> dict[str, Tensor]:
        """Return the tensors that :func:`read_networks` restores."""
        return finished_tensors(self._networks)


def _build_texts(text: Mapping[str, Any], sentences: Sequence[str]) -> tuple[Any, Any]:
    """Return a text encoder or a whole CLIP, and its tokenizer."""
    if text["name"] == "clip":
        return load_clip(text["model"], text["weights"]), clip_tokenizer()
    if text["name"] == "pretrained":
        bert, tokenizer = load_bert(text["model"], revision=text["revision"], offline=text["offline"])
        return _text_encoder(text, bert), tokenizer
    try:
        tokenizer = train_tokenizer(sentences, text["vocabulary"], text["maximum_tokens"])
    except ValueError as error:
        raise UserError(f"text_encoder.{error}") from error
    shape = {key: text[key] for key in ("hidden", "layers", "heads", "maximum_tokens", "dropout")}
    return _text_encoder(text, small_bert(len(tokenizer), **shape)), tokenizer


def _text_encoder(text: Mapping[str, Any], bert: "BertModel") -> BertTextEncoder:
    return BertTextEncoder(bert, text["pooling"], text.get("frozen_layers"))


def _assemble(settings: Settings, texts: Any, image_clip: Any, tokenizer: Any, statistics: Any) -> Networks:
    """Build the networks; `texts` is a text encoder or a whole CLIP."""
    encoder, text, projection, similarity = (settings[name] for name in ("encoder", "text_encoder", "projection", "similarity"))
    text_encoder = texts.text_encoder if isinstance(texts, Clip) else texts
    projections, dimensions = projection["name"], projection["dimensions"]
    if projections == RELEASED:
        projections = image_clip.image_projection, texts.text_projection
        dimensions = image_clip.image_projection.dimensions
    # Keep the order of texts, similarity, images: the order of the draws determines the weights of a seed.
    regions = RegionSimilarity(
        similarity["aggregation"],
        lse_sharpness=similarity["lse_sharpness"],
        attention_scale=similarity["attention_scale"],
        mapped_dimensions=dimensions if similarity["learned_maps"] else None,
    )
    if image_clip is None:
        channels: Any = {"in_channels": len(statistics[0])} if encoder["name"] == "small" else {}
        images: Any = build_spatial_encoder(**encoder, **channels)
    else:
        images = image_clip.image_encoder
    images = images.to(memory_format=torch.channels_last)
    model = ImageTextModel(images, text_encoder, regions, dimensions=projection["dimensions"], projection=projections)
    model.logit_scale = LogitScale(similarity["logit_scale"], similarity["maximum_logit_scale"])
    model.logit_scale.requires_grad_(similarity["learned_logit_scale"])
    longest = min(text["maximum_tokens"] or text_encoder.maximum_tokens, text_encoder.maximum_tokens)
    return Networks(model, tokenizer, longest, RadiographAugmentation(*statistics, **settings["augmentation"]))


def _read(content: Tensor) -> Any:
    return json.loads(bytes(content.numpy()))
