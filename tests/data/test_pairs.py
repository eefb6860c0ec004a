"""Images with sentences: validation, files, splits by patient, and the images that a sentence is
true of.
"""

import dataclasses
import stat
import tracemalloc
import zipfile

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.textures import texture_source
from trueneg.data.pairs.pair_source import join_sentences, read_pairs, write_pairs
from trueneg.data.pairs.pair_splits import pair_subset, split_pairs
from trueneg.data.pairs.statements import findings_said, statements_shown
from trueneg.data.phantom.reports import phantom_reports
from trueneg.data.samples import SPLITS, Subset, read_subsets, refuse_leakage, write_subsets
from trueneg.errors import UserError


@pytest.fixture(scope="module")
def source():
    return texture_source(patients=40)


def test_a_source_is_read_as_it_was_written(source, tmp_path):
    write_pairs(source, tmp_path / "pairs.npz")
    read = read_pairs(tmp_path / "pairs.npz")
    for name in (
        "name",
        "label_names",
        "checksum",
        "restricted",
        "images",
        "reports",
        "patients",
        "labels",
        "shown",
    ):
        np.testing.assert_array_equal(getattr(read, name), getattr(source, name))
    pd.testing.assert_frame_equal(read.sentences, source.sentences, check_dtype=False)
    assert {path.name for path in tmp_path.iterdir()} == {"pairs.npz", "pairs.parquet"}


def test_only_the_owner_can_read_restricted_files(source, tmp_path):
    write_pairs(dataclasses.replace(source, restricted=True), tmp_path / "pairs.npz")
    for path in tmp_path.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read_pairs(tmp_path / "pairs.npz").restricted


def test_damaged_missing_and_mixed_up_files_are_rejected(source, tmp_path):
    path = tmp_path / "pairs.npz"
    with pytest.raises(UserError, match=r"pairs\.npz: does not exist"):
        read_pairs(path)
    write_pairs(source, path)
    write_pairs(texture_source(patients=40, seed=1), tmp_path / "other.npz")
    (tmp_path / "other.parquet").replace(tmp_path / "pairs.parquet")
    with pytest.raises(UserError, match=r"damaged|cannot be read as a source"):
        read_pairs(path)
    write_pairs(source, path)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(UserError, match="its end is missing"):
        read_pairs(path)
    write_pairs(source, path)
    (tmp_path / "pairs.parquet").unlink()
    with pytest.raises(UserError, match=r"pairs\.parquet: does not exist.*Run the step"):
        read_pairs(path)


def test_images_are_read_only_and_take_no_memory(source, tmp_path):
    images = np.random.default_rng(0).integers(
        0, 256, (len(source.images), 3, 256, 250), dtype=np.uint8
    )
    write_pairs(dataclasses.replace(source, images=images), tmp_path / "pairs.npz")
    tracemalloc.start()
    try:
        read = read_pairs(tmp_path / "pairs.npz")
        _, peak = tracemalloc.get_traced_memory()  # includes numpy's arrays
    finally:
        tracemalloc.stop()
    assert read.images.nbytes > 8e6
    assert peak < 0.1 * read.images.nbytes
    chosen = np.array([[7, 3], [-1, 7]])
    np.testing.assert_array_equal(read.images[chosen], images[chosen])
    with pytest.raises(ValueError, match="read-only"):
        read.images[0] = 0
    write_pairs(read, tmp_path / "pairs.npz")  # replaces the file that it reads
    np.testing.assert_array_equal(read.images, images)
    assert read_pairs(tmp_path / "pairs.npz").checksum == read.checksum


def test_images_that_cannot_be_memory_mapped_are_rejected(source, tmp_path):
    path = tmp_path / "pairs.npz"
    write_pairs(source, path)
    written, count = path.read_bytes(), len(source.images)
    with np.load(path) as archive:
        content = dict(archive)
    np.savez_compressed(path, **content)
    with pytest.raises(
        UserError, match=r"pairs\.npz: cannot be read as a source .*Remove it and .*pairs\.parquet"
    ):
        read_pairs(path)
    wrong = {"images are float32 .*expected uint8": source.images.astype(np.float32)}
    wrong["is damaged"] = np.asfortranarray(source.images)
    for fact, images in wrong.items():
        np.savez(path, **content | {"images": images})
        with pytest.raises(UserError, match=fact):
            read_pairs(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("images.npy", b"no array")
    with pytest.raises(UserError, match="cannot be read as a source"):
        read_pairs(path)
    data = written.index(b"images.npy") + len("images.npy")
    shape = f"({count}, 1, 32, 32)".encode()
    damages = {
        "a header with more channels": written.replace(
            shape, shape.replace(b"1, 32, 32", b"3, 32, 32")
        ),
        "a header with another name": written.replace(b"images.npy", b"imagex.npy", 1),
        "a header with another length": written[: data - 12] + b"\x0b\x00" + written[data - 10 :],
        "another pixel": written[: data + 1000]
        + bytes([written[data + 1000] ^ 1])
        + written[data + 1001 :],
    }
    for what, damaged in damages.items():
        assert len(damaged) == len(written), what
        path.write_bytes(damaged)
        with pytest.raises(UserError, match=r"pairs\.npz: .*Remove it and .*pairs\.parquet"):
            read_pairs(path)
    path.write_bytes(written)
    assert read_pairs(path).checksum == source.checksum


def changed_sentence(source, column, value):
    table = source.sentences.copy()
    table.loc[3, column] = value
    return table


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: {"images": s.images.astype(np.float32)}, "images are float32 of shape"),
        (lambda s: {"reports": s.reports[1:]}, "reports are .*; expected str with 1 axes"),
        (
            lambda s: {"shown": s.shown[:, :5]},
            "sentences are invalid, first in row .*; expected a class from -1 to 4",
        ),
        (
            lambda s: {"sentences": changed_sentence(s, "eta", 1.0)},
            r"invalid, first in row 3 .*; expected eta in \[0, 1\)",
        ),
        (
            lambda s: {"sentences": changed_sentence(s, "eta true", np.nan)},
            "invalid, first in row 3 .*; expected eta true in",
        ),
        (
            lambda s: {"sentences": s.sentences[s.sentences["report"] != "R005"]},
            "reports without sentences; .* is image",
        ),
    ],
)
def test_invalid_sources_are_rejected(source, change, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(source, **change(source))


def test_class_probabilities_have_their_own_checksum(source):
    same, other_eta = texture_source(patients=40), changed_sentence(source, "eta", 0.5)
    assert same.checksum == source.checksum
    rescored = dataclasses.replace(source, sentences=other_eta)
    assert rescored.checksum == source.checksum
    assert rescored.probability_checksum("language model") != source.probability_checksum(
        "language model"
    )
    assert rescored.probability_checksum("permuted") == source.probability_checksum("permuted")
    for column, value in (
        ("sentence", "Else."),
        ("class", 0 if source.sentences.loc[3, "class"] else 1),
    ):
        assert (
            dataclasses.replace(source, sentences=changed_sentence(source, column, value)).checksum
            != source.checksum
        )
    for name in ("images", "labels", "shown"):
        array = getattr(source, name).copy()
        array.flat[0] = array.flat[0] == 0
        assert dataclasses.replace(source, **{name: array}).checksum != source.checksum


def test_joining_rejects_tables_of_other_sentences(source):
    table = source.sentences[["report", "index", "sentence"]]
    lacking = join_sentences(
        table, assigned=source.sentences[["report", "index", "class"]].iloc[2:]
    )
    with pytest.raises(
        ValueError, match=r"2 sentences are invalid, first in row 0 .*; expected a class from"
    ):
        dataclasses.replace(source, sentences=lacking)
    with pytest.raises(ValueError, match="not a one-to-one merge"):
        join_sentences(
            table, assigned=pd.concat([source.sentences[["report", "index", "class"]]] * 2)
        )
    joined = join_sentences(
        table, eta=source.sentences[["report", "index", "eta"]].sample(frac=1, random_state=0)
    )
    np.testing.assert_array_equal(joined["eta"], source.sentences["eta"])
    assert (joined["class"] == -1).all()


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**31 - 1), validation=st.floats(0.05, 0.4), test=st.floats(0.05, 0.4))
def test_a_split_has_every_image_once_and_each_patient_and_report_in_one_part(
    seed, validation, test
):
    source = texture_source(patients=40)
    subset = split_pairs(source, seed, validation, test)
    parts = [getattr(subset, name) for name in SPLITS]
    assert sorted(np.concatenate(parts).tolist()) == list(range(len(source.images)))
    for owners in (source.patients, source.reports):
        # so no owner is in two parts
        assert sum(len(set(owners[part])) for part in parts) == len(set(owners))
    refuse_leakage(source, subset)
    patients = len(set(source.patients))
    assert len(set(source.patients[subset.test])) == max(1, round(test * patients))
    assert len(set(source.patients[subset.validation])) == max(1, round(validation * patients))


def test_a_split_depends_on_the_seed_and_not_on_the_order_of_images(source):
    first, second = split_pairs(source, 0), split_pairs(source, 1)
    assert set(source.patients[first.test]) != set(source.patients[second.test])
    order = np.random.default_rng(0).permutation(len(source.images))
    reordered = {
        name: getattr(source, name)[order]
        for name in ("images", "reports", "patients", "labels", "shown")
    }
    again = split_pairs(dataclasses.replace(source, **reordered), 0)
    for name in SPLITS:
        assert set(source.patients[order][getattr(again, name)]) == set(
            source.patients[getattr(first, name)]
        )


def test_too_few_patients_for_a_split_are_reported(source):
    with pytest.raises(UserError, match=r"has (\d+) patients; expected more than the \1 needed"):
        split_pairs(source, 0, 0.5, 0.5)
    with pytest.raises(
        UserError, match="has 2 patients; expected more than the 2 needed for validation and test"
    ):
        split_pairs(texture_source(patients=4), 0)


def test_a_patient_in_two_splits_or_another_source_is_rejected(source):
    subset = split_pairs(source, 0)
    leaking = dataclasses.replace(subset, validation=np.append(subset.validation, subset.train[0]))
    with pytest.raises(
        UserError, match=r"has 1 patients, such as P.*, in both train and validation; expected none"
    ):
        refuse_leakage(source, leaking)
    with pytest.raises(UserError, match="was drawn from a different version of source"):
        refuse_leakage(source, dataclasses.replace(subset, source_checksum="0"))
    with pytest.raises(UserError) as error:
        refuse_leakage(dataclasses.replace(source, restricted=True), leaking)
    assert "such as" not in str(error.value)


def test_subsets_are_read_as_they_were_written(source, tmp_path):
    written = [split_pairs(source, seed) for seed in (0, 3)]
    write_subsets(written, tmp_path / "subsets.parquet")
    read = read_subsets(tmp_path / "subsets.parquet")
    assert list(read) == [0, 3]
    for subset in written:
        for field in dataclasses.fields(Subset):
            np.testing.assert_array_equal(
                getattr(read[subset.seed], field.name), getattr(subset, field.name)
            )


def test_statements_are_true_of_the_same_images_as_in_a_loop():
    made = phantom_reports(300, seed=0)
    classes, said = made.classes, made.sentences.groupby("report")["class"].agg(set)
    reports = made.reports["report"].to_numpy()
    count = int((classes["kind"] == "positive").sum())
    shown = statements_shown(classes, findings_said(made.sentences, reports, count))
    for image, report in enumerate(reports):
        present = {number for number in said[report] if number < count}
        headings = {classes["finding"][number] for number in present}
        for number, row in classes.iterrows():
            expected = {
                "positive": number in present,
                "negated": row["finding"] not in headings,
                "filler": False,
            }
            assert shown[image, number] == expected[row["kind"]]
    true = shown[[*map(reports.tolist().index, made.sentences["report"])], made.sentences["class"]]
    filler = classes["kind"].to_numpy()[made.sentences["class"]] == "filler"
    assert true[~filler].all()  # the sentences of a report are true of its image


def test_the_known_probability_of_a_statement_is_its_frequency():
    made = phantom_reports(20_000, seed=1)
    count = int((made.classes["kind"] == "positive").sum())
    reports = made.reports["report"].to_numpy()
    shown = statements_shown(made.classes, findings_said(made.sentences, reports, count))
    expected = made.classes["image_probability"].fillna(0).to_numpy()
    error = np.sqrt(expected * (1 - expected) / len(reports)) + 1e-9
    assert (np.abs(shown.mean(0) - expected) < 5 * error).all()


def test_a_lack_of_memory_is_not_reported_as_damage(source, tmp_path, monkeypatch):
    """Otherwise, the remedy would tell the user to remove an undamaged file."""
    write_pairs(source, tmp_path / "pairs.npz")

    def exhausted(*_arguments, **_options):
        raise MemoryError

    monkeypatch.setattr(np, "load", exhausted)
    with pytest.raises(MemoryError):
        read_pairs(tmp_path / "pairs.npz")


def test_with_a_test_share_of_0_all_images_are_for_training():
    source = texture_source(patients=20)
    official = pd.DataFrame({"report": np.unique(source.reports), "split": "test"})
    subset = pair_subset(source, {"validation": 0.0, "test": 0.0}, 3, official)
    assert subset.train.tolist() == list(range(len(source.images)))
    assert not len(subset.test)
    assert not len(subset.validation)
