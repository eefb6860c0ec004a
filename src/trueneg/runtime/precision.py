"""Arithmetic precision of forward passes by device: bfloat16 on a GPU, float32 on a CPU."""

import torch


def forward_dtype(device: torch.device) -> torch.dtype:
    """Return the data type in which networks compute on a device; losses always compute in
    float32.
    """
    return torch.bfloat16 if device.type == "cuda" else torch.float32


def autocast(device: torch.device) -> torch.autocast:
    """Return a context in which networks compute in :func:`forward_dtype`; on a CPU it changes
    nothing.
    """
    return torch.autocast(
        device.type, torch.bfloat16, enabled=forward_dtype(device) == torch.bfloat16
    )
