"""Marks beside a study's name: its conclusion, and what a reader must know before believing a number."""

from trueneg.report.page.artefacts import Artefacts
from trueneg.store import provenance

CONCLUSIONS = {
    "better": "better",
    "worse": "worse",
    "no difference seen": "even",
    "cannot tell": "unsure",
    "uninformative": "unsure",
}
FEW_SEEDS = 6  # an exact signed-rank test cannot reach p < 0.05 with five pairs, whatever the differences


def marks_of(artefacts: Artefacts) -> list[tuple[str, str]]:
    """Kind (better, worse, even, unsure, stale, changed, few, small, restricted) and text of each mark."""
    comparison, records, found = artefacts.comparison, artefacts.records, []
    conclusion = comparison.get("primary", {}).get("conclusion")
    if conclusion is not None:
        found.append((CONCLUSIONS.get(conclusion, "even"), conclusion))
    failed = [gate["dataset"] for gate in comparison.get("gate", ()) if not gate["passed"]]
    if failed and conclusion != "uninformative":
        found.append(("unsure", f"uninformative: {', '.join(failed)}"))
    if comparison.get("seeds", FEW_SEEDS) < FEW_SEEDS:
        found.append(("few", f"too few seeds: {comparison['seeds']}"))
    if "small default" in (artefacts.settings.get("note") or "").lower():
        found.append(("small", "small default"))
    stale = sum(provenance.is_stale(record) for record in records)
    if stale:
        found.append(("stale", f"stale: {stale:,} of {len(records):,} runs"))
    changed = sum(bool(artefacts.data_changes.of_run(record)) for record in records)
    if changed:
        found.append(("changed", f"data changed: {changed:,} of {len(records):,} runs"))
    elif artefacts.data_changes.of_reports(artefacts.folder.parent.name):
        found.append(("changed", "data changed"))
    if artefacts.restricted:
        found.append(("restricted", "restricted: numbers only"))
    return found
