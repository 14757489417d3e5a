"""The tables that stand first: a line for what was measured and what its prices were fitted on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from .found import Found, markdown, plain, signed, span
from .groups import (
    BOTH,
    CLOSED,
    DECODE,
    FIRST,
    FROM_LOG,
    H100,
    KERNELS,
    LOADS_FROM,
    MIDDLE,
    MIXED,
    NOBODY,
    NOTHING,
    PUBLIC,
    SLOWED,
    SLOWEST,
    STEPS_FROM,
    TESTED,
    TIMES,
    by_load,
    kernel_tables,
    models,
    origins,
    peers,
    peers_span,
    prices_of,
)

Line = tuple[str, str, str, str]


def summary(report: Mapping[str, Found]) -> str:
    """Every dataset in a few lines."""
    lines: list[Line] = [
        *_steps(report["aic_fpm"]),
        *_kernel_tables(report["llmservingsim"]),
        *_loads(report["residency"]),
        *_public_kernels(report["residency"]),
        *_servers(report["silicon"]),
    ]
    headings = ["measured", "prices from", "error, %", "another simulator's, %"]
    return markdown(headings, lines, text=len(headings))


def in_short(report: Mapping[str, Found]) -> str:
    """The mean of each time, for whole runs: a table for a page about other things."""
    steps, kernels, loads, servers = (
        report[name] for name in ("aic_fpm", "llmservingsim", "residency", "silicon")
    )
    rows: list[Sequence[str]] = []
    for name, runs in models(steps).items():
        ended = span(steps.row(run, TESTED, "mape", FIRST) for run in runs)
        rows.append([name, STEPS_FROM[FIRST], "", "", f"{ended} a request", NOBODY])
    for run in kernels.runs():
        for fitted_on in prices_of(kernels, run):
            means = [kernels.row(run, quantity, "mean", fitted_on) for quantity in TIMES]
            told = (signed(row.error) for row in means)
            rows.append([f"vLLM 0.19, {run}", kernel_tables(fitted_on), *told, peers(means)])
    for name, runs in by_load(loads, loads.runs(SLOWEST)).items():
        spans = (span(loads.row(run, of, "mean", SLOWEST) for run in runs) for of in TIMES)
        p50 = [loads.row(run, "ttft_ms", "p50", SLOWEST) for run in runs]
        rows.append([name, LOADS_FROM, *spans, peers_span(p50)])
    everyone = origins(servers)[0]
    ttft, tpot = (plain(servers.row(everyone, of, MIDDLE).error) for of in TIMES[:2])
    rows.append([f"{everyone} servers", PUBLIC, f"median {ttft}", f"median {tpot}", "", NOBODY])
    headings = ["measured", "prices from", "mean TTFT", "mean TPOT", "mean E2E"]
    return markdown([*headings, "another simulator's"], rows, text=2)


def _steps(found: Found) -> Iterator[Line]:
    for name, runs in models(found).items():
        yield name, "nothing: measured step times fed in", _sequences(found, runs), NOBODY
        for split, words in STEPS_FROM.items():
            ended = TESTED if split == FIRST else "e2el_ms"
            decode, mixed, e2e = (
                [found.row(run, quantity, "mape", split) for run in runs]
                for quantity in (DECODE, MIXED, ended)
            )
            told = f"decode steps {span(decode)}, with prompts {span(mixed)}, "
            theirs = peers(decode[:1])
            yield (
                *(name, words, f"{told}E2E of a request {span(e2e)}"),
                theirs if theirs == NOBODY else f"decode steps {theirs} (1)",
            )


def _sequences(found: Found, runs: Sequence[str]) -> str:
    """Steps that differ; with arrivals off the log where the clients' jitter exceeds a step."""
    from_log = [found.find(run, FROM_LOG, "differing", NOTHING) for run in runs]
    rows = [
        row or found.row(run, CLOSED, "differing", NOTHING)
        for run, row in zip(runs, from_log, strict=True)
    ]
    differ, steps = sum(round(row.error * row.n) for row in rows), sum(row.n for row in rows)
    told = f"{differ:,} of {steps:,} steps differ"
    return f"{told}, arrivals read off the log" if any(from_log) else told


def _kernel_tables(found: Found) -> Iterator[Line]:
    for run in found.runs():
        for fitted_on in prices_of(found, run):
            means, singles = (
                [found.row(run, quantity, statistic, fitted_on) for quantity in TIMES]
                for statistic in BOTH
            )
            told = " / ".join(signed(row.error) for row in means)
            each = " / ".join(plain(row.error) for row in singles)
            theirs = peers(means)
            yield (
                *(f"vLLM 0.19, {run}", kernel_tables(fitted_on)),
                f"mean TTFT / TPOT / E2E {told}; of a request {each}",
                theirs if theirs == NOBODY else f"{theirs}; {peers(singles)}",
            )


def _loads(found: Found) -> Iterator[Line]:
    for name, runs in by_load(found, found.runs(SLOWEST)).items():
        columns = (("ttft_ms", "p50"), *((quantity, "mean") for quantity in TIMES))
        p50, ttft, tpot, e2e = (
            [found.row(run, *column, SLOWEST) for run in runs] for column in columns
        )
        told = f"TTFT p50 {span(p50)}, mean {span(ttft)}; mean TPOT {span(tpot)}, E2E {span(e2e)}"
        yield name, LOADS_FROM, told, peers_span(p50)


def _public_kernels(found: Found) -> Iterator[Line]:
    decode, mixed = (
        span(found.row(run, quantity, "mean", KERNELS) for run in found.runs(KERNELS, quantity))
        for quantity in (DECODE, MIXED)
    )
    yield f"{H100}, steps", PUBLIC, f"mean of decode steps {decode}, with prompts {mixed}", NOBODY
    for name, runs in by_load(found, found.runs(SLOWED)).items():
        for fitted in (KERNELS, SLOWED):
            tpot, e2e = (
                [found.row(run, quantity, "mean", fitted) for run in runs] for quantity in TIMES[1:]
            )
            constant = tpot[0].fitted_on.partition(",")[0]
            prices = PUBLIC if fitted == KERNELS else f"the same, {constant}"
            yield name, prices, f"mean TPOT {span(tpot)}, E2E {span(e2e)}", NOBODY


def _servers(found: Found) -> Iterator[Line]:
    for run in origins(found):
        middle, mean = (found.row(run, "tpot_ms", statistic) for statistic in (MIDDLE, "mape"))
        rank = found.row(run, "tpot_ms", "rank_correlation").error
        ttft = found.row(run, "ttft_ms", MIDDLE).error
        told = f"TPOT median {plain(middle.error)}, mean {plain(mean.error)}"
        theirs = peers([mean])
        yield (
            f"{run} servers" if run.startswith("all") else f"of them, the {middle.n:,} of {run}",
            PUBLIC,
            f"{told}, rank correlation {rank:.3f}; TTFT median {plain(ttft)}",
            theirs if theirs == NOBODY else f"mean {theirs} (2)",
        )
