"""Read files of trained weights: unpickle nothing but tensors and plain values, and raise readable
errors.
"""

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

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
    target, content = Path(target), read_tensors(source)
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


def load_exactly(
    modules: Mapping[str, nn.Module], state: Mapping[str, Tensor], path: str | Path, expected: str
) -> None:
    """Load a file's tensors into modules, which together must have exactly the same tensors.

    Args:
        modules: modules by the prefix of their tensors in the file.
        state: the file's tensors.
        path: the file, for messages.
        expected: description of the expected file, for messages.

    Raises:
        UserError: naming tensors that are missing, unexpected or of the wrong shape.
    """
    parts = {
        prefix + name: value
        for prefix, module in modules.items()
        for name, value in module.state_dict().items()
    }
    groups = {
        "missing": [name for name in parts if name not in state],
        "unknown": [name for name in state if name not in parts],
    }
    faults = [
        f"{what} tensors ({len(names)}): {_listed(names)}"
        for what, names in groups.items()
        if names
    ]
    shapes = {
        name: (tuple(state[name].shape), tuple(part.shape))
        for name, part in parts.items()
        if name in state
    }
    wrong = [
        f"{name} has shape {shape}; expected {fitting}"
        for name, (shape, fitting) in shapes.items()
        if shape != fitting
    ]
    if faults or wrong:
        raise UserError(f"{path}: {'; '.join(faults + wrong[:3])}. Expected {expected}.")
    for name, part in parts.items():
        part.copy_(state[name])  # state_dict returns the modules' own tensors, detached


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
