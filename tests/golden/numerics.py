"""Float64 computation of code that computes in float32, and summaries of tensors."""

import contextlib
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor, nn

from tests.golden.golden import checksum


@contextlib.contextmanager
def double_precision() -> Iterator[None]:
    """Let new tensors and ``.float()`` be float64: rounding then differs between processors by
    1e-16 instead of 1e-7.
    """
    before = torch.get_default_dtype()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(torch.Tensor, "float", torch.Tensor.double)
        patched.setattr(nn.Module, "float", nn.Module.double)
        torch.set_default_dtype(torch.float64)
        try:
            yield
        finally:
            torch.set_default_dtype(before)


@contextlib.contextmanager
def float32_is_float64() -> Iterator[None]:
    """Let ``torch.float32`` mean float64, while networks and data are set up; fused optimizers
    count in true float32.
    """
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(torch, "float32", torch.float64)
        yield


def signs(name: str, count: int) -> Tensor:
    """Return a random direction of ±1, always the same for a name."""
    drawn = np.random.default_rng(zlib.crc32(name.encode())).integers(0, 2, count)
    return torch.from_numpy(2.0 * drawn - 1)


def summary(tensors: Mapping[str, Tensor], parts: int = 1) -> dict[str, list[float]]:
    """Return the norm and a random projection of tensors, together for all with the same first
    parts of their names.
    """
    by_group: dict[str, list[float]] = {}
    for name, tensor in tensors.items():
        if tensor.is_floating_point():
            values = tensor.detach().double().flatten()
            sums = by_group.setdefault(".".join(name.split(".")[:parts]), [0.0, 0.0])
            sums[0] += float(values @ values)
            sums[1] += float(values @ signs(name, len(values)))
    return {group: [square**0.5, projection] for group, (square, projection) in by_group.items()}


def change(
    before: Mapping[str, Tensor], after: Mapping[str, Tensor], parts: int = 1
) -> dict[str, list[float]]:
    """Summarise the change of tensors."""
    return summary({name: after[name] - value for name, value in before.items()}, parts)


def copied(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return copies of the floating-point tensors, in float64."""
    return {
        name: value.detach().double().clone()
        for name, value in tensors.items()
        if value.is_floating_point()
    }


def frame_summary(frame: pd.DataFrame) -> dict[str, Any]:
    """Return the mean and a random projection of each column of numbers, and a checksum of the
    others.
    """
    numbers = {column: frame[column].to_numpy(float) for column in frame.select_dtypes("floating")}
    others = frame.drop(columns=list(numbers))
    summarised: dict[str, Any] = {
        "rows": len(frame),
        "columns": list(frame),
        "others": checksum(others),
    }
    for column, values in numbers.items():
        finite = np.nan_to_num(values, nan=-7.0, posinf=7.0, neginf=-5.0)
        summarised[column] = [
            float(finite.mean()),
            float(finite @ signs(column, len(finite)).numpy()),
        ]
    return summarised
