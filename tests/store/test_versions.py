"""A result is stale if and only if the VERSION of something that made it was raised; edits alone
make nothing stale.
"""

import itertools
import re
import tomllib
from pathlib import Path

import pytest

from trueneg.config.runs import training_kind
from trueneg.specs import encoders, stages, tasks
from trueneg.specs.guides import GUIDES
from trueneg.specs.objectives import OF_PAIRS, OF_TWO_VIEWS, base
from trueneg.specs.pairs import PAIRS, TEXTS
from trueneg.specs.settings import tag_of
from trueneg.store import provenance, versions

IMAGES = {
    "dataset": {"source": "digits"},
    "encoder": {"name": "small_resnet"},
    "training": {"kind": "images"},
}
IMAGE_TEXT = {
    "dataset": {"source": "open_i"},
    "encoder": {"name": "small"},
    "text_encoder": {"name": "pretrained"},
    "training": {"kind": "image-text"},
}
SHARED_BY_IMAGES = {"training/images", "subsets", "encoder/images/small_resnet", "decoding/digits"}
SHARED_BY_PAIRS = {
    *("training/image-text", "subsets", "splitter", "pairs/open_i", "reports/open_i"),
    *("encoder/image-text/small", "text_encoder/image-text/pretrained"),
}
LANGUAGE_MODEL = {"language_model", "likelihoods", "class_probability"}
X_CLR = {"name": "cl", "targets": {"name": "softmax"}, "guide": {"name": "labels"}}
DCL_LM = {"name": "dcl", "class_probability": "language model"}
SWITCHED_OFF = {"name": "cl", "switched_off_by": "permuted"}
BY_WORDS = {"name": "remove", "by": "guide", "guide": {"name": "words"}}
# Settings of a run, and the parts that made it besides those shared by all runs of its kind.
RUNS = {
    "CL": (IMAGES, {"name": "cl", "targets": None, "guide": None}, {"objective/images/cl"}),
    "DCL": (IMAGES, {"name": "dcl"}, {"objective/images/dcl"}),
    "Guided": (
        IMAGES,
        {"name": "guided", "guide": {"name": "ema"}},
        {"objective/images/guided", "guide/images/ema"},
    ),
    "X-CLR": (
        IMAGES,
        X_CLR,
        {"objective/images/cl", "targets/images/softmax", "guide/images/labels"},
    ),
    "CL of pairs": (
        IMAGE_TEXT,
        {"name": "cl", "switched_off_by": None},
        {"objective/image-text/cl"},
    ),
    "DCL-LM": (IMAGE_TEXT, DCL_LM, {"objective/image-text/dcl", *LANGUAGE_MODEL}),
    "DCL, number": (
        IMAGE_TEXT,
        {"name": "dcl", "class_probability": 0.1},
        {"objective/image-text/dcl"},
    ),
    "CL switched off": (IMAGE_TEXT, SWITCHED_OFF, {"objective/image-text/cl", *LANGUAGE_MODEL}),
    "Removal": (
        IMAGE_TEXT,
        {"name": "remove", "by": "text"},
        {"objective/image-text/remove", "language_model"},
    ),
    "Words": (IMAGE_TEXT, BY_WORDS, {"objective/image-text/remove", "guide/image-text/words"}),
}


def raise_version(monkeypatch, name):
    """Raise the version with this name where it is defined, which this function knows independently
    of the package.
    """
    first, *rest = name.split("/")
    if name in stages.VERSIONS:
        monkeypatch.setitem(stages.VERSIONS, name, 2)
        return
    if first == "decoding":
        monkeypatch.setitem(stages.DECODING, rest[0], 2)
        return
    by_kind = {"images": (OF_TWO_VIEWS, tasks.IMAGES), "image-text": (OF_PAIRS, tasks.PAIRS)}
    if first in ("pairs", "reports"):
        models = [(PAIRS if first == "pairs" else TEXTS)[rest[0]]]
    elif first == "objective":
        models = [model for model in by_kind[rest[0]][0] if rest[1] in tag_of(model)[1]]
    elif first == "task":
        models = [by_kind[rest[0]][1][rest[1]]]
    else:
        classes = {"targets": vars(base).values(), "guide": set(GUIDES.values())}.get(
            first, vars(encoders).values()
        )
        models = [
            model for model in classes if isinstance(model, type) and (first, *rest) in named(model)
        ]
    (model,) = models
    monkeypatch.setattr(model, "VERSION", 2)


def named(model):
    """Return the names of the versions that a class of encoders, guides or targets defines."""
    places = {
        encoders.SmallResNetSettings: ("encoder", "images"),
        encoders.SmallEncoderSettings: ("encoder", "image-text"),
        encoders.PretrainedTextEncoderSettings: ("text_encoder", "image-text"),
        GUIDES["words"]: ("guide", "image-text"),
    }
    if model in places:
        return [(*places[model], name) for name in tag_of(model)[1]]
    shared = {base.SoftmaxSettings: "targets", GUIDES["labels"]: "guide", GUIDES["ema"]: "guide"}
    return (
        [
            (shared[model], kind, name)
            for kind in ("images", "image-text")
            for name in tag_of(model)[1]
        ]
        if model in shared
        else []
    )


def record(name):
    shared, objective, _ = RUNS[name]
    settings = shared | {"objective": objective}
    return {
        "settings": settings,
        "code": {"versions": versions.training_versions(settings)},
    }


@pytest.fixture(scope="module")
def records():
    return {name: record(name) for name in RUNS}


@pytest.mark.parametrize("name", RUNS)
def test_a_run_records_the_version_of_everything_that_made_it(records, name):
    shared, _, specific = RUNS[name]
    expected = specific | (
        SHARED_BY_IMAGES if training_kind(shared) == "images" else SHARED_BY_PAIRS
    )
    assert records[name]["code"]["versions"] == dict.fromkeys(sorted(expected), 1)


PARTS = sorted(
    set().union(SHARED_BY_IMAGES, SHARED_BY_PAIRS, *(specific for _, _, specific in RUNS.values()))
)
SAME_CLASS = {  # one class describes these parts of both kinds of training
    "targets/images/softmax": {"targets/images/softmax", "targets/image-text/softmax"},
    "guide/images/labels": {"guide/images/labels", "guide/image-text/labels"},
    "guide/images/ema": {"guide/images/ema", "guide/image-text/ema"},
}


@pytest.mark.parametrize("part", PARTS)
def test_raising_one_version_marks_exactly_the_runs_that_it_made(records, part, monkeypatch):
    raise_version(monkeypatch, part)
    parts = SAME_CLASS.get(part, {part})
    expected = {name for name, made in records.items() if parts & made["code"]["versions"].keys()}
    assert {name for name, made in records.items() if versions.stale_training(made)} == expected
    assert expected
    assert {
        name for name, made in records.items() if versions.code_state(made) == "stale"
    } == expected


@pytest.mark.parametrize("task", ["knn", "linear_probe"])
def test_raising_a_tasks_version_marks_rows_and_no_run(task, monkeypatch):
    run = record("CL")
    evaluated = {"settings": {"knn": {}, "linear_probe": None}}
    made = run | {
        "evaluated": evaluated
        | {"code": {"versions": versions.evaluation_versions("images", evaluated["settings"])}}
    }
    assert versions.code_state(made) == "finished"
    raise_version(monkeypatch, f"task/images/{task}")
    # the probe did not run
    assert versions.code_state(made) == ("stale rows" if task == "knn" else "finished")
    assert versions.stale_training(made) == []
    monkeypatch.setitem(stages.VERSIONS, "evaluation/images", 3)
    assert "evaluation/images version 1 (now 3)" in versions.stale_rows(made)


def test_a_part_that_got_a_version_later_had_version_1(monkeypatch):
    made = record("DCL")
    del made["code"]["versions"]["decoding/digits"]
    assert versions.stale_training(made) == []
    monkeypatch.setitem(stages.DECODING, "digits", 2)
    assert versions.stale_training(made) == ["decoding/digits version 1 (now 2)"]


def test_a_part_that_no_longer_exists_makes_nothing_stale():
    made = record("DCL")
    made["settings"] = made["settings"] | {
        "objective": {"name": "trim"},
        "encoder": {"name": "gone"},
    }
    assert versions.stale_training(made) == []


def test_every_part_has_a_positive_version():
    assert min(versions.today().values()) >= 1
    assert set(PARTS) <= versions.today().keys()


def test_library_versions_name_everything_that_the_package_asks_for():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    extras = (
        project["optional-dependencies"][name]
        for name in ("report", "pipeline", "open_i", "towers", "pretrained")
    )
    asked = {
        re.match(r"[A-Za-z0-9_-]+", line)[0]
        for line in itertools.chain(project["dependencies"], *extras)
    }
    assert asked | {"trueneg"} == set(provenance.LIBRARIES)
    assert {"python", "torch", "pandas", "transformers"} <= set(provenance.library_versions())
