"""The summary of `make test-studies`: the outcome of each section of each shipped file."""

WORDS = {"passed": "passes", "failed": "FAILS", "error": "FAILS"}


def pytest_terminal_summary(terminalreporter):
    found = {}
    for outcome, reports in terminalreporter.stats.items():
        for report in reports:
            test, _, section = (
                report.nodeid.removesuffix("]").partition("[")
                if hasattr(report, "when")
                else ("", "", "")
            )
            if test.endswith("::test_a_shipped_section_runs_from_its_source_to_the_page"):
                found[section] = WORDS.get(outcome, outcome)
    if found:
        terminalreporter.section("shipped studies in miniature")
        for section, outcome in sorted(found.items()):
            terminalreporter.write_line(f"{section:{max(map(len, found))}}  {outcome}")
