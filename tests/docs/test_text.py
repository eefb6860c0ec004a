"""docs/text.md: the table, the configuration, the study and the exported encoder work as the page
says.
"""

import json
import re

import numpy as np
import pandas as pd
import pytest
import yaml

from tests.docs.followed import run_in, write_files
from tests.docs.pages import ROOT, blocks, indented
from tests.projects import new_project
from trueneg.config.reading import load_configuration
from trueneg.evaluation.evaluate import encoded_runs
from trueneg.evaluation.texts import needed_rows

PAGE = "docs/text.md"
WRITTEN = {block.title: block for block in blocks(ROOT / PAGE) if block.title}
PROGRAMS = [
    line
    for block in blocks(ROOT / PAGE)
    if block.language == "bash"
    for line in block.text.splitlines()
]


def studies():
    return yaml.safe_load(WRITTEN["my_texts.yaml"].text)


def table(folder, monkeypatch):
    """Run the program that writes the table, and return the table."""
    monkeypatch.chdir(folder)
    exec(compile(WRITTEN["make_table.py"].text, PAGE, "exec"), {})
    return pd.read_csv("questions.csv")


def test_the_configuration_is_valid_and_names_columns_of_the_table(tmp_path, monkeypatch):
    questions = table(tmp_path, monkeypatch)
    (study,) = load_configuration(studies(), "my_texts.yaml").studies.values()
    assert not questions.duplicated("question").any()
    assert set(questions.columns) == {study.dataset.text_column, study.dataset.label_column}
    sets = study.dataset.labels
    assert (
        sets.train + sets.validation_unseen + sets.test_unseen
        == questions["intent"].nunique()
        == 10
    )
    assert study.first_baseline == "untrained"


@pytest.mark.parametrize(
    ("changes", "removed"),
    [
        ({"primary": {"labels": "unseen"}}, ()),
        ({"dataset": {"labels": {"per_run": 4, "fraction": 0.2}}}, ()),
        ({"dataset": {"test_path": "test.csv", "rated": {"path": "rated.csv"}}}, ()),
        (
            {
                "dataset": {"positives": "dropout", "rated": {"path": "rated.csv"}},
                "projection": {"dropout": 0.1},
            },
            (),
        ),
        (
            {
                "dataset": {
                    "positives": "given",
                    "positive_column": "answer",
                    "negative_columns": ["wrong"],
                }
            },
            (),
        ),
        (
            {
                "dataset": {
                    "positives": "given",
                    "positive_column": "answer",
                    "labels": None,
                    "label_column": None,
                }
            }
            | {"primary": {"task": "retrieval", "metric": "R", "k": 1, "oracle": None}},
            ("Oracle",),
        ),
        (
            {
                "dataset": {
                    "positives": "dropout",
                    "labels": None,
                    "label_column": None,
                    "rated": {"path": "rated.csv"},
                }
            }
            | {"projection": {"dropout": 0.1}}
            | {
                "primary": {
                    "task": "similarity",
                    "metric": "Spearman",
                    "labels": None,
                    "oracle": None,
                }
            },
            ("Oracle",),
        ),
    ],
    ids=["unseen", "draws", "own test texts", "dropout", "pairs and labels", "pairs", "texts only"],
)
def test_the_forms_that_the_page_names_are_valid(changes, removed):
    study = studies()["my_texts"]
    for section, values in changes.items():
        for key, value in values.items():
            before = study.setdefault(section, {}).get(key)
            study[section][key] = before | value if isinstance(before, dict) and value else value
    for objective in removed:
        del study["objectives"][objective]
    load_configuration({"my_texts": study}, "my_texts.yaml")


def test_all_settings_that_the_page_names_exist():
    """Words in backticks that look like keys of the configuration are keys of it, except two
    values.
    """
    text = (ROOT / PAGE).read_text(encoding="utf-8").partition("## 2.")
    reference = (ROOT / "docs/configuration.md").read_text(encoding="utf-8")
    keys = set(re.findall(r"^\| \*?(\w+)\*?(?: ↔)? \|", reference, re.M))
    named = set(re.findall(r"`([a-z]+_[a-z_]+)(?::[^`]*)?`", text[0] + text[2]))
    named -= {"same_label", "text_table"}
    assert named
    assert named <= keys


def of_page(program):
    (line,) = [line for line in PROGRAMS if line.startswith(program)]
    return line.split()


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A copy of the project with the page's files and its table, two seeds and a short training,
    offline.
    """
    pytest.importorskip("sentence_transformers", reason="the page installs the extra towers")
    pytest.importorskip("all_minilm_l6_v2", reason="the page installs the extra pretrained")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    made, content = new_project(tmp_path / "project"), studies()
    write_files(PAGE, made)
    content["my_texts"] |= {
        "seeds": 2,
        "training": content["my_texts"]["training"] | {"updates": 20},
    }
    (made.path / "my_texts.yaml").write_text(yaml.safe_dump(content))
    run_in(made, of_page("python"))
    return made


@pytest.mark.long
def test_the_check_counts_what_the_page_says_and_names_what_is_wrong(project):
    said = run_in(project, of_page("trueneg check"))
    assert "480 texts with 10 labels" in said
    (expected,) = re.findall(
        r"of an anchor's 63 negatives, about 0 \(0 %\) have its text and ([\d.]+) \(", said
    )
    assert round(float(expected)) == 10  # "ten" on the page
    questions = pd.read_csv(project.path / "questions.csv")
    questions.loc[3, "intent"] = None
    questions.to_csv(project.path / "questions.csv", index=False)
    with pytest.raises(AssertionError, match=r"questions\.csv: line 5: intent"):
        run_in(project, of_page("trueneg check"))


@pytest.mark.long
def test_the_study_ends_with_its_answer_and_an_encoder_with_the_vectors_of_its_evaluation(
    project, monkeypatch
):
    run_in(project, of_page("snakemake"))
    page = (project.path / "results/index.html").read_text()
    assert "untrained − CL" in page
    rows = pd.read_parquet(project.path / "results/my_texts/artefacts/rows.parquet")
    assert set(rows["objective"]) == {*studies()["my_texts"]["objectives"], "untrained"}
    assert {"knn", "linear probe", "retrieval", "clustering"} == set(rows["task"])
    assert {"seen", "unseen"} == set(rows["labels"])
    for name in ("CL", "untrained"):
        (manifest,) = project.path.glob(f"results/my_texts/manifests/*/{name}/*.json")
        identifier = json.loads(manifest.read_text())["runs"][0]["id"]
        form = next(line for line in indented(ROOT / PAGE) if line.startswith("trueneg export"))
        run_in(
            project,
            form.replace("RUN", identifier[:8]).replace("exported", f"{name}/exported").split(),
        )
        texts, vectors = vectors_of_evaluation(project.path / "results", manifest)
        monkeypatch.chdir(project.path / name)
        (example,) = [
            block for block in blocks(ROOT / PAGE, "5. Export") if block.language == "python"
        ]
        names = {}
        exec(compile(example.text, PAGE, "exec"), names)
        encoded = names["encoder"].encode(texts, normalize_embeddings=True)
        assert len(texts) > 200
        np.testing.assert_allclose(encoded, vectors, atol=1e-5)


def vectors_of_evaluation(results, manifest):
    """Return the texts and the unit vectors that the evaluation of a manifest's first run
    compares.
    """
    (source,), (subsets,) = (
        results.glob("texts/*.npz"),
        results.glob("my_texts/subsets/*/*.parquet"),
    )
    data = {"source": source, "subsets": subsets, "vectors": sorted(results.glob("features/*.npz"))}
    with encoded_runs(
        manifest=manifest, store=results / "runs", device="cpu", threads=1, count=1, **data
    ) as ready:
        ((run,),) = ready
    rows, _ = needed_rows(run.source, run.subset)
    return run.source.sentences["sentence"].iloc[rows].tolist(), run.anchors[rows].numpy()
