"""Studies on towers of other libraries and on stored vectors, as real workflows from source to page."""

import numpy as np
import pandas as pd
import pytest

from tests.projects import new_project
from tests.studies import tiny_study, tiny_words, tiny_world

pytestmark = pytest.mark.long

FROZEN = {"projection": {"name": "residual", "dimensions": 16, "hidden": 8}, "figures": {}}


def measured(project, study):
    """Return the finite rows of a study's page."""
    project.run("all")
    assert (project.path / "results/index.html").is_file()
    rows = pd.read_parquet(project.path / f"results/{study}/artefacts/rows.parquet")
    assert len(rows)
    assert np.isfinite(rows["value"]).all()
    return rows


def features(project):
    """Return the names of the stored vectors."""
    return sorted(path.stem for path in (project.path / "results/features").glob("*.npz"))


def test_two_views_are_versions_in_a_file_of_vectors(tmp_path):
    project = new_project(tmp_path / "project")
    vectors = np.random.default_rng(0).standard_normal((1797, 4, 6)).astype(np.float32)
    np.save(project.path / "vectors.npy", vectors)
    study = tiny_study(encoder={"name": "vectors", "path": "vectors.npy"}, projection={"name": "residual", "dimensions": None})
    project.configure(tiny=study)
    assert set(measured(project, "tiny")["objective"]) == {"CL", "DCL-true", "Oracle"}
    assert len(features(project)) == 1
    vectors[0] += 1
    np.save(project.path / "vectors.npy", vectors)
    before = set(project.models())
    project.run("models")
    assert len(set(project.models()) - before) == 6  # changed vectors are noticed


def test_vectors_of_images_and_of_sentences(tmp_path):
    project = new_project(tmp_path / "project")
    project.configure(words=tiny_words(), world=tiny_world(figures={}))
    project.run("models")
    (path,) = (project.path / "results/pairs").glob("*px-??????.parquet")
    generator = np.random.default_rng(0)
    np.save(project.path / "images.npy", generator.standard_normal((100, 6)).astype(np.float32))
    table = pd.read_parquet(path)[["report"]]
    table["vector"] = [list(row) for row in generator.standard_normal((len(table), 5)).astype(np.float32)]
    table.to_parquet(project.path / "sentences.parquet")
    world = tiny_world(**FROZEN, encoder={"name": "vectors", "path": "images.npy"})
    world["text_encoder"] = {"name": "vectors", "path": "sentences.parquet"}
    world["primary"] |= {"task": "retrieval sentence", "metric": "R", "direction": "text to image", "k": 1, "labels": "report"}
    project.configure(words=tiny_words(), world=world)
    measured(project, "world")
