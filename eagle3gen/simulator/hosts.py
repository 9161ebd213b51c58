"""The hosts that a file names."""

import tomllib
from dataclasses import fields
from decimal import Decimal
from pathlib import Path
from typing import Any

from eagle3gen.simulator.host import Host
from eagle3gen.simulator.knobs import BadKnob, Kind, read_usd

PRICES = {
    "prompt": "prompt_usd_per_million",
    "completion": "completion_usd_per_million",
    "cached": "cached_usd_per_million",
}
NEEDED = ("name", "tag", "prompt", "completion")
OTHERS = {"context_length": int, "max_completion_tokens": int, "parameters": list, "cancels": bool}


def read_hosts(value: Any) -> tuple[Host, ...]:
    """From a TOML file of `[[hosts]]`, or a list written as its tables. Raises BadKnob.

    A table has name, tag (host/variant) and the prices prompt, completion and perhaps cached in USD per million
    tokens; perhaps quantization (else the variant), context_length, max_completion_tokens, parameters and cancels.
    """
    if isinstance(value, tuple) and all(isinstance(host, Host) for host in value):
        return value
    if isinstance(value, str):
        try:
            value = tomllib.loads(Path(value).read_text("utf-8"), parse_float=Decimal).get("hosts")
        except (OSError, ValueError) as error:
            raise BadKnob(f"{value} cannot be read as hosts: {error}") from error
    if not isinstance(value, list) or not value:
        raise BadKnob("hosts are written as [[hosts]] tables, one at least")
    return tuple(map(_host, value))


def _host(table: Any) -> Host:
    if not isinstance(table, dict) or not all(name in table for name in NEEDED):
        raise BadKnob(f"a host needs {', '.join(NEEDED)}")
    told: dict[str, Any] = {"quantization": str(table["tag"]).rpartition("/")[2]}
    for name, value in table.items():
        if name in PRICES:
            told[PRICES[name]] = read_usd(value)
        elif name in {"name", "tag", "quantization"} and isinstance(value, str) and value:
            told[name] = value
        elif name in OTHERS and isinstance(value, OTHERS[name]):
            told[name] = tuple(value) if isinstance(value, list) else value
        else:
            known = ", ".join([*NEEDED, "cached", "quantization", *OTHERS])
            raise BadKnob(f"{name} = {value!r} of host {table['name']} is wrong; a host has {known}")
    return Host(**{field.name: told[field.name] for field in fields(Host) if field.name in told})


HOST_FILE = Kind("file", read_hosts)
