"""Downloads of released weights: errors are explained, and ``trueneg check`` announces downloads
instead of starting them.
"""

import contextlib
from collections.abc import Iterator
from urllib import request
from urllib.error import URLError

from trueneg.errors import UserError, causes


@contextlib.contextmanager
def explain_download(weights: str, address: str, setting: str = "weights") -> Iterator[None]:
    """Raise a :class:`UserError` that names the address if weights cannot be downloaded."""
    try:
        yield
    except (OSError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise UserError(
            f"{weights}: cannot be downloaded from {address} ({reason}). Download the file on a"
            f" machine with internet access and set `{setting}` to its path."
        ) from error


@contextlib.contextmanager
def announced(lines: list[str], local: str | None = None) -> Iterator[None]:
    """Use only weights on this machine in the block; add a line if it stops at weights that a job
    will download.

    Args:
        lines: list to which the line is added.
        local: name of a model that the job does not download either.
    """
    from huggingface_hub import constants
    from huggingface_hub.errors import LocalEntryNotFoundError

    is_offline = constants.HF_HUB_OFFLINE
    without_network = request.OpenerDirector()
    without_network.add_handler(request.UnknownHandler())  # raises URLError
    request.install_opener(without_network)
    constants.HF_HUB_OFFLINE = True
    try:
        yield
    except UserError as error:
        model = (
            str(error)
            .partition(" cannot be ")[0]
            .rstrip(":")
            .removeprefix("language_models: model ")
        )
        absent = (
            (URLError,) if is_offline or model == local else (URLError, LocalEntryNotFoundError)
        )
        if not any(isinstance(cause, absent) for cause in causes(error)):
            raise
        lines.append(
            f"DOWNLOAD {model} is not on this machine; the job that uses it will download it."
        )
    finally:
        constants.HF_HUB_OFFLINE = is_offline
        request.install_opener(request.build_opener())
