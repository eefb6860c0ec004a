"""Settings and resources of jobs, looked up by their wildcards."""

import pytest

from trueneg.planning.job_settings import GRES, JobSettings

CONFIG = {
    "digits": {"training": {"threads": 2, "mem_mb": 100, "runtime": 5}},
    "resources": {"phantom_pairs": {"threads": 4}},
}
DIGITS = {"study": "digits"}


def test_a_setting_is_found_by_wildcards_and_by_further_placeholders():
    settings = JobSettings(CONFIG)
    assert settings.setting("{study}/training/threads")(DIGITS) == 2
    of_source = settings.setting("resources/{source}_pairs/threads", source=lambda _: "phantom")
    assert of_source(DIGITS) == 4


@pytest.mark.parametrize(
    ("gres", "gpus", "expected"),
    [
        (None, 1, {"gpu": 1}),
        (None, 0, {"gpu": 0}),
        ("gpu:a100", 2, {"gres": "gpu:a100:2"}),
        ("gpu", 0, {"gres": None}),
    ],
)
def test_gpus_are_requested_as_the_cluster_takes_them(gres, gpus, expected, monkeypatch):
    monkeypatch.delenv(GRES, raising=False)
    if gres:
        monkeypatch.setenv(GRES, gres)
    resources = JobSettings(CONFIG).growing("{study}/training", lambda _: gpus)
    numbers = {key: resources.pop(key)(DIGITS, attempt=3) for key in ("mem_mb", "runtime")}
    assert numbers == {"mem_mb": 300, "runtime": 15}
    assert {key: value(DIGITS) for key, value in resources.items()} == expected


def test_resources_grow_with_the_attempt_and_with_what_is_said_of_the_input():
    further = {"runtime": lambda wildcards, files: 0.5 * files["texts"]}
    resources = JobSettings(CONFIG).growing("{study}/training", further=further)
    assert resources["mem_mb"](DIGITS, attempt=3) == 300
    assert resources["runtime"](DIGITS, input={"texts": 7}, attempt=3) == 3 * (5 + 4)


def test_a_job_without_gpus_requests_none(monkeypatch):
    monkeypatch.setenv(GRES, "gpu")
    assert JobSettings(CONFIG).growing("{study}/training").keys() == {"mem_mb", "runtime"}
