"""A world of small files, ways to damage each of them, and `dpsurvey` in this process; read by the test file beside it.

Every case is one command line over files of which one was damaged. All of it follows from a seed.
"""

import contextlib
import hashlib
import io
import json
import random
import shutil
import signal
import sqlite3
import sys
import tomllib
import traceback
from contextlib import closing

import pyarrow.parquet as pq
import tomli_w

import dpsurvey as ds
from dpsurvey.cli.app import main
from dpsurvey.ledger.entry import START, canonical, digest

# Nothing that is printed may hold any of these: they are in every row of every confidential file, and nowhere else.
CANARIES = ("7351906", "qanary", "60917735")
SECONDS = 60
REPLACE = ("replace-one", "--neighbours", "replace-one")
RULES = ("neyman", "proportional", "cost", "equal")
YEARBOOK = ("--source", "Yearbook")
SURVEY = """
[survey]
name = "lfs"
ledger = "books.ledger"
anchor = "books.anchor"
[frame]
table = "register.csv"
unit = "id"
size = 60
[frame.categories]
region = { north = 40, south = 20 }
[design]
kind = "stratified"
by = "region"
within = { kind = "srs", n = 10 }
[setting]
protect = "frame"
neighbours = "replace-one"
[budget]
epsilon = 8
[release]
share = 0.25
[fieldwork]
response = 1.0
cost = 2.5
[[statistic]]
kind = "mean"
of = "income"
bounds = [0, 9_000_000]
by = "region"
[[statistic]]
kind = "proportion"
of = "status"
value = "idle"
[[statistic]]
kind = "quantile"
of = "income"
q = 0.5
bounds = [0, 9_000_000]
"""
QUESTION = """
name = "smokes"
text = "Do you smoke?"
categories = ["no", "yes"]
mechanism = { kind = "generalised", epsilon = 1.0 }
"""
NASTY = [
    None, True, False, "", " ", "x", "north", "=1+1", "\u0000", "\u202e", "\ud83d\ude00", "x" * 5000, "../..",
    "-", "nan", "1e999", 0, 1, -1, 2, 10**18, 10**400, -(10**400), 2**63,
    0.0, -0.0, 0.5, 5e-324, 1e-300, 1e-17, 1e300, 1.7e308, -1e308,
    float("inf"), float("-inf"), float("nan"), [], {}, [[]], [{}], {"": None}, [1, 2, 3], ["a", "a"], [None],
]  # fmt: skip
NUMBERS = [
    "5e-324", "1e-300", "1e-17", "0", "-0", "-1", "1", "2", "7", "30", "0.5", "0.1", "3e5", "1e300", "1.7e308",
    "1e309", "-1e308", "nan", "inf", "-inf", "", " ", "x", "1,2", "1_000", "0x10", "1e",
    "9" * 400, "10000000000000000000", "٣", "½", "1e-400", "0.1.2", "--1", "1;2",
]  # fmt: skip


def damaged_bytes(rng, content):
    """The bytes of a file with some of them changed, moved, repeated or gone."""
    found = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 2, 5, 30))):
        at, length = rng.randrange(len(found) + 1), rng.choice((1, 1, 2, 8, 64, 512))
        way = rng.randrange(7)
        if way == 0 and at < len(found):
            found[at] ^= 1 << rng.randrange(8)
        elif way == 1:
            found[at : at + length] = rng.randbytes(length)
        elif way == 2:
            del found[at : at + length]
        elif way == 3:
            found[at:at] = found[at : at + length] * rng.choice((1, 2, 50))
        elif way == 4:
            del found[at:]
        elif way == 5:
            found[at:at] = rng.choice(
                (b"[" * 3000, b"{" * 3000, b'"', b"\n", b"\0", b",", b"9" * 400, b"\xff", b"\xe9", b"=", b"e9")
            )
        else:
            other = rng.randrange(len(found) + 1)
            found[at : at + length], found[other : other + length] = found[other : other + length], found[at : at + length]
        if not found:
            break
    return bytes(found)


def places(tree, path=()):
    """The places in lists and tables, but for those that are nested deeply."""
    yield path
    if len(path) > 15:
        return
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, each in items:
        yield from places(each, (*path, key))


def damaged_tree(rng, tree):
    """Lists and tables of which something was replaced, removed, renamed, repeated or nested."""
    tree = json.loads(json.dumps(tree))
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        path = rng.choice(list(places(tree))[1:] or [()])
        if not path:
            return rng.choice(NASTY)
        above = tree
        for key in path[:-1]:
            above = above[key]
        key, way = path[-1], rng.randrange(8)
        if way < 4:
            above[key] = rng.choice(NASTY)
        elif way == 4:
            del above[key]
        elif way == 5 and isinstance(above, dict):
            above[rng.choice(("x", "", key + " ", key.upper(), "kind"))] = above.pop(key)
        elif way == 6:
            other = tree
            for step in rng.choice(list(places(tree))):
                other = other[step]
            above[key] = json.loads(json.dumps(other))
        else:
            for _ in range(rng.choice((1, 3, 80, 250))):
                above[key] = [above[key]] if rng.random() < 0.5 else {"x": above[key]}
    return tree


def written(rng, tree, kind):
    """A damaged tree as text; what its format cannot hold is left out, now and then as bytes that are damaged once more."""
    try:
        text = tomli_w.dumps(_without_none(tree)) if kind == "toml" else json.dumps(tree)
    except (TypeError, ValueError, RecursionError, AttributeError):
        text = "a = " + "[" * 3000 + "]" * 3000
    content = text.encode("utf-8", "surrogatepass")
    return damaged_bytes(rng, content) if rng.random() < 0.1 else content


def _without_none(tree):
    if isinstance(tree, dict):
        return {key: _without_none(each) for key, each in tree.items() if each is not None}
    return [_without_none(each) for each in tree if each is not None] if isinstance(tree, list) else tree


def damaged_table(rng, content):
    """A CSV file with cells, lines or columns that are not as they should be."""
    lines = [line.split(",") for line in content.decode().splitlines()]
    for _ in range(rng.choice((1, 1, 2, 5))):
        line = rng.choice(lines)
        way = rng.randrange(8)
        cell = rng.choice(
            [*NUMBERS, '"', '"""', "=1+1", "x" * 3000, "\u0000", "NULL", "yes", "north", "-3", "\u202e", "a\tb", "'"]
        )
        if way < 3:
            line[rng.randrange(len(line))] = cell
        elif way == 3:
            line.append(cell)
        elif way == 4 and len(line) > 1:
            line.pop(rng.randrange(len(line)))
        elif way == 5:
            lines.insert(rng.randrange(len(lines) + 1), list(rng.choice(lines)))
        elif way == 6 and len(lines) > 1:
            lines.pop(rng.randrange(len(lines)))
        else:
            rng.shuffle(lines)
    text = "\n".join(",".join(line) for line in lines) + rng.choice(("\n", "\n", "\n", "", "\r\n", "\n\n"))
    found = text.encode("utf-8", "surrogatepass")
    return damaged_bytes(rng, found) if rng.random() < 0.15 else found


def forged(rng, place):
    """A ledger of which one entry says something else, and every hash after it was computed anew."""
    with closing(sqlite3.connect(place)) as connection:
        for trigger in ("no_update", "no_delete", "no_replace"):
            connection.execute(f"DROP TRIGGER IF EXISTS {trigger}")
        entries = [json.loads(text) for (text,) in connection.execute("SELECT text FROM entries ORDER BY seq")]
        at = rng.randrange(len(entries))
        entries[at] = (damaged_tree(rng, entries[at]) if rng.random() < 0.2 else None) or entries[at]
        if isinstance(entries[at], dict) and isinstance(entries[at].get("body"), dict):
            entries[at]["body"] = damaged_tree(rng, entries[at]["body"])
        previous = START
        for seq, entry in enumerate(entries, 1):
            if isinstance(entry, dict) and "previous" in entry:
                entry["previous"] = previous
            try:
                text = canonical(entry)
            except (ValueError, RecursionError):
                text = json.dumps(entry) if seq != at + 1 else "{}"
            previous = digest(text)
            connection.execute("UPDATE entries SET text = ?, hash = ? WHERE seq = ?", (text, previous, seq))
        connection.commit()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def damaged_pages(rng, place):
    """A ledger file with damaged bytes or pages, cut, or with pages in another order."""
    content = bytearray(place.read_bytes())
    size, pages = 4096, len(content) // 4096
    way = rng.randrange(6)
    if way == 0:
        del content[rng.randrange((pages - 1) * size, len(content)) :]
    elif way == 1:
        del content[rng.randrange(len(content)) :]
    elif way == 2:
        one, other = rng.randrange(pages) * size, rng.randrange(pages) * size
        content[one : one + size], content[other : other + size] = content[other : other + size], content[one : one + size]
    elif way == 3:
        at = rng.randrange(pages) * size
        content[at : at + size] = rng.choice((bytes(size), rng.randbytes(size), b"\xff" * size))
    else:
        for _ in range(rng.choice((1, 1, 3, 50))):
            content[rng.randrange(100 if way == 4 else len(content))] ^= 1 << rng.randrange(8)
    place.write_bytes(content)


def dpsurvey(*words):
    """Exit code and everything printed; a traceback, as text, where anything but words came out."""
    out, err = io.StringIO(), io.StringIO()
    code, crash, before = 0, "", sys.argv
    sys.argv = ["dpsurvey", *map(str, words)]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), _in_time():
            main()
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 0 if error.code is None else 99
    except BaseException:
        crash = traceback.format_exc()
    finally:
        sys.argv = before
    return code, out.getvalue(), err.getvalue(), crash


@contextlib.contextmanager
def _in_time():
    def stop(*_):
        raise TimeoutError(f"no answer within {SECONDS} seconds")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def make_world(world):
    """Whole files of every kind, and what the ledger has on record."""
    # Made in another place: where a sealed sample lies is on record, and it is to be found beside the ledger.
    folder = world.with_name("made")
    folder.mkdir()
    rng = random.Random(1)
    lines = ["id,region,status,income,name"]
    for unit in range(60):
        region, status = "north" if unit < 40 else "south", rng.choice(("idle", "busy"))
        lines.append(f"60917735{unit:02d},{region},{status},7351906.{rng.randrange(1000):03d},qanary{unit}")
    (folder / "register.csv").write_text("\n".join(lines) + "\n")
    (folder / "survey.toml").write_text(SURVEY)
    (folder / "question.toml").write_text(QUESTION)
    (folder / "local.csv").write_text(
        "id,smokes,region\n" + "".join(f"qanary{n},{'yes' if n % 3 else 'no'},north\n" for n in range(60))
    )
    (folder / "strata.csv").write_text("stratum,size,sd,cost\nnorth,4000,21.5,3\nsouth,2000,8,4.5\n")
    (folder / "sizes.csv").write_text("size,take\n12,3\n8,2\n30,9\n")
    (folder / "values.txt").write_text("\n".join(str(value) for value in range(1, 102)))
    (folder / "secret.txt").write_text("\n".join(line.split(",")[3] for line in lines))
    done = [
        dpsurvey("release", folder / "survey.toml", "--out", folder / "first"),
        dpsurvey("key", "new", folder / "panel.key"),
        dpsurvey(
            "local",
            "randomize",
            folder / "question.toml",
            folder / "local.csv",
            "--respondent",
            "id",
            "-o",
            folder / "reports.csv",
        ),
        dpsurvey(
            "ledger", "budget", folder / "books.ledger", "--epsilon", "50", "--protect", "frame", "--neighbours", "replace-one"
        ),
    ]
    sealed = SURVEY.replace('"lfs"', '"panel"')
    (folder / "panel.toml").write_text(sealed)
    done.append(dpsurvey("draw", folder / "panel.toml", "-o", folder / "sample.parquet"))
    done.append(dpsurvey("ledger", "export", folder / "books.ledger", "-o", folder / "books.export"))
    drawn = {str(unit) for unit in pq.read_table(folder / "sample.parquet").column("unit").to_pylist()}
    (folder / "answers.csv").write_text(
        "\n".join([lines[0], *(line for line in lines[1:] if line.split(",")[0] in drawn)]) + "\n"
    )
    assert not [each for each in done if each[0] or each[3]], done
    folder.rename(world)
    return on_record(world / "books.ledger")


def on_record(place):
    """Every hash of a ledger that verifies."""
    found = ds.verify_ledger(place)
    assert not found.damages, str(found)
    with closing(sqlite3.connect(f"file:{place}?mode=ro", uri=True)) as connection:
        return [hash for (hash,) in connection.execute("SELECT hash FROM entries ORDER BY seq")]


# One study for each kind of file: a damaged copy in a folder of its own, and the command lines that read it.


def _release(rng, here):
    path = here / "first" / "release.json"
    content = path.read_bytes()
    path.write_bytes(
        damaged_bytes(rng, content) if rng.random() < 0.3 else written(rng, damaged_tree(rng, json.loads(content)), "json")
    )
    return rng.choice(
        (
            ("report", path, "-o", here / "again.html"),
            ("report", path, "-o", here / "again.html"),
            ("plan", here / "survey.toml", "--expect-from", path),
            ("plan", here / "survey.toml", "--expect-from", path),
            (
                "allocate",
                "neyman",
                "--n",
                "30",
                "--release",
                path,
                "--of",
                "income",
                "--stratum",
                "north=40",
                "--stratum",
                "south=20",
            ),
            ("compare", "medians", path, "--of", "income", "--size", "101", "--bounds", "0,9000000", "--draws", "2", "--at", "1"),
            ("ledger", "verify", here / "books.ledger", "--against", path),
        )
    )


def _survey(rng, here):
    path = here / "survey.toml"
    content = path.read_bytes()
    tree = tomllib.loads(content.decode())
    path.write_bytes(damaged_bytes(rng, content) if rng.random() < 0.3 else written(rng, damaged_tree(rng, tree), "toml"))
    return rng.choice(
        (
            ("plan", path),
            ("plan", path),
            ("plan", path, "--aim", "income=400000"),
            ("check", path),
            ("ledger", path),
            ("ledger", "what-if", path),
            ("rate", path, "--at", "0.1,1"),
            ("compare", "settings", path),
            ("release", path, "--out", here / "second"),
        )
    )


def _question(rng, here):
    path = here / "question.toml"
    content = path.read_bytes()
    tree = tomllib.loads(content.decode())
    path.write_bytes(damaged_bytes(rng, content) if rng.random() < 0.3 else written(rng, damaged_tree(rng, tree), "toml"))
    return rng.choice(
        (
            ("local", "randomize", path, here / "local.csv", "-o", here / "again.csv"),
            ("local", "estimate", path, here / "reports.csv"),
            ("local", "guarantee", path),
            ("local", "leakage", path),
            ("local", "form", path, "-o", here / "form.html"),
        )
    )


def _look(rng, here):
    place = here / "books.ledger"
    return rng.choice(
        (
            ("ledger", place),
            ("ledger", place, "--json"),
            ("ledger", "show", place),
            ("ledger", "verify", place),
            ("ledger", "verify", place, "--against", here / "first" / "release.json", "--against", here / "books.anchor"),
            ("ledger", "export", place, "-o", here / "again.export"),
            ("ledger", "what-if", here / "survey.toml", "--share", "0.1"),
            ("ledger", "budget", place, "--epsilon", "40", "--protect", "frame", "--neighbours", "replace-one"),
            ("ledger", "close", place, "--survey", "lfs"),
            ("ledger", "carry", place, here / "carried.ledger"),
            ("release", here / "panel.toml", "--out", here / "second"),
        )
    )


def _ledger_pages(rng, here):
    damaged_pages(rng, here / "books.ledger")
    return _look(rng, here)


def _ledger_entries(rng, here):
    forged(rng, here / "books.ledger")
    return _look(rng, here)


def _sample(rng, here):
    path = here / rng.choice(("sample.parquet", "sample.parquet", "sample.manifest.json"))
    path.write_bytes(damaged_bytes(rng, path.read_bytes()))
    answers = () if rng.random() < 0.5 else ("--responses", here / "answers.csv")
    return ("release", here / "panel.toml", "--out", here / "second", *answers)


def _key(rng, here):
    path = here / "panel.key"
    content = path.read_bytes()
    path.write_bytes(
        damaged_bytes(rng, content) if rng.random() < 0.8 else b"\n" * rng.randrange(3) + content + b" " * rng.randrange(3)
    )
    draw = ("draw", here / "survey.toml", "-o", here / "another.parquet", "--key-file", path)
    return rng.choice(
        (("key", "show", path), ("key", "show", path), draw, ("ledger", "sign", here / "books.ledger", "--key-file", path))
    )


def _anchor(rng, here):
    path = here / "books.anchor"
    content = path.read_bytes()
    if rng.random() < 0.5:
        path.write_bytes(damaged_bytes(rng, content))
    else:
        lines = [damaged_tree(rng, json.loads(line)) for line in content.split(b"\n") if line]
        path.write_bytes(b"\n".join(written(rng, line, "json") for line in lines))
    return rng.choice(
        (
            ("ledger", "verify", here / "books.ledger"),
            ("ledger", "verify", here / "books.ledger", "--against", path),
            ("ledger", here / "books.ledger"),
            ("ledger", "close", here / "books.ledger", "--survey", "lfs"),
            ("ledger", "anchor", here / "books.ledger", path),
        )
    )


def _export(rng, here):
    path = here / "books.export"
    content = path.read_bytes()
    if rng.random() < 0.6:
        path.write_bytes(damaged_bytes(rng, content))
    else:
        head, *rest = content.decode().split("\n")
        path.write_bytes(written(rng, damaged_tree(rng, json.loads(head)), "json") + "\n".join(["", *rest]).encode())
    return rng.choice((("ledger", "verify", path), ("ledger", "verify", here / "books.ledger", "--against", path)))


def _answers(rng, here):
    name = rng.choice(("answers.csv", "local.csv", "reports.csv", "register.csv"))
    path = here / name
    path.write_bytes(damaged_table(rng, path.read_bytes()))
    if name == "answers.csv":
        return ("release", here / "panel.toml", "--out", here / "second", "--responses", path)
    if name == "local.csv":
        return ("local", "randomize", here / "question.toml", path, "--respondent", "id", "-o", here / "again.csv")
    if name == "reports.csv":
        return ("local", "estimate", here / "question.toml", path)
    return rng.choice((("check", here / "survey.toml"), ("release", here / "survey.toml", "--out", here / "second")))


def _tables(rng, here):
    name = rng.choice(("strata.csv", "sizes.csv", "values.txt", "secret.txt", "register.csv"))
    path = here / name
    if name not in ("secret.txt", "register.csv"):
        path.write_bytes(damaged_table(rng, path.read_bytes()))
    medians = ("compare", "medians", path, "--bounds", "0,200", "--draws", "2", "--epsilons", "1", "--at", "0.5,1")
    ways = {
        "strata.csv": ("allocate", rng.choice(RULES), "--n", "30", "--strata", path, *YEARBOOK),
        "sizes.csv": (
            "amplify", "cluster", "--table", path, "--epsilon", "0.1", "--base", "add-remove", "--neighbours", "add-remove",
        ),
        "values.txt": medians,
        "secret.txt": medians,
        "register.csv": rng.choice(
            (
                ("allocate", "neyman", "--n", "30", "--strata", path),
                ("init", here / "new.toml", "--table", path),
                medians,
                ("report", path),
                ("plan", path),
                ("plan", here / "survey.toml", "--expect-from", path),
                ("ledger", path),
                ("ledger", "verify", path),
                ("ledger", "verify", here / "books.ledger", "--against", path),
                ("ledger", "anchor", here / "books.ledger", path),
                ("key", "show", path),
                ("local", "guarantee", path),
                ("amplify", "cluster", "--table", path, "--epsilon", "1", "--base", "add-remove", "--neighbours", "add-remove"),
                ("amplify", "poisson", "--rate", path, "--epsilon", "1", "--base", "add-remove", "--neighbours", "add-remove"),
                ("rate", here / "survey.toml", "--at", path),
            )
        ),
    }  # fmt: skip
    return ways[name]


def _numbers(rng, here):
    number, other = rng.choice(NUMBERS), rng.choice(NUMBERS)
    add = ("--base", "add-remove", "--neighbours", "add-remove")
    file, ledger = here / "survey.toml", here / "books.ledger"
    panel = ("ledger", "panel", ledger, "--name", "p", "--key-file", here / "panel.key")
    cells = ("local", "discretise", here / "register.csv", "--value", "income", "-o", here / "cells.csv")
    return rng.choice(
        (
            ("plan", file, "--aim", f"income={number}"),
            ("plan", file, "--aim", f"income={number}", "--least-epsilon"),
            ("plan", file, "--aim", f"income={number}", "--least-n"),
            ("plan", file, "--aim", f"status={number}", "--aim", f"income={other}"),
            ("plan", file, "--epsilons", f"{number},{other}"),
            ("rate", file, "--at", number),
            ("rate", file, "--at", "0.1", "--importance", f"income={number}"),
            ("amplify", "poisson", "--rate", number, "--epsilon", other, *add),
            ("amplify", "poisson", "--rate", "0.1", "--epsilon", other, "--delta", number, *add),
            ("amplify", "srs", "--n", number, "--population", other, "--epsilon", "1", "--base", *REPLACE),
            ("amplify", "cluster", "--sizes", f"12,{number}", "--take", "1", "--epsilon", other, *add),
            ("ledger", "budget", ledger, "--epsilon", number, "--delta", other, "--protect", "frame", *REPLACE[1:]),
            ("ledger", "show", ledger, "--last", number),
            ("ledger", "what-if", file, "--share", number),
            (*panel, "--rate", number, "--waves", "3", "--epsilon", other),
            (*panel, "--rate", "0.1", "--waves", "2", "--mu", number, "--delta", other),
            ("key", "start", "--rate", number, "--wave", "2", "--overlap", other),
            ("key", "start", "--rate", "0.1", "--wave", number, "--overlap", other),
            ("draw", file, "-o", here / "another.parquet", "--key-file", here / "panel.key", "--start", number),
            ("allocate", "neyman", "--n", number, "--strata", here / "strata.csv", *YEARBOOK),
            ("allocate", "cost", "--budget", number, "--strata", here / "strata.csv", *YEARBOOK),
            ("allocate", "neyman", "--n", "30", "--stratum", f"a={number},sd={other}", "--stratum", "b=20,sd=3", *YEARBOOK),
            ("compare", "designs", "--rate", number, "--epsilon", other),
            ("compare", "medians", here / "values.txt", "--bounds", f"{number},{other}", "--draws", "2"),
            ("compare", "medians", here / "values.txt", "--bounds", "0,200", "--draws", "2", "--epsilons", number, "--at", other),
            ("local", "choose", "--k", rng.choice(("2", "5", number)), "--epsilon", other),
            ("local", "choose", "--k", "2", "--epsilon", "1", "--moe", number, "--response", rng.choice(("1", other))),
            ("local", "choose", "--k", "2", "--epsilon", "1", "--moe", "0.05", "--deff", number, "--population", other),
            ("local", "guarantee", here / "question.toml", "--reports", number, "--delta", other),
            ("local", "leakage", here / "question.toml", "--epsilon", number),
            ("local", "estimate", here / "question.toml", here / "reports.csv", "--population", number, "--level", other),
            (*cells, "--low", number, "--high", other, "--width", "1e6"),
            (*cells, "--low", "0", "--high", "1e7", "--width", number),
        )
    )  # fmt: skip


STUDIES = {
    "releases": (_release, True),
    "survey files": (_survey, True),
    "question files": (_question, True),
    "pages of ledgers": (_ledger_pages, False),
    "entries of ledgers": (_ledger_entries, False),
    "sealed samples": (_sample, True),
    "keys": (_key, True),
    "anchors": (_anchor, True),
    "exports": (_export, True),
    "answers": (_answers, True),
    "tables": (_tables, True),
    "numbers": (_numbers, True),
}


def fuzzed(study, count, world, before, folder, seed):
    """What went wrong in so many cases of a study, and how many ended with each exit code."""
    damage, keeps_ledger = STUDIES[study]
    wrong, codes = [], {}
    for case in range(count):
        rng = random.Random(hashlib.sha256(f"{study} {seed} {case}".encode()).digest())
        here = folder / "here"
        shutil.copytree(world, here)
        # The survey was released and its sample drawn elsewhere: paths in the ledger are found beside it.
        words = damage(rng, here)
        code, out, err, crash = dpsurvey(*words)
        codes[code] = codes.get(code, 0) + 1
        told = f"{study} {case}: {' '.join(str(each)[:60] for each in words)}"
        if crash:
            wrong.append(f"{told}\n{crash}")
        elif code not in (0, 1, 2) or (code and len(err.strip()) < 10):
            wrong.append(f"{told}\nexit code {code}\n{err}")
        elif (
            code
            and "hint" not in err
            and "given" not in err
            and "because" not in err
            and "Usage" not in err
            and "rror" not in err
        ):
            wrong.append(f"{told}\nsays nothing useful\n{err}")
        if leaks := [each for each in CANARIES if each in out + err]:
            wrong.append(f"{told}\nleaks {leaks}\n{out}\n{err}")
        if keeps_ledger:
            try:
                after = on_record(here / "books.ledger")
            except Exception:
                after = [traceback.format_exc()]
            if after[: len(before)] != before:
                wrong.append(f"{told}\nthe ledger lost something\n{after}")
        for path in here.rglob("*"):
            if path.name.startswith(".dpsurvey-"):
                wrong.append(f"{told}\nleft {path.name} behind")
        shutil.rmtree(here)
    return wrong, codes
