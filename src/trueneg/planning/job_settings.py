"""Look up what the configuration says about a job, given its wildcards."""

import os
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from trueneg.specs.sections import Section

GRES = "TRUENEG_GRES"  # environment variable, such as gpu:a100: for clusters without --gpus


class JobSettings:
    """The settings of jobs; Snakemake's own lookup() searches the whole configuration, slowly.

    Args:
        config: the resolved configuration.
    """

    def __init__(self, config: Section):
        self._config = config

    def setting(self, place: str, **functions: Callable[[Any], str]) -> Callable[[Any], Any]:
        """Return a function that looks up a setting by the wildcards of a job.

        Args:
            place: where the setting is, such as ``{study}/training/threads``.
            functions: return placeholders of `place` that are not wildcards.
        """

        def of_job(wildcards: Any) -> Any:
            names = {name: function(wildcards) for name, function in functions.items()}
            value: Any = self._config
            for key in place.split("/"):
                value = value[key.format(**wildcards, **names)]
            return value

        return of_job

    def growing(
        self,
        section: str,
        gpus: Callable[[Any], int] | None = None,
        further: Mapping[str, Callable[[Any, Any], float]] = MappingProxyType({}),
        **functions: Callable[[Any], str],
    ) -> dict[str, Callable[..., Any]]:
        """Return the resources of a job; memory and time are multiplied by the attempt number.

        Args:
            section: section of the configuration with ``mem_mb`` and ``runtime``.
            gpus: returns the number of GPUs; None: no GPU is requested.
            further: return what is added to ``mem_mb`` and ``runtime`` for the job's input files.
            functions: return placeholders of `section` that are not wildcards.
        """

        def of_attempt(key: str) -> Callable[..., int]:
            first = self.setting(f"{section}/{key}", **functions)
            if key not in further:
                return lambda wildcards, attempt: first(wildcards) * attempt
            return lambda wildcards, input, attempt: (
                attempt * (first(wildcards) + round(further[key](wildcards, input)))
            )

        resources: dict[str, Callable[..., Any]] = {
            key: of_attempt(key) for key in ("mem_mb", "runtime")
        }
        if gpus is None:
            return resources
        if gres := os.environ.get(GRES):
            return resources | {
                "gres": lambda wildcards: f"{gres}:{gpus(wildcards)}" if gpus(wildcards) else None
            }
        return resources | {"gpu": gpus}
