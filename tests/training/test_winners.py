"""A training job with a winner trains only the winner's settings, and reuses a finished run."""

import json

import pytest
from pandas import DataFrame

from tests.studies import tuned_study
from tests.training.interrupted import new_job
from trueneg.config.reading import load_configuration
from trueneg.config.runs import jobs
from trueneg.errors import UserError
from trueneg.stats.candidates import CANDIDATE
from trueneg.stats.comparison import KEYS
from trueneg.stats.measurement import Measurement
from trueneg.store.winners import chosen, select_from
from trueneg.training.engine import train_runs


def test_only_the_winner_is_trained_and_a_finished_run_is_reused(tmp_path):
    prepared = new_job(tmp_path)
    (study,) = load_configuration({"tuned": tuned_study(seeds=1)}, "test").studies.values()
    second = {job.objective: job for job in jobs("tuned", study) if not job.is_pilot}
    numbers = {
        "seeds": 2,
        "mean": 0.5,
        "standard deviation": 0.1,
        "low": 0.4,
        "high": 0.6,
        "runs": "a b",
        "tied": False,
    }
    winner = {
        "variant": {"temperature": 0.5},
        "candidates": [{"variant": {"temperature": value}, **numbers} for value in (0.2, 0.5)],
    }
    content = {
        "rule": "largest mean",
        "seeds": [100],
        "measured": Measurement("knn", "accuracy")._asdict(),
        "winners": {"digits": {"CL": winner}},
    }
    (tmp_path / "winners.json").write_text(json.dumps(content))

    arguments = prepared.arguments() | {
        "runs": second["CL"].to_json(),
        "winners": tmp_path / "winners.json",
    }
    train_runs(**arguments)
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert (manifest["objective"], manifest["variant"]) == ("CL", '{"temperature":0.5}')
    (run,) = manifest["runs"]
    assert prepared.store.record(run["id"])["settings"]["objective"]["temperature"] == 0.5

    model = prepared.store.folder(run["id"]) / prepared.store.MODEL
    before = model.stat().st_mtime_ns
    # the same settings, without a winner
    train_runs(**prepared.arguments() | {"runs": second["CL-untuned"].to_json()})
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert "variant" not in manifest
    assert [one["id"] for one in manifest["runs"]] == [run["id"]]
    assert model.stat().st_mtime_ns == before


def test_winners_are_selected_on_validation_rows_alone():
    """Better on the test split, and with a seed that has test rows only."""
    low, high = '{"temperature":0.1}', '{"temperature":0.5}'
    values = {("validation", low): 0.4, ("validation", high): 0.6, ("test", low): 0.9}
    rows = DataFrame(
        dict.fromkeys(KEYS)
        | {"study": "tuned", "dataset": "digits", "task": "knn", "metric": "accuracy"}
        | {"objective": "CL", "split": split, "variant": variant, "run": f"{variant}{seed}"}
        | {"seed": seed, "value": value + seed / 1e4}
        for (split, variant), value in values.items()
        for seed in ((100, 101, 102) if split == "test" else (100, 101))
    )
    settings = {
        "rule": "largest mean",
        "measured": Measurement("knn", "accuracy")._asdict(),
        "candidates": {"CL": [low, high]},
    }
    content, used = select_from(rows, settings)
    assert content["winners"]["digits"]["CL"]["variant"] == {"temperature": 0.5}
    assert content["seeds"] == [100, 101]
    assert set(used["split"]) == {"validation"}


def test_winners_selected_on_a_compared_seed_are_refused(tmp_path):
    (study,) = load_configuration({"tuned": tuned_study(seeds=1)}, "test").studies.values()
    (job,) = [job for job in jobs("tuned", study) if job.family == "CL"]
    numbers = dict.fromkeys(CANDIDATE, 0)
    for column in ("dataset", "objective", "chosen"):
        del numbers[column]
    candidates = [numbers | {"variant": {"temperature": value}} for value in (0.2, 0.5)]
    content = {
        "rule": "largest mean",
        "seeds": [100, *study.seed_list],
        "measured": Measurement("knn", "accuracy")._asdict(),
        "winners": {"digits": {"CL": {"variant": {"temperature": 0.5}, "candidates": candidates}}},
    }
    path = tmp_path / "winners.json"
    path.write_text(json.dumps(content))
    with pytest.raises(UserError, match="selected on seed 0, which is also compared"):
        chosen(job.to_json(), path)
    path.write_text(json.dumps(content | {"seeds": [100]}))
    assert chosen(job.to_json(), path)[0] == '{"temperature":0.5}'
