"""Theory that can be run: scores from a known process, and what each estimator makes of them.

Nothing heavy is imported until it is asked for: the catalogue of experiments is read where there is no torch.
"""

import importlib

_HOMES = {
    "Scores": "scores",
    "Setting": "scores",
    "estimate_true_negative_mean": "estimate",
    "simulate_blocks": "scores",
    "simulate_scores": "scores",
}

__all__ = list(_HOMES)


def __getattr__(name: str):
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
