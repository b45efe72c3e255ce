"""The site builds without a warning, opens offline, and every page, link, anchor, public name and command is in it."""

import doctest
import importlib
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest
import typer

from dpsurvey.cli.app import app
from tests.house.public import public_modules, public_names

ROOT = Path(__file__).parents[2]
# One process builds the site, and looks at it.
pytestmark = pytest.mark.xdist_group("site")
ELSEWHERE = re.compile(r"^(?:[a-z]+:)?//", re.I)


class Page(HTMLParser):
    """The anchors of a page, where it leads, and what it loads."""

    def __init__(self, text):
        super().__init__()
        self.anchors, self.links, self.loads, self.sidebar = set(), [], [], []
        self.in_sidebar = False
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.anchors |= {found[key] for key in ("id", "name") if found.get(key)}
        self.in_sidebar = self.in_sidebar or "sidebar-tree" in (found.get("class") or "")
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])
            self.sidebar += [found["href"]] if self.in_sidebar else []
        # On the pages of search and index the link to themselves is empty.
        elif tag == "link" and found["href"] != "#":
            self.loads.append(found["href"])
        self.loads += [found[key] for key in ("src", "srcset", "poster", "data") if found.get(key)]

    def handle_endtag(self, tag):
        self.in_sidebar = self.in_sidebar and tag != "aside"


def troubles(pages, folder):
    """Links and anchors that lead nowhere, and whatever a page would load from a network or cannot load at all."""
    found = []
    for path, page in pages.items():
        for link in page.loads:
            if ELSEWHERE.match(link):
                found.append(f"{path}: loads {link}")
            elif not link.startswith("data:") and not (folder / path).parent.joinpath(unquote(link.split("?")[0])).exists():
                found.append(f"{path}: no file {link}")
        for link in page.links:
            file, _, anchor = unquote(link).partition("#")
            if re.match(r"^(https?|mailto):", link):
                continue
            there = (folder / path).parent.joinpath(file).resolve() if file else (folder / path).resolve()
            if not there.is_file():
                found.append(f"{path}: no page {link}")
            elif anchor and there.suffix == ".html" and anchor not in pages[there.relative_to(folder.resolve())].anchors:
                found.append(f"{path}: no anchor {link}")
    return found


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, built from a copy so that the pages stay as they are: (folder, pages, what the builder said)."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(ROOT / "docs", folder / "docs", ignore=shutil.ignore_patterns("_generated", "__pycache__"))
    for name in ("CHANGELOG.md", "CONTRIBUTING.md"):
        shutil.copy(ROOT / name, folder)
    words = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-n", "-q", "-E", "-d", "trees", "docs", "html"]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    html = folder / "html"
    pages = {path.relative_to(html): Page(path.read_text(encoding="utf-8")) for path in html.rglob("*.html")}
    return html, pages, done


def test_the_site_builds_without_one_warning(site):
    folder, pages, done = site
    assert done.returncode == 0, done.stderr
    assert not re.search("warning|error", done.stdout + done.stderr, re.I), done.stderr
    assert (folder / "index.html").exists()
    assert len(pages) > 50


def test_every_link_and_anchor_leads_somewhere_and_nothing_is_loaded_from_a_network(site):
    folder, pages, _ = site
    assert sum(len(page.links) for page in pages.values()) > 3000
    assert troubles(pages, folder) == []


def test_style_sheets_load_nothing_from_a_network(site):
    folder, _, _ = site
    sheets = list(folder.rglob("*.css"))
    assert len(sheets) >= 3
    for sheet in sheets:
        loaded = re.findall(r"(?:url\(|@import)\s*[\"']?([^\"')\s]+)", sheet.read_text(encoding="utf-8"))
        assert not [each for each in loaded if ELSEWHERE.match(each)], sheet.name


def test_a_broken_link_a_missing_anchor_and_a_script_from_elsewhere_are_found(tmp_path):
    text = '<a href="#no">x</a><a href="gone.html">x</a><script src="https://cdn.example/x.js"></script><img src="gone.svg">'
    (tmp_path / "a.html").write_text(text, encoding="utf-8")
    found = troubles({Path("a.html"): Page(text)}, tmp_path)
    assert [line.split(": ")[1].split(" ")[0] for line in found] == ["loads", "no", "no", "no"]
    assert troubles({Path("a.html"): Page('<p id="yes"><a href="#yes">x</a><a href="https://example.org">x</a>')}, tmp_path) == []


def test_every_page_is_in_the_navigation(site):
    _, pages, _ = site
    shown = {link for link in pages[Path("index.html")].sidebar if not link.startswith("#")}
    written = {path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")}
    written = {str(path) for path in written if "_generated" not in path.parts and path.name != "index.html"}
    assert len(written) > 40
    assert written <= shown


def test_every_picture_of_the_pages_is_in_the_site(site):
    folder, _, _ = site
    shown = {path.name for path in (folder / "_images").iterdir()}
    named = {
        Path(name).name
        for page in (ROOT / "docs").rglob("*.md")
        for name in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", page.read_text())
    }
    assert len(named) >= 9
    assert named <= shown


@pytest.mark.parametrize("module", public_modules())
def test_every_public_name_has_its_anchor(site, module):
    _, pages, _ = site
    anchors = pages[Path("reference", "_generated", f"{module}.html")].anchors
    assert {f"{module}.{name}" for name in public_names()[module]} <= anchors


def test_methods_have_anchors_and_the_docstring_is_told_once(site):
    folder, pages, _ = site
    assert {"dpsurvey.Survey.plan", "dpsurvey.Survey.collected", "dpsurvey.Plan.release"} <= pages[
        Path("reference", "_generated", "dpsurvey.html")
    ].anchors
    text = (folder / "reference" / "_generated" / "dpsurvey.design.html").read_text(encoding="utf-8")
    assert 'href="dpsurvey.html#dpsurvey.srs"' in text
    assert "'dpsurvey.srs'" not in text


def test_every_command_has_its_anchor_and_every_option_its_line(site):
    folder, pages, _ = site
    page = Path("reference", "_generated", "commands.html")
    text = (folder / page).read_text(encoding="utf-8")

    def below(command, path):
        for name, each in getattr(command, "commands", {}).items():
            yield (*path, name), each
            yield from below(each, (*path, name))

    commands = list(below(typer.main.get_command(app), ("command",)))
    assert len(commands) > 50
    for path, command in commands:
        assert "-".join(path) in pages[page].anchors
        names = {name for option in command.params if not option.hidden for name in option.opts if name.startswith("--")}
        assert all(f">{name}<" in text for name in names - {"--help"}), path


@pytest.mark.parametrize("name", ["site_text", "site_commands", "site_reference"])
def test_what_writes_the_reference_keeps_its_own_examples(name, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    result = doctest.testmod(importlib.import_module(name))
    assert result.failed == 0
    assert result.attempted >= 2


def test_what_markdown_would_eat_is_shown_as_it_was_written(site):
    folder, _, _ = site
    shown = {
        "commands": "stratum,size[,sd][,cost][,measure][,min][,epsilon][,range]",
        "dpsurvey": "n_h ~ N_h S_h/sqrt(c_h)",
        "dpsurvey.mechanism": "e^(-|k|/scale)",
    }
    for page, words in shown.items():
        assert words in (folder / "reference" / "_generated" / f"{page}.html").read_text(encoding="utf-8")


def test_search_needs_no_server(site):
    folder, pages, _ = site
    index = (folder / "searchindex.js").read_text(encoding="utf-8")
    assert index.startswith("Search.setIndex(")
    assert "neyman" in index
    assert "searchindex.js" in " ".join(pages[Path("search.html")].loads)
