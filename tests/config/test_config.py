"""A configuration is valid, or rejected with sentences that name the key, the value found and the
value expected.
"""

import json
import string
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.config.mistakes import mistakes, with_key
from tests.studies import tiny_study
from trueneg.cli.main import main
from trueneg.config import reference
from trueneg.config.reading import load_configuration, merged_files, read_configuration
from trueneg.errors import UserError
from trueneg.store.data_input import of_dataset

ROOT = Path(__file__).parents[2]

# Keys with a strategy of invalid values.
WORDS = st.text(string.ascii_letters + " ", min_size=1, max_size=8).filter(
    lambda word: word.lower() not in ("null", "true", "false")
)
NOT_NUMBERS = WORDS | st.none() | st.just({}) | st.just({"a": 1})
NOT_COUNTS = (
    NOT_NUMBERS
    | st.integers(max_value=0)
    | st.floats(0.01, 0.99)
    | st.just([])
    | st.just(float("nan"))
)
NOT_FRACTIONS = (
    NOT_NUMBERS
    | st.floats(max_value=0)
    | st.floats(min_value=1.001)
    | st.just([])
    | st.just(float("inf"))
)
NOT_MAPPINGS = WORDS | st.integers() | st.lists(st.integers(), max_size=2)
UNKNOWN_NAMES = WORDS.map(lambda word: "no-" + word) | st.integers() | st.none()
REFUSED = {
    "title": st.integers() | st.none() | st.just(""),
    "dataset": NOT_MAPPINGS,
    "dataset.source": UNKNOWN_NAMES,
    "dataset.fraction": NOT_FRACTIONS,
    "dataset.test": NOT_NUMBERS.filter(lambda value: value is not None) | st.floats(min_value=1),
    "dataset.validation": NOT_FRACTIONS.filter(lambda value: value != 0) | st.just(1.0),
    "dataset.rare_classes": st.integers()
    | WORDS
    | st.none()
    | st.just([0.5])
    | st.just([None])
    | st.just([]),
    "dataset.resolution": st.integers(max_value=3) | WORDS,
    "dataset.images_per_class": st.integers(max_value=0) | WORDS,
    "dataset.unlabelled": st.integers() | WORDS,  # digits have none
    "encoder": NOT_MAPPINGS,
    "encoder.name": UNKNOWN_NAMES,
    "encoder.width": NOT_COUNTS,
    "projection.hidden": NOT_COUNTS,
    "projection.dimensions": NOT_COUNTS.filter(lambda value: value is not None) | st.just(1),
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
    "training.compile": WORDS.filter(lambda word: word.lower() not in ("true", "false"))
    | st.integers(),
    "training.updates": st.integers(1, 9),  # epochs is set too
    "objectives": NOT_MAPPINGS | st.just({}),
    "objectives.CL": NOT_MAPPINGS,
    "objectives.CL.name": UNKNOWN_NAMES,
    "objectives.CL.temperature": st.floats(max_value=0) | WORDS,
    "objectives.DCL-true.class_probability": st.floats(min_value=1)
    | st.floats(max_value=-1e-9)
    | WORDS.map(lambda w: "no-" + w),
    "seeds": st.integers(max_value=0)
    | WORDS
    | st.none()
    | st.just([])
    | st.just([1, 1])
    | st.just([-1]),
    "evaluation.images.linear_probe.epochs": NOT_COUNTS,
    "evaluation.images.linear_probe.label_fractions": st.just([])
    | st.just([0])
    | st.just([1.5])
    | WORDS,
    "evaluation.images.linear_probe.label_pools": st.just([]) | st.just(["some"]) | WORDS,
    "evaluation.knn.neighbours": NOT_COUNTS,
    "primary.treatment": UNKNOWN_NAMES | st.just("CL"),
    "primary.baseline": UNKNOWN_NAMES,
    "primary.oracle": UNKNOWN_NAMES.filter(lambda name: name not in (None, "none")) | st.just("CL"),
    "primary.task": UNKNOWN_NAMES,
    "primary.labels": UNKNOWN_NAMES,
    "primary.fraction": WORDS | st.floats(0.1, 1),  # k-nearest neighbours have no fraction
    "primary.k": WORDS | st.integers(1),
    "primary.direction": WORDS,
    "primary.metric": UNKNOWN_NAMES,
    "primary.dataset": WORDS.map(lambda word: "no-" + word),
    "figures": NOT_MAPPINGS,
}


def loaded(study):
    return load_configuration({"tiny": study}, "mine.yaml").studies["tiny"]


@given(data=st.data(), path=st.sampled_from(sorted(REFUSED)))
@settings(max_examples=400, deadline=None)
def test_an_invalid_value_is_rejected_with_a_sentence_that_names_the_section(data, path):
    sentences = mistakes(tiny=with_key(tiny_study(), path, data.draw(REFUSED[path])))
    assert any(sentence.startswith(f"tiny.{path.split('.')[0]}") for sentence in sentences)
    assert all(
        sentence.startswith("tiny.") and "pydantic" not in sentence for sentence in sentences
    )


@given(path=st.sampled_from(sorted(key for key in REFUSED if "." in key)), letters=WORDS)
@settings(max_examples=100, deadline=None)
def test_an_unknown_key_is_rejected_in_every_section(path, letters):
    key = path.rsplit(".", 1)[0] + ".x" + letters.replace(" ", "")
    if key.startswith("objectives.x"):
        return  # any name is allowed for an objective
    sentences = mistakes(tiny=with_key(tiny_study(), key, 1))
    assert any(
        "is not a known key" in sentence or "expected one of" in sentence for sentence in sentences
    )


@pytest.mark.parametrize("name", ["theory", "dataset", "figures", "training", "tiny"])
def test_an_unknown_key_suggests_the_nearest_key_whatever_the_name_of_the_study(name):
    sentences = mistakes(**{name: with_key(tiny_study(), "training.batchsize", 128)})
    assert sentences == [f"{name}.training.batchsize is not a known key; did you mean batch_size?"]


def test_only_own_images_may_be_skipped():
    own = {"source": "image_folder", "path": "folder", "test": 0.2, "resolution": 8}
    assert loaded(tiny_study(dataset=own)).dataset.skip_incomplete is False
    for allowed in (True, 3, 0.05):
        study = loaded(tiny_study(dataset=own | {"skip_incomplete": allowed}))
        assert study.dataset.skip_incomplete == allowed
        assert (
            of_dataset(study, study.dataset.model_dump(), {}).settings["skip_incomplete"] == allowed
        )
    strict, skipping = (
        of_dataset(study, study.dataset.model_dump() | {"skip_incomplete": allowed}, {})
        for allowed in (False, 3)
    )
    assert "skip_incomplete" not in strict.settings  # jobs of earlier versions are not rerun
    assert strict.place != skipping.place
    (sentence,) = mistakes(
        tiny=tiny_study(dataset={"source": "stl10", "path": "folder", "skip_incomplete": True})
    )
    assert all(fact in sentence for fact in ("dataset.skip_incomplete", "image_folder or parquet"))


def test_unlabelled_images_are_limited_by_the_source_and_exclude_rare_classes():
    dataset = {"source": "stl10", "path": "folder", "unlabelled": 100_000}
    assert loaded(tiny_study(dataset=dataset)).dataset.unlabelled == 100_000
    (sentence,) = mistakes(tiny=tiny_study(dataset=dataset | {"unlabelled": 100_001}))
    assert all(
        fact in sentence
        for fact in ("tiny.dataset.unlabelled is 100001", "at most 100000", "stl10")
    )
    (sentence,) = mistakes(
        tiny=tiny_study(dataset=dataset | {"rare_classes": ["cat"], "fraction": 0.5})
    )
    assert "tiny.dataset.rare_classes" in sentence
    assert "dataset.unlabelled" in sentence


@pytest.mark.parametrize(
    ("objective", "facts"),
    [
        ({"name": "cl", "temperature": [0.2, 0.5]}, ["variants"]),
        (
            {"name": "bcl", "class_probability": 0.1, "alpha": {"schedule": "adjusted"}},
            ["measures"],
        ),
    ],
)
def test_nothing_is_measured_on_a_validation_split_without_images(objective, facts):
    study = tiny_study(
        objectives=tiny_study()["objectives"] | {"Other": objective}, sweeps="one at a time"
    )
    assert mistakes(tiny=study) == []
    study["dataset"] |= {"validation": 0}
    (sentence,) = mistakes(tiny=study)
    assert all(
        fact in sentence
        for fact in ("tiny.dataset.validation is 0", "objectives.Other", "above 0", *facts)
    )
    assert loaded(with_key(tiny_study(), "dataset.validation", 0)).dataset.validation == 0


@pytest.mark.parametrize(("key", "value"), [("size", 32), ("blur", 0.5)])
def test_only_the_augmentation_that_crops_has_a_size_of_the_views_and_blur(key, value):
    (sentence,) = mistakes(tiny=with_key(tiny_study(), f"augmentation.{key}", value))
    assert all(fact in sentence for fact in (f"tiny.augmentation.{key} is {value}", "color"))
    for other in ("none", ["color", "none"]):
        assert mistakes(tiny=tiny_study(augmentation={"name": other, key: value}))
    assert mistakes(tiny=tiny_study(augmentation={"name": "color", key: value})) == []


@pytest.mark.parametrize(
    "guide",
    [{"name": "labels"}, {"name": "encoder", "encoder": {"name": "vectors", "path": "x.npy"}}],
)
def test_a_guide_of_images_cannot_rate_another_image_above_a_view_of_the_same_one(guide):
    guided = {"name": "guided", "guide": guide}
    for margin, removes in ((0, False), (-0.1, False), ([0, 0.1], False), (0.1, True)):
        found = mistakes(
            tiny=tiny_study(
                objectives=tiny_study()["objectives"] | {"Other": guided | {"margin": margin}},
                sweeps="one at a time",
            )
        )
        assert removes == (found == [])
        assert removes or all(
            fact in found[0] for fact in ("objectives.Other.margin is", "above 0", "threshold")
        )
    moving = guided | {"guide": {"name": "ema", "momentum": 0.9}}
    assert (
        mistakes(tiny=tiny_study(objectives=tiny_study()["objectives"] | {"Other": moving})) == []
    )


def test_all_mistakes_are_reported_at_once():
    study = with_key(with_key(tiny_study(), "training.batch_size", 0), "dataset.fraction", 2.0)
    assert sorted(mistakes(tiny=with_key(study, "encoder.width", "wide"))) == [
        "tiny.dataset.fraction is 2.0; expected a number less than or equal to 1.",
        "tiny.encoder.width is 'wide'; expected a valid integer.",
        "tiny.training.batch_size is 0; expected a number greater than or equal to 2.",
    ]


PUBLISHED = {"paper": "p", "tables": ["t"]}
STUDY_WITHOUT_RARE = tiny_study(dataset={"source": "digits", "test": 0.25})
LIKELIHOOD = {
    "kind": "likelihood",
    "title": "T",
    "reports": {"source": "phantom"},
    "language_models": {"BERT": {}},
}
THEORY = {"kind": "theory", "title": "T"}


@pytest.mark.parametrize(
    ("study", "path", "value", "facts"),
    [
        (
            tiny_study(),
            "kind",
            "image",
            ["kind is 'image'", "'images', 'likelihood', 'image-text', 'text', 'theory'"],
        ),
        (
            tiny_study(),
            "conditions",
            ["batch_size"],
            ["conditions contains batch_size", "training.batch_size is 64", "list"],
        ),
        (tiny_study(), "primary.metric", "acc", ["primary.metric is 'acc'", "one of: accuracy"]),
        (
            tiny_study(),
            "primary.metric",
            "neighbours",
            ["primary.metric is 'neighbours'", "one of: accuracy"],
        ),
        (
            STUDY_WITHOUT_RARE,
            "primary.group",
            "rare",
            ["primary.group is 'rare'", "nothing, macro, common, the name of a class"],
        ),
        (
            tiny_study(),
            "published",
            [PUBLISHED | {"methods": {"BCL": "x"}}],
            ["published.0.methods", "'BCL'", "DCL-true"],
        ),
        (
            tiny_study(),
            "published",
            [PUBLISHED | {"settings": {"size=3": "4"}}],
            ["published.0.settings", "'size=3'", "digits"],
        ),
        (
            tiny_study(),
            "published",
            [PUBLISHED | {"measured_task": "linear"}],
            [
                "published.0.measured_task",
                "'linear'",
                "measured tasks: knn, mean classifier, linear probe",
            ],
        ),
        (
            tiny_study(),
            "objectives.DCL-true.class_probability",
            1,
            ["is 1", "less than 1", "'low'", "'high'", "'true'"],
        ),
        (
            LIKELIHOOD,
            "reports.source",
            "openi",
            ["reports.source is 'openi'", "'image_table', 'mimic_cxr', 'open_i', 'phantom'"],
        ),
        (LIKELIHOOD, "reports", {"reports": 10}, ["reports.source is missing"]),
        (
            LIKELIHOOD,
            "reports.correlation",
            [0, 2],
            ["reports.correlation.1 is 2", "less than or equal to 1"],
        ),
        (
            LIKELIHOOD,
            "eta.language_model",
            "other",
            ["eta.language_model", "'other'", "language models: BERT"],
        ),
        (
            LIKELIHOOD,
            "language_models.BERT.train",
            False,
            ["language_models.BERT.train is false", "model", "start"],
        ),
        (
            LIKELIHOOD,
            "language_models.BERT.start",
            "a/b",
            ["language_models.BERT.start", "'a/b'", "mine/phantom/BERT"],
        ),
        (
            LIKELIHOOD,
            "language_models.BERT.start",
            "other/phantom/BERT",
            ["'other/phantom/BERT'", ": mine/phantom/BERT"],
        ),
        (
            LIKELIHOOD,
            "language_models.BERT.epoch",
            3,
            ["language_models.BERT.epoch is not a known key; did you mean epochs?"],
        ),
        (THEORY, "process.alpha", 0.3, ["process.alpha is 0.3", "greater than or equal to 0.5"]),
        (
            THEORY,
            "sweeps.negativecounts",
            [3],
            ["sweeps.negativecounts is not a known key; did you mean negative_counts?"],
        ),
        (
            THEORY,
            "dataset",
            {},
            [
                "dataset is not a known key",
                "kind, title, question, note, mem_mb, runtime, process, sweeps",
            ],
        ),
    ],
)
def test_a_mistake_is_one_sentence_with_the_key_the_value_and_the_expected_values(
    study, path, value, facts
):
    (sentence,) = mistakes(mine=with_key(study, path, value))
    assert sentence.startswith(f"mine.{path.split('.')[0]}")
    assert all(fact in sentence for fact in facts), sentence


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a: [1, 2", "cannot be read as a YAML file.*line 1"),
        ("- 1\n- 2\n", "found a list"),
        ("", "found nothing"),
        ("resources: {}\n", "no studies found"),
        ("a:\n  seeds: 1\n  title: A\n  seeds: 2\n", "seeds in line 4 is already.*in line 2"),
        ("a: {<<: 3}", "<< is 3; expected a mapping, or a list of them.*line 1"),
        ("a: {seeds: 1, seeds: 1}", "seeds in line 1 is already.*in line 1"),
        ("a: {seeds: 1,\n title: A}\n'a': 1\n", "a in line 3 is already a key.*in line 1"),
    ],
)
def test_a_file_without_a_configuration_is_rejected(tmp_path, content, message):
    path = tmp_path / "mine.yaml"
    path.write_text(content)
    with pytest.raises(UserError, match=message):
        read_configuration([path])


@pytest.mark.parametrize("name", [[1, "a"], {"a": 1}])
def test_a_name_of_an_encoder_that_is_no_text_is_one_sentence(name):
    assert any(
        "encoder.name" in each
        for each in mistakes(mine=with_key(tiny_study(), "encoder.name", name))
    )


def test_threads_of_a_rule_that_takes_those_of_a_study_are_refused():
    (sentence,) = mistakes(mine=tiny_study(), resources={"features": {"threads": 8}})
    assert "resources.features.threads" in sentence
    assert not mistakes(mine=tiny_study(), resources={"flickr8k_pairs": {"threads": 8}})


def test_own_keys_and_earlier_mappings_take_precedence_in_a_merge(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(
        "a: &a {k: 1, seeds: 1, title: a}\n"
        "b: &b {<<: *a, k: 2, seeds: 2}\n"
        "c: {<<: *b, title: c}\n"
        "d: {<<: [*b, {k: 4, seeds: 4, note: d}], title: d}\n"
        "e: {title: e, <<: *b, <<: {k: 5, note: e}}\n"
    )
    merged = merged_files([path])
    assert merged["b"] == {"k": 2, "seeds": 2, "title": "a"}
    assert merged["c"] == {"k": 2, "seeds": 2, "title": "c"}
    assert merged["d"] == {"k": 2, "seeds": 2, "title": "d", "note": "d"}
    assert merged["e"] == {"k": 2, "seeds": 2, "title": "e", "note": "e"}
    assert list(merged["b"]) == list(merged["e"])[:3] == ["k", "seeds", "title"]


def test_the_command_line_prints_one_sentence_and_exits_with_code_1(tmp_path, capsys):
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump({"tiny": with_key(tiny_study(), "training.epochs", -3)}))
    assert main(["check", str(path)]) == 1
    assert (
        capsys.readouterr().err.strip()
        == f"{path}: tiny.training.epochs is -3; expected a number greater than or equal to 1."
    )
    assert main(["check", str(tmp_path / "none.yaml")]) == 1
    assert (
        f"{tmp_path / 'none.yaml'}: does not exist; expected a YAML file" in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("path", "text", "value"),
    [
        ("training.epochs", "3", 3),
        ("seeds", "3", 3),
        ("evaluation.knn.neighbours", "3", 3),
        ("dataset.fraction", "0.5", 0.5),
        ("training.device", "cpu", "cpu"),
        ("training.learning_rate", "1e-3", 1e-3),
        # YAML's true is the name of a class probability
        ("objectives.DCL-true.class_probability", True, "true"),
    ],
)
def test_values_given_as_text_are_parsed(path, text, value):
    """`snakemake --config` passes the values inside a mapping as text, and YAML 1.1 reads 1e-3 as
    text.
    """
    assert loaded(with_key(tiny_study(), path, text)) == loaded(with_key(tiny_study(), path, value))


def test_schema_and_reference_page_match_the_model():
    """A different schema may also be a changed default, which changes the ids of runs; `make
    reference` rewrites both files.
    """
    assert json.loads((ROOT / "config/schema.json").read_text()) == reference.json_schema()
    assert (ROOT / "docs/configuration.md").read_text() == reference.reference_page()
