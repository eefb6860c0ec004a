"""Load language models from the Hugging Face hub or a local folder."""

import hashlib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from trueneg.errors import UserError, causes, is_out_of_memory
from trueneg.io.files import file_checksum
from trueneg.store.language_models import read_language_models
from trueneg.text.masked_copies import CAUSAL


def load_language_model(
    name: str | Path,
    *,
    variant: str = "original",
    revision: str | None = None,
    trust_remote_code: bool = False,
) -> tuple[Any, Any]:
    """Load a language model and its tokenizer.

    CXR-BERT (``microsoft/BiomedVLP-CXR-BERT-…``) ships with its own code, but its masked language
    model is plain BERT, so it is loaded as BERT without running that code. Only tensors are read
    from pickled weights.

    Args:
        name: name on the hub, or a local folder written by ``save_pretrained``.
        variant: ``"original"`` and ``"within_word_l2r"`` load a masked model, ``"causal"`` loads a
            causal one.
        revision: tag or commit on the hub; without one, results can change when the hub's version
            changes.
        trust_remote_code: whether code that ships with the model may run.

    Returns:
        The model in evaluation mode, on the CPU, and a fast tokenizer.

    Raises:
        UserError: if the model is missing or inaccessible, needs custom code but may not run it, is
            damaged, lacks weights, or is to be causal and is not.
    """
    import transformers
    from transformers.utils import logging as transformers_logging

    name = str(name)
    if Path(name).is_dir() and not Path(name, "config.json").is_file():
        raise UserError(
            f"language_models: {name} contains no config.json; expected a folder from"
            " save_pretrained or a hub name."
        )
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    where: dict[str, Any] = {"revision": revision}
    model_class: Any
    try:
        config, _ = transformers.PretrainedConfig.get_config_dict(name, **where)
        if config.get("model_type") == "cxr-bert" or "CXRBert" in " ".join(
            config.get("architectures") or []
        ):
            tokenizer = transformers.BertTokenizer.from_pretrained(name, **where)
            model_class = transformers.BertForMaskedLM
            where["config"] = transformers.BertConfig.from_dict(
                {**config, "model_type": "bert", "auto_map": {}}
            )
        else:
            where["trust_remote_code"] = trust_remote_code
            tokenizer = transformers.AutoTokenizer.from_pretrained(name, use_fast=True, **where)
            model_class = (
                transformers.AutoModelForCausalLM
                if variant == CAUSAL
                else transformers.AutoModelForMaskedLM
            )
        # else a checkpoint in half precision would train and score in it
        where["dtype"] = torch.get_default_dtype()
        model, report = model_class.from_pretrained(name, output_loading_info=True, **where)
    # the hub's, and almost any other if a file is damaged or the weights do not fit
    except Exception as error:
        if is_out_of_memory(error):
            raise
        shown = f"{name} at revision {revision}" if revision else name
        raise UserError(
            f"language_models: model {shown} cannot be loaded: {_chain(error)} Check its name and"
            f" revision. If it is gated, accept its terms at https://huggingface.co/{name}, then"
            " run `hf auth login`. Without a network, set `model` to the folder from `hf download"
            f" {name}`. If it needs custom code, review it, then set trust_remote_code and"
            " revision."
        ) from error
    model.eval()
    _require_usable(model, name, sorted(report["missing_keys"]), variant)
    return model, tokenizer


def _require_usable(model: Any, name: str, missing: Sequence[str], variant: str) -> None:
    """Raise an error if a model lacks weights, or is to be causal and is not."""
    if missing:
        raise UserError(
            f"language_models: model {name} lacks {len(missing)} weights of {type(model).__name__}"
            f" ({', '.join(missing[:3])}, …); they would be random. It may be an encoder without a"
            " language-model head; choose a model that has one."
        )
    if variant == CAUSAL and not _is_causal(model):
        raise UserError(
            f"language_models: model {name} is not causal: the prediction of a token depends on"
            " that token, so its likelihoods would mean nothing. Use scoring.variant original, or a"
            " causal model such as GPT-2."
        )


@torch.inference_mode()
def _is_causal(model: Any) -> bool:
    """Return whether predictions depend on earlier tokens alone. Masked models also load as causal
    ones, with their attention in both directions.
    """
    after_first = model(input_ids=torch.tensor([[0, 1], [0, 2]])).logits[:, 0]
    return torch.allclose(after_first[0], after_first[1], rtol=1e-4, atol=1e-6)


def weights_checksum(model: Mapping[str, Any]) -> str:
    """Hash the weights in a model's ``folder``, or its name and ``revision`` on the hub if there is
    no such folder.
    """
    folder = Path(model["folder"])
    weights = [*sorted(folder.glob("*.safetensors")), *sorted(folder.glob("*.bin"))]
    parts = [file_checksum(path) for path in weights] or [model["folder"], str(model["revision"])]
    return hashlib.sha256(" ".join(parts).encode()).hexdigest()


def first_model(manifest: str | Path) -> dict[str, Any]:
    """Return the language model of the first fold. Only one is used, because each model embeds a
    sentence differently.
    """
    model = read_language_models(manifest)["models"][0]
    return {
        "folder": model["folder"],
        "revision": model["revision"],
        "checksum": weights_checksum(model),
    }


def _chain(error: BaseException) -> str:
    """Join the messages of an error and its causes without repetitions; transformers wraps the
    hub's error in a generic one.
    """
    messages = [" ".join(str(cause).split())[:300] for cause in causes(error)]
    return " ".join(f"{message.rstrip('.')}." for message in dict.fromkeys(messages))


def longest_input(model: Any, tokenizer: Any) -> int:
    """Return the maximum input length with special tokens; it is lower if the model numbers
    positions from the padding id.
    """
    limit = getattr(model.config, "max_position_embeddings", sys.maxsize)
    embeddings = getattr(model.base_model, "embeddings", None)
    numbered = getattr(getattr(embeddings, "position_embeddings", None), "padding_idx", None)
    return min(limit - (numbered + 1 if numbered is not None else 0), tokenizer.model_max_length)
