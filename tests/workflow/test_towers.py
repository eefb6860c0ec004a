"""Studies on towers of other libraries and on stored vectors, as real workflows from source to
page.
"""

import json
import os
import signal
import time

import numpy as np
import pandas as pd
import pytest

from tests.models.towers.test_open_clip_towers import CONFIGS, write_hugging_face
from tests.models.towers.test_sentence_transformers_tower import folder_of
from tests.projects import new_project
from tests.studies import tiny_study, tiny_words, tiny_world
from trueneg.store.run_store import RunStore

pytestmark = pytest.mark.long

HEADS = {
    "projection": {"name": "residual", "dimensions": 16, "hidden": 8, "dropout": 0.1},
    "figures": {},
}
RETRIEVAL = {
    "task": "retrieval sentence",
    "metric": "R",
    "direction": "text to image",
    "k": 1,
    "labels": "report",
}


def measured(project, *studies):
    """Return the finite rows of each study, all of which are on the page."""
    project.run("all")
    page = (project.path / "results/index.html").read_text()
    tables = [
        pd.read_parquet(project.path / f"results/{study}/artefacts/rows.parquet")
        for study in studies
    ]
    for study, rows in zip(studies, tables, strict=True):
        assert f'id="{study}"' in page
        assert len(rows)
        assert np.isfinite(rows["value"]).all()
    return tables


def features(project):
    """Return the names of the stored vectors and the times of their last change."""
    return {
        path.stem: path.stat().st_mtime_ns
        for path in (project.path / "results/features").glob("*.npz")
    }


def open_clip_model(folder, name):
    """Write a tiny model's configuration, and return the settings of a tower with random
    weights.
    """
    folder.mkdir()
    if "hf_tokenizer_name" in CONFIGS[name]["text_cfg"]:
        write_hugging_face(folder)
    (folder / "open_clip_config.json").write_text(
        json.dumps({"model_cfg": CONFIGS[name], "preprocess_cfg": {}})
    )
    return {"name": "open_clip", "model": str(folder / "open_clip_config.json"), "weights": "none"}


def timm(model, **settings):
    return {"name": "timm", "model": model, "weights": "none", **settings}


def texts(folder, kind, **settings):
    return {
        "name": "sentence_transformers",
        "model": str(folder_of(kind, folder)),
        "truncate": True,
        **settings,
    }


def run_worlds(project, worlds, **others):
    """Run a study for each pair of towers, and return its rows by name."""
    objectives = {name: tiny_world()["objectives"][name] for name in ("CL", "Oracle")}
    primary = {"treatment": "Oracle", "baseline": "CL", "oracle": "Oracle"}
    common = {"objectives": objectives, "primary": primary, "seeds": 1, **HEADS}
    studies = {name: tiny_world(**(common | changes)) for name, changes in worlds.items()} | others
    project.configure(words=tiny_words(), **studies)
    return dict(zip(studies, measured(project, *studies), strict=True))


LOCAL = {"aggregation": "lse", "lse_sharpness": 5.0}


def test_studies_on_frozen_towers_run_from_source_to_page(tmp_path):
    project, frozen = new_project(tmp_path / "project"), {"train": "none"}
    vit = open_clip_model(tmp_path / "vit", "vit") | frozen
    worlds = {
        "vit_bert": {
            "encoder": timm("test_vit", **frozen),
            "text_encoder": texts(tmp_path / "bert", "bert", **frozen),
        },
        "vit_static": {
            "encoder": timm("test_vit", **frozen),
            "text_encoder": texts(tmp_path / "static", "static", **frozen),
        },
        "convnext_mpnet": {
            "encoder": timm("test_convnext", **frozen),
            "text_encoder": texts(tmp_path / "mpnet", "mpnet", **frozen),
            "similarity": LOCAL,
        },
        "open_clip_vit": {"encoder": vit, "text_encoder": vit | {"truncate": True}},
    }
    views = tiny_study(
        encoder=timm("test_vit", resolution=32, views=2, **frozen),
        projection={"name": "residual", "dimensions": None},
    )
    tables = run_worlds(project, worlds, views=views)
    assert {"grounding", "zero-shot", "retrieval sentence", "linear probe"} <= set(
        tables["vit_bert"]["task"]
    )
    # The frozen ViT of two studies is computed once.
    counts = (
        pd.Series([name.rsplit("-", 1)[0] for name in features(project)]).value_counts().to_dict()
    )
    of_images = {"timm-images": 3, "open_clip-images": 1}
    assert counts == of_images | {"sentence_transformers-texts": 3, "open_clip-texts": 1}


def test_studies_on_trained_towers_run_from_source_to_page(tmp_path):
    project, last = new_project(tmp_path / "project"), {"train": {"last": 1}}
    siglip = open_clip_model(tmp_path / "siglip", "siglip")
    worlds = {
        "convnext_roberta": {
            "encoder": timm("test_convnext"),
            "text_encoder": texts(tmp_path / "roberta", "roberta"),
        },
        "vit_modernbert": {
            "encoder": timm("test_vit", **last),
            "text_encoder": texts(tmp_path / "modernbert", "modernbert", **last),
            "similarity": LOCAL,
        },
        "open_clip_siglip": {
            "encoder": siglip,
            "text_encoder": siglip | {"truncate": True},
            "projection": {"name": "released"},
        },
    }
    run_worlds(
        project, worlds, trained_views=tiny_study(encoder=timm("test_convnext", resolution=32))
    )
    assert features(project) == {}


def test_a_second_objective_computes_nothing_and_changed_weights_are_noticed(tmp_path):
    project, folder = new_project(tmp_path / "project"), tmp_path / "bert"
    world = tiny_world(
        **HEADS,
        encoder=timm("test_vit", train="none"),
        text_encoder=texts(folder, "bert", train="none"),
    )
    project.configure(words=tiny_words(), world=world)
    project.run("models")
    before, runs = features(project), set(project.models())
    world["objectives"]["ReCo"] = {"name": "reco"}
    project.configure(words=tiny_words(), world=world, again=world | {"seeds": [0]})
    project.run("models")
    assert features(project) == before
    # another objective with two seeds; the second study trains nothing
    assert len(project.models().keys() - runs) == 2
    folder_of("bert", folder, seed=1)
    runs = set(project.models())
    project.run("models")
    assert len(project.models().keys() - runs) == 8


def test_a_killed_job_resumes_and_gives_the_same_vectors(tmp_path):
    project = new_project(tmp_path / "project")
    study = tiny_study(
        encoder=timm("test_vit", resolution=160, views=4, train="none"),
        projection={"name": "residual"},
    )
    project.configure(tiny=study)
    process = project.start("models", "--nolock")
    progress = ()
    while not progress or json.loads(progress[0].read_text())["done"] < 1024:
        assert process.poll() is None
        progress = tuple((project.path / "results/features/cache").glob("*/progress.json"))
        time.sleep(0.05)
    for job in os.popen("pgrep -f tmp.*features.py").read().split():
        os.kill(int(job), signal.SIGKILL)
    process.wait()
    assert process.returncode
    values = progress[0].with_name("values.npy")
    begun = np.load(values, mmap_mode="r")[:1024].copy()
    project.run("models")
    (path,) = (project.path / "results/features").glob("*.npz")
    stored = np.load(path)["values"]
    assert np.array_equal(stored[:1024], begun)
    assert not values.exists()
    log = next((project.path / "results/features/logs").rglob("*.log")).read_text()
    assert "1,024 of 1,797" in log


def test_two_views_are_versions_in_a_file_of_vectors(tmp_path):
    project = new_project(tmp_path / "project")
    vectors = np.random.default_rng(0).standard_normal((1797, 4, 6)).astype(np.float32)
    np.save(project.path / "vectors.npy", vectors)
    residual, unchanged = {"name": "residual", "dimensions": None}, {"name": "none"}
    study = tiny_study(
        encoder={"name": "vectors", "path": "vectors.npy"},
        projection=residual,
        augmentation=unchanged,
    )
    project.configure(tiny=study)
    planned = project.trueneg("check", "study.yaml")
    assert planned.returncode == 0, planned.stderr
    assert "runs to train" in planned.stdout
    (rows,) = measured(project, "tiny")
    assert set(rows["objective"]) == {"CL", "DCL-true", "Oracle", "untrained"}
    assert len(features(project)) == 1
    assert "Nothing to train" in project.trueneg("check", "study.yaml").stdout
    exported = project.trueneg("export", next(iter(project.models())), "exported")
    assert exported.returncode == 0, exported.stderr
    # readable by its owner only
    assert (project.path / "exported/image/load.py").stat().st_mode & 0o077 == 0
    moved = project.path / "moved"
    moved.mkdir()
    (project.path / "vectors.npy").rename(moved / "vectors.npy")
    project.configure(tiny=study | {"encoder": study["encoder"] | {"path": "moved/vectors.npy"}})
    runs = set(project.models())
    measured(project, "tiny")
    assert set(project.models()) == runs  # another place is no change
    project.configure(tiny=study)
    np.save(project.path / "vectors.npy", vectors + 1)
    before = set(project.models())
    project.run("models")
    assert len(project.models().keys() - before) == 8  # with those of the untrained head


def test_vectors_of_images_and_of_sentences(tmp_path):
    project = new_project(tmp_path / "project")
    project.configure(words=tiny_words(), world=tiny_world(figures={}))
    project.run("models")
    (path,) = (project.path / "results/pairs").glob("*px-??????.parquet")
    generator = np.random.default_rng(0)
    np.save(project.path / "images.npy", generator.standard_normal((100, 6)).astype(np.float32))
    table = pd.read_parquet(path)[["report"]]
    table["vector"] = [
        list(row) for row in generator.standard_normal((len(table), 5)).astype(np.float32)
    ]
    table.to_parquet(project.path / "sentences.parquet")
    world = tiny_world(**HEADS, encoder={"name": "vectors", "path": "images.npy"}, seeds=1)
    world["text_encoder"] = {"name": "vectors", "path": "sentences.parquet"}
    world["primary"] |= RETRIEVAL
    project.configure(words=tiny_words(), world=world)
    (rows,) = measured(project, "world")
    assert set(rows["task"]).isdisjoint({"zero-shot", "grounding"})
    assert len(RunStore(project.path / "results/runs").records()) == 6 + 3
