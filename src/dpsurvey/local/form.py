"""The web form of a question: one page that works offline, randomises an answer in the browser and hands out the report.

The page runs the same client as Python, with the same whole-number weights. Its policy forbids it to load or send anything, and
lets no script run but the one beside this file, from which nothing leaves but the file that a respondent asks for.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from fractions import Fraction
from importlib.resources import files
from typing import Any

import numpy as np

from ..text.layout import ceiling_text
from .base import OneReport
from .cells import ELSEWHERE, KM_PER_DEGREE, Grid, Ranges
from .question import NO_ANSWER, Question
from .randomised_response import DirectResponse

# Rows of a grid that are looked at together.
CHUNK = 1 << 20
# A cosine of another make differs from ours in the last of 52 binary digits; this leaves room for sixteen times as much.
DOUBT = 2.0**-48
SECURITY = "default-src 'none'; script-src '{script}'; style-src '{style}'; base-uri 'none'; form-action 'none'"


def form_html(question: Question) -> str:
    """The page for respondents of a question: answers go in, one report for each comes out, as text and as a CSV file.

    >>> asked = Question.ask("smokes", ["no", "yes"], {"kind": "warner", "p": 0.75}, "Do you smoke?")
    >>> page = form_html(asked)
    >>> "<h1>Do you smoke?</h1>" in page, asked.fingerprint in page, "://" in page
    (True, True, False)
    """
    from jinja2 import Environment

    data = _data(question)
    # A page that looks private and is not would do harm: asking for the guarantee refuses where there is none.
    _ = question.mechanism.profile
    folder = files(__package__)
    script = "".join("\n" + (folder / name).read_text(encoding="utf-8") for name in ("form_client.js", "form_page.js"))
    # The policy names the one style and the one script of the page by their hashes, so that no other can run.
    source = (folder / "form.html.j2").read_text(encoding="utf-8")
    style = source.split("<style>")[1].split("</style>")[0]
    policy = SECURITY.format(script=_hash(script), style=_hash(style))
    template = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(source)
    words = {"asks": data["ask"]["what"], "no_answer": NO_ANSWER} | _words(question)
    return template.render(question=question, data=_in_script(data), script=script, policy=policy, **words)


def _data(question: Question) -> dict[str, Any]:
    """All that the script needs to know."""
    # A browser reads numbers up to 2^53 only, so the prime goes as text.
    client = {key: str(value) if key == "prime" else value for key, value in question.mechanism.client().items()}
    return {
        "fingerprint": question.fingerprint,
        "labels": list(question.output_labels),
        "k": question.mechanism.k,
        "client": client,
        "ask": _ask(question),
        "noAnswer": question.categories.index(NO_ANSWER) if NO_ANSWER in question.categories else None,
    }


def _ask(question: Question) -> dict[str, Any]:
    """What the respondent enters, and how it becomes a category."""
    cells = question.cells
    if isinstance(cells, Ranges):
        return {"what": "number", "edges": list(map(float, cells.edges)), "open": cells.ends == "open"}
    if isinstance(cells, Grid):
        amount, unit = cells.parsed
        rule: dict[str, Any] = {"columns": cells.columns(0)} if unit == "deg" else {"amount": amount, "degree": KM_PER_DEGREE}
        elsewhere = question.categories.index(ELSEWHERE) if cells.box is not None else None
        return {"what": "place", "name": cells.name, "rows": cells.rows, **rule, "odd": odd_rows(cells), "elsewhere": elsewhere}
    return {"what": "choice" if question.categories else "text"}


def odd_rows(grid: Grid) -> dict[int, int]:
    """Cells of those rows where the last digit of a cosine decides how many there are, which browsers may not share with us.

    >>> odd_rows(Grid("50 km")), odd_rows(Grid("0.1 deg"))
    ({}, {})
    """
    amount, unit = grid.parsed
    if unit == "deg":
        return {}
    first, last = 0, grid.rows - 1
    if grid.box is not None:
        first, last = grid.cell(grid.box[0], 0.0)[0], grid.cell(grid.box[2], 0.0)[0]
    found: dict[int, int] = {}
    for start in range(first, last + 1, CHUNK):
        rows = np.arange(start, min(start + CHUNK, last + 1))
        south, north = (np.cos(np.radians(-90.0 + (rows + side) * (180.0 / grid.rows))) for side in (0, 1))
        cells = 360.0 * KM_PER_DEGREE * np.maximum(south, north) / amount - 1e-9
        close = np.abs(cells - np.rint(cells)) <= DOUBT * np.maximum(cells, 1.0)
        found |= {int(row): grid.columns(int(row)) for row in rows[close]}
    return found


def _words(question: Question) -> dict[str, Any]:
    """Figures for the explanation: probabilities as percentages, the guarantee rounded up."""
    mechanism = question.mechanism
    epsilon = mechanism.epsilon
    words: dict[str, Any] = {"client": mechanism.client(), "opposite": False, "lots": [], "even": False}
    if isinstance(mechanism, OneReport):
        p, q = mechanism.hit(0)
        words |= {"p": _percent(p), "q": _percent(q)}
        if isinstance(mechanism, DirectResponse):
            # The truth with probability t, else output v by lot: what the law of another answer leaves for v is the lot's part.
            lots = [q, *mechanism.law(0)[1:]]
            words |= {
                "opposite": mechanism.opposite,
                "t": _percent(p - q),
                "always": p - q == 1,
                "never": p == q,
                "even": len(set(lots)) == 1,
            }
            if p - q < 1:
                parts = zip(question.output_labels, lots, strict=True)
                words["lots"] = [(label, _percent(lot / (1 - p + q))) for label, lot in parts if lot]
    # The loss itself was rounded up, so a factor of 3 is a hair more than 3: it may still be called 3.
    factor = math.exp(min(epsilon, 700.0)) * (1.0 - 1e-12)
    return words | {
        "epsilon": ceiling_text(epsilon, 4),
        "factor": ceiling_text(factor, 3),
        # Two answers that seemed equally likely: no report makes one of them more likely than this.
        "belief": _percent(Fraction(ceiling_text(100.0 * factor / (1.0 + factor), 3)) / 100),
    }


def _percent(chance: Fraction) -> str:
    """A probability as a percentage; never 0 or 100 unless it is.

    >>> _percent(Fraction(1, 3)), _percent(Fraction(3, 4)), _percent(Fraction(99999, 100000))
    ('33.3\\xa0%', '75\\xa0%', 'more than 99.9\\xa0%')
    """
    shown = f"{float(100 * chance):.1f}".removesuffix(".0")
    if shown == "0" and chance:
        shown = "less than 0.1"
    if shown == "100" and chance != 1:
        shown = "more than 99.9"
    return f"{shown}\xa0%"


def _hash(text: str) -> str:
    """How a policy names a piece of a page."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _in_script(data: dict[str, Any]) -> str:
    """JSON that can stand inside a script element: nothing in it ends the element or opens a comment.

    >>> _in_script({"label": "</script>"})
    '{"label": "\\\\u003c/script>"}'
    """
    return json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")
