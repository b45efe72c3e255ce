"""Plain text of docstrings and of help, as Markdown: what Markdown would eat is escaped, examples become code."""

from __future__ import annotations

import re
from collections.abc import Sequence

# A word or two, two blanks or more, what it is: the lines that explain the arguments of some functions.
ARGUMENT = re.compile(r"^(\S+(?: \S+)*) {2,}(\S.*)$")
# What stays as it is: code, and a single word that is stressed.
CODE = re.compile(r"(`[^`]+`|(?<![\w*])\*[A-Za-z]+\*(?![\w*]))")
MARKS = re.compile(r"([\\*_\[\]<>|~{}$#])")


def escaped(text: str) -> str:
    """The text with every mark of Markdown as it is, but for `code` and a *word*.

    >>> escaped("a*b* is *not* `a*b`, x_n_ and |y| < 1")
    'a\\\\*b\\\\* is *not* `a*b`, x\\\\_n\\\\_ and \\\\|y\\\\| \\\\< 1'
    """
    parts = CODE.split(text)
    return "".join(part if part[:1] in ("`", "*") and len(part) > 2 else MARKS.sub(r"\\\1", part) for part in parts)


def cell(text: str) -> str:
    """One cell of a table: bars inside of code would end it.

    >>> cell("either `a|b`")
    'either `a\\\\|b`'
    """
    parts = CODE.split(" ".join(text.split()))
    return "".join(part.replace("|", r"\|") if part.startswith("`") else escaped(part) for part in parts)


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """A table of cells that are Markdown already; its first column stays in one piece.

    >>> print(table(("a", "b"), [("1", "2")]))
    {.names}
    | a | b |
    |---|---|
    | 1 | 2 |
    """
    lines = [head, ("---",) * len(head), *rows]
    return "{.names}\n" + "\n".join(
        "| " + " | ".join(line) + " |" if line[0] != "---" else "|" + "|".join(line) + "|" for line in lines
    )


def arguments(paragraph: list[str]) -> str | None:
    """A paragraph of lines "name   what it is" as a table; None if it is not one."""
    rows: list[tuple[str, str]] = []
    for line in paragraph:
        found = ARGUMENT.match(line)
        if found:
            rows.append((found.group(1), found.group(2)))
        elif line.startswith("  ") and rows:
            rows[-1] = (rows[-1][0], f"{rows[-1][1]} {line.strip()}")
        else:
            return None
    return table(("argument", "is"), [(f"`{name}`", cell(text)) for name, text in rows])


def prose(text: str) -> str:
    """A docstring as Markdown: paragraphs, tables of arguments, examples.

    >>> prose("Adds.\\n\\n>>> 1 + 1\\n2").splitlines()
    ['Adds.', '', '```python', '>>> 1 + 1', '2', '```']
    """
    made: list[str] = []
    for block in re.split(r"\n[ \t]*\n", text.strip("\n")):
        lines = block.splitlines()
        start = next((place for place, line in enumerate(lines) if line.lstrip().startswith(">>>")), len(lines))
        if words := lines[:start]:
            made.append(arguments(words) or escaped("\n".join(line.strip() for line in words)))
        if example := "\n".join(lines[start:]):
            made.append(f"```python\n{example}\n```")
    return "\n\n".join(made)


def first_sentence(text: str) -> str:
    """The first sentence of a docstring, for lists.

    >>> first_sentence("Adds 1.5 to it. And more.")
    'Adds 1.5 to it.'
    """
    paragraph = " ".join(text.strip().split("\n\n")[0].split())
    return re.split(r"(?<=[.?!]) (?=[A-Z`])", paragraph)[0]
