"""`docs/accuracy.md`: its tables from a small report, what is refused, the pages as they are."""

import json
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from experiments.validation.page import TABLES, fill, read_report, texts_of
from experiments.validation.page.__main__ import main
from experiments.validation.page.found import Found
from experiments.validation.page.marks import marks_of
from experiments.validation.page.tables import PARTS
from experiments.validation.report import DatasetReport, Row
from simulator.errors import ConfigError

ROOT = Path(__file__).resolve().parents[3]
PAGES = (ROOT / "docs/accuracy.md", ROOT / "README.md")
NOTHING, FIRST, SWEEP = "nothing: times fed in", "sweep + first 30%", "sweep only"
KERNELS, SLOWED = "nothing: NVIDIA's kernels", "x 1.100, seen steps"


def row(run, quantity, statistic, error, *, fitted_on, measured=100.0, n=10, **more):
    predicted = measured * (1 + error)
    return Row(run, quantity, statistic, measured, predicted, error, n, fitted_on, **more)


def steps_of_a_run(run, *, differ, decode):
    """With a closed loop that differs and, then, none with arrivals from the log."""
    rows = [
        row(run, "step sequence", "differing", differ, fitted_on=NOTHING, n=50),
        row(run, "e2el_ms", "mape", 0.0001, fitted_on=NOTHING),
        row(run, "e2el_ms", "largest difference", 0.02, fitted_on=NOTHING),
    ]
    if differ:
        name = "step sequence (all arrivals from the log)"
        rows.append(row(run, name, "differing", 0.0, fitted_on=NOTHING, n=50))
    for split in (FIRST, SWEEP):
        beyond = "40% of the tested time is beyond what the fit saw"
        rows += [
            row(run, "step_ms (decode)", "mape", decode, fitted_on=split, peer=0.106),
            row(run, "step_ms (mixed)", "mape", 0.03, fitted_on=split),
            row(run, "step_s (sum)", "sum", -0.01, fitted_on=split, note=beyond),
            row(run, "e2el_ms", "mean", -0.002, fitted_on=split),
            row(run, "e2el_ms", "mape", 0.9, fitted_on=split),
            row(run, "makespan_s", "whole run", 0.004, fitted_on=split),
        ]
    ended = "e2el_ms (ended in the test part)"
    return [*rows, row(run, ended, "mape", 0.012, fitted_on=FIRST)]


def times(run, fitted_on, errors, *, measured=100.0, peer=None):
    """Mean, p50 and MAPE of TTFT, TPOT and E2E, and the makespan."""
    rows = [row(run, "makespan_s", "mean", 0.0, fitted_on=fitted_on)]
    for quantity, error in zip(("ttft_ms", "tpot_ms", "e2el_ms"), errors, strict=True):
        for statistic in ("mean", "p50", "mape"):
            off = abs(error) if statistic == "mape" else error
            theirs = off if peer is None or statistic == "mape" else peer
            one = row(run, quantity, statistic, off, fitted_on=fitted_on, measured=measured)
            rows.append(one if peer is None else replace(one, peer=theirs))
    return rows


def server(group, error, *, peer=None):
    return [
        row(group, "tpot_ms", "median_abs_error", error, fitted_on="nothing"),
        row(group, "tpot_ms", "mape", error + 0.01, fitted_on="nothing", peer=peer),
        row(group, "tpot_ms", "median_error", -error, fitted_on="nothing"),
        row(group, "tpot_ms", "rank_correlation", 0.98765, fitted_on="nothing"),
        row(group, "ttft_ms", "median_abs_error", 0.3, fitted_on="nothing"),
    ]


def datasets():
    steps = [
        *steps_of_a_run("dense_tp1_ep1", differ=0.0, decode=0.02),
        *steps_of_a_run("dense_tp2_ep1", differ=0.5, decode=0.04),
    ]
    tables = [
        *times("card_model", "nothing", (-0.05, 0.0, 0.02), peer=-0.04),
        *times("card_model", "x 1.070, its opening", (0.003, 0.001, 0.0), peer=-0.03),
    ]
    loads = [
        *times("w_agg12", "2 req/s runs (a)", (-0.05, -0.02, -0.01)),
        *times("w_agg6", "2 req/s runs (a)", (0.01, 0.001, 0.0), peer=-0.43),
        *times("w_agg24", "2 req/s runs (a)", (-0.165, 0.005, 0.0), measured=900.0),
        *times("w_agg6", KERNELS, (0.02, 0.02, 0.02)),
        *times("w_agg6", SLOWED, (0.01, 0.01, 0.01)),
        *times("w_agg2", KERNELS, (0.01, 0.01, 0.01)),
        *(
            row("w_agg2", f"step_ms ({kind})", statistic, error, fitted_on=KERNELS)
            for kind, error in (("decode", -0.01), ("mixed", -0.03))
            for statistic, error in (("mean", error), ("mape", abs(error) + 0.01))
        ),
    ]
    servers = [
        *server("all 20", 0.09),
        *server("Them", 0.05, peer=0.101),
        *server("Them, engine", 0.05),
        *server("Them: model dtype, engine on gpu", 0.05),
        *server("Them: other dtype, engine on gpu", 0.2),
    ]
    told = {
        "aic_fpm": (steps, ("forms were seen", "dense_tp1_ep1, sweep only: step_ms 1.0")),
        "llmservingsim": (tables, ("card_model: 10 blocks",)),
        "residency": (loads, ("a: fitted on w_agg2",)),
        "silicon": (servers, ("20 rows used",)),
    }
    return {
        name: DatasetReport(name, "made by hand", tuple(rows), (), notes)
        for name, (rows, notes) in told.items()
    }


@pytest.fixture
def report(tmp_path):
    return written(tmp_path / "report.json", datasets().values())


@pytest.fixture
def run(capsys):
    """Call the command: (exit code, what it said)."""

    def call(report, *pages):
        try:
            main([str(report), *map(str, pages)])
        except SystemExit as end:
            return end.code, capsys.readouterr().err
        return 0, capsys.readouterr().out

    return call


def written(path, reports):
    path.write_text(json.dumps({"datasets": [each.described() for each in reports]}))
    return path


@pytest.fixture
def page(tmp_path):
    """A page with a place for every table."""
    path = tmp_path / "page.md"
    places = "\n".join(f"before {name}\n\n<!-- {name} -->\nold\n<!-- end -->\n" for name in TABLES)
    path.write_text(f"# Page\n\n{places}\nafter\n")
    return path


def lines_of(report, name):
    return texts_of(read_report(report))[name].splitlines()


def test_the_schedule_is_told_from_the_clients(report):
    """0.5 of 50 steps differ in the closed loop; E2E is 100 ms and 2 % off at most."""
    assert lines_of(report, "steps-fed-in")[2:] == [
        "| dense_tp1_ep1 | 0 of 50 |  | 0.010 | +2.0 ms |",
        "| dense_tp2_ep1 | 25 of 50 | 0 of 50 | 0.010 | +2.0 ms |",
    ]


def test_of_a_fitted_run_only_the_tested_part_is_shown(report):
    """E2E of all requests, of which some saw fitted steps only, is 90.0: it is nowhere."""
    lines = lines_of(report, "first-part")
    assert lines[2] == "| dense_tp1_ep1 | 2.0 (10.6) | 3.0 | 1.2 | -1.0 | 40 % |  |"
    assert lines_of(report, "sweep-only")[3] == (
        "| dense_tp2_ep1 | 4.0 (10.6) | 3.0 | 90.0 | -0.2 | +0.4 | -1.0 | 40 % |  |"
    )


def test_runs_come_in_the_order_of_their_numbers(report):
    assert [line.split(" | ")[:3] for line in lines_of(report, "loads")[2:]] == [
        ["| w_agg6", "10", "+1.0 (-43.0)"],
        ["| w_agg12", "10", "-5.0"],
        ["| w_agg24", "10", "-16.5"],
    ]


def test_kernels_are_compared_on_runs_that_no_constant_saw(report):
    assert lines_of(report, "public-kernels") == [
        "| run | mean TTFT | mean TPOT | mean E2E | mean TTFT, x 1.100 | mean TPOT, x 1.100 | "
        "mean E2E, x 1.100 |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
        "| w_agg6 | +2.0 | +2.0 | +2.0 | +1.0 | +1.0 | +1.0 |",
    ]
    assert lines_of(report, "public-kernel-steps")[2:] == ["| w_agg2 | -1.0 | 2.0 | -3.0 | 4.0 |"]


def test_the_worst_kind_of_server_comes_first(report):
    assert [line.split(" | ")[:3] for line in lines_of(report, "server-kinds")[2:]] == [
        ["| Them: other dtype, engine on gpu", "10", "20.0"],
        ["| Them: model dtype, engine on gpu", "10", "5.0"],
    ]


def test_the_summary_gives_ranges_over_runs_by_load(report):
    lines = lines_of(report, "summary")
    assert lines[2] == (
        "| vLLM 0.20.1, dense on 1 / 2 B300 | nothing: measured step times fed in | "
        "0 of 100 steps differ, arrivals read off the log | none found |"
    )
    assert "decode steps 2.0 to 4.0, with prompts 3.0, E2E of a request 1.2" in lines[3]
    below, saturated = (line for line in lines if "the runs at 2 requests/s" in line)
    assert "mean -5.0 to +1.0; mean TPOT -2.0 to +0.1, E2E -1.0 to 0.0 |" in below
    assert below.endswith("| TTFT p50 -43.0 to -43.0 |")
    assert "saturated" in saturated
    assert "mean -16.5;" in saturated
    assert "TPOT median 5.0, mean 6.0, rank correlation 0.988" in lines[-1]
    assert lines[-1].endswith("| mean 10.1 (2) |")


def test_the_short_table_shows_all_prices_of_a_run(report):
    unfitted, fitted = lines_of(report, "in-short")[3:5]
    assert unfitted.startswith(
        "| vLLM 0.19, card_model | its GPU's kernel tables; nothing fitted |"
    )
    assert fitted == (
        "| vLLM 0.19, card_model | its GPU's kernel tables; x 1.070, its opening | +0.3 | +0.1 | "
        "0.0 | -3.0 / -3.0 / -3.0 |"
    )


def test_notes_of_single_step_logs_stay_in_the_report(report):
    assert lines_of(report, "notes-of-steps") == ["- forms were seen."]
    assert lines_of(report, "notes-of-kernel-tables") == ["- card_model: 10 blocks."]


def test_filling_twice_changes_nothing_and_keeps_the_text(report, page):
    fill(report, [page])
    once = page.read_bytes()
    fill(report, [page])
    assert page.read_bytes() == once
    text = once.decode()
    assert text.startswith("# Page\n\nbefore summary\n\n<!-- summary -->\n| measured |")
    assert text.endswith("\n<!-- end -->\n\nafter\n")
    assert "old" not in text


@pytest.mark.parametrize("dataset", ["aic_fpm", "llmservingsim", "residency", "silicon"])
def test_a_report_without_a_dataset_is_refused(run, tmp_path, page, dataset):
    held = [each for name, each in datasets().items() if name != dataset]
    untouched = page.read_bytes()
    code, said = run(written(tmp_path / "report.json", held), page)
    assert code == 2
    assert f"the report has no {dataset}: run `make accuracy`" in said
    assert page.read_bytes() == untouched


def test_a_report_made_without_nvidias_kernels_is_refused(run, tmp_path, page):
    held = datasets()
    rows = [each for each in held["residency"].rows if each.fitted_on.startswith("2 req/s")]
    held["residency"] = replace(held["residency"], rows=tuple(rows))
    code, said = run(written(tmp_path / "report.json", held.values()), page)
    assert code == 2
    assert "with the extra `aic` installed" in said


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: "nothing here\n", "has no <!-- NAME --> ... <!-- end -->"),
        (lambda text: text.replace("<!-- loads -->", "<!-- load -->"), "no table is called 'load'"),
        (lambda text: text.replace("<!-- loads -->", ""), "has no partner"),
        (lambda text: text.removesuffix("<!-- end -->\n\nafter\n"), "has no partner"),
        (
            lambda text: text.replace("<!-- loads -->\nold\n<!-- end -->", ""),
            "write the lines <!-- loads --> and <!-- end -->",
        ),
    ],
)
def test_a_page_with_other_places_is_refused_and_no_page_is_written(
    run, report, page, tmp_path, change, message
):
    second = tmp_path / "second.md"
    second.write_text(change(page.read_text()))
    page.write_text("<!-- summary -->\n<!-- end -->\n")
    untouched = (page.read_bytes(), second.read_bytes())
    code, said = run(report, page, second)
    assert code == 2
    assert message in said
    assert (page.read_bytes(), second.read_bytes()) == untouched


@pytest.mark.parametrize("text", [None, "{", '{"datasets": [{"dataset": "a"}]}', "[]"])
def test_a_file_that_is_no_report_is_refused(run, tmp_path, page, text):
    path = tmp_path / "report.json"
    if text is not None:
        path.write_text(text)
    code, said = run(path, page)
    assert code == 2
    assert "make accuracy" in said


def test_a_missing_page_is_refused(run, report, tmp_path):
    code, said = run(report, tmp_path / "none.md")
    assert code == 2
    assert "none.md: cannot be read" in said


def test_the_command_says_what_it_wrote(run, report, page):
    assert run(report, page) == (0, f"wrote the tables of {page}\n")


def test_without_data_make_says_so_before_it_installs_anything(tmp_path):
    ran = subprocess.run(
        ["make", "--silent", "data", f"DATA={tmp_path}"], cwd=ROOT, capture_output=True, text=True
    )
    assert ran.returncode == 2
    assert f"{tmp_path} holds no datasets: docs/accuracy.md says which there are" in ran.stderr


def places_of(page):
    text = page.read_text(encoding="utf-8")
    return dict(re.findall(r"^<!-- ([a-z-]+) -->\n(.*?)\n<!-- end -->$", text, re.M | re.S))


def test_the_pages_have_every_table_once():
    assert sorted(name for page in PAGES for name in marks_of(page.read_text())) == sorted(TABLES)


def test_the_readme_says_what_the_page_says():
    """Each line's numbers are those of a line about the same runs and prices there."""
    places = {name: text for page in PAGES for name, text in places_of(page).items()}
    lines = [line.split(" | ") for line in places["summary"].splitlines()[2:]]
    for line in places["in-short"].splitlines()[2:]:
        measured, prices, *numbers, _ = line.split(" | ")
        [(_, _, told, _)] = [other for other in lines if other[:2] == [measured, prices]]
        for number in numbers:
            assert number.removesuffix(" a request") in told, line


def test_the_page_states_what_a_fresh_comparison_gives(llmservingsim_report):
    held = llmservingsim_report
    found = Found(held.dataset, held.rows, held.notes)
    places = places_of(PAGES[0])
    for name, table in PARTS.items():
        if table.dataset == held.dataset:
            assert places[name] == table.text(found), f"{name}: run `make accuracy`"


def test_a_number_that_is_missing_is_named(report):
    with pytest.raises(ConfigError, match="no ttft_ms p12 of w_agg6 fitted on '2 req/s'"):
        read_report(report)["residency"].row("w_agg6", "ttft_ms", "p12", "2 req/s")
