"""What to do with a study's result: which method to use, the baseline, or no training at all."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from trueneg.report.claims import losses, over_untrained
from trueneg.report.gathered import Gathered
from trueneg.report.layouts import compared_rows
from trueneg.report.methods import gains, kind_of_methods, outcomes
from trueneg.stats.comparison import primary_contrast

BETTER = "better"


class Candidate(NamedTuple):
    """A method, and the results for and against using it.

    Attributes:
        name: the objective.
        outcome: of its comparison with the baseline, also at equal temperatures.
        over_untrained: of its comparison with the towers before training, after Holm's correction
            over all methods; None: not compared.
        losses: the other families of tasks in which it is worse than the baseline, with the
            difference.
        at_edge: its settings at the edge of their grid, beyond which better ones may lie.
        settings: number of settings that it states and the baseline does not.
        gain: its smaller gain over the baseline, as the figure and the table show it.
    """

    name: str
    outcome: str
    over_untrained: str | None = None
    losses: Sequence[str] = ()
    at_edge: str = ""
    settings: int = 0
    gain: float = 0.0

    def objections(self, baseline: str) -> list[str]:
        """Return the reasons not to use it although it is better than the baseline."""
        reasons = []
        if self.over_untrained not in (None, BETTER):
            reasons.append("not shown to beat the encoder before training")
        if self.losses:
            reasons.append(f"worse than {baseline} in {' and '.join(self.losses)}")
        if self.at_edge:
            reasons.append(f"at the edge of its grid ({self.at_edge})")
        return reasons


class Advice(NamedTuple):
    """What to use.

    Attributes:
        name: the objective; None: no training.
        sentence: says so, and why not a method that is better than the baseline.
    """

    name: str | None
    sentence: str


def advise(
    candidates: Sequence[Candidate],
    baseline: str,
    baseline_over_untrained: str | None,
    differ: Callable[[str, str], bool],
    kind: str = "",
) -> Advice:
    """Choose by the rules in docs/own-data.md.

    A method qualifies if it is better than both the baseline and the towers before training, is not
    shown to be worse than the baseline in another family of tasks, and has no setting at the edge
    of its grid. If the best of these does not differ significantly from others, the one with the
    fewest settings is chosen. If none qualifies, it is the baseline, unless training it is not
    shown to beat the towers before training: then it is no training, or undecided if another method
    is shown to beat them.

    Args:
        candidates: the methods, in descending order of their means.
        baseline: name of the baseline.
        baseline_over_untrained: outcome of its comparison with the towers before training; None:
            not compared.
        differ: whether two methods differ significantly.
        kind: words that say what all methods have in common, such as " without labels".
    """
    better = [each for each in candidates if each.outcome == BETTER]
    usable = [each for each in better if not each.objections(baseline)]
    if usable:
        best = usable[0]
        alike = [best, *(each for each in usable[1:] if not differ(best.name, each.name))]
        chosen = min(alike, key=lambda each: each.settings)
        reason = (
            f", the simplest of {len(alike)} without a significant difference"
            if len(alike) > 1
            else ""
        )
        # of those with higher means in validation, and those that seem better in the figure
        passed = [
            each
            for place, each in enumerate(better)
            if place < better.index(best) or (each.gain > best.gain and each not in usable)
        ]
        against = _objected(passed, baseline)
        return Advice(chosen.name, f"{'; '.join([f'Use {chosen.name}{reason}', *against])}.")
    reason = (
        "; ".join(_objected(better, baseline))
        or f"no method{kind} was shown to be better than {baseline}"
    )
    if baseline_over_untrained in (None, BETTER):
        return Advice(baseline, f"Use {baseline}: {reason}.")
    untrained = f"{baseline} is not shown to beat the encoder before training"
    gaining = [each.name for each in candidates if each.over_untrained == BETTER]
    if gaining:
        verb = "is" if len(gaining) == 1 else "are"
        gain = f"{' and '.join(gaining)} {verb}"
        return Advice(None, f"Whether to train is undecided: {untrained}, but {gain}; {reason}.")
    unless = " unless more seeds or data show a gain" * (baseline_over_untrained == "undecided")
    return Advice(None, f"Do not train{unless}: {untrained}; {reason}.")


def _objected(candidates: Sequence[Candidate], baseline: str) -> list[str]:
    """Return why none of these methods is to be used although all are better than the baseline."""
    return [
        f"{each.name} is better than {baseline}, but {' and '.join(each.objections(baseline))}"
        for each in candidates
    ]


def advice(gathered: Gathered) -> Advice:
    """Advise on the primary measurement of a trained study, on its primary data set."""
    study = gathered.study
    rows = compared_rows(gathered)
    trained = over_untrained(study, rows, gathered.dataset, gathered.crossed)
    selection = gathered.selection
    of_dataset = selection[selection["dataset"] == gathered.dataset].set_index("objective")
    edges = of_dataset["at edge"].to_dict() if "at edge" in of_dataset else {}
    validated = gathered.primary.rows_of(gathered.rows.query("split == 'validation'"))
    means = validated[validated["dataset"] == gathered.dataset].groupby("objective")["value"].mean()
    stated = _stated(study.objectives[gathered.baseline])

    def compared(name: str, other: str) -> Any:
        return primary_contrast(
            rows, name, other, gathered.primary, gathered.dataset, crossed=gathered.crossed
        )

    def over_start(name: str) -> str | None:
        return str(trained[name]["outcome"]) if name in trained else None

    shown = gains(gathered)
    candidates = [
        Candidate(
            name,
            outcome,
            over_start(name),
            # of the others, nobody asks
            losses(rows, compared(name, gathered.baseline)) if outcome == BETTER else (),
            edges.get(name) or "",
            len(_stated(study.objectives[name]) - stated),
            shown[name]["difference"],
        )
        for name, outcome in outcomes(gathered).items()
    ]
    ordered = sorted(candidates, key=lambda each: -means.get(each.name, 0.0))
    advised = advise(
        ordered,
        gathered.baseline,
        over_start(gathered.baseline),
        lambda one, other: compared(one, other)["outcome"].split(" ")[0] in (BETTER, "worse"),
        kind_of_methods(gathered),
    )
    rival = advised.name or (study.first_baseline if trained else gathered.baseline)
    measured = [name for name in study.compared if name in {*rows["objective"]}]
    better = [name for name in measured if compared(name, rival)["outcome"] == BETTER]
    if not better:
        return advised
    kept = f"Keep {' or '.join(better)}, which is better than {rival}"
    otherwise = advised.sentence[:1].lower() + advised.sentence[1:]
    return Advice(None, f"{kept}; without it, {otherwise}")


def _stated(objective: Any) -> set[str]:
    """Return the names of the settings that an objective states."""
    return set(objective.model_dump(exclude_none=True, exclude_defaults=True))
