"""Load language models from the Hugging Face hub or a local folder."""

from pathlib import Path
from typing import Any

from trueneg.errors import UserError
from trueneg.text.masked_copies import CAUSAL

KEY = "language_models: model"


def load_language_model(
    name: str | Path, *, variant: str = "original", revision: str | None = None, trust_remote_code: bool = False
) -> tuple[Any, Any]:
    """Load a language model and its tokenizer.

    CXR-BERT (``microsoft/BiomedVLP-CXR-BERT-…``) ships with its own code, but its masked language model is plain BERT, so it is
    loaded as BERT without running that code. Only tensors are read from pickled weights.

    Args:
        name: name on the hub, or a local folder written by ``save_pretrained``.
        variant: a masked model for ``"original"`` and ``"within_word_l2r"``, a causal one for ``"causal"``.
        revision: tag or commit on the hub; without one, results can change when the hub's version changes.
        trust_remote_code: whether code that ships with the model may run.

    Returns:
        The model in evaluation mode, on the CPU, and a fast tokenizer.

    Raises:
        UserError: if the model is missing, access is denied, it requires its own code to run, or weights are missing.
    """
    name = str(name)
    if Path(name).is_dir() and not (Path(name) / "config.json").is_file():
        raise UserError(
            f"{KEY}: {name} holds no config.json; expected a folder as save_pretrained writes it, or a name on the hub."
        )
    import transformers
    from transformers.utils import logging as transformers_logging

    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    where: dict[str, Any] = {"revision": revision}
    model_class: Any
    try:
        config, _ = transformers.PretrainedConfig.get_config_dict(name, **where)
        if config.get("model_type") == "cxr-bert" or any("CXRBert" in one for one in config.get("architectures") or []):
            tokenizer = transformers.BertTokenizer.from_pretrained(name, **where)
            model_class = transformers.BertForMaskedLM
            where["config"] = transformers.BertConfig.from_dict({**config, "model_type": "bert", "auto_map": {}})
        else:
            where["trust_remote_code"] = trust_remote_code
            tokenizer = transformers.AutoTokenizer.from_pretrained(name, use_fast=True, **where)
            model_class = transformers.AutoModelForCausalLM if variant == CAUSAL else transformers.AutoModelForMaskedLM
        model, report = model_class.from_pretrained(name, output_loading_info=True, **where)
    except (OSError, ValueError, KeyError) as error:  # includes the hub's errors
        where_from = f"{name} at revision {revision}" if revision else name
        raise UserError(
            f"{KEY}: {where_from} cannot be loaded: {_chain(error)} Check name and revision. Accept the terms of a gated model "
            f"at https://huggingface.co/{name}, then run `hf auth login`. Without a network, name a folder from `hf download "
            f"{name}`. If the model's own Python code must run, read it, then set trust_remote_code: true with a revision."
        ) from error
    missing = sorted(report["missing_keys"])
    if missing:
        raise UserError(
            f"{KEY}: {name} lacks {len(missing)} weights of a {type(model).__name__} ({', '.join(missing[:3])}, …), which would "
            "be random. It may be an encoder without its language-model head; choose a model that has one."
        )
    return model.eval(), tokenizer


def _chain(error: BaseException | None) -> str:
    """Join the messages of an error and its causes without repetitions; transformers wraps the hub's error in a generic one."""
    found = []
    while error is not None:
        found.append(" ".join(str(error).split())[:300])
        error = error.__cause__ or error.__context__
    return " ".join(f"{one.rstrip('.')}." for one in dict.fromkeys(found))
