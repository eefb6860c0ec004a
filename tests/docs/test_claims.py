"""The page of claims: its intervals are paired t intervals over the seeds of the csv files, and its
verdicts follow from them and from the Oracle's.
"""

import re

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from tests.projects import ROOT

PAGE = (ROOT / "docs/claims.md").read_text(encoding="utf-8")
ROWS = {
    cells[0]: dict(zip(("paper", "measured", "oracle", "verdict"), cells[1:], strict=True))
    for line in PAGE.splitlines()
    if line.startswith("| ")
    for cells in [line.strip("| ").split(" | ")]
}
ETA = "DCL,class_probability="
PROBE = {"task": "linear probe", "setting": "labels=imbalanced, fraction=1", "metric": "accuracy"}
DIGITS = {
    "dataset": "fraction=0.1",
    "task": "linear probe",
    "labels": "imbalanced",
    "fraction": 1,
    "metric": "accuracy",
}
BCL = {"task": "linear probe", "setting": "labels=all, fraction=1", "metric": "accuracy"}
N_62, N_254 = BCL | {"dataset": "batch_size=32"}, BCL | {"dataset": "batch_size=128"}
AUC, ACC = ({"task": "zero-shot", "setting": None, "metric": metric} for metric in ("AUC", "ACC"))
CNR, MIOU = ({"task": "grounding", "setting": None, "metric": metric} for metric in ("CNR", "mIoU"))
REGIONS = {
    "task": "region retrieval",
    "setting": "relevant=pair",
    "metric": ["text to image R@10", "image to text R@10"],
}
OWN = {"task": "retrieval sentence", "setting": "relevant=report"}
BOTH = OWN | {"metric": ["text to image R@10", "image to text R@10"]}
ONE, TWO = {"study": "open_i"}, {"study": "open_i_both"}
BCL_ROWS = "bcl_cifar10_small"
CL_AUC = "With MIMIC-CXR"
ACCURACY = "… in zero-shot accuracy"
GROUNDING = "… in grounding"
RETRIEVAL = "… in retrieval"
CONSTANTS = "… and beats constants"
CONSTANT = "A constant η beats LSE+NL"
LABELS = "Removing negatives that share a label"
RECALL, RANK = OWN | {"metric": "Recall"}, OWN | {"metric": "MedR"}
DIRECTIONS = ("text to image", "image to text")
# Start of the row's claim, rows of the csv file, treatment, baseline, scale, decimals, and the sign
# that the paper claims (None: the row has no verdict of it).
CLAIMED = [
    ("Where classes are rare", "cifar10_small", PROBE, "DCL-true", "CL", 100, 2, 1),
    ("Where classes are rare", "digits_untuned", DIGITS, "DCL-true", "CL", 100, 1, 1),
    *[
        ("… and beats one constant", name, rows, "DCL-true", eta, 100, decimals, 1)
        for name, rows, decimals in (("cifar10_small", PROBE, 2), ("digits_untuned", DIGITS, 1))
        for eta in ("DCL-high", "DCL-low")
    ],
    (CL_AUC, "phantom_small", AUC, "DCL-LM", "CL", 1, 3, 1),
    *[(CL_AUC, "open_i", AUC | study, "DCL-LM", "CL", 1, 3, 1) for study in (ONE, TWO)],
    (ACCURACY, "phantom_small", ACC, "DCL-LM", "CL", 100, 0, 1),
    *[(ACCURACY, "open_i", ACC | study, "DCL-LM", "CL", 100, 1, 1) for study in (ONE, TWO)],
    (GROUNDING, "phantom_small", CNR, "DCL-LM", "CL", 1, 3, 1),
    (GROUNDING, "phantom_small", MIOU, "DCL-LM", "CL", 1, 4, 1),
    (RETRIEVAL, "phantom_small", REGIONS, "DCL-LM", "CL", 100, 2, 1),
    *[(RETRIEVAL, "open_i", RECALL | study, "DCL-LM", "CL", 100, 1, 1) for study in (ONE, TWO)],
    *[(RETRIEVAL, "open_i", RANK | study, "DCL-LM", "CL", 1, 0, -1) for study in (ONE, TWO)],
    *[
        (CONSTANTS, name, rows, "DCL-LM", f"{ETA}{eta}", scale, decimals, 1)
        for name, rows, scale, decimals in (
            ("phantom_small", AUC, 1, 3),
            ("phantom_small", CNR, 1, 3),
            ("phantom_small", REGIONS, 100, 2),
            ("open_i", AUC, 1, 3),
        )
        for eta in (0.05, 0.1)
    ],
    *[
        (CONSTANT, name, rows, f"{ETA}{eta}", "CL", 1, decimals, sign)
        for name, rows, decimals, sign in (
            ("phantom_small", AUC, 3, 1),
            ("phantom_small", CNR, 3, 1),
            ("open_i", AUC | ONE, 3, 1),
            ("open_i", RANK | ONE, 0, -1),
        )
        for eta in (0.05, 0.1)
    ],
    *[
        (LABELS, name, rows, "Remove-labels", "CL", scale, decimals, sign)
        for name, rows, scale, decimals, sign in (
            ("phantom_small", AUC, 1, 3, 1),
            ("phantom_small", CNR, 1, 3, 1),
            ("phantom_small", MIOU, 1, 4, 1),
            ("phantom_small", REGIONS, 100, 2, 1),
            ("open_i", AUC | ONE, 1, 3, 1),
            ("open_i", RECALL | ONE, 100, 1, 1),
            ("open_i", RANK | ONE, 1, 0, -1),
        )
    ],
    *[
        (
            f"{treatment.split('-')[0]} beats {printed}",
            BCL_ROWS,
            size,
            treatment,
            baseline,
            100,
            d,
            1,
        )
        for treatment, baseline, printed, decimals in (
            ("BCL-paper", "CL", "SimCLR", (1, 1)),
            ("DCL", "CL", "SimCLR", (1, 1)),
            ("HCL", "DCL", "DCL", (1, 1)),
            ("BCL-paper", "HCL", "HCL", (2, 1)),
        )
        for size, d in zip((N_254, N_62), decimals, strict=True)
    ],
    *[
        (
            "The AUCs of its image encoder",
            "phantom_small",
            {"task": "linear probe", "setting": f"fraction={share}", "metric": "AUC"},
            "ReCo",
            "CLIP",
            1,
            3,
            1,
        )
        for share in (1, 0.1)
    ],
    *[
        ("On Flickr30k", "flickr8k", OWN | {"metric": f"{way} R@{k}"}, "ReCo", "CLIP", 100, 1, 1)
        for way in DIRECTIONS
        for k in (1, 5, 10)
    ],
    ("The maximum matters", "flickr8k", BOTH, "OC", "ReCo", 100, 1, -1),
    ("OC beats InfoNCE", "flickr8k", BOTH, "OC", "CLIP", 100, 1, None),
]
OUTCOMES = ("reproduced", "contradicted", "undecided", "no headroom", "headroom unknown")


def row_of(start):
    (row,) = (cells for claim, cells in ROWS.items() if claim.startswith(start))
    return row


def by_seed(name, measured):
    """Test values of each objective, by seed, mean over the metrics that are listed together."""
    rows = pd.read_csv(ROOT / f"docs/results/{name}.csv")
    if "group" in rows:
        rows = rows[rows["group"].isna()]
    for column, value in measured.items():
        rows = rows[
            rows[column].isna()
            if value is None
            else rows[column].isin(value if isinstance(value, list) else [value])
        ]
    return rows.groupby(["seed", "objective"])["value"].mean().unstack()


def interval(differences):
    differences = differences.dropna()
    assert len(differences) >= 6
    return (differences.mean(), *stats.ttest_1samp(differences, 0).confidence_interval(0.95))


def is_stated(numbers, scale, decimals, cell):
    mean, low, high = (f"{scale * x:+.{decimals}f}".replace("-", "−") for x in numbers)
    stated = rf"{re.escape(mean)}( points)? {re.escape(f'[{low}, {high}]')}"
    return re.search(stated, cell) is not None


def outcome(measured, oracle):
    """The verdict of an interval, of which the paper says that it lies above zero."""
    if measured[1] > 0:
        return "reproduced"
    if measured[2] > 0:
        return "undecided"
    if oracle is None:
        return "headroom unknown"
    return "contradicted" if oracle[1] > 0 else "no headroom"


def as_claimed(numbers, sign):
    return tuple(sorted(sign * x for x in numbers[1:]))


@pytest.mark.parametrize(
    ("start", "name", "measured", "treatment", "baseline", "scale", "decimals", "sign"), CLAIMED
)
def test_an_interval_and_the_oracles_are_those_of_the_rows(
    start, name, measured, treatment, baseline, scale, decimals, sign
):
    values, row = by_seed(name, measured), row_of(start)
    difference = interval(values[treatment] - values[baseline])
    assert is_stated(difference, scale, decimals, row["measured"])
    if "Oracle" in values:
        headroom = interval(values["Oracle"] - values[baseline])
        assert is_stated(headroom, scale, decimals, row["oracle"])
    else:
        assert row["oracle"] == "–"


@pytest.mark.parametrize("start", sorted({entry[0] for entry in CLAIMED}))
def test_a_verdict_follows_from_the_intervals_and_the_oracles(start):
    followed = set()
    for _, name, measured, treatment, baseline, _, _, sign in (e for e in CLAIMED if e[0] == start):
        if sign is not None:
            values = by_seed(name, measured)
            low, high = as_claimed(interval(values[treatment] - values[baseline]), sign)
            oracle = None
            if "Oracle" in values:
                oracle = (0, *as_claimed(interval(values["Oracle"] - values[baseline]), sign))
            followed.add(outcome((0, low, high), oracle))
    assert {word for word in OUTCOMES if word in row_of(start)["verdict"]} == followed


def test_nothing_else_is_contradicted_at_reduced_size():
    checked = tuple(entry[0] for entry in CLAIMED)
    for claim, row in ROWS.items():
        if "contradicted" in row["verdict"] and not claim.startswith(checked):
            assert "contradicted at full size" in row["verdict"], claim


def test_the_gain_changes_with_fewer_labels_as_stated():
    def gain(fraction):
        values = by_seed("cifar10_small", PROBE | {"setting": f"labels=imbalanced, {fraction}"})
        return values.sub(values["CL"], axis=0)

    changes, row = gain("fraction=0.01") - gain("fraction=1"), row_of("Its gain grows")
    assert is_stated(interval(changes["DCL-true"]), 100, 2, row["measured"])
    assert is_stated(interval(changes["Oracle"]), 100, 2, row["oracle"])


def test_the_slopes_over_constant_probabilities_are_as_stated():
    etas = [0.01, 0.02, 0.05, 0.1, 0.2]

    def slope(measured):
        values = by_seed("phantom_small", measured)[[f"{ETA}{eta}" for eta in etas]]
        slopes = np.polyfit(np.log(etas), values.to_numpy().T, 1)[0]
        return interval(pd.Series(slopes) * np.log(20))

    row = row_of("A larger constant η")["measured"]
    assert is_stated(slope(AUC), 1, 3, row)
    for way in DIRECTIONS:
        low, high = (
            f"{100 * x:+.1f}".replace("-", "−")
            for x in slope({**REGIONS, "metric": f"{way} R@10"})[1:]
        )
        assert f"[{low}, {high}]" in row
    mean, high, low = (f"{-x:.3f}" for x in slope(CNR))
    assert f"{mean} [{low}, {high}]" in row_of("The best constant")["measured"]


def test_the_best_constant_is_as_stated():
    objectives = ["CL", *(f"{ETA}{eta}" for eta in (0.01, 0.02, 0.05, 0.1, 0.2))]
    best = [
        by_seed("phantom_small", rows)[objectives].mean().idxmax() for rows in (AUC, CNR, REGIONS)
    ]
    assert best == ["CL", f"{ETA}0.05", f"{ETA}0.1"]
    assert (
        "0 for the zero-shot AUC, 0.05 for CNR, 0.1 for R@10"
        in row_of("The best constant")["measured"]
    )
