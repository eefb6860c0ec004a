"""The table by class has the shares and counts of the predictions that were kept."""

import numpy as np
import pandas as pd
import pytest
import yaml
from synthetic import numbers
from test_answers import cases, gathered

from trueneg.config.reading import load_configuration
from trueneg.report.registry import tables_by_name
from trueneg.report.tables.by_class import by_class

NAMES = np.array(["ant", "bee", "cow", "dog"], object)


def kept(seed, objective):
    """Predictions of one run, most of which are right; every seed has other samples."""
    drawn = np.random.default_rng([seed, len(objective)])
    label = drawn.choice(3, 60, p=[0.6, 0.3, 0.1])
    predicted = np.where(drawn.random(60) < 0.6, label, drawn.choice(4, 60))
    samples = drawn.permutation(100)[:60]
    return pd.DataFrame(
        {"objective": objective, "seed": seed, "sample": samples}
        | {"label": NAMES[label], "predicted": NAMES[predicted]}
    )


def test_shares_and_counts_are_those_of_a_loop_over_the_predictions(tmp_path):
    (found,) = next(each for each in cases() if "labels and few" in each.id).values
    study = gathered(tmp_path / "artefacts", found)
    tables = {name: [kept(seed, name) for seed in range(3)] for name in ("CL", "HCL", "Oracle")}
    files = []
    for name, parts in tables.items():
        files.append(f"{name}.parquet")
        pd.concat(parts).to_parquet(tmp_path / "artefacts" / files[-1])
    table = by_class(study, tuple(files))
    assert [name for _, name in table.columns] == ["test samples", "CL", "HCL"]
    right, confused = table.groups
    assert [name for name, _ in right.lines] == ["ant", "bee", "cow"]
    assert len(confused.lines) == 9  # of three classes, as three others each
    totals = []
    for line, cells in [*right.lines, *confused.lines]:
        label, _, predicted = line.partition(" as ")
        total = 0
        for name, cell in zip(("CL", "HCL"), cells[1:], strict=True):
            of_class = [
                row
                for part in tables[name]
                for row in part.to_dict("records")
                if row["label"] == label
            ]
            hits = [row for row in of_class if row["predicted"] == (predicted or label)]
            total += len(hits)
            assert numbers(cell.text) == pytest.approx([100 * len(hits) / len(of_class)], abs=0.051)
        samples = {
            row["sample"]
            for name in ("CL", "HCL")
            for part in tables[name]
            for row in part.to_dict("records")
            if row["label"] == label
        }
        assert cells[0].text == str(len(samples))
        totals += [total] if predicted else []
    assert totals == sorted(totals, reverse=True)


@pytest.mark.parametrize(
    ("primary", "dataset", "is_there"),
    [
        ({}, {}, False),
        ({"over": "runs and samples"}, {}, True),
        ({"over": "runs and samples"}, {"restricted": True}, False),
        ({"over": "runs and samples", "task": "retrieval", "metric": "R", "k": 1}, {}, False),
    ],
)
def test_only_classifiers_on_data_that_may_be_shown_have_the_table(
    tmp_path, primary, dataset, is_there
):
    (found,) = next(each for each in cases() if "equal temperatures not" in each.id).values
    gathered(tmp_path / "artefacts", found)
    settings = yaml.safe_load((tmp_path / "artefacts/study.yaml").read_text())
    settings["primary"] |= primary
    settings["dataset"] |= dataset
    study = load_configuration({"mine": settings}, "mine.yaml").studies["mine"]
    tables = tables_by_name(study)
    assert ("by_class" in tables) == is_there
    if is_there:
        seeds = len(found["points"])
        place = f"samples/text_table/HCL/seed0-{seeds - 1}.parquet"
        assert place in tables["by_class"].files
        assert not any("seed90" in file for file in tables["by_class"].files)
