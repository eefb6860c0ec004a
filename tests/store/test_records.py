"""Models of the files that the pipeline reads back: what they accept, and the file and key that an
error names.
"""

import json

import pytest

from trueneg.errors import UserError
from trueneg.store.records import (
    Environment,
    EvaluatedRun,
    Manifest,
    Progress,
    RunRecord,
    read_json,
)

MACHINE = {"commit": "abc", "machine": {"host": "a", "system": "b"}, "versions": {"python": "3.11"}}
MADE = MACHINE | {"code": {"versions": {"CL": 1}}}
RUN = {
    "study": "small",
    "dataset": "digits",
    "objective": "CL",
    "device": "cpu",
    "finished": "2026-01-01",
    "id": "abc-1",
    "seed": 0,
    "images": 100,
    "seconds": 1,
    "attempts": [],
    "source": {"name": "digits", "checksum": "0"},
    "data": "0",
    "settings": {
        "dataset": {},
        "encoder": {"name": "small"},
        "objective": {"name": "infonce"},
        "training": {"epochs": None, "updates": 100},
    },
}


def read(content, model, folder):
    (folder / "a.json").write_text(json.dumps(content))
    return read_json(folder / "a.json", model, "Copy it again.")


@pytest.mark.parametrize(
    "environment", [MADE, MADE | {"machine": MACHINE["machine"] | {"cpu": "c"}}]
)
def test_records_are_read_unchanged(environment, tmp_path):
    run = RUN | environment | {"checksum": "0", "a newer key": {"of": ["any", 1.5, None]}}
    assert read(run, RunRecord, tmp_path) == run
    evaluated = run | {"evaluated": environment | {"settings": {}}}
    assert read([evaluated, evaluated], list[EvaluatedRun], tmp_path) == [evaluated, evaluated]


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"code": None}, "code"),
        ({"id": "../a"}, "id"),
        ({"seed": "0"}, "seed"),
        ({"seed": True}, "seed"),
        ({"seed": -1}, "seed"),
        ({"seed": 2**63}, "seed"),
        ({"threads": None}, "threads"),
        ({"seconds": "1"}, "seconds"),
        ({"versions": {"python": 3.11}}, r"versions\.python"),
        ({"machine": {"host": "a", "system": "b", "cpu": None}}, r"machine\.cpu"),
        ({"source": "digits"}, "source"),
        ({"source": {"name": "digits"}}, r"source\.checksum"),
        (
            {"settings": RUN["settings"] | {"training": {"epochs": 1.5, "updates": None}}},
            r"settings\.training\.epochs",
        ),
        ({"evaluated": MACHINE}, r"evaluated\.code is missing"),
    ],
)
def test_the_error_names_the_file_and_the_key(changes, key, tmp_path):
    with pytest.raises(UserError, match=rf"a\.json: {key}.*Copy it again"):
        read(RUN | MADE | changes, RunRecord, tmp_path)
    with pytest.raises(UserError, match=rf"a\.json: 1\.{key}.*Copy it again"):
        read([RUN | MADE, RUN | MADE | changes], list[RunRecord], tmp_path)


@pytest.mark.parametrize(
    ("content", "model", "fact"),
    [
        (MACHINE, Environment, "code is missing"),
        ([], Manifest, "the content"),
        (
            {"epoch": 1, "epochs": 3, "spent": [{"seconds": 1.5, "device": "cpu"}]},
            Progress,
            r"spent\.0\.devices",
        ),
    ],
)
def test_invalid_content_raises_an_error(content, model, fact, tmp_path):
    with pytest.raises(UserError, match=rf"a\.json: .*{fact}"):
        read(content, model, tmp_path)


@pytest.mark.parametrize("text", ["", "{", '{"a": NaN', "[" * 100_000, b"\xff"])
def test_damaged_and_missing_json_raises_an_error(text, tmp_path):
    path = tmp_path / "a.json"
    with pytest.raises(UserError, match=r"a\.json: does not exist.*Run the step"):
        read_json(path)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(UserError, match=r"a\.json: .*JSON"):
        read_json(path)
