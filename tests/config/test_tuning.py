"""A tuned study has the same budget for every tuned objective, two stages, and runs that only
winners can decide.
"""

import pytest

from tests.config.mistakes import mistakes, with_key
from tests.studies import tiny_study, tiny_texts, tiny_words, tiny_world, tuned_study
from trueneg.config import runs
from trueneg.config.equal_temperature import baseline_at, cautions, oracle_gains_over
from trueneg.config.reading import load_configuration
from trueneg.errors import UserError
from trueneg.store.identity import run_id

GIVEN = {
    "source": "text_table",
    "path": "pairs.csv",
    "positives": "given",
    "positive_column": "answer",
    "label_column": "label",
}


def loaded(study):
    return load_configuration({"tuned": study}, "study.yaml").studies["tuned"]


def jobs_of(study):
    return {(job.objective, job.block): job for job in runs.jobs("tuned", loaded(study))}


def settings_of(run):
    objective = run.settings["objective"]
    return {
        key: objective[key]
        for key in ("temperature", "beta", "class_probability")
        if key in objective
    }


def test_the_first_stage_trains_the_candidates_and_the_second_one_job_per_objective():
    jobs = jobs_of(tuned_study())
    pilots = {key for key, job in jobs.items() if job.is_pilot}
    labels = ("CL,temperature={}", "HCL,temperature={},beta=2", "Oracle,temperature={}")
    assert {label for label, _ in pilots} == {
        label.format(value) for label in labels for value in (0.2, 0.5)
    }
    assert {block for _, block in pilots} == {"seed100-101"}
    assert jobs.keys() - pilots == {(name, "seed0-1") for name in tuned_study()["objectives"]}
    families = {name: job.family for (name, _), job in jobs.items() if not job.is_pilot}
    assert families == {
        "CL": "CL",
        "HCL": "HCL",
        "Oracle": "Oracle",
        "Hardness": "HCL",
        "CL-untuned": None,
    }


def test_a_winner_decides_the_settings_of_its_objective_and_of_its_followers():
    jobs = jobs_of(tuned_study())
    for name, class_probability in (("HCL", 0.1), ("Hardness", 0)):
        assert {
            winner: settings_of(choice.runs[0])
            for winner, choice in jobs[name, "seed0-1"].choices.items()
        } == {
            '{"beta":2.0,"temperature":0.2}': {
                "temperature": 0.2,
                "beta": 2.0,
                "class_probability": class_probability,
            },
            '{"beta":2.0,"temperature":0.5}': {
                "temperature": 0.5,
                "beta": 2.0,
                "class_probability": class_probability,
            },
        }
    assert all("variant" not in job.row_names for (_, block), job in jobs.items() if job.family)
    assert jobs["CL-untuned", "seed0-1"].row_names["variant"] == "{}"


def test_controls_follow_the_selected_a_and_k_of_the_language_model():
    world, scales = (
        tiny_world(tuning={"seeds": [100, 101], "follow": {"Permuted": "DCL-LM"}}),
        [5, 10, 20, 40],
    )
    world["objectives"] |= {
        **{name: {"name": name.lower(), "logit_scale": scales} for name in ("CL", "Oracle")},
        "DCL-LM": {
            "name": "dcl",
            "class_probability": "language model",
            "logit_scale": [5, 10],
            "a": [0.1, 0.2],
            "k": [0.35],
        },
        "Permuted": {"name": "dcl", "class_probability": "permuted"},
    }
    study = load_configuration({"words": tiny_words(), "tuned": world}, "study.yaml").studies[
        "tuned"
    ]
    (choices,) = (job.choices for job in runs.jobs("tuned", study) if job.objective == "Permuted")
    settings = [choice.runs[0].settings["objective"] for choice in choices.values()]
    assert [(of["class_probability"], of["a"], of["k"]) for of in settings] == [
        ("permuted", a, 0.35) for a in (0.1, 0.2)
    ] * 2
    world["objectives"]["DCL-LM"]["k"] = 0.35
    with pytest.raises(
        UserError,
        match=r"tuning\.follow\.Permuted is 'DCL-LM'.*a 0.1 and k None.*list of one value",
    ):
        load_configuration({"words": tiny_words(), "tuned": world}, "study.yaml")


def test_an_objective_without_a_temperature_is_tuned_by_its_own_settings():
    world = tiny_world(tuning={"seeds": [100, 101]})
    world["objectives"] |= {
        name: {"name": name.lower(), "logit_scale": [5, 10]} for name in ("CL", "Oracle")
    }
    world["objectives"]["ReCo"] = {"name": "reco", "negative_weight": [0.3, 0.6]}
    study = load_configuration({"words": tiny_words(), "tuned": world}, "study.yaml").studies[
        "tuned"
    ]
    (choices,) = (
        job.choices
        for job in runs.jobs("tuned", study)
        if job.objective == "ReCo" and not job.is_pilot
    )
    assert [
        choice.runs[0].settings["objective"]["negative_weight"] for choice in choices.values()
    ] == [0.3, 0.6]
    world["objectives"]["ReCo"] = {"name": "hcl", "class_probability": 0, "beta": [0.5, 1]}
    with pytest.raises(UserError, match=r"objectives\.ReCo sweeps beta"):
        load_configuration({"words": tiny_words(), "tuned": world}, "study.yaml")


def test_a_follower_keeps_what_it_states():
    study = tuned_study()
    study["objectives"]["Hardness"]["beta"] = 1.5
    choices = jobs_of(study)["Hardness", "seed0-1"].choices
    assert [
        (choice.variant, settings_of(choice.runs[0])["beta"]) for choice in choices.values()
    ] == [
        ('{"temperature":0.2}', 1.5),
        ('{"temperature":0.5}', 1.5),
    ]


def test_a_sweep_of_training_tunes_every_objective_and_a_follower_takes_over_its_winner():
    study = tuned_study(
        objectives=tiny_study()["objectives"] | {"Random": {"name": "oracle", "shuffled": True}}
    )
    study["training"] = study["training"] | {"temperature": [0.1, 0.3]}
    study["primary"] = tiny_study()["primary"]
    study["tuning"] = {"seeds": [9], "follow": {"Random": "Oracle"}}
    jobs = jobs_of(study)
    assert {job.objective.split(",")[0] for job in jobs.values() if job.is_pilot} == {
        "CL",
        "DCL-true",
        "Oracle",
    }
    choices = jobs["Random", "seed0-1"].choices
    assert [choice.runs[0].settings["training"]["temperature"] for choice in choices.values()] == [
        0.1,
        0.3,
    ]


def test_runs_of_a_winner_have_the_ids_that_the_same_settings_have_without_tuning():
    plain = tuned_study()
    del plain["tuning"], plain["objectives"]["Hardness"]
    plain["sweeps"] = "one at a time"
    expected = {run_id(run, "data") for run in runs.all_runs("plain", loaded(plain))}
    decided = [job for job in jobs_of(tuned_study()).values() if job.family == job.objective]
    assert {
        run_id(run, "data")
        for job in decided
        for choice in job.choices.values()
        for run in choice.runs
    } == expected


def test_a_file_of_winners_replaces_the_first_stage():
    study = tuned_study()
    study["tuning"]["winners"] = "winners.json"
    jobs = jobs_of(study)
    assert not any(job.is_pilot for job in jobs.values())
    assert jobs.keys() == {key for key, job in jobs_of(tuned_study()).items() if not job.is_pilot}
    assert list(runs.blocks(loaded(study))) == ["seed0-1"]


def test_pairs_tune_the_logit_scale():
    study = tiny_world(tuning={"seeds": [5], "follow": {"DCL-LM": "CL"}})
    for name in ("CL", "Oracle"):
        study["objectives"][name]["logit_scale"] = [5, 10, 20]
    study["primary"] |= {"task": "linear probe", "fraction": 1}
    loaded_study = load_configuration({"words": tiny_words(), "world": study}, "test").studies[
        "world"
    ]
    jobs = {(job.objective, job.is_pilot): job for job in runs.jobs("world", loaded_study)}
    assert len([1 for _, is_pilot in jobs if is_pilot]) == 6
    scales = [
        choice.runs[0].settings["objective"]["logit_scale"]
        for choice in jobs["DCL-LM", False].choices.values()
    ]
    assert scales == [5, 10, 20]


def softened(**targets):
    return {"name": "cl", "targets": {"name": "softmax", **targets}, "guide": {"name": "self"}}


def targets_of(choice):
    objective = choice.runs[0].settings["objective"]
    return (
        objective["temperature"],
        objective["targets"]["temperature"],
        objective["targets"]["share"],
    )


def test_settings_of_targets_are_tuned_and_followed_where_they_are_not_stated():
    study = tuned_study()
    study["objectives"]["Soft"] = softened(temperature=[0.15], share=1) | {
        "temperature": [0.2, 0.5]
    }
    study["objectives"]["Soft-EMA"] = softened(share=0.5) | {"guide": {"name": "ema"}}
    study["tuning"]["follow"]["Soft-EMA"] = "Soft"
    jobs = jobs_of(study)
    assert {label for label, _ in jobs if label.startswith("Soft,")} == {
        "Soft,temperature=0.2,targets.temperature=0.15",
        "Soft,temperature=0.5,targets.temperature=0.15",
    }
    following = jobs["Soft-EMA", "seed0-1"].choices
    assert [targets_of(choice) for choice in jobs["Soft", "seed0-1"].choices.values()] == [
        (0.2, 0.15, 1),
        (0.5, 0.15, 1),
    ]
    assert [targets_of(choice) for choice in following.values()] == [
        (0.2, 0.15, 0.5),
        (0.5, 0.15, 0.5),
    ]
    assert next(iter(following)) == '{"targets.temperature":0.15,"temperature":0.2}'


@pytest.mark.parametrize(
    ("changes", "facts"),
    [
        ({"objectives.CL.temperature": [0.1, 0.2, 0.5]}, ["CL has 3", "HCL has 2"]),
        ({"objectives.CL": {"name": "cl"}}, ["primary.baseline", "'CL'"]),
        (
            {"objectives.HCL.temperature": [0.2], "objectives.HCL.beta": [1, 2]},
            ["objectives.HCL", "beta", "temperature"],
        ),
        ({"tuning.seeds": [1, 100]}, ["tuning.seeds", "seeds", "contain 1"]),
        ({"tuning.seeds": [100, 100]}, ["tuning.seeds", "distinct"]),
        ({"tuning.rule": "best"}, ["tuning.rule", "'best'", "largest mean"]),
        ({"tuning.follow": {"Nobody": "CL"}}, ["tuning.follow", "'Nobody'"]),
        (
            {"tuning.follow": {"Hardness": "CL-untuned"}},
            ["tuning.follow.Hardness", "'CL-untuned'", "CL, HCL, Oracle"],
        ),
        (
            {"tuning.follow": {"CL-untuned": "HCL"}},
            ["tuning.follow.CL-untuned", "'HCL'", "states every setting"],
        ),
        (
            {"tuning.follow": {"CL-untuned": "CL"}},
            ["tuning.follow.CL-untuned", "'CL'", "states every setting"],
        ),
        (
            {
                "objectives.CL.targets": {"name": "softmax", "share": [0.5]},
                "objectives.CL.guide": {"name": "self"},
            }
            | {"tuning.follow": {"CL-untuned": "CL"}},
            ["tuning.follow.CL-untuned", "targets.share", "no such setting"],
        ),
        ({"objectives.Hardness.beta": [1, 2]}, ["objectives.Hardness.beta", "is a list", "HCL"]),
        (
            {"tuning.by": {"task": "sorting", "metric": "accuracy"}},
            ["tuning.by.task", "'sorting'", "knn"],
        ),
        ({"tuning.by": {"task": "knn", "metric": "accuracy"}}, ["tuning.by.labels", "missing"]),
        ({"sweeps": "one at a time"}, ["sweeps", "one at a time"]),
    ],
)
def test_a_contradiction_is_one_sentence(changes, facts):
    study = tuned_study()
    for path, value in changes.items():
        study = with_key(study, path, value)
    (sentence,) = mistakes(tuned=study)
    assert all(fact in sentence for fact in ("tuned.", *facts)), sentence


def test_a_measurement_without_validation_rows_cannot_select():
    world = tiny_world(tuning={"seeds": [5], "by": {"task": "zero-shot", "metric": "AUC"}})
    for objective in world["objectives"].values():
        objective["logit_scale"] = [5, 10]
    world["primary"] |= {"task": "linear probe", "metric": "AUC", "fraction": 1}
    assert mistakes(words=tiny_words(), world=world) == []
    world["tuning"]["by"] = {
        "task": "region retrieval",
        "metric": "R",
        "labels": "pair",
        "k": 10,
        "direction": "text to image",
    }
    assert any("tuning.by" in sentence for sentence in mistakes(words=tiny_words(), world=world))


def test_few_pilot_seeds_and_a_missing_baseline_at_a_treatments_temperature_are_said():
    contrasts = [
        {"treatment": "Oracle", "baseline": "CL"},
        {"treatment": "Hardness", "baseline": "CL"},  # a follower: a dose or a control
        {"treatment": "CL-untuned", "baseline": "CL"},
    ]
    study = tuned_study(contrasts=contrasts)
    pilots, lacking = cautions(loaded(study))
    assert "2 pilot seeds" in pilots
    assert "4" in pilots
    assert "CL at the temperature of HCL, Oracle," in lacking
    for name in ("HCL", "Oracle"):
        study["objectives"][f"CL-at-{name}"] = {"name": "cl"}
        study["tuning"]["follow"][f"CL-at-{name}"] = name
    study["tuning"]["seeds"] = [100, 101, 102, 103]
    assert cautions(loaded(study)) == []
    del study["tuning"]["follow"]["CL-at-HCL"]
    (lacking,) = cautions(loaded(study))
    assert "CL at the temperature of HCL," in lacking


def test_the_baseline_takes_over_the_temperature_of_a_method_whose_other_settings_it_lacks():
    study = tuned_study()
    study["objectives"]["CL-at-HCL"] = {"name": "cl"}
    study["tuning"]["follow"]["CL-at-HCL"] = "HCL"
    job = jobs_of(study)["CL-at-HCL", "seed0-1"]
    assert {
        winner: settings_of(choice.runs[0])["temperature"] for winner, choice in job.choices.items()
    } == {'{"beta":2.0,"temperature":0.2}': 0.2, '{"beta":2.0,"temperature":0.5}': 0.5}


def test_the_baseline_at_a_temperature_is_found_by_its_loss_and_its_value():
    study = tuned_study()
    study["objectives"]["CL-at-HCL"] = {"name": "cl"}
    study["tuning"]["follow"]["CL-at-HCL"] = "HCL"
    tuned = loaded(study)
    cold, warm = '{"temperature":0.2}', '{"temperature":0.5}'
    variants = {"CL": cold, "HCL": warm, "Oracle": cold, "CL-untuned": "{}"}
    assert baseline_at(tuned, variants, "Oracle") == "CL"
    assert baseline_at(tuned, variants, "HCL") == "CL-untuned"  # at 0.5 as well
    del variants["CL-untuned"]
    assert baseline_at(tuned, variants, "HCL") is None
    assert baseline_at(tuned, variants | {"CL-at-HCL": warm}, "HCL") == "CL-at-HCL"
    assert oracle_gains_over(tuned, variants) == ["CL"]
    at_other = variants | {"Oracle": warm, "CL-untuned": "{}"}
    assert oracle_gains_over(tuned, at_other) == ["CL", "CL-untuned"]


@pytest.mark.parametrize(
    ("study", "expected"),
    [
        (
            tiny_texts(),
            {"CL": "positives", "Oracle": "positives, loss", "untrained": "nothing"},
        ),
        (tiny_study(), {"CL": "nothing", "DCL-true": "loss", "Oracle": "loss"}),
        (tiny_texts(dataset=GIVEN), {"CL": "nothing", "Oracle": "loss"}),
    ],
)
def test_what_labels_are_used_for_is_what_the_study_draws_with_them(study, expected):
    tuned = loaded(study)
    assert {name: tuned.labels_used(name) for name in expected} == expected


def test_an_unknown_baseline_of_a_study_with_followers_is_one_sentence():
    study = tuned_study()
    study["objectives"]["CL-as-HCL"] = {"name": "cl"}
    study["tuning"]["follow"] |= {"CL-as-HCL": "HCL"}
    assert not mistakes(tuned=study)
    sentences = mistakes(tuned=with_key(study, "primary.baseline", "ö"))
    assert all("baseline" in sentence for sentence in sentences)
    assert sentences
