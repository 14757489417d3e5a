"""Does a cost table price this model on this device? Refused otherwise, with what to do."""

from __future__ import annotations

from collections.abc import Mapping

from calibration.device import check_device, device_title
from calibration.errors import CalibrationError
from calibration.sizes import DecoderSizes


def kv_cache_dtype_of(provenance: Mapping[str, object]) -> str:
    """The KV cache's number format that a table was measured with."""
    return str(provenance.get("kv_cache_dtype", "auto"))


def threads_of(provenance: Mapping[str, object]) -> int | None:
    """Threads of torch that a table was measured with, where it says so."""
    threads = provenance.get("threads")
    return threads if isinstance(threads, int) else None


def clock_of_table(provenance: Mapping[str, object]) -> str:
    """The clock that a table was measured with."""
    return str(provenance.get("clock", "wall"))


def check_table(
    name: str, provenance: Mapping[str, object], sizes: DecoderSizes, device: str, dtype: str
) -> None:
    """CalibrationError unless the table was measured for this model, dtype and device.

    Threads of torch must be those of the table already: they are part of a CPU's name.
    """
    check_device(device, dtype)
    measure = f"measure one: runway calibrate --device {device} --dtype {dtype} -o TABLE"
    if not str(provenance.get("origin", "")).startswith("measured"):
        raise CalibrationError(f"cost table {name!r} is not measured: {measure} --model MODEL")
    shapes, model = provenance.get("shapes"), provenance.get("model")
    if (shapes is not None and shapes != sizes.shapes) or (shapes is None and model != sizes.name):
        raise CalibrationError(
            f"cost table {name!r} is of {model}{f' ({shapes})' if shapes else ''}, the model to "
            f"serve is {sizes.name} ({sizes.shapes}): give its config.json, or {measure}"
        )
    if provenance.get("tensor_parallel", 1) != 1:
        raise CalibrationError(
            f"cost table {name!r} is of {provenance['tensor_parallel']} devices, and one serves "
            f"here: {measure} --model MODEL"
        )
    if provenance.get("dtype") != dtype:
        raise CalibrationError(
            f"cost table {name!r} is of dtype {provenance.get('dtype')}, to serve is {dtype}: "
            f"give --dtype {provenance.get('dtype')}, or {measure}"
        )
    if provenance.get("device") != device_title(device):
        raise CalibrationError(
            f"cost table {name!r} was measured on {provenance.get('device')}, this is "
            f"{device_title(device)}: {measure}"
        )
