"""The networks of an image–text run: from settings and sentences, and again from a finished run's file."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from trueneg.compute.distributed import ALONE, Processes
from trueneg.data.pairs.pair_source import PairSource
from trueneg.data.pairs.pair_splits import PairSubset, refuse_leakage
from trueneg.errors import UserError
from trueneg.losses import LogitScale
from trueneg.models.clip_encoders import Clip, ClipAttentionPool, ClipImageEncoder, clip_of, clip_tokenizer, load_clip
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
IMAGE_CONFIG = "image_encoder/config"  # of a CLIP only
RELEASED = "released"  # projections that both encoders were released with; and the objective that trains nothing

Projections = tuple[ClipAttentionPool, nn.Linear]


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
    encoder, text = settings["encoder"], settings["text_encoder"]
    clip = load_clip(text["model"], text["weights"]) if text["name"] == "clip" else None
    texts, tokenizer = _bert(text, sentences) if clip is None else (clip.text_encoder, clip_tokenizer())
    if encoder["name"] != "clip":
        # Texts, similarity, images: the order of the draws says which weights a seed has.
        similarity = _similarity(settings)
        return _assemble(settings, _spatial(encoder, channels), texts, similarity, tokenizer, statistics)
    own = load_clip(encoder["model"], encoder["weights"])
    projections = _released_projections(settings, own, clip)
    # It normalises images itself.
    untouched = ([0.0] * channels, [1.0] * channels)
    similarity = _similarity(settings, projections)
    networks = _assemble(settings, own.image_encoder, texts, similarity, tokenizer, untouched, projections)
    if settings["objective"]["name"] == RELEASED:
        scale = own.logit_scale
        networks.model.logit_scale = LogitScale(scale, max(scale, settings["similarity"]["maximum_logit_scale"]))
    return networks


def finished_tensors(networks: Networks) -> dict[str, Tensor]:
    """What the file of a finished run holds: the model's tensors, and all that is needed to use them, on the CPU."""
    tokenizer, augmentation, model = networks.tokenizer, networks.augmentation, networks.model
    described = {"tokenizer": tokenizer.backend_tokenizer.to_str(), "special": dict(tokenizer.special_tokens_map)}
    texts = model.text_encoder
    configs = {TEXT_CONFIG: texts.bert.config.to_dict() if isinstance(texts, BertTextEncoder) else texts.config}
    if isinstance(model.image_encoder, ClipImageEncoder):
        configs[IMAGE_CONFIG] = model.image_encoder.config
    tensors = {name: value.detach().cpu().contiguous() for name, value in model.state_dict().items()}
    return tensors | {
        TOKENIZER: _as_bytes(described),
        **{name: _as_bytes(config) for name, config in configs.items()},
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

    encoder, text = settings["encoder"], settings["text_encoder"]
    try:
        tensors = load_file(path)
        described, config = (json.loads(bytes(tensors.pop(name).numpy())) for name in (TOKENIZER, TEXT_CONFIG))
        statistics = tuple(tensors.pop(name).tolist() for name in (MEAN, STD))
        tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(described["tokenizer"]), **described["special"])
        clip = clip_of(config) if text["name"] == "clip" else None
        texts = (
            _pooled(text, BertModel(BertConfig.from_dict(config), add_pooling_layer=False)) if clip is None else clip.text_encoder
        )
        own = clip_of(json.loads(bytes(tensors.pop(IMAGE_CONFIG).numpy()))) if encoder["name"] == "clip" else None
        # Trained weights of the image encoder would be loaded only to be replaced.
        untrained = {key: value for key, value in encoder.items() if key != "weights"}
        images = _spatial(untrained, len(statistics[0])) if own is None else own.image_encoder
        projections = _released_projections(settings, own, clip)
        similarity = _similarity(settings, projections)
        networks = _assemble(settings, images, texts, similarity, tokenizer, statistics, projections)
        networks.model.load_state_dict(tensors)
    except (SafetensorError, OSError, KeyError, ValueError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise UserError(f"{path}: is not the model of such an image–text run ({reason}); train it again.") from error
    networks.model.eval()
    return networks


class ReleasedNetworks:
    """A run that trains nothing: released networks as they are. For the engine it is an image–text training of no epochs.

    Args:
        settings: as for :class:`~trueneg.training.image_text.ImageText`; ``objective.name`` is ``released``.
        seed: the study's, which changes nothing.
        source: the images that it will be measured on.
        subset: of them.
        device, processes: not needed.

    Raises:
        UserError: if the weights cannot be loaded, or a patient is in two splits.
    """

    epochs = epoch = update = updates = batch_size = 0

    def __init__(
        self,
        settings: Mapping[str, Mapping[str, Any]],
        seed: int,
        source: PairSource,
        subset: PairSubset,
        device: torch.device,
        processes: Processes = ALONE,
    ):
        refuse_leakage(source, subset)
        with torch.random.fork_rng(devices=[]):
            self._networks = build_networks(settings, [], source.images.shape[1], ([], []))

    def weights(self) -> dict[str, Tensor]:
        """What :func:`read_networks` makes the networks of again."""
        return finished_tensors(self._networks)


def _bert(text: Mapping[str, Any], sentences: Sequence[str]) -> tuple[BertTextEncoder, "PreTrainedTokenizerBase"]:
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
    return _pooled(text, bert), tokenizer


def _pooled(text: Mapping[str, Any], bert: "BertModel") -> BertTextEncoder:
    return BertTextEncoder(bert, text["pooling"], text.get("frozen_layers"))


def _released_projections(
    settings: Mapping[str, Mapping[str, Any]], image_clip: Clip | None, text_clip: Clip | None
) -> Projections | None:
    """Those of images and of texts, where they are wanted; None where new ones are."""
    if settings["projection"]["name"] != RELEASED:
        return None
    return image_clip.image_projection, text_clip.text_projection


def _spatial(encoder: Mapping[str, Any], channels: int) -> nn.Module:
    own = {"in_channels": channels} if encoder["name"] == "small" else {}
    return build_spatial_encoder(**encoder, **own)


def _similarity(settings: Mapping[str, Mapping[str, Any]], projections: Projections | None = None) -> RegionSimilarity:
    similarity = settings["similarity"]
    dimensions = settings["projection"]["dimensions"] if projections is None else projections[0].dimensions
    try:
        return RegionSimilarity(
            similarity["aggregation"],
            lse_sharpness=similarity["lse_sharpness"],
            attention_scale=similarity["attention_scale"],
            mapped_dimensions=dimensions if similarity["learned_maps"] else None,
        )
    except ValueError as error:
        raise UserError(f"similarity: {error}.") from error


def _assemble(
    settings: Mapping[str, Mapping[str, Any]],
    images: nn.Module,
    texts: nn.Module,
    regions: RegionSimilarity,
    tokenizer: "PreTrainedTokenizerBase",
    statistics: tuple[list[float], list[float]],
    projections: Projections | None = None,
) -> Networks:
    text, projection, similarity = (settings[name] for name in ("text_encoder", "projection", "similarity"))
    model = ImageTextModel(
        images.to(memory_format=torch.channels_last),
        texts,
        regions,
        dimensions=projection["dimensions"],
        projection=projections or projection["name"],
    )
    model.logit_scale = LogitScale(similarity["logit_scale"], similarity["maximum_logit_scale"])
    model.logit_scale.requires_grad_(similarity["learned_logit_scale"])
    longest = min(text["maximum_tokens"] or texts.maximum_tokens, texts.maximum_tokens)
    augmentation = RadiographAugmentation(*statistics, **settings["augmentation"])
    return Networks(model, tokenizer, longest, augmentation)


def _as_bytes(content: Any) -> Tensor:
    return torch.frombuffer(bytearray(json.dumps(content).encode()), dtype=torch.uint8)
