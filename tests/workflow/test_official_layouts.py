"""The papers' data sets in their official layouts, with small versions of the shipped studies."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.data import official_layouts as layouts
from tests.projects import ROOT, new_project
from trueneg.cli.main import main
from trueneg.config.reading import merged_files
from trueneg.data.pairs.pair_source import read_pairs
from trueneg.data.samples import SPLITS, read_subsets
from trueneg.io import privacy

pytestmark = pytest.mark.long  # the readers of these layouts have quick tests of their own

TINY = {
    "encoder": {"name": "small", "width": 4},
    "text_encoder": {
        "name": "small",
        "hidden": 16,
        "layers": 1,
        "heads": 2,
        "pooling": "mean",
        "truncate": True,
    },
    "projection": {"dimensions": 16},
    "seeds": 1,
}
TINY_BERT = {
    "epochs": 1,
    "hidden": 16,
    "layers": 1,
    "vocabulary": 200,
    "validation": 0.3,
    "device": "cpu",
}
OBJECTIVES = {"DCL-LM": {"name": "dcl", "class_probability": "language model"}}


def small(name: str, baseline: str, data: Path, **dataset) -> dict:
    """A shipped configuration with the same data and evaluation, but tiny networks and two
    objectives.
    """
    studies = merged_files([ROOT / f"config/studies/{name}.yaml"])
    text, study = studies[f"{name}_text"], studies[name]
    text["language_models"] = {"BERT": TINY_BERT}
    text["scoring"] = {"device": "cpu"}
    text["reports"]["path"] = str(data / Path(text["reports"]["path"]).name)
    text["processes"] = 1
    study |= TINY | {"contrasts": [], "figures": {}, "published": []}
    study["objectives"] = {baseline: study["objectives"][baseline], **OBJECTIVES}
    study["dataset"] |= {"resolution": 32, **dataset}
    study["training"] = {"epochs": 1, "batch_size": 4, "device": "cpu"}
    study["similarity"] = study.get("similarity", {})
    study["augmentation"] = {"crop": 1.0}
    study["evaluation"] |= {"mem_mb": 2000, "linear_probe": {"fractions": [1.0], "epochs": 2}}
    study["primary"] |= {"treatment": "DCL-LM", "baseline": baseline}
    return {f"{name}_text": text, name: study}


@pytest.fixture(scope="module")
def mimic(tmp_path_factory):
    """A finished study on MIMIC-CXR with boxes from MS-CXR and retrieval on CheXpert 8×200."""
    project = new_project(tmp_path_factory.mktemp("mimic") / "project")
    data = project.path / "data"
    radiographs = layouts.write_mimic_cxr(data / "mimic-cxr-jpg", patients=60)
    layouts.write_mimic_reports(data / "mimic-cxr", radiographs)
    layouts.write_ms_cxr(data / "ms-cxr", layouts.ms_cxr(radiographs))
    lists = layouts.chexpert_8x200()
    layouts.write_convirt_lists(data / "convirt", lists)
    layouts.write_chexpert_pictures(data / "chexpert", [*lists.candidates, *lists.images])
    studies = small("mimic_cxr", "LSE+NL", data)
    studies["mimic_cxr"]["evaluation"]["chexpert_8x200"] = {
        "path": "data/chexpert",
        "lists": "data/convirt",
    }
    studies["mimic_cxr"]["figures"] = {"similarities": {"objectives": ["LSE+NL", "DCL-LM"]}}
    project.configure(**studies)
    targets = (
        "tables/tasks.csv",
        "tables/precision.csv",
        "artefacts/similarities/mimic_cxr/DCL-LM.parquet",
    )
    project.run(*(f"results/mimic_cxr/{target}" for target in targets))
    return project


def test_mimic_cxr_is_measured_and_drawn(mimic):
    rows = pd.read_parquet(mimic.path / "results/mimic_cxr/artefacts/rows.parquet")
    measured = {
        "retrieval sentence",
        "linear probe",
        "grounding",
        "region retrieval",
        "chexpert 8x200",
    }
    assert measured <= set(rows.loc[rows["split"] == "test", "task"])
    assert np.isfinite(rows["value"]).all()
    table = pd.read_csv(mimic.path / "results/mimic_cxr/tables/precision.csv")
    assert {"LSE+NL", "DCL-LM"} <= set(table["objective"])
    similarities = pd.read_parquet(
        mimic.path / "results/mimic_cxr/artefacts/similarities/mimic_cxr/DCL-LM.parquet"
    )
    shown = similarities.groupby(["pairs", "relation"]).size().to_dict()
    assert shown == {
        ("text–image", "same class"): 40 * 200,
        ("text–image", "another class"): 20_000,
        ("text–image", "all pairs"): 20_000,
        ("image–image", "same class"): 80 * 200,
        ("image–image", "another class"): 20_000,
        ("image–image", "all pairs"): 20_000,
    }


def test_an_edited_list_of_8x200_is_read_again(mimic, monkeypatch, capsys):
    monkeypatch.chdir(mimic.path)
    queries, target = (
        Path("data/convirt/text-retrieval/query.csv"),
        "results/mimic_cxr/tables/precision.csv",
    )
    before = queries.read_text()
    queries.write_text(before.rstrip() + " Again.\n")
    planned = set(mimic.planned(target))
    assert main(["check", "study.yaml"]) == 0
    queries.write_text(before)
    assert {"chexpert_8x200", "evaluate"} <= planned
    assert not {"reports", "pairs", "train"} & planned
    assert f"data changed: {queries}" in capsys.readouterr().out
    assert mimic.planned(target) == {}


def test_no_patient_of_ms_cxr_is_trained_on(mimic):
    boxed = {f"p{box.image.subject}" for box in layouts.ms_cxr(layouts.mimic_cxr(60))}
    (path,) = (mimic.path / "results/pairs").glob("mimic_cxr-32px-??????.npz")
    source = read_pairs(path)
    (subsets,) = (mimic.path / "results/mimic_cxr/subsets").rglob("*.parquet")
    subset = read_subsets(subsets)[0]
    patients = {split: set(source.patients[getattr(subset, split)].tolist()) for split in SPLITS}
    assert boxed
    assert boxed <= patients["test"]
    assert not boxed & (patients["train"] | patients["validation"])


def test_restricted_text_is_only_in_files_that_nobody_else_can_read(mimic):
    sentences = {"bones look well", "There is a sign of", "a vague opacity below", "Sentence 3 on"}
    leaked = set()
    for path in (mimic.path / "results").rglob("*"):
        if path.is_file() and path.suffix in (
            ".log",
            ".md",
            ".csv",
            ".tex",
            ".json",
            ".jsonl",
            ".yaml",
            ".html",
        ):
            text = path.read_text(errors="replace")
            leaked |= {(path.name, sentence) for sentence in sentences if sentence in text}
    assert not leaked
    for path in [
        *(mimic.path / "results/pairs").glob("*.*"),
        *(mimic.path / "results/benchmarks").glob("*.*"),
    ]:
        assert path.stat().st_mode & 0o077 == 0, path


def test_flickr8k_is_measured_and_compared_with_human_ratings(tmp_path):
    project = new_project(tmp_path / "project")
    layouts.write_flickr8k(project.path / "data/flickr8k")
    project.configure(**small("flickr8k", "CL", project.path / "data"))
    targets = [
        f"results/flickr8k/{name}"
        for name in ("tables/tasks.csv", "tables/human_ratings.csv", "figures/human_ratings.png")
    ]
    project.run(*targets)
    rows = pd.read_parquet(project.path / "results/flickr8k/artefacts/rows.parquet")
    assert set(rows["task"]) == {"retrieval sentence", "retrieval report"}
    (path,) = (project.path / "results/pairs").glob("flickr8k-32px-*-ratings.parquet")
    assert len(privacy.read_table(path)[0]) == 150
    assert project.planned(*targets) == {}


def test_flickr30k_is_measured_and_drawn(tmp_path):
    project = new_project(tmp_path / "project")
    layouts.write_flickr30k(project.path / "data/flickr30k", photographs=60)
    project.configure(**small("flickr30k", "InfoNCE", project.path / "data"))
    project.run("results/flickr30k/tables/tasks.csv")
    rows = pd.read_parquet(project.path / "results/flickr30k/artefacts/rows.parquet")
    assert {"InfoNCE", "DCL-LM"} == set(rows["objective"])
    recalls = rows[rows["metric"] == "R"]
    assert {("text to image", 1), ("image to text", 10)} <= set(
        zip(recalls["direction"], recalls["k"], strict=True)
    )
