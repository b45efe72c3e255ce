"""What people look at: texts, plots, the report page. They see plans, releases and ledgers, and compute nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..text.formats import register_format

if TYPE_CHECKING:
    from ..survey.release import Release

# What a report says of itself; it may be replaced by another one, and nothing else may.
REPORT_MARK = '<meta name="generator" content="dpsurvey report">'


@register_format(".html", ".htm", mark=REPORT_MARK)
def report_page(release: Release) -> bytes:
    """The report of a release as a file. Pictures take long to load, so only those who make a report pay for it."""
    from .report import report_html

    return report_html(release).encode()
