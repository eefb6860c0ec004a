"""Entries of the comparison of objectives: from rows to the primary contrast."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from tests.golden.golden import Entry
from tests.golden.numerics import frame_summary
from trueneg.stats.candidates import select
from trueneg.stats.comparison import (
    headroom,
    holm,
    means,
    paired_differences,
    primary_contrast,
    signed_rank_p,
)
from trueneg.stats.measurement import Measurement
from trueneg.store.rows import to_table

MEASURED = Measurement("knn", "accuracy", "all")


def entries() -> Iterator[tuple[str, Entry]]:
    """Every step from made-up rows to the primary contrast."""
    for title, compute in COMPARISONS.items():
        yield f"comparison: {title}", Entry(("comparison",), compute)


def _rows(split: str, variants: bool = False) -> pd.DataFrame:
    """Made-up accuracies of four objectives with six seeds; with variants, the order by mean is not
    that by median.
    """
    generator, rows = np.random.default_rng(len(split)), []
    for place, objective in enumerate(("CL", "DCL", "HCL", "Oracle")):
        for number, variant in enumerate(("a", "b", "c") if variants else ("{}",)):
            values = 0.6 + 0.02 * place + 0.03 * generator.standard_normal(6)
            values[5] += 0.3 * (number == 1)  # one seed decides the mean
            constant = {
                "study": "small",
                "dataset": "digits",
                "split": split,
                "variant": variant,
                **MEASURED._asdict(),
            }
            constant |= {"objective": objective}
            rows += [
                constant | {"seed": s, "run": f"{objective}-{variant}-{s}", "value": v}
                for s, v in enumerate(values)
            ]
    return to_table(rows)


def _selection() -> dict[str, Any]:
    rows = _rows("validation", variants=True)
    candidates = {objective: ["a", "b", "c"] for objective in ("CL", "DCL", "HCL", "Oracle")}
    table = select(rows, candidates, MEASURED)
    chosen = table[table["chosen"]].reset_index()
    negated = select(rows.assign(value=-rows["value"]), candidates, MEASURED)
    return {
        "chosen": chosen["variant"],
        "means": chosen["mean"],
        "lowest": negated.loc[negated["chosen"], "variant"].reset_index(drop=True),
        "candidates": frame_summary(table),
    }


def _headroom() -> dict[str, Any]:
    rows = _rows("test")
    frames = [
        headroom(rows, "CL", oracle, 0.1, MEASURED, higher)
        for oracle in ("Oracle", "HCL", None)
        for higher in (True, False)
    ]
    return {
        "labels": [frame["label"].item() for frame in frames],
        "numbers": frame_summary(pd.concat(frames)),
    }


def _contrast() -> dict[str, Any]:
    rows = _rows("test")
    margins = {"no margin": None, "small margin": 0.01, "large margin": 0.3}
    keys = ["difference", "low", "high", "p", "p equivalence", "outcome"]
    contrasts = {
        name: primary_contrast(rows, "DCL", "CL", MEASURED, "digits", margin)
        for name, margin in margins.items()
    }
    return {name: row[keys].to_dict() for name, row in contrasts.items()}


COMPARISONS: dict[str, Any] = {
    "selection": _selection,
    "headroom": _headroom,
    "primary contrast": _contrast,
    "means": lambda: frame_summary(means(_rows("test"))),
    "paired differences": lambda: frame_summary(
        paired_differences(_rows("test"), "CL", margins={MEASURED: 0.05})
    ),
    "holm": lambda: holm([0.01, 0.04, 0.03, 0.02, float("nan"), 0.6]),
    "signed-rank test": lambda: [
        signed_rank_p(list(values))
        for values in ([0.1, 0.2, 0.3, 0.4, 0.5], [0.1, -0.2, 0.2, 0.0, 0.3])
    ],
}
