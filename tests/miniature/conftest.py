"""What `make test-studies` prints at its end: each section of each shipped file with its outcome."""


def pytest_terminal_summary(terminalreporter):
    lines = []
    for outcome, reports in terminalreporter.stats.items():
        for report in reports:
            section = dict(getattr(report, "user_properties", ())).get("section")
            if section is not None:
                reason = (
                    f"xfail: {report.wasxfail}" if outcome == "xfailed" else {"passed": "passes"}.get(outcome, outcome.upper())
                )
                lines.append((section, reason))
    if lines:
        terminalreporter.section("shipped studies in miniature")
        width = max(len(section) for section, _ in lines)
        for section, reason in sorted(lines):
            terminalreporter.write_line(f"{section:{width}}  {reason}")
