"""The image and the text tower of any open_clip model: CLIP, SigLIP, CoCa, with ViT, ResNet,
ConvNeXt and other networks.
"""

import copy
import json
import logging
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from trueneg.errors import UserError
from trueneg.io.downloads import explain_download
from trueneg.io.reading import reading
from trueneg.models.towers.image_tower import ImageTower
from trueneg.models.towers.packages import library, unknown_model
from trueneg.models.towers.timm_tower import timm_blocks
from trueneg.models.towers.tower import Embedded, Tower, transformer_blocks

log = logging.getLogger(__name__)

CONFIG = "open_clip_config.json"
HF_CONFIG = "config.json"
HF_TOKENIZER = "tokenizer_config.json"


class OpenClipTower(Tower):
    """What both towers share: building from open_clip's configuration, blocks and files.

    Attributes:
        network: open_clip's tower, with its projection.
        config: open_clip's configuration of this tower alone: ``model_cfg`` and ``preprocess_cfg``.
        logit_scale: factor of the similarities in zero-shot classification.
    """

    OTHER: ClassVar[Mapping[str, Any]]  # stands in for the other tower, where no weights are loaded
    network: Any
    config: dict[str, Any]
    logit_scale: float

    @classmethod
    def build(cls, settings: Mapping[str, Any]) -> "OpenClipTower":
        """Create the model with random weights, those of a tag of open_clip, or those of a file,
        and keep one tower.

        A JSON file's folder may have a Hugging Face tokenizer and the configuration of a Hugging
        Face text network. Custom code is never run.

        Raises:
            UserError: if open_clip is missing, or the model or its weights are unknown, cannot be
                obtained, or do not fit.
        """
        open_clip = library("open_clip")
        model = settings["model"]
        weights = settings["weights"]
        config, folder = _configuration(model)
        architecture = config["model_cfg"]
        preprocessing = config["preprocess_cfg"]
        path = Path(weights)
        tag = open_clip.get_pretrained_cfg(model, weights)
        if tag:
            preprocessing |= {"mean": tag["mean"], "std": tag["std"]}
            # the activation that the weights were trained with
            activation = architecture.get("quick_gelu", False)
            architecture["quick_gelu"] = tag.get("quick_gelu", activation)
            with explain_download(
                f"{model} {weights}", tag.get("hf_hub", "").strip("/") or tag.get("url", "")
            ):
                path = Path(open_clip.download_pretrained(tag))
        elif weights != "none":
            _check_file(weights, model)
        with reading(
            model,
            "a model that open_clip builds without custom code",
            "Choose another model or resolution.",
        ):
            if settings.get("resolution"):
                architecture["vision_cfg"]["image_size"] = settings["resolution"]
            alone = {
                key: value
                for key, value in (architecture | cls.OTHER).items()
                if key not in ("multimodal_cfg", "custom_text")
            }
            # Without tokens, which CoCa's towers also return; other libraries' weights are not
            # looked for.
            alone["text_cfg"] = alone["text_cfg"] | {
                "hf_model_pretrained": False,
                "output_tokens": False,
            }
            alone["vision_cfg"] = alone["vision_cfg"] | {
                "timm_model_pretrained": False,
                "output_tokens": False,
            }
            network = _network(alone if weights == "none" else architecture, folder, model)
            if weights != "none":
                with reading(
                    path,
                    f"a complete state dict of open_clip's {model}",
                    "Use weights of this model.",
                ):
                    open_clip.load_checkpoint(network, str(path), weights_only=True)
            tower = cls(network, config, folder, settings)
        tower.config = config | {"model_cfg": alone}
        tower.logit_scale = network.logit_scale.exp().item()
        return tower

    @classmethod
    def restore(cls, settings: Mapping[str, Any], files: Mapping[str, bytes]) -> "OpenClipTower":
        """Create the network from :meth:`files`."""
        with tempfile.TemporaryDirectory() as folder:
            for name, content in files.items():
                Path(folder, Path(name).name).write_bytes(content)
            return cls.build({**settings, "model": str(Path(folder, CONFIG)), "weights": "none"})

    def blocks(self) -> Sequence[nn.Module]:
        """Return the embeddings and layers of a transformer, or the blocks of a timm network."""
        trunk = getattr(self.network, "trunk", None)
        return transformer_blocks(self.network) if trunk is None else timm_blocks(trunk)

    def files(self) -> dict[str, bytes]:
        """Return the configuration of this tower alone; for texts also the files of the tokenizer
        and a Hugging Face network.
        """
        return {CONFIG: json.dumps(self.config, indent=2).encode()}


class OpenClipImages(OpenClipTower, ImageTower):
    """An image tower with its projection into the space shared with texts; vectors are not
    normalised.

    Regions: of a ViT, patch tokens after the last norm; of a ResNet with attention pooling, the
    value and output projections of each cell (MaskCLIP, Zhou et al., 2022); of timm's networks, see
    :meth:`embed_with_timm`; each projected like the pooled vector. CoCa's queries have no place in
    the image, so it has none.
    """

    OTHER: ClassVar = {
        "text_cfg": {"context_length": 1, "vocab_size": 1, "width": 1, "heads": 1, "layers": 1}
    }

    def __init__(
        self,
        model: Any,
        config: Mapping[str, Any],
        folder: Path | None,
        settings: Mapping[str, Any],
    ) -> None:
        visual = model.visual
        preprocessing = config["preprocess_cfg"]
        visual.output_tokens = False  # CoCa's towers also return their tokens
        trunk = getattr(visual, "trunk", None)
        size = library("timm.layers").to_2tuple(visual.image_size)
        if settings["resolution"] and trunk is not None:
            visual.set_input_size(size)
        super().__init__(visual, size, preprocessing["mean"], preprocessing["std"], trunk)

    def embed(self, images: Tensor) -> Embedded:
        """Embed normalised images (B, 3, H, W)."""
        visual = self.network
        if self.map_axes:
            pooled, regions = self.embed_with_timm(visual.trunk, images)
            if regions is None:  # a trunk with map_axes has maps
                return Embedded(visual.head(pooled))
            return Embedded(visual.head(pooled), visual.head(regions.movedim(1, 3)).movedim(3, 1))
        if hasattr(visual, "trunk") or getattr(visual, "attn_pool", None) is not None:
            return Embedded(visual(images))
        norm = {} if hasattr(visual, "attnpool") else {"normalize_intermediates": True}
        features = visual.forward_intermediates(images, indices=1, **norm)
        cells = features["image_intermediates"][0].movedim(1, 3)
        regions = (
            cells @ visual.proj if norm else visual.attnpool.c_proj(visual.attnpool.v_proj(cells))
        )
        return Embedded(features["image_features"], regions.movedim(3, 1))


class OpenClipTexts(OpenClipTower):
    """A text tower with its tokenizer and its projection into the space shared with images; vectors
    are not normalised.

    Texts are padded to ``maximum_tokens``, as open_clip does, unless padding cannot change their
    vectors. So for a network that sees its padding, such as SigLIP's, a smaller ``maximum_tokens``
    gives different vectors.
    """

    OTHER: ClassVar = {"vision_cfg": {"image_size": 1, "patch_size": 1, "width": 64, "layers": 0}}

    def __init__(
        self,
        model: Any,
        config: Mapping[str, Any],
        folder: Path | None,
        settings: Mapping[str, Any],
    ) -> None:
        super().__init__()
        text = model.text
        text_config = config["model_cfg"]["text_cfg"]
        text.output_tokens = False
        limit = text_config.get("context_length", 77)
        self.maximum_tokens: int = settings["maximum_tokens"] or limit
        if self.maximum_tokens > limit:
            raise UserError(
                f"maximum_tokens is {self.maximum_tokens}; expected at most {limit}, the limit of"
                f" {settings['model']}."
            )
        self.network = text
        self.tokenizer = _tokenizer(text_config, folder, settings["model"])
        self.is_causal = getattr(text, "attn_mask", None) is not None
        if self.is_causal:  # as a buffer, a moving average would make the mask NaN
            del text.attn_mask
        self.class_tokens = int(getattr(text, "cls_emb", None) is not None)
        self.is_trimmed = (
            self.is_causal and not self.class_tokens and text.pool_type in ("argmax", "eos")
        )
        self.eval()
        with torch.no_grad():
            self.dimensions = self(self.prepare(["a"])).pooled.shape[1]

    def lengths(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each text before truncation, including start and end
        tokens.
        """
        if not hasattr(self.tokenizer, "tokenizer"):
            return [2 + len(self.tokenizer.encode(text)) for text in texts]
        rows = self.tokenizer.tokenizer([self.tokenizer.clean_fn(text) for text in texts])
        return [len(row) for row in rows["input_ids"]]

    def prepare(self, raw: Sequence[str]) -> dict[str, Tensor]:
        """Return ``tokens``, int64 (B, L), truncated to ``maximum_tokens``."""
        tokens = self.tokenizer(list(raw), context_length=self.maximum_tokens)
        return {"tokens": tokens[:, : max(self.lengths(raw))] if self.is_trimmed else tokens}

    def forward(self, batch: Mapping[str, Tensor]) -> Embedded:
        """Embed tokens (B, L)."""
        tokens = batch["tokens"]
        if self.is_causal:
            length = tokens.shape[1] + self.class_tokens
            self.network.attn_mask = torch.full(
                (length, length), -torch.inf, device=tokens.device
            ).triu(1)
        return Embedded(self.network(tokens))

    def files(self) -> dict[str, bytes]:
        """Return the configuration, and the files of the tokenizer and of a Hugging Face
        network.
        """
        with tempfile.TemporaryDirectory() as folder:
            for part in filter(
                None,
                (getattr(self.tokenizer, "tokenizer", None), getattr(self.network, "config", None)),
            ):
                part.save_pretrained(folder)
            return super().files() | {
                path.name: path.read_bytes() for path in Path(folder).iterdir()
            }


def _check_file(weights: str, model: str) -> None:
    """Refuse a file that does not exist, and warn if the model's activation may be another one."""
    open_clip = library("open_clip")
    if not Path(weights).is_file():
        tags = ", ".join(open_clip.list_pretrained_tags_by_model(model)) or "none for this model"
        raise UserError(
            f"{weights} does not exist; expected none, a file or an open_clip tag ({tags})."
        )
    if (other := f"{model}-quickgelu") in open_clip.list_models():
        log.warning(
            f"{model} is built with GELU, but {weights} does not say what it was trained with. For"
            " weights trained with QuickGELU, such as those of OpenAI, MetaCLIP and DFN, set model"
            f" to {other}; otherwise their vectors are wrong."
        )


def _configuration(model: str) -> tuple[dict[str, Any], Path | None]:
    """Return a model's ``model_cfg`` and ``preprocess_cfg``, and the folder of its file."""
    open_clip = library("open_clip")
    path = Path(model)
    preprocessing = {"mean": open_clip.OPENAI_DATASET_MEAN, "std": open_clip.OPENAI_DATASET_STD}
    if path.suffix == ".json":
        with reading(
            path, "a JSON configuration of open_clip", "Use such a file, or the name of a model."
        ):
            content = json.loads(path.read_text(encoding="utf-8"))
            preprocessing |= content.get("preprocess_cfg", {})
            return {
                "model_cfg": content.get("model_cfg", content),
                "preprocess_cfg": preprocessing,
            }, path.parent
    if model not in open_clip.list_models():
        raise unknown_model(model, "open_clip", open_clip.list_models())
    # For weights from a file: as the first published weights of this model, such as 0.5 for SigLIP.
    for tag in open_clip.list_pretrained_tags_by_model(model)[:1]:
        preprocessing |= {
            key: open_clip.get_pretrained_cfg(model, tag)[key] for key in ("mean", "std")
        }
    return {"model_cfg": open_clip.get_model_config(model), "preprocess_cfg": preprocessing}, None


def _network(architecture: Mapping[str, Any], folder: Path | None, model: str) -> Any:
    """Create open_clip's model with random weights, without weights of other libraries."""
    open_clip = library("open_clip")
    config = copy.deepcopy(dict(architecture))
    config["vision_cfg"]["timm_model_pretrained"] = config["text_cfg"]["hf_model_pretrained"] = (
        False
    )
    config.pop("custom_text", None)
    if name := config["text_cfg"].get("hf_model_name"):
        config["text_cfg"]["hf_model_name"] = source = _beside(folder, HF_CONFIG, name)
        with explain_download(f"{model}: the configuration of {name}", name):
            # open_clip does not say no to a model's own code, and transformers would ask on the
            # terminal.
            library("transformers").AutoConfig.from_pretrained(source, trust_remote_code=False)
    # Texts as a network of their own; load_checkpoint renames the tensors of a plain CLIP.
    return (open_clip.CoCa if "multimodal_cfg" in config else open_clip.CustomTextCLIP)(
        **config
    ).eval()


def _tokenizer(text_config: Mapping[str, Any], folder: Path | None, model: str) -> Any:
    """Return the tokenizer of ``open_clip.get_tokenizer``, which takes no dictionary; never run
    custom code.
    """
    tokenizers = library("open_clip.tokenizer")
    name = text_config.get("hf_tokenizer_name")
    arguments = {
        "context_length": text_config.get("context_length", 77),
        **text_config.get("tokenizer_kwargs", {}),
    }
    if not name:
        return tokenizers.SimpleTokenizer(**arguments)
    arguments |= {"tokenizer_mode": text_config.get("tokenizer_mode"), "trust_remote_code": False}
    source = _beside(folder, HF_TOKENIZER, name)
    expected = "a tokenizer that transformers loads without custom code"
    with (
        reading(model, expected, "Use another model."),
        explain_download(f"{model}: the tokenizer {name}", name),
    ):
        return tokenizers.HFTokenizer(source, **arguments)


def _beside(folder: Path | None, file: str, name: str) -> str:
    """Return the configuration's folder if it has a file of Hugging Face's layout, otherwise the
    name on the hub.
    """
    return str(folder) if folder and (folder / file).is_file() else name
