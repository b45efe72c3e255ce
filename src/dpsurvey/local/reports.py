"""Reports as tables: what clients wrote, checked whole before anything is added up.

A table of reports has the columns `question` (the fingerprint), `report`, `respondent` where respondents are told apart,
`round` where there are two, and any public columns that came along (weights, strata, clusters). One wrong report and nothing
is estimated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import BadData, BadValue
from .base import Bytes, Reports
from .cells import Grid
from .chance import Chance, SecretChance
from .question import Question
from .tables import column, read_table, text_column

OWN = ("question", "respondent", "round", "report")


@dataclass(frozen=True)
class Collected:
    """Reports that belong to one question, one row for each respondent, with their public columns."""

    question: Question
    reports: Reports
    columns: Any
    # Respondents of one round only, who are left out.
    dropped: int = 0

    def __len__(self) -> int:
        return len(self.reports)


def randomize_table(
    question: Question,
    answers: Any,
    *,
    answer: str | tuple[str, str],
    respondent: str | None = None,
    keep: Sequence[str] = (),
    shuffle: bool = False,
    chance: Chance | None = None,
) -> Any:
    """Reports of many answers, as clients would send them. `keep` names public columns to carry along.

    With `shuffle=True` the rows come in a random order and without respondents: nobody can tell whose report is whose.

    >>> asked = Question.ask("smokes", ["no", "yes"], {"kind": "warner", "p": 1})
    >>> randomize_table(asked, {"a": ["yes", "no"], "w": [2, 3]}, answer="a", keep=["w"]).column_names
    ['question', 'report', 'w']
    """
    chance = chance or SecretChance()
    table = read_table(answers)
    for name in keep:
        if name in OWN:
            raise BadValue(f"a public column cannot be called {name!r}", hint="rename it")
        if name in ((answer,) if isinstance(answer, str) else answer):
            raise BadValue(
                "the column of answers cannot be carried along", because="it would stand beside the report", given=name
            )
        column(table, name, "keep")
    if not len(table):
        raise BadData("there are no answers")
    if respondent is not None and len(column(table, respondent, "respondent").unique()) != len(table):
        raise BadData(
            "the column of respondents does not tell them apart", given=respondent, hint="a column with one value for each"
        )
    if question.mechanism.rounds > 1 and (respondent is None or shuffle):
        raise BadValue("reports of two rounds have to be told apart by respondent", hint="respondent=, and no shuffle")
    reports = question.mechanism.randomize(question.codes(_answers(question, table, answer)), chance)
    kept = table.select(list(keep))
    who = None if respondent is None or shuffle else column(table, respondent, "respondent")
    if shuffle:
        order = _random_order(len(reports), chance)
        reports, kept = reports[order], kept.take(pa.array(order))
    rounds = []
    for number, texts in enumerate(question.texts(reports), start=1):
        fields = {"question": pa.array([question.fingerprint] * len(texts), pa.string())}
        fields |= {} if who is None else {"respondent": who}
        fields |= {"round": pa.array([number] * len(texts), pa.int64())} if question.mechanism.rounds > 1 else {}
        fields |= {"report": pa.array(texts, pa.string())}
        rounds.append(pa.table(fields | {name: kept.column(name) for name in keep}))
    return pa.concat_tables(rounds)


def rarest_combination(table: Any, columns: Sequence[str]) -> int:
    """How many rows share the rarest combination of public columns: a shuffled report hides among no more.

    >>> rarest_combination({"region": ["north", "north", "south"], "weight": [20, 20, 35]}, ["region", "weight"])
    1
    """
    rows = read_table(table)
    for name in columns:
        column(rows, name, "keep")
    counts = rows.group_by(list(columns)).aggregate([([], "count_all")]).column("count_all")
    return int(pc.min(counts).as_py() or 0)


def _answers(question: Question, table: Any, answer: str | tuple[str, str]) -> list[Any]:
    if isinstance(question.cells, Grid) and not isinstance(answer, str):
        latitude, longitude = (column(table, name, "answer").to_pylist() for name in answer)
        return list(zip(latitude, longitude, strict=True))
    if not isinstance(answer, str):
        raise BadValue("the answer is one column", hint="two columns, latitude and longitude, go with a grid")
    if isinstance(question.cells, Grid) and answer not in table.column_names:
        raise BadValue("an answer to this question is a place", hint="name the columns: --latitude and --longitude")
    if question.cells is not None and not isinstance(question.cells, Grid):
        return list(column(table, answer, "answer").to_pylist())
    return list(text_column(table, answer, "answer").to_pylist())


def _random_order(count: int, chance: Chance) -> Any:
    """A permutation, all equally likely: sorted by random numbers, which are drawn again if two agree."""
    while True:
        numbers = chance.below(2**61, count)
        order = np.argsort(numbers, kind="stable")
        if count < 2 or np.all(np.diff(numbers[order]) > 0):
            return order


def collect(question: Question, source: Any, *, public: Any = None, unit: str | None = None) -> Collected:
    """The reports of a file or table, or of a list of them, all checked.

    `public` is a table of public columns (weights, strata, clusters) to add by respondent; `unit` is its column of respondents.

    Respondents of a mechanism with two rounds who are missing in one of them are left out of both.

    >>> asked = Question.ask("smokes", ["no", "yes"], {"kind": "warner", "p": 0.75})
    >>> len(collect(asked, {"question": [asked.fingerprint] * 2, "report": ["yes", "no"]}))
    2
    """
    table = gathered(source)
    check_question(question, table, "report")
    if public is not None:
        table = _joined(table, read_table(public), unit or "respondent")
    named = "respondent" in table.column_names
    if named and (table.column("respondent").null_count or pa.types.is_nested(table.column("respondent").type)):
        raise BadData("a report does not say whose it is", hint="fill or drop the column respondent")
    if question.mechanism.rounds > 1:
        collected = _two_rounds(question, table)
    else:
        if named and len(table.column("respondent").unique()) != len(table):
            raise BadData("a respondent has more than one report", hint="each respondent answers once; remove the copies")
        public = table.drop_columns([name for name in ("question", "report") if name in table.column_names])
        collected = Collected(question, decode(question, text_column(table, "report", "report")), public)
    if not len(collected):
        raise BadData("there are no reports to estimate from")
    return collected


def gathered(source: Any) -> Any:
    """One table of reports from one source or a list of them; their columns must agree.

    >>> gathered([{"question": ["x"], "report": ["yes"]}, {"question": ["x"], "report": ["no"]}]).num_rows
    2
    """
    if not isinstance(source, list | tuple):
        return read_table(source)
    tables = [read_table(each) for each in source]
    if not tables:
        raise BadValue("there is no file of reports")
    if len({tuple(sorted(each.column_names)) for each in tables}) > 1:
        raise BadData("the files have different columns", hint="some name respondents or carry weights, and others do not")
    names = tables[0].column_names
    return pa.concat_tables([_as_text(each.select(names)) for each in tables]) if len(tables) > 1 else tables[0]


def _as_text(table: Any) -> Any:
    """The same table with every column as text, as a CSV file has it: files of several kinds can then be one."""
    return table.cast(pa.schema([(name, pa.string()) for name in table.column_names]))


def _joined(table: Any, public: Any, unit: str) -> Any:
    """Reports with the public columns of their respondents."""
    names = text_column(public, unit, "unit")
    if names.null_count or len(names.unique()) != len(names):
        raise BadData("the public table does not tell units apart", given=f"unit={unit!r}", hint="one row for each unit")
    if "respondent" not in table.column_names:
        raise BadData("reports without respondents cannot be matched", hint="carry public columns along with --keep instead")
    places = pc.index_in(text_column(table, "respondent", "respondent"), names)
    if places.null_count:
        raise BadData(
            "a respondent is not in the public table", hint="is it the sample that was drawn, and the right unit column?"
        )
    added = [name for name in public.column_names if name not in (unit, *table.column_names)]
    found = public.select(added).take(places)
    for name in added:
        table = table.append_column(name, found.column(name))
    return table


def check_question(question: Question, table: Any, what: str) -> None:
    """Refuse a table in which one report or share belongs to another question."""
    if not {"question", what} <= set(table.column_names):
        made = (
            "dpsurvey local randomize, or the web form, makes reports"
            if what == "report"
            else "dpsurvey local split makes shares"
        )
        raise BadData(f"this is not a table of {what}s", because=f"it lacks the columns question and {what}", hint=made)
    # One value only, and it is ours: a null is not a value of ours either.
    if len(table) and text_column(table, "question", "question").unique().to_pylist() != [question.fingerprint]:
        raise BadData(
            f"a {what} belongs to another question",
            because="its fingerprint is not that of this question file",
            hint="a changed wording, category or mechanism makes another question; use the file that the reports were made with",
        )


def _two_rounds(question: Question, table: Any) -> Collected:
    if "respondent" not in table.column_names:
        raise BadData("reports of two rounds need the column respondent", because="the rounds have to be matched")
    turns = column(table, "round", "round")
    if pa.types.is_nested(turns.type) or set(map(str, turns.unique().to_pylist())) - {"1", "2"}:
        raise BadData("a report belongs to no round", hint="the column round holds 1 or 2")
    second = np.asarray(pc.equal(turns, pa.scalar("2").cast(turns.type)))
    codes = decode(question, text_column(table, "report", "report"))[:, 0]
    # Thirty-two bits hold every row and label, and halve what millions of respondents take.
    named = column(table, "respondent", "respondent")
    # A dictionary in memory may hold a name twice.
    named = named.dictionary_decode() if pa.types.is_dictionary(named.type) else named
    who = np.asarray(pc.dictionary_encode(named).indices)
    count = int(who.max(initial=-1)) + 1
    places = np.full((count, 2), -1, dtype=np.int32)
    for turn, rows in enumerate((np.flatnonzero(~second), np.flatnonzero(second))):
        if np.any(np.bincount(who[rows], minlength=count) > 1):
            raise BadData("a respondent has more than one report in a round", hint="remove the copies")
        places[who[rows], turn] = rows
    whole = places[np.all(places >= 0, axis=1)]
    reports = np.column_stack([codes[whole[:, 0]], codes[whole[:, 1]]])
    public = table.drop_columns(["question", "report", "round"]).take(pa.array(whole[:, 0]))
    return Collected(question, reports, public, count - len(whole))


def decode(question: Question, texts: Any) -> Reports:
    """Reports from their text; refuses the whole column if one of them is not what a client sends."""
    mechanism = question.mechanism
    if texts.null_count:
        raise BadData("a report is empty", hint="the file may have been cut off")
    if not mechanism.word_bytes:
        found = pc.index_in(texts, pa.array(list(question.output_labels)))
        if found.null_count:
            raise BadData("a report is none of the categories", hint="it may have been cut off, or belong to another question")
        return np.asarray(found)[:, None]
    width = 2 * mechanism.word_bytes
    if len(texts) and not pc.all(pc.equal(pc.binary_length(texts), width)).as_py():
        raise BadData("a report has the wrong length", hint="it may have been cut off, or belong to another question")
    return mechanism.unpack(hex_bytes(texts, width))


def hex_bytes(texts: Any, width: int) -> Bytes:
    """Rows of bytes from hexadecimal text, read from Arrow's buffer in one piece."""
    start = texts.offset * width if not len(texts) else int(np.frombuffer(texts.buffers()[1], np.int32)[texts.offset])
    digits = np.frombuffer(texts.buffers()[2] or b"", np.uint8)[start : start + len(texts) * width]
    value = np.full(256, 255, dtype=np.uint8)
    value[[ord(each) for each in "0123456789abcdef"]] = np.arange(16)
    nibbles = value[digits].reshape(len(texts), width)
    if np.any(nibbles == 255):
        raise BadData("a line holds more than the digits 0-9 and a-f", hint="it may belong to another question")
    return np.asarray(nibbles[:, 0::2] * np.uint8(16) + nibbles[:, 1::2], dtype=np.uint8)
