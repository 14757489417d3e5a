"""Tables of kind `operators`: written, read, and refused for every wrong thing."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from costmodels import (
    CostTable,
    Operator,
    OperatorGrids,
    load_cost_model,
    load_table,
    save_table,
)
from costmodels.operators_table import TimedStep
from simulator.errors import TableFormatError
from simulator.plan import StepShape

GRIDS = OperatorGrids(
    {
        "qkv": Operator(axis="tokens", points=((1, 10.0), (2, 10.5)), between="next"),
        "lm_head": Operator(axis="sequences", per="step", points=((1, 100.0),)),
        "all_reduce": Operator(axis="bytes", bytes_per_token=8192, calls=2, points=((8192, 9.0),)),
    },
    (
        *((0, 0, 1, 16, 5.0), (0, 0, 1, 32, 6.0)),
        *((16, 0, 0, 0, 7.0), (16, 0, 1, 16, 11.0), (16, 8, 0, 0, 8.0)),
    ),
    skew=((2, 0.25), (64, 0.07)),
    mixed_skew=((2, 0.5),),
)
TABLE = CostTable(
    kind="operators",
    name="mine",
    description="my GPU",
    parameters={
        "layers": 2,
        "decode_batch_sizes": [1, 2, 4],
        "host_us": 3.0,
        "host_combine": "sum",
        "split_kv_below": 38,
        "extrapolation": "clamp",
    },
    provenance={
        **{"origin": "measured here", "device": "GPU", "dtype": "bfloat16", "model": "Llama"},
        **{"engine": "torch", "software": {"torch": "2.9"}, "date": "2026-11-30"},
        **{"command": "runway calibrate", "source": "this", "licence": "MIT", "samples": 7},
    },
    held_out={"split": "random 15 %", "n": 3, "median": 0.02, "p90": 0.05},
    operators=GRIDS,
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "mine.json"


def changed(path, change):
    """The table of this page with a change made to its document, as a path."""
    save_table(TABLE, path)
    document = json.loads(path.read_text(encoding="utf-8"))
    change(document)
    path.write_text(json.dumps(document, indent=1), encoding="utf-8")
    return path


def test_a_table_survives_being_saved_to_the_byte(path, tmp_path):
    save_table(TABLE, path)
    assert load_table(path) == TABLE
    save_table(load_table(path), tmp_path / "again.yaml")
    assert (tmp_path / "again.yaml").read_bytes() == path.read_bytes()


def test_every_grid_point_has_its_line(path):
    save_table(TABLE, path)
    lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    assert "[2, 10.5]" in lines
    assert "[16, 0, 0, 0, 7.0]," in lines


def test_a_loaded_table_prices_a_step(path):
    """2 layers x (qkv of 1 token 10 + 2 x all-reduce 9 + attention 5) + lm_head 100 + host 3."""
    save_table(TABLE, path)
    model = load_cost_model(path)
    assert model.step_ns(StepShape((), 1, 16)) == 1000 * (2 * (10 + 18 + 5) + 100 + 3)
    assert model.stamp is None


def test_grids_stay_out_of_what_a_result_says_of_its_table():
    assert "operators" not in TABLE.to_dict()


def test_a_table_is_written_without_pyyaml(path):
    program = (
        "import sys; sys.modules['yaml'] = None\n"
        "from costmodels.table import CostTable, save_table\n"
        "from costmodels.operators_table import OperatorGrids\n"
        "grids = OperatorGrids(attention=((0, 0, 1, 16, 5.0),))\n"
        "save_table(CostTable(kind='operators', name='n', description='d', parameters="
        "{'layers': 1}, provenance={'origin': 'hand-written'}, operators=grids), sys.argv[1])"
    )
    root = Path(__file__).resolve().parents[2]
    subprocess.run([sys.executable, "-c", program, str(path)], check=True, cwd=root)
    assert load_table(path).operators.attention == ((0, 0, 1, 16, 5.0),)


def test_a_table_of_a_mebibyte_is_refused(path):
    points = tuple((0, 0, seqs, 1_000_000, 123456.789) for seqs in range(1, 30_000))
    table = CostTable("operators", "n", "d", {"layers": 1}, {"origin": "hand-written"})
    with pytest.raises(TableFormatError, match=r"limit is 1,048,576: keep fewer"):
        save_table(
            CostTable(**{**fields(table), "operators": OperatorGrids(attention=points)}), path
        )


def fields(table):
    return {name: getattr(table, name) for name in table.__dataclass_fields__}


def at(*keys):
    """A change: the last of `keys` becomes the value of the one before."""

    def change(document):
        *way, key, value = keys
        for step in way:
            document = document[step]
        if value is None:
            del document[key]
        else:
            document[key] = value

    return change


COUNTED = ("operators", "counted")
QKV = (*COUNTED, "qkv")
ATTENTION = ("operators", "attention")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (at("held_out", None), "held_out missing"),
        (at("held_out", "p90", None), "held_out.p90 missing"),
        (at("provenance", "device", None), "provenance.device missing"),
        (at("parameters", "layers", None), "parameters.layers missing"),
        (at("parameters", "layers", 0), "parameters.layers must be at least 1"),
        (at("parameters", "host_combine", "mean"), "host_combine is 'mean'"),
        (at("parameters", "extrapolation", "no"), "extrapolation 'no' is unknown"),
        (at("parameters", "decode_batch_sizes", [4, 2]), "ascending whole numbers"),
        (at("operators", None), "operators is the section of measured grids"),
        (at("kind", "constant"), "operators is the section of measured grids"),
        (at(*QKV, "points", [[2, 1.0], [1, 1.0]]), "row 2 is .*sort them"),
        (at(*QKV, "points", [[1, 1.0], [1, 1.0]]), "row 2 is .*sort them"),
        (at(*QKV, "points", [[1, -1.0]]), r"row 1 takes -1\.0 us"),
        (at(*QKV, "points", [[1, float("nan")]]), "row 1 takes 'NaN' us"),
        (at(*QKV, "points", [[1, 1e9]]), "must be a number from 0 to 1e"),
        (at(*QKV, "points", [[1.5, 1.0]]), "must be a whole number"),
        (at(*QKV, "points", [[1]]), "must hold 2 numbers"),
        (at(*QKV, "points", []), "points is empty"),
        (at(*QKV, "axis", "token"), "axis must be tokens or sequences or bytes"),
        (at(*QKV, "per", "model"), "per must be layer or step"),
        (at(*QKV, "axis", "bytes"), "goes with bytes_per_token"),
        (at(*QKV, "unit", "ms"), "unit is not a known key"),
        (at(*ATTENTION, [[0, 0, 0, 0, 1.0]]), "a point with no work"),
        (at(*ATTENTION, [[0, 5, 1, 16, 1.0]]), "past without a chunk"),
        (at(*ATTENTION, [[5, 0, 0, 16, 1.0]]), "decode_context without decodes"),
        (at(*ATTENTION, [[16, 0, 1, 16, 1.0]]), "lacks that chunk alone"),
        (at("operators", {"counted": {}}), "counted is empty"),
        (at(*QKV, "points", [[1, 10.0]]), "qkv.points holds one row.*measure at least two"),
        (at(*ATTENTION, [[0, 0, 1, 16, 5.0]]), "holds one row of decodes.*measure at least two"),
        (at(*ATTENTION, [[16, 0, 0, 0, 5.0]]), "holds one row of prompt chunks"),
        (at(*QKV, "spread", [[0.1, 5]]), "has 1 rows for 2 points"),
        (at(*QKV, "spread", [[0.1, 5], [0.1]]), r"spread row 2 is \[0\.1\]: must be"),
        (at(*QKV, "spread", [[0.1, 5], [-1.0, 5]]), "spread row 2 is"),
        (at(*QKV, "spread", [[0.1, 5], [0.1, 0]]), "row 2 counts 0 samples"),
        (at(*QKV, "activated", [2.0]), "activated must be 2 numbers above 0"),
        (at(*QKV, "work", [1, 2]), "must be FLOPs, bytes and bytes per count"),
        (at("operators", "attention_spread", [[0.1, 5]]), "has 1 rows for 5 points"),
        (at("operators", "steps", [[1, 2]]), "steps row 1 is .*must hold 8 numbers"),
        (at("operators", "steps", [[0, 0, 1, 16, 9.0, 0.1, 5, 2]]), "row 1 ends in"),
        (at("operators", "steps", [[0, 0, 1, 16, -9.0, 0.1, 5, 1]]), "row 1 takes -9"),
        (at("operators", "skew", [[2, 1.5]]), r"skew of 2 decodes is 1\.5: must be 0 to 1"),
        (at("operators", "skew", [[4, 0.1], [2, 0.1]]), "skew row 2 is .*sort them"),
    ],
)
def test_a_bad_table_is_refused(path, change, problem):
    with pytest.raises(TableFormatError, match=problem) as refused:
        load_cost_model(changed(path, change))
    assert str(refused.value).startswith(str(path))


@pytest.mark.parametrize(("scale", "unit"), [(1e-3, "milliseconds by 1,000"), (1e-6, "seconds by")])
def test_a_measured_table_in_another_unit_is_refused_with_the_factor(path, scale, unit):
    """10 us of qkv and twice 9 us of all-reduce, written as 0.028 ms: no device does that in us."""

    def shrink(document):
        for operator in document["operators"]["counted"].values():
            operator["points"] = [[count, us * scale] for count, us in operator["points"]]

    with pytest.raises(TableFormatError, match=rf"times are microseconds; multiply .*{unit}"):
        load_cost_model(changed(path, shrink))


def test_a_hand_written_table_may_hold_one_row_and_any_time(path):
    grids = OperatorGrids({"qkv": Operator(axis="tokens", points=((1, 0.01),))})
    table = CostTable("operators", "n", "d", {"layers": 1}, {"origin": "hand-written"})
    save_table(CostTable(**{**fields(table), "operators": grids}), path)
    assert load_table(path).operators == grids


def test_what_is_known_of_samples_and_work_survives_being_saved(path):
    grids = OperatorGrids(
        {
            "experts": Operator(
                axis="tokens",
                points=((1, 10.0), (2, 10.5)),
                spread=((0.5, 7), (0.25, 9)),
                activated=(2.0, 3.5),
                work=(200, 400, 8),
            )
        },
        GRIDS.attention,
        tuple((0.1 * i, 3 + i) for i in range(5)),
        (TimedStep(16, 8, 1, 16, 99.0, 1.5, 4, True), TimedStep(0, 0, 1, 16, 9.0, 0.0, 3, False)),
    )
    table = CostTable(**{**fields(TABLE), "operators": grids})
    save_table(table, path)
    assert load_table(path) == table
