"""How the site is built from these pages: `make docs`. Nothing in it needs a network."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from pygments.lexers.special import TextLexer  # noqa: E402
from site_reference import write_pages  # noqa: E402

import dpsurvey  # noqa: E402

project = "dpsurvey"
version = release = dpsurvey.__version__
html_title = f"dpsurvey {release}"
language = "en_GB"
html_show_copyright = False
html_show_sphinx = False
html_copy_source = False

extensions = ["myst_parser"]
exclude_patterns = ["_build"]
# Anchors of headings are those that GitHub makes, so that links work in both places.
myst_heading_anchors = 4
myst_enable_extensions = ["attrs_block"]
highlight_language = "text"
# Two hyphens begin an option, and quotes in messages are those of the program.
smartquotes = False
# Types in signatures are words for people; their names lead nowhere. Everything else that is named must be there.
nitpick_ignore_regex = [("py:class", ".*")]
# Sections of statistics.md are one for each kind; what they share stands before them, one level down.
suppress_warnings = ["myst.header"]
python_use_unqualified_type_names = True
maximum_signature_line_length = 90
python_display_short_literal_types = True
add_module_names = False
# Every name of the reference has a heading; entries for methods would make the contents of a page endless.
toc_object_entries = False

html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["site.css"]


# Examples end in an empty line for the tests that run them; people need none.
LAST_LINE = re.compile(r"(^```python\n(?:.*\n)*?)\n```$", re.M)


def tidy(_: Any, __: str, source: list[str]) -> None:
    """Takes the empty last line from examples."""
    source[0] = LAST_LINE.sub(r"\1```", source[0])


def setup(app: Any) -> None:
    """Writes the reference before pages are looked for; tables as text have no colours."""
    app.add_lexer("csv", TextLexer)
    app.connect("builder-inited", lambda _: write_pages(HERE / "reference" / "_generated"))
    app.connect("source-read", tidy)
