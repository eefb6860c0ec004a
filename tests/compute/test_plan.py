"""What jobs are handed, by their wildcards."""

from types import SimpleNamespace

from tests.studies import tiny_study, tiny_words
from trueneg.compute.plan import MODELS, Plan
from trueneg.config.reading import load_configuration


class Wildcards(SimpleNamespace):
    """As Snakemake's: attributes that can be unpacked."""

    def keys(self):
        return vars(self).keys()

    def __getitem__(self, key):
        return vars(self)[key]


def plan_of(**studies) -> Plan:
    return Plan(load_configuration(studies, "test"))


def test_a_pattern_is_filled_in_once_for_all_that_it_names():
    plan = plan_of(tiny=tiny_study(seeds=3) | {"training": tiny_study()["training"] | {"seeds_per_job": 2}})
    of_study = Wildcards(study="tiny")
    assert plan.every("{study}/{block}")(of_study) == ["tiny/seed0-1", "tiny/seed2"]
    assert len(plan.every("{dataset}/{objective}/{block}")(of_study)) == len(tiny_study()["objectives"]) * 2


def test_what_the_wildcards_lack_is_the_first_block_and_objective():
    plan = plan_of(tiny=tiny_study(seeds=3))
    first = plan.first("{objective}/{block}")
    names = list(tiny_study()["objectives"])
    assert first(Wildcards(study="tiny", dataset="digits")) == f"{names[0]}/seed0-2"
    assert first(Wildcards(study="tiny", dataset="digits", objective=names[1])) == f"{names[1]}/seed0-2"


def test_a_model_of_another_study_scores_as_it_is_or_is_trained_further():
    words = tiny_words()
    (label,) = plan_of(words=words).likelihood["words"].language_models
    (corpus,) = {path.split("/")[0] for path in plan_of(words=words).each_corpus("{corpus}/{study}")}
    start = f"words/{corpus}/{label}"
    further = words | {
        "language_models": {"kept": {"start": start, "train": False}, "tuned": {"start": start, "epochs": 1}},
        "eta": {},
    }
    plan = plan_of(words=words, further=further)
    kept, tuned = (Wildcards(study="further", corpus=corpus, model=model) for model in ("kept", "tuned"))
    original = MODELS.format(study="words", corpus=corpus, model=label)
    assert plan.initial_models(kept) == plan.initial_models(tuned) == plan.scoring_models(kept) == original
    assert plan.scoring_models(tuned) == MODELS.format(study="further", corpus=corpus, model="tuned")
    assert plan.initial_models(Wildcards(study="words", corpus=corpus, model=label)) == []
