"""The networks of an image–text run: from settings and sentences, and again from a finished run's file."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from trueneg.errors import UserError
from trueneg.losses import LogitScale
from trueneg.models.image_text import ImageTextModel
from trueneg.models.region_similarity import RegionSimilarity
from trueneg.models.spatial_encoders import build_spatial_encoder
from trueneg.models.text_encoders import BertTextEncoder, load_bert, small_bert
from trueneg.text.tokenizing import train_tokenizer
from trueneg.training.radiograph_augmentation import RadiographAugmentation

if TYPE_CHECKING:
    from transformers import BertModel, PreTrainedTokenizerBase

# Parts of a finished run's file beside the model's own tensors: JSON texts as bytes, and what images are normalised with.
TOKENIZER, TEXT_CONFIG, MEAN, STD = "text_encoder/tokenizer", "text_encoder/config", "images/mean", "images/std"


class Networks(NamedTuple):
    """What a run trains or has trained.

    Attributes:
        model: both encoders, projections, similarity and logit scale.
        tokenizer: of the text encoder.
        maximum_tokens: longest text.
        augmentation: its ``normalise`` is what evaluation sees of images.
    """

    model: ImageTextModel
    tokenizer: "PreTrainedTokenizerBase"
    maximum_tokens: int
    augmentation: RadiographAugmentation


def build_networks(
    settings: Mapping[str, Mapping[str, Any]],
    sentences: Sequence[str],
    channels: int,
    statistics: tuple[list[float], list[float]],
) -> Networks:
    """New networks, their weights drawn from torch's generator where none are loaded.

    Args:
        settings: resolved settings by section.
        sentences: of the training, as often as they occur: a small text encoder's vocabulary comes from them.
        channels: of the images.
        statistics: mean and standard deviation of each channel.

    Raises:
        UserError: if a text encoder or trained weights cannot be loaded, or settings do not go together.
    """
    text = settings["text_encoder"]
    if text["name"] == "pretrained":
        bert, tokenizer = load_bert(text["model"], revision=text["revision"], offline=text["offline"])
    else:
        try:
            tokenizer = train_tokenizer(sentences, text["vocabulary"], text["maximum_tokens"])
        except ValueError as error:
            raise UserError(f"text_encoder.{error}") from error
        bert = small_bert(
            len(tokenizer),
            hidden=text["hidden"],
            layers=text["layers"],
            heads=text["heads"],
            maximum_tokens=text["maximum_tokens"],
            dropout=text["dropout"],
        )
    return _assemble(settings, bert, tokenizer, channels, statistics)


def finished_tensors(networks: Networks) -> dict[str, Tensor]:
    """What the file of a finished run holds: the model's tensors, and all that is needed to use them, on the CPU."""
    tokenizer, augmentation = networks.tokenizer, networks.augmentation
    described = {"tokenizer": tokenizer.backend_tokenizer.to_str(), "special": dict(tokenizer.special_tokens_map)}
    tensors = {name: value.detach().cpu().contiguous() for name, value in networks.model.state_dict().items()}
    return tensors | {
        TOKENIZER: _as_bytes(described),
        TEXT_CONFIG: _as_bytes(networks.model.text_encoder.bert.config.to_dict()),
        MEAN: augmentation.mean.flatten().cpu(),
        STD: augmentation.std.flatten().cpu(),
    }


def read_networks(path: str | Path, settings: Mapping[str, Mapping[str, Any]]) -> Networks:
    """The networks of a finished run, in evaluation mode, on the CPU; nothing but the file is needed.

    Args:
        path: the run's ``model.safetensors``.
        settings: that the run was made with.

    Raises:
        UserError: if the file is missing, or does not hold the networks that the settings describe.
    """
    from tokenizers import Tokenizer
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    try:
        tensors = load_file(path)
        described, config = (json.loads(bytes(tensors.pop(name).numpy())) for name in (TOKENIZER, TEXT_CONFIG))
        statistics = tuple(tensors.pop(name).tolist() for name in (MEAN, STD))
        tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(described["tokenizer"]), **described["special"])
        bert = BertModel(BertConfig.from_dict(config), add_pooling_layer=False)
        # Trained weights of the image encoder would be loaded only to be replaced.
        untrained = settings | {"encoder": {key: value for key, value in settings["encoder"].items() if key != "weights"}}
        networks = _assemble(untrained, bert, tokenizer, len(statistics[0]), statistics)
        networks.model.load_state_dict(tensors)
    except (SafetensorError, OSError, KeyError, ValueError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise UserError(f"{path}: is not the model of such an image–text run ({reason}); train it again.") from error
    networks.model.eval()
    return networks


def _assemble(
    settings: Mapping[str, Mapping[str, Any]],
    bert: "BertModel",
    tokenizer: "PreTrainedTokenizerBase",
    channels: int,
    statistics: tuple[list[float], list[float]],
) -> Networks:
    encoder, text, projection, similarity = (settings[name] for name in ("encoder", "text_encoder", "projection", "similarity"))
    own = {"in_channels": channels} if encoder["name"] == "small" else {}
    texts = BertTextEncoder(bert, text["pooling"], text.get("frozen_layers"))
    try:
        regions = RegionSimilarity(
            similarity["aggregation"],
            lse_sharpness=similarity["lse_sharpness"],
            attention_scale=similarity["attention_scale"],
            mapped_dimensions=projection["dimensions"] if similarity["learned_maps"] else None,
        )
    except ValueError as error:
        raise UserError(f"similarity: {error}.") from error
    model = ImageTextModel(
        build_spatial_encoder(**encoder, **own).to(memory_format=torch.channels_last),
        texts,
        regions,
        dimensions=projection["dimensions"],
        projection=projection["name"],
    )
    model.logit_scale = LogitScale(similarity["logit_scale"], similarity["maximum_logit_scale"])
    model.logit_scale.requires_grad_(similarity["learned_logit_scale"])
    longest = min(text["maximum_tokens"] or texts.maximum_tokens, texts.maximum_tokens)
    augmentation = RadiographAugmentation(*statistics, **settings["augmentation"])
    return Networks(model, tokenizer, longest, augmentation)


def _as_bytes(content: Any) -> Tensor:
    return torch.frombuffer(bytearray(json.dumps(content).encode()), dtype=torch.uint8)
