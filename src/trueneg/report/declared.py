"""Declarations of figures and tables: name, heading, input files, and the function that makes
them.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trueneg.config import runs
from trueneg.report.drawing import in_style
from trueneg.specs.kinds.trained import TrainedStudy
from trueneg.specs.settings import Study, values_of
from trueneg.specs.tasks.images import LabelPool
from trueneg.stats.measurement import Measurement

# Files in results/<study>/artefacts that figures and tables of trained studies read.
ROWS = ("study.yaml", "comparison.json", "rows.parquet")
CURVES = ("study.yaml", "comparison.json", "curves.parquet")
PAIRED = "_differences"  # name suffix of figures that show paired differences instead of means


@dataclass(frozen=True)
class Drawing:
    """A figure or a table of a study.

    Attributes:
        name: base name of its files: ``results/<study>/figures/<name>.png`` or
            ``results/<study>/tables/<name>.csv``, and the same in the other formats.
        make: function that takes the study's :class:`trueneg.report.gathered.Gathered` and the
            options and returns a matplotlib figure or a :class:`trueneg.report.formats.Table`.
            matplotlib and seaborn are imported only when it is called.
        title: heading.
        caption: sentence that explains what to look for.
        files: input files relative to ``results/<study>/artefacts``; the figure or table is remade
            when their content changes.
        options: further keyword arguments of `make`.
        headline: whether the page's overview shows this figure with the study's answer; if none
            does, it shows the first figure.
    """

    name: str
    make: Callable[..., Any]
    title: str
    caption: str
    files: tuple[str, ...] = ROWS
    options: Mapping[str, Any] = field(default_factory=dict)
    headline: bool = False

    def made(self, gathered: Any) -> Any:
        """Draw the figure or table."""
        with in_style():
            return self.make(gathered, **self.options)

    def heading(self, study_title: str) -> str:
        """Return the study's title, the heading and the caption as sentences."""
        parts = (study_title, self.title, self.caption)
        return " ".join(part if part.endswith((".", "?", "!")) else f"{part}." for part in parts)


def twins(
    study: Any, name: str, make: Callable[..., Any], title: str, caption: str, **options: Any
) -> list[Drawing]:
    """Declare a figure of paired differences and one of means; `make` gets ``baseline``, which is
    None for the means.
    """
    paired = options | {"baseline": study.primary.baseline}
    return [
        Drawing(name + PAIRED, make, f"{title}: paired differences", caption, options=paired),
        Drawing(name, make, title, caption, options=options | {"baseline": None}),
    ]


def published_name(paper: str, table: str) -> str:
    """Return the name of a paper's table with our numbers beside its own.

    Example:
        >>> published_name("relaxing-contrastiveness", "Table 1")
        'published_relaxing_contrastiveness_table_1'
    """
    return re.sub(r"\W+", "_", f"published_{paper}_{table}".lower())


def per_objective(
    study: TrainedStudy, key: str, make: Callable[..., Any], title: str, caption: str
) -> list[Drawing]:
    """Declare the figure that a study may request as ``figures.<key>``; `make` gets ``files``, one
    path per objective.
    """
    wanted = getattr(study.figures, key, None)
    if wanted is None:
        return []
    dataset = getattr(wanted, "dataset", None) or primary_dataset(study)
    files = tuple(f"{key}/{dataset}/{objective}.parquet" for objective in wanted.objectives)
    return [Drawing(make.__name__, make, title, caption, ("study.yaml", *files), {"files": files})]


def primary_dataset(study: Any) -> str:
    """Return the label of the data set of the primary contrast."""
    return study.primary.dataset or next(iter(runs.datasets(study)))


class ExperimentDrawings(list[tuple[str, Drawing]]):
    """The figures or tables that a module declares for experiments, in page order; serves as its
    ``drawings``.
    """

    def __call__(self, study: Study) -> list[Drawing]:
        """Return the figures or tables of a study's experiments."""
        return [drawing for name, drawing in self if name in study.EXPERIMENTS]

    def add(
        self, title: str, caption: str, experiment: str = "", headline: bool = False
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Declare what the decorated function draws; `experiment` defaults to the function's
        name.
        """

        def declare(make: Callable[..., Any]) -> Callable[..., Any]:
            name = experiment or make.__name__
            drawing = Drawing(
                make.__name__,
                make,
                title,
                caption,
                ("study.yaml", f"simulation/{name}.parquet"),
                headline=headline,
            )
            self.append((name, drawing))
            return make

        return declare


def full_probe(study: TrainedStudy, pool: str) -> Measurement:
    """Return the measurement of the linear probe at the largest label fraction of a pool."""
    return Measurement(
        "linear probe", "accuracy", pool, max(study.evaluation.linear_probe.label_fractions)
    )


def distinct_pools(study: TrainedStudy, pools: Sequence[LabelPool]) -> Sequence[LabelPool]:
    """Return the label pools that differ: without imbalance, the imbalanced subset has all training
    images.
    """
    return ["all"] if "all" in pools and set(values_of(study.dataset.fraction)) == {1} else pools


def probed_pools(study: TrainedStudy) -> Sequence[str]:
    """Return the label pools of the linear probe of images that differ; empty without one."""
    probe = getattr(study.evaluation, "linear_probe", None)
    return distinct_pools(study, getattr(probe, "label_pools", []))
