"""`runway report`: what the page holds, that it is one file, and that it works in a browser."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from experiments.cli.report import report
from experiments.config import load_config
from experiments.report import build_report, write_report
from experiments.report.chart import Chart
from experiments.report.page import Page, Section, Table
from experiments.report.scale import Axis
from experiments.run import run_config, write_run
from experiments.sweep import load_spec, run_sweep
from simulator.errors import ConfigError

from .conftest import Runway

MOST_BYTES = 1_000_000
KINDS = ("run", "sweep", "compare")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A run with its steps, a sweep with a point that cannot run, a comparison of two runs."""
    from experiments.compare import compare, read_log
    from experiments.compare.files import write_comparison

    root = tmp_path_factory.mktemp("results")
    base = {"workload": "bundled", "head": 60}
    for name, scheduler in (("run", "continuous"), ("other", "chunked")):
        config = load_config(None, {**base, "scheduler": scheduler})
        write_run(run_config(config), root / name, steps=True)
    grid = {"max_num_batched_tokens": [32, 512, 4096], "chunk_size": [256, None]}
    run_sweep(load_spec(None, {**base, "head": 30, "max_num_seqs": 64}, grid), root / "sweep")
    (root / "compare").mkdir()
    found = compare(read_log(root / "run"), read_log(root / "other"))
    write_comparison(found, root / "compare")
    for kind in KINDS:
        write_report(root / kind)
    return {kind: root / kind for kind in KINDS}


class Elements(HTMLParser):
    """Every attribute and every balanced element of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in ("meta", "link"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize("kind", KINDS)
def test_the_page_is_one_file_that_needs_nothing_else(folders: dict[str, Path], kind: str) -> None:
    text = (folders[kind] / "report.html").read_text(encoding="utf-8")
    page = Elements(text)
    assert not page.open, "every element is closed"
    assert len(text.encode()) < MOST_BYTES
    for _, attributes in page.found:
        for name in ("src", "href", "action", "data", "poster"):
            assert attributes.get(name, "data:,") == "data:,"
    assert "://" not in text.replace("http://www.w3.org", "")
    assert "@import" not in text
    assert "url(" not in text


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_folder_gives_the_same_bytes(folders: dict[str, Path], kind: str) -> None:
    before = (folders[kind] / "report.html").read_bytes()
    assert write_report(folders[kind]).read_bytes() == before


@pytest.mark.parametrize("kind", KINDS)
def test_every_mark_with_a_row_has_its_facts(folders: dict[str, Path], kind: str) -> None:
    page = build_report(folders[kind])
    marked = {int(row) for row in re.findall(r'data-row="(\d+)"', page.html())}
    assert marked
    assert max(marked) < len(page.rows)
    assert all(title and facts for title, facts in page.rows)


def test_a_run_s_page_says_what_its_summary_says(folders: dict[str, Path]) -> None:
    summary = json.loads((folders["run"] / "summary.json").read_text())
    page = build_report(folders["run"])
    assert "continuous" in page.question
    assert f"99 % within {summary['ttft_ms']['p99']:,.0f} ms" in " ".join(page.answer)
    assert page.answer[0].startswith("60 of 60 requests finished")
    titles = [section.title for section in page.sections]
    assert any(title.startswith("Who got the GPU when a ") for title in titles)
    assert "Clients" in titles
    assert "How accurate are the prices" in titles
    assert titles[-1] == "Provenance: run it again"


def test_a_run_of_which_one_request_is_late_is_not_100_percent(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    copy = tmp_path / "run"
    shutil.copytree(folders["run"], copy)
    summary = json.loads((copy / "summary.json").read_text())
    summary |= {"submitted": 4000, "goodput_fraction": 3999 / 4000}
    (copy / "summary.json").write_text(json.dumps(summary))
    page = build_report(copy)
    assert any(text.startswith("3,999 (99.9 %) meet ") for text in page.answer), page.answer
    assert "99.9 %" in report(summary, None)
    rates = next(each for each in page.sections if each.title == "Rates and shares")
    assert ["requests within the SLO", 0.999, "share"] in [list(r) for r in rates.tables[0].rows]


def test_a_sweep_s_page_names_the_best_point_and_the_accuracy(folders: dict[str, Path]) -> None:
    import pandas as pd

    frame = pd.read_parquet(folders["sweep"] / "sweep.parquet")
    ran = frame[frame["status"] == "ok"]
    best = ran.sort_values(["request_goodput", "ttft_ms_p99"], ascending=[False, True]).iloc[0]
    page = build_report(folders["sweep"])
    assert f"budget {best['max_num_batched_tokens']:,}" in page.answer[0]
    assert f"{best['request_goodput']:.2f} good requests/s" in page.answer[0]
    assert any(text.startswith("2 points invalid: ") for text in page.warnings), page.warnings
    facts = dict(page.rows[0][1])
    assert facts["max_num_batched_tokens"] == "32"
    assert facts["workload"] == "bundled", "what is common to all points is told too"
    assert "invalid" in facts
    accuracy = next(s for s in page.sections if s.title == "How accurate are the prices")
    assert accuracy.words


def searched(folder: Path) -> None:
    """A search by hand: 4 requests/s pass, 8 fail; chunks of 256 are worth half of that."""
    import pandas as pd

    levels = [
        {"value": value, "rate": rate, "change": rate / 4 - 1, "is_best": rate == 4.0}
        for value, rate in ((256, 2.0), (None, 4.0))
    ]
    answer = {
        **{"scheduler": "chunked", "status": "found", "rate": 4.0, "failed_rate": 8.0},
        **{"binding": ["ttft_p99"], "configuration": "abc", "settings": {"chunk_size": None}},
        **{"certainty": {"confidence": 0.95, "ci_low": 3.0, "ci_high": 5.0}, "unused": []},
        **{"resolved": {"max_num_seqs": 128, "chunk_size": None}, "baseline_rate": 3.5},
        **{"vllm_flags": "--max-num-seqs 128"},
        "at_rate": {"ttft_ms_p99": 900.0, "extrapolated_share": 0.9999},
        **{"monotone": True, "saturates_from": None, "invalid": {}},
        "sensitivity": {"chunk_size": levels},
    }
    slo = {"limits": {"ttft_p99": 1000.0}, "attainment": None}
    question = {"base": {"preset": "chat"}, "schedulers": ["chunked"], "slo": slo}
    question |= {"over": {"chunk_size": [256, None]}, "slo_in_words": "ttft p99 <= 1000 ms"}
    prices = {"name": "x", "kind": "linear", "stamp": "uncalibrated: by hand", "origin": "a test"}
    report = {
        **{"question": question, "answers": [answer], "evaluations": 2},
        **{"workload": {"name": "chat"}, "cost_model": {**prices, "held_out": None}},
        "provenance": {"runway_version": "0"},
    }
    saved = {"scheduler": "chunked", "configuration": "abc", "chunk_size": "none", "replicate": 0}
    runs = [
        {**saved, "rate": 4.0, "passed": True, "broken": "", "error": None, "ttft_p99": 900.0},
        {**saved, "rate": 8.0, "passed": False, "broken": "ttft_p99", "error": None}
        | {"ttft_p99": 2000.0},
    ]
    (folder / "search.json").write_text(json.dumps(report))
    pd.DataFrame(runs).to_parquet(folder / "evaluations.parquet")


def test_a_search_s_page_says_what_was_found(tmp_path: Path) -> None:
    searched(tmp_path)
    page = build_report(tmp_path)
    assert page.question == (
        "Which chunk size takes the most load of chat within ttft p99 ≤ 1000 ms?"
    )
    assert page.answer[0] == (
        "chunked with chunk size none: up to 4 requests/s (95 % confidence: 3.00 to 5.00). "
        "At 8 it fails ttft_p99."
    )
    assert page.answer[-1] == "To paste: vllm serve MODEL --max-num-seqs 128"
    assert "uncalibrated: by hand" in page.warnings
    assert "chunked: 99.9 % of the time was priced beyond the measured range." in page.warnings
    facts = dict(page.rows[1][1])
    assert (facts["within the SLO"], facts["max_num_seqs"]) == ("no: ttft_p99", "128")
    assert Elements(page.html()).open == []


def test_prices_of_a_datasheet_say_uncalibrated_on_the_page(tmp_path: Path) -> None:
    config = {"requests": 5, "rate": 4, "cost_model": "roofline", "device": "h200-sxm"}
    config |= {"model": "llama-3.1-8b", "tensor_parallel_size": 1}
    write_run(run_config(load_config(None, config)), tmp_path / "run")
    page = build_report(tmp_path / "run")
    assert any("uncalibrated" in text for text in page.warnings)


def test_a_run_without_a_finished_request_has_a_page(tmp_path: Path) -> None:
    config = load_config(None, {"requests": 3, "rate": 4, "stop_time_s": 0.0001})
    write_run(run_config(config), tmp_path / "run", steps=True)
    assert "0 of" in build_report(tmp_path / "run").answer[0]
    assert Elements(build_report(tmp_path / "run").html()).open == []


def test_nothing_to_report_on_is_one_message(tmp_path: Path, runway: Runway) -> None:
    with pytest.raises(ConfigError, match=r"no results in it: expected summary\.json of a run"):
        build_report(tmp_path)
    told = runway("report", tmp_path / "nowhere")
    assert told.exit_code == 2
    assert "no such folder" in told.stderr


def test_the_command_says_where_the_page_is(
    folders: dict[str, Path], runway: Runway, tmp_path: Path
) -> None:
    told = runway("report", folders["sweep"], "-o", tmp_path / "a" / "page.html")
    assert told.stdout == f"wrote {tmp_path / 'a' / 'page.html'}\n"
    assert (tmp_path / "a" / "page.html").stat().st_size > 10_000


def test_texts_of_a_user_are_no_markup() -> None:
    """A client, a request or a scheduler may be called anything."""
    wicked = '</script><b>"&'
    chart = Chart(wicked, Axis(wicked, 0, 1, 0, 1), Axis(wicked, 0, 1, 0, 1))
    chart.dot((0, 0), "c0", tip=wicked)
    html = Section(wicked, [wicked], [chart], [Table([wicked], [[wicked]])], [(wicked, wicked)])
    assert Elements(html.html()).open == []
    assert "<b>" not in html.html()


def test_a_word_stands_where_it_hides_no_dot_and_no_other_word() -> None:
    """Right of the middle dot, above and below, are dots; then its own word is in the way."""
    chart = Chart("t", Axis("x", 0, 100, 100, 400), Axis("y", 0, 100, 250, 0))
    for at in ((50, 50), (54, 53), (54, 45)):
        chart.dot(at, "c0")
    for _ in range(3):
        chart.words((50, 50), "name")
    places = [re.findall(r'x="([\d.]+)" y="([\d.]+)"', m)[0] for m in chart.marks if "word" in m]
    assert [(float(x) < 250, float(y)) for x, y in places] == [(True, 118.0), (True, 141.0)]


# In a browser


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Headless Chromium with an empty profile; it logs its console and its network."""
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip("no chromium with chromedriver here: apt-get install chromium chromium-driver")
    webdriver = pytest.importorskip("selenium.webdriver")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in (
        *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
        *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
        f"--user-data-dir={tmp_path_factory.mktemp('profile')}",
        "--window-size=1280,900",
    ):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    service = webdriver.ChromeService(driver)
    with webdriver.Chrome(options=options, service=service) as opened:
        yield opened


def events(browser: Any) -> list[dict[str, Any]]:
    """What the page did since the last call, as the developer tools report it."""
    return [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]


def requested(seen: list[dict[str, Any]], page: str) -> set[str]:
    """Addresses that a page asked for."""
    asked = [event["params"] for event in seen if event["method"] == "Network.requestWillBeSent"]
    found = {each["request"]["url"] for each in asked if each["documentURL"] == page}
    assert page in found, "the log of requests is read"
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_it_loads_without_errors_or_requests_and_works(
    browser: Any, folders: dict[str, Path], kind: str
) -> None:
    """Loads, sorts a table both ways, shows what is pointed at: all without the network."""
    from selenium.webdriver.common.action_chains import ActionChains

    url = (folders[kind] / "report.html").as_uri()
    events(browser)
    browser.get(url)
    assert browser.find_element("css selector", "h1").text.endswith("?")

    table = browser.find_elements("css selector", "table.sorts")[-1]
    heads = table.find_elements("css selector", "thead th.num")
    head = heads[len(heads) // 2]
    at = browser.execute_script("return arguments[0].cellIndex", head)
    for order, rising in (("ascending", True), ("descending", False)):
        browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", head)
        head.find_element("css selector", "button").click()
        assert head.get_attribute("aria-sort") == order
        cells = browser.execute_script(
            "return [...arguments[0].tBodies[0].rows].map(r => r.cells[arguments[1]].dataset.v)",
            table,
            at,
        )
        numbers = [float(cell) for cell in cells if cell]
        assert len(numbers) > 1
        assert numbers == sorted(numbers, reverse=not rising)
        assert [cell for cell in cells if not cell] == cells[len(numbers) :], "absent last"

    tip = browser.find_element("id", "tip")
    assert not tip.is_displayed()
    marks = browser.find_elements("css selector", "svg circle[data-row]")
    mark = marks[len(marks) // 2]
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", mark)
    ActionChains(browser).move_to_element(mark).perform()
    assert tip.is_displayed()
    shown = browser.execute_script("return document.querySelector('svg .on').dataset.row")
    title, facts = build_report(folders[kind]).rows[int(shown)]
    assert tip.text.startswith(title)
    assert all(name in tip.text and value in tip.text for name, value in facts)
    ActionChains(browser).move_to_element(browser.find_element("css selector", "h1")).perform()
    assert not tip.is_displayed()

    assert requested(events(browser), url) <= {url, "data:,"}
    assert browser.get_log("browser") == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_it_fits_the_screen_in_light_and_dark(
    browser: Any, folders: dict[str, Path], width: int, scheme: str
) -> None:
    """Nothing is wider than the page; text stands out from the ground by 4.5 to 1 (WCAG AA)."""
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600},
    )
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia",
        {"features": [{"name": "prefers-color-scheme", "value": scheme}]},
    )
    for kind in KINDS:
        browser.get((folders[kind] / "report.html").as_uri())
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
        ground = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
        for selector in ("body", ".kicker", ".note, .key, dt", "svg .tick"):
            kind_of = "fill" if selector.startswith("svg") else "color"
            ink = browser.execute_script(
                "return getComputedStyle(document.querySelector(arguments[0]))[arguments[1]]",
                selector,
                kind_of,
            )
            assert contrast(ink, ground) >= 4.5, (selector, ink, ground)
        assert (luminance(ground) < 0.1) == (scheme == "dark")


def test_a_long_name_is_broken_on_a_narrow_screen(browser: Any, tmp_path: Path) -> None:
    name = "files./a/" + "folder_without_a_space_in_its_name" * 3
    page = tmp_path / "page.html"
    page.write_text(Page("t", "q?", ["a"], sections=[Section("s", facts=[(name, name)])]).html())
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": 400, "height": 900, "deviceScaleFactor": 1, "mobile": True},
    )
    browser.get(page.as_uri())
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 400


def luminance(colour: str) -> float:
    """Of `rgb(r, g, b)`, 0 to 1. Source: WCAG 2.2, relative luminance."""
    parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """Contrast ratio. Source: WCAG 2.2.

    >>> round(contrast("rgb(0, 0, 0)", "rgb(255, 255, 255)"), 1)
    21.0
    """
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)
