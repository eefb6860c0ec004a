"""Networks of an image–text run, built from settings and sentences or restored from a finished run's file."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from safetensors.torch import load_file
from torch import Tensor

from trueneg.errors import UserError
from trueneg.io.reading import reading
from trueneg.losses import LogitScale
from trueneg.models.biovil import image_model, load_image_model, load_text_projection, text_projection
from trueneg.models.clip_encoders import ClipImageEncoder, clip_of, clip_tokenizer, load_clip
from trueneg.models.image_text import ImageTextModel
from trueneg.models.region_similarity import RegionSimilarity
from trueneg.models.spatial_encoders import build_spatial_encoder
from trueneg.models.text_encoders import BertTextEncoder, load_bert, small_bert
from trueneg.text.tokenizing import train_tokenizer
from trueneg.training.radiograph_augmentation import RadiographAugmentation

if TYPE_CHECKING:
    from transformers import BertModel, PreTrainedTokenizerBase

Encoder = tuple[Any, Any]  # an encoder, and the projection released with it, or None

# Entries of a finished run's file besides the model's tensors: JSON texts as bytes, and the image normalisation statistics.
TOKENIZER, TEXT_CONFIG, MEAN, STD = "text_encoder/tokenizer", "text_encoder/config", "images/mean", "images/std"
IMAGE_CONFIG = "image_encoder/config"  # for CLIP encoders only
RELEASED = "released"  # name of the projections released with both encoders, and of the objective that evaluates these networks

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
    encoder, text = settings["encoder"], settings["text_encoder"]
    texts, tokenizer = _build_texts(text, sentences)
    images: Encoder | None = None
    clip = None
    if encoder["name"] == "clip":
        clip = load_clip(encoder["model"], encoder["weights"])
        images = clip.image_encoder, clip.image_projection
    elif encoder["name"] == "biovil":
        images = load_image_model(encoder["weights"])
        sizes = [getattr(projection, "dimensions", None) for _, projection in (images, texts)]
        if settings["projection"]["name"] == RELEASED and sizes[0] != sizes[1]:
            mismatch = f"projects images to {sizes[0]} dimensions, but {text['projection']} projects texts to {sizes[1]}"
            raise UserError(f"{encoder['weights']} {mismatch}; use files from the same model.")
    if images is not None:
        statistics = [0.0] * channels, [1.0] * channels  # CLIP normalises images itself; BioViL uses unnormalised ones
    networks = _assemble(settings, texts, images, tokenizer, statistics)
    if clip is not None and settings["objective"]["name"] == RELEASED:
        scale = clip.logit_scale
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
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    encoder, text = settings["encoder"], settings["text_encoder"]
    with reading(path, "the model of an image–text run with these settings", "Delete the run to train it again."):
        tensors = load_file(path)
        described, config = _read(tensors.pop(TOKENIZER)), _read(tensors.pop(TEXT_CONFIG))
        statistics = tensors.pop(MEAN).tolist(), tensors.pop(STD).tolist()
        tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(described["tokenizer"]), **described["special"])
        texts: Encoder
        images: Encoder | None = None
        if text["name"] == "clip":
            clip = clip_of(config)
            texts = clip.text_encoder, clip.text_projection
        else:
            bert, head = BertModel(BertConfig.from_dict(config), add_pooling_layer=False), None
            if settings["projection"]["name"] == RELEASED:
                head = text_projection(tensors, "text_projection.", bert.config.hidden_size)
            texts = _text_encoder(text, bert), head
        if encoder["name"] == "clip":
            clip = clip_of(_read(tensors.pop(IMAGE_CONFIG)))
            images = clip.image_encoder, clip.image_projection
        elif encoder["name"] == "biovil":
            images = image_model(tensors, "image_encoder.", "image_projection.")
        # Pretrained weights of the image encoder would be overwritten immediately, so do not load them.
        untrained = {key: value for key, value in encoder.items() if key != "weights"}
        networks = _assemble({**settings, "encoder": untrained}, texts, images, tokenizer, statistics)
        networks.model.load_state_dict(tensors)
    networks.model.eval()
    return networks


def _build_texts(text: Mapping[str, Any], sentences: Sequence[str]) -> tuple[Encoder, Any]:
    """Return the text encoder and its tokenizer."""
    if text["name"] == "clip":
        clip = load_clip(text["model"], text["weights"])
        return (clip.text_encoder, clip.text_projection), clip_tokenizer()
    if text["name"] == "pretrained":
        bert, tokenizer = load_bert(text["model"], revision=text["revision"], offline=text["offline"])
        head = text.get("projection")
        projection = None if head is None else load_text_projection(head, bert.config.hidden_size)
        return (_text_encoder(text, bert), projection), tokenizer
    try:
        tokenizer = train_tokenizer(sentences, text["vocabulary"], text["maximum_tokens"])
    except ValueError as error:
        raise UserError(f"text_encoder.{error}") from error
    shape = {key: text[key] for key in ("hidden", "layers", "heads", "maximum_tokens", "dropout")}
    return (_text_encoder(text, small_bert(len(tokenizer), **shape)), None), tokenizer


def _text_encoder(text: Mapping[str, Any], bert: "BertModel") -> BertTextEncoder:
    return BertTextEncoder(bert, text["pooling"], text.get("frozen_layers"))


def _assemble(settings: Settings, texts: Encoder, released: Encoder | None, tokenizer: Any, statistics: Any) -> Networks:
    """Assemble the networks; the image encoder is built here unless `released` provides it together with its projection."""
    encoder, text, projection, similarity = (settings[name] for name in ("encoder", "text_encoder", "projection", "similarity"))
    (text_encoder, text_head), projections = texts, projection["name"]
    # Keep this order (texts, then images): the order of the random draws determines the weights of a seed.
    if released is None:
        channels: Any = {"in_channels": len(statistics[0])} if encoder["name"] == "small" else {}
        images: Any = build_spatial_encoder(**encoder, **channels)
    else:
        images, image_head = released
        projections = (image_head, text_head) if projections == RELEASED else projections
    images = images.to(memory_format=torch.channels_last)
    regions = RegionSimilarity(
        similarity["aggregation"], lse_sharpness=similarity["lse_sharpness"], attention_scale=similarity["attention_scale"]
    )
    model = ImageTextModel(images, text_encoder, regions, dimensions=projection["dimensions"], projection=projections)
    model.logit_scale = LogitScale(similarity["logit_scale"], similarity["maximum_logit_scale"])
    model.logit_scale.requires_grad_(similarity["learned_logit_scale"])
    longest = min(text["maximum_tokens"] or text_encoder.maximum_tokens, text_encoder.maximum_tokens)
    return Networks(model, tokenizer, longest, RadiographAugmentation(*statistics, **settings["augmentation"]))


def _read(content: Tensor) -> Any:
    return json.loads(bytes(content.numpy()))
