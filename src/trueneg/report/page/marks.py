"""Marks beside a study's name: its conclusion, and what a reader must know before believing a number."""

from trueneg.report.page.artefacts import Artefacts

CONCLUSIONS = {"better": "better", "worse": "worse", "cannot tell": "unsure", "uninformative": "unsure"}
FEW_SEEDS = 6  # an exact signed-rank test cannot reach p < 0.05 with five pairs, whatever the differences


def marks_of(artefacts: Artefacts) -> list[tuple[str, str]]:
    """Kind (better, worse, even, unsure, few, small, stale, changed, restricted) and text of each mark."""
    comparison, states = artefacts.comparison, [run["state"] for run in artefacts.runs]
    conclusion, seeds = comparison.get("primary", {}).get("conclusion"), comparison.get("seeds", FEW_SEEDS)
    failed = [gate["dataset"] for gate in comparison.get("gate", ()) if not gate["passed"]]
    stale = sum(state.startswith("stale") for state in states)
    changed = sum(state.endswith("data changed") for state in states)
    marks = [
        (CONCLUSIONS.get(conclusion, "even"), conclusion, conclusion),
        ("unsure", failed and conclusion != "uninformative", f"uninformative: {', '.join(failed)}"),
        ("few", seeds < FEW_SEEDS, f"too few seeds: {seeds}"),
        ("small", "small default" in (artefacts.settings.get("note") or "").lower(), "small default"),
        ("stale", stale, f"stale: {stale:,} of {len(states):,} runs"),
        ("changed", changed, f"data changed: {changed:,} of {len(states):,} runs"),
        ("changed", artefacts.data_changes.of_reports(artefacts.folder.parent.name) and not changed, "data changed"),
        ("restricted", artefacts.restricted, "restricted: numbers only"),
    ]
    return [(kind, text) for kind, applies, text in marks if applies]
