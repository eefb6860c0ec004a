"""A valid configuration with one value changed is planned, or refused in sentences: no traceback,
no endless loop.
"""

import random

import pytest
import yaml

from tests.fuzz.attempts import FAILED, RAN, REFUSED, attempted
from tests.fuzz.changes import changed, drawn_kinds, leaves
from tests.projects import SHIPPED
from tests.studies import tiny_study, tiny_words, tiny_world
from trueneg.config.reading import load_configuration, merged_files, read_configuration
from trueneg.planning.training_jobs import TrainingJobs
from trueneg.report import registry

TINY = {
    "tiny": {"tiny": tiny_study()},
    "tiny pairs": {"words": tiny_words(), "world": tiny_world()},
}
SMALL = ("studies/open_i_text", "studies/own_data", "studies/likelihood_transfer")
CONFIGURATIONS = TINY | {
    f"{path.parent.name}/{path.stem}": merged_files([path]) for path in SHIPPED
}


def planned(configuration):
    """Load a configuration, and do with it what Snakemake does before the first job."""
    whole = load_configuration(
        yaml.safe_load(yaml.dump(configuration, Dumper=yaml.CSafeDumper)), "study.yaml"
    )
    whole.resolved()
    TrainingJobs(whole).each_block("results/{study}/manifests/{dataset}/{objective}/{block}.json")
    for study in whole.studies.values():
        registry.figures_by_name(study)
        registry.tables_by_name(study)


def failures(names, seed):
    """Change every value of the named configurations in turn, and return the failures; most changes
    are refused.
    """
    draw, outcomes = random.Random(seed), []
    for name in names:
        for place in leaves(CONFIGURATIONS[name]):
            (kind,) = drawn_kinds(draw, 1)
            configuration = changed(CONFIGURATIONS[name], place, kind, draw)
            outcome = attempted(lambda configuration=configuration: planned(configuration))
            outcomes.append(
                outcome._replace(text=f"{name} {'.'.join(map(str, place))}, {kind}: {outcome.text}")
            )
    assert sum(outcome.kind == REFUSED for outcome in outcomes) > len(outcomes) / 3
    return [outcome.text for outcome in outcomes if outcome.kind == FAILED]


@pytest.mark.parametrize("name", [*TINY, *SMALL])
def test_an_unchanged_configuration_is_planned(name):
    assert attempted(lambda: planned(CONFIGURATIONS[name])).kind == RAN


def test_one_changed_value_of_a_small_configuration():
    assert failures([*TINY, *SMALL], seed=0) == []


@pytest.mark.long
def test_one_changed_value_of_every_configuration(exploration_seed):
    assert failures(CONFIGURATIONS, exploration_seed) == []


@pytest.mark.parametrize(
    "content",
    [
        b"\xff\xfe",
        b"a: 2020-13-45",
        b"[" * 5000 + b"]" * 5000,
        b"a: &a {b: *a}",
        b"? [1, 2]\n: 3",
        b"!!python/object/apply:os.mkdir [unpickled]",
        b"a: b: c",
        b"a: 1\n---\nb: 2",
        b"x: &a [l, l, l]\n"
        + b"".join(
            b"x%d: &%c [*%c, *%c, *%c]\n" % (n, 98 + n, 97 + n, 97 + n, 97 + n) for n in range(20)
        ),
        b"# only a comment",
    ],
)
def test_a_file_that_is_no_configuration_is_refused(tmp_path, content):
    (tmp_path / "study.yaml").write_bytes(content)
    outcome = attempted(lambda: read_configuration([str(tmp_path / "study.yaml")]))
    assert outcome.kind == REFUSED, outcome.text
