"""CLIP with a ResNet image encoder from open_clip: its encoders and the projections to their shared space.

open_clip is the optional extra ``clip``; it is imported only when a CLIP model is requested.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from trueneg.errors import UserError
from trueneg.io.downloads import explain_download
from trueneg.io.reading import reading
from trueneg.models.region_similarity import ImageEmbeddings

if TYPE_CHECKING:
    from types import ModuleType

    from open_clip import CLIP
    from transformers import CLIPTokenizer


class ClipImageEncoder(nn.Module):
    """CLIP's ResNet up to its last feature map, without attention pooling.

    The encoder normalises images itself, as its weights expect, so inputs are pixel values in [0, 1]. Grey images are repeated
    in three channels. The grid has 1/32 of the image's resolution: 7 × 7 regions at 224 pixels.

    Args:
        visual: open_clip's image tower; it is modified in place (its pooling is removed).
        config: configuration of the whole CLIP model.
        mean, std: mean and standard deviation of each of the three channels, for pixel values in [0, 1].

    Attributes:
        dimensions: C, number of feature channels; 2048 for a ResNet-50.
        config: the configuration passed in; :func:`clip_of` rebuilds the same network from it.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, visual: Any, config: Mapping[str, Any], mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        self.dimensions = visual.attnpool.c_proj.in_features
        self.visual, self.config = visual, dict(config)
        self.visual.attnpool = nn.Identity()
        self.register_buffer("mean", torch.tensor(mean).view(3, 1, 1))
        self.register_buffer("std", torch.tensor(std).view(3, 1, 1))

    def forward(self, images: Tensor) -> Tensor:
        """Return feature maps (B, C, ⌊H/32⌋, ⌊W/32⌋) of images (B, 1 or 3, H, W) in [0, 1]."""
        return self.visual((images - self.mean) / self.std)


class ClipAttentionPool(nn.Module):
    r"""CLIP's attention pooling as a projection of feature maps to the space shared with texts.

    The pooled image is CLIP's own embedding: the mean region attends to itself and all regions x, with positions added. A
    region's embedding is the result of attending to that region alone, without its position:

    .. math:: c(v(x_n)), \quad v \text{ and } c \text{ the value and output projections,}

    as MaskCLIP (Zhou et al., 2022) extracts dense features from CLIP. If the grid size differs from that of the weights, the
    positions are interpolated (bicubic).

    Args:
        pool: open_clip's attention pooling.

    Attributes:
        dimensions: D, size of the shared space.
    """

    def __init__(self, pool: Any) -> None:
        super().__init__()
        self.heads, self.dimensions = pool.num_heads, pool.c_proj.out_features
        self.query, self.key, self.value, self.out = pool.q_proj, pool.k_proj, pool.v_proj, pool.c_proj
        self.position = pool.positional_embedding

    def forward(self, features: Tensor, *, regions: bool = False) -> ImageEmbeddings:
        """Embed feature maps (I, C, h, w): pooled (I, D) and, if requested, per region (I, D, h, w)."""
        cells = features.flatten(2).mT
        tokens = torch.cat([cells.mean(1, keepdim=True), cells], dim=1) + self._positions(*features.shape[2:])
        attending = self.query(tokens[:, :1]), self.key(tokens), self.value(tokens)
        by_head = (projected.unflatten(2, (self.heads, -1)).transpose(1, 2) for projected in attending)
        attended = functional.scaled_dot_product_attention(*by_head)
        pooled = self.out(attended.transpose(1, 2).flatten(1))
        if not regions:
            return ImageEmbeddings(pooled, None)
        return ImageEmbeddings(pooled, self.out(self.value(cells)).mT.unflatten(2, features.shape[2:]))

    def _positions(self, height: int, width: int) -> Tensor:
        """Return position embeddings (1 + height·width, C), with the mean's position first."""
        side = round((len(self.position) - 1) ** 0.5)
        if (height, width) == (side, side):
            return self.position
        grid = self.position[1:].T.unflatten(1, (side, side))[None]
        resized = functional.interpolate(grid, (height, width), mode="bicubic", antialias=True)
        return torch.cat([self.position[:1], resized[0].flatten(1).T])


class ClipTextEncoder(nn.Module):
    """CLIP's text transformer; it returns the vector of a text's last token before the projection.

    Args:
        network: open_clip's whole model.
        config: configuration of the whole CLIP model.

    Attributes:
        dimensions: H, size of a text's vector.
        maximum_tokens: maximum length of a text, including start and end tokens.
        config: the configuration passed in; :func:`clip_of` rebuilds the same network from it.
    """

    def __init__(self, network: Any, config: Mapping[str, Any]) -> None:
        super().__init__()
        self.tokens, self.position = network.token_embedding, network.positional_embedding
        self.transformer, self.norm, self.config = network.transformer, network.ln_final, dict(config)
        self.maximum_tokens, self.dimensions = self.position.shape

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Return vectors (B, H) of tokens (B, L); the mask is 1 at tokens and 0 at padding."""
        length = input_ids.shape[1]
        embedded = self.tokens(input_ids) + self.position[:length]
        # Attention is causal, so padding does not affect earlier tokens. As a buffer, a moving average would make the mask NaN.
        causal = torch.full((length, length), -torch.inf, device=embedded.device).triu(1)
        encoded = self.transformer(embedded, attn_mask=causal)
        last = attention_mask.sum(1) - 1
        return self.norm(encoded[torch.arange(len(encoded), device=encoded.device), last])


class Clip(NamedTuple):
    """The parts of a CLIP model.

    Attributes:
        image_encoder: image encoder up to the last feature map.
        text_encoder: text encoder without its projection.
        image_projection: maps feature maps to the shared space.
        text_projection: maps a text's vector to the shared space.
        logit_scale: factor that multiplies the similarities.
    """

    image_encoder: ClipImageEncoder
    text_encoder: ClipTextEncoder
    image_projection: ClipAttentionPool
    text_projection: nn.Linear
    logit_scale: float


def load_clip(model: str, weights: str | None = None) -> Clip:
    """Load a CLIP model with a ResNet image encoder.

    Weights are read from safetensors or with ``weights_only``.

    Args:
        model: open_clip's model name, such as ``"RN50-quickgelu"``, or the path of a JSON file in the format of open_clip's
            ``model_configs`` or of a published model's ``open_clip_config.json``.
        weights: None: random initialisation with torch's RNG. An open_clip tag of pretrained weights, such as
            ``"openai"``: downloaded once. Otherwise the path of an open_clip state dict.

    Returns:
        The parts of the model in evaluation mode. Images are normalised as specified by the tag or the JSON file; otherwise as
        in OpenAI's CLIP.

    Raises:
        UserError: if open_clip is not installed, the model does not exist or is of another kind, or its weights cannot be
            obtained or do not fit.
    """
    open_clip = _open_clip()
    config, preprocessing = _config(model)
    network = _network(config, model)
    if weights is not None:
        tag = open_clip.get_pretrained_cfg(model, weights)
        quick = config.get("quick_gelu", False)
        if tag.get("quick_gelu", quick) != quick:
            other = model.removesuffix("-quickgelu") if quick else f"{model}-quickgelu"
            raise UserError(f"{model} {weights}: these weights were trained with a different activation; use the model {other}.")
        path, preprocessing = Path(weights), preprocessing | tag
        if tag:
            with explain_download(f"{model} {weights}", tag.get("hf_hub", "").strip("/") or tag.get("url", "")):
                path = Path(open_clip.download_pretrained(tag))
        elif not path.is_file():
            tags = ", ".join(open_clip.list_pretrained_tags_by_model(model)) or "none for this model"
            raise UserError(f"{weights} does not exist; expected a file or an open_clip tag ({tags}).")
        with reading(path, f"a complete state dict of open_clip's {model}", "Use weights of this model."):
            open_clip.load_checkpoint(network, str(path), weights_only=True)
    return _parts(network, config, preprocessing)


def clip_of(config: Mapping[str, Any]) -> Clip:
    """Build a CLIP model from its configuration, initialised with torch's RNG.

    Raises:
        UserError: if open_clip is not installed or the configuration describes another kind of model.
    """
    return _parts(_network(config, "the configuration"), config, {})


def clip_tokenizer() -> "CLIPTokenizer":
    """Return CLIP's own tokenizer as a transformers tokenizer.

    The tokens match those of open_clip's tokenizer, except that the latter also repairs broken Unicode and HTML entities.

    Raises:
        UserError: if open_clip, which provides the vocabulary, is not installed.
    """
    _open_clip()
    from open_clip.tokenizer import SimpleTokenizer
    from transformers import CLIPTokenizer

    bpe = SimpleTokenizer()
    start, end = bpe.decoder[bpe.sot_token_id], bpe.decoder[bpe.eot_token_id]
    special = {"bos_token": start, "eos_token": end, "unk_token": end, "pad_token": end}
    return CLIPTokenizer(vocab=dict(bpe.encoder), merges=[*bpe.bpe_ranks], **special)


def _open_clip() -> "ModuleType":
    try:
        import open_clip
    except ImportError as error:
        raise UserError(f"CLIP needs open_clip ({error}); install it with: pip install 'trueneg[clip]'.") from error
    return open_clip


def _config(model: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a model's configuration and, if its file specifies it, the image normalisation."""
    open_clip, path = _open_clip(), Path(model)
    if path.suffix != ".json":
        if model not in open_clip.list_models():
            names = ", ".join(name for name in open_clip.list_models() if name.startswith("RN"))
            raise UserError(f"{model} is not a model of open_clip; expected one of {names}, or a JSON file that describes one.")
        return open_clip.get_model_config(model), {}
    with reading(path, "a JSON configuration of open_clip", "Use such a file, or the name of a model."):
        content = json.loads(path.read_text())
        return dict(content.get("model_cfg", content)), dict(content.get("preprocess_cfg", {}))


def _network(config: Mapping[str, Any], name: str) -> "CLIP":
    with reading(name, "a CLIP model that open_clip can build", "Use one, such as RN50-quickgelu."):
        is_resnet = isinstance(config["vision_cfg"]["layers"], list)
        network = _open_clip().CLIP(**config) if is_resnet else None
    if network is None or network.attn_mask is None or network.text_pool_type not in ("argmax", "eos"):
        expected = "a CLIP model with a ResNet and CLIP's own text encoder, such as RN50-quickgelu"
        raise UserError(f"{name} cannot be used; expected {expected}.")
    return network.eval()


def _parts(network: "CLIP", config: Mapping[str, Any], preprocessing: Mapping[str, Any]) -> Clip:
    open_clip, projection = _open_clip(), network.text_projection
    if not isinstance(projection, nn.Linear):
        matrix = projection
        projection = nn.utils.skip_init(nn.Linear, *matrix.shape, bias=False)
        projection.weight = nn.Parameter(matrix.detach().T.contiguous())
    mean = preprocessing.get("mean", open_clip.OPENAI_DATASET_MEAN)
    std = preprocessing.get("std", open_clip.OPENAI_DATASET_STD)
    pool = ClipAttentionPool(network.visual.attnpool)
    images = ClipImageEncoder(network.visual, config, mean, std)
    return Clip(images, ClipTextEncoder(network, config), pool, projection, network.logit_scale.exp().item())
