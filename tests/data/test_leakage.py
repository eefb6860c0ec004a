"""The rule against leakage: what splits share is counted, refused, allowed or left out, and drawn
splits share nothing. The reference is how many samples each example was made to leak.
"""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from tests.studies import tiny_study, tiny_texts
from trueneg.cli import init, planned_data
from trueneg.cli.main import main
from trueneg.config.reading import read_configuration
from trueneg.data.draw import draw_subsets
from trueneg.data.images.image_source import ImageSource, read_source, write_source
from trueneg.data.images.loading import load_source
from trueneg.data.images.subsets import make_subset
from trueneg.data.leakage import ORDER, without_leaks
from trueneg.data.pairs.pair_source import PairSource
from trueneg.data.pairs.pair_splits import official_subset, split_pairs
from trueneg.data.samples import Samples, Subset, read_subsets
from trueneg.data.texts import text_table
from trueneg.data.texts.text_files import source_of
from trueneg.data.texts.text_source import write_texts
from trueneg.data.texts.text_splits import text_subset
from trueneg.errors import UserError
from trueneg.specs.texts import TEXT_PAIRS
from trueneg.store.identity import identity
from trueneg.training.frozen import with_vectors_apart

seeds = st.integers(0, 2**31 - 1)
quick = settings(deadline=None, max_examples=8)
SPELLINGS = (str, str.upper, str.title, "  {}\t".format, "\uff33\uff4f {}".format)


def shared_with(source_error, held_out="test", other="train"):
    """The numbers of a message, by what is shared."""
    pattern = rf"([\d,]+) of ([\d,]+) {held_out} samples have the same (\w+) as samples of {other}"
    return {what: (int(n), int(of)) for n, of, what in re.findall(pattern, str(source_error))}


def noise(generator, size=8):
    return Image.fromarray(generator.integers(0, 256, (size, size, 3), np.uint8))


def write_noise(folder, generator, train, test, leaking, copy=None):
    """Noise with arbitrary labels; some test images are training images under other names, as the
    same bytes or in another lossless format.
    """
    made = []
    for split, count in (("train", train), ("test", test)):
        for number in range(count):
            place = folder / split / "ab"[number % 2]
            place.mkdir(parents=True, exist_ok=True)
            image = noise(generator)
            form = "png"
            if split == "test" and number < leaking:
                image = made[number]
                form = copy or ("png", "bmp", "tiff")[generator.integers(3)]
            made.append(image)
            image.save(place / f"{split} {number}.{form}")
    return folder


@quick
@given(seeds, st.integers(0, 6))
def test_images_in_two_splits_are_counted_and_left_out(tmp_path_factory, seed, leaking):
    generator = np.random.default_rng(seed)
    folder = write_noise(tmp_path_factory.mktemp("own"), generator, 20, 8, leaking)
    source = load_source("image_folder", path=folder)
    if leaking:
        with pytest.raises(UserError) as error:
            make_subset(source, seed=0)
        assert shared_with(error.value) == {"images": (leaking, 8)}
        assert str(error.value).count(".png") + str(error.value).count(".bmp") + str(
            error.value
        ).count(".tiff") == min(leaking, 3)
        assert f"leaves out {leaking} of train" in str(error.value)
    else:
        assert make_subset(source, seed=0).leakage == ""
    allowed, apart = (make_subset(source, seed=0, leakage=each) for each in ("allow", "leave_out"))
    assert len(allowed.train) + len(allowed.validation) == 20
    assert len(apart.train) + len(apart.validation) == 20 - leaking
    assert len(allowed.test) == len(apart.test) == 8
    pixels = {image.tobytes() for image in source.images[apart.test]}
    assert not pixels & {image.tobytes() for image in source.images[apart.pool]}
    assert shared_with(apart.leakage) == shared_with(allowed.leakage)


def test_names_of_images_are_kept_with_the_decoded_ones(tmp_path):
    folder = write_noise(tmp_path / "own", np.random.default_rng(0), 8, 4, 1)
    write_source(load_source("image_folder", path=folder), tmp_path / "source.npz")
    with pytest.raises(UserError, match=r"own/test/a/test 0\."):
        make_subset(read_source(tmp_path / "source.npz"), seed=0)


@quick
@given(seeds, st.integers(1, 40))
def test_drawn_splits_keep_equal_images_together(seed, different):
    generator = np.random.default_rng(seed)
    images = generator.integers(0, 256, (different, 1, 3, 3), np.uint8)
    images = images[generator.integers(0, different, 120)]
    source = ImageSource("drawn", images, np.arange(120) % 2, np.zeros(120, bool), ("a", "b"))
    subset = make_subset(source, seed=seed, test=0.2)
    parts = [{images[i].tobytes() for i in getattr(subset, name)} for name in ORDER]
    assert sum(map(len, parts)) == len(set.union(*parts))


def texts_source(folder, generator, leaking, restricted=False):
    """Texts with an official test split, some of which are training texts in another form."""
    topics = ["cats", "dogs"]
    table = {
        split: [f"so {split} {number} on {topics[number % 2]}" for number in range(count)]
        for split, count in (("train", 24), ("test", 10))
    }
    for number in range(leaking):
        text = table["train"][2 * number].removeprefix("so ")
        form = SPELLINGS[generator.integers(len(SPELLINGS))]
        form = form if form == SPELLINGS[-1] else lambda text, form=form: form(f"so {text}")
        table["test"][number] = form(text)
    paths = {}
    for split, texts in table.items():
        labels = [topics[number % 2] for number in range(len(texts))]
        paths[split] = folder / f"{split}.csv"
        pd.DataFrame({"text": texts, "label": labels}).to_csv(paths[split], index=False)
    model = TEXT_PAIRS["text_table"](
        source="text_table",
        path=str(paths["train"]),
        test_path=str(paths["test"]),
        label_column="label",
        restricted=restricted,
    )
    return text_table.read_source(model.model_dump()), model.model_dump()


@quick
@given(seeds, st.integers(0, 6), st.booleans())
def test_texts_in_two_splits_are_counted_and_left_out(tmp_path_factory, seed, leaking, restricted):
    generator = np.random.default_rng(seed)
    source, dataset = texts_source(tmp_path_factory.mktemp("t"), generator, leaking, restricted)
    if leaking:
        with pytest.raises(UserError) as error:
            text_subset(source, dataset, 0)
        assert shared_with(error.value) == {"texts": (leaking, 10)}
        assert ("cats" in str(error.value).casefold()) != restricted
    apart = text_subset(source, dataset | {"leakage": "leave_out"}, 0)
    assert len(apart.train) + len(apart.validation) == 24 - leaking
    assert len(apart.test) == 10
    # which is not measured on copies of training texts, even if they are allowed
    allowed = text_subset(source, dataset | {"leakage": "allow"}, 0)
    assert len(allowed.train) + len(allowed.validation) == 24
    assert 10 - leaking <= len(allowed.test) <= 10
    expected = {"texts": (leaking, 10)} if leaking else {}
    assert shared_with(allowed.leakage) == shared_with(apart.leakage) == expected


def pairs_source(images, patients, reports, restricted=False):
    count = len(images)
    sentences = pd.DataFrame({"report": sorted(set(reports)), "index": 0, "class": -1})
    sentences["sentence"] = "A " + sentences["report"]
    return PairSource(
        "own",
        images,
        np.array(reports, str),
        np.array(patients, str),
        sentences,
        np.zeros((count, 0), np.float32),
        (),
        np.zeros((count, 0), bool),
        restricted,
    )


@quick
@given(seeds, st.sampled_from(["images", "patients"]), st.integers(1, 5), st.booleans())
def test_pairs_in_two_splits_are_counted_and_left_out(seed, shared, leaking, restricted):
    generator = np.random.default_rng(seed)
    images = generator.integers(0, 256, (30, 1, 4, 4), np.uint8)
    patients, reports = ([f"{what}{number}" for number in range(30)] for what in "pr")
    for number in range(leaking):
        if shared == "images":
            images[20 + number] = images[number]
        else:
            patients[20 + number] = patients[number]
    source = pairs_source(images, patients, reports, restricted)
    split = ["train"] * 15 + ["validation"] * 5 + ["test"] * 10
    splits = pd.DataFrame({"report": reports, "split": split})
    with pytest.raises(UserError) as error:
        official_subset(source, splits, 0)
    assert shared_with(error.value) == {shared: (leaking, 10)}
    assert ("r20" in str(error.value)) != restricted
    apart = official_subset(source, splits, 0, "leave_out")
    assert apart.train.tolist() == list(range(leaking, 15))
    assert official_subset(source, splits, 0, "allow").train.tolist() == list(range(15))


@quick
@given(seeds)
def test_patients_with_an_equal_image_are_in_one_split(seed):
    generator = np.random.default_rng(seed)
    images = generator.integers(0, 256, (60, 1, 3, 3), np.uint8)
    images[generator.integers(0, 60, 8)] = images[generator.integers(0, 60, 8)]
    patients = [f"p{number // 2}" for number in range(60)]
    source = pairs_source(images, patients, [f"r{number}" for number in range(60)])
    subset = split_pairs(source, seed)
    for values in ([image.tobytes() for image in images], patients):
        parts = [{values[i] for i in getattr(subset, name)} for name in ORDER]
        assert sum(map(len, parts)) == len(set.union(*parts))


@quick
@given(seeds, st.integers(0, 5))
def test_equal_vectors_are_counted_and_left_out_of_every_kind(seed, leaking):
    generator = np.random.default_rng(seed)
    values = generator.standard_normal((30, 1, 4, 1)).astype(np.float32)
    values[20 : 20 + leaking] = values[:leaking]
    names = np.array([f"sample {number:02d}" for number in range(30)])
    images = generator.integers(0, 256, (30, 1, 3, 3), np.uint8)
    labels = np.arange(30) % 2
    texts = source_of(
        {"source": "made up"},
        pd.DataFrame({"split": "", "label": "", "text": names}),
        "",
    )
    sources = {
        "encoder": [
            ImageSource("own", images, labels, np.zeros(30, bool), ("a", "b")),
            pairs_source(images, names, names),
        ],
        "text_encoder": [texts],
    }
    subset = Subset(0, "", np.arange(15), np.arange(20, 30), np.arange(15, 20), pool=np.arange(17))
    for section, of_section in sources.items():
        for source in of_section:
            run = {section: {"path": "vectors.npy"}, "dataset": {"leakage": None}}
            if leaking:
                with pytest.raises(UserError) as error:
                    with_vectors_apart(subset, source, run, {section: values})
                assert shared_with(error.value) == {"vectors": (leaking, 10)}
            run["dataset"]["leakage"] = "leave_out"
            apart = with_vectors_apart(subset, source, run, {section: values})
            assert apart.train.tolist() == list(range(leaking, 15))
            assert apart.pool.tolist() == list(range(leaking, 17))
            assert len(apart.test) == 10
            run[section] = {"name": "a network"}
            assert with_vectors_apart(subset, source, run, {section: values}) is subset


def test_validation_is_compared_too():
    split = np.array(["train", "train", "validation", "validation", "test", ""])
    samples = Samples("own", "", split, np.zeros(6), {"groups": np.array([0, 1, 0, 2, 2, 2])})
    kept, said = without_leaks(samples, "leave_out")
    assert kept.tolist() == ["left out", "train", "validation", "left out", "test", "left out"]
    assert shared_with(said, "test", "validation") == {"groups": (1, 1)}
    assert shared_with(said, "validation") == {"groups": (2, 2)}
    assert "left out: 2 of train and 1 of validation" in said


ROLES = {"treatment": "DCL", "baseline": "CL", "oracle": "Oracle"}


@pytest.mark.parametrize("paired", [True, False])
def test_rated_pairs_whose_texts_are_trained_on_are_counted(tmp_path, monkeypatch, capsys, paired):
    monkeypatch.chdir(tmp_path)
    texts = [f"Question {number}?" for number in range(80)]
    answers = [f"Answer {number}" for number in range(80)]
    table = {"text": texts, "answer": answers, "label": np.arange(80) % 4}
    pd.DataFrame(table).to_csv("own.csv", index=False)
    second = answers if paired else texts[::-1]
    first = [SPELLINGS[number % 4](text) for number, text in enumerate(texts)]
    rated = {"first": [*first, "new"], "second": [*second, texts[0]], "score": range(81)}
    pd.DataFrame(rated).to_csv("rated.csv", index=False)
    given = {"positives": "given", "positive_column": "answer"} if paired else {}
    rows = {"source": "text_table", "path": "own.csv", "label_column": "label"} | given
    objectives = {"CL": {"name": "cl"}, "DCL": {"name": "dcl", "class_probability": 0.1}}
    study = tiny_texts(
        dataset=rows | {"rated": {"path": "rated.csv"}},
        text_encoder={"name": "vectors", "path": "vectors.npy"},
        objectives=objectives | {"Oracle": {"name": "oracle"}},
        primary=dict(task="similarity", metric="Spearman", **ROLES),
    )
    Path("study.yaml").write_text(yaml.safe_dump({"tiny": study}))
    (configured,) = read_configuration(["study.yaml"]).studies.values()
    dataset = configured.dataset.model_dump()
    source = text_table.read_source(dataset)
    np.save("vectors.npy", np.eye(len(source.sentences), dtype=np.float32))
    write_texts(source, "source.npz")
    draw_subsets(type(configured), "source.npz", dataset, [0, 1], "subsets.parquet")
    subset = read_subsets("subsets.parquet")[0]
    trained = {column[number] for column in (texts, answers) for number in subset.train}
    both = sum({*pair} <= trained for pair in zip(texts, second, strict=True))
    assert 0 < both < 80
    assert f"{both} of 81 rated pairs" in subset.near
    assert main(["check", "study.yaml"]) == 0
    assert f"{both} of 81 rated pairs" in capsys.readouterr().out


def test_only_what_leaves_samples_out_changes_an_id():
    study = tiny_study()
    ids = [
        identity(SETTINGS | {"dataset": study["dataset"] | changes})
        for changes in ({}, {"leakage": None}, {"leakage": "allow"}, {"leakage": "leave_out"})
    ]
    assert ids[0] == ids[1] == ids[2] != ids[3]


SETTINGS: dict = {"training": {"kind": "images"}, "objective": {"name": "cl"}}


@pytest.mark.parametrize("decoded", [True, False])
def test_check_and_init_say_what_the_splits_of_a_folder_share(
    tmp_path, monkeypatch, capsys, decoded
):
    monkeypatch.chdir(tmp_path)
    if not decoded:  # files with equal bytes
        monkeypatch.setattr(planned_data, "DECODED", 10)
        monkeypatch.setattr(init, "DECODED", 10)
    generator = np.random.default_rng(0)
    write_noise(Path("own"), generator, 160, 60, 17, None if decoded else "png")
    write_noise(Path("fine"), generator, 160, 60, 0)
    assert main(["init", "images", "own", "--output", "own.yaml"]) == 0
    said = capsys.readouterr().out
    assert shared_with(said) == {"images": (17, 60)}
    (study,) = read_configuration(["own.yaml"]).studies.values()
    assert study.dataset.leakage == "leave_out"
    assert main(["init", "images", "fine", "--output", "fine.yaml"]) == 0
    (study,) = read_configuration(["fine.yaml"]).studies.values()
    assert study.dataset.leakage is None
    dataset = {"source": "image_folder", "path": "own", "resolution": 8, "validation": 0.1}
    for leakage, code in ((None, 1), ("leave_out", 0), ("allow", 0)):
        tiny = tiny_study(dataset=dataset | {"leakage": leakage})
        Path("study.yaml").write_text(yaml.safe_dump({"tiny": tiny}))
        assert main(["check", "study.yaml"]) == code
        printed = capsys.readouterr()
        assert shared_with(printed.out + printed.err) == {"images": (17, 60)}
        trained = {"leave_out": 129, "allow": 144}.get(leakage)
        assert trained is None or f"training {trained}, " in printed.out
