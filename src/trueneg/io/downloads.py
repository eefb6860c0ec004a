"""Downloads of released weights: errors are explained, and ``trueneg check`` announces downloads instead of starting them."""

import contextlib
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from pathlib import Path

from trueneg.errors import UserError

# Files of a model on the hub; any of them in the cache means that the model was downloaded.
HUB_WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json")

_allowed = ContextVar("_allowed", default=True)


class DownloadNeededError(UserError):
    """Weights are not on this machine, but can be downloaded."""


@contextlib.contextmanager
def without_downloads() -> Iterator[None]:
    """Within the block, raise a :class:`DownloadNeededError` instead of downloading weights."""
    token = _allowed.set(False)
    try:
        yield
    finally:
        _allowed.reset(token)


@contextlib.contextmanager
def explain_download(weights: str, address: str, is_cached: bool = False) -> Iterator[None]:
    """Raise a :class:`UserError` that names the address if weights cannot be downloaded.

    Raises:
        DownloadNeededError: if they are not in the cache and :func:`without_downloads` is in effect.
    """
    if not (is_cached or _allowed.get()):
        raise DownloadNeededError(f"{weights} is not on this machine; the job that uses it will download it from {address}.")
    try:
        yield
    except (OSError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise UserError(
            f"{weights}: cannot be downloaded from {address} ({reason}). Download the file on a machine with internet access "
            "and set `weights` to its path."
        ) from error


def only_local(name: str | Path, revision: str | None = None, offline: bool = False) -> bool:
    """Return whether to load a model from its folder or the hub's local cache only, never from the network.

    Args:
        name: folder, or name on the hub.
        revision: branch, tag or commit on the hub.
        offline: whether the settings forbid downloads.

    Raises:
        DownloadNeededError: if the model is not in the cache and :func:`without_downloads` is in effect.
    """
    from huggingface_hub import constants
    from huggingface_hub.errors import HFValidationError

    if _allowed.get() or offline or constants.HF_HUB_OFFLINE or Path(name).is_dir():
        return offline
    with contextlib.suppress(HFValidationError):  # a path, which loading refuses
        if not in_hub_cache(str(name), HUB_WEIGHTS, revision):
            problem = f"{name} is neither a folder nor in the cache of this machine"
            raise DownloadNeededError(f"{problem}; the job that uses it will look for it at https://huggingface.co/{name}.")
    return True


def in_hub_cache(name: str, files: Iterable[str], revision: str | None = None) -> bool:
    """Return whether any of these files of a model on the hub is in the local cache."""
    from huggingface_hub import try_to_load_from_cache

    return any(isinstance(try_to_load_from_cache(name, file, revision=revision), str) for file in files)
