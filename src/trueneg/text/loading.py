"""Language models by name on the Hugging Face hub or by folder, with the reason in a sentence where one cannot be loaded."""

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trueneg.errors import UserError
from trueneg.text.masked_copies import CAUSAL, VARIANTS

KEY = "language_models: model"


def load_language_model(
    name: str | Path, *, variant: str = "original", revision: str | None = None, trust_remote_code: bool = False
) -> tuple[Any, Any]:
    """A language model and its tokenizer.

    CXR-BERT (``microsoft/BiomedVLP-CXR-BERT-…``) comes with code of its own, whose masked language model is plain BERT: it is
    loaded as that, without running the code. Pickled weights are read as tensors alone.

    Args:
        name: on the hub, or a local folder as ``save_pretrained`` writes it.
        variant: a masked model for ``"original"`` and ``"within_word_l2r"``, a causal one for ``"causal"``.
        revision: tag or commit on the hub; name one, or a number may change with the hub's.
        trust_remote_code: whether code that comes with the model may be run.

    Returns:
        The model in evaluation mode, on the CPU, and a fast tokenizer.

    Raises:
        UserError: if it is not there, may not be read, wants to run code, or lacks weights.
        ValueError: if there is no such variant.
    """
    if variant not in VARIANTS:
        raise ValueError(f"variant is {variant!r}, expected one of {', '.join(VARIANTS)}.")
    name = str(name)
    looks_local = Path(name).exists() or not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", name)
    if looks_local and not (Path(name) / "config.json").is_file():
        raise UserError(
            f"{KEY}: {name} holds no config.json; expected a folder as save_pretrained writes it, or a name on the hub."
        )
    import transformers
    from transformers.utils import logging as transformers_logging

    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    where = {"revision": revision}
    with _reasons(name, revision):
        config, _ = transformers.PretrainedConfig.get_config_dict(name, **where)
        if _is_cxr_bert(config):
            model_class, tokenizer_class = transformers.BertForMaskedLM, transformers.BertTokenizerFast
            where["config"] = transformers.BertConfig.from_dict({**config, "model_type": "bert", "auto_map": {}})
            tokenizer = tokenizer_class.from_pretrained(name, revision=revision)
        else:
            model_class = transformers.AutoModelForCausalLM if variant == CAUSAL else transformers.AutoModelForMaskedLM
            where["trust_remote_code"] = trust_remote_code
            tokenizer = transformers.AutoTokenizer.from_pretrained(name, use_fast=True, **where)
        model, report = model_class.from_pretrained(name, output_loading_info=True, **where)
    missing = sorted(report["missing_keys"])
    if missing:
        raise UserError(
            f"{KEY}: {name} lacks {len(missing)} weights of a {type(model).__name__} ({', '.join(missing[:3])}, …), which would "
            "be random. It may be an encoder without its language-model head; choose a model that has one."
        )
    return model.eval(), tokenizer


@contextlib.contextmanager
def _reasons(name: str, revision: str | None) -> Iterator[None]:
    """What the hub and its library raise, as a sentence with the remedy."""
    from huggingface_hub import errors

    try:
        yield
    except Exception as error:
        causes = list(_causes(error))
        where = f"{KEY}: {name}" + (f" at revision {revision}" if revision else "")
        if any(isinstance(cause, errors.GatedRepoError) for cause in causes):
            remedy = f"asks for its terms to be accepted: accept them at https://huggingface.co/{name} and run `hf auth login`."
        elif any(isinstance(cause, errors.RepositoryNotFoundError) for cause in causes):
            remedy = (
                "is not on the hub, or is private: mend the name, or run `hf auth login` (or set HF_TOKEN) if you may read it."
            )
        elif any(isinstance(cause, errors.RevisionNotFoundError) for cause in causes):
            remedy = "is not on the hub: there is no such revision; mend its revision."
        elif "trust_remote_code" in str(error):
            remedy = (
                "wants to run Python code that comes with it: read that code, then set the language model's trust_remote_code: "
                "true with a revision, or choose another model."
            )
        elif any(isinstance(c, errors.LocalEntryNotFoundError | errors.OfflineModeIsEnabled | ConnectionError) for c in causes):
            remedy = (
                "is not in this machine's cache and the hub cannot be reached: download it where there is a network "
                f"(`hf download {name}`) and name the folder, or set HF_HOME to a cache that has it."
            )
        elif isinstance(error, OSError | ValueError | KeyError):
            remedy = f"cannot be loaded ({type(error).__name__}: {' '.join(str(error).split())[:300]})."
        else:
            raise
        raise UserError(f"{where} {remedy}") from error


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _is_cxr_bert(config: dict[str, Any]) -> bool:
    return config.get("model_type") == "cxr-bert" or any("CXRBert" in name for name in config.get("architectures") or [])
