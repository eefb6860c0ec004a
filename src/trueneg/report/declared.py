"""Declarations of figures and tables: name, heading, input files, and the function that draws them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from trueneg.config.image_study import ImageStudy
from trueneg.report.drawing import in_style
from trueneg.stats.measurement import Measurement

# Files in results/<study>/artefacts that figures and tables of trained studies read.
ROWS = ("study.yaml", "comparison.json", "rows.parquet")
CURVES = ("study.yaml", "comparison.json", "curves.parquet")
PAIRED = "_differences"  # name suffix of a figure's twin, which shows paired differences


@dataclass(frozen=True)
class Drawing:
    """A figure or a table of a study.

    Attributes:
        name: base name of its files: ``results/<study>/figures/<name>.png`` or ``results/<study>/tables/<name>.csv``, and the
            same in the other formats.
        make: function that takes the study's :class:`trueneg.report.gathered.Gathered` and the options and returns a matplotlib
            figure or a :class:`trueneg.report.formats.Table`. matplotlib and seaborn are imported only when it is called.
        title: heading.
        caption: sentence that says what to look for.
        files: input files relative to ``results/<study>/artefacts``; the drawing is remade when their content changes.
        options: further keyword arguments of `make`.
    """

    name: str
    make: Callable[..., Any]
    title: str
    caption: str
    files: tuple[str, ...] = ROWS
    options: Mapping[str, Any] = field(default_factory=dict)

    def made(self, gathered: Any) -> Any:
        """Draw the figure or table."""
        with in_style():
            return self.make(gathered, **self.options)

    def heading(self, study_title: str) -> str:
        """Return the study, title and caption as sentences."""
        parts = (study_title, self.title, self.caption)
        return " ".join(part if part.endswith((".", "?", "!")) else f"{part}." for part in parts)


def twins(name: str, make: Callable[..., Any], title: str, caption: str, **options: Any) -> list[Drawing]:
    """Declare a figure and its twin that shows paired differences; `make` takes ``paired``."""
    return [
        Drawing(name, make, title, caption, options=options | {"paired": False}),
        Drawing(name + PAIRED, make, f"{title}: paired differences", caption, options=options | {"paired": True}),
    ]


def of_experiment(make: Callable[..., Any], title: str, caption: str, experiment: str = "") -> Drawing:
    """Declare a figure or table of a theory experiment; the experiment's name defaults to that of the function."""
    return Drawing(make.__name__, make, title, caption, ("study.yaml", f"simulation/{experiment or make.__name__}.parquet"))


def full_probe(study: ImageStudy, pool: str) -> Measurement:
    """Return the measurement of the linear probe at the largest label fraction of a pool."""
    return Measurement("linear probe", "accuracy", pool, max(study.evaluation.linear_probe.label_fractions))
