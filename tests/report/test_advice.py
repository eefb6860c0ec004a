"""What a study's result advises, for crafted results: each rule of docs/own-data.md, alone and with
others.
"""

import pytest

from trueneg.report.advice import Candidate, advise


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
    "the second is usable": ([PROBE, B], "better", [], "B", []),
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
    "CL harms, a method gains at an edge": ([EDGE], "worse", [], None, ["Do not train", "edge"]),
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
