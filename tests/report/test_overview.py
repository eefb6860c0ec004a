"""The overview shows, for each study, the oracle, the best label-free method and random removal."""

import shutil

import pandas as pd
import pytest
from scipy import stats
from tests.browser.pages import add_study

from trueneg.errors import UserError
from trueneg.report.drawing import alternative_text
from trueneg.report.gathered import Gathered
from trueneg.report.methods import best_of, gains
from trueneg.report.overview import CONTROL, METHOD, differences, overview
from trueneg.specs.objectives.base import SoftmaxSettings


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    add_study(
        folder,
        contrasts=[
            {"treatment": "DCL", "baseline": "CL"},
            {"treatment": "Oracle", "baseline": "DCL"},
        ],
    )
    return [folder / "phantom/artefacts"]


def test_each_kind_is_compared_with_the_baseline(folders):
    gathered = Gathered(folders[0])
    rows = gathered.primary.rows_of(gathered.rows[gathered.rows["split"] == "test"])
    values = rows.pivot(index="seed", columns="objective", values="value")
    gains = values.drop(columns="CL").sub(values["CL"], axis="index")
    found = {row["kind"]: row for row in differences(gathered)}
    assert found["Oracle"]["objective"] == "Oracle"
    best = found[METHOD]
    free = [
        name
        for name, objective in gathered.study.objectives.items()
        if not objective.uses_labels and objective.name != "cl"
    ]
    halves = gains[free].iloc[::2], gains[free].iloc[1::2]
    chosen = [half.mean().idxmax() for half in halves]
    assert best["objective"] == " or ".join(dict.fromkeys(chosen[::-1]))
    measured = pd.concat([halves[0][chosen[1]], halves[1][chosen[0]]])
    assert best["of"] == len(free)
    for row in found.values():
        own = measured if row is best else gains[row["objective"]]
        expected = stats.t.interval(0.95, len(own) - 1, own.mean(), stats.sem(own))
        assert (row["low"], row["high"]) == pytest.approx(expected)


def test_soft_targets_on_the_baselines_loss_are_a_method(folders, monkeypatch):
    def best():
        return next(row for row in differences(gathered) if row["kind"] == METHOD)

    gathered = Gathered(folders[0])
    before, base = best(), gathered.study.objectives["CL"]
    name = before["objective"].split(" or ")[0]
    for changes, count in (
        ({"targets": SoftmaxSettings(name="softmax")}, 0),
        ({"logit_scale": 3.0}, -1),
    ):
        monkeypatch.setitem(gathered.study.objectives, name, base.model_copy(update=changes))
        gains.cache_clear()
        assert best()["of"] == before["of"] + count


def test_the_best_method_is_compared_at_its_own_temperature_too(folders, monkeypatch):
    gathered = Gathered(folders[0])
    rows = gathered.primary.rows_of(gathered.rows[gathered.rows["split"] == "test"])
    values = rows.pivot(index="seed", columns="objective", values="value")
    objectives, other = gathered.study.objectives, {"logit_scale": 3.0}
    monkeypatch.setitem(objectives, "DCL", objectives["CL"].model_copy(update=other))
    monkeypatch.setitem(objectives, "DCL-LM", objectives["DCL-LM"].model_copy(update=other))
    best = best_of(gathered, ["DCL-LM"])
    assert best["objective"] == "DCL-LM"
    expected = (values["DCL-LM"] - values["DCL"]).mean()
    assert best["difference"] == pytest.approx(expected)
    assert best["baseline"] == "DCL"
    assert expected < (values["DCL-LM"] - values["CL"]).mean()


def test_random_removal_is_a_control_at_its_own_temperature(folders, monkeypatch):
    gathered = Gathered(folders[0])
    rows = gathered.primary.rows_of(gathered.rows[gathered.rows["split"] == "test"])
    means = rows.groupby("objective")["value"].mean()
    objectives = gathered.study.objectives
    other = {"logit_scale": 3.0}
    shuffled = objectives["Oracle"].model_copy(update={**other, "shuffled": True})
    monkeypatch.setitem(objectives, "Oracle", shuffled)
    monkeypatch.setitem(objectives, "DCL", objectives["CL"].model_copy(update=other))
    found = {row["kind"]: row for row in differences(gathered)}[CONTROL]
    assert found["baseline"] == "DCL"
    assert found["difference"] == pytest.approx(means["Oracle"] - means["DCL"])


def test_studies_with_the_same_title_have_a_row_each(folders, tmp_path):
    shutil.copytree(folders[0], tmp_path / "again" / "artefacts")
    _, table = overview([folders[0], tmp_path / "again" / "artefacts"])
    assert set(table["id"]) == {"phantom", "again"}


def test_no_study_is_refused_in_a_sentence():
    with pytest.raises(UserError, match="no trained study"):
        overview([])


def test_the_figure_describes_all_values(folders):
    figure, table = overview(folders)
    assert len(table) == len(differences(Gathered(folders[0])))
    for row in table.itertuples():
        assert f"{100 * row.difference:.4g} [" in alternative_text(figure)
