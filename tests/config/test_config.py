"""A configuration is valid, or rejected with sentences that name the key, the value found and the value expected."""

import copy
import json
import string
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.studies import tiny_study
from trueneg.cli.main import main
from trueneg.config import reference
from trueneg.config.reading import load_configuration, read_configuration
from trueneg.errors import UserError

ROOT = Path(__file__).parents[2]

# Keys with a strategy of invalid values.
WORDS = st.text(string.ascii_letters + " ", min_size=1, max_size=8).filter(
    lambda word: word.lower() not in ("null", "true", "false")
)
NOT_NUMBERS = WORDS | st.none() | st.just({}) | st.just({"a": 1})
NOT_COUNTS = NOT_NUMBERS | st.integers(max_value=0) | st.floats(0.01, 0.99) | st.just([]) | st.just(float("nan"))
NOT_FRACTIONS = NOT_NUMBERS | st.floats(max_value=0) | st.floats(min_value=1.001) | st.just([]) | st.just(float("inf"))
NOT_MAPPINGS = WORDS | st.integers() | st.lists(st.integers(), max_size=2)
UNKNOWN_NAMES = WORDS.map(lambda word: "no-" + word) | st.integers() | st.none()
REFUSED = {
    "title": st.integers() | st.none() | st.just(""),
    "dataset": NOT_MAPPINGS,
    "dataset.source": UNKNOWN_NAMES,
    "dataset.fraction": NOT_FRACTIONS,
    "dataset.test": NOT_NUMBERS.filter(lambda value: value is not None) | st.floats(min_value=1),
    "dataset.validation": NOT_FRACTIONS | st.just(1.0),
    "dataset.rare_classes": st.integers() | WORDS | st.none() | st.just([0.5]) | st.just([None]) | st.just([]),
    "dataset.resolution": st.integers(max_value=3) | WORDS,
    "dataset.images_per_class": st.integers(max_value=0) | WORDS,
    "dataset.unlabelled": st.integers() | WORDS,  # digits have none
    "encoder": NOT_MAPPINGS,
    "encoder.name": UNKNOWN_NAMES,
    "encoder.width": NOT_COUNTS,
    "projection.hidden": NOT_COUNTS,
    "projection.dimensions": NOT_COUNTS | st.just(1),
    "augmentation.name": UNKNOWN_NAMES,
    "training.epochs": NOT_COUNTS,
    "training.batch_size": NOT_COUNTS | st.just(1),
    "training.learning_rate": NOT_NUMBERS | st.floats(max_value=0),
    "training.weight_decay": NOT_NUMBERS | st.floats(max_value=-1e-9),
    "training.temperature": NOT_NUMBERS | st.floats(max_value=0),
    "training.schedule": UNKNOWN_NAMES,
    "training.device": UNKNOWN_NAMES | st.just("gpu"),
    "training.threads": NOT_COUNTS,
    "training.runs_per_device": NOT_COUNTS,
    "training.compile": WORDS.filter(lambda word: word.lower() not in ("true", "false")) | st.integers(),
    "training.updates": st.integers(1, 9),  # epochs is set too
    "objectives": NOT_MAPPINGS | st.just({}),
    "objectives.CL": NOT_MAPPINGS,
    "objectives.CL.name": UNKNOWN_NAMES,
    "objectives.CL.temperature": st.floats(max_value=0) | WORDS,
    "objectives.DCL-true.class_probability": st.floats(min_value=1) | st.floats(max_value=-1e-9) | WORDS.map(lambda w: "no-" + w),
    "seeds": st.integers(max_value=0) | WORDS | st.none() | st.just([]) | st.just([1, 1]) | st.just([-1]),
    "evaluation.images.linear_probe.epochs": NOT_COUNTS,
    "evaluation.images.linear_probe.label_fractions": st.just([]) | st.just([0]) | st.just([1.5]) | WORDS,
    "evaluation.images.linear_probe.label_pools": st.just([]) | st.just(["some"]) | WORDS,
    "evaluation.knn.neighbours": NOT_COUNTS,
    "primary.treatment": UNKNOWN_NAMES | st.just("CL"),
    "primary.baseline": UNKNOWN_NAMES,
    "primary.oracle": UNKNOWN_NAMES | st.just("CL"),
    "primary.task": UNKNOWN_NAMES,
    "primary.labels": UNKNOWN_NAMES,
    "primary.fraction": WORDS | st.floats(0.1, 1),  # k-nearest neighbours have no fraction
    "primary.k": WORDS | st.integers(1),
    "primary.direction": WORDS,
    "primary.metric": UNKNOWN_NAMES,
    "primary.dataset": WORDS.map(lambda word: "no-" + word),
    "figures": NOT_MAPPINGS,
}


def changed(path, value):
    """A valid configuration with one key set to `value`; missing sections are created."""
    study = copy.deepcopy(tiny_study())
    section = study
    *sections, key = path.split(".")
    for name in sections:
        section = section.setdefault(name, {})
    section[key] = value
    return {"tiny": study}


@given(data=st.data(), path=st.sampled_from(sorted(REFUSED)))
@settings(max_examples=400, deadline=None)
def test_an_invalid_value_is_rejected_with_a_sentence_that_names_the_key(data, path):
    value = data.draw(REFUSED[path])
    with pytest.raises(UserError) as refusal:
        load_configuration(changed(path, value), "mine.yaml")
    sentences = str(refusal.value).splitlines()
    assert all(sentence.startswith("mine.yaml: tiny.") and sentence.endswith((".", "?")) for sentence in sentences)
    section = path.split(".")[0]
    assert any(sentence.startswith(f"mine.yaml: tiny.{section}") for sentence in sentences)
    assert "pydantic" not in str(refusal.value)


def test_unlabelled_images_are_those_that_the_source_has_and_no_class_is_rare():
    dataset = {"source": "stl10", "path": "folder", "unlabelled": 100_000}
    assert load_configuration({"tiny": tiny_study(dataset=dataset)}, "mine.yaml").studies["tiny"].dataset.unlabelled == 100_000
    with pytest.raises(UserError, match=r"tiny\.dataset\.unlabelled is 100001; expected at most 100000, .* stl10"):
        load_configuration({"tiny": tiny_study(dataset=dataset | {"unlabelled": 100_001})}, "mine.yaml")
    with pytest.raises(UserError, match=r"tiny\.dataset\.rare_classes .* dataset\.unlabelled"):
        load_configuration({"tiny": tiny_study(dataset=dataset | {"rare_classes": ["cat"], "fraction": 0.5})}, "mine.yaml")


@given(path=st.sampled_from(sorted(key for key in REFUSED if "." in key)), letters=WORDS)
@settings(max_examples=100, deadline=None)
def test_an_unknown_key_is_rejected_in_every_section(path, letters):
    key = path.rsplit(".", 1)[0] + ".x" + letters.replace(" ", "")
    if key.startswith("objectives.x"):
        return  # any name is allowed for an objective
    with pytest.raises(UserError, match=r"is not a known key|expected one of"):
        load_configuration(changed(key, 1), "mine.yaml")


@pytest.mark.parametrize("name", ["theory", "dataset", "figures", "training"])
def test_the_name_of_a_study_does_not_change_the_keys_that_an_error_suggests(name):
    with pytest.raises(UserError, match=rf"{name}\.training\.batchsize is not a known key; did you mean batch_size\?"):
        load_configuration({name: changed("training.batchsize", 128)["tiny"]}, "mine.yaml")


def test_the_error_for_an_unknown_key_suggests_the_nearest_known_key():
    with pytest.raises(UserError, match=r"tiny\.training\.batchsize is not a known key; did you mean batch_size\?"):
        load_configuration(changed("training.batchsize", 128), "mine.yaml")


def test_all_mistakes_are_reported_at_once():
    study = changed("training.batch_size", 0)
    study["tiny"]["dataset"]["fraction"] = 2.0
    study["tiny"]["encoder"]["width"] = "wide"
    with pytest.raises(UserError) as refusal:
        load_configuration(study, "mine.yaml")
    assert "mine.yaml: tiny.training.batch_size is 0; expected a number greater than or equal to 2." in str(refusal.value)
    assert "mine.yaml: tiny.dataset.fraction is 2.0; expected a number less than or equal to 1." in str(refusal.value)
    assert "mine.yaml: tiny.encoder.width is 'wide'; expected a valid integer." in str(refusal.value)
    assert len(str(refusal.value).splitlines()) == 3


def test_the_alternatives_of_one_value_are_one_sentence():
    with pytest.raises(UserError) as refusal:
        load_configuration(changed("objectives.DCL-true.class_probability", 1), "mine.yaml")
    (sentence,) = str(refusal.value).splitlines()
    assert all(part in sentence for part in ("class_probability is 1; expected", "less than 1", "'low'", "'high'", "'true'"))


@pytest.mark.parametrize(
    ("path", "value", "sentence"),
    [
        ("kind", "image", "tiny.kind is 'image'; expected one of 'images', 'theory', 'likelihood', 'image-text'."),
        (
            "conditions",
            ["batch_size"],
            "tiny.conditions contains batch_size, but training.batch_size is 64; expected a list of values.",
        ),
        ("primary.metric", "acc", "tiny.primary.metric is 'acc'; expected one of: accuracy."),
        ("primary.metric", "neighbours", "tiny.primary.metric is 'neighbours'; expected one of: accuracy."),
        ("primary.group", "macro", "tiny.primary.group is 'macro'; expected one of: nothing, common, rare, the name of a class."),
        (
            "published",
            [{"paper": "p", "tables": ["t"], "methods": {"BCL": "BCL"}}],
            "tiny.published.0.methods refers to 'BCL'; expected one of the objectives: CL, DCL-true, Oracle.",
        ),
        (
            "published",
            [{"paper": "p", "tables": ["t"], "settings": {"batch_size=3": "N=4"}}],
            "tiny.published.0.settings refers to 'batch_size=3'; expected one of the data sets: digits.",
        ),
    ],
)
def test_contradictory_settings_are_reported(path, value, sentence):
    with pytest.raises(UserError) as refusal:
        load_configuration(changed(path, value), "mine.yaml")
    assert str(refusal.value) == f"mine.yaml: {sentence}"


@pytest.mark.parametrize(
    ("path", "value", "sentence"),
    [
        (
            "reports.source",
            "openi",
            "reports.source is 'openi'; expected one of 'flickr30k', 'flickr8k', 'image_table', 'mimic_cxr', 'open_i', "
            "'phantom', 'table'.",
        ),
        ("reports", {"reports": 10}, "reports.source is missing."),
        ("reports.correlation", [0, 2], "reports.correlation.1 is 2; expected a number less than or equal to 1."),
        ("eta.language_model", "other", "eta.language_model refers to 'other'; expected one of the language models: BERT."),
        (
            "language_models.BERT.train",
            False,
            "language_models.BERT.train is false, but neither model nor start is set; set one of them.",
        ),
        (
            "language_models.BERT.start",
            "a/b",
            "language_models.BERT.start refers to 'a/b'; expected one of the language models in the given files: "
            "mine/phantom/BERT.",
        ),
        (
            "language_models.BERT.start",
            "other/phantom/BERT",
            "language_models.BERT.start refers to 'other/phantom/BERT'; expected one of the language models in the given files: "
            "mine/phantom/BERT.",
        ),
        ("language_models.BERT.epoch", 3, "language_models.BERT.epoch is not a known key; did you mean epochs?"),
    ],
)
def test_an_invalid_likelihood_study_is_rejected(path, value, sentence):
    study = {"kind": "likelihood", "title": "T", "reports": {"source": "phantom"}, "language_models": {"BERT": {}}}
    *sections, key = path.split(".")
    section = study
    for name in sections:
        section = section.setdefault(name, {})
    section[key] = value
    with pytest.raises(UserError) as refusal:
        load_configuration({"mine": study}, "mine.yaml")
    assert str(refusal.value) == f"mine.yaml: mine.{sentence}"


def test_an_invalid_theory_study_is_rejected():
    theory = {"kind": "theory", "title": "T", "process": {"alpha": 0.3}, "sweeps": {"negativecounts": [3]}, "dataset": {}}
    with pytest.raises(UserError) as refusal:
        load_configuration({"mine": theory}, "mine.yaml")
    assert str(refusal.value).splitlines() == [
        "mine.yaml: mine.process.alpha is 0.3; expected a number greater than or equal to 0.5.",
        "mine.yaml: mine.sweeps.negativecounts is not a known key; did you mean negative_counts?",
        "mine.yaml: mine.dataset is not a known key; known keys: kind, title, question, note, process, sweeps, mem_mb, runtime.",
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a: [1, 2", "YAML on line 1"),
        ("- 1\n- 2\n", "found a list|found \\[1, 2\\]; expected a mapping"),
        ("", "found nothing; expected a mapping"),
        ("retrain_stale: true\n", "no studies found"),
    ],
)
def test_a_file_without_a_configuration_is_rejected(tmp_path, content, message):
    path = tmp_path / "mine.yaml"
    path.write_text(content)
    with pytest.raises(UserError, match=message):
        read_configuration([path])


def test_the_command_line_prints_one_sentence_and_exits_with_code_1(tmp_path, capsys):
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(changed("training.epochs", -3)))
    assert main(["check", str(path)]) == 1
    assert capsys.readouterr().err.strip() == f"{path}: tiny.training.epochs is -3; expected a number greater than or equal to 1."
    assert main(["check", str(tmp_path / "none.yaml")]) == 1
    assert "cannot be read" in capsys.readouterr().err


@pytest.mark.parametrize("path", ["training.epochs", "seeds", "evaluation.knn.neighbours", "dataset.fraction", "training.device"])
def test_values_given_as_text_are_parsed(path):
    """`snakemake --config` passes the values inside a mapping as text."""
    value = {"training.device": "cpu", "dataset.fraction": 0.5}.get(path, 3)
    assert load_configuration(changed(path, str(value)), "mine.yaml") == load_configuration(changed(path, value), "mine.yaml")


def test_numbers_in_scientific_notation_and_the_word_true_are_parsed():
    text = json.dumps(changed("training.learning_rate", "1e-3"))
    study = load_configuration(json.loads(text), "mine.yaml").studies["tiny"]
    assert study.training.learning_rate == 1e-3
    study = load_configuration(changed("objectives.DCL-true.class_probability", True), "mine.yaml").studies["tiny"]
    assert study.objectives["DCL-true"].class_probability == "true"


@pytest.mark.parametrize("path", sorted((ROOT / "config").rglob("*.yaml")), ids=lambda path: path.stem)
def test_every_configuration_of_the_project_is_valid(path):
    assert read_configuration([path]).studies


def test_schema_and_reference_page_match_the_model():
    """A different schema may also be a changed default, which changes the ids of runs; `make reference` rewrites both files."""
    assert json.loads((ROOT / "config/schema.json").read_text()) == reference.json_schema()
    assert (ROOT / "docs/configuration.md").read_text() == reference.reference_page()
