"""What a study's result advises, for crafted results: each rule of docs/own-data.md, alone and with
others.
"""

import numpy as np
import pandas as pd
import pytest
import synthetic
from test_summary import summarised
from tests.evaluation.texts.test_text_rows import LABELLED, text_study

from trueneg.config.reading import load_configuration
from trueneg.report.advice import Candidate, advice, advise
from trueneg.report.findings import sentence
from trueneg.report.gathered import Gathered
from trueneg.stats.measurement import Measurement


def method(name, outcome="better", untrained="better", losses=(), edge="", settings=1):
    return Candidate(name, outcome, untrained, losses, edge, settings)


A, B = method("A"), method("B")
PROBE = method("A", losses=("linear probe",))
EDGE = method("A", edge="temperature")
COMPLEX = method("A", settings=3)
# the methods, the best first; outcome of the baseline against no training; pairs that differ
# significantly; the expected advice, and words of its sentence
CASES = {
    "one good method": ([A], "better", [], "A", []),
    "no towers": ([method("A", untrained=None)], None, [], "A", []),
    "undecided": ([method("A", "undecided")], "better", [], "CL", ["no method"]),
    "equivalent": ([method("A", "equivalent")], "better", [], "CL", ["no method"]),
    "worse": ([method("A", "worse")], "better", [], "CL", ["no method"]),
    "less than the margin": (
        [method("A", "better by less than the margin")],
        "better",
        [],
        "CL",
        ["no method"],
    ),
    "no methods": ([], "better", [], "CL", ["no method"]),
    "no methods, no towers": ([], None, [], "CL", ["no method"]),
    "at its own temperature only": (
        [method("A", "better at another temperature")],
        "better",
        [],
        "CL",
        ["no method"],
    ),
    "like untrained": (
        [method("A", untrained="undecided")],
        "better",
        [],
        "CL",
        ["A is better", "before training"],
    ),
    "below untrained": ([method("A", untrained="worse")], "better", [], "CL", ["before training"]),
    "as untrained": ([method("A", untrained="equivalent")], "better", [], "CL", ["A is better"]),
    "worse in the probe": ([PROBE], "better", [], "CL", ["worse than CL in linear probe"]),
    "at an edge": ([EDGE], "better", [], "CL", ["edge of its grid (temperature)"]),
    "every objection": (
        [method("A", "better", "undecided", ("retrieval", "clustering"), "beta")],
        "better",
        [],
        "CL",
        ["before training", "retrieval and clustering", "beta"],
    ),
    "the second is usable": ([PROBE, B], "better", [], "B", ["worse than CL in linear probe"]),
    "neither is usable": ([PROBE, method("B", edge="beta")], "better", [], "CL", ["A is", "B is"]),
    "two that differ": ([COMPLEX, B], "better", [("A", "B")], "A", []),
    "two alike": ([COMPLEX, B], "better", [], "B", ["simplest of 2"]),
    "two alike, as simple": ([A, B], "better", [], "A", ["simplest of 2"]),
    "the simplest differs": (
        [COMPLEX, method("B", settings=2), method("C")],
        "better",
        [("A", "C")],
        "B",
        ["simplest of 2"],
    ),
    "a simple one that is not better": (
        [COMPLEX, method("B", "undecided", settings=0)],
        "better",
        [],
        "A",
        [],
    ),
    "a simple one at an edge": (
        [COMPLEX, method("B", edge="beta", settings=0)],
        "better",
        [],
        "A",
        [],
    ),
    "three alike": ([A, B, method("C", settings=0)], None, [], "C", ["simplest of 3"]),
    "training undecided": ([], "undecided", [], None, ["Do not train", "CL"]),
    "CL undecided, a method gains": (
        [method("A", "undecided")],
        "undecided",
        [],
        None,
        ["Whether to train is undecided", "but A is; no method was"],
    ),
    "training harms": ([method("A", "undecided", "worse")], "worse", [], None, ["Do not train"]),
    "training equivalent": ([], "equivalent", [], None, ["Do not train"]),
    "training gains too little": ([], "better by less than the margin", [], None, ["Do not train"]),
    "a method repairs the harm": (
        [method("A", untrained="equivalent")],
        "worse",
        [],
        None,
        ["Do not train", "A is better than CL"],
    ),
    "CL harms, a method gains": ([A], "worse", [], "A", []),
    "CL harms, a method gains at an edge": ([EDGE], "worse", [], None, ["but A is", "edge"]),
    "CL harms, the second gains": ([method("A", untrained="worse"), B], "worse", [], "B", []),
}


@pytest.mark.parametrize("case", CASES)
def test_the_advice_follows_the_rules(case):
    candidates, baseline, distinct, expected, words = CASES[case]
    found = advise(candidates, "CL", baseline, lambda *pair: pair in distinct)
    assert found.name == expected
    assert all(word in found.sentence for word in words), found.sentence
    if expected:
        assert found.sentence.startswith(f"Use {expected}")


def test_nothing_is_said_of_methods_behind_the_one_to_use():
    found = advise([A, method("B", edge="beta")], "CL", "better", lambda *pair: False)
    assert found.sentence == "Use A."


def test_why_a_larger_gain_is_passed_over_is_said():
    larger = method("B", edge="beta")._replace(gain=0.02)
    found = advise([A._replace(gain=0.01), larger], "CL", "better", lambda *pair: False)
    assert found.sentence == "Use A; B is better than CL, but at the edge of its grid (beta)."


@pytest.mark.parametrize(
    ("mine", "trained", "begins"),
    [
        (0.05, 0.025, "Keep mine, which is better than DCL"),
        (0.05, -0.025, "Keep mine, which is better than untrained"),
        (0.01, 0.025, ""),
        (-0.05, -0.025, "Do not train"),
    ],
)
def test_a_model_of_the_user_s_own_that_is_better_comes_first(tmp_path, mine, trained, begins):
    settings = text_study(LABELLED, seeds=4)
    encoder = {"name": "vectors", "path": "mine.npy"}
    settings["objectives"]["mine"] = {"name": "untrained", "text_encoder": encoder}
    values = {"untrained": np.array([0.5, 0.52, 0.54, 0.51])}
    noise = np.array([0.001, -0.002, 0.0, 0.001])
    gains = {"mine": mine, "CL": trained / 2, "DCL": trained}
    for number, (name, gain) in enumerate(gains.items()):
        values[name] = values["untrained"] + gain + np.roll(noise, number)
    rows = synthetic.tidy(Measurement("knn", "accuracy", "seen"), values, dataset="text_table")
    rows = pd.concat([rows, rows.assign(split="validation"), rows.assign(metric="chance", value=0)])
    study = load_configuration({"mine": settings}, "mine.yaml").studies["mine"].model_dump()
    curves = pd.DataFrame({"objective": ["CL"], "seed": [0], "epoch": [1], "loss": [1.0]})
    summarised(tmp_path / "found", study, rows, curves)
    gathered = Gathered(tmp_path / "found")
    found = advice(gathered)
    assert found.name == (None if begins else "DCL")
    assert sentence(gathered).startswith(begins)
