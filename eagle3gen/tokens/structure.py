"""The structural check of one sample: whatever made its ids, do they look like an answer of this model?

It works from the published numbers alone (published.py). It catches control ids that are wrong, missing, doubled or
out of place, a tokenizer whose control strings have other ids than the published ones or whose byte pairs are not the
published ones, and control strings that leaked into text. It cannot see a wrong id among ordinary text, nor wrong
byte pairs in a vocabulary that is smaller than the published one.
"""

from collections.abc import Iterator, Sequence

from eagle3gen.records import Sample, Verdict
from eagle3gen.tokens.loading import Tokenizer
from eagle3gen.tokens.published import PUBLISHED, Published

IMPLICIT_CLOSE = "implicit close"
"""The hypothesis of an answer that went from its thinking straight to its tools."""
SERVED = frozenset({Verdict.EXACT_IDS, Verdict.EXACT_LOGPROBS})
"""Here the order of control ids is the model's own doing."""


def structural_fault(sample: Sample, tokenizer: Tokenizer) -> str:
    """What is wrong with a sample's ids in one sentence, or "" if nothing is.

    A sample without output ids has no structure to check; its verdict says why there are none.
    """
    published = PUBLISHED.get(tokenizer.family.name)
    if published is None or not sample.output_ids:
        return ""
    return next(filter(None, _faults(sample, tokenizer, published)), "")


def _faults(sample: Sample, tokenizer: Tokenizer, published: Published) -> Iterator[str]:
    output = sample.output_ids
    yield _tokenizer_fault(tokenizer, published)
    yield _range_fault("prompt", sample.prompt_ids, tokenizer, published)
    yield _range_fault("output", output, tokenizer, published)
    yield _prompt_fault(sample.prompt_ids, published)
    controls = [i for i in output if i in published.controls]
    yield _end_fault(sample, published)
    yield _thinking_fault(sample, controls, published)
    yield _nest_fault(controls, sample.verdict is Verdict.TRUNCATED, published)
    yield _leak_fault(output, tokenizer, published)


def _tokenizer_fault(tokenizer: Tokenizer, published: Published) -> str:
    encoding = tokenizer.encoding
    for control, spelled in published.names.items():
        found = encoding.control_ids.get(spelled)
        if found != control:
            return f"the tokenizer has {spelled} at {found}, which is {control} in {tokenizer.family.name}"
    if published.ranks and encoding.base_size == published.ranks and encoding.sha256 != published.ranks_sha256:
        return f"the tokenizer's byte pairs are not those of {tokenizer.family.name}"
    return ""


def _range_fault(part: str, ids: Sequence[int], tokenizer: Tokenizer, published: Published) -> str:
    known, controls = tokenizer.encoding.base_size, published.controls
    # A set first: an answer has thousands of ids and few different ones.
    if wrong := [i for i in set(ids) if not (0 <= i < known or i in controls)]:
        return f"the {part} holds {min(wrong)}, which is neither one of the {known:,} text ids nor a control id"
    return ""


def _prompt_fault(prompt: Sequence[int], published: Published) -> str:
    if not prompt:
        return "there are no prompt ids before the output"
    if published.prompt_begins and prompt[0] not in published.prompt_begins:
        return f"the prompt begins with {prompt[0]}, which opens no message"
    wanted = published.prompt_ends
    tail = [i for i in prompt[-16:] if i in published.controls][len(wanted) * -1 :] if wanted else []
    if tuple(tail) != wanted or (wanted and prompt[-1] != wanted[-1]):
        return f"the prompt ends with the control ids {tail}, not with {list(wanted)}"
    return ""


def _end_fault(sample: Sample, published: Published) -> str:
    output = sample.output_ids
    # A cut answer whose prompt is in doubt has the verdict of the prompt; what it lacks shows nothing.
    cut = sample.verdict is Verdict.TRUNCATED or sample.hypothesis == "prompt"
    early = next((n for n, i in enumerate(output) if i in published.ends and n + 1 < len(output)), None)
    if early is not None:
        return f"the output goes on after {output[early]}, which ends a turn, at {early:,} of {len(output):,}"
    ended = output[-1] in published.ends
    if not ended and not cut:
        return f"the output ends with {output[-1]}, not with an end of turn ({_listed(published.ends)})"
    if ended and sample.verdict is Verdict.TRUNCATED:
        return f"the answer was cut, but its output ends with {output[-1]}, which ends a turn"
    return ""


def _thinking_fault(sample: Sample, controls: Sequence[int], published: Published) -> str:
    opens, closes = controls.count(published.opens_thinking or -1), controls.count(published.closes_thinking or -1)
    if opens and published.opened_by_prompt:
        return f"the output holds {published.spelled(published.opens_thinking or -1)}, which stands in the prompt"
    if opens > 1 or closes > 1:
        return f"the output opens its thinking {opens} times and closes it {closes} times"
    may_lack = (
        not published.thinks
        or sample.verdict is Verdict.TRUNCATED
        or sample.verdict in SERVED
        or sample.hypothesis == "prompt"
        or IMPLICIT_CLOSE in sample.hypothesis
    )
    if published.closes_thinking is not None and not closes and not may_lack:
        return f"the output never closes its thinking with {published.spelled(published.closes_thinking)}"
    return ""


def _nest_fault(controls: Sequence[int], cut: bool, published: Published) -> str:
    """Whether sections open, part and close as they must, and nothing else is there."""
    nests = published.nests
    parts = {nest.parts for nest in nests.values()}
    closers = {nest.closes for nest in nests.values()}
    others = published.ends | {published.opens_thinking, published.closes_thinking}
    open_sections: list[int] = []
    parted = False
    for control in controls:
        around = open_sections[-1] if open_sections else None
        if control in nests and nests[control].inside == around:
            open_sections.append(control)
            parted = False
        elif control in parts and around is not None and nests[around].parts == control and not parted:
            parted = True
        elif control in closers and around is not None and nests[around].closes == control:
            if nests[around].parts is not None and not parted:
                return f"the output closes {published.spelled(around)} without what must stand in it"
            open_sections.pop()
        elif around is not None and control in published.ends:
            break
        elif control not in others or around is not None:
            return f"{published.spelled(control)} ({control}) stands where an answer cannot have it"
    if open_sections and not cut:
        return f"the output never closes {published.spelled(open_sections[-1])}"
    return ""


def _leak_fault(output: Sequence[int], tokenizer: Tokenizer, published: Published) -> str:
    """Control strings as letters: a whole section, or one at either end of a text. A quotation in prose is none."""
    for run in _runs(output, published):
        text = tokenizer.decode(run)
        spelled = tokenizer.encoding.control_strings_in(text)
        for leaked in spelled:
            if text.strip().startswith(leaked) or text.strip().endswith(leaked):
                return f"{leaked} leaked into the output as letters"
        for opener, nest in published.nests.items():
            begin = text.find(published.spelled(opener))
            if begin >= 0 and text.find(published.spelled(nest.closes), begin) > begin:
                return f"a section of {published.spelled(opener)} leaked into the output as letters"
    return ""


def _runs(ids: Sequence[int], published: Published) -> Iterator[list[int]]:
    """The maximal runs of ordinary text."""
    run: list[int] = []
    for i in ids:
        if i in published.controls:
            if run:
                yield run
            run = []
        else:
            run.append(i)
    if run:
        yield run


def _listed(ids: frozenset[int]) -> str:
    return ", ".join(map(str, sorted(ids)))
