"""Readers of reports, one module per source, found by the name given in the configuration.

A module defines ``read_reports(settings)``, which yields the id, the patient and the sections of
each report, or in their place why they cannot be read. If the user provides files, it also defines
``user_files(settings)``.
"""

from collections.abc import Iterator, Mapping

Reports = Iterator[tuple[str, str, Mapping[str, str] | str]]
