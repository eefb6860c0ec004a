"""Text: reports → sentences → likelihoods.

``split_sentences`` and ``pseudo_log_likelihood`` are the public API. Each is imported on first
access, because splitting sentences does not need torch.
"""

import importlib

PUBLIC = {
    "split_sentences": "trueneg.text.sentences",
    "pseudo_log_likelihood": "trueneg.text.pseudo_likelihood",
}

__all__ = ["pseudo_log_likelihood", "split_sentences"]


def __getattr__(name: str):
    if name not in PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(PUBLIC[name]), name)
