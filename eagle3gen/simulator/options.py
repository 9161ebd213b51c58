"""What a simulator is told at its start, and may be told otherwise while it runs."""

from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Annotated, get_type_hints

from eagle3gen.simulator import knobs
from eagle3gen.simulator.faults import SHARES, Shares
from eagle3gen.simulator.host import HOSTS, Host
from eagle3gen.simulator.knobs import Knob


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The knobs. Same seed and same requests, same answers."""

    tokenizer: Path
    truth: Path | None = None
    hosts: tuple[Host, ...] = HOSTS

    port: Annotated[int, Knob("port", knobs.PORT, "Where it listens; 0 is a free one.", fixed=True)] = 0
    seed: Annotated[int, Knob("seed", knobs.SEED, "Same seed and requests, same answers.", fixed=True)] = 0
    api_key: Annotated[str | None, Knob("api-key", knobs.TEXT, "Refuse every other key.")] = None
    models: Annotated[tuple[str, ...], Knob("model", knobs.WORDS, "Serve this model only; may be repeated.")] = ()

    latency_seconds: Annotated[float, Knob("latency", knobs.SECONDS, "Mean seconds per answer.")] = 2.0
    latency_spread: Annotated[float, Knob("latency-spread", knobs.SHARE, "A call takes so much more or less.")] = 0.3
    pulse_seconds: Annotated[
        float, Knob("pulse", knobs.SECONDS, "Time between the blanks sent while a call is open.")
    ] = 2.0
    mean_tokens: Annotated[int, Knob("mean-tokens", knobs.TOKENS, "Mean answer length.")] = 600
    spread: Annotated[float, Knob("spread", knobs.SIGMA, "Sigma of the lengths.")] = 0.75
    tool_share: Annotated[float, Knob("tool-share", knobs.SHARE, "Chance to call tools that were sent.")] = 0.6
    fail_share: Annotated[float, Knob("fail-share", knobs.SHARE, "Share of passing errors, unbilled.")] = 0.0
    fault: Annotated[
        Shares,
        Knob("fault", SHARES, "Share of calls that meet a fault: FAULT=SHARE, or HOST:FAULT=SHARE; may be repeated."),
    ] = ()

    generation_delay_seconds: Annotated[
        float,
        Knob("generation-delay", knobs.SECONDS, "How long the record of a generation answers 404 after the call."),
    ] = 3.0
    credits: Annotated[
        Decimal | None, Knob("credits", knobs.USD, "What the account has; else it has no end of them.")
    ] = None
    key_limit: Annotated[Decimal | None, Knob("key-limit", knobs.USD, "What each key may spend.")] = None
    key_limit_reset_seconds: Annotated[
        float, Knob("key-limit-reset", knobs.SECONDS, "The limit of a key begins anew so often; 0: never.")
    ] = 0.0
    management_key: Annotated[
        bool, Knob("management-key", knobs.FLAG, "Whether keys may read /credits; else it answers 403.")
    ] = True
    byok: Annotated[
        bool, Knob("byok", knobs.FLAG, "Hosts bill the client itself: usage.cost is no more than the fee.")
    ] = False
    byok_fee: Annotated[
        float, Knob("byok-fee", knobs.SHARE, "Share of the host's price that is charged as a fee then.")
    ] = 0.0
    cached_share: Annotated[
        float, Knob("cached-share", knobs.SHARE, "Share of calls whose prompt is partly in the host's cache.")
    ] = 0.0


KNOBS: dict[str, Knob] = {
    name: hint.__metadata__[0]
    for name, hint in get_type_hints(Options, include_extras=True).items()
    if hasattr(hint, "__metadata__")
}
"""Every knob by the name of its field."""
