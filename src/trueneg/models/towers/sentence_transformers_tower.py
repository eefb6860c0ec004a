"""Text encoders that sentence-transformers loads: BERT, RoBERTa, MPNet, ModernBERT, static
embeddings and others.
"""

import contextlib
import copy
import json
import logging
import os
import re
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from trueneg.errors import UserError
from trueneg.io.downloads import explain_download
from trueneg.io.reading import reading
from trueneg.models.text_encoders import BertTextEncoder
from trueneg.models.towers.packages import library, packaged_file
from trueneg.models.towers.tower import Embedded, Tower, transformer_blocks
from trueneg.text.loading import longest_input

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

log = logging.getLogger(__name__)

# A model that an installed package ships (extra: pretrained), and the zip file in the package.
PACKAGED = "all-MiniLM-L6-v2"
MEMBER = ("all_minilm_l6_v2", "model.zip")
HUB = "sentence-transformers/"  # the organisation that the library adds to names without one
NO_LIMIT = 10**9  # transformers states 10**30 tokens if a network has no limit
SHOWN = 5  # names of prompts in a message
EXPECTED = "a text encoder that sentence-transformers loads without custom code"


class SentenceTransformerTower(Tower):
    """A model of sentence-transformers, in float32; vectors equal those of the library's
    ``encode``, with its default prompt.

    Args:
        model: the library's model, which begins with a ``Transformer`` or a ``StaticEmbedding``.
        settings: settings of the encoder; ``maximum_tokens`` lowers the model's limit.

    Raises:
        UserError: if the model takes no texts, or fewer tokens than ``maximum_tokens``, or its
            parts do not fit together.
    """

    def __init__(self, model: "SentenceTransformer", settings: Mapping[str, Any]) -> None:
        super().__init__()
        self.model = model.float()
        name = settings["model"]
        self.prompt = model.prompts.get(model.default_prompt_name or "") or ""
        first = type(model[0]).__name__
        self.static = first == "StaticEmbedding"
        kinds = list(map(str, model.modalities))
        if (
            first not in ("Transformer", "StaticEmbedding")
            or "text" not in kinds
            or "message" in kinds
        ):
            raise UserError(
                f"{name} begins with a {first} for {', '.join(kinds)}; expected {EXPECTED}, and no"
                " chat template."
            )
        if self.static:
            truncation = model.tokenizer.truncation or {"max_length": NO_LIMIT}
            limit = truncation["max_length"]
        else:  # networks that number positions from the padding id, such as RoBERTa, take fewer
            limit = min(longest_input(model.transformers_model, model.tokenizer), NO_LIMIT)
        if (longest := settings["maximum_tokens"] or limit) > limit:
            raise UserError(
                f"maximum_tokens is {longest}; expected at most {limit}, the limit of {name}."
            )
        if self.static:
            model.tokenizer.enable_truncation(**truncation | {"max_length": longest, "stride": 0})
        else:
            model.max_seq_length = longest
        self.maximum_tokens = longest if longest < NO_LIMIT else None
        with torch.inference_mode(), reading(name, EXPECTED, "Get a complete copy."):
            self.dimensions = self.eval()(self.prepare(["a"])).pooled.shape[1]

    @classmethod
    def build(cls, settings: Mapping[str, Any]) -> "SentenceTransformerTower":
        """Load a model from a folder, from an installed package that ships it, or from the hub, and
        warn if prompts for queries and documents are not applied as such.

        Raises:
            UserError: if the model is missing, damaged or incomplete, cannot be downloaded, or
                needs custom code.
        """
        with tempfile.TemporaryDirectory() as folder:
            tower = cls(_load(_unpacked(settings, folder), settings), settings)
        if remark := _remark_on_prompts(tower.model):
            log.warning(f"{settings['model']}: {remark}")
        return tower

    @classmethod
    def restore(
        cls, settings: Mapping[str, Any], files: Mapping[str, bytes]
    ) -> "SentenceTransformerTower":
        """Rebuild the network from :meth:`files`; its weights are zero until the caller loads a
        state dict.
        """
        with tempfile.TemporaryDirectory() as folder:
            for path, content in files.items():
                target = Path(folder, path)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content)
                if target.suffix == ".safetensors":  # append zeros, as a sparse file
                    ends = [
                        entry.get("data_offsets", (0, 0))[1]
                        for entry in json.loads(content[8:]).values()
                    ]
                    os.truncate(target, len(content) + max(ends))
            return cls(_load(folder, settings), settings)

    def prepare(self, raw: Sequence[str]) -> dict[str, Tensor]:
        """Tokenise texts as the library does, truncated; static embeddings have one flat row of
        tokens, and offsets of texts.
        """
        features = self.model.preprocess(list(raw), prompt=self.prompt)
        # prompt_length, the number of tokens that are not pooled, is an integer; pooling expects
        # that or a tensor of one dimension.
        return {
            key: torch.atleast_1d(torch.as_tensor(value))
            for key, value in features.items()
            if key != "modality"
        }

    def lengths(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each text before truncation, with special tokens and the
        default prompt.
        """
        prompted = [self.prompt + text for text in texts]
        if self.static:
            encodings = self.model.tokenizer.encode_batch(prompted, add_special_tokens=False)
            return [sum(map(len, (encoding, *encoding.overflowing))) for encoding in encodings]
        return list(
            map(len, self.model.tokenizer(prompted, truncation=False, verbose=False)["input_ids"])
        )

    def forward(self, batch: Mapping[str, Tensor]) -> Embedded:
        """Return vectors (B, D) of what :meth:`prepare` returns."""
        # a copy, because the library's modules add their outputs
        features = self.model(dict(batch))
        return Embedded(features["sentence_embedding"][:, : self.model.truncate_dim])

    def blocks(self) -> Sequence[nn.Module]:
        """Return the embeddings and the transformer's layers."""
        return transformer_blocks(self.model)

    def files(self) -> dict[str, bytes]:
        """Return the library's folder by relative path; of its .safetensors files, the header
        without the weights.
        """
        with tempfile.TemporaryDirectory() as folder:
            self.model.save(folder, create_model_card=False)
            paths = sorted(Path(folder).rglob("*.*"))  # folders of modules have no dot
            content = {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}
        for name in filter(re.compile("safetensors$").search, content):
            content[name] = content[name][: 8 + int.from_bytes(content[name][:8], "little")]
        return content

    def export(self, folder: Path, layers: Sequence[nn.Module] = ()) -> None:
        """Write a folder of sentence-transformers.

        Args:
            folder: the new folder.
            layers: linear layers, activations and layer norms on top of the vectors, which the
                folder contains as the library's own modules.
        """
        from sentence_transformers.sentence_transformer.modules import Dense, LayerNorm

        model: Any = copy.deepcopy(self.model).cpu()
        # weights of zero leave out the dimensions that it cuts off
        model.truncate_dim = None if layers else model.truncate_dim
        for layer in layers:
            width = model.get_embedding_dimension() or self.dimensions
            if isinstance(layer, nn.Linear):
                weight = functional.pad(layer.weight.detach(), (0, width - layer.in_features))
                bias = None if layer.bias is None else layer.bias.detach()
                model.append(
                    Dense(width, len(weight), bias is not None, nn.Identity(), weight, bias)
                )
            elif isinstance(layer, nn.LayerNorm):
                # The library does not store ε, which is 1e-5 there, so scale the vectors instead.
                scale = torch.eye(width) * (1e-5 / layer.eps) ** 0.5
                model.extend([Dense(width, width, False, nn.Identity(), scale), LayerNorm(width)])
                model[-1].norm.load_state_dict(layer.state_dict())
            else:
                model[-1].activation_function = layer
        model.save(str(folder), create_model_card=False)


def tower_of_bert(
    encoder: BertTextEncoder, tokenizer: Any, maximum_tokens: int
) -> SentenceTransformerTower:
    """Return a BERT with its pooling as a model of sentence-transformers.

    Raises:
        UserError: if sentence-transformers is not installed.
    """
    modules = library("sentence_transformers.sentence_transformer.modules")
    with tempfile.TemporaryDirectory() as folder:
        encoder.bert.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        bert: Any = modules.Transformer(
            folder, max_seq_length=maximum_tokens, model_kwargs={"add_pooling_layer": False}
        )
    pooling = modules.Pooling(encoder.dimensions, encoder.pooling)
    model = library("sentence_transformers").SentenceTransformer(
        modules=[bert, pooling], device="cpu"
    )
    return SentenceTransformerTower(
        model, {"truncate": True, "model": "BERT", "maximum_tokens": maximum_tokens}
    )


def _load(source: str, settings: Mapping[str, Any]) -> "SentenceTransformer":
    """Load a model from a folder or by its name on the hub, never run custom code, and refuse one
    that lacks weights.
    """
    sentence_transformers = library("sentence_transformers")
    transformers = library("transformers")
    version = sentence_transformers.__version__
    # earlier versions run code that comes with a local model
    if int(version.partition(".")[0]) < 6:
        raise UserError(
            f"sentence-transformers is {version}; expected 6.0 or newer: pip install -U"
            " 'trueneg[towers]'."
        )
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    name = settings["model"]
    is_local = Path(source).is_dir()
    report = list[str]()
    reporter: Any = logging.getLogger("transformers.modeling_utils")
    with (
        reading(name, EXPECTED, "Get a complete copy, or use another model."),
        contextlib.ExitStack() as stack,
    ):
        # transformers only logs which weights are missing. The filter returns None, so nothing is
        # printed.
        reporter.addFilter(collect := lambda record: report.append(record.getMessage()))
        stack.callback(reporter.removeFilter, collect)
        stack.callback(reporter.setLevel, reporter.level)
        reporter.setLevel(logging.WARNING)
        if not is_local and re.fullmatch(r"[\w.-]+(/[\w.-]+)?", source):
            stack.enter_context(explain_download(name, f"https://huggingface.co/{source}", "model"))
        where: dict[str, Any] = {
            "revision": settings["revision"],
            "local_files_only": is_local or settings["offline"],
        }
        model: Any = sentence_transformers.SentenceTransformer(
            source, device="cpu", trust_remote_code=False, **where
        )
    missing = sorted(
        re.findall(r"^(\S.*?)\s*\|\W*(?:\[\d+m)?MISSING", "\n".join(report), re.MULTILINE)
    )
    text = getattr(model[0], "modality_config", {}).get("text", {})
    if text.get("method_output_name") == "last_hidden_state" and hasattr(model[0].model, "pooler"):
        model[0].model.pooler = None  # unused, and random if the checkpoint has none
        missing = [weights for weights in missing if not weights.startswith("pooler.")]
    if missing:
        raise UserError(
            f"{name} lacks weights of its network: {', '.join(missing[:3])}, …. Get a complete"
            " copy."
        )
    return model


def _remark_on_prompts(model: "SentenceTransformer") -> str:
    """Say which prompts of a model are not applied, or that its default prompt is applied to all
    texts; empty if it has none.
    """
    names = [name for name, prompt in model.prompts.items() if prompt]
    if model.default_prompt_name in names:
        return (
            f"its default prompt ({model.default_prompt_name}) is applied to all texts, queries and"
            " documents alike; if they need different ones, save a copy of the model without"
            " default_prompt_name, and put the prefixes into the texts."
        )
    shown = ", ".join(names[:SHOWN] + ["…"] * (len(names) > SHOWN))
    return shown and (
        f"its prompts ({shown}) are not applied, because none is its default; if its vectors need"
        " them, save a copy of the model with default_prompt_name set, or put the prefixes into the"
        " texts."
    )


def _unpacked(settings: Mapping[str, Any], folder: str) -> str:
    """Return the folder of a model, unpacked from an installed package if one ships it; otherwise,
    its name on the hub.
    """
    name = settings["model"]
    is_packaged = (
        name.removeprefix(HUB) == PACKAGED and not settings["revision"] and not Path(name).is_dir()
    )
    if is_packaged and (path := packaged_file(*MEMBER)):
        with (
            reading(path, f"the model of {PACKAGED}", "Reinstall its package."),
            zipfile.ZipFile(path) as archive,
        ):
            archive.extractall(folder)  # compares checksums, and never writes outside the folder
        return folder
    return name
