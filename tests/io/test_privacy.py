"""Restricted text appears in no log, and files derived from it are readable only by their owner."""

import contextlib
import io
import logging
import os
import stat

import pandas as pd
import pytest

from tests.text import corpus
from trueneg.data.reports.prepare import prepare_reports
from trueneg.errors import UserError
from trueneg.io import privacy
from trueneg.text.assumption import check_assumption
from trueneg.text.eta import write_class_probabilities
from trueneg.text.language_models import train_language_models
from trueneg.text.scoring import score_sentences
from trueneg.text.sentences import split_reports

SECRET = "Quokka"


@pytest.fixture
def open_umask():
    before = os.umask(0o022)
    yield
    os.umask(before)


def write_reports(folder):
    """Write reports in the layout of MIMIC-CXR; every sentence contains a word that must not appear
    anywhere.
    """
    for number in range(40):
        patient = folder / "files" / f"p{10 + number % 3}" / f"p1000{number:04d}"
        patient.mkdir(parents=True)
        size = ("small", "large", "stable")[number % 3]
        text = (
            f" FINDINGS:\n {SECRET} effusion is {size}. No {SECRET} nodule {number}.\n\n"
            f" IMPRESSION:\n 1. {SECRET} seen.\n"
        )
        (patient / f"s5000{number:04d}.txt").write_text(text)
    (patient / "s59999998.txt").write_bytes(f" FINDINGS: {SECRET} \xff".encode("latin-1"))
    (patient / "s59999999.txt").write_text(f" INDICATION: {SECRET}")


def score(folder, models):
    files = {"cache": folder / "scored", "likelihoods": folder / "l.parquet"}
    score_sentences(folder / "s.parquet", models=models, settings=corpus.SCORING, **files)


def test_no_step_from_reports_to_class_probabilities_reveals_text(tmp_path, caplog, open_umask):
    source, out = tmp_path / "source", tmp_path / "results"
    write_reports(source)
    assert os.umask(0o022) == 0o022
    printed = io.StringIO()
    with (
        caplog.at_level(logging.DEBUG),
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(printed),
    ):
        prepare_reports({"source": "mimic_cxr", "path": str(source)}, out / "reports.parquet")
        split_reports(
            out / "reports.parquet",
            sentences=out / "s.parquet",
            unique=out / "u.parquet",
            cache=out / "split",
        )
        settings = corpus.MODEL | {"epochs": 1, "checkpoint_minutes": 0.0}
        train_language_models(
            out / "s.parquet",
            settings=settings,
            seed=0,
            store=out / "store",
            manifest=out / "m.json",
        )
        score(out, out / "m.json")
        eta = {"a": 0.2, "k": 0.35, "maximum": 0.9, "per_token": False}
        write_class_probabilities(out / "l.parquet", settings=eta, seed=0, eta=out / "eta.parquet")
        table, _ = privacy.read_table(out / "s.parquet")
        assigned = table[["report", "index"]].assign(**{"class": (table["index"] % 3).to_numpy()})
        privacy.write_table(assigned, out / "a.parquet", restricted=True)
        classes = pd.DataFrame(
            {"class": [0, 1, 2], "probability": [0.5, 0.3, 0.2], "kind": "positive"}
        )
        privacy.write_table(classes, out / "c.parquet", restricted=False)
        files = {
            "assigned": out / "a.parquet",
            "classes": out / "c.parquet",
            "likelihoods": {"masked LM": out / "l.parquet"},
        }
        tables = {name: out / f"{name}.parquet" for name in ("points", "summary", "calibration")}
        check_assumption(
            out / "s.parquet", **files, corpus="hand-written", folds=2, seed=0, tables=tables
        )
    output = printed.getvalue() + caplog.text
    assert "40 used, 1 empty, 1 unreadable" in output
    assert SECRET.lower() not in output.lower()
    assert "5999999" not in output  # the number of a report
    public = {out / "c.parquet", out / "m.json"}  # class names and checksums, no text
    made = [path for path in out.rglob("*") if path.is_file() and path not in public]
    assert made
    readable = [path for path in made if stat.S_IMODE(path.stat().st_mode) & 0o077]
    assert not readable
    assert os.umask(0o022) == 0o022  # as it was
    for name in ("points", "summary", "calibration", "eta"):
        content = privacy.read_table(out / f"{name}.parquet")[0].to_csv().lower()
        assert SECRET.lower() not in content


def test_errors_name_the_row_without_its_text(tmp_path):
    frame = pd.DataFrame(
        {
            "report": ["a", "b"],
            "patient": ["a", "b"],
            "index": [0, 0],
            "sentence": [f"{SECRET}.", "\ue000"],  # a character that the tokenizer drops
            "marked": [False, False],
        }
    )
    corpus.write_sentences(tmp_path)
    manifest = corpus.train(tmp_path, epochs=1)
    privacy.write_table(frame, tmp_path / "s.parquet", restricted=True)
    with pytest.raises(UserError, match="row 1") as caught:
        score(tmp_path, manifest)
    assert SECRET not in str(caught.value)


def test_tables_record_whether_they_are_restricted(tmp_path):
    frame = pd.DataFrame({"report": ["a"]})
    for restricted in (True, False):
        privacy.write_table(frame, tmp_path / "t.parquet", restricted)
        table, flag = privacy.read_table(tmp_path / "t.parquet")
        assert flag is restricted
        pd.testing.assert_frame_equal(table, frame)
    frame.to_parquet(tmp_path / "other.parquet")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1")
    for name, fact in (
        ("other", "restricted"),
        ("broken", "a complete parquet file"),
        ("none", "does not exist.*Run the step"),
    ):
        with pytest.raises(UserError, match=rf"{name}\.parquet.*{fact}"):
            privacy.read_table(tmp_path / f"{name}.parquet")
