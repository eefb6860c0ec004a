"""The figure of false negatives among mined texts: means over seeds, with the extremes, of what was
counted.
"""

import numpy as np
import pandas as pd
import pytest
import yaml
from tests.evaluation.texts.test_text_rows import GIVEN, KNN, LABELLED, RETRIEVAL, text_study

from trueneg.config.reading import load_configuration
from trueneg.report.gathered import Gathered
from trueneg.report.registry import figures_by_name

NAME = "false_negatives_mined"


def study_of(dataset, primary, **mined):
    """A study of which one objective mines."""
    objectives = {"CL": {"name": "cl"}, "DCL": {"name": "dcl", "class_probability": 0.1} | mined}
    configured = text_study(dataset, primary, objectives=objectives)
    return load_configuration({"mine": configured}, "mine.yaml").studies["mine"]


def test_means_and_extremes_over_seeds_are_drawn_unless_there_are_few_pairs(tmp_path):
    generator = np.random.default_rng(0)
    places = {"rank": (1, 10, 100), "similarity": (-0.025, 0.425, 0.475)}
    few = {("rank", 1), ("similarity", -0.025)}
    rows = [
        {"by": by, "at": at, "miner": miner, "seed": seed, "dataset": "text_table"}
        | {"pairs": 33 if (by, at) in few else 34, "share": generator.random()}
        for by, several in places.items()
        for at in several
        for miner in ("MiniLM", "BERT")
        for seed in (3, 4, 5)
    ]
    (tmp_path / "mined").mkdir()
    pd.DataFrame(rows).to_parquet(tmp_path / "mined/text_table.parquet")
    study = study_of(LABELLED, KNN, hard_negatives={})
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(study.model_dump(mode="json")))
    drawing = figures_by_name(study)[NAME]
    assert drawing.files == ("study.yaml", "mined/text_table.parquet")
    panels = drawing.made(Gathered(tmp_path)).axes
    assert len(panels) == 2
    for (by, several), plot in zip(places.items(), panels, strict=True):
        lines = {container.lines[0].get_label(): container.lines for container in plot.containers}
        assert lines.keys() == {"MiniLM", "BERT"}
        for miner, (line, _, (bars,)) in lines.items():
            expected = [
                [
                    100 * row["share"]
                    for row in rows
                    if (row["by"], row["at"], row["miner"]) == (by, at, miner)
                ]
                for at in several[1:]
            ]
            assert line.get_xdata() == pytest.approx(several[1:])
            assert line.get_ydata() == pytest.approx([sum(found) / 3 for found in expected])
            ends = [segment[:, 1].tolist() for segment in bars.get_segments()]
            np.testing.assert_allclose(ends, [[min(found), max(found)] for found in expected])


@pytest.mark.parametrize(
    ("dataset", "primary", "mined"),
    [(LABELLED, KNN, {}), (GIVEN, RETRIEVAL, {"hard_negatives": {}})],
    ids=["nothing mined", "no labels"],
)
def test_other_studies_have_no_such_figure(dataset, primary, mined):
    assert NAME not in figures_by_name(study_of(dataset, primary, **mined))
