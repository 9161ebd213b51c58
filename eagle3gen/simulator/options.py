"""What a simulator is told at its start, and may be told otherwise while it runs."""

from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Annotated, get_type_hints

from eagle3gen.simulator import knobs
from eagle3gen.simulator.faults import GROUPS, MIX, NO_FAULTS, SHARES, Mix, Shares
from eagle3gen.simulator.host import HOSTS, Host
from eagle3gen.simulator.hosts import HOST_FILE
from eagle3gen.simulator.knobs import Knob
from eagle3gen.simulator.rates import RATES, Rates


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The knobs. Same seed and same requests, same answers."""

    tokenizer: Path
    truth: Path | None = None

    port: Annotated[int, Knob("port", knobs.PORT, "Where it listens; 0 is a free one.", fixed=True)] = 0
    seed: Annotated[int, Knob("seed", knobs.SEED, "Same seed and requests, same answers.", fixed=True)] = 0
    api_key: Annotated[str | None, Knob("api-key", knobs.TEXT, "Refuse every other key.")] = None
    models: Annotated[tuple[str, ...], Knob("model", knobs.WORDS, "Serve this model only; may be repeated.")] = ()

    hosts: Annotated[
        tuple[Host, ...], Knob("hosts", HOST_FILE, "Hosts of a TOML file in place of the usual three.")
    ] = HOSTS

    latency_seconds: Annotated[float, Knob("latency", knobs.SECONDS, "Mean seconds per answer.")] = 2.0
    latency_spread: Annotated[float, Knob("latency-spread", knobs.SHARE, "A call takes so much more or less.")] = 0.3
    pulse_seconds: Annotated[
        float, Knob("pulse", knobs.SECONDS, "Time between the blanks sent while a call is open.")
    ] = 2.0
    mean_tokens: Annotated[int, Knob("mean-tokens", knobs.TOKENS, "Mean answer length.")] = 600
    spread: Annotated[float, Knob("spread", knobs.SIGMA, "Sigma of the lengths.")] = 0.75
    tool_share: Annotated[float, Knob("tool-share", knobs.SHARE, "Chance to call tools that were sent.")] = 0.6
    fail_share: Annotated[float, Knob("fail-share", knobs.SHARE, "Share of passing errors, unbilled.")] = 0.0
    faults: Annotated[
        Mix, Knob("faults", MIX, f"Calls meet a fault of a group ({', '.join(GROUPS)}), or of a TOML file.")
    ] = NO_FAULTS
    fault_share: Annotated[
        float, Knob("fault-share", knobs.SHARE, "Share of calls that meet a fault of the group.")
    ] = 0.1
    fault: Annotated[
        Shares,
        Knob("fault", SHARES, "Share of calls that meet a fault: FAULT=SHARE, or HOST:FAULT=SHARE; may be repeated."),
    ] = ()

    outage_seconds: Annotated[
        float, Knob("outage", knobs.SECONDS, "How long connections are refused after the fault of that name.")
    ] = 1.0
    tokens_per_event: Annotated[
        int, Knob("tokens-per-event", knobs.AT_LEAST_ONE, "Tokens in one event of a stream.")
    ] = 3
    dialect: Annotated[
        str, Knob("dialect", knobs.one_of("name", "openrouter", "vllm"), "Whose API it speaks: openrouter or vllm.")
    ] = "openrouter"

    rate_limit: Annotated[int, Knob("rate-limit", knobs.COUNT, "Calls a minute and key; 0: no limit.")] = 0
    rate_window_seconds: Annotated[
        float, Knob("rate-window", knobs.SECONDS, "How long the minute of --rate-limit is.")
    ] = 60.0
    host_rate: Annotated[
        Rates, Knob("host-rate", RATES, "Calls a minute at a host, then 429: HOST=N, or N for each; may be repeated.")
    ] = ()
    pool: Annotated[
        int, Knob("pool", knobs.COUNT, "Calls open at all hosts, then 429 of a shared pool; 0: no limit.")
    ] = 0
    busy_after_seconds: Annotated[
        float,
        Knob("busy-after", knobs.SECONDS, "When everything begins to be 429, after the start or a turn of knobs."),
    ] = 0.0
    busy_seconds: Annotated[float, Knob("busy", knobs.SECONDS, "How long everything is 429; 0: never.")] = 0.0
    edge_burst: Annotated[
        int, Knob("edge-burst", knobs.COUNT, "Calls within a second, then the edge answers 1015; 0: never.")
    ] = 0
    edge_seconds: Annotated[float, Knob("edge-seconds", knobs.SECONDS, "How long it does so.")] = 10.0

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
