"""Read files of trained weights: unpickle nothing but tensors and plain values, and raise readable
errors.
"""

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from trueneg.errors import UserError
from trueneg.io.files import atomic_write
from trueneg.io.reading import reading


def read_tensors(path: str | Path) -> dict[str, Any]:
    """Read a state dict on the CPU from a ``.safetensors`` file, or from a pickle with
    ``weights_only``.

    Raises:
        UserError: if the file is missing, damaged, or contains objects other than tensors and plain
            values.
    """
    path = Path(path)
    with reading(path, "a complete state dict", "Get a complete copy."), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns about pickles before rejecting them
        return dict(
            load_file(path)
            if path.suffix == ".safetensors"
            else torch.load(path, map_location="cpu", weights_only=True)
        )


def convert(source: str | Path, target: str | Path) -> int:
    """Write a pickled state dict as safetensors, without unpickling anything but tensors and plain
    values.

    Args:
        source: a state dict saved by torch, or a checkpoint that has one as ``state_dict``.
        target: path of the new file, in a format that transformers also reads; names are unchanged,
            and tied tensors are copied.

    Returns:
        The number of tensors.

    Raises:
        UserError: if the source cannot be read or is not a state dict, or the target exists or
            cannot be written.
    """
    target = Path(target)
    content = read_tensors(source)
    state = content.get("state_dict", content)
    entries = state.items() if isinstance(state, Mapping) else []
    others = [
        str(key)
        for key, value in entries
        if not (isinstance(key, str) and isinstance(value, Tensor) and not value.is_sparse)
    ]
    if others or not entries:
        problem = (
            f"some entries are not named dense tensors ({_listed(others)})"
            if others
            else "it contains no tensors"
        )
        raise UserError(
            f"{source}: expected a state dict, but {problem}. Save only the state_dict() of a"
            " model."
        )
    if target.exists() or target.suffix != ".safetensors":
        problem = "already exists" if target.exists() else "has the wrong extension"
        raise UserError(
            f"{target}: {problem}; expected the name of a new file that ends in .safetensors."
        )
    with atomic_write(target) as path:
        save_file(
            {name: value.clone().contiguous() for name, value in state.items()},
            path,
            metadata={"format": "pt"},
        )
    return len(state)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
