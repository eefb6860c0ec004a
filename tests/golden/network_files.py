"""Files of a BERT and BioViL with random weights, and the settings that name them."""

import functools
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests import biovil
from tests.golden.numerics import double_precision
from tests.text import models
from trueneg.models.text_encoders import load_bert
from trueneg.models.weights import convert


@functools.cache
def temporary_folder() -> Any:
    """Return a folder that is removed when the process ends."""
    return tempfile.TemporaryDirectory()


@functools.cache
def _files() -> dict[str, Any]:
    """Files of a BERT and BioViL with random weights."""
    folder = Path(temporary_folder().name) / "networks"
    folder.mkdir()
    with double_precision():  # draws of float32 differ between processors
        tokenizer = models.tokenizer()
        tokenizer.save_pretrained(folder / "bert")
        models.bert(len(tokenizer)).save_pretrained(folder / "bert")
        for name, path in biovil.write_pickles(folder, load_bert(folder / "bert")[0]).items():
            convert(path, folder / f"{name}.safetensors")
    return {
        "bert": str(folder / "bert"),
        "image": str(folder / "image.safetensors"),
        "text": str(folder / "text.safetensors"),
    }


def _text_encoder() -> dict[str, Any]:
    files = _files()
    settings = dict.fromkeys(("revision", "maximum_tokens", "frozen_layers", "projection")) | {
        "offline": True,
        "truncate": True,
    }
    return settings | {"name": "pretrained", "model": files["bert"], "pooling": "cls"}


def with_files(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Replace the names of encoders by their settings, which name files."""
    files, changed = _files(), dict(settings)
    if changed["encoder"] == {"name": "biovil"}:
        changed["encoder"] = {"name": "biovil", "weights": files["image"]}
    if (text := changed["text_encoder"]).keys() <= {"name", "released"}:
        changed["text_encoder"] = _text_encoder() | (
            {"projection": files["text"]} if text.get("released") else {}
        )
    return changed
