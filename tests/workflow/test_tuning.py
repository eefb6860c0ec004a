"""Tuning in one call of Snakemake: pilot seeds select, the winners are trained on new seeds, and
nothing is trained twice.
"""

import json
import re
import shutil

import pandas as pd
import pytest

from tests.projects import Project, new_project
from tests.studies import tuned_study
from tests.workflow.test_interruption import kill, within

WINNERS = "results/tuned/tuning/winners.json"
PILOTS, NAMES = 3 * 2, list(tuned_study()["objectives"])


def test_a_plan_has_both_stages_or_only_the_second_with_a_file_of_winners(tmp_path):
    project = new_project(tmp_path / "project")
    project.configure(tuned=tuned_study())
    planned = project.planned("rows")
    assert (planned["train"], planned["evaluate"], planned["select"]) == (PILOTS + 5, PILOTS + 5, 1)
    replaced = tuned_study()
    replaced["tuning"]["winners"] = "winners.json"
    (project.path / "winners.json").touch()
    project.configure(tuned=replaced)
    planned = project.planned("rows")
    assert (planned["train"], planned["evaluate"], planned.get("select")) == (5, 5, None)


@pytest.fixture(scope="module")
def tuned(tmp_path_factory) -> Project:
    """A project whose tuned study has finished, in one call."""
    project = new_project(tmp_path_factory.mktemp("tuned") / "project")
    project.configure(tuned=tuned_study())
    project.run()
    return project


def winners_of(project: Project) -> dict:
    return json.loads((project.path / WINNERS).read_text())["winners"]["digits"]


def rows_of(project: Project) -> pd.DataFrame:
    return pd.read_parquet(project.path / "results/tuned/artefacts/rows.parquet")


@pytest.mark.long
def test_the_winners_are_the_best_candidates_and_only_new_seeds_are_reported(tuned):
    winners = winners_of(tuned)
    rows = pd.concat(
        map(pd.read_parquet, tuned.path.glob("results/tuned/rows/digits/*=*/*.parquet"))
    )
    chosen = rows[
        (rows["task"] == "knn")
        & (rows["labels"] == "all")
        & rows["group"].isna()
        & (rows["metric"] == "accuracy")
    ]
    means = (
        chosen[chosen["split"] == "validation"].groupby(["objective", "variant"])["value"].mean()
    )
    for name in ("CL", "HCL", "Oracle"):
        best = means[name].round(12)
        assert (
            json.dumps(winners[name]["variant"], sort_keys=True, separators=(",", ":"))
            in best.index[best == best.max()]
        )
        assert sorted(
            candidate["mean"] for candidate in winners[name]["candidates"]
        ) == pytest.approx(sorted(means[name]))
    rows = rows_of(tuned)
    assert set(rows["seed"]) == {0, 1}
    assert set(rows["objective"]) == set(NAMES)
    variants = {
        name: [json.loads(text) for text in texts.unique()]
        for name, texts in rows.groupby("objective")["variant"]
    }
    assert variants["Hardness"] == variants["HCL"] == [winners["HCL"]["variant"]]
    # CL-untuned then trains nothing of its own
    shared = winners["CL"]["variant"] == {"temperature": 0.5}
    assert len(tuned.models()) == 2 * (PILOTS + len(NAMES) - shared)
    assert tuned.planned() == {}


@pytest.mark.long
def test_tables_show_every_candidate_and_the_selected_one(tuned):
    results, winners = tuned.path / "results/tuned", winners_of(tuned)
    names = set(pd.read_csv(results / "tables/accuracy.csv")["shown as"])
    assert f"CL (t = {winners['CL']['variant']['temperature']} of 0.2, 0.5)" in names
    assert any(f"t = {winners['HCL']['variant']['temperature']}, as HCL" in name for name in names)
    candidates = pd.read_csv(results / "tables/candidates.csv")
    assert len(candidates) == PILOTS
    assert candidates.groupby("objective")["chosen"].sum().eq(1).all()


@pytest.mark.long
def test_runs_and_why_show_the_runs_of_both_stages(tuned):
    listed = json.loads(tuned.trueneg("runs", "--json", "-").stdout)
    validation, test = "tuned: validation knn accuracy", "tuned: test knn accuracy"
    pilots = [run for run in listed if run["seed"] >= 100]
    assert len(pilots) == PILOTS * 2
    assert all(run[validation] is not None and run[test] is None for run in pilots)
    assert all(
        run[validation] is None and run[test] is not None for run in listed if run["seed"] < 100
    )

    table = pd.read_csv(tuned.path / "results/tuned/tables/accuracy.csv")
    line = (
        f"results/tuned/tables/accuracy.csv:{table.index[table['objective'] == 'Hardness'][0] + 2}"
    )
    why = json.loads(tuned.trueneg("why", line, "--json", "-").stdout)
    assert {run["seed"] for run in why["runs"]} == {0, 1}
    candidates = pd.read_csv(tuned.path / "results/tuned/tables/candidates.csv")
    assert set(" ".join(candidates["runs"]).split()) == {run["run"] for run in pilots}
    assert "Nothing to train" in tuned.trueneg("check", "study.yaml").stdout


@pytest.mark.long
def test_check_estimates_a_time_for_both_stages(tmp_path):
    project = new_project(tmp_path / "project")
    project.configure(tuned=tuned_study(seeds=3))
    checked = project.trueneg("check", "--time", "study.yaml").stdout
    assert re.search(rf"first stage: {PILOTS * 2} runs to train in \d+ jobs: about", checked)
    assert re.search(
        rf"second stage, at most: {len(NAMES) * 3} runs to train in \d+ jobs: about", checked
    )


@pytest.mark.long
def test_selecting_the_same_winners_again_repeats_nothing(tuned, tmp_path):
    project = tuned.copy(tmp_path / "project")
    before = (project.path / WINNERS).read_bytes()
    project.run(WINNERS, "--forcerun", "select")
    assert (project.path / WINNERS).read_bytes() == before
    assert project.planned() == {}


@pytest.mark.long
def test_a_file_of_winners_repeats_no_run_and_is_refused_if_it_does_not_fit(tuned, tmp_path):
    project = tuned.copy(tmp_path / "project")
    before, study, file = project.models(), tuned_study(), project.path / "winners.json"
    shutil.copy2(project.path / WINNERS, file)
    study["tuning"]["winners"] = "winners.json"
    project.configure(tuned=study)
    project.run()
    assert project.models() == before
    pd.testing.assert_frame_equal(rows_of(project), rows_of(tuned))

    winners = json.loads(file.read_text())
    oracle = winners["winners"]["digits"]["Oracle"]
    oracle["variant"] = oracle["candidates"][0]["variant"] = {"temperature": 0.3}
    file.write_text(json.dumps(winners))
    done = project.snakemake("models")
    assert done.returncode
    assert re.search(
        r"winners\.json: the winner of Oracle on digits is .*0\.3.*0\.2.*0\.5",
        done.stdout + done.stderr,
    )


@pytest.mark.long
def test_a_workflow_killed_in_both_stages_selects_the_same_winners_and_repeats_no_run(
    tuned, tmp_path
):
    project = new_project(tmp_path / "project")
    project.configure(tuned=tuned_study())

    def finished() -> dict[str, int]:
        models = project.models()
        return {
            path.parent.name: models[path.parent.name]
            for path in project.path.glob("results/runs/*/run.json")
        }

    kept: dict[str, int] = {}
    of_first = 2 * PILOTS + 2  # with CL-untuned, which needs no winner
    for count, is_second in (
        (1, False),
        (PILOTS, False),
        (of_first + 1, True),
        (of_first + 5, True),
    ):
        snakemake = project.start()
        assert within(900, lambda least=count: len(finished()) >= least)
        kill(snakemake)
        project.run("--unlock")
        assert (project.path / WINNERS).is_file() == is_second
        now = finished()
        assert {run: now[run] for run in kept} == kept
        kept = now
    project.run()
    assert {run: finished()[run] for run in kept} == kept
    assert (project.path / WINNERS).read_bytes() == (tuned.path / WINNERS).read_bytes()
    pd.testing.assert_frame_equal(rows_of(project), rows_of(tuned))
