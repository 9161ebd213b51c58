"""Sampling parameters: refused when they cost money for nothing, and put into OpenRouter's words."""

import pytest

from eagle3gen.endpoint.deadlines import Transport
from eagle3gen.endpoint.extras import Extras
from eagle3gen.endpoint.request import CompletionRequest
from eagle3gen.endpoint.sampling import KNOWN, check_sampling, openrouter_sampling
from eagle3gen.errors import InputError

GOOD = [
    {},
    {"temperature": 1, "top_p": 0.95, "seed": 7, "top_k": -1, "logprobs": True},
    {"temperature": None},
    {"include_reasoning": True},
    {"reasoning": {"effort": "high"}, "reasoning_effort": "high"},
    {"reasoning": {"enabled": False}},
    {"reasoning": {"max_tokens": 2000, "exclude": False}},
    {"n": 1},
    {"chat_template_kwargs": {"thinking": False}, "min_tokens": 5, "length_penalty": 1.0},
]


@pytest.mark.parametrize("sampling", GOOD)
def test_sound_parameters_pass(sampling):
    """Those of other servers too."""
    check_sampling(sampling)


WRONG = [
    ({"include_reasoning": False}, "leave it in"),
    ({"reasoning": {"exclude": True}}, "leave it in"),
    ({"reasoning": {"effort": "high", "max_tokens": 5}}, "keep one of them"),
    ({"reasoning": {"effort": "huge"}}, "reasoning effort 'huge' is not known"),
    ({"reasoning_effort": "huge"}, "use one of max, xhigh"),
    ({"reasoning": {"effort": "low"}, "reasoning_effort": "high"}, "contradicts itself"),
    ({"reasoning": "high"}, "must be an object"),
    ({"temprature": 1}, r"temprature is not known; did you mean temperature\?"),
    ({"top-p": 1}, r"did you mean top_p\?"),
    ({"temperature": 2.5}, "between 0 and 2, not 2.5"),
    ({"temperature": "1"}, "between 0 and 2"),
    ({"top_p": True}, "between 0 and 1"),
    ({"top_k": 1.5}, "whole number"),
    ({"seed": "x"}, "seed must be a whole number"),
    ({"stop": ["###"]}, "does not end with its end token"),
    ({"stop_token_ids": [5]}, "does not end with its end token"),
    ({"ignore_eos": True}, "does not end with its end token"),
    ({"continue_final_message": True}, "the model's own template"),
    ({"skip_special_tokens": True}, "cannot be rebuilt"),
    ({"n": 2}, "every prompt gets one answer"),
    ({"session_id": "run-1"}, "every prompt to the same host"),
    ({"max_tokens": 5}, "bounds what an answer can cost"),
    ({"stream": True}, "the transport decides"),
    ({"provider": {"only": ["x"]}}, "routing options"),
    ({"plugins": []}, "must not be altered"),
    ({"model": "m"}, "comes from the dataset"),
]


@pytest.mark.parametrize(("sampling", "sentence"), WRONG)
def test_what_would_spoil_a_dataset_is_one_sentence(sampling, sentence):
    """Before anything is sent."""
    with pytest.raises(InputError, match=sentence) as caught:
        check_sampling(sampling)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", sorted(KNOWN))
def test_every_known_name_is_known(name):
    """None of them is taken for a misspelling of another."""
    check_sampling({name: None} if name != "reasoning" else {name: {}})


@pytest.mark.parametrize(
    ("sampling", "reasoning"),
    [
        ({}, {"exclude": False}),
        ({"include_reasoning": True}, {"exclude": False}),
        ({"reasoning_effort": "low"}, {"effort": "low", "exclude": False}),
        ({"reasoning": {"effort": "low"}}, {"effort": "low", "exclude": False}),
        ({"reasoning": {"max_tokens": 9, "exclude": None}}, {"max_tokens": 9, "exclude": False}),
    ],
)
def test_openrouter_is_told_once_and_never_to_exclude(sampling, reasoning):
    """The legacy and the short form become the one object."""
    assert openrouter_sampling({"seed": 7, **sampling}) == {"seed": 7, "reasoning": reasoning}


def test_what_is_asked_of_reasoning_reaches_openrouter():
    """The client's own wish does not replace it."""
    extras = Extras(is_openrouter=True)
    request = CompletionRequest(model="m", messages=[], max_tokens=5, sampling={"reasoning": {"effort": "high"}})
    adapted = extras.adapted(request)
    assert adapted.sampling["reasoning"] == {"effort": "high", "exclude": False}
    assert "reasoning" not in extras.for_call(request, Transport.PLAIN)


def test_other_servers_get_the_parameters_as_they_are():
    """Some know `include_reasoning` by that name."""
    request = CompletionRequest(model="m", messages=[], max_tokens=5, sampling={"include_reasoning": True})
    assert Extras(is_openrouter=False).adapted(request) is request
