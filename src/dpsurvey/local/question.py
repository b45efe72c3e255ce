"""A question: its wording, its categories, and the mechanism that answers go through before they leave the respondent."""

from __future__ import annotations

import hashlib
import json
import os
import unicodedata
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import BadValue, NotFound, did_you_mean
from ..text.keys import check_keys
from ..text.reading import json_of, text_of, toml_of
from .base import LocalMechanism, Reports, mechanism_from
from .cells import Grid, Ranges
from .chance import Chance, SecretChance, Whole
from .choice import choose
from .local_hashing import LocalHashing, label_number

NO_ANSWER = "(no answer)"
SILENT = "(silent)"
KEYS = ("name", "text", "categories", "ranges", "grid", "no_answer", "mechanism")
EXAMPLE = 'name = "smokes", categories = ["no", "yes"], mechanism = { kind = "generalised", epsilon = 1.0 }'


@dataclass(frozen=True)
class Question:
    """What is asked, and how the answer is randomised.

    Categories are public and fixed beforehand. None of them stands for a domain that is not listed, which local hashing takes.
    With cells (`Ranges`, `Grid`) an answer is a number or a place. The fingerprint goes with every report: it is a hash of all
    of this, so a report to another question, or to another version of this one, is told apart.

    >>> asked = Question.ask("smokes", ["no", "yes"], {"kind": "generalised", "epsilon": 1.0})
    >>> asked.mechanism.k, len(asked.fingerprint), asked.randomize("yes") in ("no", "yes")
    (2, 16, True)
    """

    name: str
    categories: tuple[str, ...]
    mechanism: LocalMechanism
    text: str = ""
    cells: Ranges | Grid | None = None

    @classmethod
    def ask(
        cls,
        name: str,
        categories: Sequence[str] | Ranges | Grid,
        mechanism: LocalMechanism | Mapping[str, Any],
        text: str = "",
        *,
        no_answer: bool = False,
    ) -> Question:
        """A question; a mechanism given by its keys takes the number of categories from the question.

        `kind="best"` takes the mechanism with the least error. With `no_answer=True` not answering is one more category, so
        that it is hidden too.

        >>> Question.ask("age", Ranges(0, 100, 50), {"kind": "best", "epsilon": 1.0}, no_answer=True).categories
        ('0 to 50', '50 to 100', '(no answer)')
        """
        cells = categories if isinstance(categories, Ranges | Grid) else None
        labels = cells.labels if cells is not None else tuple(categories)  # type: ignore[arg-type]
        open_domain = not labels
        if not isinstance(name, str) or not name.strip():
            raise BadValue("a question needs a name", hint=EXAMPLE)
        if any(not isinstance(label, str) or not label.strip() for label in labels) or len(
            {unicodedata.normalize("NFC", label) for label in labels}
        ) != len(labels):
            raise BadValue("categories are different, non-empty texts", hint='categories = ["no", "yes"]')
        if any(
            label != label.strip() or any(unicodedata.category(each) in ("Cc", "Zl", "Zp") for each in label) for label in labels
        ):
            raise BadValue("a category has blanks at its ends, or a line break in it", hint="write it in one line")
        if {NO_ANSWER, SILENT} & set(labels):
            raise BadValue(f"{NO_ANSWER!r} and {SILENT!r} are names of our own", hint="no_answer = true adds the first one")
        if no_answer:
            if open_domain:
                raise BadValue("an open domain has no list to add a missing answer to", hint="leave out no_answer")
            labels = (*labels, NO_ANSWER)
        made = mechanism if isinstance(mechanism, LocalMechanism) else _mechanism(dict(mechanism), len(labels))
        if open_domain and made.k:
            raise BadValue(
                "only local hashing takes a domain that is not listed", hint='mechanism = { kind = "hashing", epsilon = 1 }'
            )
        if made.k != len(labels):
            counted = ", (no answer) among them" if no_answer else ""
            raise BadValue(
                "the mechanism is for another number of categories",
                given=f"{made.k} in the mechanism, {len(labels)} in the question{counted}",
            )
        return cls(name, labels, made, text, cells)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Question:
        """The question of a question file, or the one that `to_dict` wrote.

        >>> asked = Question.ask("smokes", ["no", "yes"], {"kind": "warner", "p": 0.75})
        >>> Question.from_dict(asked.to_dict()) == asked
        True
        """
        if not isinstance(fields, Mapping):
            raise BadValue("a question is a table of keys", hint=EXAMPLE)
        check_keys("the question", list(fields), ["name", "mechanism"], list(KEYS), EXAMPLE)
        given = [key for key in ("categories", "ranges", "grid") if key in fields]
        if len(given) > 1:
            raise BadValue("a question has categories, ranges or a grid", given=", ".join(given), hint="keep one of them")
        categories: Sequence[str] | Ranges | Grid = ()
        if given == ["categories"]:
            if not isinstance(fields["categories"], list | tuple):
                raise BadValue("categories are a list of texts", hint='categories = ["no", "yes"]')
            categories = [label for label in fields["categories"] if label != NO_ANSWER]
        elif given and not isinstance(fields[given[0]], Mapping):
            raise BadValue(f"{given[0]} is a table of keys", hint="ranges = { low = 0, high = 100, width = 10 }")
        elif given:
            categories = _cells(given[0], dict(fields[given[0]]))
        if not isinstance(fields["mechanism"], Mapping):
            raise BadValue("the mechanism is a table of keys", hint=EXAMPLE)
        if not isinstance(fields.get("no_answer", False), bool) or not isinstance(fields.get("text", ""), str):
            raise BadValue("no_answer is true or false, and text is a text", given=f"no_answer={fields.get('no_answer')!r}")
        no_answer = bool(fields.get("no_answer")) or NO_ANSWER in (fields.get("categories") or ())
        return cls.ask(fields["name"], categories, fields["mechanism"], str(fields.get("text", "")), no_answer=no_answer)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Question:
        """The question of a TOML or JSON file."""
        name = os.fspath(path)
        try:
            content = text_of(name)
            fields = json_of(content) if name.endswith(".json") else toml_of(content)
        except FileNotFoundError:
            raise NotFound(f"there is no file {name!r}", hint="dpsurvey local question writes one to start from") from None
        except (ValueError, IsADirectoryError) as error:
            raise BadValue(f"{name!r} is not a question file", because=str(error)) from None
        try:
            return cls.from_dict(fields)
        except (OverflowError, UnicodeEncodeError):
            raise BadValue(f"{name!r} holds a number or letter that cannot be used") from None

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready form; `from_dict` reads it back."""
        fields: dict[str, Any] = {"name": self.name, "text": self.text}
        if self.cells is not None:
            fields["ranges" if isinstance(self.cells, Ranges) else "grid"] = self.cells.to_dict()
            fields |= {"no_answer": True} if NO_ANSWER in self.categories else {}
        elif self.categories:
            fields["categories"] = list(self.categories)
        return fields | {"mechanism": self.mechanism.to_dict()}

    @property
    def fingerprint(self) -> str:
        """Sixteen hexadecimal digits that stand for the wording, the categories and the mechanism."""
        asked = json.dumps(self.to_dict() | {"categories": list(self.categories)}, sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(asked.encode()).hexdigest()[:16]

    @property
    def output_labels(self) -> tuple[str, ...]:
        """What a report can be, where reports are labels."""
        return self.categories if self.mechanism.outputs == self.mechanism.k else (*self.categories, SILENT)

    def code(self, answer: Any) -> int:
        """The number of an answer: a category, a number or place where there are cells, any text in an open domain."""
        if answer in (None, "", (None, None)):
            if NO_ANSWER in self.categories:
                return self.categories.index(NO_ANSWER)
            hint = "no_answer = true in the question makes it a category of its own; or leave out who did not answer"
            raise BadValue("an answer is missing", hint=hint)
        label = answer
        if isinstance(self.cells, Ranges):
            label = self.cells.label(answer)
        elif isinstance(self.cells, Grid) and not isinstance(answer, str):
            if not isinstance(answer, list | tuple) or len(answer) != 2:
                raise BadValue("an answer of a grid is a pair: latitude and longitude")
            label = self.cells.label(*answer)
        if not self.categories and isinstance(label, str) and label:
            return label_number(label)
        if not isinstance(label, str) or label not in self.categories:
            # The answer is still secret here, so the message does not repeat it.
            raise BadValue("an answer is none of the categories", hint=did_you_mean("", self.categories))
        return self.categories.index(label)

    def codes(self, answers: Sequence[Any]) -> Whole:
        """The numbers of many answers."""
        known: dict[Any, int] = {}
        found = np.empty(len(answers), dtype=np.int64)
        for place, answer in enumerate(answers):
            if not isinstance(answer, Hashable):
                raise BadValue("an answer is a text or a number")
            if answer not in known:
                known[answer] = self.code(answer)
            found[place] = known[answer]
        return found

    def randomize(self, answer: Any, chance: Chance | None = None) -> str | tuple[str, ...]:
        """One answer in, one report out (one for each round): the text that leaves the respondent.

        >>> Question.ask("smokes", ["no", "yes"], {"kind": "warner", "p": 1}).randomize("yes")
        'yes'
        """
        reports = self.mechanism.randomize(np.array([self.code(answer)]), chance or SecretChance())
        texts = tuple(column[0] for column in self.texts(reports))
        return texts if len(texts) > 1 else texts[0]

    def texts(self, reports: Reports) -> list[list[str]]:
        """Reports as text, one list for each round."""
        if self.mechanism.word_bytes:
            width = 2 * self.mechanism.word_bytes
            digits = np.ascontiguousarray(self.mechanism.pack(reports)).tobytes().hex()
            return [[digits[start : start + width] for start in range(0, len(digits), width)]]
        labels = np.array(self.output_labels, dtype=object)
        return [labels[reports[:, turn]].tolist() for turn in range(reports.shape[1])]


def _mechanism(fields: dict[str, Any], k: int) -> LocalMechanism:
    """A mechanism by its keys, for as many categories as the question has."""
    kind = fields.get("kind")
    if kind == "best":
        check_keys("the mechanism 'best'", [key for key in fields if key != "kind"], ["epsilon"], ["epsilon"])
        if not k:
            return LocalHashing(0, fields["epsilon"])
        return choose(k=k, epsilon=fields["epsilon"]).best.mechanism
    if isinstance(kind, str) and kind in LocalMechanism.kinds and LocalMechanism.kinds[kind].keys().get("k"):
        if fields.get("k", k) != k:
            raise BadValue("the mechanism is for another number of categories", given=f"k={fields['k']}, {k} categories")
        fields["k"] = k
    return mechanism_from(fields)


def _cells(key: str, part: dict[str, Any]) -> Ranges | Grid:
    """Ranges or a grid as they were written down."""
    if key == "ranges":
        needed = [] if "edges" in part else ["low", "high", "width"]
        check_keys("the ranges", list(part), needed, ["low", "high", "width", "ends", "edges"])
        if "edges" in part and not isinstance(part["edges"], list | tuple):
            raise BadValue("edges are a list of numbers", hint="edges = [0, 1000, 2500]")
        return Ranges(**part | ({"edges": tuple(part["edges"])} if "edges" in part else {}))
    check_keys("the grid", list(part), ["size"], ["size", "box"])
    return Grid(part["size"], box_from(part.get("box")))


def box_from(given: Any) -> tuple[float, float, float, float] | None:
    """South, west, north and east as they were written down.

    >>> box_from([48, 2, 49, 3])
    (48.0, 2.0, 49.0, 3.0)
    """
    if given is None:
        return None
    if not isinstance(given, list | tuple) or len(given) != 4 or not all(isinstance(each, int | float) for each in given):
        raise BadValue("the box is four numbers: south, west, north, east", given=f"box={given}")
    return (float(given[0]), float(given[1]), float(given[2]), float(given[3]))
