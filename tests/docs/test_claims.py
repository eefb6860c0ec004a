"""The page of claims: the intervals that it takes from csv files are paired t intervals over their
seeds.
"""

import pandas as pd
import pytest
from scipy import stats

from tests.projects import ROOT

PAGE = (ROOT / "docs/claims.md").read_text(encoding="utf-8")
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
CLAIMED = [
    ("cifar10_small", PROBE, "DCL-true", "DCL-high", 100, 2),
    ("cifar10_small", PROBE, "DCL-true", "DCL-low", 100, 2),
    ("digits_untuned", DIGITS, "DCL-true", "DCL-high", 100, 1),
    ("digits_untuned", DIGITS, "DCL-true", "DCL-low", 100, 1),
    ("phantom_small", ACC, "DCL-LM", "CL", 100, 0),
    ("phantom_small", CNR, "DCL-LM", "CL", 1, 3),
    ("phantom_small", MIOU, "DCL-LM", "CL", 1, 4),
    ("phantom_small", REGIONS, "DCL-LM", "CL", 100, 2),
    *[("phantom_small", AUC, "DCL-LM", f"{ETA}{eta}", 1, 3) for eta in (0.05, 0.1)],
    *[("phantom_small", CNR, "DCL-LM", f"{ETA}{eta}", 1, 3) for eta in (0.05, 0.1)],
    *[("phantom_small", REGIONS, "DCL-LM", f"{ETA}{eta}", 100, 2) for eta in (0.05, 0.1)],
    *[("open_i", AUC, "DCL-LM", f"{ETA}{eta}", 1, 3) for eta in (0.05, 0.1)],
    *[
        ("open_i", OWN | {"metric": "Recall"} | study, "DCL-LM", "CL", 100, 1)
        for study in (ONE, TWO)
    ],
    *[("open_i", OWN | {"metric": "MedR"} | study, "DCL-LM", "CL", 1, 0) for study in (ONE, TWO)],
    *[("bcl_cifar10_small", size, "BCL-paper", "CL", 100, 1) for size in (N_62, N_254)],
    *[("bcl_cifar10_small", size, "HCL", "DCL", 100, 1) for size in (N_62, N_254)],
    ("bcl_cifar10_small", N_254, "BCL-paper", "HCL", 100, 2),
    ("bcl_cifar10_small", N_62, "BCL-paper", "HCL", 100, 1),
    *[
        (
            "phantom_small",
            {"task": "linear probe", "setting": f"fraction={share}", "metric": "AUC"},
            "ReCo",
            "CLIP",
            1,
            3,
        )
        for share in (1, 0.1)
    ],
    *[
        ("flickr8k", OWN | {"metric": f"{direction} R@{k}"}, "ReCo", "CLIP", 100, 1)
        for direction in ("text to image", "image to text")
        for k in (1, 5, 10)
    ],
    ("flickr8k", BOTH, "OC", "ReCo", 100, 1),
    ("flickr8k", BOTH, "OC", "CLIP", 100, 1),
]


@pytest.mark.parametrize(
    ("name", "measured", "treatment", "baseline", "scale", "decimals"), CLAIMED
)
def test_an_interval_is_that_of_the_rows(name, measured, treatment, baseline, scale, decimals):
    rows = pd.read_csv(ROOT / f"docs/results/{name}.csv")
    if "group" in rows:
        rows = rows[rows["group"].isna()]
    for column, value in measured.items():
        rows = rows[
            rows[column].isna()
            if value is None
            else rows[column].isin(value if isinstance(value, list) else [value])
        ]
    by_seed = rows.groupby(["seed", "objective"])["value"].mean().unstack()
    difference = scale * (by_seed[treatment] - by_seed[baseline]).dropna()
    assert len(difference) >= 6
    low, high = stats.ttest_1samp(difference, 0).confidence_interval(0.95)
    mean, low, high = (
        f"{value:+.{decimals}f}".replace("-", "−") for value in (difference.mean(), low, high)
    )
    assert f"[{low}, {high}]" in PAGE
    assert mean in PAGE
