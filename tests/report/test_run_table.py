"""The run table in the terminal."""

import pandas as pd

from trueneg.report.run_table import as_text

RUNS = {
    "run": ["a1", "a2", "b1", "c1"],
    "state": ["finished", "stale", "finished", "interrupted"],
    "epoch": [None, None, None, "3/9"],
    "study": ["first", "first", "second", None],
    "objective": ["CL", "DCL", "CL", "DCL"],
    "seed": pd.array([0, 0, 1, 2], dtype="Int64"),
    "encoder": ["small", "small", "large", None],
    "first: test knn accuracy": [0.25, 0.75, None, None],
    "second: test knn accuracy": [None, None, 0.5, None],
}


def test_each_study_has_its_own_table_with_its_columns():
    first, second, unfinished = (
        block.splitlines() for block in as_text(pd.DataFrame(RUNS), 100).split("\n\n")
    )
    assert "first" in first[0]
    assert "small" in first[0]
    assert [line.split() for line in first[2:]] == [
        ["a1", "finished", "CL", "0", "0.25"],
        ["a2", "stale", "DCL", "0", "0.75"],
    ]
    assert all(fact in second[0] for fact in ("second", "large", "test knn accuracy", "0.5"))
    assert [line.split() for line in second[2:]] == [["b1", "finished", "CL", "1"]]
    assert "unfinished" in unfinished[0]
    assert [line.split() for line in unfinished[2:]] == [["c1", "interrupted", "3/9", "DCL", "2"]]


def test_columns_are_left_out_from_the_right_and_named():
    first, *_, note = as_text(pd.DataFrame(RUNS), 40).split("\n\n")
    assert "accuracy" not in first
    assert "test knn accuracy" in " ".join(note.split())
    assert "seed" in first
    assert "seed" not in note


def test_the_order_of_the_runs_is_kept():
    table = pd.DataFrame(RUNS).sort_values("first: test knn accuracy", ascending=False)
    text = as_text(table, 100)
    assert text.index("a2") < text.index("a1")


def test_unfinished_runs_alone_are_listed():
    text = as_text(pd.DataFrame({"run": ["c1"], "state": ["interrupted"]}), 100)
    assert ["c1", "interrupted"] in [line.split() for line in text.splitlines()]
