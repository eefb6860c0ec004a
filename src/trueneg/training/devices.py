"""Which device a process computes on."""

import logging

import torch

from trueneg.errors import UserError

log = logging.getLogger(__name__)


def choose_device(wanted: str) -> torch.device:
    """The device for a setting ``training.device``.

    Args:
        wanted: ``"auto"`` (a GPU where there is one, else the CPU), ``"cpu"`` or ``"cuda"``.

    Raises:
        UserError: if a GPU is wanted and there is none.
    """
    if wanted == "cpu":
        return torch.device("cpu")
    if torch.cuda.is_available():
        return torch.device("cuda")
    if wanted == "cuda":
        raise UserError("training.device is 'cuda', but torch sees no GPU here; set it to auto or cpu, or use another machine.")
    log.info("device: cpu (training.device is auto, and torch sees no GPU here)")
    return torch.device("cpu")
