"""docs/extend.md: each section works, changes no existing file and makes no finished run stale."""

import json
import sys

import numpy as np
import pandas as pd
import pytest

from tests.docs.followed import follow, run_in, write_files
from tests.docs.pages import ROOT, blocks
from tests.projects import new_project

PAGE = "docs/extend.md"
KINDS = ("images", "image-text", "text")  # of training
NEW_METHODS = {
    "A method with state": ({"name": "smoothed", "momentum": 0.9}, "objective", "smoothed"),
    "A guide": ({"name": "guided", "guide": {"name": "snapshot", "every": 2}}, "guide", "snapshot"),
}
RESUMED = """
import json, sys, torch
from tests.studies import first_run, tiny_study
from trueneg.data.images.loading import load_source
from trueneg.data.images.subsets import make_subset
from trueneg.training.simclr import SimCLR

study = tiny_study()
study["objectives"]["New"] = json.loads(sys.argv[1])
run, source = first_run("tiny", {"tiny": study}, "New"), load_source("digits")
subset = make_subset(source, seed=0, fraction=0.25, rare_classes=[5, 6, 7, 8, 9], test=0.25)
whole, resumed = (SimCLR(run.settings, 0, source, subset, torch.device("cpu")) for _ in range(2))
states = []
def save():
    tensors, values = whole.state()
    states.append(({name: value.clone() for name, value in tensors.items()}, values))
whole.train_epoch(save)
resumed.load_state(*states[4])
resumed.train_epoch()
assert whole.guide.state_dict().keys() & states[0][0].keys()
for name, value in whole.state()[0].items():
    assert torch.equal(value, resumed.state()[0][name]), name
"""
VERSIONS = """
import json
from trueneg.store.versions import today

print(json.dumps(today()))
"""
ESTIMATOR = """
import doctest, torch
import trueneg.losses.estimators.trimmed
from trueneg.losses import build
from trueneg.config.reading import read_configuration

trimmed = trueneg.losses.estimators.trimmed.Trimmed(0.2)
for directions in (None, "both"):
    loss = build({{"name": "trim", "share": 0.2}}, directions=directions)
    assert loss.estimator == trimmed
assert loss(torch.eye(8), 5.0).isfinite()
study = read_configuration(["trim.yaml"]).studies["trim"]
assert study.objectives["Trimmed"].share == 0.1
assert doctest.testmod(trueneg.losses.estimators.trimmed) == (0, 3)
{examples}
"""

TASK = """
import torch
from trueneg.specs.kinds.images import DatasetSettings, EvaluationSettings, ImageStudy
from trueneg.data.images.loading import load_source
from trueneg.data.images.subsets import make_subset
from trueneg.evaluation.evaluate import rows_of
from trueneg.evaluation.images import EncodedRun
from trueneg.evaluation.images.uniformity import uniformity
from trueneg.report.metrics import higher_is_better
from trueneg.specs import tasks
from trueneg.stats.measurement import Measurement
from trueneg.training.augment import Augmentation

source = load_source("digits", resolution=None)
subset = make_subset(source, seed=0, rare_classes=[], fraction=1.0, test=0.25, validation=0.1)
same = torch.ones(len(source.labels), 4)
networks = torch.nn.Identity(), Augmentation([0.5], [0.5])
run = EncodedRun("abc", subset, source, same, torch.from_numpy(source.labels), *networks)
off = ("augmented_linear_probe", "knn", "largest_class", "linear_probe", "mean_classifier")
rows = list(rows_of("trueneg.evaluation.images", [run], dict.fromkeys(off)))
measured = Measurement.of(rows[0])
assert [row["task"] for row in rows] == ["spread", "spread"]
assert [row["split"] for row in rows] == ["validation", "test"]
assert all(abs(row["value"]) < 1e-6 for row in rows)  # all features are one: log 1
assert not higher_is_better("uniformity")
points = torch.randn(20, 3, generator=torch.Generator().manual_seed(0))
units = points / points.norm(dim=1, keepdim=True)
pairs = [torch.exp(-2 * (units[i] - units[j]).square().sum()) for i in range(20) for j in range(i)]
assert abs(uniformity(points) - torch.stack(pairs).mean().log().item()) < 1e-5
data = DatasetSettings(source="digits")
study = ImageStudy.model_construct(evaluation=EvaluationSettings(), dataset=data)
measured_by = tasks.measured_by(study).items()
spread = {one: task.splits(study, one) for one, task in measured_by if one.task == "spread"}
assert spread == {measured: ("validation", "test")}
"""

FIGURE_TEST = """
from types import SimpleNamespace

import numpy as np

from trueneg.report.figures.every_seed import every_seed
from trueneg.stats.measurement import Measurement
from trueneg.store.rows import to_table

KNN = Measurement("knn", "accuracy", "all")
VALUES = {"CL": [0.5, 0.6, 0.7], "DCL": [0.55, 0.65, 0.75]}


def test_each_dot_is_at_its_measured_value():
    constant = {"study": "s", "dataset": "d", "condition": "{}", "variant": "{}", "split": "test"}
    constant |= KNN._asdict()
    rows = to_table(
        {**constant, "objective": name, "seed": seed, "run": f"{name}-{seed}", "value": value}
        for name, values in VALUES.items()
        for seed, value in enumerate(values)
    )
    plot = every_seed(SimpleNamespace(rows=rows, primary=KNN, dataset="d", study_note="")).axes[0]
    for dots, values in zip(plot.collections, VALUES.values(), strict=True):
        np.testing.assert_allclose(dots.get_offsets()[:, 1], [100 * value for value in values])
"""

FIGURE = """
from tests.studies import tiny_study
from trueneg.specs.kinds.images import ImageStudy
from trueneg.report import registry

assert "every_seed" in registry.figures_by_name(ImageStudy.model_validate(tiny_study()))
"""

TEXT_STUDY = """
lists:
  kind: text
  title: Lists
  dataset: {source: label_lists, path: texts.json}
  text_encoder: {name: vectors, path: vectors.npy}
  training: {updates: 2, batch_size: 16, device: cpu}
  objectives: {CL: {name: cl}, Oracle: {name: oracle}}
  seeds: 2
  primary: {task: knn, labels: seen, treatment: Oracle, baseline: CL, oracle: Oracle}
"""

SOURCE_TEST = r"""
import pytest
from PIL import Image

from trueneg.data.pairs.pair_source import read_pairs
from trueneg.data.pairs.registry import prepare_pairs, write_captions
from trueneg.errors import UserError


@pytest.fixture
def folder(tmp_path):
    described = ("a", "red", "A red square.\nA square.\n"), ("b", "blue", "A blue square.\n")
    for name, colour, captions in described:
        Image.new("RGB", (20, 20), colour).save(tmp_path / f"{name}.png")
        (tmp_path / f"{name}.txt").write_text(captions)
    return tmp_path


def prepare(folder):
    settings = {"source": "caption_files", "path": folder, "images": None, "resolution": 8}
    sentences = folder / "sentences.parquet"
    unique, pairs = folder / "unique.parquet", folder / "pairs.npz"
    write_captions(settings, sentences=sentences, unique=unique, cache=folder / "split")
    tables = {"sentences": sentences}
    prepare_pairs(settings, tables, pairs, cache=folder / "cache", threads=1)
    return read_pairs(folder / "pairs.npz")


def test_an_image_has_the_captions_of_its_text_file(folder):
    pairs = prepare(folder)
    assert pairs.reports.tolist() == ["a.png", "b.png"]
    assert pairs.images[:, :, 0, 0].tolist() == [[255, 0, 0], [0, 0, 255]]
    captions = pairs.sentences.groupby("report")["sentence"].agg(list)
    assert captions["a.png"] == ["A red square.", "A square."]


def test_an_image_without_a_caption_is_named(folder):
    (folder / "b.txt").write_text("\n")
    with pytest.raises(UserError, match=r"b\.txt has no caption"):
        prepare(folder)
"""

SOURCE = """
from trueneg.config.reading import read_configuration

studies = read_configuration(["shapes.yaml"]).studies
assert studies["captions"].reports.path == "data/shapes"
assert studies["shapes"].dataset.source == "caption_files"
"""


@pytest.fixture
def project(tmp_path):
    return new_project(tmp_path / "project")


def versions_in(project):
    """The versions of everything, as the copied project sees them."""
    return json.loads(run_in(project, [sys.executable, "-c", VERSIONS]))


def write(project, name, text):
    path = project.path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def titles(section):
    return [block.title for block in blocks(ROOT / PAGE, section) if block.title]


def test_the_estimator_is_known_to_library_and_configuration(project):
    write_files(PAGE, project, "An estimator")
    shown = [
        block
        for block in blocks(ROOT / PAGE, "An estimator")
        if block.language == "python" and not block.title
    ]
    run_in(
        project,
        [sys.executable, "-c", ESTIMATOR.format(examples="\n".join(block.text for block in shown))],
    )
    said = run_in(
        project,
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "tests/losses/test_trimmed.py",
        ],
    )
    assert "7 passed" in said


def test_a_new_estimator_needs_only_new_files_and_raises_no_other_version(project):
    before = versions_in(project)
    assert not [title for title in titles("An estimator") if (ROOT / title).exists()]
    write_files(PAGE, project, "An estimator")
    assert versions_in(project) == before | {f"objective/{kind}/trim": 1 for kind in KINDS}


@pytest.mark.parametrize("section", NEW_METHODS)
def test_a_guide_needs_only_new_files_and_resumes_bit_for_bit(project, section):
    objective, part, name = NEW_METHODS[section]
    (project.path / "tests").mkdir()
    for module in ("__init__.py", "projects.py", "studies.py"):
        (project.path / "tests" / module).write_text((ROOT / "tests" / module).read_text())
    before = versions_in(project)
    assert not [title for title in titles(section) if (ROOT / title).exists()]
    write_files(PAGE, project, section)
    assert versions_in(project) == before | {f"{part}/{kind}/{name}": 1 for kind in KINDS}
    run_in(project, [sys.executable, "-c", RESUMED, json.dumps(objective)])
    said = run_in(
        project,
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            f"tests/training/test_{name}.py",
        ],
    )
    assert "1 passed" in said


@pytest.mark.long
def test_the_estimator_becomes_a_study(project):
    follow(PAGE, project, "An estimator")
    rows = pd.read_parquet(project.path / "results/trim/artefacts/rows.parquet")
    assert {"CL", "Oracle"} < set(rows["objective"])
    assert (project.path / "results/trim/tables/accuracy.tex").is_file()


@pytest.mark.long
def test_the_task_is_found_measured_and_shown(project):
    write_files(PAGE, project, "An evaluation task")
    run_in(project, [sys.executable, "-c", TASK])


@pytest.mark.long
def test_the_tutorial_ends_with_a_figure_and_its_study_takes_the_task(project):
    follow("docs/tutorial.md", project)
    assert (project.path / "own_figure.png").stat().st_size > 5000
    assert len(list((project.path / "results/runs").glob("*/model.safetensors"))) == 9 + 9 + 3
    follow(PAGE, project, "An evaluation task")
    rows = pd.read_parquet(project.path / "results/first/artefacts/rows.parquet").query(
        "metric == 'uniformity'"
    )
    assert (rows["value"] < 0).all()
    assert len(rows) == 4 * 3 * 2


@pytest.mark.long
def test_a_kind_of_study_needs_one_file_and_reports_its_number_on_the_page(project):
    assert titles("A kind of study") == [
        "src/trueneg/specs/kinds/collisions.py",
        "collisions.yaml",
    ]
    follow(PAGE, project, "A kind of study")
    results = project.path / "results"
    frame = pd.read_parquet(results / "collisions/artefacts/simulation/collisions.parquet")
    assert frame["false negatives"].tolist() == [pytest.approx(62 * 0.66)]  # 0.8² + 2 · 0.1²
    assert "40.9" in (results / "collisions/tables/collisions.csv").read_text()
    page = (results / "index.html").read_text()
    assert "Of an anchor&#39;s 62 negatives, 40.9 are false." in page


def test_the_figure_is_found_and_draws_what_was_measured(project):
    (project.path / "tests").mkdir()
    for name in ("__init__.py", "projects.py", "studies.py"):
        (project.path / "tests" / name).write_text((ROOT / "tests" / name).read_text())
    write_files(PAGE, project, "A figure")
    write(project, "tests/report/test_every_seed.py", FIGURE_TEST)
    said = run_in(
        project,
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "tests/report/test_every_seed.py",
        ],
    )
    assert "1 passed" in said
    run_in(project, [sys.executable, "-c", FIGURE])


@pytest.mark.long
def test_the_source_of_pairs_is_known_to_library_configuration_and_check(project):
    write_files(PAGE, project, "A source of pairs")
    write(project, "tests/data/test_caption_files.py", SOURCE_TEST)
    assert "2 passed" in run_in(
        project,
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "tests/data/test_caption_files.py",
        ],
    )
    run_in(project, [sys.executable, "-c", SOURCE])
    check = [sys.executable, "-m", "trueneg", "check", "shapes.yaml"]
    assert "data/shapes: your images" in run_in(project, check)
    run_in(project, [sys.executable, "draw_shapes.py"])
    assert "data/shapes: your images" not in run_in(project, check)


def test_the_source_of_texts_is_known_to_library_configuration_and_check(project):
    write_files(PAGE, project, "A source of texts")
    test = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "tests/data/test_label_lists.py",
    ]
    assert "2 passed" in run_in(project, test)
    write(project, "study.yaml", TEXT_STUDY)
    check = [sys.executable, "-m", "trueneg", "check", "study.yaml"]
    assert "dataset.path, texts.json: your file of texts" in run_in(project, check)
    texts = {
        label: [f"{label} number {number}" for number in range(20)]
        for label in ("card", "refund", "loan")
    }
    write(project, "texts.json", json.dumps(texts))
    np.save(project.path / "vectors.npy", np.random.default_rng(0).random((60, 4), np.float32))
    assert "60 texts with 3 labels; training 42, validation 6, test 12" in run_in(project, check)


@pytest.mark.long
def test_the_source_of_pairs_becomes_a_study(project):
    follow(PAGE, project, "A source of pairs")
    rows = pd.read_parquet(project.path / "results/shapes/artefacts/rows.parquet")
    assert set(rows["objective"]) == {"CL", "DCL-LM"}
    assert (project.path / "results/index.html").is_file()
