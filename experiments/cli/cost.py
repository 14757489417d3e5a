"""`runway cost`: what one step costs, and why."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from .terminal import number, print_table, say

if TYPE_CHECKING:
    from costmodels.extrapolation import Beyond
    from simulator.plan import StepShape

COUNT = click.IntRange(min=0)


@click.command("cost")
@click.argument("cost_model", metavar="COST_MODEL")
@click.option("--prefill", type=COUNT, default=0, help="New tokens of a prompt chunk.")
@click.option("--past", type=COUNT, default=0, help="Its tokens already in the KV cache.")
@click.option("--decode", type=COUNT, default=0, help="Decoding sequences.")
@click.option("--context", type=COUNT, default=0, help="Tokens in the KV cache of each of them.")
@click.option("--model", metavar="NAME|CONFIG.JSON", help="For roofline and published tables.")
@click.option("--device", metavar="NAME", help="For roofline.")
@click.option("--tensor-parallel-size", type=click.IntRange(min=1), help="For --model.")
@click.option("--dtype", metavar="NAME", help="Of the weights, for --model.")
@click.option("--kv-dtype", metavar="NAME", help="Of the KV cache, for --model.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    cost_model: str,
    *,
    model: str | None,
    device: str | None,
    tensor_parallel_size: int | None,
    dtype: str | None,
    kv_dtype: str | None,
    as_json: bool,
    **step: int,
) -> None:
    """Price one step, term by term.

    COST_MODEL is a name of `runway list cost-models`, the path of a table, or published tables, as
    in llmservingsim:FOLDER or aiconfigurator:h100_sxm. The step computes one prompt chunk of
    --prefill tokens after --past others, beside --decode sequences of --context tokens each.
    """
    from costmodels import load_cost_model

    options = {"model": model, "device": device, "dtype": dtype, "kv_dtype": kv_dtype}
    prices = load_cost_model(cost_model, tp=tensor_parallel_size, **options)
    held = explained(prices, **step)
    if as_json:
        say(json.dumps({"cost_model": prices.table.name, **held}, indent=2, allow_nan=False))
        return
    total = held["price_ms"]
    rows = [(row["term"], row["ms"]) for row in held["terms"] if row["ms"]]
    rows.append(("price", total))
    cells = [[term, number(ms, 4), number(100 * ms / total, 1)] for term, ms in rows]
    print_table("", ["term", "ms", "%"], cells)
    say(f"\n{prices.table.summary}")
    for axis in held["beyond"]:
        say(f"! beyond what was measured: {axis}")
    if prices.stamp:
        say(f"! {prices.stamp}")


def explained(
    prices: Any,  # Any: a LoadedCostModel, whose import costs what this module puts off
    *,
    prefill: int,
    past: int,
    decode: int,
    context: int,
) -> dict[str, Any]:  # Any: JSON values
    """Price and terms in milliseconds, and which axes lie beyond the table.

    Raises ConfigError for a step without work, or for --past or --context without it.
    """
    from costmodels import ExtrapolationWarning
    from simulator.errors import ConfigError
    from simulator.plan import StepShape

    if not prefill and not decode:
        raise ConfigError("a step without work has no price: give --prefill or --decode")
    for option, value, needs, work in (
        ("--past", past, "--prefill", prefill),
        ("--context", context, "--decode", decode),
    ):
        if value and not work:
            raise ConfigError(f"{option} {value} has no effect without {needs}: give both")
    chunks = ((prefill, past),) if prefill else ()
    shape = StepShape(chunks, decode, decode * context, context)
    beyond = [str(axis) for axis in _beyond(prices, shape)]
    terms = [{"term": term, "ms": ms} for term, ms in prices.explain(shape)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExtrapolationWarning)  # `beyond` says it
        price_ms = prices.step_ns(shape) / 1e6
    return {"price_ms": price_ms, "terms": terms, "beyond": beyond}


def _beyond(
    prices: Any,  # Any: as above
    shape: StepShape,
) -> Iterable[Beyond]:
    """Axes beyond what the prices were measured or fitted on."""
    if hasattr(prices, "beyond"):
        yield from prices.beyond(shape)
        return
    from costmodels.extrapolation import Beyond

    asked = {
        "prefill_tokens": shape.prefill_tokens,
        "decode_seqs": shape.decode_seqs,
        "decode_context_tokens": shape.decode_context_tokens,
        "longest_context": shape.longest_context if shape.decode_seqs else 0,
    }
    for quantity, bounds in (prices.table.fitted_range or {}).items():
        if asked.get(quantity, 0) > bounds[1]:
            yield Beyond(quantity, asked[quantity], *bounds)
