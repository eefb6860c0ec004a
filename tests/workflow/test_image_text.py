"""An image–text study as a real workflow, from synthetic reports to tables, and what a change runs
again.
"""

import json

import numpy as np
import pandas as pd
import pytest
import yaml

from tests.clips import tiny_clip, write_clip
from tests.projects import new_project
from tests.studies import tiny_words, tiny_world
from tests.workflow.test_imported_rows import export_and_import
from trueneg.store.run_store import RunStore

pytestmark = pytest.mark.long  # `make test-studies` runs whole image–text studies

TARGETS = [
    "results/world/tables/tasks.csv",
    *(
        f"results/world/figures/{name}.png"
        for name in ("grounding_overlays", "similarity_histograms")
    ),
]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    project = new_project(tmp_path_factory.mktemp("world") / "project")
    project.configure(words=tiny_words(), world=tiny_world())
    project.run(*TARGETS)
    return project


def test_reports_become_pairs_runs_rows_and_tables(finished):
    results = finished.path / "results"
    rows = pd.read_parquet(results / "world/artefacts/rows.parquet")
    assert set(rows["objective"]) == {"CL", "DCL-LM", "Oracle"}
    assert set(rows["seed"]) == {0, 1}
    assert {
        "zero-shot",
        "retrieval sentence",
        "retrieval report",
        "grounding",
        "linear probe",
    } <= set(rows["task"])
    assert np.isfinite(rows["value"]).all()
    records = RunStore(results / "runs").records()
    assert len(records) == 6
    assert {record["settings"]["training"]["kind"] for record in records.values()} == {"image-text"}
    table = pd.read_csv(results / "world/tables/tasks.csv")
    assert set(table["objective"]) >= {"CL", "DCL-LM", "Oracle"}
    assert finished.planned(*TARGETS) == {}


def test_imported_rows_need_neither_reports_nor_language_models_nor_images(finished, tmp_path):
    fresh = new_project(tmp_path / "fresh")
    fresh.configure(words=tiny_words(), world=tiny_world())
    export_and_import(finished, fresh)
    assert set(fresh.planned(*TARGETS)) == {"compare", "draw_world"}


def test_the_pairs_have_the_class_probabilities_of_the_text_study(finished):
    (path,) = (finished.path / "results/pairs").glob("*px-??????.parquet")
    sentences = pd.read_parquet(path)
    eta = pd.read_parquet(finished.path / "results/words/text/phantom/eta.parquet")
    both = sentences.merge(eta, on=["report", "index"], suffixes=("", " of the text study"))
    assert len(both) == len(sentences)
    assert (both["eta"] == both["eta of the text study"]).all()
    assert sentences["report"].nunique() == 100


def test_another_scale_of_eta_trains_only_the_objective_that_uses_it(finished, tmp_path):
    project = finished.copy(tmp_path / "project")
    before = project.models()
    project.configure(words=tiny_words(eta={"a": 0.4}), world=tiny_world())
    project.run("models")
    after = project.models()
    assert before.items() <= after.items()
    added = set(after) - set(before)
    records = RunStore(project.path / "results/runs").records()
    assert {records[identifier]["objective"] for identifier in added} == {"DCL-LM"}
    assert len(added) == 2


def test_why_names_the_language_model_behind_a_control_of_its_class_probabilities(
    finished, tmp_path
):
    project = finished.copy(tmp_path / "project")
    control = {"DCL-permuted": {"name": "dcl", "class_probability": "permuted"}}
    project.configure(
        words=tiny_words(), world=tiny_world(objectives=tiny_world()["objectives"] | control)
    )
    project.run("models")
    runs = RunStore(project.path / "results/runs").records()
    models = {}
    for identifier, record in runs.items():
        why = json.loads(project.trueneg("why", identifier, "--json", "-").stdout)
        models[record["objective"]] = [model["name"] for model in why["language models"]]
    assert models["DCL-permuted"] == models["DCL-LM"] != []
    assert models["CL"] == models["Oracle"] == []


def test_soft_targets_and_learned_thresholds_train_on_pairs(tmp_path):
    softmax = {"name": "softmax", "temperature": 0.1, "share": 0.4}
    both = {"directions": "both"}
    objectives = {
        "CL": {"name": "cl", **both},
        "GloFND": {"name": "glofnd", "share": 0.1, **both},
        "Momentum": {
            "name": "cl",
            "targets": softmax,
            "guide": {"name": "ema", "momentum": 0.5},
            **both,
        },
        "Labels": {"name": "cl", "targets": softmax, "guide": {"name": "labels"}, **both},
        "Words": {"name": "cl", "targets": softmax, "guide": {"name": "words"}, **both},
        "Oracle": {"name": "oracle", **both},
    }
    primary = {"treatment": "Labels", "baseline": "CL", "oracle": "Oracle"}
    project = new_project(tmp_path / "project")
    project.configure(
        words=tiny_words(), world=tiny_world(objectives=objectives, primary=primary, figures={})
    )
    project.run("results/world/tables/tasks.csv")
    rows = pd.read_parquet(project.path / "results/world/artefacts/rows.parquet")
    assert set(rows["objective"]) == set(objectives)
    assert np.isfinite(rows["value"]).all()


def test_each_seed_trains_and_is_tested_on_its_own_corpus(tmp_path):
    project = new_project(tmp_path / "project")
    words = tiny_words(reports={"source": "phantom", "reports": 120, "seed": [5, 6]})
    world = tiny_world(seeds=[5, 6], dataset=tiny_world()["dataset"] | {"corpus": "seed={seed}"})
    project.configure(words=words, world=world | {"figures": {}})
    project.run(TARGETS[0])
    of_seed = {}
    for record in RunStore(project.path / "results/runs").records().values():
        of_seed.setdefault(record["seed"], set()).add(
            (record["source"]["checksum"], record["settings"]["dataset"]["corpus"])
        )
    (first,), (second,) = of_seed[5], of_seed[6]
    assert first[0] != second[0]
    assert (first[1], second[1]) == ("seed=5", "seed=6")
    rows = pd.read_parquet(project.path / "results/world/artefacts/rows.parquet")
    assert set(rows["dataset"]) == {"phantom"}
    table = pd.read_csv(project.path / "results/world/tables/tasks.csv").set_index("objective")
    assert table.loc["DCL-LM", "pairs"].eq(2).all()
    assert project.planned(TARGETS[0]) == {}


def test_a_study_without_its_text_study_is_refused_before_anything_runs(finished, tmp_path):
    project = finished.copy(tmp_path / "project")
    (project.path / "study.yaml").write_text(yaml.safe_dump({"world": tiny_world()}))
    done = project.snakemake("--dry-run")
    assert done.returncode != 0
    assert (
        "world.dataset.text refers to 'words'; there are no likelihood studies"
        in done.stdout + done.stderr
    )


def test_released_weights_are_evaluated_compared_and_drawn(finished, tmp_path):
    pytest.importorskip("open_clip", reason="CLIP is the released model (the extra towers)")
    clip = {"name": "open_clip", **write_clip(tmp_path, tiny_clip(image_size=32))}
    objectives = {
        "CLIP": {"name": "released", "encoder": clip, "text_encoder": clip}
    } | tiny_world()["objectives"]
    shown = {
        "overlays": {"objectives": ["CLIP"], "phrases": 2},
        "similarities": {"objectives": ["CL", "CLIP"]},
    }
    project = finished.copy(tmp_path / "project")
    project.configure(
        words=tiny_words(),
        world=tiny_world(objectives=objectives, augmentation={"crop": 1.0}, figures=shown),
    )
    targets = [
        *TARGETS,
        "results/world/figures/training_loss.png",
        "results/world/figures/share_at_bound.png",
    ]
    project.run(*targets)
    table = pd.read_csv(project.path / "results/world/tables/tasks.csv").set_index("objective")
    assert np.isfinite(table.loc["CLIP", "mean"]).all()
    assert table.loc["CLIP", "pairs"].eq(2).all()
    assert project.planned(*targets) == {}


def test_a_language_model_can_start_from_one_of_another_study(finished, tmp_path):
    project = finished.copy(tmp_path / "project")
    tuned = {"tuned": {"start": "words/phantom/BERT", "epochs": 1, "device": "cpu"}}
    project.configure(words=tiny_words(), tuned=tiny_words(language_models=tuned))
    manifest = "results/tuned/text/phantom/language_models/tuned.json"
    project.run(manifest)
    start = "results/words/text/phantom/language_models/BERT.json"
    models = [json.loads((project.path / path).read_text())["models"] for path in (manifest, start)]
    assert len(models[0]) == len(models[1])
    assert not {model["checksum"] for model in models[0]} & {
        model["checksum"] for model in models[1]
    }
