"""Reports in shares: each aggregator gets random-looking numbers, and only sums of all aggregators mean anything.

A respondent's report marks categories. Each mark is written as a sum, modulo 2^64, of one number for each aggregator; all but
the last are drawn at random, so any number of aggregators short of all of them hold uniform noise. Aggregators add up what they
were sent and publish the sums; these add up to the sums of marks.

Rules. A respondent whose share is missing at one aggregator would turn the sum into noise: aggregators compare lists of
respondents and sum over those on all lists (`only`); `combine` refuses sums over different lists. A respondent of round one who
is missing in round two is left out of both. An aggregator of a guarded question adds noise, once: a second sum over the same
shares is refused.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import AlreadyThere, BadData, BadValue, Refusal
from ..text.writing import write_file
from .aggregated import EVERYBODY, Aggregated, read_of_aggregator
from .base import Bytes, Words
from .question import Question
from .reports import Collected, check_question, collect, hex_bytes
from .tables import column, read_table, text_column

WORD = 8


def split(question: Question, reports: Any, aggregators: int = 2, *, keep: Sequence[str] = ()) -> list[Any]:
    """The shares of a table of reports, one table for each aggregator; `keep` names public columns that go along.

    Reports without respondents get random names here, the same at every aggregator.

    >>> asked = Question.ask("smokes", ["no", "yes"], {"kind": "warner", "p": 0.75})
    >>> table = {"question": [asked.fingerprint] * 2, "report": ["yes", "no"]}
    >>> [each.column_names for each in split(asked, table)]
    [['question', 'aggregator', 'respondent', 'split', 'share'], ['question', 'aggregator', 'respondent', 'split', 'share']]
    """
    check_aggregators(question, aggregators)
    collected = reports if isinstance(reports, Collected) else collect(question, reports)
    n, mechanism = len(collected), question.mechanism
    if "respondent" in collected.columns.column_names:
        names = text_column(collected.columns, "respondent", "respondent")
    else:
        names = pa.array([os.urandom(8).hex() for _ in range(n)])
    for name in keep:
        if name in ("question", "aggregator", "respondent", "split", "round", "share"):
            raise BadValue(f"a public column cannot be called {name!r}", hint="rename it")
    # One number for each respondent and split: shares of two splits of the same report must not be mixed.
    splits = pa.array([os.urandom(8).hex() for _ in range(n)])
    tables: list[list[Any]] = [[] for _ in range(aggregators)]
    for turn in range(mechanism.rounds):
        left = mechanism.counts(collected.reports, turn).astype(np.uint64)
        for number in range(1, aggregators + 1):
            if number < aggregators:
                own = np.frombuffer(os.urandom(WORD * left.size), dtype=np.uint64).reshape(left.shape)
                left = left - own
            else:
                own = left
            fields = {
                "question": pa.array([question.fingerprint] * n),
                "aggregator": pa.array([number] * n, pa.int64()),
                "respondent": names,
                "split": splits,
            }
            fields |= {"round": pa.array([turn + 1] * n, pa.int64())} if mechanism.rounds > 1 else {}
            fields |= {"share": _texts(own)}
            fields |= {name: column(collected.columns, name, "keep") for name in keep}
            tables[number - 1].append(pa.table(fields))
    return [pa.concat_tables(each) for each in tables]


def check_aggregators(question: Question, aggregators: int) -> None:
    """Refuse a number of aggregators that hides nothing, or that a guarded question was not made for."""
    if isinstance(aggregators, bool) or not isinstance(aggregators, int) or not 2 <= aggregators <= 64:
        raise BadValue("shares need 2 to 64 aggregators", given=f"aggregators={aggregators}")
    if not question.categories:
        raise BadValue("marks of an open domain cannot be split", hint="list the categories")
    mechanism = question.mechanism
    if aggregators != (mechanism.aggregators or aggregators):
        raise BadValue("the question is for another number of aggregators", given=f"{mechanism.aggregators} in the question")


def _texts(words: Words) -> Any:
    width = 2 * WORD * words.shape[1]
    digits = np.ascontiguousarray(words.astype(">u8")).tobytes().hex()
    return pa.array([digits[start : start + width] for start in range(0, len(digits), width)], pa.string())


@dataclass(frozen=True)
class Held:
    """The shares of one aggregator: one row for each respondent, one block for each round."""

    aggregator: int
    respondents: list[str]
    words: list[Words]
    columns: Any
    dropped: int


def held_shares(question: Question, shares: Any) -> Held:
    """The shares of one aggregator, checked whole; respondents of one round only are left out."""
    table = read_table(shares)
    check_question(question, table, "share")
    if not len(table):
        raise BadData("there are no shares")
    own = text_column(table, "aggregator", "aggregator")
    if own.null_count or len(own.unique()) != 1 or not str(own[0].as_py()).isdigit():
        raise BadData("the shares are of several aggregators", hint="each aggregator adds up its own file")
    names, texts = _tokens(table), text_column(table, "share", "share")
    width = 2 * WORD * question.mechanism.k
    if names.null_count or texts.null_count or not pc.all(pc.equal(pc.binary_length(texts), width)).as_py():
        raise BadData("a share is empty or has the wrong length", hint="the file may have been cut off")
    rounds = question.mechanism.rounds
    turns = text_column(table, "round", "round") if rounds > 1 else pa.array(["1"] * len(table))
    if turns.null_count or not pc.all(pc.is_in(turns, pa.array([str(turn + 1) for turn in range(rounds)]))).as_py():
        raise BadData("a share belongs to no round", hint="the column round holds 1 or 2")
    # By name, not by token: two splits of one respondent are two reports, and would cost them twice.
    people = zip(text_column(table, "respondent", "respondent").to_pylist(), turns.to_pylist(), strict=True)
    if len(set(people)) != len(table):
        raise BadData("a respondent has more than one share in a round", hint="remove the copies")
    places: list[dict[str, int]] = [{} for _ in range(rounds)]
    for place, (name, turn) in enumerate(zip(names.to_pylist(), turns.to_pylist(), strict=True)):
        places[int(turn) - 1][name] = place
    everywhere = sorted(set.intersection(*(set(each) for each in places)))
    somewhere = set.union(*(set(each) for each in places))
    words = _words(hex_bytes(texts, width))
    rows = [[each[name] for name in everywhere] for each in places]
    return Held(
        int(own[0].as_py()),
        everywhere,
        [words[row] for row in rows],
        table.take(pa.array(rows[0], pa.int64())),
        len(somewhere) - len(everywhere),
    )


def roster(question: Question, shares: Any) -> dict[str, Any]:
    """The list of respondents that one aggregator has shares of, as opaque tokens: to compare with the other aggregators.

    >>> asked = Question.ask("smokes", ["no", "yes"], {"kind": "warner", "p": 0.75})
    >>> table = {"question": [asked.fingerprint] * 2, "report": ["yes", "no"]}
    >>> first, second = (roster(asked, each) for each in split(asked, table))
    >>> first["aggregator"], second["aggregator"], first["respondents"] == second["respondents"]
    (1, 2, True)
    """
    held = held_shares(question, shares)
    return {"question": question.fingerprint, "aggregator": held.aggregator, "respondents": held.respondents}


def common_respondents(question: Question, rosters: Iterable[Mapping[str, Any] | str | os.PathLike[str]]) -> set[str]:
    """The respondents on the rosters of all aggregators, given as `roster` returns them or as JSON files: what to add up `only`.

    >>> asked = Question.ask("smokes", ["no", "yes"], {"kind": "warner", "p": 0.75})
    >>> lists = [{"question": asked.fingerprint, "respondents": names} for names in (["a", "b"], ["b", "c"])]
    >>> common_respondents(asked, lists)
    {'b'}
    """
    listed = []
    for each in rosters:
        fields = each if isinstance(each, Mapping) else read_of_aggregator(each)
        tokens = fields.get("respondents")
        sound = isinstance(tokens, list) and all(isinstance(token, str) for token in tokens)
        if fields.get("question") != question.fingerprint or not sound:
            name = "a list" if isinstance(each, Mapping) else repr(os.path.basename(each))
            raise BadData(f"{name} is not a roster of this question")
        listed.append(set(fields["respondents"]))
    if not listed:
        raise BadValue("there are no rosters to compare")
    return set.intersection(*listed)


def _tokens(table: Any) -> Any:
    """One opaque token for each share: the same at every aggregator and in every round, and for one split of one report."""
    named, split_ = text_column(table, "respondent", "respondent"), text_column(table, "split", "split")
    if named.null_count or split_.null_count:
        raise BadData("a share does not say whose it is", hint="the file may have been cut off")
    pairs = zip(named.to_pylist(), split_.to_pylist(), strict=True)
    return pa.array([hashlib.sha256(json.dumps(pair).encode()).hexdigest()[:32] for pair in pairs])


def _words(bytes_: Bytes) -> Words:
    return np.ascontiguousarray(bytes_).view(">u8").astype(np.uint64).reshape(len(bytes_), -1)


def aggregate(
    question: Question,
    shares: Any,
    *,
    only: Collection[str] | None = None,
    by: str | None = None,
    least: int = 1,
    again: bool = False,
) -> Aggregated:
    """One aggregator's sums: over all its respondents or `only` those, in all or `by` the groups of a public column.

    Publish the first result, and no second one: the difference of two sums is a single report, and for a guarded question a
    second sum is a second release. From a file it remembers that it did (FILE.aggregated) and refuses; `again=True` allows it
    for mechanisms of one report, which then keep the loss of a report seen alone and nothing better. Groups of fewer than
    `least` respondents are refused.

    >>> asked = Question.ask("smokes", ["no", "yes"], {"kind": "warner", "p": 0.75})
    >>> table = {"question": [asked.fingerprint] * 2, "report": ["yes", "no"]}
    >>> aggregate(asked, split(asked, table)[0]).respondents
    {'': 2}
    """
    held = held_shares(question, shares)
    keep = np.array([only is None or name in only for name in held.respondents], dtype=np.bool_)
    if not keep.any():
        raise BadData("no respondent is left to add up")
    groups = [EVERYBODY] * len(keep) if by is None else text_column(held.columns, by, "by").to_pylist()
    if None in groups:
        raise BadData("a share has no group", given=f"by={by!r}")
    noisy = question.mechanism.noise is not None
    sizes = Counter(str(group) for group, kept in zip(groups, keep.tolist(), strict=True) if kept)
    if min(sizes.values()) < least:
        raise Refusal(
            "a sum would be over fewer respondents than allowed", given=f"least={least}", hint="larger groups, or other rosters"
        )
    if isinstance(shares, str | os.PathLike) and (noisy or not again):
        _remember(os.fspath(shares), noisy)
    sums, counts = {}, {}
    for group in sorted({str(each) for each in groups}):
        rows = keep & np.array([str(each) == group for each in groups])
        if not rows.any():
            continue
        counts[group] = int(rows.sum())
        totals = [block[rows].sum(axis=0, dtype=np.uint64) for block in held.words]
        sums[group] = question.mechanism.publish(totals)
    members = sorted(
        (str(group), name) for group, name, kept in zip(groups, held.respondents, keep.tolist(), strict=True) if kept
    )
    roster = hashlib.sha256(json.dumps(members).encode()).hexdigest()
    return Aggregated(question.fingerprint, held.aggregator, roster, counts, held.dropped, sums, noisy)


def _remember(path: str, noisy: bool) -> None:
    try:
        write_file(f"{path}.aggregated", "these shares were added up; the difference of two sums would show single reports\n")
    except AlreadyThere:
        why = "a second sum with fresh noise is a second release" if noisy else "the difference of two sums can be one report"
        raise Refusal(
            "these shares were added up before",
            because=f"{why} of the same answers",
            hint="publish the first one"
            if noisy
            else "--again, if respondents were guaranteed no more than the loss of one report",
        ) from None
