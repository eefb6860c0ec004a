"""What a module declares of each of its figures or tables: name, heading, the files it reads, and the function that makes it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from trueneg.config.image_study import ImageStudy
from trueneg.report.drawing import in_style
from trueneg.stats.measurement import Measurement

# Files of results/<study>/artefacts that drawings of a study that trains read.
ROWS = ("study.yaml", "comparison.json", "rows.parquet")
CURVES = ("study.yaml", "comparison.json", "curves.parquet")
PAIRED = "_differences"  # ends the name of a figure's twin, which shows paired differences


@dataclass(frozen=True)
class Drawing:
    """A figure or a table of a study.

    Attributes:
        name: of its files, ``results/<study>/figures/<name>.png`` or ``results/<study>/tables/<name>.csv`` and their siblings.
        make: takes the study's :class:`trueneg.report.gathered.Gathered` and the options; returns a matplotlib figure, or a
            :class:`trueneg.report.formats.Table`. matplotlib and seaborn are imported when it is called, not before.
        title: its heading.
        caption: a sentence on what to see in it.
        files: what it reads, relative to ``results/<study>/artefacts``; it is made again when their content changes.
        options: further arguments of `make`.
    """

    name: str
    make: Callable[..., Any]
    title: str
    caption: str
    files: tuple[str, ...] = ROWS
    options: Mapping[str, Any] = field(default_factory=dict)

    def made(self, gathered: Any) -> Any:
        """The figure or table itself."""
        with in_style():
            return self.make(gathered, **self.options)

    def heading(self, study_title: str) -> str:
        """Study, title and caption as sentences."""
        parts = (study_title, self.title, self.caption)
        return " ".join(part if part.endswith((".", "?", "!")) else f"{part}." for part in parts)


def twins(name: str, make: Callable[..., Any], title: str, caption: str, **options: Any) -> list[Drawing]:
    """A figure, and its twin that shows paired differences: `make` takes ``paired``."""
    return [
        Drawing(name, make, title, caption, options=options | {"paired": False}),
        Drawing(name + PAIRED, make, f"{title}: paired differences", caption, options=options | {"paired": True}),
    ]


def of_experiment(make: Callable[..., Any], title: str, caption: str, experiment: str = "") -> Drawing:
    """A figure or table of an experiment of a theory study; both have the function's name unless the experiment has another."""
    return Drawing(make.__name__, make, title, caption, ("study.yaml", f"simulation/{experiment or make.__name__}.parquet"))


def full_probe(study: ImageStudy, pool: str) -> Measurement:
    """The linear probe on all labels of a pool."""
    return Measurement("linear probe", "accuracy", pool, max(study.evaluation.linear_probe.label_fractions))
