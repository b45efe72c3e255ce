"""The web form in a real browser: its client has Python's law, its cells are Python's, its files are read, nothing else gets out.

Counts of reports are compared with exact probabilities by binomial tests, all of them together with a false-alarm rate of at
most 1e-8 for each page. Weights that are 10 % off are rejected, with large hash functions 20 % (the tiny one runs the same code).
"""

import contextlib
import json
import math
import random
import threading
import time
from fractions import Fraction
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binom

from dpsurvey.errors import BadValue, Refusal
from dpsurvey.local.cells import KM_PER_DEGREE, Grid, Ranges
from dpsurvey.local.chance import every_outcome
from dpsurvey.local.form import form_html, odd_rows
from dpsurvey.local.local_hashing import label_number
from dpsurvey.local.question import Question
from dpsurvey.local.reports import collect, decode
from tests.local import browser as helper

# One browser serves all tests of a run.
pytestmark = [pytest.mark.xdist_group("browser"), pytest.mark.skipif(bool(helper.no_browser()), reason=helper.no_browser())]
DRAWS = 150_000
FALSE_ALARMS = 1e-8
PARTIES = ["red", "green", "blue", "none of them"]
CAPITALS = [f"town {number}" for number in range(99)] + ["Čačak"]
PARIS = Grid("5 km", box=(48.7, 2.1, 49.0, 2.6))
ASKED = {
    "two coins": (["no", "yes"], {"kind": "two-coins", "pi1": 0.85, "pi2": 0.3}),
    "warner": (["no", "yes"], {"kind": "warner", "p": 0.75}),
    "generalised": (PARTIES, {"kind": "generalised", "epsilon": 1.0}),
    "unary": (PARTIES, {"kind": "unary", "epsilon": 1.0}),
    "subset": (PARTIES, {"kind": "subset", "epsilon": 1.0}),
    "hashing listed": (CAPITALS, {"kind": "hashing", "epsilon": 1.0}),
    "hashing open": ((), {"kind": "hashing", "epsilon": 1.0}),
    "ranges": (Ranges(0, 100, 12.5), {"kind": "subset", "epsilon": 1.0}),
    "grid": (PARIS, {"kind": "unary", "epsilon": 1.0}),
    "grid of the earth": (Grid("1 km"), {"kind": "hashing", "epsilon": 1.0}),
}
CHOOSE = [("click", ".choice:nth-of-type(2)")]
PLACE = [("type", "#latitude", "48.8584"), ("type", "#longitude", "2.2945")]
HANDS = {
    "hashing listed": [("type", "#search", "čač"), ("click", "#list option")],
    "hashing open": [("type", "#text", "Ibuprofen")],
    "ranges": [("type", "#number", "41.5")],
    "grid": PLACE,
    "grid of the earth": PLACE,
}


def asked(kind):
    categories, mechanism = ASKED[kind]
    return Question.ask(kind, categories, mechanism, f"A question for {kind}?")


@pytest.fixture(scope="module")
def browser():
    with helper.browser() as window:
        yield window


def answer(browser, kind):
    for action, *arguments in HANDS.get(kind, CHOOSE):  # type: ignore[attr-defined]
        getattr(browser, action)(*arguments)


@pytest.mark.parametrize("kind", ASKED)
def test_clicks_make_one_report_that_is_downloaded_and_collected(browser, kind):
    question = asked(kind)
    browser.open(form_html(question))
    browser.click("#go")
    assert "Please" in browser.text("#problem")
    assert not browser.shown("#done")
    assert not browser.shown("#file")
    answer(browser, kind)
    browser.click("#go")
    shown = browser.text("#report")
    browser.click("#download")
    file = browser.downloaded()
    assert file.read_text() == f"question,report\n{question.fingerprint},{shown}\n"
    assert len(collect(question, file)) == 1


@pytest.mark.parametrize("kind", ["unary", "hashing listed", "hashing open", "ranges", "grid"])
def test_the_answer_is_gone_once_the_report_exists_and_there_is_no_second_report(browser, kind):
    browser.open(form_html(asked(kind)))
    answer(browser, kind)
    everything = """const fields = [...document.querySelectorAll("input:not([type=radio]), select")];
        const kept = [location.href, document.cookie, window.name, history.state, {...localStorage}, {...sessionStorage}];
        const body = document.body.cloneNode(true);
        for (const script of body.querySelectorAll("script")) script.remove();
        return {fields: fields.map((each) => each.value).join(""), checked: document.querySelectorAll(":checked").length,
                kept: JSON.stringify(kept), page: body.outerHTML, file: dpsurveyClient.csv()}"""
    before = browser.run(everything)
    assert before["fields"] or before["checked"]
    browser.click("#go")
    after = browser.run(everything)
    assert (after["fields"], after["checked"]) == ("", 0)
    assert after["kept"] == before["kept"]
    assert "Ibuprofen" not in after["page"]
    report = browser.text("#report")
    # Neither pressing again nor filling in the hidden fields again makes another one.
    again = """const filled = (each) => Object.assign(each, {checked: true, value: each.value || 48.8});
        document.querySelectorAll("#answer input").forEach(filled);
        for (const each of document.querySelectorAll("#answer select")) each.selectedIndex = 0;
        document.getElementById("go").click();
        document.getElementById("go").click()"""
    browser.run("document.getElementById('go').click()")
    browser.run(again)
    assert not browser.shown("#go")
    assert browser.text("#report") == report
    assert browser.run("return dpsurveyClient.csv()") == after["file"]
    browser.click("#next")
    assert browser.run(everything)["fields"] == ""
    browser.click("#go")
    assert browser.run("return dpsurveyClient.csv()") == after["file"]


def test_one_file_holds_many_respondents_and_labels_of_any_kind(browser):
    labels = ["</script><script>document.title=1</script>", "<!--<script>", "a, \"b\" & 'c'", "Ω 日本 🙂\u00a0é", "&lt;\\u003c"]
    # The truth but for a part of 1e-13: what comes out is known.
    question = Question.ask("</script>", labels, {"kind": "generalised", "epsilon": 40}, 'Is "<b>" & </title> é?')
    names = ["7", 'a "b", c', "ß <i>", "00", "5"]
    browser.open(form_html(question))
    assert browser.run("return document.title") == browser.text("h1") == question.text
    for place, name in enumerate(names):
        assert browser.run("return [...document.querySelectorAll('.choice span')].map((each) => each.textContent)") == labels
        browser.click(f".choice:nth-of-type({place + 1})")
        if place == 1:
            browser.click("#go")
            assert browser.text("#problem") == "Please enter the respondent, as for the reports before."
            browser.type("#respondent", f" {names[0]}")
            browser.click("#go")
            assert browser.text("#problem") == "This respondent has a report already."
            browser.run("document.getElementById('respondent').value = ''")
        browser.type("#respondent", name)
        browser.click("#go")
        assert browser.run("return document.getElementById('report').textContent") == labels[place]
        if name != names[-1]:
            browser.click("#next")
            assert browser.run("return document.getElementById('report').textContent") == ""
    browser.click("#download")
    collected = collect(question, browser.downloaded())
    assert collected.reports[:, 0].tolist() == list(range(len(labels)))
    assert collected.columns.column("respondent").to_pylist() == names


@pytest.mark.parametrize("before", ["", "Object.defineProperty(Navigator.prototype, 'clipboard', {value: undefined})"])
def test_the_file_can_be_copied_instead_in_newer_and_older_ways(browser, before):
    with browser.before_pages(before):
        browser.open(form_html(asked("unary")))
        answer(browser, "unary")
        browser.click("#go")
        written = browser.run("return dpsurveyClient.csv()")
        browser.click("#copy")
        browser.wait_for("#said", "Copied.")
        browser.open("<textarea></textarea>")
        browser.type("textarea", helper.PASTE)
        assert browser.run("return document.querySelector('textarea').value") == written


def test_without_a_first_respondent_no_later_one_is_asked_for(browser):
    browser.open(form_html(asked("warner")))
    assert browser.shown("#respondent")
    answer(browser, "warner")
    browser.click("#go")
    browser.click("#next")
    assert not browser.shown("#respondent")


def exact_law(question, code, found):
    """Counts and exact probabilities: of every report, where they can be enumerated, and of every mark."""
    mechanism = question.mechanism
    events = []
    if mechanism.k and getattr(mechanism, "prime", 0) < 10:
        law = every_outcome(lambda chance: question.randomize(question.categories[code], chance))
        assert not set(found) - set(law)
        events += [(found.get(report, 0), chance) for report, chance in law.items()]
    reports, counts = decode(question, pa.array(list(found), pa.string())), np.array(list(found.values()))
    for category in range(mechanism.k) if mechanism.k else (code, code + 1, 0):
        hit = mechanism.hit(category)[0 if category == code else 1]
        events.append((int(counts[mechanism.marks(reports, category) == 1].sum()), hit))
    if getattr(mechanism, "prime", 0) >= 10:
        # The numbers of the hash function: their highest and lowest digits, which have nothing to do with the answer.
        for column, part in ((column, part) for column in (0, 1) for part in range(8)):
            low, high = (-(-edge * mechanism.prime // 8) for edge in (part, part + 1))
            inside = (reports[:, column] >= low) & (reports[:, column] < high)
            events.append((int(counts[inside].sum()), Fraction(high - low, mechanism.prime)))
            ends = len(range(part, mechanism.prime, 8))
            events.append((int(counts[reports[:, column] % 8 == part].sum()), Fraction(ends, mechanism.prime)))
    return events


def is_rejected(events, draws):
    """Whether one of the counts is too far off: binomial, two-sided, a share of the false-alarm rate for each."""
    tails = [2 * min(binom.cdf(count, draws, float(p)), binom.sf(count - 1, draws, float(p))) for count, p in events]
    return min(tails) < FALSE_ALARMS / len(tails)


def reports_of(browser, code, draws):
    script = """const found = new Map();
        const own = typeof arguments[0] === "string" ? BigInt(arguments[0]) : arguments[0];
        for (let draw = 0; draw < arguments[1]; draw++) {
            const report = dpsurveyClient.randomize(own);
            found.set(report, (found.get(report) || 0) + 1);
        }
        return [...found]"""
    return dict(browser.run(script, str(code) if code >= 2**31 else code, draws))


def with_other_weights(page, factor):
    """The page with the odds of the truth, or of a first face, multiplied."""
    start, end = '<script type="application/json" id="question">', "</script>"
    content = page.split(start)[1].split(end)[0]
    data = json.loads(content)
    client = data["client"]
    for name in ("truth", "one", "inside"):
        if name in client:
            client[name] = round(client[name] * factor)
    if "dice" in client:
        client["dice"] = [[round(100 * factor * first), *(100 * face for face in others)] for first, *others in client["dice"]]
    assert json.loads(content) != data
    return page.replace(content, json.dumps(data).replace("<", "\\u003c"))


FIVE = ["a", "b", "c", "d", "e"]
LAWS = {
    "two coins": (asked("two coins"), 1, DRAWS, 0.1),
    "warner": (asked("warner"), 0, DRAWS, 0.1),
    "a die": (Question.ask("v", FIVE, {"kind": "round-two", "chances": [0.1, 0.1, 0.2, 0.2, 0.1], "pi_s": 0.3}), 3, DRAWS, 0.1),
    "silence": (Question.ask("v", ["n", "y"], {"kind": "toy-deniability", "pi_s": 0.5, "pi1": 0.8, "pi2": 0.2}), 0, DRAWS, 0.1),
    "generalised": (Question.ask("v", FIVE, {"kind": "generalised", "epsilon": 1.0}), 2, DRAWS, 0.1),
    "unary": (Question.ask("v", FIVE, {"kind": "unary", "epsilon": 1.0}), 1, DRAWS, 0.1),
    "subset": (Question.ask("v", FIVE, {"kind": "subset", "epsilon": 1.0, "size": 2}), 4, DRAWS, 0.1),
    "tiny hash": (Question.ask("v", FIVE, {"kind": "hashing", "epsilon": 1.0, "buckets": 3, "prime": 7}), 3, DRAWS, 0.1),
    "hashing listed": (asked("hashing listed"), 99, 30_000, 0.2),
    "hashing open": (asked("hashing open"), label_number("Ibuprofen"), 30_000, 0.2),
}


@pytest.mark.parametrize("kind", LAWS)
def test_reports_of_the_page_have_the_law_of_python_and_other_weights_are_found_out(browser, kind):
    question, code, draws, off = LAWS[kind]
    page = form_html(question)
    browser.open(page)
    assert not is_rejected(exact_law(question, code, reports_of(browser, code, draws)), draws)
    for factor in (1.0 - off, 1.0 + off):
        browser.open(with_other_weights(page, factor))
        assert is_rejected(exact_law(question, code, reports_of(browser, code, draws)), draws)


def test_numbers_past_the_last_whole_multiple_of_a_bound_are_drawn_again(browser):
    # Words of ones only give 2^53 - 1, of which 3 leaves two remainders too many: without a second draw it would be "yes".
    ones_then_noughts = """let calls = 0; Crypto.prototype.getRandomValues = (words) => words.fill(calls++ ? 0 : 2 ** 32 - 1);"""
    with browser.before_pages(ones_then_noughts):
        browser.open(form_html(Question.ask("v", ["no", "yes"], {"kind": "warner", "p": "1/3"})))
        assert browser.run("return dpsurveyClient.randomize(0)") == "no"
        browser.open(form_html(asked("hashing open")))
        assert browser.run("return dpsurveyClient.randomize(5n).slice(0, 32)") == "0" * 32


def test_a_browser_without_secret_randomness_is_refused(browser):
    for script in ("delete Crypto.prototype.getRandomValues", "Object.defineProperty(window, 'crypto', {value: undefined})"):
        with browser.before_pages(script):
            browser.open(form_html(asked("warner")))
            assert browser.shown("#refused")
            assert not browser.shown("#ask")
            assert browser.run("return window.dpsurveyClient === undefined")


def near(edges):
    return [value for edge in edges for value in (edge, math.nextafter(edge, -math.inf), math.nextafter(edge, math.inf))]


@pytest.mark.parametrize(
    "ranges", [Ranges(0, 100, 12.5), Ranges(-0.3, 1.1, 0.1), Ranges(1e-3, 7, 0.053), Ranges(-5, 5, 0.7, "open")]
)
def test_numbers_fall_into_the_ranges_of_python(browser, ranges):
    question = Question.ask("v", ranges, {"kind": "unary", "epsilon": 1.0}, no_answer=True)
    chosen = random.Random(1)
    beyond = 3.0 if ranges.ends == "open" else 0.0
    numbers = [chosen.uniform(ranges.low - beyond, ranges.high + beyond) for _ in range(1000)]
    numbers += [ranges.low, ranges.high, -0.0, *near(ranges.low + cell * ranges.width for cell in range(ranges.count + 1))]
    numbers = [number for number in numbers if beyond or ranges.low <= number <= ranges.high]
    browser.open(form_html(question))
    found = browser.run(
        "return arguments[0].map((text) => dpsurveyClient.rangeOf(Number(text)))", [repr(each) for each in numbers]
    )
    assert found == [question.code(number) for number in numbers]


def test_a_number_can_be_out_of_range_or_withheld(browser):
    browser.open(form_html(Question.ask("v", Ranges(0, 10, 1), {"kind": "generalised", "epsilon": 40}, no_answer=True)))
    browser.type("#number", "10.001")
    browser.click("#go")
    assert browser.text("#problem") == "Please enter a number from 0 to 10."
    browser.click("#none")
    assert browser.run("const {disabled, value} = document.getElementById('number'); return [disabled, value]") == [True, ""]
    browser.click("#go")
    assert browser.text("#report") == "(no answer)"


def cells_in(browser, places):
    script = "return arguments[0].map((place) => dpsurveyClient.cellOf(...place.map(Number)))"
    return browser.run(script, [[repr(each) for each in place] for place in places])


# A size that the equator is a whole multiple of, but for the last digit of the quotient.
WHOLE = f"{360.0 * KM_PER_DEGREE / 114!r} km"


@pytest.mark.parametrize("size", ["2 m", "1 km", WHOLE, "137 km", "10000 km", "0.01 deg", "7 deg", "90 deg"])
def test_places_fall_into_the_cells_of_python(browser, size):
    grid = Grid(size)
    chosen = random.Random(2)
    places = [(chosen.uniform(-90, 90), chosen.uniform(-180, 180)) for _ in range(1500)]
    for latitude, longitude in places[:100]:
        south, west, north, east = grid.bounds(*grid.cell(latitude, longitude))
        places += [(row, column) for row in near((south, north)) for column in near((west, east))]
    places += [(row, column) for row in near((-90.0, 0.0, 90.0)) for column in near((-180.0, 0.0, 180.0))]
    places = [(latitude, longitude) for latitude, longitude in places if abs(latitude) <= 90 and abs(longitude) <= 180]
    browser.open(form_html(Question.ask("v", grid, {"kind": "hashing", "epsilon": 1.0})))
    assert cells_in(browser, places) == [grid.label(*place) for place in places]


def test_places_of_a_box_are_its_categories_or_elsewhere(browser):
    question = Question.ask("v", PARIS, {"kind": "unary", "epsilon": 1.0}, no_answer=True)
    chosen = random.Random(3)
    places = [(chosen.uniform(48.6, 49.1), chosen.uniform(2.0, 2.7)) for _ in range(2000)]
    places += [(row, column) for row in near((48.7, 49.0)) for column in near((2.1, 2.6))]
    browser.open(form_html(question))
    script = "return arguments[0].map((place) => dpsurveyClient.placeOf(dpsurveyClient.cellOf(...place)))"
    found = browser.run(script, places)
    assert found == [question.code(place) for place in places]
    assert {question.categories.index("elsewhere"), 0, len(question.categories) - 3} <= set(found)


def test_rows_that_hang_on_the_last_digit_of_a_cosine_do_not_depend_on_the_browser(browser):
    grid = Grid("5.6 m")
    page = form_html(Question.ask("v", grid, {"kind": "hashing", "epsilon": 1.0}))
    rows = odd_rows(grid)
    places = [(-90.0 + (row + 0.5) * 180.0 / grid.rows, 179.9999999) for row in rows]
    right = [grid.label(*place) for place in places]
    wrong = 0
    for last_digits in (-8, 8):
        with browser.before_pages(f"const own = Math.cos; Math.cos = (angle) => own(angle) * (1 + {last_digits} * 2 ** -52)"):
            browser.open(page)
            assert cells_in(browser, places) == right
            browser.open(page.replace(f'"odd": {json.dumps(rows)}', '"odd": {}'))
            wrong += cells_in(browser, places) != right
    # Without the table of these rows the test would have told.
    assert wrong


def test_labels_of_an_open_domain_have_the_numbers_of_python(browser):
    chosen = random.Random(4)
    letters = "abc XYZ,;\"'<&é߀日🙂\x00\u2028"
    labels = ["".join(chosen.choices(letters, k=length)) for length in range(1, 200)] + [
        "a" * length for length in range(50, 130)
    ]
    browser.open(form_html(asked("hashing open")))
    found = browser.run("return arguments[0].map((label) => String(dpsurveyClient.labelNumber(label)))", labels)
    assert [int(number) for number in found] == [label_number(label) for label in labels]
    # What is typed is trimmed and composed first, as in Python. With words that are always the same a report depends on the
    # label alone.
    many_groups = form_html(Question.ask("v", (), {"kind": "hashing", "epsilon": 8}))
    with browser.before_pages("Crypto.prototype.getRandomValues = (words) => words.fill(0x27182818)"):
        browser.open(many_groups)
        typed = "  Cafe\u0301 "
        told = [
            browser.run("return dpsurveyClient.randomize(BigInt(arguments[0]))", str(label_number(x))) for x in ("Café", "Cafe")
        ]
        browser.run("document.getElementById('text').value = arguments[0]", typed)
        browser.click("#go")
        assert browser.text("#report") == told[0] != told[1]


@contextlib.contextmanager
def listener():
    """A server on the loopback that notes what it is asked for."""
    heard = set()

    class Handler(BaseHTTPRequestHandler):
        timeout = 0.3

        def parse_request(self):
            if done := super().parse_request():
                heard.add(self.path.strip("/?"))
            return done

        def log_message(self, *words):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}", heard
        finally:
            server.shutdown()
            thread.join()


CALLS = """const address = arguments[0];
    const quiet = (call) => {
        try { Promise.resolve(call()).catch(() => 0); } catch {}
    };
    quiet(() => fetch(`http://${address}/fetch`, {mode: "no-cors"}));
    quiet(() => navigator.sendBeacon(`http://${address}/beacon`, "x"));
    quiet(() => new WebSocket(`ws://${address}/socket`));
    quiet(() => new EventSource(`http://${address}/events`));
    for (const [name, key] of [["img", "src"], ["script", "src"], ["iframe", "src"], ["link", "href"]]) {
        const node = Object.assign(document.createElement(name), {rel: "stylesheet"});
        node[key] = `http://${address}/${name}`;
        document.body.append(node);
    }
    const frame = Object.assign(document.createElement("iframe"), {name: "inside"});
    const form = Object.assign(document.createElement("form"), {action: `http://${address}/form`, target: "inside"});
    document.body.append(frame, form);
    form.submit();
    const node = document.createElement("script");
    node.textContent = "window.strange = true";
    document.body.append(node);
    return new Promise((done) => setTimeout(() => done(window.strange === true), 600))"""
LEAVE = """const form = Object.assign(document.createElement("form"), {action: `http://${arguments[0]}/leave`});
    document.body.append(form);
    form.submit()"""


def test_the_page_can_ask_nobody_for_anything_and_runs_no_other_script(browser):
    page = form_html(asked("unary"))
    policy = page.split('http-equiv="Content-Security-Policy" content="')[1].split('"')[0]
    assert policy.startswith("default-src &#39;none&#39;; script-src &#39;sha256-")
    assert "unsafe" not in policy
    with listener() as (address, heard):
        browser.open(page)
        assert not browser.run(CALLS, address)
        browser.run(LEAVE, address)
        time.sleep(0.3)
        assert heard == set()
        # Without the policy all of it gets through, so the listener does hear.
        browser.open(page.replace("Content-Security-Policy", "Nothing"))
        assert browser.run(CALLS, address)
        heard_all(heard, {"fetch", "beacon", "socket", "events", "img", "script", "iframe", "link", "form"})
        browser.run(LEAVE, address)
        heard_all(heard, {"leave"})


def heard_all(heard, wanted, seconds=10.0):
    end = time.monotonic() + seconds
    while not wanted <= heard:
        assert time.monotonic() < end, f"heard {heard} only"
        time.sleep(0.02)


@pytest.mark.parametrize("kind", ASKED)
def test_the_page_names_no_address_and_has_no_other_randomness(kind):
    page = form_html(asked(kind))
    assert "://" not in page
    assert "src=" not in page
    assert "Math.random" not in page
    for way_out in (
        "fetch(",
        "XMLHttpRequest",
        "sendBeacon",
        "WebSocket",
        "localStorage",
        "sessionStorage",
        "cookie",
        "location",
    ):
        assert way_out not in page


def test_the_page_says_how_the_report_is_made_and_what_it_is_worth():
    said = {
        "two coins": ["With probability 85\xa0% the report is your true answer", "“yes” with probability 30\xa0%", "ε = 2.991<"],
        "warner": [
            "With probability 75\xa0% the report is your true answer; otherwise it is the other",
            "= 3 times",
            "than 75\xa0%",
        ],
        "generalised": ["With probability 47.5\xa0%", "one of the 3 other answers", "ε = 1<", "= 2.72 times", "than 73.2\xa0%"],
        "unary": ["each of the 4 possible answers", "probability 50\xa0%", "probability 26.9\xa0%"],
        "subset": ["a set of 1 of the 4", "probability 47.5\xa0%"],
        "hashing listed": ["into 4 groups", "probability 47.5\xa0%"],
        "grid": ["up to 5 km wide"],
    }
    for kind, sentences in said.items():
        page = form_html(asked(kind))
        assert [words for words in sentences if words not in page] == []


def test_a_mechanism_that_guarantees_nothing_has_no_form():
    with pytest.raises(Refusal, match="guarantees nothing"):
        form_html(Question.ask("v", ["no", "yes"], {"kind": "warner", "p": 1}))


def test_mechanisms_of_two_rounds_have_no_form():
    paper = Question.ask("v", ["no", "yes"], {"kind": "sampling-privacy", "chances": [0.275, 0.275], "pi_s": 0.45})
    with pytest.raises(BadValue, match="no form"):
        form_html(paper)
