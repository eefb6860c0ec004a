"""The image and the text tower of any open_clip model: CLIP, SigLIP, CoCa, with ViT, ResNet, ConvNeXt and other networks."""

import contextlib
import copy
import json
import math
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from trueneg.errors import UserError
from trueneg.io.downloads import explain_download
from trueneg.io.reading import reading
from trueneg.models.towers.image_tower import ImageTower
from trueneg.models.towers.packages import library, unknown_model
from trueneg.models.towers.tower import Embedded, Tower

CONFIG, HF_CONFIG, HF_TOKENIZER = "open_clip_config.json", "config.json", "tokenizer_config.json"


class OpenClipTower(Tower):
    """What both towers share: building from open_clip's configuration, blocks and files.

    Attributes:
        network: open_clip's tower, with its projection.
        config: open_clip's configuration: ``model_cfg`` and ``preprocess_cfg``.
        logit_scale: factor of the similarities in zero-shot classification.
        logit_bias: summand of the similarities; None if the model has none (SigLIP has one).
    """

    PART: str
    OTHER: tuple[str, Mapping[str, Any]]  # what stands in for the other tower, where no weights are loaded
    network: Any
    config: dict[str, Any]
    logit_scale: float
    logit_bias: float | None
    _of: Callable[..., "OpenClipTower"]

    @classmethod
    def build(cls, settings: Mapping[str, Any]) -> "OpenClipTower":
        """Create the model with random weights, those of a tag of open_clip, or those of a file, and keep one tower.

        A JSON file's folder may have a Hugging Face tokenizer and the configuration of a Hugging Face text network. Code of
        other people is not run.

        Raises:
            UserError: if open_clip is missing, or the model or its weights are unknown, cannot be obtained, or do not fit.
        """
        open_clip, model, weights = library("open_clip"), settings["model"], settings["weights"]
        config, folder = _configuration(model)
        architecture, preprocessing = config["model_cfg"], config["preprocess_cfg"]
        path, tag = Path(weights), open_clip.get_pretrained_cfg(model, weights)
        quick = architecture.get("quick_gelu", False)
        if tag.get("quick_gelu", quick) != quick:
            other = model.removesuffix("-quickgelu") if quick else f"{model}-quickgelu"
            raise UserError(f"{model} {weights}: these weights were trained with a different activation; use the model {other}.")
        if tag:
            preprocessing |= {"mean": tag["mean"], "std": tag["std"]}
            with explain_download(f"{model} {weights}", tag.get("hf_hub", "").strip("/") or tag.get("url", "")):
                path = Path(open_clip.download_pretrained(tag))
        elif weights != "none" and not path.is_file():
            tags = ", ".join(open_clip.list_pretrained_tags_by_model(model)) or "none for this model"
            raise UserError(f"{weights} does not exist; expected none, a file or an open_clip tag ({tags}).")
        network = _network(architecture, folder, model, cls.OTHER if weights == "none" else None)
        if weights != "none":
            with reading(path, f"a complete state dict of open_clip's {model}", "Use weights of this model."):
                open_clip.load_checkpoint(network, str(path), weights_only=True)
        getattr(network, cls.PART).output_tokens = False  # CoCa's towers also return their tokens
        tower = cls._of(network, config, folder, settings)
        tower.config, tower.logit_scale = config, network.logit_scale.exp().item()
        tower.logit_bias = None if network.logit_bias is None else network.logit_bias.item()
        # So that a model rebuilt from files has the same ones.
        architecture |= {"init_logit_scale": math.log(tower.logit_scale), "init_logit_bias": tower.logit_bias}
        return tower

    @classmethod
    def restore(cls, settings: Mapping[str, Any], files: Mapping[str, bytes]) -> "OpenClipTower":
        """Create the network from :meth:`files`."""
        with tempfile.TemporaryDirectory() as folder:
            for name, content in files.items():
                Path(folder, Path(name).name).write_bytes(content)
            return cls.build({**settings, "model": str(Path(folder, CONFIG)), "weights": "none"})

    def blocks(self) -> Sequence[nn.Module]:
        """Return the groups that open_clip's ``lock`` of this tower unlocks one by one; empty if it locks all or nothing.

        What it never locks, such as the projection of a timm network, belongs to the last group; so does what it never unlocks,
        the attention pooling of CoCa's images, which follows the last block.
        """
        parameters = list(self.network.parameters())
        were_trained = [parameter.requires_grad for parameter in parameters]
        groups: list[Any] = []
        unlocked: set[int] = set()
        # open_clip asserts that a ResNet is locked as a whole, knows the layers of few Hugging Face networks, and prints.
        refusals = AssertionError, AttributeError, LookupError
        quiet = warnings.catch_warnings(action="ignore", category=FutureWarning)
        with contextlib.suppress(*refusals), contextlib.redirect_stdout(None), quiet:
            while len(unlocked) < len(parameters):
                self.network.requires_grad_(True).lock(len(groups) + 1)
                now = {index for index, parameter in enumerate(parameters) if parameter.requires_grad}
                if now == unlocked:
                    groups[-1].extend(each for index, each in enumerate(parameters) if index not in unlocked)
                    break
                groups.insert(0, nn.ParameterList([parameters[index] for index in sorted(now - unlocked)]))
                unlocked = now
        for parameter, was_trained in zip(parameters, were_trained, strict=True):
            parameter.requires_grad_(was_trained)
        return groups

    def files(self) -> dict[str, bytes]:
        """Return the configuration of this tower alone; for texts also the files of the tokenizer and a Hugging Face network."""
        return {CONFIG: json.dumps(self.config | {"model_cfg": _alone(self.config["model_cfg"], self.OTHER)}, indent=2).encode()}


class OpenClipImages(OpenClipTower, ImageTower):
    """An image tower with its projection into the space shared with texts; vectors are not normalised.

    Regions: of a ViT, patch tokens after the last norm; of a ResNet with attention pooling, the value and output projections of
    each cell (MaskCLIP, Zhou et al., 2022); of timm's networks, see :meth:`embed_with_timm`;
    each projected like the pooled vector. CoCa's queries have no place in the image, so it has none.
    """

    PART = "visual"
    OTHER = "text_cfg", {"context_length": 1, "vocab_size": 1, "width": 1, "heads": 1, "layers": 1}

    @classmethod
    def _of(cls, network: Any, config: Mapping[str, Any], folder: Path | None, settings: Mapping[str, Any]) -> "OpenClipImages":
        visual, resolution, preprocessing = network.visual, settings["resolution"], config["preprocess_cfg"]
        size = library("timm.layers").to_2tuple(resolution or visual.image_size)
        with reading(settings["model"], f"an image tower at {size} pixels", "Choose another model or resolution."):
            if resolution:
                config["model_cfg"]["vision_cfg"]["image_size"] = resolution
                visual.set_input_size(resolution) if hasattr(visual, "trunk") else _interpolate(visual, resolution)
            # open_clip's own attention pooling, in the head, needs the whole map.
            trunk = None if hasattr(getattr(visual, "head", None), "pool") else getattr(visual, "trunk", None)
            return cls(visual, size, preprocessing["mean"], preprocessing["std"], trunk)

    def embed(self, images: Tensor) -> Embedded:
        """Embed normalised images (B, 3, H, W)."""
        visual = self.network
        if self.map_axes:
            pooled, regions = self.embed_with_timm(visual.trunk, images)
            return Embedded(visual.head(pooled), visual.head(regions.movedim(1, 3)).movedim(3, 1))
        if hasattr(visual, "trunk") or getattr(visual, "attn_pool", None) is not None:
            return Embedded(visual(images))
        norm = {} if hasattr(visual, "attnpool") else {"normalize_intermediates": True}
        features = visual.forward_intermediates(images, indices=1, **norm)
        cells = features["image_intermediates"][0].movedim(1, 3)
        regions = cells @ visual.proj if norm else visual.attnpool.c_proj(visual.attnpool.v_proj(cells))
        return Embedded(features["image_features"], regions.movedim(3, 1))


class OpenClipTexts(OpenClipTower):
    """A text tower with its tokenizer and its projection into the space shared with images; vectors are not normalised.

    Texts are padded to ``maximum_tokens``, as open_clip does, unless padding cannot change their vectors. So for a network
    that sees its padding, such as SigLIP's, a smaller ``maximum_tokens`` makes other vectors.
    """

    PART = "text"
    maximum_tokens: int
    OTHER = "vision_cfg", {"image_size": 1, "patch_size": 1, "width": 64, "layers": 0}

    @classmethod
    def _of(cls, network: Any, config: Mapping[str, Any], folder: Path | None, settings: Mapping[str, Any]) -> "OpenClipTexts":
        text_config = config["model_cfg"]["text_cfg"]
        limit = text_config.get("context_length", 77)
        maximum = settings["maximum_tokens"] or limit
        if maximum > limit:
            raise UserError(f"maximum_tokens is {maximum}, but the texts of {settings['model']} have at most {limit} tokens.")
        return cls(network.text, _tokenizer(text_config, folder, settings["model"]), maximum, truncate=settings["truncate"])

    def __init__(self, text: Any, tokenizer: Any, maximum_tokens: int, *, truncate: bool) -> None:
        super().__init__()
        self.network, self.tokenizer, self.maximum_tokens, self.truncate = text, tokenizer, maximum_tokens, truncate
        self.is_causal = getattr(text, "attn_mask", None) is not None
        if self.is_causal:  # as a buffer, a moving average would make the mask NaN
            del text.attn_mask
        self.class_tokens = int(getattr(text, "cls_emb", None) is not None)
        self.is_trimmed = self.is_causal and not self.class_tokens and text.pool_type in ("argmax", "eos")
        self.eval()
        with torch.no_grad():
            self.dimensions = self(self.prepare(["a"])).pooled.shape[1]

    def lengths(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each text, uncut, including start and end tokens."""
        if not hasattr(self.tokenizer, "tokenizer"):
            return [2 + len(self.tokenizer.encode(text)) for text in texts]
        is_clips = self.tokenizer.tokenizer_mode == "clips"  # adds bos, eos and cls itself
        cleaned = [self.tokenizer.clean_fn(text) for text in texts]
        rows = self.tokenizer.tokenizer(cleaned, add_special_tokens=not is_clips)["input_ids"]
        return [len(row) + 3 * is_clips for row in rows]

    def prepare(self, raw: Sequence[str]) -> dict[str, Tensor]:
        """Return ``tokens``, int64 (B, L).

        Raises:
            UserError: if a text is too long and is not to be truncated.
        """
        longest = max(lengths := self.lengths(raw))
        if longest > self.maximum_tokens and not self.truncate:
            fault = f"sentence {lengths.index(longest)} has {longest} tokens; expected at most {self.maximum_tokens}"
            raise UserError(f"{fault}. Set text_encoder.truncate to true to truncate longer sentences.")
        tokens = self.tokenizer(list(raw), context_length=self.maximum_tokens)
        return {"tokens": tokens[:, :longest] if self.is_trimmed else tokens}

    def forward(self, batch: Mapping[str, Tensor]) -> Embedded:
        """Embed tokens (B, L)."""
        tokens = batch["tokens"]
        if self.is_causal:
            length = tokens.shape[1] + self.class_tokens
            self.network.attn_mask = torch.full((length, length), -torch.inf, device=tokens.device).triu(1)
        return Embedded(self.network(tokens))

    def files(self) -> dict[str, bytes]:
        """Return the configuration, and the files of the tokenizer and of a Hugging Face network."""
        with tempfile.TemporaryDirectory() as folder:
            for part in filter(None, (getattr(self.tokenizer, "tokenizer", None), getattr(self.network, "config", None))):
                part.save_pretrained(folder)
            return super().files() | {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def _configuration(model: str) -> tuple[dict[str, Any], Path | None]:
    """Return a model's ``model_cfg`` and ``preprocess_cfg``, and the folder of its file."""
    open_clip, path = library("open_clip"), Path(model)
    preprocessing = {"mean": open_clip.OPENAI_DATASET_MEAN, "std": open_clip.OPENAI_DATASET_STD}
    if path.suffix == ".json":
        with reading(path, "a JSON configuration of open_clip", "Use such a file, or the name of a model."):
            content = json.loads(path.read_text(encoding="utf-8"))
            preprocessing |= content.get("preprocess_cfg", {})
            return {"model_cfg": content.get("model_cfg", content), "preprocess_cfg": preprocessing}, path.parent
    if model not in open_clip.list_models():
        raise unknown_model(model, "open_clip", open_clip.list_models())
    tags = [open_clip.get_pretrained_cfg(model, tag) for tag in open_clip.list_pretrained_tags_by_model(model)]
    # For weights from a file: what all published weights of this model agree on, such as 0.5 for SigLIP.
    if len({(tuple(tag["mean"]), tuple(tag["std"])) for tag in tags}) == 1:
        preprocessing |= {"mean": tags[0]["mean"], "std": tags[0]["std"]}
    return {"model_cfg": open_clip.get_model_config(model), "preprocess_cfg": preprocessing}, None


def _alone(architecture: Mapping[str, Any], stand_in: Any = None) -> dict[str, Any]:
    """Return a model's configuration without weights of other libraries; ``stand_in`` replaces a tower that is not needed."""
    config = copy.deepcopy(dict(architecture))
    if stand_in:
        config[stand_in[0]] = dict(stand_in[1])
        config.pop("multimodal_cfg", None)
    config["vision_cfg"]["timm_model_pretrained"] = config["text_cfg"]["hf_model_pretrained"] = False
    config.pop("custom_text", None)
    return config


def _network(architecture: Mapping[str, Any], folder: Path | None, model: str, stand_in: Any = None) -> Any:
    """Create open_clip's model with random weights; ``stand_in`` replaces the configuration of a tower that is not needed."""
    open_clip = library("open_clip")
    with reading(model, "a model that open_clip builds without foreign code", "Use another model."):
        config = _alone(architecture, stand_in)
        if name := config["text_cfg"].get("hf_model_name"):
            config["text_cfg"]["hf_model_name"] = source = _beside(folder, HF_CONFIG, name)
            with explain_download(f"{model}: the configuration of {name}", name):
                # open_clip does not say no to a model's own code, and transformers would ask on the terminal.
                library("transformers").AutoConfig.from_pretrained(source, trust_remote_code=False)
        # Texts as a network of their own; load_checkpoint renames the tensors of a plain CLIP.
        return (open_clip.CoCa if "multimodal_cfg" in config else open_clip.CustomTextCLIP)(**config).eval()


def _tokenizer(text_config: Mapping[str, Any], folder: Path | None, model: str) -> Any:
    """Return the tokenizer of ``open_clip.get_tokenizer``, which takes no dictionary, and without code of other people."""
    tokenizers, name = library("open_clip.tokenizer"), text_config.get("hf_tokenizer_name")
    arguments = {"context_length": text_config.get("context_length", 77), **text_config.get("tokenizer_kwargs", {})}
    if not name:
        return tokenizers.SimpleTokenizer(**arguments)
    arguments |= {"tokenizer_mode": text_config.get("tokenizer_mode"), "trust_remote_code": False}
    source = _beside(folder, HF_TOKENIZER, name)
    expected = "a tokenizer that transformers loads without foreign code"
    with reading(model, expected, "Use another model."), explain_download(f"{model}: the tokenizer {name}", name):
        return tokenizers.HFTokenizer(source, **arguments)


def _beside(folder: Path | None, file: str, name: str) -> str:
    """Return the configuration's folder if it has a file of Hugging Face's layout, otherwise the name on the hub."""
    return str(folder) if folder and (folder / file).is_file() else name


def _interpolate(visual: Any, side: int) -> None:
    """Interpolate the positions of a ViT or ResNet for another resolution, as open_clip does for a ViT (bicubic)."""
    holder, cell = (visual.attnpool, 32) if hasattr(visual, "attnpool") else (visual, visual.patch_size[0])
    positions, grid = holder.positional_embedding, side // cell
    old = round((len(positions) - 1) ** 0.5)
    cells = positions[1:].detach().T.unflatten(1, (old, old))[None]
    resized = functional.interpolate(cells, (grid, grid), mode="bicubic", antialias=True)[0].flatten(1).T
    holder.positional_embedding = nn.Parameter(torch.cat([positions[:1].detach(), resized]), positions.requires_grad)
