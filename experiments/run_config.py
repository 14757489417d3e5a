"""`RunConfig`: everything that decides a run, defined once.

Each field is a YAML key, and with dashes a flag of the command line; its description, unit and
default are the flag's help. Names are vLLM's where vLLM has one.
"""

from __future__ import annotations

import math
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from simulator.errors import ConfigError

from . import values as v
from .explain import explain
from .option import (
    measure_option,
    memory_option,
    output_option,
    scheduler_option,
    transform_option,
    workload_option,
)


class RunConfig(BaseModel):
    """One run. Frozen; unknown fields are refused with the nearest name.

    Raises:
        ConfigError: a field is unknown or its value is not acceptable.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    trace: v.Text | None = workload_option(None, "Trace file to replay (.gz too).", metavar="FILE")
    format: str | None = workload_option(
        None, "Format of the trace.", metavar="NAME", shown="detected; see `runway list formats`"
    )
    columns: v.Columns | None = workload_option(
        None, "Where a generic trace keeps its fields.", metavar="FIELD=COLUMN,..."
    )
    bad_rows: Literal["refuse", "skip"] = workload_option(
        "refuse", "A row with an impossible cell: refuse the file, or skip and count the row."
    )
    failed_rows: Literal["drop", "refuse", "prompt-only"] = workload_option(
        "drop", "A failed request (no output): drop and count it, refuse, or keep its prompt."
    )
    workload: str | None = workload_option(None, "Runway's own: bundled.", metavar="NAME")
    preset: str | None = workload_option(None, "A typical generated workload.", metavar="NAME")
    requests: v.Count | None = workload_option(
        None,
        "Generate this many requests.",
        metavar="N",
        aliases=("num_prompts",),
        shown="with --preset: 1000",
    )
    rate: v.Positive | None = workload_option(
        None,
        "Mean arrival rate. A trace is rescaled to it, keeping its shape; lengths get arrivals.",
        metavar="REQ/S",
        aliases=("request_rate",),
        shown="a trace's or preset's own; needed to generate",
    )
    arrival: Literal["poisson", "gamma", "constant", "on-off", "all-at-once"] | None = (
        workload_option(None, "Arrivals generated, or for a file without any.", shown="poisson")
    )
    burstiness: v.Burstiness | None = workload_option(
        None, "Gamma shape of the gaps: 1 Poisson, below 1 burstier.", metavar="SHAPE", shown="1"
    )
    on_s: v.Positive | None = workload_option(
        None, "on-off: length of a burst; between bursts nothing arrives.", metavar="S"
    )
    off_s: v.NotNegative | None = workload_option(None, "on-off: the pause.", metavar="S")
    input_tokens: str | None = workload_option(
        None,
        "Prompt lengths to generate, such as fixed:1000, uniform:100:2000, lognormal:MEDIAN:SIGMA.",
        metavar="SPEC",
        shown="fixed:1000",
    )
    output_tokens: str | None = workload_option(
        None, "Output lengths to generate.", metavar="SPEC", shown="lognormal:200:0.8"
    )
    seed: v.Natural = workload_option(0, "Seed of everything random.", metavar="N")
    users: v.Count | None = workload_option(
        None, "Closed loop: this many users, each waits for its answer.", metavar="N"
    )
    think_time_s: v.NotNegative | None = workload_option(
        None, "Closed loop: pause between an answer and the next request.", metavar="S", shown="0"
    )
    max_concurrency: v.Count | None = workload_option(
        None, "Hold arrivals back while this many requests are in the system.", metavar="N"
    )
    client_delay_in_ms: v.NotNegative = workload_option(
        0.0, "HTTP and front end, from a client's send to the engine's queue.", metavar="MS"
    )
    tokenize_us_per_token: v.NotNegative = workload_option(
        0.0, "The same, for each prompt token.", metavar="US"
    )
    client_delay_out_ms: v.NotNegative = workload_option(
        0.0, "From the end of a step to the client reading its token.", metavar="MS"
    )

    rate_scale: v.Positive | None = transform_option(
        None, "Multiply the arrival rate.", metavar="FACTOR"
    )
    time_scale: v.Positive | None = transform_option(
        None, "Multiply every arrival time (0.5 doubles the rate).", metavar="FACTOR"
    )
    head: v.Count | None = transform_option(None, "Only the first requests.", metavar="N")
    window_s: v.Window | None = transform_option(
        None, "Only arrivals in this stretch of the trace.", metavar="START:END"
    )
    min_prompt_tokens: v.Count | None = transform_option(None, "Drop shorter prompts.", metavar="N")
    max_prompt_tokens: v.Count | None = transform_option(None, "Drop longer prompts.", metavar="N")
    spread_ties: bool = transform_option(
        False, "Spread requests with equal, coarse timestamps over the tick (uses the seed)."
    )

    predict_outputs: str | None = transform_option(
        None,
        "What a predictor of output lengths says: lognormal:SIGMA (its error), mean, oracle.",
        metavar="SPEC",
        shown="the trace's predicted_output_tokens, if it has them",
    )

    scheduler: str = scheduler_option(
        "chunked", "Policy, or your own class as path.py:Class.", metavar="NAME|FILE.py:CLASS"
    )
    max_num_batched_tokens: v.TokenBudget = scheduler_option(
        2048, "Token budget of a step; none for no budget.", metavar="N", aliases=("token_budget",)
    )
    max_num_seqs: v.Count | None = scheduler_option(
        None,
        "Most sequences in a step.",
        metavar="N",
        aliases=("max_running_requests",),
        shown="128, or the token budget if smaller",
    )
    chunk_size: v.ChunkSize = scheduler_option(
        None,
        "Most tokens of one prompt in a step; -1 or none for no chunking beyond the token budget.",
        metavar="N",
        aliases=("long_prefill_token_threshold",),
        shown="none",
    )
    wait_for_full_batch: bool | None = scheduler_option(
        None, "static: form a batch only when it is full.", shown="no"
    )
    batch_timeout_s: v.Positive | None = scheduler_option(
        None, "static: with the above, start a partial batch after this wait.", metavar="S"
    )
    deliver: Literal["stream", "batch_end"] | None = scheduler_option(
        None, "static: tokens reach the user as generated, or when the batch ends.", shown="stream"
    )
    pad_prompts: bool | None = scheduler_option(
        None, "static: price every prompt of a batch as its longest.", shown="yes"
    )
    scheduler_args: v.Arguments | None = scheduler_option(
        None,
        "Constructor argument of the policy; repeatable.",
        metavar="KEY=VALUE",
        flag="--scheduler-arg",
    )
    enable_chunked_prefill: bool | None = scheduler_option(
        None, "vllm: cut a prompt that exceeds the budget left; if not, it waits.", shown="yes"
    )
    scheduler_reserve_full_isl: bool | None = scheduler_option(
        None, "vllm: admit a prompt only if blocks for all of it are free.", shown="yes"
    )
    scheduling_policy: Literal["fcfs", "priority"] | None = scheduler_option(
        None, "vllm: in order of arrival, or of the requests' priority.", shown="fcfs"
    )
    chunked_prefill_size: v.Count | None = scheduler_option(
        None, "sglang: prompt tokens of a prompt step.", metavar="N", shown="8192"
    )
    schedule_conservativeness: v.NotNegative | None = scheduler_option(
        None, "sglang: scales the memory kept for running requests.", metavar="X", shown="1"
    )
    enable_mixed_chunk: bool | None = scheduler_option(
        None, "sglang: decodes ride along in prompt steps.", shown="no"
    )
    tpot_target_ms: v.Positive | None = scheduler_option(
        None, "dynamic: what a step with streams in it may last.", metavar="MS", shown="50"
    )
    async_scheduling: bool | None = scheduler_option(
        None,
        "Plan a step while the one before it runs.",
        shown="yes for vllm, sglang; otherwise no",
    )

    cost_model: v.Text | None = memory_option(
        None,
        "Cost table: bundled, a file, or kernels that others measured (runway list cost-models).",
        metavar="NAME|FILE",
        shown="b300-qwen3-32b-tp1",
    )
    kv_blocks: v.Count | None = memory_option(
        None,
        "KV cache capacity per GPU.",
        metavar="BLOCKS",
        aliases=("num_gpu_blocks_override",),
        shown="what the cost table was measured with",
    )
    kv_bytes: v.Count | None = memory_option(
        None, "The same; needs the model.", metavar="BYTES", aliases=("kv_cache_memory_bytes",)
    )
    kv_cache_gib: v.Positive | None = memory_option(
        None, "The same; needs the model.", metavar="GIB"
    )
    model: v.Text | None = memory_option(
        None, "The model's config.json, or a bundled model.", metavar="FILE|NAME"
    )
    device: str | None = memory_option(
        None, "GPU from its datasheet, for roofline prices or its memory.", metavar="NAME"
    )
    dtype: (
        Literal["bfloat16", "float16", "fp8", "fp8_static", "fp8_block", "int8", "int4"] | None
    ) = memory_option(None, "Number format of the weights.", shown="bfloat16")
    gpu_memory_gib: v.Positive | None = memory_option(
        None, "GPU memory, to work out the KV cache capacity; needs the model.", metavar="GIB"
    )
    gpu_memory_utilization: v.Share = memory_option(0.9, "Share of it to use.", metavar="0..1")
    activation_reserve_gib: v.NotNegative | None = memory_option(
        None, "Kept free for activations.", metavar="GIB"
    )
    kv_dtype: Literal["auto", "bf16", "fp16", "fp8", "int8", "int4"] = memory_option(
        "auto", "Number format of the KV cache; auto is the model's.", aliases=("kv_cache_dtype",)
    )
    tensor_parallel_size: v.Count = memory_option(1, "GPUs that share the model.", metavar="N")
    block_size: v.Count | None = memory_option(
        None, "Tokens in a KV block.", metavar="TOKENS", shown="the cost table's, or 16"
    )
    enable_prefix_caching: bool | None = memory_option(
        None,
        "Reuse KV blocks of requests that begin alike.",
        shown="yes for vllm, sglang; otherwise no",
    )
    never_fits: Literal["reject", "wait"] = memory_option(
        "reject",
        "A request larger than the cache: reject it, or let it block the queue as vLLM does.",
    )
    swap_ms_per_block: v.Positive | None = memory_option(
        None,
        "Preempt by moving KV blocks to host memory, at this time a block and way.",
        metavar="MS",
        shown="preempt by recompute",
    )
    swap_bandwidth_gb_s: v.Positive | None = memory_option(
        None, "The same, from the bandwidth of the link of each GPU; needs --model.", metavar="GB/S"
    )
    watermark: v.Share = memory_option(
        0.0, "Share of the blocks that admission leaves free.", metavar="0..1"
    )
    max_model_len: v.Count | None = memory_option(
        None, "Longest prompt plus output; longer requests are rejected.", metavar="TOKENS"
    )

    slo: v.Limits | None = measure_option(
        None,
        "Limits of a good request: ttft, tpot, e2el, itl_max; repeatable.",
        metavar="NAME=TIME,...",
        shown="the preset's, or ttft=1000ms,tpot=50ms",
    )
    client_slo: v.ClientLimits | None = measure_option(
        None,
        "Limits of one client's requests, for its own goodput; repeatable.",
        metavar="CLIENT.NAME=TIME,...",
        shown="the same for all",
    )
    stop_time_s: v.Positive | None = measure_option(
        None, "Stop the clock here; what is in the system counts as unfinished.", metavar="S"
    )
    warmup_s: v.NotNegative = measure_option(0.0, "Warm-up left out of the metrics.", metavar="S")
    warmup_fraction: v.Share = measure_option(0.0, "The same, of the duration.", metavar="0..1")
    warmup_requests: v.Natural = measure_option(0, "The same, in first requests.", metavar="N")
    cooldown_s: v.NotNegative = measure_option(0.0, "End left out of the metrics.", metavar="S")
    cooldown_fraction: v.Share = measure_option(0.0, "The same, of the duration.", metavar="0..1")
    cooldown_requests: v.Natural = measure_option(0, "The same, in last requests.", metavar="N")

    out: v.Text | None = output_option(None, "Folder for the results.", metavar="DIR")
    steps: bool = output_option(False, "Write every step, token and preemption too.")
    timing: bool = output_option(True, "Write wall_s; without it equal runs give equal files.")
    json_summary: bool = output_option(
        False, "Print the summary as one JSON object.", flag="--json", aliases=("json",)
    )
    quiet: bool = output_option(False, "Print nothing.")

    def __init__(self, **fields: Any) -> None:  # Any: raw values of any field
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise ConfigError(explain(error, RunConfig.model_fields, str)) from error

    def saved(self) -> dict[str, Any]:  # Any: YAML values
        """What config.yaml and summary.json hold: every setting but where the results go.

        Settings that are unset and have no value to show are left out.
        """
        held = self.model_dump(mode="json", exclude=set(NOT_SAVED))
        fields = type(self).model_fields
        kept = {k: x for k, x in held.items() if x is not None or fields[k].default is not None}
        return {k: "inf" if x == math.inf else x for k, x in kept.items()}


NOT_SAVED = ("out", "json_summary", "quiet")
"""Fields that say where results go, not what they are."""
