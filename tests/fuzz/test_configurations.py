"""A valid configuration with one value changed runs, or is refused in sentences; never a traceback, never hanging."""

import os
from collections import defaultdict

import pytest

from tests.fuzz.configurations import cases, checked, given, leaves, prepare
from tests.fuzz.guarded import WRONG, Outcome, attempted, counted

TINY = ("tiny", "tiny pairs", "open_i_text", "own_data", "likelihood_transfer")  # whose description takes milliseconds


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A working directory with what the configurations need."""
    folder = tmp_path_factory.mktemp("fuzz")
    before = os.getcwd()
    os.chdir(folder)
    prepare(folder)
    yield folder
    os.chdir(before)


def tried(folder, seed, names=None, rounds=1):
    found = defaultdict(list)
    for name, kind, place, configuration in cases(seed, rounds):
        if names is None or name in names:
            outcome = attempted(lambda configuration=configuration: checked(configuration, folder), folder)
            found[kind].append(Outcome(outcome.kind, f"{name} {'.'.join(map(str, place))}, {kind}: {outcome.said}"))
    return found


def wrong(found):
    return [outcome.said for outcomes in found.values() for outcome in outcomes if outcome.kind == WRONG]


def test_the_unchanged_configurations_are_described(folder):
    for name in TINY:
        outcome = attempted(lambda name=name: checked(given()[name], folder), folder)
        assert outcome.kind == "ran", outcome.said


def test_one_changed_value_of_a_small_configuration(folder):
    found = tried(folder, seed=0, names=TINY)
    assert wrong(found) == []
    assert sum(map(len, found.values())) == sum(len(list(leaves(given()[name]))) for name in TINY)


@pytest.mark.long
def test_one_changed_value_of_every_configuration(folder, exploration_seed):
    found = tried(folder, exploration_seed)
    print("\n" + counted(found))
    assert wrong(found) == []
    assert sum(map(len, found.values())) > 1000


@pytest.mark.parametrize(
    "content",
    [
        b"\xff\xfe",
        b"a: \x00",
        b"a: 2020-13-45",
        b"a: " + b"9" * 5000,
        b"[" * 5000 + b"]" * 5000,
        b"&a [*a]",
        b"a: &a {b: *a}",
        b"? [1, 2]\n: 3",
        b"!!python/object/apply:os.mkdir [unpickled]",
        b"a: !!binary x",
        b"<<: 3",
        b"a: b: c",
        b"%YAML 9.9\n---\na: 1",
        b"a: 1\n---\nb: 2",
        b"a: &x [1]\nb: [*x, *y]",
        b"digits: &d [" + b"*d, " * 3 + b"*d]",
        b"x: &a [l, l, l]\n" + b"".join(b"x%d: &%c [*%c, *%c, *%c]\n" % (n, 98 + n, 97 + n, 97 + n, 97 + n) for n in range(20)),
        b"# only a comment",
        b"\xef\xbb\xbftiny: 1",
    ],
)
def test_a_file_that_is_no_configuration(folder, content):
    path = folder / "odd.yaml"
    path.write_bytes(content)
    from trueneg.cli.main import main

    outcome = attempted(lambda: main(["check", str(path)]), folder)
    assert outcome.kind == "refused", outcome.said
