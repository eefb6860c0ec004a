"""Configuration files that extend others: how they are merged, and what is refused."""

import pytest
import yaml

from tests.projects import ROOT
from trueneg.config.reading import merged, merged_files, read_configuration
from trueneg.errors import UserError

BASE = {
    "a": {
        "seeds": 1,
        "objectives": {
            "CL": {"name": "cl"},
            "DCL": {"name": "dcl", "class_probability": [0.1, 0.2]},
        },
    },
    "b": {"seeds": 2},
}


@pytest.fixture
def write(tmp_path):
    """Write a configuration file below a temporary folder, and return its path."""

    def write_file(name, content):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(yaml.safe_dump(content))
        return path

    return write_file


def test_a_file_changes_single_settings_of_the_one_that_it_extends(write):
    write("papers/base.yaml", BASE)
    file = write(
        "studies/file.yaml",
        {
            "extends": "../papers/base.yaml",
            "a": {"seeds": 8, "objectives": {"HCL": {"name": "hcl"}}},
        },
    )
    assert merged_files([file]) == {
        "a": {"seeds": 8, "objectives": BASE["a"]["objectives"] | {"HCL": {"name": "hcl"}}},
        "b": {"seeds": 2},
    }


def test_a_list_replaces_a_list_and_null_removes_what_the_other_file_has(write):
    write("base.yaml", BASE)
    changes = {"a": {"objectives": {"CL": None, "DCL": {"class_probability": [0.5]}}}, "b": None}
    file = write("file.yaml", {"extends": "base.yaml"} | changes)
    assert merged_files([file]) == {
        "a": {"seeds": 1, "objectives": {"DCL": {"name": "dcl", "class_probability": [0.5]}}}
    }


def test_null_stays_where_there_is_nothing_to_remove():
    assert merged({"a": {}}, {"a": {"threshold": None}}) == {"a": {"threshold": None}}


def test_null_stays_null_where_both_files_say_so():
    assert merged({"a": {"threshold": None}}, {"a": {"threshold": None}}) == {
        "a": {"threshold": None}
    }


def test_a_file_drops_the_oracle_of_the_one_that_it_extends(write):
    changes = {"objectives": {"Oracle": None}, "primary": {"oracle": "none"}}
    file = write(
        "file.yaml", {"extends": str(ROOT / "config/studies/cifar10.yaml"), "cifar10": changes}
    )
    assert read_configuration([file]).studies["cifar10"].primary.oracle is None


def test_merging_leaves_the_files_content_unchanged():
    base = {"a": {"b": {"c": 1}}}
    assert merged(base, {"a": {"b": {"c": 2}}}) == {"a": {"b": {"c": 2}}}
    assert base == {"a": {"b": {"c": 1}}}


def test_files_extend_files_that_extend_others(write):
    write("first.yaml", BASE)
    write("second.yaml", {"extends": "first.yaml", "b": {"seeds": 3}})
    file = write("third.yaml", {"extends": "second.yaml", "a": None})
    assert merged_files([file]) == {"b": {"seeds": 3}}


def test_two_files_may_extend_the_same_one_and_drop_each_others_studies(write):
    write("base.yaml", BASE)
    one = write("one.yaml", {"extends": "base.yaml", "a": {"seeds": 8}, "b": None})
    two = write("two.yaml", {"extends": "base.yaml", "a": None, "b": {"seeds": 9}})
    assert merged_files([one, two]) == {"a": BASE["a"] | {"seeds": 8}, "b": {"seeds": 9}}


def test_overrides_come_last(write):
    file = write("file.yaml", BASE)
    assert merged_files([file], {"a": {"objectives": {"DCL": None}}, "b": {"seeds": 5}}) == {
        "a": {"seeds": 1, "objectives": {"CL": {"name": "cl"}}},
        "b": {"seeds": 5},
    }


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            {"extends": ["a.yaml"]},
            (
                "file.yaml: extends is a list; expected the path of one configuration file,"
                " relative to this one."
            ),
        ),
        (
            {"extends": None},
            "file.yaml: extends is nothing; expected the path of one configuration file",
        ),
        (
            {"extends": "missing.yaml"},
            "missing.yaml: does not exist; expected a YAML file. Correct extends in ",
        ),
        (
            {"extends": "file.yaml"},
            (
                "file.yaml: extends is file.yaml, which extends this file; remove one of the two"
                " lines."
            ),
        ),
        (
            {"extends": "circle.yaml"},
            (
                "circle.yaml: extends is file.yaml, which extends this file; remove one of the two"
                " lines."
            ),
        ),
        (
            {"extends": "words.yaml"},
            "words.yaml: found 'words'; expected a mapping from study names to studies.",
        ),
    ],
)
def test_an_unusable_extends_is_one_sentence(write, content, message):
    write("circle.yaml", {"extends": "file.yaml"})
    write("words.yaml", "words")
    with pytest.raises(UserError) as raised:
        read_configuration([write("file.yaml", content)])
    assert message in str(raised.value)
    assert len(str(raised.value).splitlines()) == 1
